# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Why a device may not be taken: one pure function from observation to reasons, used by plan and by writer."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node, Observation, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import human

_OUR_NAME = re.compile(r"plumbline:([a-z][a-z0-9_]{0,19}):([0-9]{1,2})")
_PLACEHOLDERS = frozenset(("none", "unknown", "n/a", "na", "default", "serial", "0123456789abcdef", "123456789", "1234567890", "xxxxxxxx"))


class Reason(NamedTuple):
    """A refusal: *name* for machines, *text* what was found, *remedy* what to do about it."""

    name: str
    text: str
    remedy: str

    def line(self, device: str) -> str:
        return "%s: %s [%s]; %s" % (device, self.text, self.name, self.remedy)

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
    """Whether an identifier is one that says nothing: empty, all zeros, or a well-known filler."""
    bare = re.sub(r"^(?:eui|naa|uuid|nguid|t10)\.", "", text.strip().lower())
    digits = re.sub(r"[^0-9a-z]", "", bare)
    return not digits or set(digits) <= {"0"} or set(digits) <= {"f"} or bare in _PLACEHOLDERS


def identity_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Identity: there, no placeholder, and only this disk's."""
    identity = node.identity
    if identity.test:
        return (
            []
            if node.kind == "loop"
            else [Reason("identity", "a test identity is set for a real disk", "test_identity is for loop devices only; leave it out")]
        )
    if node.kind == "loop":
        return [Reason("identity", "a loop device has no stable identity", "it is accepted only with an explicit test_identity")]
    wwid = "" if is_placeholder(identity.wwid) else identity.wwid
    serial = "" if is_placeholder(identity.serial) else identity.serial
    if not wwid and not serial:
        told = identity.wwid or identity.serial
        what = "its identity '%s' is a placeholder" % told if told else "it has neither a WWID nor a serial"
        return [Reason("identity", what, "a device that cannot be told from another is never written to")]
    twins = [
        other.name
        for other in seen.nodes.values()
        if other.devno != node.devno
        and other.kind in ("disk", "mpath")
        and ((wwid and other.identity.wwid == wwid) or (not wwid and (other.identity.model, other.identity.serial) == (identity.model, identity.serial)))
    ]
    if twins:
        return [
            Reason(
                "identity",
                "it shares its identity %s with %s" % (wwid or serial, ", ".join(twins)),
                "two paths to one disk want multipath; two disks with one serial cannot be told apart",
            )
        ]
    return []


def use_reasons(seen: Observation, node: Node) -> List[Reason]:
    """In use: mounted in any namespace, swap, held by another device, open elsewhere, read-only, removable."""
    reasons = []
    tree = seen.tree(node.devno)
    for one in tree:
        for mount in seen.mounted(one.devno):
            where = "" if mount.here else " in another mount namespace"
            reasons.append(Reason("mounted", "%s is mounted on %s%s" % (one.name, mount.target, where), "unmount it if it may be used"))
        if one.devno in seen.swaps:
            reasons.append(Reason("swap", "%s is in use as swap" % one.name, "swapoff it if it may be used"))
    for one in tree:
        for holder in one.holders:
            held = seen.nodes.get(holder)
            name = (held.title or held.name) if held else holder
            reasons.append(Reason("held", "%s is held by %s (%s)" % (one.name, name, held.kind if held else "unknown"), "take that apart first if it may go"))
    if node.read_only:
        reasons.append(Reason("read_only", "it is read-only", "name another device"))
    if node.removable:
        reasons.append(Reason("removable", "it is removable", "name a device that is built in"))
    if node.kind not in ("disk", "loop"):
        reasons.append(Reason("not_a_disk", "%s is a %s" % (node.name, node.kind), "name a whole disk"))
    if node.devno in seen.busy:
        reasons.append(Reason("busy", "it cannot be opened alone: %s" % seen.busy[node.devno], "find the program that has it open, for example with lsof"))
    return reasons


