# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Write caches the other way round for a while, and back again, also where the module is killed meanwhile. I/O.

A second process gives the drives their state back: it lives in a session of its own, so that neither a signal to the module's group nor
the end of its connection reaches it, and holds a pipe whose end means that the module is done, or gone.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Callable, Iterator, List, Mapping, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._cache import label
from ansible_collections.plumbline.ssd.plugins.module_utils._durability import droppers, name_mapped, unflushed
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Observation, WriteCache

_TRIES = 5  # a drive that resets takes a moment
_PAUSE_SECONDS = 1.0
_ANSWER_SECONDS = 120.0
_READY = b"\n"


class Means(NamedTuple):
    """How caches are read and set. All raise PlumblineError where a drive does not do as it is told."""

    read: Callable[[str], WriteCache]  # by device number, from the drive
    set: Callable[[str, bool], None]  # the kernel believes it, too, when this returns
    hold: Callable[[], None] = lambda: None  # whoever looks after the setting must not put it back meanwhile
    release: Callable[[], None] = lambda: None
    name: Callable[[str], str] = lambda devno: "device " + devno  # for messages


def legs_of(seen: Observation, devno: str) -> List[str]:
    """All disks below a device."""
    return sorted(node.devno for node in seen.disk_of(devno))


def state_of(seen: Observation, legs: Sequence[str], caches: Mapping[str, WriteCache]) -> bool:
    """The state that the caches of all these disks are in. Raises PlumblineError with every reason why they cannot be switched."""
    reasons: List[str] = []
    for leg in legs:
        reasons += ["%s: %s" % (label(seen.nodes[leg]), why) for why in _reasons(seen, leg, legs, caches[leg])]
    states = {leg: bool(caches[leg].enabled) for leg in legs}
    if not legs:
        reasons.append("no disk below the volume is known")
    elif not reasons and len(set(states.values())) > 1:
        words = ["%s %s" % (seen.nodes[leg].name, "on" if on else "off") for leg, on in states.items()]
        reasons.append("the write caches of the volume's drives differ: %s; wanted one state for all; set them alike first" % ", ".join(words))
    if not reasons and not states[legs[0]]:
        why = "is mounted without barriers on a drive whose write cache is off; switching it on would endanger what is written there"
        reasons += ["%s %s; wanted barriers, by mount -o remount,barrier=1 %s" % (target, why, target) for target in unflushed(seen, legs)]
    if reasons:
        raise PlumblineError("cache_states: %s" % reasons[0], reasons)
    return states[legs[0]]


def _reasons(seen: Observation, leg: str, legs: Sequence[str], cache: WriteCache) -> List[str]:
    node = seen.nodes[leg]
    if cache.fault:
        return ["its write cache cannot be known: %s; measure where the drive itself is" % cache.fault]
    if cache.present is False:
        return ["it has no volatile write cache, so there is nothing to compare; leave cache_states out"]
    if cache.enabled is None:
        return ["it does not say whether its write cache is on; leave cache_states out"]
    if cache.changeable is False:
        return ["it says that its write cache cannot be switched; leave cache_states out"]
    if cache.enabled and node.write_cache == "write through":
        return ["its write cache is on and the kernel believes 'write through', so that no flush is ever sent; wanted 'write back'; mend that first"]
    mapped = droppers(seen, leg)
    if mapped:
        what = "with the cache on no flush would reach it"
        remedy = "wanted 'write back'; deactivate and activate it (vgchange -an, -ay) while the cache is on"
        return ["the kernel believes 'write through' of %s above it, so that %s; %s" % (name_mapped(mapped), what, remedy)]
    controller = node.identity.controller
    others = [
        one.name for one in seen.nodes.values()
        if controller and one.kind == "disk" and one.identity.controller == controller and one.devno not in legs
    ]  # fmt: skip
    if others:
        named = ", ".join(sorted(others))
        return ["its write cache belongs to the controller %s, behind which is also %s, which is none of this volume's" % (controller, named)]
    return []


