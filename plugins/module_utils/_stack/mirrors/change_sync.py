# SPDX-License-Identifier: GPL-3.0-or-later
"""What md copies and compares in an array: begun, waited for, watched and ended, by sysfs. I/O.

Sources: Documentation/admin-guide/md.rst (sync_action, sync_min, sync_max, mismatch_cnt, errors, state); md_do_sync() in drivers/md/md.c.
"""

from __future__ import annotations

import os
import time
from typing import Callable, List, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._block.change_sysfs_settings import write_setting
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import MdArray, MdMember
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import SYNCING, WAITING, parse_ratio
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_raids import read_md_arrays
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import read_size, read_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

Watch = Callable[[MdArray, MdMember, int], None]
_MD = "/sys/class/block/%s/md/"
_SECTOR = 512
_PAUSE = 0.5
_MOST_ENDS = 20  # times that a copy is begun anew: one is where another member comes or goes, and md tries for ever what it cannot read
_FROZEN_WAITS = 10  # pauses for an mdadm that is at work
_MOST_WAITS = 240  # pauses in which a member that is to be filled is not; another array on the same disks may be filled before


def read_setting(name: str, file: str) -> str:
    """One file of the array."""
    return read_text(_MD % name + file)


def _write(name: str, file: str, value: str) -> None:
    try:
        write_setting(_MD % name + file, value)
    except OSError as error:
        text = "%s of the array /dev/%s could not be set to '%s': %s; nothing was taken out; run again"
        raise PlumblineError(text % (file, name, value, error.strerror)) from error


def member_of(array: MdArray, devno: str) -> Optional[MdMember]:
    """The member that is on this device."""
    return next((member for member in array.members if member.devno == devno), None)


def named(name: str) -> MdArray:
    """An array as it is now. Raises PlumblineError where it has gone."""
    found = next((array for array in read_md_arrays() if array.name == name and array.runs), None)
    if found is None:
        raise PlumblineError("the array /dev/%s does not run any more; look at the kernel's log" % name)
    return found


# --- waiting ---------------------------------------------------------------------------------------


def wait_for_sync(name: str, devno: str = "", watch: Optional[Watch] = None) -> None:
    """Until the array is at nothing, and the member *devno* holds what it should. The kernel goes on by itself whatever becomes of who waits.

    *watch* is called of each look: with the array, that member, and the sectors that md has copied.
    """
    idle = waits = ended = done = 0
    copied = False
    while idle < 2:  # between two actions it is idle for a moment
        array, action = named(name), read_setting(name, "sync_action")
        member = member_of(array, devno) if devno else None
        if devno and (member is None or member.faulty):
            raise PlumblineError("the new member of /dev/%s failed while it was filled [degraded]; look at the kernel's log" % name)
        copies = action in SYNCING and action != WAITING
        busy = copies or (member is not None and not member.in_sync)
        at, _total = parse_ratio(read_setting(name, "sync_completed")) if copies else (0, 0)
        if watch and member:
            watch(array, member, at)
        ended += (copies and at < done) or (copied and busy and not copies)
        copied, done = copies, at
        idle, waits = (0 if busy else idle + 1), (waits + 1 if busy and not copies else 0)
        if waits > _MOST_WAITS or ended > _MOST_ENDS:
            how = "md has ended the copy %d times" % ended if ended > _MOST_ENDS else "the array is at '%s'" % action
            text = "the new member of /dev/%s is not filled: %s [degraded]; nothing was taken out; look at mdadm --detail and the kernel's log%s"
            raise PlumblineError(text % (name, how, known_bad(array)))
        time.sleep(_PAUSE)


def known_bad(array: MdArray) -> str:
    """What to do where members have noted blocks that cannot be read: md interrupts a copy at one that no member holds."""
    ranges = sum(member.bad for member in array.members)
    text = "; its members have noted %d ranges of blocks that they do not hold (mdadm --examine-badblocks of each), and md ends a copy at one that none holds"
    return text % ranges + ": write these blocks again, from a replica or a backup, and run again" if ranges else ""


