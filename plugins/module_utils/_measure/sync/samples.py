# SPDX-License-Identifier: GPL-3.0-or-later
"""Samples of synchronous writes: rates, quantiles and their intervals. Pure."""

from __future__ import annotations

import math
from collections import Counter
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._measure.statistics import poisson_bounds, spent, t_quantile
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import Row

# A row's time is cut into so many pieces, and the pieces of all rows take turns, so that drift reaches all rows alike.
ROUNDS = 8
# On either side of the interval of a percentile.
CONFIDENCE = 0.95
# The probability that min_ops is judged wrongly, on either side, over all looks together.
RATE_ERROR = 0.01
# An operation is a stall that takes so long, and so many times as long as the median beside it: a flush behind garbage collection, a drive's reset.
STALL_NS = 50_000_000
STALL_TIMES = 10
# Stalls so long may be there and too rare to have been seen, in seconds; a minimum rate is passed only if it holds with them.
UNSEEN_SECONDS = 1.0
# Latencies are kept in tenths of a microsecond.
TICKS = 10


def samples_for(share: float) -> int:
    """How many samples carry this quantile: with fewer, all of them may lie below it, by more than 1 - CONFIDENCE (Wilks 1941)."""
    return math.ceil(math.log(1 - CONFIDENCE) / math.log(share))


class Interval(NamedTuple):
    """A figure and where it lies, by what was sampled."""

    value: float
    low: float
    high: float


class Piece(NamedTuple):
    """One piece of time: operations and nanoseconds in all, and of those the stalls."""

    ops: int
    elapsed: int
    stalls: int = 0
    stalled: int = 0


