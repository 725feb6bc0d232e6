# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""A drive's write cache: what its answers mean, what is to be done about it, and in which words. Pure.

The drive is asked, never the kernel: sd reads the caching page when the disk appears and when it is rescanned, and the NVMe
driver takes VWC for the setting (drivers/nvme/host/core.c, nvme_update_ns_info), so that both go on believing what was.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._ata import AtaCache
from ansible_collections.plumbline.ssd.plugins.module_utils._durability import POWER_CUT, WRITE_BACK, WRITE_THROUGH, droppers, name_mapped, state_of, unflushed
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node, Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._scsi import CachingPage

TOOLS = {"ata": "hdparm", "scsi": "sdparm", "nvme": "nvme"}
PACKAGES = {"hdparm": "hdparm", "sdparm": "sdparm", "nvme": "nvme-cli"}  # of the tools, in every family of distributions

_ONCS_SELECT = 1 << 4  # the controller knows Save and Select
_SAVEABLE, _CHANGEABLE = 1, 1 << 2


# --- what a drive's answers mean -------------------------------------------------------------------


def cache_of_ata(found: AtaCache) -> WriteCache:
    """ATA says what it has and whether it is on. Whether it takes a change shows when one is tried, and it saves none."""
    if found.supported is None and found.enabled is None:
        return WriteCache(fault="IDENTIFY DEVICE says nothing of a write cache")
    return WriteCache(present=found.supported, enabled=found.enabled, changeable=False if found.supported is False else None)


def cache_of_scsi(
    current: Optional[CachingPage], changeable: Optional[CachingPage], saved: Optional[CachingPage], volatile: bool, non_volatile: bool
) -> WriteCache:
    """From the caching page's current, changeable and saved values, and the two bits of the Extended INQUIRY page."""
    if current is None:
        return WriteCache(fault="it has no caching page")
    may = changeable.write_back if changeable else None
    only_safe = non_volatile and not volatile
    present: Optional[bool] = None
    if only_safe:
        present = False
    elif volatile or current.write_back or may:
        present = True
    return WriteCache(
        present=present,
        enabled=current.write_back,
        changeable=may,
        saved=saved.write_back if saved and current.savable else None,
        protected=True if only_safe else None,
    )


def select_known(oncs: int) -> bool:
    """Whether an NVMe controller can be asked for capabilities and saved values of its features."""
    return bool(oncs & _ONCS_SELECT)


def cache_of_nvme(vwc: int, current: Optional[int], capabilities: Optional[int], saved: Optional[int]) -> WriteCache:
    """From VWC of Identify Controller and feature 06h: its value, and where these can be asked for its capabilities and saved value."""
    if not vwc & 1:
        return WriteCache(present=False, enabled=False, changeable=False)
    if current is None:
        return WriteCache(present=True, fault="the controller has a write cache and does not answer for feature 06h")
    return WriteCache(
        present=True,
        enabled=bool(current & 1),
        changeable=None if capabilities is None else bool(capabilities & _CHANGEABLE),
        saved=bool(saved & 1) if saved is not None and capabilities is not None and capabilities & _SAVEABLE else None,
    )


def all_paths(caches: Sequence[WriteCache]) -> WriteCache:
    """One subsystem's cache from what each of its controllers says: on where it is on behind any, since any may take a write."""
    if len(caches) < 2:
        return caches[0] if caches else WriteCache(fault="no controller of it is there")
    fault = next((one.fault for one in caches if one.fault), "")

    def some(values: Sequence[Optional[bool]]) -> Optional[bool]:
        return True if True in values else None if None in values else False

    def every(values: Sequence[Optional[bool]]) -> Optional[bool]:
        return False if False in values else None if None in values else True

    return WriteCache(
        present=some([one.present for one in caches]),
        enabled=some([one.enabled for one in caches]),
        changeable=every([one.changeable for one in caches]),
        saved=some([one.saved for one in caches]),
        protected=every([one.protected for one in caches]),
        fault=fault,
    )


def as_facts(cache: Optional[WriteCache], belief: str) -> Dict[str, Any]:
    """A drive's cache as modules return it."""
    return dict((cache or WriteCache(fault="it was not asked"))._asdict(), belief=belief)


# --- what is to be done about it -------------------------------------------------------------------


class Verdict(NamedTuple):
    """What a wanted state asks of a drive. A *refusal* (found, wanted, what to do) excludes the rest."""

    refusal: str = ""
    set: bool = False  # the drive has to be told
    keepable: bool = False  # there is a setting that could be lost again
    rescan: bool = False  # the kernel has to look again, or it drops flushes
    note: str = ""  # satisfied, in a way that is worth a word


