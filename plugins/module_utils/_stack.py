# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The static proof: where every layer of a stack begins on every leg, and which layer is off. Pure.

A position is followed down through the kernel's own mappings to the disks. In a striped mapping of n legs
with chunk c, the position r lies in row r // (n*c); the layer's grid has on every leg the address
``leg + row * c + r % c``, which is what is reported, so one number per leg and layer says it all.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _durability
from ansible_collections.plumbline.ssd.plugins.module_utils._cache import as_facts
from ansible_collections.plumbline.ssd.plugins.module_utils._filesystem_state import changes_of, stripe_changes
from ansible_collections.plumbline.ssd.plugins.module_utils._geometry import Geometry, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Accepted, Ext4, Mount, Node, Observation, Segment, Table, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._nvme import better_format
from ansible_collections.plumbline.ssd.plugins.module_utils._options import fstab_drift
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import human, lcm, round_up

ERROR = "error"  # the proof fails
WARNING = "warning"  # worth a look; fails nothing
# Layers whose findings say nothing of where the data begins.
DURABILITY = ("write_cache", "mount", "ext4")
# Deeper than any sane stack; a loop in what the kernel says would otherwise never end.
_MAX_DEPTH = 32


class LegStart(NamedTuple):
    """One layer on one leg: its first byte there, that byte's phase, and the phase that the flash has."""

    device: str
    start: int
    phase: int
    wanted: int
    grain: int
    node: str = ""  # the layer's own device there

    @property
    def aligned(self) -> bool:
        return self.phase == self.wanted

    def as_dict(self) -> Dict[str, Any]:
        shown = {key: value for key, value in self._asdict().items() if key != "node"}
        return dict(shown, aligned=self.aligned)


class Layer(NamedTuple):
    """One layer of a stack; *names* in the order of the legs, *facts* what else it says of itself."""

    kind: str
    names: Tuple[str, ...]
    legs: Tuple[LegStart, ...]
    facts: Mapping[str, Any] = {}

    def as_dict(self) -> Dict[str, Any]:
        return {"layer": self.kind, "names": list(self.names), "legs": [leg.as_dict() for leg in self.legs], **dict(self.facts)}


class Finding(NamedTuple):
    """One thing wrong: in which layer, on what, what it is, what it should be."""

    level: str
    layer: str
    name: str
    found: str
    wanted: str

    def as_dict(self) -> Dict[str, str]:
        return dict(self._asdict(), text=self.text)

    @property
    def text(self) -> str:
        return "%s %s: %s; wanted %s" % (self.layer, self.name, self.found, self.wanted)


class View(NamedTuple):
    """One stack as it stands: from its disks to its filesystem and mount."""

    name: str
    devno: str
    layers: Tuple[Layer, ...]
    findings: Tuple[Finding, ...]
    mount: str = ""
    accepted: Tuple[str, ...] = ()  # the risks in force that somebody's word allows, one line each
    not_followed: Tuple[str, ...] = ()  # mappings whose bytes nobody can follow down: nothing above them is known to be aligned

    def as_dict(self) -> Dict[str, Any]:
        return {
            "name": self.name,
            "mount": self.mount,
            "layers": [layer.as_dict() for layer in self.layers],
            "findings": [finding.as_dict() for finding in self.findings],
            "accepted": list(self.accepted),
            "not_followed": list(self.not_followed),
        }


def starts(seen: Observation, devno: str, offset: int, depth: int = 0) -> List[Tuple[str, int]]:
    """Follow byte *offset* of a device down: (disk, byte there) for every leg; a mapping that cannot be followed is taken for a disk."""
    node = seen.nodes.get(devno)
    segment = _segment_at(node, offset) if node else None
    if segment is None or not segment.legs or depth > _MAX_DEPTH:
        return [(devno, offset)]
    found: List[Tuple[str, int]] = []
    for child, first in segment.legs:
        found += starts(seen, child, first + on_leg(segment, offset - segment.start), depth + 1)
    return found


