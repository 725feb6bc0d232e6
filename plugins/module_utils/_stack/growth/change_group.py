# SPDX-License-Identifier: GPL-3.0-or-later
"""A volume group of ours that grows: its PVs, more of them, and its volumes. I/O.

The common module for LVs extends none whose segments differ, takes no PVs for what it adds and returns the size from before (community.general, issue 9741). So
these few commands of LVM are called here, with the PVs by name and with absolute sizes. LVM has to list all PVs of the group before each and after it.
"""

from __future__ import annotations

import time
from typing import Any, Callable, List, Mapping, Sequence, Set

from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules

Look = Callable[[], Observation]
RESUME_TRIES = 10  # seconds


def members_of(seen: Observation, step: Mapping[str, Any]) -> Set[str]:
    """The PVs of the group, by device number. Raises PlumblineError unless LVM lists them all, and none but those on partitions of the stack."""
    guids = {"/dev/disk/by-partuuid/" + disk["guid"].lower() for disk in step["disks"]}
    parts = _carriers(seen, {seen.led_to[path] for path in guids if path in seen.led_to})
    found = {pv.devno for pv in seen.lvm.pvs if pv.vg == step["stack"]}
    hidden = [one for devno, one in seen.hidden.items() if one.vg == step["stack"] or devno in parts]
    if hidden:
        raise PlumblineError("VG '%s': one of its PVs is %s [hidden]; nothing was changed" % (step["stack"], hidden[0].words))
    if not found or found - parts:
        text = "VG '%s' has PVs that are on no partition of the stack, or are missing, or it is not there; nothing was changed; run again"
        raise PlumblineError(text % step["stack"])
    return found


def _carriers(seen: Observation, parts: Set[str]) -> Set[str]:
    """What PVs can be on: these partitions, and in their place an array that has no members but those among them."""
    arrays = [array for array in seen.md_arrays if array.runs and {member.devno for member in array.members} & parts]
    inside = {member.devno for array in arrays for member in array.members}
    return (parts - inside) | {array.devno for array in arrays if {member.devno for member in array.members if member.devno} <= parts}