def judge(wanted: str, cache: WriteCache, belief: str = "", kept: bool = False) -> Verdict:
    """Compare what is wanted (``on`` or ``off``) with what the drive says, and with what the kernel believes.

    The drive's saved state counts until the host keeps the setting (*kept*): a drive that does not save what it is told
    would have to be told for ever.
    """
    found = state_of(cache)
    if cache.fault:
        return Verdict("its write cache cannot be known: %s; wanted %s; set it where the drive itself is, and write keep here" % (cache.fault, wanted))
    if found == "none":
        if wanted == "off":
            return Verdict(note="it has no volatile write cache, so there is nothing to switch off")
        return Verdict("it has no volatile write cache; wanted on; write keep or off")
    if found == "unknown":
        return Verdict("it does not say whether its write cache is on; wanted %s; write keep" % wanted)
    differs = found != wanted
    if differs and cache.changeable is False:
        return Verdict("its write cache is %s and it says that this cannot be changed; wanted %s; write keep or %s" % (found, wanted, found))
    return Verdict(
        set=differs or (not kept and cache.saved is not None and cache.saved != (wanted == "on")),
        keepable=cache.changeable is not False,
        rescan=wanted == "on" and belief == WRITE_THROUGH,
    )


def label(node: Node) -> str:
    """A device in messages."""
    return "device %s%s" % (node.name, " (%s)" % node.identity.serial if node.identity.serial else "")


def neighbours(seen: Observation, devno: str) -> List[Node]:
    """All namespaces behind the controller of an NVMe namespace, itself among them; a SCSI or ATA disk is alone."""
    own = seen.nodes[devno]
    if own.identity.transport != "nvme" or not own.identity.controller:
        return [own]
    found = [node for node in seen.nodes.values() if node.kind == "disk" and node.identity.controller == own.identity.controller]
    return sorted((node for node in found if node.identity.transport == "nvme"), key=lambda node: node.name)


def sharing_reason(seen: Observation, devno: str, wanted: Mapping[str, str]) -> str:
    """Why a controller's cache may not be set: a namespace behind it is not among *wanted* (device number → state), or wants another state."""
    node, state = seen.nodes[devno], wanted[devno]
    others = neighbours(seen, devno)
    strange = [one.name for one in others if wanted.get(one.devno, "keep") == "keep"]
    against = [one.name for one in others if wanted.get(one.devno, "keep") not in ("keep", state)]
    head = "%s: its write cache belongs to the controller %s" % (label(node), node.identity.controller)
    if strange:
        return "%s, behind which is also %s; wanted all namespaces behind it with the same state; name them too, or write keep" % (head, ", ".join(strange))
    if against:
        return "%s; wanted %s here and another state for %s; wanted one state for all" % (head, state, ", ".join(against))
    return ""


def endangers(seen: Observation, devno: str, cache: WriteCache, wanted: str, accepted: bool) -> str:
    """Why a cache that is off may not be switched on: what is written without flushes is safe with it off, and lost at a power cut with it on.

    *accepted*: somebody's word allows that, where it is the filesystem that sends none. Flushes that the kernel drops are allowed by no word.
    """
    if wanted != "on" or cache.enabled is not False:
        return ""
    mapped = droppers(seen, devno)
    if mapped:
        return (
            "%s: its write cache is off, and the kernel believes 'write through' of %s above it, where every flush would be dropped with the cache on; wanted "
            "'write back'; unmount and deactivate what lies on the drive (vgchange -an), set the cache by the role write_cache, and activate it again"
            % (label(seen.nodes[devno]), name_mapped(mapped))
        )
    mounts = unflushed(seen, [devno])
    if not mounts or accepted or cache.protected:
        return ""
    return (
        "%s: its write cache is off, and %s mounted on it without barriers: with the cache on a power cut would lose what was acknowledged there; "
        "wanted barriers, by mount -o remount,barrier=1 %s, or accept: [%s], or power_loss_protection with its serial, where it has it"
        % (label(seen.nodes[devno]), "%s is" % mounts[0] if len(mounts) == 1 else "%s are" % ", ".join(mounts), mounts[0], POWER_CUT)
    )


def believed_wrongly(cache: WriteCache, belief: str) -> bool:
    """Whether the kernel takes a volatile cache that is on for none, and so drops flushes: acknowledged writes are lost at a power cut."""
    return cache.present is True and cache.enabled is True and belief == WRITE_THROUGH


