# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence of a preferred offset: sequential tests on ranks of latencies. Pure."""

from __future__ import annotations

import bisect
import functools
import math
from typing import List, Optional, Sequence

PILOT = 2  # rounds that only show how fast the device is
SMALLEST_GAP = 0.01


class Wealth:
    """Evidence against one hypothesis: a mixture of betting strategies, each a martingale that starts at 1.

    A score lies within -1/2 and 1/2 and has no positive mean while the hypothesis is true, whatever came before; a *hit* is an
    event whose probability is then at most *chance*. The mixture stays below 1/error for ever with probability 1 - error.
    """

    STAKES = (0.4, 1.0, 1.7)  # of the scores; below 2, so that nothing is ever lost altogether
    SHARES = (0.1, 0.4)  # of the wealth, on the hit

    def __init__(self, chance: float) -> None:
        self.purses = [1.0] * (len(self.STAKES) + len(self.SHARES))
        self.odds = 1 / chance

    def add(self, score: float, hit: float) -> None:
        """One round: the score, and the hit (1, 0, or a share of it where several tied)."""
        purses = self.purses
        for number, stake in enumerate(self.STAKES):
            purses[number] *= 1 + stake * score
        for number, share in enumerate(self.SHARES, len(self.STAKES)):
            purses[number] *= 1 + share * (self.odds * hit - 1)

    @property
    def value(self) -> float:
        return sum(self.purses) / len(self.purses)


class RankSum:
    """Evidence against "the first group is not slower", from Mann and Whitney's U, a round at a time.

    Each round multiplies by exp(tilt * U) over its mean under exchange of the groups, which is exact whatever the latencies are distributed like.
    """

    TILTS = (0.03, 0.1, 0.25, 0.5, 1.0)  # per pair

    def __init__(self) -> None:
        self.purses = [1.0] * len(self.TILTS)

    def add(self, pairs: float, first: int, second: int) -> None:
        """In how many of the pairs the first is slower (ties half), and how large the groups are."""
        for number, tilt in enumerate(self.TILTS):
            self.purses[number] *= math.exp(tilt * pairs) / _mean_tilted(tilt, first, second)

    @property
    def value(self) -> float:
        return sum(self.purses) / len(self.purses)


@functools.lru_cache(maxsize=None)
def _mean_tilted(tilt: float, first: int, second: int) -> float:
    """The mean of exp(tilt * U) over all ways to deal ranks to two groups."""
    counts = _u_counts(first, second)
    return sum(count * math.exp(tilt * pairs) for pairs, count in enumerate(counts)) / sum(counts)


def _u_counts(first: int, second: int) -> List[int]:
    """How many ways give U = 0, 1, …, first * second (Mann and Whitney 1947, by their recurrence)."""
    if first == 0 or second == 0:
        return [1]
    counts = [0] * (first * second + 1)
    for pairs, count in enumerate(_u_counts(first - 1, second)):  # the largest of all is of the first group: above all of the second
        counts[pairs + second] += count
    for pairs, count in enumerate(_u_counts(first, second - 1)):
        counts[pairs] += count
    return counts


