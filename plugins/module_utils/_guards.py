# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Why a device may not be taken: one pure function from observation to reasons, used by plan and by writer."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._model import Identity, Node, Observation, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import human

_OUR_NAME = re.compile(r"plumbline:([a-z][a-z0-9_]{0,19}):([0-9]{1,2})")
_PLACEHOLDERS = frozenset(
    "none null unknown unspecified invalid empty n/a na s/n sn default test serial serialnumber noserial noserialnumber notspecified notavailable "
    "notapplicable tobefilledbyoem systemserialnumber deadbeef".split()
)
_RUNS = ("0123456789abcdef" * 3, "1234567890abcdef" * 3, "1234567890" * 4, "0987654321" * 4, "abcdefghijklmnopqrstuvwxyz")


class Reason(NamedTuple):
    """A refusal: *name* for machines, *text* what was found, *remedy* what to do about it."""

    name: str
    text: str
    remedy: str

    def line(self, device: str) -> str:
        return "%s: %s" % (device, self.words)

    @property
    def words(self) -> str:
        """Where the text says itself what it is about."""
        return "%s [%s]; %s" % (self.text, self.name, self.remedy)

    def as_dict(self, device: str) -> Dict[str, Any]:
        return {"device": device, "name": self.name, "found": self.text, "remedy": self.remedy}


def our_name(name: str) -> Optional[Tuple[str, int]]:
    """``plumbline:pgdata:0`` → ``('pgdata', 0)``; None for any other partition name."""
    found = _OUR_NAME.fullmatch(name)
    return (found.group(1), int(found.group(2))) if found else None


def is_ours(table: Optional[Table], stack: str) -> bool:
    """Whether a table is a sound GPT that holds one partition, named for this stack, and nothing else."""
    if table is None or table.kind != "gpt" or table.fault or len(table.entries) != 1:
        return False
    name = our_name(table.entries[0].name)
    return name is not None and name[0] == stack


def is_placeholder(text: str) -> bool:
    """Whether an identifier is one that says nothing: empty, one character over and over, a run of digits, or a well-known filler.

    Drives without an EUI-64 or WWN answer zeros (PM9D3, BX500), bridges a run of digits (JMicron), boards a sentence.
    """
    bare = re.sub(r"^(?:eui|naa|uuid|nguid|t10)\.", "", text.strip().lower())
    digits = re.sub(r"[^0-9a-z]", "", bare)
    if not digits or set(digits) <= {"0"} or set(digits) <= {"f"} or bare in _PLACEHOLDERS or digits in _PLACEHOLDERS:
        return True
    return (len(digits) >= 4 and len(set(digits)) == 1) or (len(digits) >= 8 and any(digits in run for run in _RUNS))


def stable_wwid(identity: Identity) -> str:
    """The WWID, unless it is a placeholder, or one that is made of a serial that is.

    The kernel makes ``nvme.VENDOR-SERIAL-MODEL-NSID`` (in hex; nvme/host/core.c, wwid_show) of a drive without EUI-64 and NGUID,
    and a ``t10.`` name of an ATA drive is its model and serial (SAT-3, VPD page 83h).
    """
    wwid = identity.wwid
    if is_placeholder(wwid):
        return ""
    made_of = None
    if wwid.startswith("nvme."):
        words = wwid.split("-")
        with contextlib.suppress(ValueError):
            made_of = bytes.fromhex(words[1]).decode("ascii", "replace").replace("\0", "") if len(words) > 3 else ""
    elif wwid.startswith("t10."):
        made_of = wwid.split()[-1]
    return "" if made_of is not None and is_placeholder(made_of) else wwid


# --- the guards ------------------------------------------------------------------------------------
# Each is a pure function from the observation and a device to the reasons against it, and has a name of its own. The tuples
# below are all there are: the plan, the proof under the lock and every probe that writes go through them.

Guard = Callable[[Observation, Node], List[Reason]]

_TAKE_APART = "take that apart first if it may go"
_REPLACE = "replace the device: what cannot be read is never taken for blank"
_FREE = "if it may be lost, free the device, by erase or by your own tools, and run again"


def guard_test_identity(_seen: Observation, node: Node) -> List[Reason]:
    if node.identity.test and node.kind != "loop":
        return [Reason("identity", "a test identity is set for a real disk", "test_identity is for loop devices only; leave it out")]
    return []


