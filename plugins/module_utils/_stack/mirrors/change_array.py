# SPDX-License-Identifier: GPL-3.0-or-later
"""The array of a mirrored stack: made, given a member, grown; by mdadm, and read back from the kernel and the members' superblocks. I/O.

An array is known by the partitions of ours that are its members and by its UUID. Its name is another after a boot.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.change_sysfs_settings import write_setting
from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_GUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import NEAR_2, MdArray, MdMember, was_run_apart
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import SYNCING, WAITING, parse_ratio
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_raids import read_md_arrays
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import read_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules

Look = Callable[[], Observation]
BITMAP_CHUNK = "64M"  # smaller ones cost commits more, see the guide on mirrors
_ACTION = "/sys/class/block/%s/md/sync_action"
_COMPLETED = "/sys/class/block/%s/md/sync_completed"
_SETTLE_SECONDS = 30
_APPEARS = 30  # seconds
_PAUSE = 0.5
_MOST_ENDS = 20  # times that a copy is begun anew: one is where another member comes or goes, and md tries for ever what it cannot read
_FROZEN_WAITS = 10  # pauses for an mdadm that is at work
_MOST_WAITS = 240  # pauses in which a member that is to be filled is not; another array on the same disks may be filled before


# --- what there is ---------------------------------------------------------------------------------


def member_node(seen: Observation, step: Mapping[str, Any], guid: str) -> Node:
    """The partition of ours with this GUID. Raises PlumblineError where the kernel shows none, or one that is not on the disk that the step has for it."""
    devno = seen.led_to.get(BY_GUID + guid.lower(), "")
    if devno not in seen.nodes:
        raise PlumblineError("the partition %s is not there; nothing was changed; run again" % guid)
    node, planned = seen.nodes[devno], [disk["device"] for disk in step["disks"] if disk["guid"].lower() == guid.lower()]
    if [seen.paths.get(device) for device in planned] != [node.parent]:
        text = "the partition %s leads to %s, and was planned on %s [identity]: one disk is a copy of the other; take the copy away, or give it other GUIDs"
        raise PlumblineError((text + " (sgdisk -G); nothing was changed") % (guid, node.path, " and ".join(planned) or "no disk"))
    return node


def _running(seen: Observation, step: Mapping[str, Any]) -> MdArray:
    """The array of the stack. Raises PlumblineError unless one runs that has the planned UUID and shape."""
    parts = [member_node(seen, step, guid).devno for guid in step["members"]]
    found = [array for array in seen.md_arrays if array.runs and any(member.devno in parts for member in array.members)]
    if len(found) != 1:
        raise PlumblineError("the array of stack '%s' does not run, or there are several; nothing was changed; run again" % step["stack"])
    array = found[0]
    uuids = {seen.md_superblocks[one.devno].uuid for one in array.members if one.devno in seen.md_superblocks and not one.faulty}
    if uuids != {step["array"]} or (array.level, array.layout, array.chunk, array.disks) != _shape(step):
        text = "/dev/%s is not the array that was planned [mirror]: UUID %s, %s, layout %#x, chunk %d, %d members; nothing was changed; run again"
        raise PlumblineError(text % (array.name, ", ".join(sorted(uuids)) or "unknown", array.level, array.layout, array.chunk, array.disks))
    if array.failed:  # an older member that would be added to it may be the only one that has the data
        text = "/dev/%s has failed [damaged]: it is '%s', and no member holds the places %s; nothing was changed; bring back the device that was lost last"
        raise PlumblineError(text % (array.name, array.state, ", ".join(map(str, array.lost)) or "that it cannot reach"))
    return array


def _newest(seen: Observation, array: MdArray) -> int:
    """The most events of a member that is in the array, which _running() has found to have some."""
    return max(seen.md_superblocks[member.devno].events for member in array.members if member.devno in seen.md_superblocks and not member.faulty)


def _shape(step: Mapping[str, Any]) -> object:
    return ("raid10", NEAR_2, step["chunk_bytes"], len(step["members"]))


def _member(array: MdArray, devno: str) -> Optional[MdMember]:
    return next((member for member in array.members if member.devno == devno), None)


def _named(name: str) -> MdArray:
    """An array as it is now. Raises PlumblineError where it has gone."""
    found = next((array for array in read_md_arrays() if array.name == name and array.runs), None)
    if found is None:
        raise PlumblineError("the array /dev/%s does not run any more; look at the kernel's log" % name)
    return found


# --- made ------------------------------------------------------------------------------------------


def create_array(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """mdadm --create, over partitions that hold nothing, or what an earlier run left of this very array before anything was written to it."""
    nodes = [member_node(seen, step, guid) for guid in step["members"]]
    reasons: List[str] = []
    for node in nodes:
        array, found, proof = seen.array_over(node.devno), seen.md_superblocks.get(node.devno), seen.proofs.get(node.devno)
        if array and array.runs:
            reasons.append("%s is a member of /dev/%s, which runs [held]; run again" % (node.path, array.name))
        elif found and (found.uuid != step["array"] or proof is None or proof.faults):
            reasons.append("%s is a member of an array that may hold data, %s [mirror]; look at it" % (node.path, found.uuid))
        elif not found:
            reasons += [reason.words for reason in volume_rules.part_content_reasons(seen, node, step["stack"])]
    if reasons:
        raise PlumblineError("refused at the write: a partition is not as it was planned; nothing was changed", reasons)
    if check:
        return
    for name in sorted({array.name for array in map(seen.array_over, (node.devno for node in nodes)) if array}):
        _mdadm(run, seen, ["--stop", "/dev/" + name], "the array /dev/%s, which does not run, could not be taken down" % name)
    shape = ["--level=10", "--layout=n2", "--raid-devices=%d" % len(nodes), "--chunk=%d" % (step["chunk_bytes"] // 1024), "--metadata=1.2"]
    shape += ["--data-offset=%dK" % (step["data_offset_bytes"] // 1024), "--bitmap=internal", "--bitmap-chunk=" + BITMAP_CHUNK]
    shape += ["--homehost=any", "--name=" + step["stack"], "--uuid=" + step["array"]] + (["--assume-clean"] if step["assume_clean"] else [])
    argv = ["--create", "/dev/md/" + step["stack"], "--run", *shape, *(node.path for node in nodes)]
    _mdadm(run, seen, argv, "the array of stack '%s' could not be made" % step["stack"])
    array = _appeared(run, nodes[0].devno)
    wait_for_sync(array.name)
    _read_back(look(), step)


def _appeared(run: Runner, devno: str) -> MdArray:
    """The array that has this member, when it is there for everybody."""
    end = time.monotonic() + _APPEARS
    while time.monotonic() < end:
        _settle(run)
        found = next((array for array in read_md_arrays() if array.runs and _member(array, devno)), None)
        if found:
            return found
        time.sleep(_PAUSE)
    raise PlumblineError("mdadm made an array, and the kernel shows none that runs; look at its log")


def _read_back(after: Observation, step: Mapping[str, Any], left: int = 0) -> None:
    """All members are in sync but for so many that further steps give to the array; all are where they should be, and it uses as much of each as was asked."""
    array = _running(after, step)
    offsets = {after.md_superblocks[one.devno].data_offset for one in array.members if one.devno in after.md_superblocks}
    if len(array.missing) > left or array.component != step["component_bytes"] or offsets != {step["data_offset_bytes"]}:
        text = "the array /dev/%s uses %d bytes of each member from byte %s on, and %d of its %d members are in sync; wanted %d from %d, and all; run again"
        there, good = ", ".join(map(str, sorted(offsets))) or "unknown", array.disks - len(array.missing)
        raise PlumblineError(text % (array.name, array.component, there, good, array.disks, step["component_bytes"], step["data_offset_bytes"]))


# --- members ---------------------------------------------------------------------------------------


def add_member(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """A blank partition, or a member that was away, takes the place of one that is gone. Waits until it holds what it should."""
    array, new = _running(seen, step), member_node(seen, step, step["new"])
    inside = _member(array, new.devno)
    again = _waits(array, inside)
    joins = again or not inside or inside.faulty
    if joins and not again:
        _check_new(seen, step, array, new)
    if check:
        return
    _thaw(array.name)
    if again:
        _take_back(run, seen, array, new)
    if joins:
        _drop_lost(run, seen, array)
        _join(run, seen, step, array, new)
    wait_for_sync(array.name, new.devno)
    _check_filled(array.name, new)
    _read_back(look(), step, max(len(array.missing) - 1, 0))


def _check_new(seen: Observation, step: Mapping[str, Any], array: MdArray, new: Node) -> None:
    """What joins is blank, or was a member and is older. Raises PlumblineError."""
    found = seen.md_superblocks.get(new.devno)
    newest = _newest(seen, array)
    if found and (found.uuid != step["array"] or was_run_apart(found, array, newest)):
        text = "%s is a member of another array, or was run apart from this one [stale]: %s, %d events, the array %d; nothing was changed"
        raise PlumblineError(text % (new.path, found.uuid, found.events, newest))
    reasons = [] if found else [reason.words for reason in volume_rules.part_content_reasons(seen, new, step["stack"])]
    if reasons:
        raise PlumblineError("refused at the write: what would join the array holds something; nothing was changed", reasons)


def _drop_lost(run: Runner, seen: Observation, array: MdArray) -> None:
    """Let the array forget members that have failed or whose device is gone."""
    for word, lost in (("failed", any(one.faulty for one in array.members)), ("detached", any(one.devno not in seen.nodes for one in array.members))):
        if lost:
            extra = ["--fail", word] if word == "detached" else []
            _mdadm(run, seen, ["--manage", "/dev/" + array.name, *extra, "--remove", word], "what the array /dev/%s has lost could not be removed" % array.name)


def _join(run: Runner, seen: Observation, step: Mapping[str, Any], array: MdArray, new: Node) -> None:
    """Take a member back by the bitmap, where the array has noted what it missed; else it is filled as a new one."""
    at, fault = "/dev/" + array.name, "%s could not be added to the array /dev/%s" % (new.path, array.name)
    if new.devno in seen.md_superblocks:
        code, _out, _err = run([_tool(seen), "--manage", at, "--re-add", new.path])
        if not code:
            return
        _mdadm(run, seen, ["--zero-superblock", new.path], fault)  # it is older, and the spec names it
    _mdadm(run, seen, ["--manage", at, "--add", new.path], fault)


def replace_member(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """A new member is filled beside the old one, which goes then. What an earlier run has done of it is not done again."""
    array, new, old = _running(seen, step), member_node(seen, step, step["new"]), member_node(seen, step, step["old"])
    inside, beside = _member(array, new.devno), _member(array, old.devno)
    again = _waits(array, inside)
    if not inside:
        _check_new(seen, step, array, new)
    _check_old(seen, step, array, old, beside)
    _check_place(array, new, old, None if again else inside, beside)
    if check:
        return
    at = "/dev/" + array.name
    _thaw(array.name)
    if again:
        _take_back(run, seen, array, new)
    if not inside or again:
        _mdadm(run, seen, ["--manage", at, "--add-spare", new.path], "%s could not be added to the array %s" % (new.path, at))
    if beside and beside.in_sync and "want_replacement" not in beside.states and not (inside and inside.in_sync):
        argv = ["--manage", at, "--replace", old.path, "--with", new.path]
        _mdadm(run, seen, argv, "%s could not be replaced in the array %s" % (old.path, at))
    wait_for_sync(array.name, new.devno)
    _check_filled(array.name, new)
    now = _named(array.name)
    left, filled = _member(now, old.devno), _member(now, new.devno)
    if beside and beside.slot >= 0 and filled and filled.slot != beside.slot:  # a spare that the kernel took for another member that failed meanwhile
        text = "%s has got place %d of the array %s, and not place %d of %s [mirror]; nothing was taken out; look at mdadm --detail %s, and run again"
        raise PlumblineError(text % (new.path, filled.slot, at, beside.slot, old.path, at))
    if left:
        if left.in_sync:
            raise PlumblineError("%s is in use in the array %s, and %s is as well; look at mdadm --detail %s" % (old.path, at, new.path, at))
        _mdadm(run, seen, ["--manage", at, "--remove", old.path], "%s, which was replaced, could not be taken out of the array %s" % (old.path, at))
    cleared = run([_tool(seen), "--zero-superblock", old.path])
    _settle(run)
    _read_back(look(), step, len(array.missing))
    must_succeed(cleared, "%s was replaced, and its member superblock could not be cleared; take it out before the next boot" % old.path)


def _waits(array: MdArray, inside: Optional[MdMember]) -> bool:
    """Whether a member has no place, and the array fills none: md does not try a copy again that it has interrupted, until a member comes anew."""
    return inside is not None and inside.slot < 0 and not inside.faulty and read_text(_ACTION % array.name) == "idle"


def _take_back(run: Runner, seen: Observation, array: MdArray, new: Node) -> None:
    """Take a spare out of the array, so that it can come anew. It holds nothing."""
    _mdadm(run, seen, ["--manage", "/dev/" + array.name, "--remove", new.path], "%s could not be taken out of the array /dev/%s" % (new.path, array.name))


def _check_filled(name: str, new: Node) -> None:
    """A member that was filled holds all that it should. Raises PlumblineError where md has noted what could not be read meanwhile."""
    member = _member(_named(name), new.devno)
    if member and member.bad:
        text = "%s was filled, but for %d ranges that could not be read [degraded]: what is there has one copy at most; nothing was erased; wanted all"
        text += "; mdadm --examine-badblocks %s says where; keep the device that it replaces until a backup or a replica has what is there"
        text += ", and take it out by your own tools then"
        raise PlumblineError(text % (new.path, member.bad, new.path))


def _check_old(seen: Observation, step: Mapping[str, Any], array: MdArray, old: Node, beside: Optional[MdMember]) -> None:
    """What is replaced is a member, or was one and is older. Raises PlumblineError."""
    found = seen.md_superblocks.get(old.devno)
    newest = _newest(seen, array)
    if not beside and (not found or found.uuid != step["array"] or was_run_apart(found, array, newest)):
        raise PlumblineError("%s is no member of the array, nor an older one [mirror]; nothing was changed; run again" % old.path)


def _check_place(array: MdArray, new: Node, old: Node, inside: Optional[MdMember], beside: Optional[MdMember]) -> None:
    """A member that is in use is replaced in its own place, and while no other is empty: the kernel puts a spare there at once. Raises PlumblineError."""
    if inside and beside and min(inside.slot, beside.slot) >= 0 and inside.slot != beside.slot:
        text = "%s has place %d of the array /dev/%s, and %s place %d [mirror]; nothing was changed; name another in replace"
        raise PlumblineError(text % (new.path, inside.slot, array.name, old.path, beside.slot))
    if not inside and beside and beside.in_sync and array.missing:
        text = "%s is not replaced: %d of %d members of the array /dev/%s are not in sync [degraded]; nothing was changed; run again when they are"
        raise PlumblineError(text % (old.path, len(array.missing), array.disks, array.name))


# --- grown -----------------------------------------------------------------------------------------


def grow_array(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """mdadm --grow --size: the array takes in what its partitions have more. These were proven blank as they grew."""
    array, wanted = _running(seen, step), step["component_bytes"]
    short = [node.path for node in (member_node(seen, step, guid) for guid in step["members"]) if node.size < step["data_offset_bytes"] + wanted]
    action = read_text(_ACTION % array.name)
    if array.missing or action in SYNCING or short or array.component > wanted:
        text = "the array /dev/%s is not grown: %d of its members are not in sync, it is at '%s', too short are: %s; nothing was changed; run again [degraded]"
        raise PlumblineError(text % (array.name, len(array.missing), action, ", ".join(short) or "none"))
    if check:
        return
    _thaw(array.name)
    if array.component < wanted:
        argv = ["--grow", "/dev/" + array.name, "--size=%d" % (wanted // 1024)] + (["--assume-clean"] if step["assume_clean"] else [])
        _mdadm(run, seen, argv, "the array /dev/%s could not be grown" % array.name)
    wait_for_sync(array.name)
    _read_back(look(), step)


# --- waiting, and mdadm ----------------------------------------------------------------------------


def wait_for_sync(name: str, devno: str = "") -> None:
    """Until the array is at nothing, and the member *devno* holds what it should. The kernel goes on by itself whatever becomes of who waits."""
    idle = waits = ended = done = 0
    copied = False
    while idle < 2:  # between two actions it is idle for a moment
        array, action = _named(name), read_text(_ACTION % name)
        member = _member(array, devno) if devno else None
        if devno and (member is None or member.faulty):
            raise PlumblineError("the new member of /dev/%s failed while it was filled [degraded]; look at the kernel's log" % name)
        copies = action in SYNCING and action != WAITING
        busy = copies or (member is not None and not member.in_sync)
        at, _total = parse_ratio(read_text(_COMPLETED % name)) if copies else (0, 0)
        ended += (copies and at < done) or (copied and busy and not copies)
        copied, done = copies, at
        idle, waits = (0 if busy else idle + 1), (waits + 1 if busy and not copies else 0)
        if waits > _MOST_WAITS or ended > _MOST_ENDS:
            how = "md has ended the copy %d times" % ended if ended > _MOST_ENDS else "the array is at '%s'" % action
            text = "the new member of /dev/%s is not filled: %s [degraded]; nothing was taken out; look at mdadm --detail and the kernel's log%s"
            raise PlumblineError(text % (name, how, _known_bad(array)))
        time.sleep(_PAUSE)


def _known_bad(array: MdArray) -> str:
    """What to do where members have noted blocks that cannot be read: md interrupts a copy at one that no member holds."""
    ranges = sum(member.bad for member in array.members)
    text = "; its members have noted %d ranges of blocks that they do not hold (mdadm --examine-badblocks of each), and md ends a copy at one that none holds"
    return text % ranges + ": write these blocks again, from a replica or a backup, and run again" if ranges else ""


def _thaw(name: str) -> None:
    """md fills no member of an array that is frozen. mdadm freezes it for the moment in which it changes it; one that was killed leaves it so."""
    at = _ACTION % name
    for _pause in range(_FROZEN_WAITS):
        if read_text(at) != "frozen":
            return
        time.sleep(_PAUSE)
    try:
        write_setting(at, "idle")
    except OSError as error:
        text = "the array /dev/%s is frozen, and could not be thawed: %s: %s; nothing was changed; run again"
        raise PlumblineError(text % (name, at, error.strerror)) from error


def _settle(run: Runner) -> None:
    if os.path.exists("/run/udev/control"):
        run(["udevadm", "settle", "--timeout=%d" % _SETTLE_SECONDS])


def _tool(seen: Observation) -> str:
    if "mdadm" not in seen.tools:
        raise PlumblineError("mdadm: not on this host; install mdadm")
    return seen.tools["mdadm"]


def _mdadm(run: Runner, seen: Observation, argv: Sequence[str], fault: str) -> None:
    must_succeed(run([_tool(seen), *argv]), fault)
