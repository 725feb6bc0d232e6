# SPDX-License-Identifier: GPL-3.0-or-later
"""What speaks against carrying on in a partition or a volume of ours, and against a load on it. Pure."""

from __future__ import annotations

from typing import List

from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards
from ansible_collections.plumbline.ssd.plugins.module_utils._block.guards import guard_backing, guard_open, reasons_of
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BACKUP_OF_WHOLE, BACKUPS, UNFINISHED, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lost_data import blank_reasons
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import our_name
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import FilesystemKind
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import kind_of_family, kind_of_mount

_LEFT_ALONE = "it is left alone; look at it, and wipe it by your own tools if nothing on it is needed"
_LOOK = "unmount it if it is mounted, make a copy of %s, and find out what it holds"
_GUIDE = "the guide on getting data back has all steps"
RESTORE_GROUP = "bring back what LVM knew of it with pvcreate --uuid and vgcfgrestore; " + _GUIDE


def part_content_reasons(seen: Observation, node: Node, vg: str) -> List[Reason]:
    """What speaks against carrying on in a partition of ours: it holds our PV (of *vg*), or nothing. Anything else was put there by somebody."""
    pv, who = seen.pv(node.devno), ("array %s" if node.kind == "md" else "partition %s") % node.name
    if pv and pv.vg == vg:
        return []
    hidden = seen.hidden.get(node.devno)
    if hidden:
        return [Reason("hidden", "%s carries %s" % (who, hidden.words), hidden.remedy(node.path))]
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
        what = "an %s filesystem labelled '%s'" % (seen.filesystems[node.devno].family, seen.filesystems[node.devno].label)
    if not what and above:
        what = "another layer (%s)" % ", ".join(child.title or child.name for child in above)
    what = what or seen.faults.get(node.devno, "")
    reasons = [Reason("signature", "%s carries %s" % (who, what), _LEFT_ALONE)] if what else []
    for mount in seen.mounted(node.devno):
        reasons.append(Reason("mounted", "%s is mounted on %s" % (who, mount.target), "it is left alone; unmount it if it may be used"))
    return reasons or _unclaimed_reasons(seen, node) or blank_reasons(seen, node, who, RESTORE_GROUP)


def volume_content_reasons(seen: Observation, node: Node, volume: str, kind: FilesystemKind, begun: str = "") -> List[Reason]:
    """What speaks against making the filesystem of a volume of ours: it is empty, or somebody has put something there.

    *begun*: the UUID of the filesystem that a run was about to make on it, and had proven it blank. What an mke2fs that was cut off has left is no
    reason then: it clears the place of the superblock first and fills it last. Data in that place is somebody else's, and so are backups of
    another superblock.
    """
    who = "volume '%s' (%s)" % (volume, node.path)
    marks = seen.signatures.get(node.devno, [])
    backups = [mark for mark in seen.marks.get(node.devno, []) if mark.usage in BACKUPS]
    others = [mark for mark in backups if mark.uuid != begun or mark.usage == BACKUP_OF_WHOLE]
    kinds = [kind_of_family(mark.type) for mark in [*marks, *others]] + [kind_of_mount(mount.fstype) for mount in seen.mounted(node.devno)]
    known = next(filter(None, kinds), None)
    there = known or kind
    restore = "%s; %s" % (there.restore % node.path if known or not kind.scans else _LOOK % node.path, _GUIDE)
    mounted = [Reason("damaged", "%s is mounted on %s, and its superblock is gone" % (who, mount.target), restore) for mount in seen.mounted(node.devno)]
    if carries_on(seen, node, begun) and not others:
        return mounted or _unclaimed_reasons(seen, node)
    what = ", ".join(signature.text for signature in marks)
    if what and all(mark.type == there.family and mark.offset == 0 for mark in marks) and node.devno not in seen.faults and not seen.children(node.devno):
        found = "a filesystem that was not made to the end, or the copy of a superblock" if marks[0].usage == UNFINISHED else "no superblock that is sound"
        text = "%s carries %s: %s" % (who, what, found)
        return mounted or [Reason("damaged", text, "where it holds data: %s; where nothing on it is needed: discard all of it (blkdiscard)" % restore)]
    if node.devno in seen.faults:
        what = seen.faults[node.devno]
    if seen.children(node.devno) or seen.pv(node.devno):
        what = what or "another layer (%s)" % ", ".join(child.title or child.name for child in seen.children(node.devno))
    if what:
        return [Reason("signature", "%s carries %s" % (who, what), _LEFT_ALONE)]
    reasons = mounted or _unclaimed_reasons(seen, node)
    proof = seen.proofs.get(node.devno)
    if begun and not others and proof and (not proof.faults or proof.data_at >= sum(kind.superblock)):
        return reasons
    return reasons or blank_reasons(seen, node, who, restore)


def carries_on(seen: Observation, node: Node, begun: str) -> bool:
    """Whether what a volume holds is what an mkfs of ours has left that was cut off, by the host's record (*begun*) and its own superblock."""
    marks = seen.signatures.get(node.devno, [])
    alone = len(marks) == 1 and not seen.children(node.devno) and not seen.pv(node.devno) and node.devno not in seen.faults
    return bool(begun) and alone and (marks[0].usage, marks[0].uuid) == (UNFINISHED, begun)


def free_reasons(seen: Observation, node: Node) -> List[Reason]:
    """What speaks against a new LV on a PV of ours that other runs have made: an LV that was removed may have left its data there."""
    return blank_reasons(seen, node, "PV %s" % node.path, "an LV that was removed comes back with vgcfgrestore; " + _GUIDE)


def _unclaimed_reasons(seen: Observation, node: Node) -> List[Reason]:
    """Uses that leave no mark and claim nothing: a database on the raw volume, a target that exports it."""
    return guard_backing(seen, node) + guard_open(seen, node)


def known_bytes(seen: Observation, devno: str) -> int:
    """What our PV or filesystem has of its partition, also behind its end: the table that it was made with may have been replaced by an older one."""
    pv, made = seen.pv(devno), seen.filesystems.get(devno)
    group = seen.vg(pv.vg) if pv else None
    if pv and group:
        return pv.data_start + pv.extents * group.extent_bytes
    return made.blocks * made.block if made else 0


def load_reasons(seen: Observation, devno: str) -> List[Reason]:
    """Every reason why a volume's contents may not be destroyed by a load; empty: it is provably ours, free and without content.

    Ours is a partition that this collection named, alone in its table, or a plain logical volume of a volume group whose PVs all are such.
    """
    node = seen.nodes[devno]
    reasons = _origin_reasons(seen, node)
    for reason in reasons_of(guards.VOLUME_GUARDS, seen, node):
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
    if node.kind == "md" and node.segments and all(segment.legs for segment in node.segments):
        return [reason for leg in node.slaves for reason in _part_reasons(seen, seen.nodes[leg], "%s, member %s" % (who, seen.nodes[leg].name))]
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
