# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the disks of a step on a stack that stands are the planned ones. Pure."""

from __future__ import annotations

from typing import Any, List, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_ours
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError


def check_standing(seen: Observation, step: Mapping[str, Any], restores: bool = False) -> None:
    """Each disk is the planned one and has our partition, and no other. *restores*: by the backup of its table. Raises PlumblineError."""
    reasons: List[str] = []
    for disk in step["disks"]:
        devno = seen.paths.get(disk["device"], "")
        against = guards.exchanged_reasons(seen, devno, disk)
        against += guards.identity_reasons(seen, seen.nodes[devno]) if devno else []
        reasons += [reason.line(disk["device"]) for reason in against]
        table = seen.tables.get(devno) if devno else None
        if table and restores:
            table = table._replace(entries=table.spare, fault="")
        if devno and not (is_ours(table, step["stack"]) and table and table.entries[0].guid == disk["guid"]):
            text = "%s: its table is not the one of stack '%s' that was planned [table]; look at it and run again"
            reasons.append(text % (device_label(seen.nodes[devno]), step["stack"]))
    if not step["disks"]:
        reasons.append("the step names no disk")
    if reasons:
        raise PlumblineError("refused at the write: a disk is not as it was planned", reasons)
