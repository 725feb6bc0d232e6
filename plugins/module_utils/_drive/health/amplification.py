# SPDX-License-Identifier: GPL-3.0-or-later
"""Write amplification: from the counters of a drive, and of a drive that collects garbage greedily under uniform random writes. Pure.

*ratio* is physical by user space. With blocks without end v = exp(-ratio (1 - v)) of a victim is valid, and WA = 1 / (1 - v), so that
ratio = WA ln(WA / (WA - 1)). Blocks of N pages amplify a little less: k = (1 + 1/2N) ratio, x = 1/2 - (N / ratio) W(-k exp(-k)), and
WA = N / (N + 1 - x), W the principal branch of Lambert's function.
"""

from __future__ import annotations

import math
from typing import Mapping, NamedTuple, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import GIB

# Counters of what the host wrote and of what was programmed, the unit in which the coarsest drive counts them, and whether the second has the first in it.
_PAIRS = (("host_pages", "background_pages", 1, False), ("host_bytes_written", "flash_bytes_written", GIB, True))

COUNTERS = tuple(name for pair in _PAIRS for name in pair[:2])


class Amplification(NamedTuple):
    """Bytes written to the flash divided by bytes written by the host, and its bounds, since counters have units."""

    value: float
    low: float
    high: float


def counted_amplification(before: Mapping[str, int], after: Mapping[str, int]) -> Optional[Amplification]:
    """From two readings of a drive's counters; None where it tells only one of both, where one fell, or where too little was written between them."""
    for host_name, flash_name, unit, is_all in _PAIRS:
        if not all(name in reading for name in (host_name, flash_name) for reading in (before, after)):
            continue
        host, flash = (after[name] - before[name] for name in (host_name, flash_name))
        if host <= unit or flash < 0:
            continue
        extra = 0.0 if is_all else 1.0
        return Amplification(extra + flash / host, extra + max(flash - unit, 0) / (host + unit), extra + (flash + unit) / (host - unit))
    return None


def counts_both(reading: Mapping[str, int]) -> bool:
    """Whether a drive counts what was programmed as well as what was written."""
    return any(host in reading and flash in reading for host, flash, _unit, _is_all in _PAIRS)


def ratio_for(wa: float) -> float:
    """The physical by user space at which uniform random writes are amplified by *wa*, above 1."""
    if not 1 < wa < math.inf:
        raise PlumblineError("a write amplification of %g; wanted a number above 1" % wa)
    # log1p: with a large WA the two logarithms would be the same number.
    return max(-wa * math.log1p(-1 / wa), 1.0)


def amplification_at(ratio: float, block_pages: Optional[int] = None) -> float:
    """Of uniform random writes, with blocks of so many pages or without end. Infinite without spare space."""
    if not ratio > 1:
        return math.inf
    k = ratio if block_pages is None else (1 + 1 / (2 * block_pages)) * ratio
    w = _lambert(-k * math.exp(-k))
    if block_pages is None:
        return 1 / (1 + w / k)
    return max(block_pages / (block_pages + 0.5 + block_pages / ratio * w), 1.0)  # far from full the formula is a little below


def _lambert(z: float) -> float:
    """The principal branch for -1/e <= z <= 0, where w exp(w) rises from -1 to 0."""
    low, high = -1.0, 0.0
    for _turn in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.exp(middle) < z else (low, middle)
    return high
