# SPDX-License-Identifier: GPL-3.0-or-later
"""The cells of an acceptance: which loads a drive is measured with, and how fio is told each of them. Pure."""

from __future__ import annotations

import math
from typing import List, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.sizes import KIB, MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place, common, place_words

# What was on the drive when it was read: whatever was there. A load that brings the drive into a state of its own has another.
AS_FOUND = "as_found"


class Cell(NamedTuple):
    """One load of one job, alone on the drive."""

    name: str
    pattern: str  # fio's rw: read, randread
    block: int
    depth: int  # requests outstanding

    @property
    def unit(self) -> str:
        return "MiB/s" if self.block >= MIB else "IOPS"

    @property
    def is_random(self) -> bool:
        return self.pattern == "randread"


CELLS = (
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
BY_NAME = {cell.name: cell for cell in CELLS}
_WORKLOAD_DEPTH = 64


def cell_for_reads(size: int) -> Cell:
    """The cell whose random reads are nearest in size to those of a workload. Sizes are compared by their ratio."""
    return min((cell for cell in CELLS if cell.is_random and cell.depth == _WORKLOAD_DEPTH), key=lambda cell: (abs(math.log(cell.block / size)), -cell.block))


def cell_place(cell: Cell, path: str, size: int, fraction: float) -> Place:
    """Where a cell reads: random reads everywhere, sequential ones from another place each time, so that no cache holds what the last ones read.

    *fraction*, 0 to 1, draws the place. The half of the device behind it is not left, however fast the drive is.
    """
    if cell.is_random:
        return Place(path, 0, size // cell.block * cell.block)
    half = size // 2 // MIB * MIB
    return Place(path, int(fraction * half) // MIB * MIB, half)


def cell_argv(fio: str, cell: Cell, place: Place, seconds: float, ramp: float) -> List[str]:
    """The command that reads one cell. The time of every request is kept, which fio.argv() spares small ones."""
    words = ["--rw=" + cell.pattern, "--bs=%d" % cell.block, "--iodepth=%d" % cell.depth, "--time_based=1"]
    words += ["--runtime=%dms" % round(seconds * 1000), "--ramp_time=%dms" % round(ramp * 1000)]
    return common(fio, True, "json+") + words + place_words([place])
