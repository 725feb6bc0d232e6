# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of an acceptance: which loads a drive is measured with, and the fio arguments of each. Pure."""

from __future__ import annotations

import math
from typing import List, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, round_down
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place, common, load_contents, place_words

# What was on the drive when it was measured: whatever was there; nothing, after a discard; data, after one fill in sequence; or the load itself,
# until the rate no longer changed.
AS_FOUND, FRESH, FILLED, STEADY = "as_found", "fresh", "filled", "steady"
_READS = ("read", "randread")
_MIXED_READS = 70  # percent


class Cell(NamedTuple):
    """One load of one job, alone on the drive."""

    name: str
    pattern: str  # fio's rw: read, randread, write, randwrite, randrw
    block: int
    depth: int  # requests outstanding
    state: str = AS_FOUND
    synced: bool = False  # each write is on the flash before the next begins, as a log's

    @property
    def unit(self) -> str:
        return "MiB/s" if self.block >= MIB else "IOPS"

    @property
    def is_random(self) -> bool:
        return self.pattern.startswith("rand")

    @property
    def writes(self) -> bool:
        return self.pattern not in _READS

    @property
    def sides(self) -> List[str]:
        """The parts of fio's report that its requests are in."""
        return {"randrw": ["read", "write"]}.get(self.pattern) or ["write" if self.writes else "read"]


READ_CELLS = (
    Cell("seq_read_1m_qd1", "read", MIB, 1),
    Cell("seq_read_4k_qd32", "read", 4 * KIB, 32),
    Cell("rand_read_8k_qd64", "randread", 8 * KIB, 64),
    # From depth to depth it shows how much the drive does side by side.
    Cell("rand_read_4k_qd1", "randread", 4 * KIB, 1),
    Cell("rand_read_4k_qd4", "randread", 4 * KIB, 4),
    Cell("rand_read_4k_qd16", "randread", 4 * KIB, 16),
    Cell("rand_read_4k_qd64", "randread", 4 * KIB, 64),
    Cell("rand_read_4k_qd256", "randread", 4 * KIB, 256),
)
# A drive that holds nothing is faster than it will be, so these show what a data sheet shows.
_FRESH_CELLS = (
    Cell("fresh_seq_write_1m_qd1", "write", MIB, 1, FRESH),
    Cell("fresh_rand_write_4k_qd64", "randwrite", 4 * KIB, 64, FRESH),
)
_FILLED_CELLS = (
    Cell("seq_write_1m_qd1", "write", MIB, 1, FILLED),
    Cell("seq_write_4k_qd32", "write", 4 * KIB, 32, FILLED),
    Cell("rand_write_4k_qd64", "randwrite", 4 * KIB, 64, FILLED),
    Cell("rand_mixed_8k_qd64", "randrw", 8 * KIB, 64, FILLED),
    Cell("sync_write_4k_qd1", "write", 4 * KIB, 1, FILLED, synced=True),
)
CELLS = (*READ_CELLS, *_FRESH_CELLS, *_FILLED_CELLS)
# Not measured here: the rate at the end of a run to the steady state.
STEADY_CELL = Cell("steady_rand_write_4k", "randwrite", 4 * KIB, 0, STEADY)
BY_NAME = {cell.name: cell for cell in (*CELLS, STEADY_CELL)}
_WORKLOAD_DEPTH = 64
# Of the device, for one block of writes: so many bytes end the block, so that they do not change the state in which the next one is measured.
MOST_OF_DEVICE = 0.05


def in_state_filled(cell: Cell) -> Cell:
    """The same cell on a drive that was filled: reads find what the fill has left."""
    return cell._replace(state=FILLED) if cell.state == AS_FOUND else cell


def cell_for_reads(size: int) -> Cell:
    """The cell whose random reads are nearest in size to those of a workload. Sizes are compared by their ratio."""
    deep = (cell for cell in READ_CELLS if cell.is_random and cell.depth == _WORKLOAD_DEPTH)
    return min(deep, key=lambda cell: (abs(math.log(cell.block / size)), -cell.block))


def cell_place(cell: Cell, path: str, span: Span, fraction: float) -> Place:
    """Where on the *span* a cell goes: random requests everywhere, sequential ones to another place each time, so that no cache holds the last ones.

    *fraction*, 0 to 1, draws the place. The half of the span behind it is not left, however fast the drive is.
    """
    if cell.is_random:
        return Place(path, span.start, round_down(span.length, cell.block))
    half = round_down(span.length // 2, MIB)
    return Place(path, span.start + round_down(int(fraction * half), MIB), half)


def most_of_block(span: Span) -> int:
    """Bytes that one block of writes may write at most."""
    return round_down(int(span.length * MOST_OF_DEVICE), MIB)


def cell_argv(fio: str, cell: Cell, place: Place, seconds: float, ramp: float, mark: bytes = b"", most: int = 0) -> List[str]:
    """The command that measures one cell. The time of every request is kept, which fio.argv() spares small ones.

    A load that writes has no ramp, ends after *most* bytes if its time is not over before, and leaves its *mark*.
    """
    words = ["--rw=" + cell.pattern, "--bs=%d" % cell.block, "--iodepth=%d" % cell.depth, "--runtime=%dms" % round(seconds * 1000)]
    if cell.writes:
        words += ["--io_size=%d" % most, *load_contents(mark, False)]
        words += ["--rwmixread=%d" % _MIXED_READS] if len(cell.sides) > 1 else []
        words += ["--sync=1"] if cell.synced else []
    else:
        words += ["--time_based=1", "--ramp_time=%dms" % round(ramp * 1000)]
    return common(fio, not cell.writes, "json+") + words + place_words([place])