def content_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Content: a table, a signature, a PV, unreadable places, data that nobody recognises."""
    reasons = []
    remedy = "if it may be lost, erase the device yourself and run again"
    table = seen.tables.get(node.devno)
    pv = seen.pv(node.devno)
    if node.devno in seen.faults:
        reasons.append(Reason("unreadable", seen.faults[node.devno], "replace the device: what cannot be read is never taken for blank"))
    if table is not None:
        names = ["%d%s" % (e.number, " '%s'" % e.name if e.name else "") for e in table.entries]
        holds = "; partitions: %s" % ", ".join(names) if names else ", empty"
        reasons.append(
            Reason(
                "table",
                "it carries a %s partition table%s%s"
                % (table.kind.upper() if table.kind != "protective" else "protective MBR", holds, " (%s)" % table.fault if table.fault else ""),
                remedy,
            )
        )
    if pv:
        reasons.append(Reason("pv", "it is an LVM PV of %s" % ("VG '%s'" % pv.vg if pv.vg else "no VG"), remedy))
    ext4 = seen.filesystems.get(node.devno)
    if ext4:
        reasons.append(Reason("signature", "it carries an ext filesystem%s" % (" labelled '%s'" % ext4.label if ext4.label else ""), remedy))
    for part in [n for n in seen.tree(node.devno) if n.devno != node.devno]:
        inner = seen.pv(part.devno)
        inside = seen.filesystems.get(part.devno)
        what = "an LVM PV of VG '%s'" % inner.vg if inner else ("an ext filesystem" if inside else "")
        what = what or ", ".join(signature.text for signature in seen.signatures.get(part.devno, []))
        if what:
            reasons.append(Reason("signature", "%s carries %s" % (part.name, what), remedy))
    for signature in seen.signatures.get(node.devno, []):
        if table is None or signature.usage != "partition-table":
            reasons.append(Reason("signature", "it carries a signature: %s" % signature.text, remedy))
    proof = seen.proofs.get(node.devno)
    for fault in proof.faults if proof else ():
        name = "unreadable" if "could not" in fault else "data"
        reasons.append(Reason(name, fault, remedy if name == "data" else "replace the device: what cannot be read is never taken for blank"))
    return reasons


def take_reasons(seen: Observation, devno: str) -> List[Reason]:
    """Every reason why a device that is not ours may not be taken; empty: it is blank, free and known."""
    node = seen.nodes[devno]
    reasons = identity_reasons(seen, node) + use_reasons(seen, node) + content_reasons(seen, node)
    if not reasons and devno not in seen.proofs:
        reasons.append(Reason("unproven", "it was not shown to be blank", "run again; report this if it stays"))
    return reasons


def load_reasons(seen: Observation, devno: str) -> List[Reason]:
    """Every reason why a volume's contents may not be destroyed by a load; empty: it is provably ours, free and without content.

    Ours is a partition that this collection named, alone in its table, or a plain logical volume of a volume group whose PVs all are such.
    """
    node = seen.nodes[devno]
    reasons = _origin_reasons(seen, node)
    for mount in seen.mounted(devno):
        reasons.append(Reason("mounted", "it is mounted on %s%s" % (mount.target, "" if mount.here else " in another mount namespace"), _ONLY_EMPTY))
    if devno in seen.swaps:
        reasons.append(Reason("swap", "it is in use as swap", _ONLY_EMPTY))
    for holder in node.holders:
        held = seen.nodes.get(holder)
        reasons.append(Reason("held", "it is held by %s" % ((held.title or held.name) if held else holder), _ONLY_EMPTY))
    if node.read_only:
        reasons.append(Reason("read_only", "it is read-only", "name another volume"))
    table = seen.tables.get(devno)
    if table is not None:
        reasons.append(Reason("table", "it carries a %s partition table" % table.kind.upper(), _ONLY_EMPTY))
    pv = seen.pv(devno)
    if pv:
        reasons.append(Reason("pv", "it is an LVM PV of %s" % ("VG '%s'" % pv.vg if pv.vg else "no VG"), _ONLY_EMPTY))
    ext4 = seen.filesystems.get(devno)
    if ext4:
        reasons.append(Reason("signature", "it carries an ext filesystem%s" % (" labelled '%s'" % ext4.label if ext4.label else ""), _ONLY_EMPTY))
    for signature in seen.signatures.get(devno, []):
        reasons.append(Reason("signature", "it carries a signature: %s" % signature.text, _ONLY_EMPTY))
    if devno in seen.faults:
        reasons.append(Reason("unreadable", seen.faults[devno], "replace the device: what cannot be read is never taken for empty"))
    if not reasons and devno not in seen.signatures:
        reasons.append(Reason("unproven", "nobody looked for signatures on it", "install util-linux (wipefs)"))
    return reasons


_ONLY_EMPTY = "writing is measured on empty volumes only, between lvcreate and mkfs; leave write out"
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


def names_of(seen: Observation, devnos: Iterable[str]) -> str:
    """Kernel names of several devices, for messages."""
    return ", ".join(seen.nodes[devno].name for devno in devnos)