class Samples:
    """What was measured of one row: how long each operation took, and how many there were in each piece of time."""

    def __init__(self, unable: str = "") -> None:
        self.unable = unable  # why the row cannot run here
        self.own = 0  # nanoseconds of an operation that are the measuring program's, and are taken out
        self.counts: Counter[int] = Counter()  # by latency in ticks, rounded up
        self.pieces: List[Piece] = []

    def add(self, latencies: Sequence[int], elapsed: int) -> None:
        """One piece of time: nanoseconds of each operation, and of all."""
        latencies = [max(latency - self.own, 1) for latency in latencies]
        elapsed = max(elapsed - self.own * len(latencies), 1)
        self.counts.update(-(-latency * TICKS // 1000) for latency in latencies)
        stalls: List[int] = []
        if max(latencies) >= STALL_NS:
            usual = sorted(latencies)[len(latencies) // 2]
            stalls = [latency for latency in latencies if latency >= max(STALL_NS, STALL_TIMES * usual)]
        self.pieces.append(Piece(len(latencies), elapsed, len(stalls), sum(stalls)))

    @property
    def ops(self) -> int:
        return sum(self.counts.values())

    @property
    def seconds(self) -> float:
        return sum(piece.elapsed for piece in self.pieces) / 1e9

    @property
    def rate(self) -> float:
        """Operations per second."""
        return sum(piece.ops for piece in self.pieces) / self.seconds if self.pieces else 0.0

    def rate_error(self) -> Optional[float]:
        """The standard error of the rate; None for fewer than two pieces."""
        return _ratio(self.pieces)[1] if len(self.pieces) > 1 else None

    def rate_interval(self) -> Optional[Interval]:
        """The rate that is sustained, with RATE_ERROR on either side; None where there are fewer than two pieces.

        The smooth part and the stalls are treated separately. The smooth part is a ratio of two sums, with Student's t. Stalls come at random: from
        those that were seen follow the fewest and the most that there may be, and stalls of UNSEEN_SECONDS may be too rare for this time.
        """
        if len(self.pieces) < 2:
            return None
        tail = spent(RATE_ERROR, look_of(len(self.pieces))) / 3  # three things can go wrong on a side
        smooth = [Piece(piece.ops - piece.stalls, piece.elapsed - piece.stalled) for piece in self.pieces]
        rate, seconds = _ratio(smooth)[0], sum(piece.elapsed for piece in smooth) / 1e9
        # Pieces that follow each other are alike where the noise is slow: pieces joined to a few scatter by as much as they do then.
        half = max(t_quantile(tail, len(some) - 1) * _ratio(some)[1] for some in (smooth, _joined(smooth, 8 if len(smooth) >= 16 else 4)) if len(some) > 1)
        stalls = sum(piece.stalls for piece in self.pieces)
        mean = sum(piece.stalled for piece in self.pieces) / 1e9 / stalls if stalls else 0.0
        fewest, most = poisson_bounds(stalls, tail)
        unseen = poisson_bounds(0, tail)[1] * UNSEEN_SECONDS
        low = max(rate - half, 0.0) / (1 + (most * mean + unseen) / seconds)
        return Interval(self.rate, low, (rate + half) / (1 + fewest * mean / seconds))

    def stalled_share(self) -> float:
        """The share of the time that went into stalls."""
        return sum(piece.stalled for piece in self.pieces) / 1e9 / self.seconds if self.pieces else 0.0

    def waiting(self, share: float) -> Optional[float]:
        """Microseconds that this share of requests at random times would wait at most for the operation that is under way; None without samples.

        The next operation of a loop waits until the last has ended, so that a stall is one slow operation of many. Whoever comes at a time of
        his own meets a stall as often as it is long.
        """
        total = sum(ticks * count for ticks, count in self.counts.items())
        if not total:
            return None
        allowed, longer, ops = (1 - share) * total, 0, 0  # Σ max(latency - x, 0) over all that are longer than x falls as x grows
        longest = 0.0
        for ticks, count in sorted(self.counts.items(), reverse=True):
            if longer + ticks * count - (ops + count) * ticks > allowed:
                break
            longer, ops = longer + ticks * count, ops + count
            longest = (longer - allowed) / ops
        return max(longest, 0.0) / TICKS

    def ranked(self, ranks: Sequence[int]) -> List[float]:
        """The latencies at these ranks, in microseconds; 1 is the smallest."""
        latencies: Dict[int, float] = {}
        seen = 0
        waiting = sorted(set(ranks))
        for ticks, count in sorted(self.counts.items()):
            seen += count
            while waiting and waiting[0] <= seen:
                latencies[waiting.pop(0)] = ticks / TICKS
        return [latencies[rank] for rank in ranks]

    def percentile(self, share: float) -> Optional[float]:
        """Microseconds that this share of the operations did not exceed (nearest rank); None where the samples do not carry it."""
        if self.ops < samples_for(share):
            return None
        return self.ranked([math.ceil(share * self.ops)])[0]

    def percentile_interval(self, share: float) -> Optional[Interval]:
        """The same between two order statistics, whatever the distribution; None where the samples do not carry it."""
        if self.ops < samples_for(share):
            return None
        most, least = exceedances(self.ops, 1 - share)
        low, value, high = self.ranked([max(self.ops - most, 1), math.ceil(share * self.ops), self.ops - least])
        return Interval(value, low, high)

    def longest(self) -> float:
        """Microseconds."""
        return max(self.counts) / TICKS if self.counts else 0.0

    def histogram(self) -> Dict[int, int]:
        """Operations by the power of two, in microseconds, that they stayed below (the last one before that they did not)."""
        counts: Counter[int] = Counter()
        for ticks, count in self.counts.items():
            counts[1 << (ticks // TICKS).bit_length()] += count
        return dict(sorted(counts.items()))


def exceedances(count: int, share: float) -> Tuple[int, int]:
    """Of *count* samples of which each exceeds a value with probability *share*: the most and the least that exceed it, at CONFIDENCE each."""
    mean = count * share
    if mean > 500:  # where the first term of the sum would be no number, and the normal law is as good
        half = 1.6449 * math.sqrt(mean * (1 - share))
        return min(math.ceil(mean + half), count), max(math.floor(mean - half) - 1, 0)
    term = (1 - share) ** count
    below = term  # P(at most `number` exceed)
    least = most = -1
    for number in range(count + 1):
        if below <= 1 - CONFIDENCE:
            least = number
        if most < 0 and below >= CONFIDENCE:
            most = number
            break
        term *= (count - number) / (number + 1) * share / (1 - share)
        below += term
    return (most if most >= 0 else count), max(least, 0)


def look_of(pieces: int) -> int:
    """The number of the look at so many pieces: after ROUNDS, after twice as many, and so on; one in between is the next."""
    return max(-(-pieces // ROUNDS) - 1, 0).bit_length() + 1


def _joined(pieces: Sequence[Piece], count: int) -> List[Piece]:
    """Pieces joined to so many, in their order; as they are where there are fewer."""
    count, whole = min(count, len(pieces)), len(pieces)
    groups = [pieces[number * whole // count : (number + 1) * whole // count] for number in range(count)]
    return [Piece(*(sum(column) for column in zip(*group))) for group in groups]


def _ratio(pieces: Sequence[Piece]) -> Tuple[float, float]:
    """Operations per second over two pieces or more, a ratio of two sums, and its standard error (Cochran, Sampling Techniques, 6.4)."""
    count, seconds = len(pieces), sum(piece.elapsed for piece in pieces) / 1e9
    if seconds <= 0:
        return 0.0, 0.0
    rate = sum(piece.ops for piece in pieces) / seconds
    residuals = sum((piece.ops - rate * piece.elapsed / 1e9) ** 2 for piece in pieces)
    return rate, math.sqrt(residuals * count / (count - 1)) / seconds


Measured = Sequence[Tuple[Row, Samples]]
