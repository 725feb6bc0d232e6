# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host's arrays with redundancy are at, and what their last check found: by sysfs for md, by dmsetup for LVM's (dm-raid). Only reads. I/O."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid import is_raid_map, parse_raid_status
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import md_state
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import read_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner

_FILES = ("sync_action", "sync_completed", "resync_start", "mismatch_cnt", "last_sync_action")


def read_raids(run: Runner, seen: Observation) -> None:
    """Put what the arrays say into the observation. The tool is run only where there is a map of dm-raid."""
    for devno, node in seen.nodes.items():
        if node.kind == "md":
            files = {name: read_text("/sys/class/block/%s/md/%s" % (node.name, name)) for name in _FILES}
            if files["sync_action"]:  # an array without redundancy has no such file
                seen.raids[devno] = md_state(files)
    maps = {node.title: devno for devno, node in seen.nodes.items() if is_raid_map(node)}
    if maps and "dmsetup" in seen.tools:
        # Without --noflush a thin pool would write its metadata, as dmsetup(8) says.
        code, out, err = run([seen.tools["dmsetup"], "status", "--target", "raid", "--noflush", "--manglename", "none"])
        if code:
            raise PlumblineError("dmsetup status failed: %s" % (err.strip() or "return code %d" % code))
        for title, status in parse_raid_status(out, list(maps)).items():
            devno = maps.get(title, "")
            if devno:
                seen.raids[devno] = status.state
                _note_lost(seen, devno, status.width, status.lost)


def _note_lost(seen: Observation, devno: str, width: int, lost: int) -> None:
    """The members that dm-raid has given up. Its table has them until LVM loads another one."""
    node = seen.nodes[devno]
    segments = tuple(one._replace(width=one.width or width, degraded=max(one.degraded, lost)) for one in node.segments)
    seen.nodes[devno] = node._replace(segments=segments)
