# SPDX-License-Identifier: GPL-3.0-or-later
"""Why a device may not be taken: one pure function from observation to reasons, used by plan and by writer."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Mapping, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import is_placeholder, stable_wwid
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lost_data import lost_reasons
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_ours_by_backup, write_table_again
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason, unreadable_reason
from ansible_collections.plumbline.ssd.plugins.module_utils._block.virtual_disks import on_one_ssd
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human

# --- the guards ------------------------------------------------------------------------------------
# Each is a pure function from the observation and a device to the reasons against it, and has a name of its own. The tuples
# below are all there are: the plan, the proof under the lock and every probe that writes go through them.

Guard = Callable[[Observation, Node], List[Reason]]

_TAKE_APART = "take that apart first if it may go"
_FREE = "if nothing on it is needed, free the device, by erase or by your own tools, and run again"


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
    if identity.test or node.kind != "disk" or stable_wwid(identity) or not is_placeholder(identity.serial):
        return []
    shown = identity.wwid or identity.serial
    what = "its identity '%s' is a placeholder" % shown if shown else "it has neither a WWID nor a serial"
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


def guard_one_ssd(seen: Observation, node: Node) -> List[Reason]:
    """One namespace of an SSD with two ports, by both: the same serial, model and namespace number at two controllers, which may report two identities."""
    mine = node.identity
    if mine.transport != "nvme" or mine.test or not stable_wwid(mine):
        return []
    others = [
        other.name
        for other in seen.nodes.values()
        if other.kind == "disk" and other.identity.transport == "nvme" and other.identity.nsid == mine.nsid and other.identity.wwid != mine.wwid
        and other.identity.controller != mine.controller and on_one_ssd(node, other) and stable_wwid(other.identity)
    ]  # fmt: skip
    if not others:
        return []
    text = "it and %s are namespace %d of one SSD, serial %s, by two controllers" % (", ".join(others), mine.nsid, mine.serial)
    return [Reason("twin", text, "a stripe over both would be one over itself; let the kernel join them (nvme_core.multipath=Y), or unplug one path")]


# Mount points of the running system, which cannot be unmounted.
_OF_THE_SYSTEM = frozenset(["/", "/boot", "/boot/efi", "/usr", "/var"])


def guard_mounted(seen: Observation, node: Node) -> List[Reason]:
    reasons = []
    for device in seen.tree(node.devno):
        for mount in seen.mounted(device.devno):
            where = "" if mount.here else " in another mount namespace"
            remedy = "the running system is on it; name another device" if mount.target in _OF_THE_SYSTEM else "unmount it if it may be used"
            reasons.append(Reason("mounted", "%s is mounted on %s%s" % (device.name, mount.target, where), remedy))
        if device.devno in seen.members and not seen.mounted(device.devno):  # the kernel lists them while it is mounted, wherever that is
            text = "%s is one of %d devices of a filesystem that the kernel has in use" % (device.name, len(seen.members[device.devno]))
            reasons.append(Reason("mounted", text, "unmount that filesystem if it may be used"))
    return reasons


def guard_swap(seen: Observation, node: Node) -> List[Reason]:
    tree = seen.tree(node.devno)
    return [Reason("swap", "%s is in use as swap" % device.name, "swapoff it if it may be used") for device in tree if device.devno in seen.swaps]


def guard_held(seen: Observation, node: Node) -> List[Reason]:
    reasons = []
    for device in seen.tree(node.devno):
        for holder in device.holders:
            held = seen.nodes.get(holder)
            name = (held.title or held.name) if held else holder
            reasons.append(Reason("held", "%s is held by %s (%s)" % (device.name, name, held.kind if held else "unknown"), _TAKE_APART))
    return reasons


def guard_backing(seen: Observation, node: Node) -> List[Reason]:
    """Used by something that does not claim it: loop devices, SCSI and NVMe targets."""
    tree = seen.tree(node.devno)
    return [Reason("backing", "%s backs %s" % (device.name, user), _TAKE_APART) for device in tree for user in seen.backings.get(device.devno, [])]


def guard_open(seen: Observation, node: Node) -> List[Reason]:
    """Open in another process, exclusively or not."""
    reasons = []
    for device in seen.tree(node.devno):
        programs = seen.openers.get(device.devno, [])
        if programs:
            more = " and %d more" % (len(programs) - 3) if len(programs) > 3 else ""
            reasons.append(Reason("open", "%s is open in %s%s" % (device.name, ", ".join(programs[:3]), more), "end that program if it may be used"))
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


def guard_zoned(_seen: Observation, node: Node) -> List[Reason]:
    """A zoned device, whose zones can only be written sequentially (Documentation/ABI/stable/sysfs-block, queue/zoned): ZNS, SMR."""
    if node.zoned != "host-managed":
        return []
    return [Reason("zoned", "it is zoned, and takes no write but at the end of what a zone holds", "name another: tables and filesystems write in any order")]


_WHAT = {"part": "a partition", "lvm": "a logical volume", "md": "an md array", "crypt": "an encrypted mapping", "mpath": "a multipath map"}


def guard_not_a_disk(seen: Observation, node: Node) -> List[Reason]:
    if node.kind in ("disk", "loop"):
        return []
    disk = seen.nodes.get(node.parent)
    if not disk:
        return [Reason("not_a_disk", "%s is %s" % (node.name, _WHAT.get(node.kind, "a device of kind " + node.kind)), "name a whole disk")]
    return [Reason("not_a_disk", "%s is a partition of %s" % (node.name, disk.name), "name the whole disk, %s" % (seen.link(disk.devno) or disk.path))]


def guard_busy(seen: Observation, node: Node) -> List[Reason]:
    """O_EXCL fails: the kernel holds it, or another program that opened it exclusively."""
    if node.devno not in seen.busy:
        return []
    text = "it cannot be opened alone: %s" % seen.busy[node.devno]
    return [unreadable_reason(text, "find the program that has it open, for example with lsof", "busy")]


def guard_unreadable(seen: Observation, node: Node) -> List[Reason]:
    return [unreadable_reason(seen.faults[node.devno])] if node.devno in seen.faults else []


def guard_table(seen: Observation, node: Node) -> List[Reason]:
    table = seen.tables.get(node.devno)
    if table is None:
        return []
    names = ["%d%s" % (e.number, " '%s'" % e.name if e.name else "") for e in table.entries or table.spare]
    holds = "; partitions: %s" % ", ".join(names) if names else ", empty"
    kind = table.kind.upper() if table.kind != "protective" else "protective MBR"
    fault = " (%s%s)" % (table.fault or "no GPT behind it", "; its backup is sound" if table.spare else "") if table.fault or table.spare else ""
    return [Reason("table", "it carries a %s partition table%s%s" % (kind, holds, fault), _FREE)]


def guard_unknown_table(seen: Observation, node: Node) -> List[Reason]:
    """A table of a kind that only the kernel knows, which shows its partitions: Apple's map, for example."""
    shown = ", ".join(part.name for part in seen.children(node.devno) if part.parent == node.devno)
    if not shown or seen.tables.get(node.devno) is not None:
        return []
    return [Reason("table", "it carries a partition table of a kind not known here; the kernel shows partitions: %s" % shown, _FREE)]


