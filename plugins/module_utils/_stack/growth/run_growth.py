# SPDX-License-Identifier: GPL-3.0-or-later
"""One step by which a stack that stands grows: observe, compare with the plan, act, read back. I/O."""

from __future__ import annotations

import time
from typing import Any, Dict, List, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth import change_group
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth.change_filesystem import grow_filesystem
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth.change_partitions import grow_partitions, restore_tables
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import (
    EXTEND_VG,
    GROW_FILESYSTEM,
    GROW_LV,
    GROW_PARTITION,
    GROW_PV,
    REFRESH_LV,
    RESTORE_TABLE,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes.standing_disks import check_standing

_TABLES = {RESTORE_TABLE: restore_tables, GROW_PARTITION: grow_partitions}
_ACTIONS = {
    GROW_PV: change_group.grow_pvs,
    EXTEND_VG: change_group.extend_group,
    REFRESH_LV: change_group.refresh_volume,
    GROW_LV: change_group.grow_volume,
    GROW_FILESYSTEM: grow_filesystem,
}
_TRIES = 20  # a second or more each
_TAKES_ROOM = (EXTEND_VG, GROW_LV)  # what it takes has to be blank


def take_step(run: Runner, step: Mapping[str, Any], check: bool) -> List[str]:
    """Carry out one step; with *check* only what is looked at before it. Returns the backups that were made. Raises PlumblineError."""
    seen = _look(run, step, step["action"] in _TAKES_ROOM)
    check_standing(seen, step, step["action"] == RESTORE_TABLE)
    if step["action"] in _TABLES:
        backups = _TABLES[step["action"]](run, seen, step["disks"], check)
        if step["action"] == RESTORE_TABLE and not check:
            _wait_for_others(run, step)
        return backups
    _ACTIONS[step["action"]](run, seen, step, lambda: _look(run, step, False), check)
    return []


def _wait_for_others(run: Runner, step: Mapping[str, Any]) -> None:
    """Until LVM and systemd have done with a partition that came back, or for some time: what is planned next must not be read meanwhile."""
    for _try in range(_TRIES):
        seen = _look(run, step, False)
        lazy = [lv for lv in seen.lvm.lvs if lv.vg == step["stack"] and not lv.active]
        tree = {node.devno for disk in step["disks"] if disk["device"] in seen.paths for node in seen.tree(seen.paths[disk["device"]])}
        named = {entry.spec for entry in seen.fstab if "noauto" not in entry.options}
        waiting = [devno for devno in tree if devno in seen.filesystems and "UUID=" + seen.filesystems[devno].uuid in named and not seen.mounted(devno)]
        if not lazy and not waiting:
            return
        time.sleep(1)


def _look(run: Runner, step: Mapping[str, Any], prove: bool) -> Observation:
    """The stack's disks, and all on them. *prove*: also whether what is free is blank."""
    volumes = ((step["stack"], ""),) if prove else ()  # an LV that is still to be made: what no LV has is proven
    full = any(disk["full_proof"] for disk in step["disks"])
    ask = Questions(devices=tuple((disk["device"], disk["test_identity"]) for disk in step["disks"]), volumes=volumes, full_proof=full, prove=prove)
    return observe(run, ask)


def done(step: Mapping[str, Any]) -> Dict[str, Any]:
    """What is returned of a step."""
    return {"action": step["action"], "stack": step["stack"], "lv": step["lv"], "size_bytes": step["size_bytes"]}
