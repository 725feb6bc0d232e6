# SPDX-License-Identifier: GPL-3.0-or-later
"""A member of an array is replaced by another that is filled beside it. The copy is watched. I/O.

RAID 10 fills a replacement from the first of the pair alone. Where that cannot be read, md leaves out the whole piece, up to 512 KiB in the lab, of the new
member, and notes it nowhere (fix_recovery_read_error() in drivers/md/raid10.c knows no replacement; seen with Linux 6.1 and 6.12). It counts what it could not
read, in *errors* of the one that it read. So all members are compared before, the counts are zero when the copy begins, and md halts before its end until all
has been looked at. Where something could not be read, or one of the pair is lost, the new member is taken out.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Set

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import MdArray, MdMember, was_run_apart
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors import change_array, change_sync
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors.change_array import Look, mdadm, member_node
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors.change_sync import member_of, named


def replace_member(run: Runner, seen: Observation, step: Mapping[str, Any], look: Look, check: bool) -> None:
    """A new member is filled beside the old one, which goes then. What an earlier run has done of it, and can be trusted, is not done again."""
    array, new, old = change_array.running_array(seen, step), member_node(seen, step, step["new"]), member_node(seen, step, step["old"])
    name = array.name
    inside, beside = member_of(array, new.devno), member_of(array, old.devno)
    if not inside or inside.faulty:
        change_array.check_new(seen, step, array, new)
    _check_old(seen, step, array, old, beside)
    _check_place(array, new, old, None if change_array.waits(array, inside) else inside, beside)
    if check:
        return
    change_sync.thaw(name)
    if inside and inside.slot < 0 and not inside.faulty:
        change_sync.let_go(name)
        change_sync.wait_until_idle(name)  # md may give it a place meanwhile
        array = named(name)
        inside, beside = member_of(array, new.devno), member_of(array, old.devno)
    if inside and (inside.slot < 0 or inside.faulty):
        change_array.take_back(run, seen, array, new)
        inside = None
    elif inside and not inside.in_sync and not change_sync.halts(name) and change_array.give_up(run, seen, name, new.devno):
        inside = None  # it was begun by others, or before a boot: nobody has watched it
    if inside and inside.in_sync:
        change_array.check_filled(name, new)
        change_array.check_unwatched(name, new, old)
    else:
        _fill(run, seen, new, old, name, inside)
    now = named(name)
    left, filled = member_of(now, old.devno), member_of(now, new.devno)
    if beside and beside.slot >= 0 and filled and filled.slot != beside.slot:  # a spare that the kernel took for another member that failed meanwhile
        text = "%s has got place %d of the array /dev/%s, and not place %d of %s [mirror]; nothing was taken out; look at mdadm --detail /dev/%s, and run again"
        raise PlumblineError(text % (new.path, filled.slot, name, beside.slot, old.path, name))
    if left:
        if left.in_sync:
            raise PlumblineError("%s is in use in the array /dev/%s, and %s is as well; look at mdadm --detail /dev/%s" % (old.path, name, new.path, name))
        mdadm(run, seen, ["--manage", "/dev/" + name, "--remove", old.path], "%s, which was replaced, could not be taken out of /dev/%s" % (old.path, name))
    cleared = run([change_array.tool_of(seen), "--zero-superblock", old.path])
    change_array.settle(run)
    change_array.read_back(look(), step, len(array.missing))
    must_succeed(cleared, "%s was replaced, and its member superblock could not be cleared; take it out before the next boot" % old.path)


def _fill(run: Runner, seen: Observation, new: Node, old: Node, name: str, inside: Optional[MdMember]) -> None:
    """Begin the copy, unless one goes on that was begun with a halt, and wait for its end."""
    array = named(name)
    beside = member_of(array, old.devno)
    if not inside:
        change_sync.let_go(name)
        if beside and beside.in_sync:
            change_sync.compare_members(name)
            array = named(name)
            beside = member_of(array, old.devno)
            _check_place(array, new, old, None, beside)
        change_sync.want_no_replacement(name)
        change_sync.count_anew(name)
    watched = beside is not None and beside.in_sync
    pair = _pair_of(array, old) if watched else set()
    if inside and len(pair) < 2:
        _end(run, seen, array, new, old, "one of the pair has failed")
    try:
        if not inside:
            _begin(run, seen, array, new, old if watched else None)
        change_sync.wait_for_sync(name, new.devno, lambda now, member, done: _watch(run, seen, now, member, done, old, pair))
    except PlumblineError:
        if not any("replacement" in one.states and not one.faulty for one in named(name).members):
            change_sync.let_go(name)
        raise
    change_array.check_filled(name, new)
    if watched:
        _check_end(name, new, old)
    elif inside:
        change_array.check_unwatched(name, new, old)


def _begin(run: Runner, seen: Observation, array: MdArray, new: Node, old: Optional[Node]) -> None:
    """Give md the new member, and say what it replaces; without *old*, the place is empty."""
    at = "/dev/" + array.name
    if old:
        change_sync.halt_before_the_end(array)
    mdadm(run, seen, ["--manage", at, "--add-spare", new.path], "%s could not be added to the array %s" % (new.path, at))
    if old:
        argv = ["--manage", at, "--replace", old.path, "--with", new.path]
        mdadm(run, seen, argv, "%s could not be replaced in the array %s" % (old.path, at))


def _pair_of(array: MdArray, old: Node) -> Set[str]:
    """The devices that are in sync of the pair of an old member."""
    beside = member_of(array, old.devno)
    return {one.devno for one in array.members if beside and one.in_sync and "replacement" not in one.states and one.slot // 2 == beside.slot // 2}


def _watch(run: Runner, seen: Observation, array: MdArray, new: MdMember, done: int, old: Node, pair: Set[str]) -> None:
    """One look at a copy. md goes on behind the halt where both of the pair are in use as before, and all could be read. Raises PlumblineError."""
    if not pair or new.in_sync or new.slot < 0:
        return
    halted = change_sync.is_halted(array.name, done)
    if halted:
        array = named(array.name)  # what was counted before md halted
    lost = [one for one in change_sync.read_from(array, new.slot) if one.errors]
    if not pair <= _pair_of(array, old) or "replacement" not in new.states:
        _end(run, seen, array, seen.nodes[new.devno], old, "one of the pair has failed")
    elif lost:
        who = seen.nodes[lost[0].devno].path if lost[0].devno in seen.nodes else "a member"
        _end(run, seen, array, seen.nodes[new.devno], old, "%d sectors of %s could not be read" % (sum(one.errors for one in lost), who))
    elif halted:
        change_sync.let_go(array.name)


def _end(run: Runner, seen: Observation, array: MdArray, new: Node, old: Node, why: str) -> None:
    """Take the new member out, and say why. Raises PlumblineError, unless it has its place by now."""
    beside = member_of(array, old.devno)
    partners = [one for one in array.members if beside and one.in_sync and one.slot // 2 == beside.slot // 2 and one.devno not in (old.devno, new.devno)]
    if not change_array.give_up(run, seen, array.name, new.devno):
        return
    text = "%s as %s was copied to %s, and md leaves such a piece out of a replacement without a word [mirror]; the copy was ended, and %s taken out"
    text += "; run again: all members are compared before a copy, and what one of a pair cannot read is written from the other"
    words = text % (why, old.path, new.path, new.path)
    if any(one.errors for one in partners):
        words += "; keep %s, which may have what its partner has not%s" % (old.path, change_sync.known_bad(named(array.name)))
    elif any(not one.bad for one in partners):
        words += "; if that does not help, its partner can fill the new one alone, with one copy meanwhile: "
        words += "mdadm --manage /dev/%s --fail %s, and run again" % (array.name, old.path)
    raise PlumblineError(words)


def _check_end(name: str, new: Node, old: Node) -> None:
    """No error was met behind the halt. Raises PlumblineError."""
    array = named(name)
    filled, left = member_of(array, new.devno), member_of(array, old.devno)
    if not filled or not left:
        change_array.check_unwatched(name, new, old)
        return
    sources = [one for one in change_sync.read_from(array, filled.slot) if one.devno != new.devno]
    errors = sum(one.errors for one in (sources or [left])) + (left.errors if any(one.bad for one in sources) else 0)
    if errors:
        raise PlumblineError(change_array.doubtful(name, new, old, "%d sectors could not be read at the end of the copy" % errors))


def _check_old(seen: Observation, step: Mapping[str, Any], array: MdArray, old: Node, beside: Optional[MdMember]) -> None:
    """What is replaced is a member, or was one and is older. Raises PlumblineError."""
    found = seen.md_superblocks.get(old.devno)
    newest = change_array.newest_of(seen, array)
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
