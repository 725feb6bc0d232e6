# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the rate collapses, what space a drive hides, and whether the collapses come back. Pure.

A series is the rate of windows of equal bytes, each 1 % of a fill, from the discard of the whole device on. Random writes stay fast until the
physical space has been written once. So the first collapse lies behind one fill, by as much as the drive hides. What falls before one fill is
the end of a cache: a drive holds what it sells.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Sequence, Tuple

WINDOW_SHARE = 0.01  # of a fill
_BASE_FILLS = 0.3
_COLLAPSED = 0.95  # of the median of the base
_SCATTER = 4.0  # median absolute deviations, 2.7 standard ones
_EARLIEST = 0.98  # fills: a drive that hides nothing, and two windows
_MOST_HIDDEN = 0.4
_PERIOD = 0.03  # around one fill
_LAGS = (0.5, 1.5)  # fills, among which the period is looked for
_ALIKE = 0.3  # correlation of a series with itself, a period later


class Collapse(NamedTuple):
    """Fills at which the rate first falls for want of free blocks (None: it does not), and where caches ended before."""

    fills: Optional[float]
    caches: Tuple[float, ...] = ()


class Hidden(NamedTuple):
    """Space that a drive has beside what it sells, as a share of that; *doubt*: why it may be something else."""

    share: Optional[float]
    doubt: str = ""


class Sawtooth(NamedTuple):
    """Fills after which a series is most like itself, how much (correlation), and whether that is one pass over the device."""

    period: Optional[float]
    likeness: float
    passes: bool


def cliff(rates: Sequence[float], begin: int = 0, base_end: Optional[int] = None) -> Optional[int]:
    """The first of two windows whose rate is below 95 % of the median of the first 0.3 fills from *begin* on; None where there are none.

    Where these scatter by more than that, it has to be outside of what they scatter (median absolute deviation).
    """
    base = sorted(rates[begin : min(begin + round(_BASE_FILLS / WINDOW_SHARE), base_end or len(rates))])
    middle = base[len(base) // 2] if base else 0.0
    if middle <= 0 or not math.isfinite(middle):
        return None
    deviation = sorted(abs(rate - middle) for rate in base)[len(base) // 2]
    least = min(_COLLAPSED * middle, middle - _SCATTER * deviation)
    low = [not rate >= least for rate in rates]
    return next((number for number in range(begin, len(rates) - 1) if low[number] and low[number + 1]), None)


def first_collapse(rates: Sequence[float]) -> Collapse:
    """Of random writes behind a discard of the whole device. Behind the end of a cache the rate is compared anew."""
    caches: List[float] = []
    begin, sold = 0, round(_EARLIEST / WINDOW_SHARE)
    while True:
        window = cliff(rates, begin, sold)
        if window is None:
            return Collapse(None, tuple(caches))
        if window >= sold:
            return Collapse(round(window * WINDOW_SHARE, 4), tuple(caches))
        if window > begin:
            caches.append(round(window * WINDOW_SHARE, 4))
        begin = window + 1  # where it still falls, the next one is found at once


def hidden_space(collapse: Collapse) -> Hidden:
    """From the first collapse behind a discard."""
    if collapse.fills is None:
        return Hidden(None, "the rate did not collapse")
    share = max(collapse.fills - 1, 0.0)
    if share > _MOST_HIDDEN:
        return Hidden(share, "no drive is known to hide %.0f %%: it may compress, or a part of it is not mapped" % (100 * share))
    return Hidden(share)


def _correlation(first: Sequence[float], other: Sequence[float]) -> float:
    mean, other_mean = math.fsum(first) / len(first), math.fsum(other) / len(other)
    product = math.fsum((a - mean) * (b - other_mean) for a, b in zip(first, other))
    square = math.fsum((a - mean) ** 2 for a in first) * math.fsum((b - other_mean) ** 2 for b in other)
    return product / math.sqrt(square) if square > 0 else 0.0


def _falls(rates: Sequence[float], tail: Sequence[float]) -> int:
    """How often a series goes from above the middle of the levels of its tail to below it, for two windows or more each."""
    levels = sorted(tail)
    middle = (levels[len(levels) // 10] + levels[-1 - len(levels) // 10]) / 2
    count, high = 0, False
    for number in range(len(rates) - 1):
        rate, other = rates[number : number + 2]
        if high and rate < middle and other < middle:
            count, high = count + 1, False
        elif rate >= middle and other >= middle:
            high = True
    return count


def sawtooth(rates: Sequence[float]) -> Sawtooth:
    """Whether collapses come back with each pass: what the first fill shows is left out, and two fills more are the least that show it."""
    finite = [rate if math.isfinite(rate) else 0.0 for rate in rates]
    tail = finite[round(1 / WINDOW_SHARE) :]
    least, most = (round(fills / WINDOW_SHARE) for fills in _LAGS)
    if len(tail) < 2 * round(1 / WINDOW_SHARE):
        return Sawtooth(None, 0.0, False)
    likeness = {lag: _correlation(tail[:-lag], tail[lag:]) for lag in range(least, min(most, len(tail) // 2) + 1)}
    lag = max(likeness, key=lambda candidate: likeness[candidate])
    # What only falls, or settles, is like itself as well.
    if likeness[lag] < _ALIKE or _falls(finite, tail) < 2:
        return Sawtooth(None, likeness[lag], False)
    period = lag * WINDOW_SHARE
    return Sawtooth(round(period, 4), likeness[lag], abs(period - 1) <= _PERIOD + 1e-9)
