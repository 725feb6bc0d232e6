# SPDX-License-Identifier: GPL-3.0-or-later
"""The array of a mirrored stack: made, given a member, grown; by mdadm, and read back from the kernel and the members' superblocks. I/O.

An array is known by the partitions of ours that are its members and by its UUID. Its name is another after a boot.
"""

from __future__ import annotations

import os
import time
from typing import Any, Callable, List, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_GUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import NEAR_2, MdArray, MdMember, was_run_apart
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import SYNCING
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_raids import read_md_arrays
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors import change_sync
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors.change_sync import member_of, named, wait_for_sync
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules

Look = Callable[[], Observation]
BITMAP_CHUNK = "64M"  # smaller ones cost commits more, see the guide on mirrors
_SETTLE_SECONDS = 30
_APPEARS = 30  # seconds
_PAUSE = 0.5
_REMOVALS = 20  # tries


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


def running_array(seen: Observation, step: Mapping[str, Any]) -> MdArray:
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


def newest_of(seen: Observation, array: MdArray) -> int:
    """The most events of a member that is in the array, which running_array() has found to have some."""
    return max(seen.md_superblocks[member.devno].events for member in array.members if member.devno in seen.md_superblocks and not member.faulty)


def _shape(step: Mapping[str, Any]) -> object:
    return ("raid10", NEAR_2, step["chunk_bytes"], len(step["members"]))


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
        mdadm(run, seen, ["--stop", "/dev/" + name], "the array /dev/%s, which does not run, could not be taken down" % name)
    shape = ["--level=10", "--layout=n2", "--raid-devices=%d" % len(nodes), "--chunk=%d" % (step["chunk_bytes"] // 1024), "--metadata=1.2"]
    shape += ["--data-offset=%dK" % (step["data_offset_bytes"] // 1024), "--bitmap=internal", "--bitmap-chunk=" + BITMAP_CHUNK]
    shape += ["--homehost=any", "--name=" + step["stack"], "--uuid=" + step["array"]] + (["--assume-clean"] if step["assume_clean"] else [])
    argv = ["--create", "/dev/md/" + step["stack"], "--run", *shape, *(node.path for node in nodes)]
    mdadm(run, seen, argv, "the array of stack '%s' could not be made" % step["stack"])
    array = _appeared(run, nodes[0].devno)
    wait_for_sync(array.name)
    read_back(look(), step)


def _appeared(run: Runner, devno: str) -> MdArray:
    """The array that has this member, when it is there for everybody."""
    end = time.monotonic() + _APPEARS
    while time.monotonic() < end:
        settle(run)
        found = next((array for array in read_md_arrays() if array.runs and member_of(array, devno)), None)
        if found:
            return found
        time.sleep(_PAUSE)
    raise PlumblineError("mdadm made an array, and the kernel shows none that runs; look at its log")


def read_back(after: Observation, step: Mapping[str, Any], left: int = 0) -> None:
    """All members are in sync but for so many that further steps give to the array; all are where they should be, and it uses as much of each as was asked."""
    array = running_array(after, step)
    offsets = {after.md_superblocks[one.devno].data_offset for one in array.members if one.devno in after.md_superblocks}
    if len(array.missing) > left or array.component != step["component_bytes"] or offsets != {step["data_offset_bytes"]}:
        text = "the array /dev/%s uses %d bytes of each member from byte %s on, and %d of its %d members are in sync; wanted %d from %d, and all; run again"
        there, good = ", ".join(map(str, sorted(offsets))) or "unknown", array.disks - len(array.missing)
        raise PlumblineError(text % (array.name, array.component, there, good, array.disks, step["component_bytes"], step["data_offset_bytes"]))


# --- members ---------------------------------------------------------------------------------------


def add_member(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """A blank partition, or a member that was away, takes the place of one that is gone. Waits until it holds what it should."""
    array, new = running_array(seen, step), member_node(seen, step, step["new"])
    inside, halts = member_of(array, new.devno), change_sync.halts(array.name)
    again = waits(array, inside)
    joins = again or not inside or inside.faulty or halts  # where md halts, it was to be a replacement, and the member that it was filled from has gone
    if joins and not (inside and not inside.faulty):
        check_new(seen, step, array, new)
    if check:
        return
    change_sync.thaw(array.name)
    for other in array.members if halts else ():
        if other.devno in seen.nodes and not other.in_sync and not other.faulty and other.slot >= 0:
            give_up(run, seen, array.name, other.devno)
    change_sync.let_go(array.name)
    if again:
        take_back(run, seen, array, new)
    if joins:
        array = named(array.name)
        _drop_lost(run, seen, array)
        change_sync.want_no_replacement(array.name)
        change_sync.count_anew(array.name)
        _join(run, seen, array, new, step["own_place"] and not halts)
    wait_for_sync(array.name, new.devno)
    check_filled(array.name, new)
    if not joins:
        check_unwatched(array.name, new, None)
    read_back(look(), step, max(len(array.missing) - 1, 0))


def give_up(run: Runner, seen: Observation, name: str, devno: str) -> bool:
    """Take a member out that is being filled. Its device stays as it is. False: it holds what it should by now, and stays in."""
    path = seen.nodes[devno].path
    change_sync.stop_copying(name)
    array = named(name)
    member = member_of(array, devno)
    ends = member is None or not member.in_sync
    try:
        if ends and member:
            mdadm(run, seen, ["--manage", "/dev/" + name, "--fail", path], "%s could not be taken out of the array /dev/%s" % (path, name))
            for more in reversed(range(_REMOVALS)):  # not while requests to it are under way
                code, out, err = run([tool_of(seen), "--manage", "/dev/" + name, "--remove", path])
                if not code:
                    break
                if not more:
                    must_succeed((code, out, err), "%s has failed, and could not be taken out of the array /dev/%s" % (path, name))
                time.sleep(_PAUSE)
        if ends:
            change_sync.let_go(name)
            change_sync.want_no_replacement(name)
    finally:
        change_sync.start_again(name)
    return ends


def check_unwatched(name: str, new: Node, old: Optional[Node]) -> None:
    """A member that was filled while nobody watched has what its partner has. Raises PlumblineError.

    It may have been a replacement, and lack what could not be read. A comparison leaves out what is noted as bad, and writes what one cannot read from the
    other: it says nothing where there is either.
    """
    array = named(name)
    filled, left = member_of(array, new.devno), member_of(array, old.devno) if old else None
    pair = [one for one in array.members if filled and one.in_sync and one.slot // 2 == filled.slot // 2] + ([left] if left else [])
    errors, bad = sum(one.errors for one in pair), sum(one.bad for one in pair)
    differ = change_sync.compare_members(name) if not errors and not bad else 0
    devices = {one.devno for one in pair}
    after = [one for one in named(name).members if one.devno in devices]
    errors, bad = max(errors, sum(one.errors for one in after)), max(bad, sum(one.bad for one in after))
    if differ or errors or bad:
        text = "%d sectors differ between the members, %d could not be read, and %d ranges are noted as bad" % (differ, errors, bad)
        raise PlumblineError(doubtful(name, new, old, text))


def doubtful(name: str, new: Node, old: Optional[Node], text: str) -> str:
    """The words for a member that may lack something, and has its place already."""
    words = "%s was filled, and may lack what md could not read [mirror]: %s; nothing was erased" % (new.path, text)
    if old:
        words += "; keep %s, which may have what is nowhere else" % old.path
    return words + "; mdadm --manage /dev/%s --fail %s, and the same run again, fill it from its partner from end to end" % (name, new.path)


def check_new(seen: Observation, step: Mapping[str, Any], array: MdArray, new: Node) -> None:
    """What joins is blank, or was a member and is older. Raises PlumblineError."""
    found = seen.md_superblocks.get(new.devno)
    newest = newest_of(seen, array)
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
            mdadm(run, seen, ["--manage", "/dev/" + array.name, *extra, "--remove", word], "what the array /dev/%s has lost could not be removed" % array.name)


def _join(run: Runner, seen: Observation, array: MdArray, new: Node, by_bitmap: bool) -> None:
    """Take a member back, by what the array has noted that it missed; or fill it from end to end."""
    at, fault = "/dev/" + array.name, "%s could not be added to the array /dev/%s" % (new.path, array.name)
    if by_bitmap and new.devno in seen.md_superblocks and not run([tool_of(seen), "--manage", at, "--re-add", new.path])[0]:
        return
    if new.devno in seen.md_superblocks:
        mdadm(run, seen, ["--zero-superblock", new.path], fault)  # it is older, and the spec names it
    mdadm(run, seen, ["--manage", at, "--add", new.path], fault)


def waits(array: MdArray, inside: Optional[MdMember]) -> bool:
    """Whether a member has no place, and the array fills none: md does not try a copy again that it has interrupted, until a member comes anew."""
    return inside is not None and inside.slot < 0 and not inside.faulty and change_sync.read_setting(array.name, "sync_action") == "idle"


def take_back(run: Runner, seen: Observation, array: MdArray, new: Node) -> None:
    """Take what has no place out of the array, so that it can come anew: a spare, or one that has failed."""
    mdadm(run, seen, ["--manage", "/dev/" + array.name, "--remove", new.path], "%s could not be taken out of the array /dev/%s" % (new.path, array.name))


def check_filled(name: str, new: Node) -> None:
    """A member that was filled holds all that it should. Raises PlumblineError where md has noted what could not be read meanwhile."""
    member = member_of(named(name), new.devno)
    if member and member.bad:
        text = "%s was filled, but for %d ranges that could not be read [degraded]: what is there has one copy at most; nothing was erased; wanted all"
        text += "; mdadm --examine-badblocks %s says where; keep the device that it replaces until a backup or a replica has what is there"
        text += ", and take it out by your own tools then"
        raise PlumblineError(text % (new.path, member.bad, new.path))


# --- grown -----------------------------------------------------------------------------------------


def grow_array(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """mdadm --grow --size: the array takes in what its partitions have more. These were proven blank as they grew."""
    array, wanted = running_array(seen, step), step["component_bytes"]
    short = [node.path for node in (member_node(seen, step, guid) for guid in step["members"]) if node.size < step["data_offset_bytes"] + wanted]
    action = change_sync.read_setting(array.name, "sync_action")
    if array.missing or action in SYNCING or short or array.component > wanted:
        text = "the array /dev/%s is not grown: %d of its members are not in sync, it is at '%s', too short are: %s; nothing was changed; run again [degraded]"
        raise PlumblineError(text % (array.name, len(array.missing), action, ", ".join(short) or "none"))
    if check:
        return
    change_sync.thaw(array.name)
    change_sync.let_go(array.name)
    if array.component < wanted:
        argv = ["--grow", "/dev/" + array.name, "--size=%d" % (wanted // 1024)] + (["--assume-clean"] if step["assume_clean"] else [])
        mdadm(run, seen, argv, "the array /dev/%s could not be grown" % array.name)
    wait_for_sync(array.name)
    read_back(look(), step)


# --- mdadm ------------------------------------------------------------------------------------------


def settle(run: Runner) -> None:
    if os.path.exists("/run/udev/control"):
        run(["udevadm", "settle", "--timeout=%d" % _SETTLE_SECONDS])


def tool_of(seen: Observation) -> str:
    if "mdadm" not in seen.tools:
        raise PlumblineError("mdadm: not on this host; install mdadm")
    return seen.tools["mdadm"]


def mdadm(run: Runner, seen: Observation, argv: Sequence[str], fault: str) -> None:
    must_succeed(run([tool_of(seen), *argv]), fault)