def guard_loop(_seen: Observation, node: Node) -> List[Reason]:
    if node.kind == "loop" and not node.identity.test:
        return [Reason("identity", "a loop device has no stable identity", "it is accepted only with an explicit test_identity")]
    return []


def guard_no_identity(_seen: Observation, node: Node) -> List[Reason]:
    identity = node.identity
    if identity.test or node.kind == "loop" or stable_wwid(identity) or not is_placeholder(identity.serial):
        return []
    told = identity.wwid or identity.serial
    what = "its identity '%s' is a placeholder" % told if told else "it has neither a WWID nor a serial"
    return [Reason("identity", what, "a device that cannot be told from another is never written to")]


def _twins(seen: Observation, node: Node) -> List[Node]:
    """Other disks that carry the same identity: the WWID where there is a good one, else model and serial."""
    identity, wwid = node.identity, stable_wwid(node.identity)
    if identity.test or node.kind == "loop" or not (wwid or not is_placeholder(identity.serial)):
        return []
    others = [other for other in seen.nodes.values() if other.devno != node.devno and other.kind == "disk"]
    if wwid:
        return [other for other in others if other.identity.wwid == wwid]
    return [other for other in others if (other.identity.model, other.identity.serial) == (identity.model, identity.serial)]


def _is_path_of(node: Node, other: Node) -> bool:
    """Whether two disks with one identity are the same disk by all that they say: two paths to it."""
    return bool(stable_wwid(node.identity)) and node.identity[:3] == other.identity[:3] and node.size == other.size


def guard_paths(seen: Observation, node: Node) -> List[Reason]:
    """One disk that is there twice, by two paths."""
    paths = [other.name for other in _twins(seen, node) if _is_path_of(node, other)]
    if not paths:
        return []
    text = "it and %s are paths to one disk, %s" % (", ".join(paths), node.identity.wwid)
    return [Reason("multipath", text, "let multipath join them; a map of several paths is no device for a stack")]


def guard_twins(seen: Observation, node: Node) -> List[Reason]:
    """One identity that several disks carry."""
    twins = [other.name for other in _twins(seen, node) if not _is_path_of(node, other)]
    if not twins:
        return []
    text = "it shares its identity %s with %s" % (stable_wwid(node.identity) or node.identity.serial, ", ".join(twins))
    return [Reason("identity", text, "two disks with one identity cannot be told apart; take one of them away, or give it another where it can have one")]


def share_ssd(one: Identity, other: Identity) -> bool:
    """Whether two NVMe namespaces lie on one SSD: behind one controller, or, where it has two ports, behind two with one model, serial and subsystem."""
    serial = (one.model, one.serial) == (other.model, other.serial) and not is_placeholder(one.serial)
    if one.subsystem and other.subsystem:  # targets over a network may have one serial for several
        serial = serial and one.subsystem == other.subsystem
    return bool(one.controller) and (one.controller == other.controller or serial)


def guard_one_ssd(seen: Observation, node: Node) -> List[Reason]:
    """One namespace of an SSD with two ports, by both: the same serial, model and namespace number at two controllers, which may tell two identities."""
    mine = node.identity
    if mine.transport != "nvme" or mine.test or not stable_wwid(mine):
        return []
    others = [
        other.name
        for other in seen.nodes.values()
        if other.kind == "disk" and other.identity.transport == "nvme" and other.identity.nsid == mine.nsid and other.identity.wwid != mine.wwid
        and other.identity.controller != mine.controller and share_ssd(other.identity, mine) and stable_wwid(other.identity)
    ]  # fmt: skip
    if not others:
        return []
    text = "it and %s are namespace %d of one SSD, serial %s, by two controllers" % (", ".join(others), mine.nsid, mine.serial)
    return [Reason("twin", text, "a stripe over both would be one over itself; let the kernel join them (nvme_core.multipath=Y), or unplug one path")]


def guard_mounted(seen: Observation, node: Node) -> List[Reason]:
    reasons = []
    for one in seen.tree(node.devno):
        for mount in seen.mounted(one.devno):
            where = "" if mount.here else " in another mount namespace"
            reasons.append(Reason("mounted", "%s is mounted on %s%s" % (one.name, mount.target, where), "unmount it if it may be used"))
    return reasons


