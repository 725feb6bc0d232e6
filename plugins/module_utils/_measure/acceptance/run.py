# SPDX-License-Identifier: GPL-3.0-or-later
"""Measuring a drive, and an incumbent beside it, cell by cell. I/O.

Without a serial nothing is written: every open is for reading. With one, the drive is held alone as long as it is written to.
Each round of a cell is kept on the host when it is done. A measurement that was cut off goes on with the first that is missing.
"""

from __future__ import annotations

import contextlib
import random
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, read_sysfs, write_discard
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import levels_below
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disks import read_drive_links
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._block.virtual_disks import on_one_ssd
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio as measure_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance import judge, written_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.judge import CellRound, ReadBlock, Sampled
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.kept_cells import KeptCells
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import FRESH, STEADY_CELL, Cell, cell_argv, cell_place, most_of_block
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.held_volumes import node_path
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.latency import merge_bins, read_bins
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.raw_device import RawDevice
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.run_fio import find_fio, run_fio, told_if_gone
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.session import resolve

_SMALLEST = 16 * MIB
_SAMPLES = 256
_SAMPLE = 4096
# By whose turn it is: the drive (0) and the incumbent (1).
_ALONE = ((0,),)
_PAIRED = ((0, 1, 1, 0), (1, 0, 0, 1))


class AcceptanceResult(NamedTuple):
    """The whole result of an acceptance."""

    verdict: str
    reasons: List[str]
    cells: List[Dict[str, Any]]
    drive: Dict[str, Any]
    incumbent: Dict[str, Any]
    workload: Dict[str, Any]
    read_bytes: int
    written_bytes: int
    resumed: int
    wear: str
    seconds: float
    report: List[str]


def disks_below(seen: Observation, devno: str) -> List[Node]:
    """The disks on which a device lies; itself, if it is one."""
    return [seen.nodes[disk] for disk in levels_below(seen, devno)[0] if disk in seen.nodes]


def find_drives(seen: Observation, device: str, incumbent: str, options: Options) -> List[Node]:
    """The device, and the incumbent if one is named. Raises PlumblineError for what cannot be read, or cannot be compared."""
    names = [device, incumbent] if incumbent else [device]
    devnos = [resolve(seen.nodes, [name])[0] for name in names]
    for devno in devnos:
        node = seen.nodes[devno]
        if node.size < _SMALLEST:
            raise PlumblineError("%s has %s; wanted at least %s, or caches are measured" % (node_path(node), human(node.size), human(_SMALLEST)))
        large = [cell.name for cell in options.cells if cell.block % node.limits.logical]
        if large:
            raise PlumblineError(
                "%s has logical blocks of %d bytes, and cannot be read in the size of %s; name other cells" % (node_path(node), node.limits.logical, large[0])
            )
    if incumbent:
        for mine in disks_below(seen, devnos[0]):
            for other in disks_below(seen, devnos[1]):
                alike = bool(mine.identity.key) and mine.identity.key == other.identity.key
                if mine.devno == other.devno or alike or on_one_ssd(mine, other):
                    raise PlumblineError(
                        "incumbent: %s lies on the same drive as %s (%s); wanted another one" % (incumbent, device, node_path(other)),
                    )
    return [seen.nodes[devno] for devno in devnos]


