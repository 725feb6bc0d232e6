# SPDX-License-Identifier: GPL-3.0-or-later
"""Which layer of a stack is off by measurement, and whether that agrees with the static proof. Pure.

Every layer was swept in its own address space. The first byte of a layer that lies at byte *s* of a disk reads fastest at phase p where s + p lies on
a page of the flash. So of two layers of one disk the phases differ by as much as their starts do, modulo the grain, whatever the flash is like; and a layer is
right where its phase is 0, the disk itself where its phase is the alignment_offset that it reports.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import mapping
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.search import PHASE, Verdict
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.layers import KINDS, geometry

AGREES = "agrees"
CONTRADICTS = "contradicts"
UNPROVEN = "unproven"  # nothing was measured that could be compared


class Swept(NamedTuple):
    """A layer: where its first byte lies on each disk, and what the sweep found in its own address space. *verdict* None: not swept."""

    kind: str  # device, partition, pv, lv, …
    name: str
    starts: Tuple[Tuple[str, int], ...]  # (disk, byte there)
    verdict: Optional[Verdict] = None
    offset: Optional[int] = None  # of a device: its alignment_offset; None where it does not know

    @property
    def title(self) -> str:
        return "%s %s" % (self.kind, self.name)

    @property
    def phase(self) -> Optional[int]:
        return self.verdict.phase if self.verdict and self.verdict.verdict == PHASE else None


class Located(NamedTuple):
    """*culprit*: the layer at which the measured phase goes wrong and stays wrong to the top; *static*: the one by the kernel's own numbers."""

    culprit: str
    static: str
    agreement: str
    reasons: Tuple[str, ...]

    def as_dict(self) -> Dict[str, Any]:
        return {"culprit": self.culprit, "static_culprit": self.static, "agreement": self.agreement}


def stack_layers(seen: Observation, devno: str) -> List[Tuple[str, Swept]]:
    """The layers of a stack up to a device, from its disks: (device number, layer), as the kernel and LVM say. A PV has no device number of its own."""
    layers = []
    for level in mapping.levels_below(seen, devno):
        for below in level:
            node = seen.nodes[below]
            kind = KINDS.get(node.kind, node.kind)
            offset = geometry(seen, below).alignment_offset.value if kind == "device" else None
            known = offset is not None and offset >= 0
            layers.append((below, Swept(kind, node.title or node.name, _named(seen, below, 0), None, offset if known else None)))
        for pv in (seen.pv(below) for below in level):
            if pv and pv.devno != devno:
                layers.append(("", Swept("pv", seen.nodes[pv.devno].name, _named(seen, pv.devno, pv.data_start))))
    return layers


def _named(seen: Observation, devno: str, offset: int) -> Tuple[Tuple[str, int], ...]:
    return tuple((seen.nodes[disk].name, start) for disk, start in mapping.starts(seen, devno, offset))


def locate_guilty(layers: Sequence[Swept]) -> Located:
    """Judge the layers of one stack, from its disks up."""
    measured = [layer for layer in layers if layer.phase is not None]
    if not measured:
        return Located("", "", UNPROVEN, ("no layer has a phase that could be measured, so that there is nothing to compare",))
    grain = min(layer.verdict.grain for layer in measured if layer.verdict)
    reasons: List[str] = []
    culprits: List[str] = []
    statics: List[str] = []
    for disk in dict.fromkeys(disk for layer in layers for disk, _start in layer.starts):
        path = [(layer, start) for layer in layers for leg, start in layer.starts if leg == disk]
        path = [(layer, start) for number, (layer, start) in enumerate(path) if layer not in [below for below, _at in path[:number]]]
        phases, faults = _phases(path, layers, grain)
        reasons += faults
        lie = _lie(path, phases, grain)
        if lie:
            reasons.append(lie)
        if phases:
            culprits += _guilty(path, phases, grain)
        offset = path[0][0].offset or 0
        statics += _guilty(path, [(offset - start) % grain for _layer, start in path], grain)
    culprits, statics = list(dict.fromkeys(culprits)), list(dict.fromkeys(statics))
    reasons = list(dict.fromkeys(reasons))
    if not reasons and culprits != statics:
        reasons.append("by measurement %s, by the kernel's numbers %s" % (_said(culprits), _said(statics)))
    return Located(", ".join(culprits), ", ".join(statics), CONTRADICTS if reasons else AGREES, tuple(reasons))