def guard_swap(seen: Observation, node: Node) -> List[Reason]:
    tree = seen.tree(node.devno)
    return [Reason("swap", "%s is in use as swap" % one.name, "swapoff it if it may be used") for one in tree if one.devno in seen.swaps]


def guard_held(seen: Observation, node: Node) -> List[Reason]:
    reasons = []
    for one in seen.tree(node.devno):
        for holder in one.holders:
            held = seen.nodes.get(holder)
            name = (held.title or held.name) if held else holder
            reasons.append(Reason("held", "%s is held by %s (%s)" % (one.name, name, held.kind if held else "unknown"), _TAKE_APART))
    return reasons


def guard_backing(seen: Observation, node: Node) -> List[Reason]:
    """Made into something else without being claimed: loop devices, SCSI and NVMe targets."""
    tree = seen.tree(node.devno)
    return [Reason("backing", "%s backs %s" % (one.name, user), _TAKE_APART) for one in tree for user in seen.backings.get(one.devno, [])]


def guard_open(seen: Observation, node: Node) -> List[Reason]:
    """Open in another process, exclusively or not."""
    reasons = []
    for one in seen.tree(node.devno):
        programs = seen.openers.get(one.devno, [])
        if programs:
            more = " and %d more" % (len(programs) - 3) if len(programs) > 3 else ""
            reasons.append(Reason("open", "%s is open in %s%s" % (one.name, ", ".join(programs[:3]), more), "end that program if it may be used"))
    return reasons


def guard_multipath_member(seen: Observation, node: Node) -> List[Reason]:
    if node.devno in seen.multipath:
        remedy = "a path is never written to by itself; take the disk out of multipath if it is to be used"
        return [Reason("multipath", "it is one path of a multipath map", remedy)]
    return []


def guard_read_only(_seen: Observation, node: Node) -> List[Reason]:
    return [Reason("read_only", "it is read-only", "name another device")] if node.read_only else []


def guard_removable(_seen: Observation, node: Node) -> List[Reason]:
    return [Reason("removable", "it is removable", "name a device that is built in")] if node.removable else []


def guard_not_a_disk(_seen: Observation, node: Node) -> List[Reason]:
    return [] if node.kind in ("disk", "loop") else [Reason("not_a_disk", "%s is a %s" % (node.name, node.kind), "name a whole disk")]


def guard_busy(seen: Observation, node: Node) -> List[Reason]:
    """O_EXCL: the kernel, or another program that opened it alone, holds it."""
    if node.devno not in seen.busy:
        return []
    text = "it cannot be opened alone: %s" % seen.busy[node.devno]
    return [unreadable_reason(text, "find the program that has it open, for example with lsof", "busy")]


def guard_unreadable(seen: Observation, node: Node) -> List[Reason]:
    return [unreadable_reason(seen.faults[node.devno])] if node.devno in seen.faults else []


# What open(2) and read(2) say where somebody forbids it, and nothing is wrong with the device.
# In English, as tools speak it that are run here, and in the language of the module's environment.
_FORBIDDEN = ("Operation not permitted", "Permission denied")
_LOOK = "the device may be sound: look at the device rules of the container (cgroup), at SELinux (ausearch -m avc), at kernel lockdown"


def unreadable_reason(text: str, remedy: str = _REPLACE, name: str = "unreadable") -> Reason:
    """A device that could not be opened or read: one that is failing, or one that root is kept from."""
    words = (*_FORBIDDEN, os.strerror(errno.EPERM), os.strerror(errno.EACCES))
    return Reason("blocked", text, _LOOK) if text.endswith(words) else Reason(name, text, remedy)


def guard_table(seen: Observation, node: Node) -> List[Reason]:
    table = seen.tables.get(node.devno)
    if table is None:
        return []
    names = ["%d%s" % (e.number, " '%s'" % e.name if e.name else "") for e in table.entries]
    holds = "; partitions: %s" % ", ".join(names) if names else ", empty"
    kind = table.kind.upper() if table.kind != "protective" else "protective MBR"
    return [Reason("table", "it carries a %s partition table%s%s" % (kind, holds, " (%s)" % table.fault if table.fault else ""), _FREE)]