def grow_pvs(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """pvresize: each PV takes all of its partition."""
    members, wanted = members_of(seen, step), _devnos(seen, step["pvs"])
    if not wanted <= members:
        raise PlumblineError("VG '%s': %s: not all are PVs of it; nothing was changed; run again" % (step["stack"], ", ".join(step["pvs"])))
    if check:
        return
    _lvm(run, seen, ["pvresize", *_names(seen, step["pvs"])], "the PVs of VG '%s' could not be grown" % step["stack"])
    after = look()
    members_of(after, step)
    for devno in sorted(wanted):
        pv, room = after.pv(devno), after.nodes[devno].size
        if not pv or pv.extents != (room - pv.data_start) // step["extent_bytes"]:
            raise PlumblineError("PV %s has %d extents after pvresize, and %d bytes" % (after.nodes[devno].path, pv.extents if pv else 0, room))


def extend_group(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """vgextend: blank partitions of ours become PVs of the group. *seen* has been proven blank where it has to be."""
    members, new = members_of(seen, step), _devnos(seen, step["pvs"])
    if new & members:
        raise PlumblineError("VG '%s' has some of %s already; nothing was changed; run again" % (step["stack"], ", ".join(step["pvs"])))
    _refuse([reason.words for devno in sorted(new) for reason in volume_rules.part_content_reasons(seen, seen.nodes[devno], step["stack"])])
    if check:
        return
    argv = ["vgextend", "--dataalignment", "%db" % step["data_alignment_bytes"], step["stack"], *_names(seen, step["pvs"])]
    _lvm(run, seen, argv, "VG '%s' could not be extended" % step["stack"])
    after = look()
    if members_of(after, step) != members | new:
        raise PlumblineError("VG '%s' has other PVs after vgextend than it was given; look at pvs" % step["stack"])
    for devno in sorted(new):
        pv = after.pv(devno)
        if not pv or pv.data_start != step["data_alignment_bytes"]:
            text = "the data of PV %s begins at byte %d; wanted %d"
            raise PlumblineError(text % (after.nodes[devno].path, pv.data_start if pv else 0, step["data_alignment_bytes"]))


def grow_volume(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """lvextend on these PVs alone. *seen* has a proof that what no LV has of them is blank: an LV that was removed may have left its data there."""
    wanted = _devnos(seen, step["pvs"])
    lv = _volume(seen, step)
    if not wanted <= members_of(seen, step) or lv.size != step["from_bytes"] or not lv.active:
        text = "LV %s/%s has %d bytes (%s), and was planned to grow from %d on %s; nothing was changed; run again"
        state = "active" if lv.active else "inactive"
        raise PlumblineError(text % (lv.vg, lv.name, lv.size, state, step["from_bytes"], ", ".join(step["pvs"])))
    _refuse([reason.words for devno in sorted(wanted) for reason in volume_rules.free_reasons(seen, seen.nodes[devno])])
    if check:
        return
    shape = ["-i", str(step["stripes"]), "-I", "%db" % step["stripe_bytes"]] if step["stripes"] > 1 else []
    extents = str(step["size_bytes"] // step["extent_bytes"])
    argv = ["lvextend", *shape, "-l", extents, "%s/%s" % (lv.vg, lv.name), *_names(seen, step["pvs"])]
    _lvm(run, seen, argv, "LV %s/%s could not be grown" % (lv.vg, lv.name))
    _read_back(look(), step)


def refresh_volume(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """lvchange --refresh: the kernel's map becomes what the metadata says, and takes requests. ``lvchange -ay`` does nothing here, and says 0."""
    members_of(seen, step)
    lv, node = _volume(seen, step), seen.lv_node(step["stack"], step["lv"])
    if lv.size != step["size_bytes"] or not node or node.size > lv.size:
        text = "LV %s/%s has %d bytes in LVM's metadata and %d in the kernel; planned were %d; nothing was changed; run again"
        raise PlumblineError(text % (lv.vg, lv.name, lv.size, node.size if node else 0, step["size_bytes"]))
    if check or (node.size == lv.size and node.suspended and _is_resumed(node)):
        return
    for _time in range(2):  # of a map that is suspended the first one makes a map that takes requests, and the second one the map of the metadata
        _lvm(run, seen, ["lvchange", "--refresh", "%s/%s" % (lv.vg, lv.name)], "LV %s/%s could not be refreshed" % (lv.vg, lv.name))
        after = look()
        shown = after.lv_node(step["stack"], step["lv"])
        if shown and shown.size == lv.size and not shown.suspended:
            break
    _read_back(after, step)


def _is_resumed(node: Node) -> bool:
    """Whether somebody resumes the map himself within some seconds: another command of LVM, or who makes a snapshot in the array below."""
    for _try in range(RESUME_TRIES):
        if read_sysfs.read_text("/sys/class/block/%s/dm/suspended" % node.name) != "1":
            return True
        time.sleep(1)
    return False


def _read_back(after: Observation, step: Mapping[str, Any]) -> None:
    """Metadata and kernel have the volume as it was asked for, in segments of one kind, on PVs of the group."""
    members, lv, node = members_of(after, step), _volume(after, step), after.lv_node(step["stack"], step["lv"])
    size = step["size_bytes"]
    if lv.size != size or not node or node.size != size or node.suspended:
        text = "LV %s/%s has %d bytes in LVM's metadata and %d in the kernel; wanted %d in both; run again"
        raise PlumblineError(text % (lv.vg, lv.name, lv.size, node.size if node else 0, size))
    if len(lv.layouts) > 1 or (step["stripes"] > 1 and lv.layouts != ((step["stripes"], step["stripe_bytes"]),)):
        raise PlumblineError("LV %s/%s is striped in one way here and in another there: %s" % (lv.vg, lv.name, lv.layouts))
    strange = {leg for segment in node.segments for leg, _first in segment.legs} - members
    if strange or not node.segments:
        raise PlumblineError("LV %s/%s lies on %s, which is no PV of its VG" % (lv.vg, lv.name, ", ".join(sorted(strange)) or "nothing that is known"))


def _volume(seen: Observation, step: Mapping[str, Any]) -> Lv:
    found = seen.lv(step["stack"], step["lv"])
    if found is None:
        raise PlumblineError("LV %s/%s is not there; nothing was changed; run again" % (step["stack"], step["lv"]))
    return found


def _devnos(seen: Observation, paths: Sequence[str]) -> Set[str]:
    """The partitions that these paths lead to. Raises PlumblineError where one leads nowhere."""
    lost = [path for path in paths if path not in seen.led_to]
    if lost or not paths:
        raise PlumblineError("%s: no such partition; nothing was changed; run again" % (", ".join(lost) or "the step names no PV"))
    return {seen.led_to[path] for path in paths}


def _names(seen: Observation, paths: Sequence[str]) -> List[str]:
    """The paths as LVM takes them. It reads a colon as the beginning of a range of extents, so that an array goes by its name of this moment."""
    return [seen.nodes[seen.led_to[path]].path if ":" in path else path for path in paths]


def _refuse(reasons: List[str]) -> None:
    if reasons:
        raise PlumblineError("refused at the write: what would be taken holds something; nothing was changed", reasons)


def _lvm(run: Runner, seen: Observation, argv: Sequence[str], fault: str) -> None:
    if "lvm" not in seen.tools:
        raise PlumblineError("lvm: not on this host; install lvm2")
    must_succeed(run([seen.tools["lvm"], *argv]), fault)