def _said(names: Sequence[str]) -> str:
    return "%s is off" % ", ".join(names) if names else "no layer is off"


def _phases(path: Sequence[Tuple[Swept, int]], layers: Sequence[Swept], grain: int) -> Tuple[List[int], List[str]]:
    """The phase of every layer of one disk, measured or else by that of the nearest measured one; and what does not fit together."""
    known = [number for number, (layer, _start) in enumerate(path) if layer.phase is not None]
    own = [number for number in known if len(path[number][0].starts) == 1]
    if not known:
        return [], []
    first = (own or known)[0]
    begun = path[first]
    phases = [((begun[0].phase or 0) + begun[1] - start) % grain for _layer, start in path]
    faults: List[str] = []
    for number in known:
        layer, start = path[number]
        phase = (layer.phase or 0) % grain
        if number <= first or phase == phases[number]:
            continue
        if len(layer.starts) > 1 and phase in _by_others(layer, layers, path, grain):
            continue  # the legs differ, and this is another leg's
        below = path[number - 1]
        faults.append(
            "%s is fastest at offset %d of %s; by its start at byte %d of %s and what was measured of %s it would be %d: "
            "a layer's map is not what the kernel says"
            % (layer.title, phase, human(grain), start, _disk(path), below[0].title, phases[number])
        )
        for above in range(number, len(path)):
            phases[above] = (phase + start - path[above][1]) % grain
    return phases, faults


def _by_others(layer: Swept, layers: Sequence[Swept], path: Sequence[Tuple[Swept, int]], grain: int) -> List[int]:
    """The phases that a layer of several legs would have by each of the other legs."""
    phases = []
    for disk, start in layer.starts:
        if disk == _disk(path):
            continue
        for other in layers:
            if other.phase is not None and [leg for leg, _at in other.starts] == [disk]:
                phases.append((other.phase + other.starts[0][1] - start) % grain)
    return phases


def _disk(path: Sequence[Tuple[Swept, int]]) -> str:
    return path[0][0].name


def _lie(path: Sequence[Tuple[Swept, int]], phases: Sequence[int], grain: int) -> str:
    """Whether the disk's own phase is another one than it reports; a sentence, or nothing."""
    device = path[0][0]
    if not phases or device.kind != "device" or device.offset is None or phases[0] == device.offset % grain:
        return ""
    return "%s is fastest at offset %d of %s, and reports an alignment_offset of %d: the device lies about its alignment" % (
        device.title, phases[0], human(grain), device.offset,
    )  # fmt: skip


def _guilty(path: Sequence[Tuple[Swept, int]], phases: Sequence[int], grain: int) -> List[str]:
    """The layer at which the phase turns wrong and stays wrong to the top; none where the top is right.

    As in the static proof: what a higher layer makes good again carries no data that is off.
    """
    guilty: List[str] = []
    for (layer, _start), phase in reversed(list(zip(path, phases))):
        expected = (layer.offset or 0) % grain if layer.kind == "device" else 0
        if phase == expected:
            break
        guilty = [layer.title]
    return guilty


def report_guilty(layers: Sequence[Swept], located: Located) -> List[str]:
    """For people: each layer, then the judgement."""
    lines = []
    for layer in layers:
        where = ", ".join("%s byte %d" % start for start in layer.starts)
        if layer.verdict is None:
            said = "not swept"
        elif layer.phase is not None:
            said = "fastest at offset %d of %s" % (layer.verdict.phase, human(layer.verdict.grain))
        else:
            said = layer.verdict.verdict
        lines.append("%s (%s): %s" % (layer.title, where, said) if layer.kind != "device" else "%s: %s" % (layer.title, said))
    if located.agreement == UNPROVEN:
        return lines + list(located.reasons)
    lines.append("culprit: %s" % (located.culprit or "none"))
    said = "agrees with" if located.agreement == AGREES else "contradicts"
    lines.append("the measurement %s the static proof%s" % (said, "" if located.agreement == AGREES else ": " + "; ".join(located.reasons)))
    return lines