def guard_unknown_table(seen: Observation, node: Node) -> List[Reason]:
    """One that the kernel alone knows, and shows partitions of: Apple's map, for example."""
    shown = ", ".join(part.name for part in seen.children(node.devno) if part.parent == node.devno)
    if not shown or seen.tables.get(node.devno) is not None:
        return []
    return [Reason("table", "it carries a partition table of a kind not known here; the kernel shows partitions: %s" % shown, _FREE)]


def guard_pv(seen: Observation, node: Node) -> List[Reason]:
    pv = seen.pv(node.devno)
    return [Reason("pv", "it is an LVM PV of %s" % ("VG '%s'" % pv.vg if pv.vg else "no VG"), _FREE)] if pv else []


def guard_filesystem(seen: Observation, node: Node) -> List[Reason]:
    ext4 = seen.filesystems.get(node.devno)
    label = " labelled '%s'" % ext4.label if ext4 and ext4.label else ""
    return [Reason("signature", "it carries an ext filesystem%s" % label, _FREE)] if ext4 else []


def guard_inside(seen: Observation, node: Node) -> List[Reason]:
    """What lies on its partitions, and on whatever is made of them."""
    reasons = []
    for part in [n for n in seen.tree(node.devno) if n.devno != node.devno]:
        inner = seen.pv(part.devno)
        inside = seen.filesystems.get(part.devno)
        what = "an LVM PV of VG '%s'" % inner.vg if inner else ("an ext filesystem" if inside else "")
        what = what or ", ".join(signature.text for signature in seen.signatures.get(part.devno, []))
        if what:
            reasons.append(Reason("signature", "%s carries %s" % (part.name, what), _FREE))
    return reasons


def guard_signature(seen: Observation, node: Node) -> List[Reason]:
    """What libblkid knows of the whole device; a table is told by guard_table, and not twice."""
    table = seen.tables.get(node.devno)
    found = [one for one in seen.signatures.get(node.devno, []) if table is None or one.usage != "partition-table"]
    return [Reason("signature", "it carries a signature: %s" % one.text, _FREE) for one in found]


def guard_marks(seen: Observation, node: Node) -> List[Reason]:
    """What we recognised ourselves, where partitions begin and at the end, and nobody else has told."""
    table, known = seen.tables.get(node.devno), {one.type for one in seen.signatures.get(node.devno, [])}
    parts = [part for part in seen.children(node.devno) if part.parent == node.devno]
    found = []
    for one in seen.marks.get(node.devno, []):
        told = one.type in known or (one.usage == "partition-table" and table is not None)
        told = told or (one.type == "LVM2_member" and one.offset < 2048 and seen.pv(node.devno) is not None)
        told = told or (one.type == "ext" and one.offset < 2048 and node.devno in seen.filesystems)
        if not told and not any(part.start <= one.offset < part.start + part.size for part in parts):
            found.append(Reason("signature", "it carries the mark of %s" % one.text, _FREE))
    return found


def guard_inside_data(seen: Observation, node: Node) -> List[Reason]:
    """Data that nobody recognises, in partitions of ours that lost what they carried."""
    return [reason._replace(remedy=_FREE) for reason in lost_reasons(seen, node.devno)]


def guard_unreadable_sample(seen: Observation, node: Node) -> List[Reason]:
    """A place of the blank proof that could not be read: an I/O error is never blank."""
    proof = seen.proofs.get(node.devno)
    return [unreadable_reason(fault) for fault in (proof.faults if proof else ()) if "could not" in fault]


def guard_data(seen: Observation, node: Node) -> List[Reason]:
    """Data that nobody recognises."""
    proof = seen.proofs.get(node.devno)
    return [Reason("data", fault, _FREE) for fault in (proof.faults if proof else ()) if "could not" not in fault]


IDENTITY_GUARDS: Tuple[Guard, ...] = (guard_test_identity, guard_loop, guard_no_identity, guard_paths, guard_twins, guard_one_ssd)
USE_GUARDS: Tuple[Guard, ...] = (
    guard_mounted,
    guard_swap,
    guard_held,
    guard_backing,
    guard_open,
    guard_multipath_member,
    guard_read_only,
    guard_removable,
    guard_not_a_disk,
    guard_busy,
)
CONTENT_GUARDS: Tuple[Guard, ...] = (
    guard_unreadable,
    guard_table,
    guard_unknown_table,
    guard_pv,
    guard_filesystem,
    guard_inside,
    guard_signature,
    guard_marks,
    guard_inside_data,
    guard_unreadable_sample,
    guard_data,
)
# Of a volume that a load is to write to; where it comes from is asked besides.
VOLUME_GUARDS: Tuple[Guard, ...] = (
    guard_mounted,
    guard_swap,
    guard_held,
    guard_backing,
    guard_open,
    guard_read_only,
    guard_table,
    guard_pv,
    guard_filesystem,
    guard_signature,
    guard_marks,
    guard_unreadable,
)


