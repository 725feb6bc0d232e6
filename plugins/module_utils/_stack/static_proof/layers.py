# SPDX-License-Identifier: GPL-3.0-or-later
"""The layers of a stack, each with its first byte on every leg. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Geometry, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import is_blind, layouts, levels_below, pieces, starts
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid import array_of
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stack_addresses import common_grain
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import as_facts
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS


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


def geometry(seen: Observation, devno: str) -> Geometry:
    """The geometry of a disk, from the kernel's limits alone where it was not looked at closely. That of a multipath map is its paths'."""
    node = seen.nodes[devno]
    known = seen.geometries.get(node.slaves[0] if node.kind == "mpath" and node.slaves else devno)
    return known if known else make_geometry(node.limits)


def leg_starts(seen: Observation, devno: str, offset: int) -> Tuple[LegStart, ...]:
    """Where byte *offset* of a device lies on every leg, with its phase; no leg where a mapping on the way cannot be followed."""
    legs = []
    for disk, start in starts(seen, devno, offset):
        if disk not in seen.nodes or is_blind(seen.nodes[disk]):
            continue
        own = geometry(seen, disk)
        legs.append(LegStart(title_of(seen.nodes[disk]), start, start % own.grain_bytes, own.offset_bytes, own.grain_bytes, title_of(seen.nodes[devno])))
    return tuple(legs)


def grain_below(seen: Observation, devno: str) -> int:
    """The least common multiple of the grains of all disks below."""
    return common_grain([geometry(seen, disk) for disk in levels_below(seen, devno)[0]])


def _places(seen: Observation, node: Node) -> List[int]:
    """Where a node's grid has to be looked at: its first whole grain, and that of every piece it is made of."""
    unit = grain_below(seen, node.devno)
    places = [round_up(piece, unit) for piece in pieces(seen, node.devno)]
    return sorted({place for place in places if place < node.size or not place})


def levels_of_all(seen: Observation, devnos: Sequence[str]) -> List[List[str]]:
    """levels_below() of several nodes together, each device once, at the highest level that it has below any of them."""
    depths: Dict[str, int] = {}
    for devno in devnos:
        for number, level in enumerate(levels_below(seen, devno)):
            depths.update((below, max(number, depths.get(below, 0))) for below in level)
    return [[below for below, depth in depths.items() if depth == number] for number in range(max(depths.values(), default=-1) + 1)]


def title_of(node: Node) -> str:
    return node.title or node.name


KINDS = {"disk": "device", "loop": "device", "other": "device", "part": "partition", "lvm": "lv"}


def layers_of_level(seen: Observation, level: Sequence[str]) -> List[Layer]:
    """The layers of one level: its nodes by kind, then the PVs on them."""
    layers = []
    for kind in dict.fromkeys(seen.nodes[devno].kind for devno in level):
        nodes = [seen.nodes[devno] for devno in level if seen.nodes[devno].kind == kind]
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
        layers.append(Layer(KINDS.get(kind, kind), tuple(title_of(node) for node in nodes), tuple(legs), _facts(seen, nodes)))
    pvs = [pv for pv in (seen.pv(devno) for devno in level) if pv]
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
        arrays = [array_of(seen, node) for node in nodes]
        if any(arrays):
            facts["raid"] = [array.as_dict() if array else None for array in arrays]
    return facts


def filesystem_layer(seen: Observation, members: Sequence[str], made: Optional[Filesystem]) -> Layer:
    node = seen.nodes[members[0]]
    facts: Dict[str, Any] = {}
    if made:
        facts = {"type": made.kind, "uuid": made.uuid, "label": made.label, **FILESYSTEMS[made.kind].facts(made)}
    elif seen.mounted(node.devno):
        facts = {"type": seen.mounted(node.devno)[0].fstype}
    else:
        facts = {"type": seen.signatures[node.devno][0].type}
    if len(members) > 1:
        facts["devices"] = [title_of(seen.nodes[member]) for member in members]
    legs = tuple(leg for member in members for leg in leg_starts(seen, member, 0))
    return Layer("filesystem", (str(facts.get("label") or title_of(node)),), legs, facts)
