# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of data where nothing is known to be: reasons against writing there. Pure."""

from __future__ import annotations

from typing import List

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BACKUPS, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason, unreadable_reason

_IF_LOST = "if nothing of it is needed, take the VG apart by your own tools and run again"


def blank_reasons(seen: Observation, node: Node, who: str, remedy: str) -> List[Reason]:
    """Why a device on which nothing is recognised is not written to: it was not shown to be blank. That holds for devices of ours as for any other."""
    backups = [mark for mark in seen.marks.get(node.devno, []) if mark.usage in BACKUPS]
    if backups:
        text = "%s carries no superblock, and %s" % (who, backups[0].text)
        return [Reason("data", text, "%s; %s" % (remedy, _IF_LOST))]
    proof = seen.proofs.get(node.devno)
    if proof is None:
        return [Reason("unproven", "%s was not shown to be blank" % who, "run again; report this if it stays")]
    data = [Reason("data", "%s carries nothing that is known, and %s" % (who, fault), "%s; %s" % (remedy, _IF_LOST)) for fault in proof.data]
    return data + [unreadable_reason("%s: %s" % (who, fault)) for fault in proof.unread]


def lost_reasons(seen: Observation, devno: str) -> List[Reason]:
    """What partitions of ours on a disk hold that no layer claims any more."""
    parts = [part for part in seen.children(devno) if part.parent == devno]
    reasons = [reason for part in parts if _is_bare(seen, part) for reason in blank_reasons(seen, part, "partition %s" % part.name, "")]
    return [reason for reason in reasons if reason.name == "data"]


def _is_bare(seen: Observation, node: Node) -> bool:
    pv = seen.pv(node.devno)
    above = seen.children(node.devno) or node.devno in seen.filesystems or seen.signatures.get(node.devno) or seen.mounted(node.devno)
    return not above and (pv is None or not pv.vg)