# Names of the reasons that only say what is on a device. An erase answers them, and so does a table of ours that was cut off, each in its
# own way; every other reason (identity, in use, unreadable) stands whatever is on the device.
FOREIGN = ("table", "pv", "signature", "data")


def standing(reasons: Iterable[Reason]) -> List[Reason]:
    """The reasons that stand, whatever may become of the contents."""
    return [reason for reason in reasons if reason.name not in FOREIGN]


def reasons_of(guards: Iterable[Guard], seen: Observation, node: Node) -> List[Reason]:
    """What the guards say, in their order."""
    return [reason for guard in guards for reason in guard(seen, node)]


def identity_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Identity: there, no placeholder, and only this disk's."""
    return reasons_of(IDENTITY_GUARDS, seen, node)


def use_reasons(seen: Observation, node: Node) -> List[Reason]:
    """In use: mounted in any namespace, swap, held by another device, made into another, open elsewhere, read-only, removable."""
    return reasons_of(USE_GUARDS, seen, node)


def content_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Content: a table, a signature, a PV, unreadable places, data that nobody recognises."""
    return reasons_of(CONTENT_GUARDS, seen, node)


def write_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Everything against writing a table to a device, but for the blank proof, which is made under the lock."""
    return identity_reasons(seen, node) + use_reasons(seen, node) + content_reasons(seen, node)


def take_reasons(seen: Observation, devno: str) -> List[Reason]:
    """Every reason why a device that is not ours may not be taken; empty: it is blank, free and known."""
    reasons = write_reasons(seen, seen.nodes[devno])
    if not reasons and devno not in seen.proofs:
        reasons.append(Reason("unproven", "it was not shown to be blank", "run again; report this if it stays"))
    return reasons


def exchanged_reasons(seen: Observation, devno: str, planned: Mapping[str, Any]) -> List[Reason]:
    """Whether a device of a partition step is the one that was planned. Another of the same name and size has another diskseq at the least."""
    if not devno:
        return [Reason("identity", "the device is gone", "run again when it is there")]
    node = seen.nodes[devno]
    found = (
        ("identity", node.identity.key, planned["identity"]),
        ("serial", node.identity.serial, planned["serial"]),
        ("model", node.identity.model, planned["model"]),
        ("size in bytes", node.size, planned["size_bytes"]),
        ("logical block", node.limits.logical, planned["logical_bytes"]),
        ("diskseq", node.diskseq, planned["diskseq"]),
    )
    changes = ["the %s changed since the plan: %s, was %s" % (what, now, then) for what, now, then in found if now != then]
    return [Reason("identity", text, "run again") for text in changes]


_LEFT_ALONE = "it is left alone; look at it, and wipe it by your own tools if it may be lost"


_GUIDE = "the guide on getting data back has all steps"
RESTORE_GROUP = "bring back what LVM knew of it with pvcreate --uuid and vgcfgrestore; " + _GUIDE
_RESTORE_FILESYSTEM = "unmount it, and bring the superblock back with e2fsck -b 32768 %s; " + _GUIDE
_IF_LOST = "if all of it may be lost, take the VG apart by your own tools and run again"


