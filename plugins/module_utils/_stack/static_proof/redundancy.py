# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the redundancy of a stack: the arrays of md and of LVM at or below it, whoever made them. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import MD_UUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, INFO, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Mount, Node, Observation, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import levels_below
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid import Array, array_of
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import WAITING
from ansible_collections.plumbline.ssd.plugins.module_utils._block.virtual_disks import on_one_ssd
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.layers import title_of

# What an array is at → how bad that is, in words, and what is wanted.
_BY_ITSELF = "nothing: it goes on by itself"
_ACTIONS: Mapping[str, Tuple[str, str, str]] = {
    "resync": (WARNING, "its members are being made equal", _BY_ITSELF),
    WAITING: (WARNING, "its members have to be made equal, and that has not begun", "the sync, which begins with the first write"),
    "recover": (INFO, "a member is being filled from the others", _BY_ITSELF),
    "reshape": (INFO, "it is being given another shape", _BY_ITSELF),
    "check": (INFO, "its members are being compared", _BY_ITSELF),
    "repair": (INFO, "its members are being compared, and what differs is made equal", _BY_ITSELF),
    "frozen": (INFO, "its sync is held", "the sync, if a member is not in sync"),
}
_SAME_DATA = (
    "equal ones. On RAID 1 and 10 swap, memory that changes while it is written, and space that was never written (--assume-clean, --nosync) leave harmless "
    "differences, md(4); else a drive, a cable or memory changed data, and nothing says on which member"
)
_PARITY = "parity that fits. Software leaves no mismatch on RAID 4, 5 and 6, md(4), unless it was made without a sync: look at drives, cables and memory"
# A kind of array → what is wanted of its members, and what a mismatch may come from.
_AGREEMENT = {"raid1": _SAME_DATA, "raid10": _SAME_DATA, "raid4": _PARITY, "raid5": _PARITY, "raid6": _PARITY}


def _look(array: Array, md: str, lvm: str) -> str:
    """The command that shows more."""
    return md % array.node.name if array.node.kind == "md" else "lvs -a -o +%s" % lvm


def _judge_lost(_seen: Observation, array: Array, _mounts: Sequence[Mount]) -> Optional[Finding]:
    """Members that are gone, or not in sync yet."""
    lost, width = array.segment.degraded, array.segment.width or len(array.segment.legs)
    if not lost:
        return None
    found = "%s: %d of its %d members are absent or not in sync" % (array.segment.kind, lost, width)
    look = _look(array, "mdadm --detail /dev/%s", "devices,lv_health_status")
    return Finding(ERROR, "raid", title_of(array.node), found, "all members in sync: %s shows which; replace what is gone" % look, "degraded")


def _judge_action(_seen: Observation, array: Array, _mounts: Sequence[Mount]) -> Optional[Finding]:
    """What the array is at."""
    if array.state.action not in _ACTIONS:
        return None
    level, words, wanted = _ACTIONS[array.state.action]
    share = "" if array.progress is None else ", %d %% done" % int(100 * array.progress)
    found = "%s: %s (%s%s)" % (array.segment.kind, words, array.state.action, share)
    look = _look(array, "cat /sys/block/%s/md/sync_completed", "sync_percent,raid_sync_action")
    return Finding(level, "raid", title_of(array.node), found, "%s; %s shows how far it is" % (wanted, look), "syncing")


def _judge_mismatches(_seen: Observation, array: Array, _mounts: Sequence[Mount]) -> Optional[Finding]:
    """What the last check found."""
    if not array.state.mismatches:
        return None
    found = "%s: %d sectors differed between its members at the last check" % (array.segment.kind, array.state.mismatches)
    return Finding(WARNING, "raid", title_of(array.node), found, _AGREEMENT[array.segment.kind], "mismatch")


def _judge_ssds(seen: Observation, array: Array, _mounts: Sequence[Mount]) -> Optional[Finding]:
    """A drive with so many members that the array does not outlive it; namespaces of one SSD are one drive."""
    for members, spared in array.groups():
        for drive in [disk for leg in members for disk in seen.disk_of(leg)]:
            on_it = [leg for leg in members if any(on_one_ssd(disk, drive) or disk.devno == drive.devno for disk in seen.disk_of(leg))]
            if len(on_it) > spared:
                names = ", ".join(title_of(seen.nodes[leg]) for leg in on_it)
                found = "%s: %s lie on one drive, %s: the array fails with it" % (array.segment.kind, names, drive.identity.serial or drive.name)
                return Finding(ERROR, "raid", title_of(array.node), found, "each member on a drive of its own", "one_ssd")
    return None


def _judge_boot(_seen: Observation, array: Array, mounts: Sequence[Mount]) -> Optional[Finding]:
    """LVM's volumes that udev does not activate at a boot without one of their drives. The root's is activated by the initramfs, whatever is missing."""
    if array.node.kind != "lvm" or any(mount.target == "/" for mount in mounts):
        return None
    vg = array.node.title.replace("--", "\0").partition("-")[0].replace("\0", "-")
    found = "%s of LVM: a boot without one of its drives does not activate it, since udev activates complete volume groups only" % array.segment.kind
    wanted = "vgchange -ay %s after such a boot, and its mount then. An array of md below LVM is there at such a boot" % vg
    return Finding(WARNING if array.segment.degraded else INFO, "raid", title_of(array.node), found, wanted, "boots_degraded")


_RULES = (_judge_lost, _judge_action, _judge_mismatches, _judge_ssds, _judge_boot)


def judge_redundancy(seen: Observation, devno: str, mounts: Sequence[Mount] = ()) -> List[Finding]:
    """The arrays at or below a node, from the disks up."""
    arrays = [array_of(seen, seen.nodes[one]) for level in levels_below(seen, devno) for one in level]
    found = [judge(seen, array, mounts) for array in arrays if array for judge in _RULES]
    return [finding for finding in found if finding]


def judge_left_out(seen: Observation, member: Node, signature: Signature) -> Optional[Finding]:
    """A member of an array of md that runs without it: it went away for a while, or an array was run from either side alone."""
    digits = _digits(signature.uuid) if signature.type == "linux_raid_member" else ""
    array = next((devno for link, devno in seen.links.items() if digits and link.startswith(MD_UUID) and _digits(link[len(MD_UUID) :]) == digits), "")
    if array not in seen.nodes:
        return None
    found = "it is a member of %s, which runs without it: it has older data, or data of its own" % title_of(seen.nodes[array])
    wanted = "it back in the array, once mdadm --examine of all members says that those of the array are newer (Events, Array State): its own data goes then"
    return Finding(WARNING, "raid", title_of(member), found, wanted, "left_out_member")


def _digits(uuid: str) -> str:
    """A UUID as mdadm or as libblkid writes it, without what they put between its digits."""
    return re.sub("[^0-9a-f]", "", uuid.lower())


def arrays_of_host(seen: Observation) -> List[Dict[str, Any]]:
    """All arrays of a host, used or not, each with a name that stays: the kernel's names of md are others after a boot."""
    arrays = [array for array in (array_of(seen, node) for node in seen.nodes.values()) if array]
    return [{"name": _lasting_name(seen, array.node), "maker": "md" if array.node.kind == "md" else "lvm", **array.as_dict()} for array in arrays]


def _lasting_name(seen: Observation, node: Node) -> str:
    return next((link for link, devno in seen.links.items() if devno == node.devno and link.startswith(MD_UUID)), title_of(node))