class Base:
    """How fast an ordinary read is at the moment: a low quantile, of all so far and of the last ones, the lower of both."""

    RECENT = 64

    def __init__(self) -> None:
        self.sorted: List[float] = []
        self.recent: List[float] = []

    def add(self, latencies: Sequence[float]) -> None:
        for latency in latencies:
            bisect.insort(self.sorted, latency)
        self.recent = (self.recent + list(latencies))[-self.RECENT :]

    @property
    def value(self) -> float:
        recent = sorted(self.recent)
        return min(self.sorted[len(self.sorted) // 10], recent[len(recent) // 10])


def ranks(latencies: Sequence[float], ordered: Sequence[float]) -> List[float]:
    """For each: the share of the others that are slower, less one half. Ties count half. *ordered*: the same, sorted."""
    last = len(latencies) - 1
    return [(last - (bisect.bisect_left(ordered, latency) + bisect.bisect_right(ordered, latency) - 1) / 2) / last - 0.5 for latency in latencies]


class Level:
    """Some phases that are compared, a round at a time: all below one grain, or two."""

    def __init__(self, count: int, error: float, gap: float) -> None:
        self.faster = [Wealth(1 / count) for _phase in range(count)]  # against: this phase is not faster
        self.alike = [Wealth(1 / count) for _phase in range(count)]  # against: this phase is faster by the gap
        self.sure_faster = count / error
        self.sure_alike = 1 / error
        self.gap = gap  # a share of the base
        self.base = Base()
        self.rounds: List[List[float]] = []

    def add(self, latencies: Sequence[float]) -> None:
        """A round, latencies by phase."""
        ordered = sorted(latencies)
        firsts = bisect.bisect_right(ordered, ordered[0])
        for latency, wealth, score in zip(latencies, self.faster, ranks(latencies, ordered)):
            wealth.add(score, 1 / firsts if latency == ordered[0] else 0)
        if len(self.rounds) >= PILOT:
            self._shift(latencies, ordered)
        self.base.add(latencies)
        self.rounds.append(list(latencies))

    def _shift(self, latencies: Sequence[float], ordered: Sequence[float]) -> None:
        """Were this phase faster by the gap, it would with the gap added still be no slower than the others."""
        gap = self.gap * self.base.value
        last = len(ordered) - 1
        for latency, wealth in zip(latencies, self.alike):
            moved = latency + gap
            quicker = (bisect.bisect_left(ordered, moved) + bisect.bisect_right(ordered, moved)) / 2 - 1
            wealth.add(quicker / last - 0.5, 1 if moved > ordered[-1] else 0)

    def winner(self) -> Optional[int]:
        """The phase that is certainly faster; of several the one with the most evidence."""
        best = max(range(len(self.faster)), key=lambda phase: self.faster[phase].value)
        return best if self.faster[best].value >= self.sure_faster else None

    def none(self) -> bool:
        """Whether certainly no phase is faster by the gap."""
        return all(wealth.value >= self.sure_alike for wealth in self.alike)

    def penalty(self, winner: int) -> float:
        """How much slower the other phases are, as a share of the winner's latency; medians."""
        own = median([latencies[winner] for latencies in self.rounds])
        rest = median([latency for latencies in self.rounds for phase, latency in enumerate(latencies) if phase != winner])
        return rest / own - 1 if own > 0 else 0.0


def median(values: Sequence[float]) -> float:
    """The middle value; of two the upper."""
    return sorted(values)[len(values) // 2]


class AtLeast:
    """By how much the first of some phases is certainly faster than the others.

    It takes rounds of its own: which phase is looked at, and what is hoped for, have to be settled before they are read.
    """

    STEP = 2**-0.5
    AGAIN = 5  # times the rounds in which one gap got certain, for a larger one

    def __init__(self, count: int, hoped: float, error: float) -> None:
        self.gaps = [max(hoped, SMALLEST_GAP)]  # shares of the base, the largest first
        while self.gaps[-1] * self.STEP >= SMALLEST_GAP:
            self.gaps.append(self.gaps[-1] * self.STEP)
        self.larger = [Wealth(1 / count) for _gap in self.gaps]  # against: it is not faster by more than the gap
        self.sure = len(self.gaps) / error
        self.base = Base()
        self.rounds = 0
        self.first_sure = 0  # the round in which the first of them was certain

    def add(self, latencies: Sequence[float]) -> None:
        """A round, latencies by phase."""
        others = sorted(latencies[1:])
        if self.rounds >= PILOT:
            for gap, wealth in zip(self.gaps, self.larger):
                moved = latencies[0] + gap * self.base.value
                quicker = (bisect.bisect_left(others, moved) + bisect.bisect_right(others, moved)) / 2
                wealth.add(0.5 - quicker / len(others), 1 if moved < others[0] else 0)
        self.base.add(latencies)
        self.rounds += 1
        if not self.first_sure and self.value:
            self.first_sure = self.rounds

    @property
    def value(self) -> float:
        """The largest gap that is certain; 0: none yet."""
        return next((gap for gap, wealth in zip(self.gaps, self.larger) if wealth.value >= self.sure), 0.0)

    def enough(self) -> bool:
        """Whether a larger gap is not worth its reads: the largest is certain, or one is and as many rounds again made it no larger."""
        return self.value == self.gaps[0] or (self.first_sure > 0 and self.rounds >= self.AGAIN * self.first_sure)


class Screen:
    """Whether a grain can have a phase at all, from reads of half its size.

    Such a read straddles a boundary or not, half and half over the phases, so that every read speaks for or against every
    phase: that costs a small part of reading at all of them.
    """

    READS = 8

    def __init__(self, grain: int, step: int, error: float, gap: float) -> None:
        self.grain = grain
        self.phases = range(0, grain, step)
        self.exists = [RankSum() for _phase in self.phases]
        self.alike = [RankSum() for _phase in self.phases]
        self.sure_exists = len(self.phases) / error
        self.sure_alike = 1 / error
        self.gap = gap
        self.base = Base()
        self.rounds = 0

    def add(self, offsets: Sequence[int], latencies: Sequence[float]) -> None:
        """A round: where the reads began, modulo the grain, and how long they took."""
        gap = self.gap * self.base.value if self.rounds >= PILOT else 0.0
        for phase, exists, alike in zip(self.phases, self.exists, self.alike):
            whole: List[float] = []
            split: List[float] = []
            for offset, latency in zip(offsets, latencies):
                (whole if (offset - phase) % self.grain <= self.grain // 2 else split).append(latency)
            split.sort()
            pairs = len(whole) * len(split)
            exists.add(pairs - _pairs_below(whole, split, 0.0), len(split), len(whole))
            if self.rounds >= PILOT:
                alike.add(_pairs_below(whole, split, gap), len(whole), len(split))
        self.base.add(latencies)
        self.rounds += 1

    def found(self) -> bool:
        """Whether certainly some phases differ."""
        return any(wealth.value >= self.sure_exists for wealth in self.exists)

    def likely(self) -> List[int]:
        """All phases, those first that the reads speak for."""
        return sorted(self.phases, key=lambda phase: -self.exists[self.phases.index(phase)].value)

    def none(self) -> bool:
        """Whether certainly no phase is faster by the gap."""
        return all(wealth.value >= self.sure_alike for wealth in self.alike)


def _pairs_below(values: Sequence[float], ordered: Sequence[float], gap: float) -> float:
    """In how many pairs the ordered one is below the value plus the gap. Ties count half."""
    return sum(bisect.bisect_left(ordered, value + gap) + bisect.bisect_right(ordered, value + gap) for value in values) / 2