def part_content_reasons(seen: Observation, node: Node, vg: str) -> List[Reason]:
    """What speaks against carrying on in a partition of ours: it holds our PV (of *vg*), or nothing. Anything else was put there by somebody."""
    pv, who = seen.pv(node.devno), "partition %s" % node.name
    if pv and pv.vg == vg:
        return []
    above = seen.children(node.devno)
    volumes = ", ".join(child.title for child in above if child.kind == "lvm")
    if volumes and (not pv or not pv.vg):
        text = "%s carries %s, and LVM knows %s" % (who, volumes, "no VG of its PV" if pv else "no PV on it")
        return [Reason("damaged", text, RESTORE_GROUP)]
    what = "a PV of VG '%s'" % pv.vg if pv and pv.vg else ""
    what = what or ", ".join(signature.text for signature in seen.signatures.get(node.devno, []) if not pv)
    if not what and not pv and "wipefs" not in seen.tools:
        what = "content that cannot be known without wipefs"
    if not what and node.devno in seen.filesystems:
        what = "an ext filesystem labelled '%s'" % seen.filesystems[node.devno].label
    if not what and above:
        what = "another layer (%s)" % ", ".join(child.title or child.name for child in above)
    what = what or seen.faults.get(node.devno, "")
    reasons = [Reason("signature", "%s carries %s" % (who, what), _LEFT_ALONE)] if what else []
    for mount in seen.mounted(node.devno):
        reasons.append(Reason("mounted", "%s is mounted on %s" % (who, mount.target), "it is left alone; unmount it if it may be used"))
    return reasons or _unclaimed_reasons(seen, node) or blank_reasons(seen, node, who, RESTORE_GROUP)


def volume_content_reasons(seen: Observation, node: Node, volume: str, begun: bool = False) -> List[Reason]:
    """What speaks against making the filesystem of a volume of ours: it is empty, or somebody has put something there.

    *begun*: a run had proven it blank and was about to make this very filesystem; what an mke2fs that was cut off has left is no reason then.
    """
    who = "volume '%s' (%s)" % (volume, node.path)
    what = ", ".join(signature.text for signature in seen.signatures.get(node.devno, []))
    if node.devno in seen.faults:
        what = seen.faults[node.devno]
    if seen.children(node.devno) or seen.pv(node.devno):
        what = what or "another layer (%s)" % ", ".join(child.title or child.name for child in seen.children(node.devno))
    if what:
        return [Reason("signature", "%s carries %s" % (who, what), _LEFT_ALONE)]
    restore = _RESTORE_FILESYSTEM % node.path
    mounted = ["%s is mounted on %s, and its superblock is gone" % (who, mount.target) for mount in seen.mounted(node.devno)]
    reasons = [Reason("damaged", text, restore) for text in mounted] or _unclaimed_reasons(seen, node)
    return reasons if begun else reasons or blank_reasons(seen, node, who, restore)


def free_reasons(seen: Observation, node: Node) -> List[Reason]:
    """What speaks against a new LV on a PV of ours that other runs have made: an LV that was removed may have left its data there."""
    return blank_reasons(seen, node, "PV %s" % node.path, "an LV that was removed comes back with vgcfgrestore; " + _GUIDE)


def blank_reasons(seen: Observation, node: Node, who: str, remedy: str) -> List[Reason]:
    """What is left of data where nothing is known to be: on what is ours as on any device, only what was shown to be blank is written to."""
    backups = [mark for mark in seen.marks.get(node.devno, []) if mark.usage == "backup superblock"]
    if backups:
        text = "%s carries no superblock, and %s" % (who, backups[0].text)
        return [Reason("data", text, "%s; %s" % (remedy, _IF_LOST))]
    proof = seen.proofs.get(node.devno)
    if proof is None:
        return [Reason("unproven", "%s was not shown to be blank" % who, "run again; report this if it stays")]
    return [
        unreadable_reason("%s: %s" % (who, fault))
        if "could not" in fault
        else Reason("data", "%s carries nothing that is known, and %s" % (who, fault), "%s; %s" % (remedy, _IF_LOST))
        for fault in proof.faults
    ]


def lost_reasons(seen: Observation, devno: str) -> List[Reason]:
    """What partitions of ours on a disk hold that no layer claims any more."""
    parts = [part for part in seen.children(devno) if part.parent == devno]
    reasons = [reason for part in parts if _is_bare(seen, part) for reason in blank_reasons(seen, part, "partition %s" % part.name, "")]
    return [reason for reason in reasons if reason.name == "data"]


def _is_bare(seen: Observation, node: Node) -> bool:
    pv = seen.pv(node.devno)
    above = seen.children(node.devno) or node.devno in seen.filesystems or seen.signatures.get(node.devno) or seen.mounted(node.devno)
    return not above and (pv is None or not pv.vg)