def guard_pv(seen: Observation, node: Node) -> List[Reason]:
    pv = seen.pv(node.devno)
    return [Reason("pv", "it is an LVM PV of %s" % ("VG '%s'" % pv.vg if pv.vg else "no VG"), _FREE)] if pv else []


def guard_hidden_pv(seen: Observation, node: Node) -> List[Reason]:
    """A PV that LVM does not list, on the device or inside: nothing of it is lost, so that no erase is offered."""
    hidden_pvs = [(device, seen.hidden[device.devno]) for device in seen.tree(node.devno) if device.devno in seen.hidden]
    return [Reason("hidden", "%s carries %s" % (device.name, hidden.words), hidden.remedy(device.path)) for device, hidden in hidden_pvs]


def guard_filesystem(seen: Observation, node: Node) -> List[Reason]:
    filesystem = seen.filesystems.get(node.devno)
    label = " labelled '%s'" % filesystem.label if filesystem and filesystem.label else ""
    return [Reason("signature", "it carries an %s filesystem%s" % (filesystem.family, label), _FREE)] if filesystem else []


def guard_inside(seen: Observation, node: Node) -> List[Reason]:
    """What lies on its partitions, and on whatever is made of them."""
    reasons = []
    for part in [n for n in seen.tree(node.devno) if n.devno != node.devno]:
        inner = seen.pv(part.devno)
        inside = seen.filesystems.get(part.devno)
        what = "an LVM PV of VG '%s'" % inner.vg if inner else "an %s filesystem" % inside.family if inside else ""
        what = what or ", ".join(signature.text for signature in seen.signatures.get(part.devno, []))
        if what:
            reasons.append(Reason("signature", "%s carries %s" % (part.name, what), _FREE))
    return reasons


