# SPDX-License-Identifier: GPL-3.0-or-later
"""Invert the write cache setting of drives for a while; a guardian restores it if we die. I/O."""

from __future__ import annotations

import contextlib
import time
from typing import Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive, host, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, WriteCache, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.guardian import Guardian
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import change_drives, change_persist, command, kept_paths, rules
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.drive import Asked, AskedDrive
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import droppers, name_mapped, unflushed

_TRIES = 5  # a drive that resets takes a moment
_PAUSE_SECONDS = 1.0


class Means(NamedTuple):
    """How caches are read and set. All raise PlumblineError where a drive does not take the setting."""

    read: Callable[[str], WriteCache]  # by device number, from the drive
    set: Callable[[str, bool], None]  # the kernel believes it, too, when this returns
    name: Callable[[str], str] = lambda devno: "device " + devno  # for messages


def legs_of(seen: Observation, devno: str) -> List[str]:
    """All disks below a device."""
    return sorted(node.devno for node in seen.disk_of(devno))


def state_of_legs(seen: Observation, legs: Sequence[str], caches: Mapping[str, WriteCache]) -> bool:
    """The state that the caches of all these disks are in. Raises PlumblineError with every reason why they cannot be switched."""
    reasons: List[str] = []
    for leg in legs:
        reasons += ["%s: %s" % (device_label(seen.nodes[leg]), why) for why in _reasons(seen, leg, legs, caches[leg])]
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
        other.name for other in seen.nodes.values()
        if controller and other.kind == "disk" and other.identity.controller == controller and other.devno not in legs
    ]  # fmt: skip
    if others:
        named = ", ".join(sorted(others))
        return ["its write cache belongs to the controller %s, behind which is also %s, which is none of this volume's" % (controller, named)]
    return []


@contextlib.contextmanager
def inverted_caches(means: Means, legs: Sequence[str], was: bool, seconds: float) -> Iterator[None]:
    """Within, the caches are not as they were; afterwards they are again, or PlumblineError says which is not.

    Raises PlumblineError as well where a drive did not stay switched all the while. *seconds*: after which they are put
    back in any case.
    """
    for leg in legs:
        # To what it is: a drive that takes no setting shows it here, and all code that the second process needs is loaded.
        means.set(leg, was)
    guard = Guardian(lambda: put_all_back(means, legs, was), "the write caches", seconds)
    try:
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


def put_all_back(means: Means, legs: Sequence[str], was: bool) -> List[str]:
    """Give every drive its state back, whatever the others do. Returns what could not be done, a sentence each."""
    faults: List[str] = []
    for attempt in range(_TRIES):
        if attempt:
            time.sleep(_PAUSE_SECONDS)
        faults = [fault for fault in (_put_one_back(means, leg, was) for leg in legs) if fault]
        if not faults:
            break
    return faults


def _put_one_back(means: Means, leg: str, was: bool) -> str:
    try:
        if means.read(leg).enabled is not was:
            means.set(leg, was)
            cache = means.read(leg)
            if cache.enabled is not was:
                return "%s: its write cache is %s" % (means.name(leg), cache.fault or ("on" if cache.enabled else "off"))
    except (PlumblineError, OSError) as fault:
        return str(fault)
    return ""


class Drives(NamedTuple):
    """The drives below a volume, all in one state, and how to change that."""

    legs: List[str]
    was: bool
    caches: Mapping[str, WriteCache]
    means: Means

    @property
    def protected(self) -> Optional[bool]:
        """Whether all drives report power-loss protection."""
        said = {cache.protected for cache in self.caches.values()}
        return said.pop() if len(said) == 1 else None


def drives_of(devno: str, run: Runner, tools: Mapping[str, str]) -> Drives:
    """Ask the drives below a device. Raises PlumblineError where their caches cannot be switched. Nothing is set."""
    if change_persist.has_timer():
        text = "cache_states: %s, which an earlier release has left, would put the caches back every five seconds; run the role write_cache first"
        raise PlumblineError(text % kept_paths.TIMER_UNIT)
    seen = read_sysfs.read_mounted_devices()
    legs = legs_of(seen, devno)
    caches = {leg: ask_drive.read_cache(seen.nodes[leg]) for leg in legs}
    was = state_of_legs(seen, legs, caches)
    _need_tools(seen, legs, tools)
    return Drives(legs, was, caches, _means(seen, run, tools))


def _need_tools(seen: Observation, legs: Sequence[str], tools: Mapping[str, str]) -> None:
    needed = {command.TOOLS[command.bus_word(seen.nodes[leg])] for leg in legs}
    missing = sorted(needed - set(tools))
    if missing:
        words = (", ".join(missing), ", ".join(command.PACKAGES[tool] for tool in missing))
        raise PlumblineError("cache_states: %s is not on this host, and sets the write cache; install the package %s" % words)


def found_again(node: Node) -> Node:
    """The same drive as it is now: after a reset or a re-plug it may have another name, and another drive its old one. Itself where it is not found."""
    key = node.identity.key
    same = [candidate for candidate in read_sysfs.read_nodes().values() if key and candidate.kind == "disk" and candidate.identity.key == key]
    return same[0] if len(same) == 1 else node


def _means(seen: Observation, run: Runner, tools: Mapping[str, str]) -> Means:
    def read(leg: str) -> WriteCache:
        return ask_drive.read_cache(found_again(seen.nodes[leg]))

    def switch(leg: str, on: bool) -> None:
        node, state = found_again(seen.nodes[leg]), "on" if on else "off"
        drive = AskedDrive(Asked(node.path, state), node, read(leg), rules.CacheVerdict(set=True))
        change_drives.set_drive(run, tools, drive, state, False)
        change_drives.settle_belief(drive, read(leg))

    return Means(read=read, set=switch, name=lambda leg: host.device_label(seen.nodes[leg]))
