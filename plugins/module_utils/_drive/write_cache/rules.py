# SPDX-License-Identifier: GPL-3.0-or-later
"""What a wanted state asks of a drive's write cache, and what speaks against it. Pure.

The drive is asked, never the kernel: sd reads the caching page when the disk appears and when it is rescanned, and the NVMe
driver takes VWC for the setting (drivers/nvme/host/core.c, nvme_update_ns_info), so that both go on believing what was.
"""

from __future__ import annotations

from typing import List, Mapping, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, WriteCache, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import (
    POWER_CUT,
    WRITE_BACK,
    WRITE_THROUGH,
    droppers,
    name_mapped,
    state_of,
    unflushed,
)


class CacheVerdict(NamedTuple):
    """What a wanted state asks of a drive. A *refusal* (found, wanted, what to do) excludes the rest."""

    refusal: str = ""
    set: bool = False  # a command has to be sent to the drive
    keepable: bool = False  # there is a setting that could be lost again
    rescan: bool = False  # the kernel has to look again, or it drops flushes
    note: str = ""  # satisfied, with something to report


def judge_wanted(asked: str, cache: WriteCache, belief: str = "", kept: bool = False) -> CacheVerdict:
    """Compare what is asked (``on`` or ``off``) with what the drive says, and with what the kernel believes.

    The drive's saved state counts until the host keeps the setting (*kept*): a drive that does not save what it is set to
    would have to be set on every run.
    """
    state = state_of(cache)
    if cache.fault:
        return CacheVerdict("its write cache cannot be known: %s; wanted %s; set it where the drive itself is, and write keep here" % (cache.fault, asked))
    if state == "none":
        if asked == "off":
            return CacheVerdict(note="it has no volatile write cache, so there is nothing to switch off")
        return CacheVerdict("it has no volatile write cache; wanted on; write keep or off")
    if state == "unknown":
        return CacheVerdict("it does not say whether its write cache is on; wanted %s; write keep" % asked)
    differs = state != asked
    if differs and cache.changeable is False:
        return CacheVerdict("its write cache is %s and it says that this cannot be changed; wanted %s; write keep or %s" % (state, asked, state))
    return CacheVerdict(
        set=differs or (not kept and cache.saved is not None and cache.saved != (asked == "on")),
        keepable=cache.changeable is not False,
        rescan=asked == "on" and belief == WRITE_THROUGH,
    )


def neighbours(seen: Observation, devno: str) -> List[Node]:
    """All namespaces behind the controller of an NVMe namespace, itself among them; a SCSI or ATA disk is alone."""
    own = seen.nodes[devno]
    if own.identity.transport != "nvme" or not own.identity.controller:
        return [own]
    namespaces = [node for node in seen.nodes.values() if node.kind == "disk" and node.identity.controller == own.identity.controller]
    return sorted((node for node in namespaces if node.identity.transport == "nvme"), key=lambda node: node.name)


def sharing_reason(seen: Observation, devno: str, states: Mapping[str, str]) -> str:
    """Why a controller's cache may not be set: a namespace behind it is not among *states* (device number → state), or wants another state."""
    node, state = seen.nodes[devno], states[devno]
    others = neighbours(seen, devno)
    strange = [node.name for node in others if states.get(node.devno, "keep") == "keep"]
    against = [node.name for node in others if states.get(node.devno, "keep") not in ("keep", state)]
    head = "%s: its write cache belongs to the controller %s" % (device_label(node), node.identity.controller)
    if strange:
        return "%s, behind which is also %s; wanted all namespaces behind it with the same state; name them too, or write keep" % (head, ", ".join(strange))
    if against:
        return "%s; wanted %s here and another state for %s; wanted one state for all" % (head, state, ", ".join(against))
    return ""


def endangers(seen: Observation, devno: str, cache: WriteCache, asked: str, accepted: bool) -> str:
    """Why a cache that is off may not be switched on: what is written without flushes is safe with it off, and lost at a power cut with it on.

    *accepted*: it is explicitly accepted, where it is the filesystem that sends none. No acceptance allows flushes that the kernel drops.
    """
    if asked != "on" or cache.enabled is not False:
        return ""
    mapped = droppers(seen, devno)
    if mapped:
        return (
            "%s: its write cache is off, and the kernel believes 'write through' of %s above it, where every flush would be dropped with the cache on; wanted "
            "'write back'; unmount and deactivate what lies on the drive (vgchange -an), set the cache by the role write_cache, and activate it again"
            % (device_label(seen.nodes[devno]), name_mapped(mapped))
        )
    mounts = unflushed(seen, [devno])
    if not mounts or accepted or cache.protected:
        return ""
    return (
        "%s: its write cache is off, and %s mounted on it without barriers: with the cache on a power cut would lose what was acknowledged there; "
        "wanted barriers, by mount -o remount,barrier=1 %s, or accept: [%s], or power_loss_protection with its serial, where it has it"
        % (device_label(seen.nodes[devno]), "%s is" % mounts[0] if len(mounts) == 1 else "%s are" % ", ".join(mounts), mounts[0], POWER_CUT)
    )


def believed_wrongly(cache: WriteCache, belief: str) -> bool:
    """Whether the kernel takes a volatile cache that is on for none, and so drops flushes: acknowledged writes are lost at a power cut."""
    return cache.present is True and cache.enabled is True and belief == WRITE_THROUGH


def belief_is_stale(cache: WriteCache, belief: str, asked: str) -> bool:
    """Whether the kernel should look again after a set.

    A belief ``write back`` over a cache that is off costs a flush that does nothing, and is right again after the next reset
    brings the cache back; so it goes only where the drive itself saves the setting.
    """
    if asked == "on":
        return belief == WRITE_THROUGH and cache.enabled is True
    return belief == WRITE_BACK and cache.enabled is False and cache.saved is False