def _unclaimed_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Uses that leave no mark and claim nothing: a database on the raw volume, a target that exports it."""
    return guard_backing(seen, node) + guard_open(seen, node)


def load_reasons(seen: Observation, devno: str) -> List[Reason]:
    """Every reason why a volume's contents may not be destroyed by a load; empty: it is provably ours, free and without content.

    Ours is a partition that this collection named, alone in its table, or a plain logical volume of a volume group whose PVs all are such.
    """
    node = seen.nodes[devno]
    reasons = _origin_reasons(seen, node)
    for reason in reasons_of(VOLUME_GUARDS, seen, node):
        keeps = reason.name in ("read_only", "unreadable", "blocked")
        reasons.append(reason if keeps else reason._replace(remedy=ONLY_EMPTY))
    if not reasons and devno not in seen.signatures:
        reasons.append(Reason("unproven", "nobody looked for signatures on it", "install util-linux (wipefs)"))
    return reasons


ONLY_EMPTY = "writing is measured on empty volumes only, between lvcreate and mkfs; leave write out"
_ONLY_OURS = "writing is measured on what this collection made only; leave write out"


def _origin_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Where a volume comes from: it, or all PVs of its volume group, must be partitions of ours."""
    if node.kind == "part":
        return _part_reasons(seen, node)
    if node.kind != "lvm":
        return [Reason("not_ours", "it is a %s" % node.kind, "wanted a partition or a logical volume of this collection; leave write out")]
    volumes = [lv for lv in seen.lvm.lvs if seen.lv_node(lv.vg, lv.name) == node]
    if len(volumes) != 1 or len(node.uuid) != len("LVM-") + 64:  # a part of a pool, mirror or snapshot carries a suffix (lvm2, dm_build_dm_uuid)
        return [Reason("not_ours", "it is no plain logical volume that lvm reports", _ONLY_OURS)]
    pvs = [pv for pv in seen.lvm.pvs if pv.vg == volumes[0].vg]
    reasons = [] if pvs else [Reason("not_ours", "lvm reports no PV of its VG '%s'" % volumes[0].vg, _ONLY_OURS)]
    for pv in pvs:
        below = seen.nodes.get(pv.devno)
        if below is None:
            reasons.append(Reason("not_ours", "PV %s of its VG '%s' is not there" % (pv.name, pv.vg), _ONLY_OURS))
        else:
            reasons += _part_reasons(seen, below, "PV %s of its VG '%s'" % (pv.name, pv.vg))
    known = {pv.devno for pv in pvs}
    for segment in node.segments:
        strange = [leg for leg, _first in segment.legs if leg not in known]
        if strange or not segment.legs or segment.kind not in ("linear", "striped"):
            reasons.append(Reason("not_ours", "it is mapped %s to %s, which is no PV of its VG" % (segment.kind, ", ".join(strange) or "nothing"), _ONLY_OURS))
            break
    return reasons if node.segments else [*reasons, Reason("not_ours", "its mapping is not known", _ONLY_OURS)]


def _part_reasons(seen: Observation, node: Node, who: str = "it") -> List[Reason]:
    """Whether a node is the one partition of a sound GPT, and carries a name of ours, where its table says it is."""
    if node.kind != "part":
        return [Reason("not_ours", "%s is a %s, not a partition that this collection made" % (who, node.kind), _ONLY_OURS)]
    table = seen.tables.get(node.parent)
    entries = table.entries if table is not None and table.kind == "gpt" and not table.fault else ()
    entry = next((one for one in entries if (one.number, one.start, one.size) == (node.number, node.start, node.size)), None)
    if entry is None or len(entries) != 1 or not our_name(entry.name):
        name = "named '%s'" % entry.name if entry else "not in a sound GPT"
        alone = "" if len(entries) < 2 else ", one of %d partitions" % len(entries)
        return [Reason("not_ours", "%s is a partition %s%s, not one that this collection made" % (who, name, alone), _ONLY_OURS)]
    return []


def describe(seen: Observation, devno: str) -> str:
    """One short line about a disk: what it is and what is on it."""
    node = seen.nodes[devno]
    table = seen.tables.get(devno)
    content = "blank"
    if table is not None:
        content = "%s, %d partition%s" % (table.kind, len(table.entries), "" if len(table.entries) == 1 else "s")
    elif content_reasons(seen, node):
        content = content_reasons(seen, node)[0].text
    elif devno not in seen.proofs:
        content = "in use" if use_reasons(seen, node) else "not examined"
    return "%s  %s  %s  %s  %s" % (node.name, node.identity.model or node.kind, node.identity.serial or "-", human(node.size), content)