def not_followed(seen: Observation, devno: str) -> List[Node]:
    """The mappings at or below a node whose bytes cannot be followed down: a thin pool, a cache, a snapshot, and whatever nobody listed."""
    return [seen.nodes[one] for level in below(seen, devno) for one in level if _is_blind(seen.nodes[one])]


def _is_blind(node: Node) -> bool:
    if node.kind == "other":
        return True
    return bool(node.slaves) and node.kind != "mpath" and (not node.segments or not all(segment.legs for segment in node.segments))


def _segment_at(node: Node, offset: int) -> Optional[Segment]:
    for segment in node.segments:
        if segment.start <= offset < segment.start + segment.length:
            return segment
    return node.segments[-1] if node.segments else None


def on_leg(segment: Segment, within: int) -> int:
    """The byte of each leg, from where its part begins, at which byte *within* of a mapping lies."""
    if not segment.chunk:
        return within
    row = within // (segment.chunk * data_legs(segment))
    return row * segment.chunk + within % segment.chunk


def _from_leg(segment: Segment, within: int) -> int:
    """The reverse of on_leg(), for the first leg of a row."""
    if not segment.chunk:
        return within
    return within // segment.chunk * segment.chunk * data_legs(segment) + within % segment.chunk


def data_legs(segment: Segment) -> int:
    """How many legs carry data in one row: RAID 5 spends one on parity, RAID 6 two, RAID 10 half (md(4))."""
    count = len(segment.legs)
    return max({"raid5": count - 1, "raid4": count - 1, "raid6": count - 2, "raid10": count // 2}.get(segment.kind, count), 1)


def below(seen: Observation, devno: str) -> List[List[str]]:
    """The nodes under a node and itself, by level: level 0 are the disks."""
    depths: Dict[str, int] = {}

    def depth(one: str, guard: int = 0) -> int:
        if one in depths or one not in seen.nodes or guard > _MAX_DEPTH:
            return depths.get(one, 0)
        children = list(dict.fromkeys(child for segment in seen.nodes[one].segments for child, _first in segment.legs))
        if not children and seen.nodes[one].slaves:
            children = list(seen.nodes[one].slaves)
        depths[one] = 1 + max(depth(child, guard + 1) for child in children) if children else 0
        return depths[one]

    top = depth(devno)
    return [[one for one, level in depths.items() if level == wanted] for wanted in range(top + 1)]


def geometry(seen: Observation, devno: str) -> Geometry:
    """The geometry of a disk, from the kernel's limits alone where it was not looked at closely. That of a multipath map is its paths'."""
    node = seen.nodes[devno]
    found = seen.geometries.get(node.slaves[0] if node.kind == "mpath" and node.slaves else devno)
    return found if found else make_geometry(node.limits)


def leg_starts(seen: Observation, devno: str, offset: int) -> Tuple[LegStart, ...]:
    """Where byte *offset* of a device lies on every leg, with its phase; no leg where a mapping on the way cannot be followed."""
    legs = []
    for disk, start in starts(seen, devno, offset):
        if _is_blind(seen.nodes[disk]):
            continue
        own = geometry(seen, disk)
        legs.append(LegStart(_title(seen.nodes[disk]), start, start % own.grain_bytes, own.offset_bytes, own.grain_bytes, _title(seen.nodes[devno])))
    return tuple(legs)


def _places(seen: Observation, node: Node) -> List[int]:
    """Where a node's grid has to be looked at: its first whole grain, and that of every piece it is made of."""
    unit = 1
    for disk in below(seen, node.devno)[0]:
        unit = lcm(unit, geometry(seen, disk).grain_bytes)
    places = [round_up(piece, unit) for piece in pieces(seen, node.devno)]
    return sorted({place for place in places if place < node.size or not place})


def pieces(seen: Observation, devno: str, depth: int = 0) -> List[int]:
    """The bytes of a node at which the mapping below it, on any level, begins anew."""
    node = seen.nodes.get(devno)
    found = {0}
    for segment in node.segments if node and depth <= _MAX_DEPTH else ():
        found.add(segment.start)
        for child, first in segment.legs:
            inner = [_from_leg(segment, at - first) for at in pieces(seen, child, depth + 1) if at > first]
            found.update(segment.start + at for at in inner if at < segment.length)
    return sorted(found)


def view(seen: Observation, devno: str) -> View:
    """Walk one stack from its disks to *devno* (a filesystem, or whatever lies on top) and judge it."""
    layers: List[Layer] = []
    members = [one for one in seen.members.get(devno, (devno,)) if one in seen.nodes]
    for level in _levels(seen, members):
        layers += _level_layers(seen, level)
    top = seen.nodes[devno]
    mounts = [mount for mount in seen.mounted(devno) if mount.here]
    signature = next(iter(seen.signatures.get(devno, [])), None)
    ext4 = seen.filesystems.get(devno)
    if ext4 or mounts or (signature and signature.usage != "partition-table"):
        layers.append(_filesystem_layer(seen, members, ext4))
    elif signature:
        layers.append(Layer("table", (_title(top),), (), {"type": signature.type}))
    if mounts:
        options = list(mounts[0].options)
        layers.append(Layer("mount", (mounts[0].target,), (), {"options": options, "fstype": mounts[0].fstype}))
    findings = judge_phase(layers)
    for one in members:
        findings += _judge_followed(seen, one) + _judge_devices(seen, one) + _judge_stripe(seen, one)
    if ext4:
        findings += _judge_ext4(seen, top, ext4) + _judge_state(top, ext4, seen.in_force.get(devno, ()))
    durability, accepted = judge_durability(seen, devno, mounts[0] if mounts else None)
    blind = tuple(_title(node) for one in members for node in not_followed(seen, one))
    return View(_title(top), devno, tuple(layers), tuple(findings + durability), mounts[0].target if mounts else "", tuple(accepted), blind)


def _levels(seen: Observation, devnos: Sequence[str]) -> List[List[str]]:
    """below() of several nodes together, each device once, at the highest level that it has below any of them."""
    depths: Dict[str, int] = {}
    for devno in devnos:
        for number, level in enumerate(below(seen, devno)):
            depths.update((one, max(number, depths.get(one, 0))) for one in level)
    return [[one for one, depth in depths.items() if depth == number] for number in range(max(depths.values(), default=-1) + 1)]


def _title(node: Node) -> str:
    return node.title or node.name


KINDS = {"disk": "device", "loop": "device", "other": "device", "part": "partition", "lvm": "lv"}


def _level_layers(seen: Observation, level: Sequence[str]) -> List[Layer]:
    """The layers of one level: its nodes by kind, then the PVs on them."""
    layers = []
    for kind in dict.fromkeys(seen.nodes[one].kind for one in level):
        nodes = [seen.nodes[one] for one in level if seen.nodes[one].kind == kind]
        legs: List[LegStart] = []
        for node in nodes:
            for at in _places(seen, node):
                legs += leg_starts(seen, node.devno, at)
        if kind in ("disk", "loop", "other"):
            legs = [
                LegStart(n.name, 0, geometry(seen, n.devno).offset_bytes, geometry(seen, n.devno).offset_bytes, geometry(seen, n.devno).grain_bytes)
                for n in nodes
                if not n.slaves
            ]
        layers.append(Layer(KINDS.get(kind, kind), tuple(_title(node) for node in nodes), tuple(legs), _facts(seen, nodes)))
    pvs = [pv for pv in (seen.pv(one) for one in level) if pv]
    if pvs:
        legs = [leg for pv in pvs for leg in leg_starts(seen, pv.devno, pv.data_start)]
        facts = {"vg": pvs[0].vg, "data_start": [pv.data_start for pv in pvs]}
        layers.append(Layer("pv", tuple(seen.nodes[pv.devno].name for pv in pvs), tuple(legs), facts))
    return layers


def _facts(seen: Observation, nodes: Sequence[Node]) -> Dict[str, Any]:
    first = nodes[0]
    facts: Dict[str, Any] = {"size": [node.size for node in nodes]}
    if first.kind in ("disk", "loop"):
        facts["identity"] = [node.identity.key for node in nodes]
        facts["model"] = [node.identity.model for node in nodes]
        facts["write_cache"] = [as_facts(seen.caches.get(node.devno), node.write_cache) for node in nodes]
        facts["grain"] = [dict(geometry(seen, node.devno).grain.as_dict()) for node in nodes]
    elif first.segments and first.kind != "part":
        (chunk, legs), *others = layouts(first)
        facts.update({"stripes": legs, "stripe_size": chunk, "segments": len(first.segments)})
        if others:
            facts["layouts"] = [{"stripes": count, "stripe_size": size} for size, count in layouts(first)]
    return facts


def layouts(node: Node) -> List[Tuple[int, int]]:
    """(chunk in bytes, data legs) of the segments of a mapped device, each once; chunk 0 is none."""
    return list(dict.fromkeys((segment.chunk, data_legs(segment) if segment.chunk else 1) for segment in node.segments)) or [(0, 1)]


class Striping(NamedTuple):
    """A segment of a mapped device that deals its bytes out in chunks."""

    node: Node
    segment: Segment

    @property
    def layout(self) -> Tuple[int, int]:
        return self.segment.chunk, data_legs(self.segment)


def stripings(seen: Observation, devno: str) -> List[Striping]:
    """Every striped segment at or below a node, from the top down."""
    nodes = [seen.nodes[one] for level in reversed(below(seen, devno)) for one in level]
    return [Striping(node, segment) for node in nodes for segment in node.segments if segment.chunk]


def nearest_stripings(seen: Observation, devno: str, depth: int = 0) -> List[Optional[Striping]]:
    """The striping that each run of a node's bytes meets first on its way down, each layout once; None for a run that meets none."""
    node = seen.nodes.get(devno)
    found: Dict[Tuple[int, int], Optional[Striping]] = {}
    for segment in node.segments if node and depth <= _MAX_DEPTH else ():
        if segment.chunk:
            met: List[Optional[Striping]] = [Striping(seen.nodes[devno], segment)]
        else:
            met = nearest_stripings(seen, segment.legs[0][0], depth + 1) if segment.legs else [None]
        for one in met:
            found.setdefault(one.layout if one else (0, 1), one)
    return list(found.values()) or [None]


def chunk_below(seen: Observation, devno: str) -> Tuple[int, int, Optional[Node]]:
    """The nearest striping at or below a node: chunk bytes, data legs and the striped device."""
    found = stripings(seen, devno)
    return (*found[0].layout, found[0].node) if found else (0, 1, None)


def _filesystem_layer(seen: Observation, members: Sequence[str], ext4: Optional[Ext4]) -> Layer:
    node = seen.nodes[members[0]]
    facts: Dict[str, Any] = {}
    if ext4:
        facts = {
            "type": "ext4", "uuid": ext4.uuid, "label": ext4.label, "block_size": ext4.block,
            "stride": ext4.stride, "stripe_width": ext4.stripe_width,
        }  # fmt: skip
    elif seen.mounted(node.devno):
        facts = {"type": seen.mounted(node.devno)[0].fstype}
    else:
        facts = {"type": seen.signatures[node.devno][0].type}
    if len(members) > 1:
        facts["devices"] = [_title(seen.nodes[one]) for one in members]
    legs = tuple(leg for one in members for leg in leg_starts(seen, one, 0))
    return Layer("filesystem", (str(facts.get("label") or _title(node)),), legs, facts)


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
    )


def _judge_devices(seen: Observation, devno: str) -> List[Finding]:
    findings = []
    disks = [seen.nodes[one] for one in below(seen, devno)[0] if seen.nodes[one].kind == "disk"]
    for node in disks:
        offset = geometry(seen, node.devno).alignment_offset.value
        if offset is not None and offset < 0:
            findings.append(Finding(ERROR, "device", node.name, "alignment_offset is -1", "layers below it that agree"))
        table = seen.tables.get(node.devno)
        findings += _judge_table(node, table) if table else []
        if table and table.backup and not _cut_off(node, table):
            found = "the backup of its partition table is %s" % table.backup
            findings.append(Finding(WARNING, "device", node.name, found, "a true copy, which sfdisk --relocate gpt-bak-std /dev/%s writes" % node.name))
        formats = seen.namespaces.get(node.devno, {}).get("lbafs") or ()
        better = better_format(formats)
        if better is not None:
            wanted = "LBA format %d (%d bytes)" % (better, 1 << formats[better]["ds"])
            findings.append(Finding(WARNING, "device", node.name, "formatted with %d-byte blocks, which the drive calls slower" % node.limits.logical, wanted))
    for what, words in (
        ("models", {node.identity.model for node in disks}),
        ("firmware versions", {node.identity.firmware for node in disks}),
        ("sizes", {human(node.size) for node in disks}),
    ):
        if len(words) > 1:
            findings.append(
                Finding(WARNING, "device", ", ".join(node.name for node in disks), "legs of different %s: %s" % (what, ", ".join(sorted(words))), "equal legs")
            )
    return findings


def _cut_off(node: Node, table: Table) -> List[TableEntry]:
    """Partitions that end behind the end of their disk: it is smaller than it was, or was copied to a smaller one."""
    return [entry for entry in table.entries if entry.start + entry.size > node.size]


def _judge_table(node: Node, table: Table) -> List[Finding]:
    """What is wrong with a partition table itself."""
    findings = []
    for entry in _cut_off(node, table):
        found = "partition %d ends %s behind the end of the disk" % (entry.number, human(entry.start + entry.size - node.size))
        findings.append(Finding(ERROR, "device", node.name, found, "the whole disk; write nothing to it, and find out what made it smaller"))
    if table.kind == "protective" or table.fault:
        what = "its GPT is damaged: %s" % table.fault if table.fault else "it has a protective MBR, and no GPT in blocks of %d bytes" % node.limits.logical
        wanted = "a table that can be read: perhaps it was written with blocks of another size, or only its backup is left"
        findings.append(Finding(WARNING, "device", node.name, what, wanted))
    return findings


def _judge_followed(seen: Observation, devno: str) -> List[Finding]:
    """Mappings at which the proof ends: what is above them is not judged, and never called aligned."""
    findings = []
    for node in not_followed(seen, devno):
        kinds = ", ".join(dict.fromkeys(segment.kind for segment in node.segments if not segment.legs)) or node.kind
        found = "it is a mapping of kind '%s', which cannot be followed: nothing above it is known to be aligned" % kinds
        findings.append(Finding(WARNING, KINDS.get(node.kind, node.kind), _title(node), found, "a mapping that can be, where alignment is to be proven"))
    return findings


def _judge_stripe(seen: Observation, devno: str) -> List[Finding]:
    """Every striped segment on every level: a chunk that is no multiple of the grain ends within a page of the flash."""
    findings: Dict[Tuple[str, int], Finding] = {}
    for node, segment in stripings(seen, devno):
        grains = {disk: geometry(seen, disk).grain_bytes for child, _first in segment.legs for disk in below(seen, child)[0]}
        for disk, grain in grains.items():
            if segment.chunk % grain and len(segment.legs) > 1:
                found = "stripe size %s is no multiple of the grain %s of %s" % (human(segment.chunk), human(grain), seen.nodes[disk].name)
                finding = Finding(ERROR, KINDS.get(node.kind, node.kind), _title(node), found, "a multiple of the grain")
                findings.setdefault((node.devno, segment.chunk), finding)
    return list(findings.values())


def _judge_ext4(seen: Observation, top: Node, ext4: Ext4) -> List[Finding]:
    """Whether ext4 allocates by the stripes that it lies on. Where these differ from one run of bytes to the next, no setting fits them all."""
    met = [one for one in nearest_stripings(seen, top.devno) if one is None or one.layout[1] > 1]
    striped = [one for one in met if one]
    if not striped:
        return []
    wanted = [(one.layout[0] // ext4.block, one.layout[0] // ext4.block * one.layout[1]) for one in striped]
    rows = ["stride %d and stripe_width %d, for %d stripes of %s in %s" % (*pair, one.layout[1], human(one.layout[0]), _title(one.node))
            for pair, one in zip(wanted, striped)]  # fmt: skip
    name, unset = ext4.label or _title(top), not ext4.stride and not ext4.stripe_width
    fits = (ext4.stride, ext4.stripe_width) in wanted
    if fits and len(met) == 1:
        return []
    found = "no stride and stripe_width" if unset else "stride %d and stripe_width %d (blocks of %d)" % (ext4.stride, ext4.stripe_width, ext4.block)
    found += " for a volume that is striped in one way here and in another there" if len(met) > 1 else ""
    asked = " or ".join(rows) if len(met) == 1 else "one layout in all of it; it has %s" % " and ".join(rows + ["no stripes"] * (None in met))
    return [Finding(WARNING if unset or fits else ERROR, "filesystem", name, found, asked)]


def _judge_state(top: Node, ext4: Ext4, options: Sequence[str]) -> List[Finding]:
    name = ext4.label or _title(top)
    changes = changes_of(ext4, top.size) + stripe_changes(ext4, options)
    return [Finding(ERROR if one.bad else WARNING, "ext4", name, one.found, one.wanted) for one in changes]


def judge_durability(seen: Observation, devno: str, mount: Optional[Mount]) -> Tuple[List[Finding], List[str]]:
    """What a power cut or a crash would do to what was acknowledged: findings, and a line for each risk that somebody accepted.

    What was accepted is what the host has a record of; there may be no spec. A cache that could not be read fails nothing.
    """
    ext4 = seen.filesystems.get(devno)
    recorded = [one for one in seen.accepted if ext4 and one.uuid == ext4.uuid]
    stated = [serial for one in recorded if one.acceptance == _durability.STATED for serial in one.serials]
    disks = sorted((seen.nodes[one] for one in below(seen, devno)[0] if seen.nodes[one].kind != "other"), key=lambda node: node.name)
    drives = [_durability.drive_below(seen, node.devno, devno, stated) for node in disks]
    options = seen.in_force.get(devno) or (mount.options if mount else ())
    findings: List[Finding] = []
    if _durability.barriers_on(options):
        findings += [finding for drive, node in zip(drives, disks) if node.devno in seen.caches for finding in _judge_drive(seen, drive, node, devno)]
    accepted: List[str] = []
    if mount:
        for risk in _durability.judge_options(options, drives, [one.acceptance for one in recorded]):
            if risk.level == _durability.RECORDED:
                accepted.append(_accepted_line(risk, mount, recorded))
            else:
                findings.append(_option_finding(risk, mount))
        findings += _judge_journal(options, mount) + _judge_fstab(seen, mount) + _judge_cover(seen, mount)
    return findings, accepted


def _judge_drive(seen: Observation, drive: _durability.Drive, disk: Node, top: str) -> List[Finding]:
    """A drive below a filesystem that sends barriers."""
    found = _durability.judge_cache(drive.cache, drive.stated, True, drive.belief, (), drive.follows)
    if found.level == _durability.OK:
        return []
    name = "%s (%s)" % (drive.name, drive.serial) if drive.serial else drive.name
    level = ERROR if found.level == _durability.CRITICAL else WARNING
    mapped = _durability.droppers(seen, disk.devno, top)
    if not mapped:
        return [Finding(level, "write_cache", name, found.text, "a kernel that believes 'write back', by a rescan of the drive")]
    wanted = "a kernel that believes 'write back' of it, by deactivating and activating it (vgchange -an, -ay) once it does so of the drive"
    return [Finding(level, "write_cache", name, "%s: at %s" % (found.text, _durability.name_mapped(mapped)), wanted)]


def _option_finding(risk: _durability.Risk, mount: Mount) -> Finding:
    """An unaccepted risk fails a proof only where what was acknowledged is lost for certain; what may be is worth a look."""
    lost = risk.by_protection and any(_durability.state_of(drive.cache) == "on" for drive in risk.drives)
    own = risk.option not in mount.options
    found = "'%s'%s on %s: %s" % (risk.option, " (a default of the filesystem itself)" if own else "", _durability.name_drives(risk.drives), risk.text)
    wanted = "%s%s, or accept: [%s]" % (_durability.undone(risk.option), " (tune2fs, and a new mount)" if own else "", risk.acceptance)
    return Finding(ERROR if lost else WARNING, "mount", mount.target, found, wanted)


def _accepted_line(risk: _durability.Risk, mount: Mount, recorded: Sequence[Accepted]) -> str:
    since = min((one.since for one in recorded if one.acceptance == risk.acceptance), default="")
    by = " [%s%s]" % (risk.acceptance, ", since %s" % since if since else "") if risk.acceptance else ""
    return "'%s' on %s over %s: %s%s" % (risk.option, mount.target, _durability.name_drives(risk.drives), risk.text, by)


def _judge_journal(options: Sequence[str], mount: Mount) -> List[Finding]:
    """A read-write mount without its journal, which ext4 shows by the first of its two names."""
    found = [option for option in ("norecovery", "noload") if option in options]
    if not found or not mount.fstype.startswith("ext") or "ro" in mount.options:
        return []
    return [Finding(ERROR, "mount", mount.target, "'%s': the filesystem runs without its journal" % found[0], "a mount without this option")]


def _judge_cover(seen: Observation, mount: Mount) -> List[Finding]:
    """A mount point that leads to another filesystem by now."""
    over = seen.covers.get(mount.target, "") if mount.here else ""
    if not over:
        return []
    return [Finding(ERROR, "mount", mount.target, "%s is mounted over it: what is written there does not reach the volume" % over, "nothing over it")]


def _judge_fstab(seen: Observation, mount: Mount) -> List[Finding]:
    """A mount that the next boot makes with other options. Only ext4's are known well enough to tell."""
    line = next((entry for entry in seen.fstab if entry.target == mount.target), None)
    if line is None or not mount.fstype.startswith("ext"):
        return []
    missing, extra = fstab_drift(line.options, mount.options)
    if not missing and not extra:
        return []
    words = ["fstab has %s, the mount has not" % option for option in missing] + ["the mount has %s, fstab has not" % option for option in extra]
    return [Finding(WARNING, "mount", mount.target, "; ".join(words), "a mount as fstab has it, or a line of fstab as the mount is")]


_NOT_STORAGE = ("sr", "fd", "zram")  # removable media and memory


def tops(seen: Observation, targets: Optional[Sequence[str]] = None) -> List[str]:
    """The nodes on top of the host's stacks: those with content (filesystem, mount, swap, PV) and nothing above."""
    allowed = {node.devno for target in targets for node in seen.tree(target)} if targets is not None else set(seen.nodes)
    found = []
    for devno, node in seen.nodes.items():
        if devno not in allowed or (seen.children(devno) and not seen.mounted(devno)):
            continue
        if seen.members.get(devno, (devno,))[0] != devno and seen.mounted(devno):
            continue  # shown with the first device of its filesystem
        if node.kind == "loop" and not node.backing_file and not node.identity.test:
            continue
        if node.kind == "other" and not node.name.startswith(_NOT_STORAGE):
            found.append(devno)
            continue
        if devno in seen.filesystems or seen.mounted(devno) or seen.signatures.get(devno) or devno in seen.swaps or seen.pv(devno):
            found.append(devno)
    return sorted(found, key=lambda devno: seen.nodes[devno].title or seen.nodes[devno].name)