def blank_share(path: str, span: Span, dice: random.Random) -> float:
    """The share of sampled blocks that read as blank: all zeros, or all ones. One is drawn of each of equal pieces of the span."""
    piece = span.length // _SAMPLES
    starts = (number * piece // _SAMPLE * _SAMPLE + dice.randrange(piece // _SAMPLE) * _SAMPLE for number in range(_SAMPLES))
    windows = [(span.start + start, _SAMPLE) for start in starts]
    try:
        read = block_device.read_pieces(path, windows)
    except OSError as fault:
        raise PlumblineError("%s could not be read: %s; see the kernel's log" % (path, fault.strerror or fault)) from fault
    return sum(not data.strip(b"\0") or not data.strip(b"\xff") for _at, data in read) / _SAMPLES


class Acceptance:
    """One measurement under way."""

    def __init__(self, nodes: List[Node], options: Options, dice: random.Random) -> None:
        self.began = time.monotonic()
        self.fio = find_fio()
        self.nodes = nodes
        self.options = options
        self.dice = dice
        self.read_bytes = 0
        self.written_bytes = 0
        self.device: Optional[RawDevice] = None  # while it may be written to

    @property
    def ramp(self) -> float:
        return min(self.options.block_seconds / 4, 2.0)

    @property
    def orders(self) -> Tuple[Tuple[int, ...], ...]:
        return _PAIRED if len(self.nodes) > 1 else _ALONE

    @property
    def expected(self) -> float:
        """About how many seconds it takes."""
        return len(self.options.cells) * self.options.blocks * len(self.orders[0]) * (self.options.block_seconds + self.ramp)

    def measure(self, kept: KeptCells) -> None:
        """All rounds of all cells that are not kept yet. Each goes through the cells in an order of its own."""
        fresh = [cell for cell in self.options.cells if cell.state == FRESH]
        others = [cell for cell in self.options.cells if cell.state != FRESH]
        if self.device is not None and kept.filled and not self._is_full(self.device):
            kept.restart()
        self._rounds(fresh, kept)
        if self.device is not None and others and not kept.filled:
            written_drive.empty(self.device)
            self.written_bytes += written_drive.fill(self.fio, self.device)
            kept.add_fill(time.time(), **self._took())
        self._rounds(others, kept)

    def _rounds(self, cells: Sequence[Cell], kept: KeptCells) -> None:
        before = {name: len(rounds) for name, rounds in kept.rounds.items()}
        for number in range(self.options.blocks):
            for cell in self.dice.sample(cells, len(cells)):
                if number >= before[cell.name]:
                    kept.add(cell.name, self._round(cell), time.time(), **self._took())

    def _is_full(self, device: RawDevice) -> bool:
        """Whether the drive still holds a fill. That nothing else is on it was proven when it was taken."""
        return blank_share(device.node.path, write_discard.owned(device.node.size), self.dice) == 0

    def _took(self) -> Dict[str, Any]:
        """What was read, written and spent since this was last asked."""
        now = time.monotonic()
        took = {"read": self.read_bytes, "written": self.written_bytes, "seconds": round(now - self.began, 3)}
        self.read_bytes, self.written_bytes, self.began = 0, 0, now
        return took

    def _round(self, cell: Cell) -> CellRound:
        sides: Tuple[List[ReadBlock], List[ReadBlock]] = ([], [])
        fractions = [self.dice.random(), self.dice.random()]  # the first and the second block of each side: at the same places of both drives
        for side in self.dice.choice(self.orders):
            sides[side].append(self._block(cell, self.nodes[side], fractions[len(sides[side])]))
        return CellRound(tuple(sides[0]), tuple(sides[1]))

    def _block(self, cell: Cell, node: Node, fraction: float) -> ReadBlock:
        span = write_discard.owned(node.size) if self.device else Span(0, node.size)
        place = cell_place(cell, node_path(node), span, fraction)
        seconds, ramp = self.options.block_seconds, 0.0 if cell.writes else self.ramp
        if cell.state == FRESH and self.device is not None:
            written_drive.empty(self.device)
        if cell.writes:
            place = self._held_place(node, place)
        argv = cell_argv(self.fio, cell, place, seconds, ramp, written_drive.mark_of(node), most_of_block(span))
        with told_if_gone([node.name]):
            out, busy = run_fio(argv, ramp, seconds, "%s of %s" % (cell.name, place.path))
            load = measure_fio.parse_output(out, [place])
        moved = round(load.bytes * (1 + ramp / seconds))
        if cell.writes:
            self.written_bytes += moved
        else:
            self.read_bytes += moved
        return ReadBlock(judge.block_rate(cell, out, seconds), merge_bins([read_bins(out, side) for side in cell.sides]), busy, load.busiest)

    def _held_place(self, node: Node, place: Place) -> Place:
        """The place on the drive that is held, and on no other that may have its name by now."""
        if self.device is None or self.device.node.devno != node.devno:
            raise PlumblineError("%s: it is not held; nothing was written" % place.path)
        return self.device.place(place.start, place.length)

    @contextlib.contextmanager
    def held(self, run: Runner) -> Iterator[None]:
        """Hold the drive where it may be written to."""
        if not self.options.serial:
            yield
            return
        with written_drive.hold_drive(run, self.nodes[0], self.options.serial) as device:
            self.device, self.nodes = device, [device.node, *self.nodes[1:]]  # what is held counts, under the name that it has now
            yield
        self.device = None


def accept_drive(run: Runner, params: Mapping[str, Any], options: Options, check: bool) -> AcceptanceResult:
    """Measure the drive that a module's parameters name, and judge it. With *check* nothing of it is measured."""
    seen = read_sysfs.read_block_devices()
    nodes = find_drives(seen, params["device"], params["incumbent"], options)
    work = Acceptance(nodes, options, random.Random())
    shown = [_identity(seen, node) for node in nodes]
    asked_serial = params["steady"].get("serial")
    if asked_serial and asked_serial != shown[0]["serial"]:
        raise PlumblineError("steady: it is of the drive %s; measured is %s" % (str(asked_serial)[:60], shown[0]["serial"]))
    wear = written_drive.cost(nodes[0], options, params) if options.serial else ""
    if check:
        if options.serial:
            written_drive.examine(run, nodes[0], options.serial)
        return _expected(work, shown, wear)
    with work.held(run), contextlib.closing(KeptCells([known_as(seen, node) for node in nodes], options, time.time())) as kept:
        work.measure(kept)
        sides = [Sampled(node.name, blank_share(node_path(node), Span(0, node.size), work.dice)) for node in nodes]
        kept.finish()
    return _judged(work, kept, shown, sides, wear)


def known_as(seen: Observation, node: Node) -> str:
    """By what a device is known in another call, and after a boot: its disks, and what of them it is. Empty where a disk has no identity."""
    keys = [disk.identity.key for disk in disks_below(seen, node.devno)]
    if not keys or not all(keys):
        return ""
    return " ".join([*sorted(keys), str(node.size), "" if node.kind == "disk" else node.title or node.name]).strip()


def _expected(work: Acceptance, shown: List[Dict[str, Any]], wear: str) -> AcceptanceResult:
    """What would be measured."""
    each = "%d rounds of %s" % (work.options.blocks, ", ".join(cell.name for cell in work.options.cells))
    names = " and ".join(map(node_path, work.nodes))
    plan = "check mode: nothing was measured. %s would be measured for about %.0f s: %s" % (names, work.expected, each)
    lines = [plan, wear] if wear else [plan]
    return AcceptanceResult(INCONCLUSIVE, lines, [], shown[0], (shown[1:] or [{}])[0], {}, 0, 0, 0, wear, 0.0, lines)


def _judged(work: Acceptance, kept: KeptCells, shown: List[Dict[str, Any]], sides: List[Sampled], wear: str) -> AcceptanceResult:
    options, rounds, written = work.options, kept.rounds, kept.sum_of("written")
    drive, other = (sides + [Sampled()])[:2]
    cells_found = [judge.judge_cell(cell, rounds[cell.name], options, drive, other) for cell in options.cells]
    if options.steady:
        cells_found.append(judge.judge_cell(STEADY_CELL, judge.steady_rounds(options), options, drive, other))
    verdict, reasons = judge.judge_cells(cells_found)
    cells = [judge.cell_as_dict(cell) for cell in cells_found]
    loads = judge.headrooms(cells_found, options)
    ending = [judge.headroom_line(load, options) for load in loads]
    if written:
        ending.append("written: %s, %.2f of the drive; it was left blank" % (human(written), written / work.nodes[0].size))
    if kept.kept:
        ending.append("taken up again: %d of %d rounds were done before" % (kept.kept, options.blocks * len(options.cells)))
    ending += [kept.problem] if kept.problem else []
    for side, identity in zip(sides, shown):
        identity["blank"] = round(side.blank, 3)
    return AcceptanceResult(
        verdict=verdict,
        reasons=reasons,
        cells=cells,
        drive=shown[0],
        incumbent=(shown[1:] or [{}])[0],
        workload=(loads or [{}])[0],
        read_bytes=kept.sum_of("read"),
        written_bytes=written,
        resumed=kept.kept,
        wear=wear,
        seconds=kept.sum_of("seconds"),
        report=judge.report_acceptance(node_path(work.nodes[0]), other, drive, cells, [*ending, *reasons, "verdict: " + verdict]),
    )


def _identity(seen: Observation, node: Node) -> Dict[str, Any]:
    """What is known of a device: of a part of one disk, that disk's identity."""
    below = disks_below(seen, node.devno)
    identity = below[0].identity if len(below) == 1 else node.identity
    return {
        "device": node_path(node),
        "model": identity.model,
        "serial": identity.serial,
        "firmware": identity.firmware,
        "size_bytes": node.size,
        "link": ", ".join(link.text for link in read_drive_links(below[0])) if len(below) == 1 else "",
    }
