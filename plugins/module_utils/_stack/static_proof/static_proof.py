# SPDX-License-Identifier: GPL-3.0-or-later
"""The static proof: where every layer of a stack begins on every leg, and which layer is off. Pure.

A position is followed down through the kernel's own mappings to the disks. In a striped mapping of n legs
with chunk c, the position r lies in row r // (n*c); the layer's grid has on every leg the address
``leg + row * c + r % c``, which is what is reported, so one number per leg and layer says it all.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import UNFINISHED, Filesystem, Node, Observation, Signature, Table, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import (
    levels_below,
    nearest_stripings,
    not_followed,
    stripings,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import better_format
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import write_table_again
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.link_rules import judge_links
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.layers import (
    KINDS,
    Layer,
    LegStart,
    filesystem_layer,
    geometry,
    grain_below,
    layers_of_level,
    levels_of_all,
    title_of,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.redundancy import judge_left_out, judge_redundancy
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.stack_durability import judge_durability
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.trim_path import judge_trim_path


class View(NamedTuple):
    """One stack as it stands: from its disks to its filesystem and mount."""

    name: str
    devno: str
    layers: Tuple[Layer, ...]
    findings: Tuple[Finding, ...]
    mount: str = ""
    accepted: Tuple[str, ...] = ()  # the risks in force that are explicitly accepted, one line each
    not_followed: Tuple[str, ...] = ()  # mappings whose bytes nobody can follow down: nothing above them is known to be aligned
    size: int = 0  # bytes of the device on top

    def as_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "mount": self.mount,
            "size_bytes": self.size,
            "layers": [layer.as_dict() for layer in self.layers],
            "findings": [finding.as_dict() for finding in self.findings],
            "accepted": list(self.accepted),
            "not_followed": list(self.not_followed),
        }


def view(seen: Observation, devno: str) -> View:
    """Walk one stack from its disks to *devno* (a filesystem, or whatever lies on top) and judge it."""
    layers: List[Layer] = []
    members = [member for member in seen.members.get(devno, (devno,)) if member in seen.nodes]
    for level in levels_of_all(seen, members):
        layers += layers_of_level(seen, level)
    top = seen.nodes[devno]
    mounts = [mount for mount in seen.mounted(devno) if mount.here]
    signature = next(iter(seen.signatures.get(devno, [])), None)
    made = seen.filesystems.get(devno)
    if made or mounts or (signature and signature.usage != "partition-table"):
        layers.append(filesystem_layer(seen, members, made))
    elif signature:
        layers.append(Layer("table", (title_of(top),), (), {"type": signature.type}))
    if mounts:
        options = list(mounts[0].options)
        layers.append(Layer("mount", (mounts[0].target,), (), {"options": options, "fstype": mounts[0].fstype}))
    findings = judge_phase(layers) + _judge_hidden(seen, members)
    for member in members:
        findings += _judge_followed(seen, member) + _judge_devices(seen, member) + judge_redundancy(seen, member, mounts) + _judge_stripe(seen, member)
    if made:
        findings += _judge_stripes(seen, top, made) + _judge_state(seen, top, made, seen.in_force.get(devno, mounts[0].options if mounts else ()))
    findings += [finding for member in members for finding in judge_trim_path(seen, member, mounts[0] if mounts and member == devno else None)]
    durability, accepted = judge_durability(seen, devno, mounts[0] if mounts else None)
    blind = tuple(title_of(node) for member in members for node in not_followed(seen, member))
    if signature and signature.usage == UNFINISHED:
        text = "its own superblock says that mkfs was cut off: it is not mounted so"
        remedy = "a run of its stack, which carries on what it has begun; else a look at what it holds"
        findings.append(Finding(ERROR, signature.type, title_of(top), text, remedy, "unfinished"))
    if signature and _is_closed(seen, devno, signature):
        blind += (title_of(top),)
        text = "it is a %s that is not open: what lies in it is not seen, and not known to be aligned" % signature.type
        remedy = "it open or assembled, where alignment is to be proven"
        findings.append(judge_left_out(seen, top, signature) or Finding(WARNING, KINDS.get(top.kind, top.kind), title_of(top), text, remedy, "closed"))
    mount = mounts[0].target if mounts else ""
    return View(title_of(top), devno, tuple(layers), tuple(findings + durability), mount, tuple(accepted), blind, top.size)


# By libblkid's words: of the usage "other" only swap is all there is.
_CONTAINERS = ("raid", "crypto", "other")
_POOLS = ("zfs_member", "oracleasm")  # whatever libblkid says that they are for


def _is_closed(seen: Observation, devno: str, signature: Signature) -> bool:
    """Whether something is made in a device that nobody has opened or assembled: a member of an array, a pool or a cache, an encrypted device."""
    if seen.pv(devno) or devno in seen.swaps or signature.type == "swap" or seen.children(devno):
        return False
    return signature.usage in _CONTAINERS or signature.type in _POOLS


def judge_phase(layers: Sequence[Layer]) -> List[Finding]:
    """Name the guilty layer of every leg whose data ends up off the flash's boundary.

    Going up, the layer at which the phase turns wrong and stays wrong to the top is the culprit. A lower layer
    whose error a higher one makes good again carries no data, so it is only worth a warning.
    """
    findings: List[Finding] = []
    placed = [layer for layer in layers if layer.legs and layer.kind != "device"]
    if len(placed) > 1 and placed[-1].kind == "filesystem":
        placed.pop()  # it begins where the device under it begins, and cannot tell of that one's further pieces
    for device in dict.fromkeys(leg.device for layer in placed for leg in layer.legs):
        path = []
        for layer in placed:
            there = [leg for leg in layer.legs if leg.device == device]
            path += [(layer, next((leg for leg in there if not leg.aligned), leg)) for leg in there[:1]]
        guilty: Optional[Tuple[Layer, LegStart]] = None
        for layer, leg in reversed(path):
            if leg.aligned:
                break
            guilty = (layer, leg)
        if guilty:
            findings.append(_phase_finding(ERROR, *guilty))
            continue
        findings += [_phase_finding(WARNING, layer, leg) for layer, leg in path if not leg.aligned][:1]
    return findings


def _phase_finding(level: str, layer: Layer, leg: LegStart) -> Finding:
    name = layer.names[0] if len(layer.names) == 1 else leg.node
    return Finding(
        level,
        layer.kind,
        name,
        "starts at byte %d of %s, phase %d of %s" % (leg.start, leg.device, leg.phase, human(leg.grain)),
        "phase %d" % leg.wanted,
        "phase",
    )


def _judge_devices(seen: Observation, devno: str) -> List[Finding]:
    findings = []
    disks = [seen.nodes[disk] for disk in levels_below(seen, devno)[0] if seen.nodes[disk].kind == "disk"]
    for node in disks:
        offset = geometry(seen, node.devno).alignment_offset.value
        if offset is not None and offset < 0:
            findings.append(Finding(ERROR, "device", node.name, "alignment_offset is -1", "layers below it that agree", "legs_disagree"))
        table = seen.tables.get(node.devno)
        findings += _judge_table(node, table) if table else []
        if table and 0 < table.made_for <= node.size - node.limits.logical:
            text = "it grew from %s to %s since its partition table was written" % (human(table.made_for), human(node.size))
            remedy = "a table of all of it: grow: true on its stack, if it is one of ours; else sgdisk -e /dev/%s, if the room is wanted" % node.name
            findings.append(Finding(WARNING, "device", node.name, text, remedy, "device_grown"))
        elif table and table.backup and not _cut_off(node, table):
            text = "the backup of its partition table is %s" % table.backup
            remedy = "a true copy, which sfdisk --relocate gpt-bak-std /dev/%s writes" % node.name
            findings.append(Finding(WARNING, "device", node.name, text, remedy, "table_backup"))
        formats = seen.namespaces.get(node.devno, {}).get("lbafs") or ()
        better = better_format(formats)
        if better is not None:
            remedy = "LBA format %d (%d bytes)" % (better, 1 << formats[better]["ds"])
            text = "formatted with %d-byte blocks, which the drive calls slower" % node.limits.logical
            findings.append(Finding(WARNING, "device", node.name, text, remedy, "lba_format"))
    for what, words in (
        ("models", {node.identity.model for node in disks}),
        ("firmware versions", {node.identity.firmware for node in disks}),
        ("sizes", {human(node.size) for node in disks}),
    ):
        if len(words) > 1:
            text = "legs of different %s: %s" % (what, ", ".join(sorted(words)))
            findings.append(Finding(WARNING, "device", ", ".join(node.name for node in disks), text, "equal legs", "unequal_legs"))
    return findings + judge_links({node.name: seen.drive_links.get(node.devno, ()) for node in disks})


def _cut_off(node: Node, table: Table) -> List[TableEntry]:
    """Partitions that end behind the end of their disk: it is smaller than it was, or was copied to a smaller one."""
    return [entry for entry in table.entries if entry.start + entry.size > node.size]


def _judge_table(node: Node, table: Table) -> List[Finding]:
    """What is wrong with a partition table itself."""
    findings = []
    for entry in _cut_off(node, table):
        text = "partition %d ends %s behind the end of the disk" % (entry.number, human(entry.start + entry.size - node.size))
        remedy = "the whole disk; write nothing to it, and find out what made it smaller"
        findings.append(Finding(ERROR, "device", node.name, text, remedy, "disk_cut_off"))
    if table.kind == "protective" or table.fault:
        what = "its GPT is damaged: %s" % table.fault if table.fault else "it has a protective MBR, and no GPT in blocks of %d bytes" % node.limits.logical
        remedy = "a table that can be read: perhaps it was written with blocks of another size, or only its backup is left"
        if table.spare:
            remedy = "a first copy like its backup, which is sound: %s" % write_table_again(node.path)
        findings.append(Finding(WARNING, "device", node.name, what, remedy, "table_damaged"))
    return findings


def _judge_followed(seen: Observation, devno: str) -> List[Finding]:
    """Mappings at which the proof ends: what is above them is not judged, and never called aligned."""
    findings = []
    for node in not_followed(seen, devno):
        kinds = ", ".join(dict.fromkeys(segment.kind for segment in node.segments if not segment.legs)) or node.kind
        text = "it is a mapping of kind '%s', which cannot be followed: nothing above it is known to be aligned" % kinds
        remedy = "a mapping that can be, where alignment is to be proven"
        findings.append(Finding(WARNING, KINDS.get(node.kind, node.kind), title_of(node), text, remedy, "not_followed"))
    return findings


def _judge_stripe(seen: Observation, devno: str) -> List[Finding]:
    """Every striped segment on every level: a chunk that is no multiple of the grain ends within a page of the flash."""
    findings: Dict[Tuple[str, int], Finding] = {}
    for node, segment in stripings(seen, devno):
        grains = {disk: geometry(seen, disk).grain_bytes for child, _first in segment.legs for disk in levels_below(seen, child)[0]}
        for disk, grain in grains.items():
            if segment.chunk % grain and len(segment.legs) > 1:
                text = "stripe size %s is no multiple of the grain %s of %s" % (human(segment.chunk), human(grain), seen.nodes[disk].name)
                finding = Finding(ERROR, KINDS.get(node.kind, node.kind), title_of(node), text, "a multiple of the grain", "stripe_grain")
                findings.setdefault((node.devno, segment.chunk), finding)
    return list(findings.values())


def _judge_hidden(seen: Observation, members: Sequence[str]) -> List[Finding]:
    """PVs below that LVM does not list. The kernel shows what lies on them; LVM can neither activate nor change it."""
    below = dict.fromkeys(devno for level in levels_of_all(seen, members) for devno in level if devno in seen.hidden)
    return [
        Finding(ERROR, "pv", title_of(seen.nodes[devno]), "it is " + seen.hidden[devno].words, seen.hidden[devno].remedy(seen.nodes[devno].path), "pv_hidden")
        for devno in below
    ]


def _judge_stripes(seen: Observation, top: Node, made: Filesystem) -> List[Finding]:
    """Whether a filesystem allocates by the stripes that it lies on. Where these differ from one run of bytes to the next, no setting fits them all."""
    kind = FILESYSTEMS[made.kind]
    met = [striping for striping in nearest_stripings(seen, top.devno) if striping is None or striping.layout[1] > 1]
    striped = [striping for striping in met if striping]
    if not striped:
        return []
    shapes = [(striping.layout[0] // made.block, striping.layout[0] // made.block * striping.layout[1]) for striping in striped]
    rows = ["%s, for %d stripes of %s in %s" % (" and ".join(kind.shape(*pair)), striping.layout[1], human(striping.layout[0]), title_of(striping.node))
            for pair, striping in zip(shapes, striped)]  # fmt: skip
    name, unset = made.label or title_of(top), not made.stride and not made.stripe_width
    fits = (made.stride, made.stripe_width) in shapes
    if fits and len(met) == 1:
        return []
    text = "no %s" % kind.shape_words if unset else "%s (blocks of %d)" % (" and ".join(kind.shape(made.stride, made.stripe_width)), made.block)
    text += " for a volume that is striped in one way here and in another there" if len(met) > 1 else ""
    asked = " or ".join(rows) if len(met) == 1 else "one layout in all of it; it has %s" % " and ".join(rows + ["no stripes"] * (None in met))
    return [Finding(WARNING if unset or fits else ERROR, "filesystem", name, text, asked, kind.stripe_rule)]


def _judge_state(seen: Observation, top: Node, made: Filesystem, options: Sequence[str]) -> List[Finding]:
    kind, name = FILESYSTEMS[made.kind], made.label or title_of(top)
    changes = kind.changes(made, top.size) + kind.grain_changes(made, grain_below(seen, top.devno)) + kind.mounted_otherwise(made, options)
    return [Finding(ERROR if change.bad else WARNING, made.kind, name, change.found, change.wanted, change.rule) for change in changes]


_NOT_STORAGE = ("sr", "fd", "zram")  # removable media and memory


def tops(seen: Observation, targets: Optional[Sequence[str]] = None) -> List[str]:
    """The nodes on top of the host's stacks: those with content (filesystem, mount, swap, PV) and nothing above."""
    allowed = {node.devno for target in targets for node in seen.tree(target)} if targets is not None else set(seen.nodes)
    devnos = []
    for devno, node in seen.nodes.items():
        if devno not in allowed or (seen.children(devno) and not seen.mounted(devno)):
            continue
        if seen.members.get(devno, (devno,))[0] != devno and seen.mounted(devno):
            continue  # shown with the first device of its filesystem
        if node.kind == "loop" and not node.backing_file and not node.identity.test:
            continue
        if node.kind == "other" and not node.name.startswith(_NOT_STORAGE):
            devnos.append(devno)
            continue
        if devno in seen.filesystems or seen.mounted(devno) or seen.signatures.get(devno) or devno in seen.swaps or seen.pv(devno):
            devnos.append(devno)
    return sorted(devnos, key=lambda devno: seen.nodes[devno].title or seen.nodes[devno].name)
