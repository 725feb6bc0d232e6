# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading a drive, and an incumbent beside it, cell by cell. Nothing is written: every open is for reading. I/O."""

from __future__ import annotations

import random
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._common.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._common.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._io import block_device, sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio as measure_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance import judge
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.judge import CellRound, ReadBlock, Sampled
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import Cell, cell_argv, cell_place
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.held_volumes import node_path
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.latency import read_bins
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.run import find_fio, run_fio, told_if_gone
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.session import resolve
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._model.identity import share_ssd
from ansible_collections.plumbline.ssd.plugins.module_utils._model.mapping import levels_below

_SMALLEST = 16 * MIB
_SAMPLES = 256
_SAMPLE = 4096
# By whose turn it is: the drive (0) and the incumbent (1).
_ALONE = ((0,),)
_PAIRED = ((0, 1, 1, 0), (1, 0, 0, 1))


class AcceptanceResult(NamedTuple):
    """Everything that an acceptance came to."""

    verdict: str
    reasons: List[str]
    cells: List[Dict[str, Any]]
    drive: Dict[str, Any]
    incumbent: Dict[str, Any]
    workload: Dict[str, Any]
    read_bytes: int
    seconds: float
    report: List[str]


def disks_below(seen: Observation, devno: str) -> List[Node]:
    """The disks on which a device lies; itself, if it is one."""
    return [seen.nodes[one] for one in levels_below(seen, devno)[0] if one in seen.nodes]


def find_drives(nodes: Mapping[str, Node], device: str, incumbent: str, wanted: Options) -> List[Node]:
    """The device, and the incumbent if one is named. Raises PlumblineError for what cannot be read, or cannot be compared."""
    names = [device, incumbent] if incumbent else [device]
    found = [resolve(nodes, [name])[0] for name in names]
    for devno in found:
        node = nodes[devno]
        if node.size < _SMALLEST:
            raise PlumblineError("%s has %s; wanted at least %s, or caches are measured" % (node_path(node), human(node.size), human(_SMALLEST)))
        large = [cell.name for cell in wanted.cells if cell.block % node.limits.logical]
        if large:
            raise PlumblineError(
                "%s has logical blocks of %d bytes, and cannot be read in the size of %s; name other cells" % (node_path(node), node.limits.logical, large[0])
            )
    if incumbent:
        seen = Observation(nodes=dict(nodes))
        for mine in disks_below(seen, found[0]):
            for other in disks_below(seen, found[1]):
                alike = bool(mine.identity.key) and mine.identity.key == other.identity.key
                if mine.devno == other.devno or alike or share_ssd(mine.identity, other.identity):
                    raise PlumblineError(
                        "incumbent: %s lies on the same drive as %s (%s); wanted another one" % (incumbent, device, node_path(other)),
                    )
    return [nodes[devno] for devno in found]