@contextlib.contextmanager
def turned(means: Means, legs: Sequence[str], was: bool, seconds: float) -> Iterator[None]:
    """Within, the caches are not as they were; afterwards they are again, or PlumblineError says which is not.

    Raises PlumblineError as well where a drive did not stay switched all the while. *seconds*: after which they are put
    back in any case.
    """
    for leg in legs:
        # To what it is: a drive that takes no setting shows it here, and all code that the second process needs is loaded.
        means.set(leg, was)
    guard = _Guard(means, legs, was, seconds)
    try:
        means.hold()
        for leg in legs:
            means.set(leg, not was)
        yield
        for leg in legs:
            if means.read(leg).enabled is not (not was):
                raise PlumblineError(
                    "%s: its write cache was switched by somebody else, or by a reset, while it was measured; measure again" % means.name(leg)
                )
    finally:
        faults = guard.end()
        if faults:
            word = "on" if was else "off"
            reasons = ["%s; wanted what was before, the write cache %s; see to that by hand" % (fault, word) for fault in faults]
            raise PlumblineError("not everything could be put back: %s" % reasons[0], reasons)


def put_back(means: Means, legs: Sequence[str], was: bool) -> List[str]:
    """Give every drive its state back, whatever the others do. Returns what could not be done, a sentence each."""
    faults: List[str] = []
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        faults = [fault for fault in (_put_one_back(means, leg, was) for leg in legs) if fault]
        if not faults:
            break
    try:
        means.release()
    except (PlumblineError, OSError) as fault:
        faults.append(str(fault))
    return faults


def _put_one_back(means: Means, leg: str, was: bool) -> str:
    try:
        if means.read(leg).enabled is not was:
            means.set(leg, was)
            found = means.read(leg)
            if found.enabled is not was:
                return "%s: its write cache is %s" % (means.name(leg), found.fault or ("on" if found.enabled else "off"))
    except (PlumblineError, OSError) as fault:
        return str(fault)
    return ""


class _Guard:
    """The second process, from our side."""

    def __init__(self, means: Means, legs: Sequence[str], was: bool, seconds: float) -> None:
        self.means, self.legs, self.was = means, legs, was
        end_read, self.end_write = os.pipe()
        self.answer_read, answer_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _live_on(end_read, answer_write, lambda: put_back(means, legs, was), seconds)
        os.close(end_read)
        os.close(answer_write)
        # Until it has its own session, what ends us ends it: nothing is switched before.
        if os.read(self.answer_read, len(_READY)) != _READY:
            raise PlumblineError("the process that would put the write caches back did not start; nothing was switched; run again")

    def end(self) -> List[str]:
        """Have the drives put back, and wait for it. Where the second process is gone, we do it."""
        with contextlib.suppress(OSError):
            os.write(self.end_write, b"\n")
        os.close(self.end_write)
        said = self._answer()
        os.close(self.answer_read)
        if not said.endswith("\n"):
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)  # or two would set the same drives
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        if not said.endswith("\n"):
            return put_back(self.means, self.legs, self.was)
        return said.splitlines()[:-1]

    def _answer(self) -> str:
        """Faults, a line each, and a last line when all is done."""
        said = b""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while select.select([self.answer_read], [], [], max(deadline - time.monotonic(), 0))[0]:
            piece = os.read(self.answer_read, 4096)
            if not piece:
                return said.decode("utf-8", "replace")
            said += piece
        return ""


def _live_on(end: int, answer: int, restore: Callable[[], List[str]], seconds: float) -> None:
    """The second process: wait for the module's word or end, put the drives back, say what could not be. Does not return."""
    try:
        os.setsid()
        os.chdir("/")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        # Neither the module's output, for whose end the controller waits, nor its files, nor our own end of the pipe.
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
            if fd > 2 and fd not in (end, answer):
                with contextlib.suppress(OSError):
                    os.close(fd)
        os.write(answer, _READY)
        select.select([end], [], [], seconds)
        faults = restore()
        with contextlib.suppress(OSError):  # nobody listens where the module is gone
            os.write(answer, ("".join(fault.replace("\n", " ") + "\n" for fault in faults) + ".\n").encode("utf-8", "replace"))
    finally:
        os._exit(0)