def thaw(name: str) -> None:
    """md fills no member of an array that is frozen, and halts at sync_max. An mdadm that was killed leaves the one so, a run that was killed the other."""
    for _pause in range(_FROZEN_WAITS):
        if read_setting(name, "sync_action") != "frozen":
            break
        time.sleep(_PAUSE)
    else:
        _write(name, "sync_action", "idle")


def halts(name: str) -> bool:
    """Whether md is to halt before the end. It forgets that at a boot, and when it has come to an end."""
    return read_setting(name, "sync_max").isdigit()


def let_go(name: str) -> None:
    """md does not halt before the end."""
    if halts(name):
        _write(name, "sync_max", "max")


# --- compared, and watched -------------------------------------------------------------------------


def compare_members(name: str) -> int:
    """Let md read all members from end to end: what one cannot read is written again from the other. Returns the sectors that differ; they are left so.

    Raises PlumblineError where it did not come to the end: somebody ended it, or a member was lost.
    """
    wait_until_idle(name)
    array = named(name)
    chunk = array.chunk // _SECTOR
    _write(name, "sync_min", "0")
    # Behind the end of the array: md forgets it when it has come there, and at nothing else.
    _write(name, "sync_max", "%d" % ((array.component // _SECTOR * array.disks // chunk + 1) * chunk))
    _write(name, "sync_action", "check")
    wait_until_idle(name)
    if halts(name):
        let_go(name)
        text = "the members of /dev/%s were not compared to the end: somebody ended it, or a member was lost; nothing was taken out"
        text += "; look at mdadm --detail, and run again"
        raise PlumblineError(text % name)
    return read_size(_MD % name + "mismatch_cnt")


def wait_until_idle(name: str) -> None:
    """Until md has ended what it does."""
    idle = 0
    while idle < 2:
        idle = 0 if read_setting(name, "sync_action") not in ("idle", "frozen") else idle + 1
        named(name)
        time.sleep(_PAUSE)


def read_from(array: MdArray, slot: int) -> List[MdMember]:
    """The members that md reads to fill this place of a RAID 10: the first of the pair, and the other where that has noted blocks as bad."""
    pair = sorted((one for one in array.members if one.in_sync and one.slot // 2 == slot // 2), key=lambda one: one.slot)
    return pair if pair and pair[0].bad else pair[:1]


def count_anew(name: str) -> None:
    """No member has errors from now on. md keeps the counts over a boot."""
    for entry in _entries(name):
        if read_setting(name, entry + "/errors") not in ("0", ""):
            _write(name, entry + "/errors", "0")


def halt_before_the_end(array: MdArray) -> None:
    """What md fills next, it fills but for the last chunk, until let_go()."""
    chunk = array.chunk // _SECTOR
    _write(array.name, "sync_max", "%d" % ((array.component // _SECTOR - 1) // chunk * chunk))


def _entries(name: str) -> List[str]:
    return sorted(entry for entry in os.listdir(_MD % name) if entry.startswith("dev-"))


def want_no_replacement(name: str) -> None:
    """md replaces no member by itself, once a spare comes. It notes that of one that was to be replaced, and of one that had a write error."""
    for entry in _entries(name):
        states = read_setting(name, entry + "/state").split(",")
        if "want_replacement" in states and "faulty" not in states:
            _write(name, entry + "/state", "-want_replacement")


def is_halted(name: str, done: int) -> bool:
    """Whether md has copied all but the last chunk, and waits."""
    halt = read_setting(name, "sync_max")
    return halt.isdigit() and done >= int(halt)


def stop_copying(name: str) -> None:
    """md ends what it does, and begins nothing. A member that is filled can be taken out then."""
    _write(name, "sync_action", "frozen")


def start_again(name: str) -> None:
    """After stop_copying()."""
    _write(name, "sync_action", "idle")
