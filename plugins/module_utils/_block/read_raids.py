# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host's arrays with redundancy are at, and what their last check found: by sysfs for md, by dmsetup for LVM's (dm-raid). Only reads. I/O."""

from __future__ import annotations

import contextlib
import os
from typing import Dict, List

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import (
    NEAR_2,
    SUPERBLOCK_AT,
    SUPERBLOCK_BYTES,
    MdArray,
    MdMember,
    parse_md_superblock,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import our_name
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid import is_raid_map, parse_raid_status
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import md_state
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import read_size, read_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner

_FILES = ("sync_action", "sync_completed", "resync_start", "mismatch_cnt", "last_sync_action")


def read_raids(run: Runner, seen: Observation) -> None:
    """Put what the arrays say into the observation. The tool is run only where there is a map of dm-raid."""
    seen.md_arrays = read_md_arrays()
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


_BAD_BLOCKS = ("bad_blocks", "unacknowledged_bad_blocks")  # a line for each range; Documentation/admin-guide/md.rst
_MEMBER = "linux_raid_member"  # what libblkid calls one
_BASE = "/sys/class/block"
_NUMBERS = "/sys/dev/block"  # major:minor of a block device → its folder


def read_md_arrays() -> List[MdArray]:
    """The arrays of md that the kernel has, those included that do not run: these have no size, and are no block devices to others."""
    names = [name for name in sorted(os.listdir(_BASE)) if name.startswith("md") and os.path.isdir("%s/%s/md" % (_BASE, name))]
    arrays = []
    for name in names:
        at = "%s/%s/md" % (_BASE, name)
        members = []
        for entry in sorted(os.listdir(at)):
            if entry.startswith("dev-"):
                devno = read_text("%s/%s/block/dev" % (at, entry))  # the link of a device that has gone leads nowhere
                slot, states = read_text("%s/%s/slot" % (at, entry)), read_text("%s/%s/state" % (at, entry))
                bad = sum(len(read_text("%s/%s/%s" % (at, entry, file)).splitlines()) for file in _BAD_BLOCKS)
                words, errors = tuple(word for word in states.replace(",", " ").split()), read_size("%s/%s/errors" % (at, entry))
                members.append(MdMember(devno, int(slot) if slot.isdigit() else -1, words, bad, errors))
        level, state = read_text(at + "/level"), read_text(at + "/array_state")
        layout, chunk, disks, kib = (read_size("%s/%s" % (at, what)) for what in ("layout", "chunk_size", "raid_disks", "component_size"))
        devno, bitmap = read_text("%s/%s/dev" % (_BASE, name)), read_text(at + "/bitmap/location")
        halt = read_size(at + "/sync_max")
        arrays.append(MdArray(name, devno, state, level, layout, chunk, disks, kib * 1024, tuple(members), bitmap, halt))
    return [array for array in arrays if array.state != "clear"]


def read_mirrored_disks() -> Dict[str, str]:
    """Disks with a member of a mirrored stack whose partner has the same, by the kernel's names → the stack, by the name of the partition. Sysfs alone."""
    found = {}
    with contextlib.suppress(OSError):  # an array that goes meanwhile
        for array in read_md_arrays():
            whole = (array.level, array.layout) == ("raid10", NEAR_2) and array.runs and not array.failed
            for member in array.members if whole else ():
                others = [one for one in array.members if one.in_sync and not one.bad and one.devno != member.devno]
                partners = [one.devno for one in others if one.slot // 2 == member.slot // 2]
                at = os.path.realpath("%s/%s" % (_NUMBERS, member.devno))
                rows = dict(row.split("=", 1) for row in read_text(at + "/uevent").splitlines() if "=" in row)
                name = our_name(rows.get("PARTNAME", ""))
                if name and (member.slot < 0 or partners):  # one that has failed has no place, and the others have all
                    found[os.path.basename(os.path.dirname(at))] = name[0]
    return found


def read_md_superblocks(seen: Observation) -> None:
    """What the members of arrays say that are in one now, or look as if they had been. Called when the signatures are known."""
    inside = {member.devno for array in seen.md_arrays for member in array.members}
    looking = {devno for devno, found in seen.signatures.items() if any(one.type == _MEMBER for one in found)}
    for devno in sorted(inside | looking):
        node = seen.nodes.get(devno)
        if node and node.kind == "part":
            with contextlib.suppress(OSError):  # of one that is gone, or cannot be read, nothing is known
                ((_at, raw),) = block_device.read_pieces(node.path, [(SUPERBLOCK_AT, SUPERBLOCK_BYTES)])
                found = parse_md_superblock(raw)
                if found:
                    seen.md_superblocks[devno] = found
