# SPDX-License-Identifier: GPL-3.0-or-later
"""Freeing a device that carries something foreign: what would go, its digest, and who may say so. Pure.

A device is erased only where the spec names its serial together with the digest that its refusal printed. The digest is
of the device's identity and of what was found on it, so it fits no other device, and not this one once its contents changed.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Set

from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ends, Observation, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import is_placeholder
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lvm
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_ours_by_backup, write_table_again
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import as_yaml

DIGEST_LENGTH = 32


def digest(seen: Observation, devno: str) -> str:
    """Names a device and what it carries: identity, size, table, signatures, marks, PVs, and the first and last MiB.

    Nothing in it changes with the kernel's names or with a reboot. It does change once the device has been erased here: contents that
    somebody brings back from a backup are not erased again because a line of the spec was forgotten.
    """
    node, table = seen.nodes[devno], seen.tables.get(devno)
    inside = []
    for device in seen.tree(devno):
        pv, made = seen.pv(device.devno), seen.filesystems.get(device.devno)
        inside.append(
            {
                "part": device.number,
                "start": device.start,
                "size": device.size,
                "pv": [pv.vg, pv.uuid] if pv else [],
                made.kind if made else "ext4": [made.uuid, made.label] if made else [],  # the digests of earlier releases hold
                "signatures": _plain(seen.signatures.get(device.devno, [])),
                "ends": _digest_of_ends(seen, device.devno) if device.devno != devno else "",
            }
        )
    whole = {
        "identity": [node.identity.key, node.identity.serial, node.identity.model, node.size],
        "table": [table.kind, table.guid, table.fault, [list(entry) for entry in table.entries]] if table else [],
        "inside": inside,
        "marks": _plain(seen.marks.get(devno, [])),
        "erased": seen.erasures.get(devno, 0),
        "ends": _digest_of_ends(seen, devno),
    }
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode("utf-8", "backslashreplace")).hexdigest()[:DIGEST_LENGTH]


def _digest_of_ends(seen: Observation, devno: str) -> str:
    ends = seen.ends.get(devno, Ends())
    return ends.digest or hashlib.sha256(ends.head + ends.tail).hexdigest()


def erase_changed_reasons(seen: Observation, devno: str, planned: str) -> List[Reason]:
    """Why a device is not erased that has changed since the plan: only what the author of the spec has seen is erased."""
    current = digest(seen, devno)
    if current == planned:
        return []
    return [Reason("erase", "what it carries changed since the plan: %s, was %s" % (current, planned), "look at it and run again")]


def _plain(signatures: Sequence[Signature]) -> List[List[Any]]:
    return sorted(list(signature) for signature in signatures)


def contents(seen: Observation, devno: str) -> List[str]:
    """Everything that was found on a device and goes when it is erased, one line each."""
    lines = [reason.text for reason in guards.content_reasons(seen, seen.nodes[devno]) if reason.name in guards.FOREIGN]
    return lines or ["nothing that was recognised"]


def obstacles(seen: Observation, devnos: Sequence[str]) -> List[List[Reason]]:
    """For each device why it is not erased, whatever the spec says: identity, use, what cannot be read, and volume groups that reach beyond."""
    erased = {device.devno for devno in devnos for device in seen.tree(devno)}
    all_reasons = []
    for devno in devnos:
        node = seen.nodes[devno]
        reasons = guards.blocking_reasons(guards.write_reasons(seen, node))
        if not node.identity.serial or is_placeholder(node.identity.serial):
            reasons.append(Reason("identity", "it has no serial by which it could be named for an erase", "free it by your own tools"))
        if devno not in seen.ends:
            reasons.append(Reason("unproven", "its first and last MiB were not read", "run again; report this if it stays"))
        if is_ours_by_backup(seen.tables.get(devno)):
            text = "the first copy of its partition table is damaged, and the backup has partitions of this collection"
            reasons.append(Reason("damaged", text, write_table_again(node.path)))
        all_reasons.append(reasons + _unseen_reasons(seen, devno) + _group_reasons(seen, devno, erased))
    return all_reasons


def _unseen_reasons(seen: Observation, devno: str) -> List[Reason]:
    """PVs that LVM does not report: which volume group would be torn is not known then, and its metadata cannot be kept."""
    reasons = []
    for device in seen.tree(devno):
        if seen.pv(device.devno) is None and any(signature.type == "LVM2_member" for signature in seen.signatures.get(device.devno, [])):
            text = "%s carries an LVM PV, and LVM does not say of which volume group" % device.name
            reasons.append(Reason("unproven", text, "install lvm2, or let its devices file and filters show the device, and run again"))
    return reasons


def _group_reasons(seen: Observation, devno: str, erased: Set[str]) -> List[Reason]:
    """A volume group that has other PVs on this host would lose a part of itself."""
    groups = {pv.vg for device in seen.tree(devno) for pv in [seen.pv(device.devno)] if pv and pv.vg}
    reasons = []
    for pv in seen.lvm.pvs:
        if pv.vg in groups and pv.devno in seen.nodes and pv.devno not in erased:
            text = "its VG '%s' has a PV on %s as well" % (pv.vg, seen.nodes[pv.devno].name)
            reasons.append(Reason("held", text, "take the VG apart first, or have all its devices erased by one stack"))
    return reasons


def offer(seen: Observation, devno: str, together: Sequence[str]) -> Optional[str]:
    """What to write into the spec so that the device is erased; None where it would not be.

    *together* are the devices of its stack, which may be erased at once, as the legs of an old volume group have to be.
    """
    freed = [other for other in together if _is_freed(seen, other)]
    if devno not in freed or obstacles(seen, freed)[freed.index(devno)]:
        return None
    entry = "{serial: %s, signature: %s}" % (as_yaml(seen.nodes[devno].identity.serial), as_yaml(digest(seen, devno)))
    return "to free it and lose all of that, add to the stack: erase: [%s]" % entry


def _is_freed(seen: Observation, devno: str) -> bool:
    """Whether an erase would take away everything that speaks against a device by itself."""
    reasons = guards.take_reasons(seen, devno)
    return bool(reasons) and not guards.blocking_reasons(reasons)


def as_erased(seen: Observation, devnos: Sequence[str]) -> Observation:
    """The host as it will be when these devices are erased: for planning what comes after."""
    tops = set(devnos)
    gone = {device.devno for devno in devnos for device in seen.tree(devno)} - tops
    without = gone | tops

    def kept(what: Mapping[str, Any], names: Set[str]) -> Dict[str, Any]:
        return {devno: value for devno, value in what.items() if devno not in names}

    pvs = tuple(pv for pv in seen.lvm.pvs if pv.devno not in without)
    lost = {pv.vg for pv in seen.lvm.pvs if pv.devno in without} - {pv.vg for pv in pvs if pv.devno in seen.nodes}
    lvm = Lvm(
        tuple(pv for pv in pvs if pv.vg not in lost),
        tuple(vg for vg in seen.lvm.vgs if vg.name not in lost),
        tuple(lv for lv in seen.lvm.lvs if lv.vg not in lost),
    )
    return dataclasses.replace(
        seen,
        nodes=kept(seen.nodes, gone),
        tables={devno: None if devno in tops else table for devno, table in kept(seen.tables, gone).items()},
        signatures=kept(seen.signatures, without),
        filesystems=kept(seen.filesystems, without),
        marks=kept(seen.marks, without),
        proofs=kept(seen.proofs, without),
        ends=kept(seen.ends, without),
        lvm=lvm,
    )