def belief_is_stale(cache: WriteCache, belief: str, wanted: str) -> bool:
    """Whether the kernel should look again after a set.

    A belief ``write back`` over a cache that is off costs a flush that does nothing, and is right again after the next reset
    brings the cache back; so it goes only where the drive itself saves the setting.
    """
    if wanted == "on":
        return belief == WRITE_THROUGH and cache.enabled is True
    return belief == WRITE_BACK and cache.enabled is False and cache.saved is False


# --- the tools -------------------------------------------------------------------------------------


def set_command(bus: str, tool: str, path: str, state: str, save: bool = False) -> List[str]:
    """The argv that sets a drive's cache. *path* is the disk's node, for NVMe the controller's or a namespace's.

    Told no namespace, or 0, nvme-cli fills in the node's own number, which feature 06h does not take (Feature Not Namespace
    Specific); FFFFFFFFh is what it sends to a controller.
    """
    value = "1" if state == "on" else "0"
    if bus == "ata":
        return [tool, "-q", "-W" + value, path]
    if bus == "scsi":
        return [tool, "--quiet", "--set=WCE" if state == "on" else "--clear=WCE"] + (["--save"] if save else []) + [path]
    return [tool, "set-feature", path, "--namespace-id=0xffffffff", "--feature-id=6", "--value=" + value] + (["--save"] if save else [])


# --- the plan --------------------------------------------------------------------------------------


class Wish(NamedTuple):
    """One device of a stack with the state that is asked, and how its refusals and steps are headed.

    *accepted*: the stack accepts what a power cut takes; *stated*: the operator says that the drive is protected against it.
    """

    stack: str
    devno: str
    state: str
    accepted: bool = False
    stated: bool = False


def plan_caches(seen: Observation, wishes: Sequence[Wish]) -> Tuple[Optional[Dict[str, Any]], Dict[str, List[str]]]:
    """The step of a host, or none; and by stack the refusals.

    What is kept over reboots (``seen.kept``) counts as much as the state itself.
    """
    refusals: Dict[str, List[str]] = {}
    devices: List[Dict[str, Any]] = []
    wanted = {wish.devno: wish.state for wish in wishes}
    for wish in wishes:
        node = seen.nodes[wish.devno]
        kept = seen.kept.get(node.identity.key)
        cache = seen.caches.get(wish.devno, WriteCache(fault="it was not asked"))
        if wish.state == "keep":
            if kept is not None:
                devices.append(_step_device(node, "keep"))
            continue
        verdict = judge(wish.state, cache, node.write_cache, kept == wish.state)
        if verdict.refusal:
            refusals.setdefault(wish.stack, []).append("%s: %s" % (label(node), verdict.refusal))
            continue
        reason = sharing_reason(seen, wish.devno, wanted) if verdict.keepable else ""
        reason = reason or endangers(seen, wish.devno, cache, wish.state, wish.accepted or wish.stated)
        if reason:
            refusals.setdefault(wish.stack, []).append(reason)
            continue
        if verdict.set or verdict.rescan or (kept != wish.state if verdict.keepable else kept is not None):
            devices.append(dict(_step_device(node, wish.state), **({"accept": [POWER_CUT]} if wish.accepted and wish.state == "on" else {})))
    if not devices:
        return None, refusals
    words = ["%s %s" % (device["device"].rsplit("/", 1)[-1], device["state"]) for device in devices]
    stated = sorted({seen.nodes[wish.devno].identity.serial for wish in wishes if wish.stated})
    return {"action": "write_cache", "devices": devices, "power_loss_protection": stated, "summary": "write cache: %s" % ", ".join(words)}, refusals


def _step_device(node: Node, state: str) -> Dict[str, Any]:
    return {"device": node.path, "identity": node.identity.key, "serial": node.identity.serial, "state": state}


def step_tools(seen: Observation, step: Mapping[str, Any]) -> List[str]:
    """The tools that a step runs."""
    by_path = {node.path: node for node in seen.nodes.values()}
    tools = [TOOLS[bus_word(by_path[device["device"]])] for device in step["devices"] if device["state"] != "keep"]
    return list(dict.fromkeys(tools))


def bus_word(node: Node) -> str:
    """Which commands a disk takes: ``nvme``, ``ata`` (behind whatever translates them), else ``scsi``."""
    if node.identity.transport == "nvme":
        return "nvme"
    return "ata" if node.identity.ata else "scsi"