def blank_share(path: str, size: int, dice: random.Random) -> float:
    """The share of sampled blocks that read as blank: all zeros, or all ones. One is drawn of each of equal pieces of the device."""
    piece = size // _SAMPLES
    windows = [(number * piece // _SAMPLE * _SAMPLE + dice.randrange(piece // _SAMPLE) * _SAMPLE, _SAMPLE) for number in range(_SAMPLES)]
    try:
        read = block_device.read_pieces(path, windows)
    except OSError as fault:
        raise PlumblineError("%s could not be read: %s; see the kernel's log" % (path, fault.strerror or fault)) from fault
    return sum(not data.strip(b"\0") or not data.strip(b"\xff") for _at, data in read) / _SAMPLES


class Acceptance:
    """One measurement under way."""

    def __init__(self, nodes: List[Node], wanted: Options, dice: random.Random) -> None:
        self.fio = find_fio()
        self.nodes = nodes
        self.wanted = wanted
        self.dice = dice
        self.read_bytes = 0

    @property
    def ramp(self) -> float:
        return min(self.wanted.block_seconds / 4, 2.0)

    @property
    def orders(self) -> Tuple[Tuple[int, ...], ...]:
        return _PAIRED if len(self.nodes) > 1 else _ALONE

    @property
    def expected(self) -> float:
        """About how many seconds it takes."""
        return len(self.wanted.cells) * self.wanted.blocks * len(self.orders[0]) * (self.wanted.block_seconds + self.ramp)

    def measure(self) -> Dict[str, List[CellRound]]:
        """All rounds of all cells. Each goes through the cells in an order of its own."""
        found: Dict[str, List[CellRound]] = {cell.name: [] for cell in self.wanted.cells}
        for _round in range(self.wanted.blocks):
            for cell in self.dice.sample(self.wanted.cells, len(self.wanted.cells)):
                found[cell.name].append(self._round(cell))
        return found

    def _round(self, cell: Cell) -> CellRound:
        sides: Tuple[List[ReadBlock], List[ReadBlock]] = ([], [])
        fractions = [self.dice.random(), self.dice.random()]  # the first and the second block of each side: at the same places of both drives
        for side in self.dice.choice(self.orders):
            sides[side].append(self._block(cell, self.nodes[side], fractions[len(sides[side])]))
        return CellRound(tuple(sides[0]), tuple(sides[1]))

    def _block(self, cell: Cell, node: Node, fraction: float) -> ReadBlock:
        place = cell_place(cell, node_path(node), node.size, fraction)
        seconds = self.wanted.block_seconds
        with told_if_gone([node.name]):
            out, busy = run_fio(cell_argv(self.fio, cell, place, seconds, self.ramp), self.ramp, seconds, "%s of %s" % (cell.name, place.path))
            found = measure_fio.parse_output(out, [place])
        self.read_bytes += round(found.bytes * (1 + self.ramp / seconds))
        return ReadBlock(judge.block_rate(cell, out, seconds), read_bins(out, "read"), busy, found.busiest)


def accept_drive(device: str, incumbent: str, wanted: Options, check: bool) -> AcceptanceResult:
    """Measure a drive, and judge it. With *check* nothing is read of it."""
    began = time.monotonic()
    nodes = sysfs.read_nodes()
    found = find_drives(nodes, device, incumbent, wanted)
    dice = random.Random()
    work = Acceptance(found, wanted, dice)
    shown = [_identity(nodes, node) for node in found]
    if check:
        each = "%d rounds of %s" % (wanted.blocks, ", ".join(cell.name for cell in wanted.cells))
        plan = "check mode: nothing was read. %s would be read for about %.0f s: %s" % (" and ".join(map(node_path, found)), work.expected, each)
        return AcceptanceResult(INCONCLUSIVE, [plan], [], shown[0], (shown[1:] or [{}])[0], {}, 0, 0.0, [plan])
    sides = [Sampled(node.name, blank_share(node_path(node), node.size, dice)) for node in found]
    drive, other = (sides + [Sampled()])[:2]
    rounds = work.measure()
    judged = [judge.judge_cell(cell, rounds[cell.name], wanted, drive, other) for cell in wanted.cells]
    verdict, reasons = judge.judge_cells(judged)
    cells = [judge.cell_as_dict(one) for one in judged]
    load = judge.headroom(judged, wanted)
    ending = ["headroom: %s is %s times (%s to %s) the %s" % (load["cell"], load["headroom"], load["low"], load["high"], wanted.demand.text)] if load else []
    for side, told in zip(sides, shown):
        told["blank"] = round(side.blank, 3)
    return AcceptanceResult(
        verdict=verdict,
        reasons=reasons,
        cells=cells,
        drive=shown[0],
        incumbent=(shown[1:] or [{}])[0],
        workload=load,
        read_bytes=work.read_bytes,
        seconds=time.monotonic() - began,
        report=judge.report_acceptance(node_path(found[0]), other, drive, cells, [*ending, *reasons, "verdict: " + verdict]),
    )


def _identity(nodes: Mapping[str, Node], node: Node) -> Dict[str, Any]:
    """What is known of a device: of a part of one disk, that disk's identity."""
    below = disks_below(Observation(nodes=dict(nodes)), node.devno)
    identity = below[0].identity if len(below) == 1 else node.identity
    return {
        "device": node_path(node),
        "model": identity.model,
        "serial": identity.serial,
        "firmware": identity.firmware,
        "size_bytes": node.size,
    }