def guard_signature(seen: Observation, node: Node) -> List[Reason]:
    """What libblkid knows of the whole device; a table is reported by guard_table alone."""
    table = seen.tables.get(node.devno)
    signatures = [signature for signature in seen.signatures.get(node.devno, []) if table is None or signature.usage != "partition-table"]
    return [Reason("signature", "it carries a signature: %s" % signature.text, _FREE) for signature in signatures]


def guard_marks(seen: Observation, node: Node) -> List[Reason]:
    """Marks that we recognised ourselves, where partitions begin and at the end, and that no other guard reports."""
    table, known = seen.tables.get(node.devno), {signature.type for signature in seen.signatures.get(node.devno, [])}
    parts = [part for part in seen.children(node.devno) if part.parent == node.devno]
    reasons = []
    for mark in seen.marks.get(node.devno, []):
        reported = mark.type in known or (mark.usage == "partition-table" and table is not None)
        reported = reported or (mark.type == "LVM2_member" and mark.offset < 2048 and seen.pv(node.devno) is not None)
        reported = reported or (mark.offset < 2048 and node.devno in seen.filesystems and mark.type == seen.filesystems[node.devno].family)
        if not reported and not any(part.start <= mark.offset < part.start + part.size for part in parts):
            reasons.append(Reason("signature", "it carries the mark of %s" % mark.text, _FREE))
    return reasons


def guard_inside_data(seen: Observation, node: Node) -> List[Reason]:
    """Data that nobody recognises, in partitions of ours that lost what they carried."""
    return [reason._replace(remedy=_FREE) for reason in lost_reasons(seen, node.devno)]


def guard_unreadable_sample(seen: Observation, node: Node) -> List[Reason]:
    """A place of the blank proof that could not be read: an I/O error is never blank."""
    proof = seen.proofs.get(node.devno)
    return [unreadable_reason(fault) for fault in (proof.unread if proof else ())]


def guard_data(seen: Observation, node: Node) -> List[Reason]:
    """Data that nobody recognises."""
    proof = seen.proofs.get(node.devno)
    return [Reason("data", fault, _FREE) for fault in (proof.data if proof else ())]


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
    guard_zoned,
    guard_not_a_disk,
    guard_busy,
)
CONTENT_GUARDS: Tuple[Guard, ...] = (
    guard_unreadable,
    guard_table,
    guard_unknown_table,
    guard_pv,
    guard_hidden_pv,
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
    guard_hidden_pv,
    guard_filesystem,
    guard_signature,
    guard_marks,
    guard_unreadable,
)


# Names of the reasons that only say what is on a device. An erase answers them, and so does a table of ours that was cut off, each in its
# own way; every other reason (identity, in use, unreadable) stands whatever is on the device.
FOREIGN = ("table", "pv", "signature", "data")
_IN_USE = ("mounted", "swap", "held", "backing", "open")


def blocking_reasons(reasons: Iterable[Reason]) -> List[Reason]:
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
    """Every reason why a device that is not ours may not be taken; empty: it is blank, free and known.

    Where the backup of its table is sound and ours, what is on it is not in the way: it is what has to come back.
    """
    node = seen.nodes[devno]
    reasons = write_reasons(seen, node)
    if is_ours_by_backup(seen.tables.get(devno)):
        return [reason._replace(remedy=write_table_again(node.path)) if reason.name in (*FOREIGN, *_IN_USE) else reason for reason in reasons]
    if not reasons and devno not in seen.proofs:
        reasons.append(Reason("unproven", "it was not shown to be blank", "run again; report this if it stays"))
    return reasons


def exchanged_reasons(seen: Observation, devno: str, planned: Mapping[str, Any]) -> List[Reason]:
    """Whether a device of a partition step is the one that was planned. Another of the same name and size has another diskseq at the least."""
    if not devno:
        return [Reason("identity", "the device is gone", "run again when it is there")]
    node = seen.nodes[devno]
    properties = (
        ("identity", node.identity.key, planned["identity"]),
        ("serial", node.identity.serial, planned["serial"]),
        ("model", node.identity.model, planned["model"]),
        ("size in bytes", node.size, planned["size_bytes"]),
        ("logical block", node.limits.logical, planned["logical_bytes"]),
        ("diskseq", node.diskseq, planned["diskseq"]),
    )
    changes = ["the %s changed since the plan: %s, was %s" % (what, now, then) for what, now, then in properties if now != then]
    return [Reason("identity", text, "run again") for text in changes]


def describe_disk(seen: Observation, devno: str) -> str:
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
