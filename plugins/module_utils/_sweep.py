# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The statistics of the offset sweep: from latencies of reads at chosen offsets to a verdict. Pure.

A round reads once at every phase, in an order that is drawn anew; nothing but that order is taken to be random.
The evidence is kept as test martingales ("betting": Waudby-Smith and Ramdas 2024, doi:10.1093/jrsssb/qkad009), whose
error bounds hold at every moment (Ville 1939), so that the sweep may stop as soon as it is certain. The derivation
is in the guide on the offset sweep.
"""

from __future__ import annotations

import bisect
import functools
import math
import sys
from typing import Callable, Generator, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import KIB, MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._verdict import INCONCLUSIVE

PHASE = "phase"
NO_PREFERENCE = "no_preference"
CANNOT_TELL = "cannot_tell"  # no phase showed, and a cache may have hidden it

FIRST_GRAIN = 4 * KIB
LAST_GRAIN = 64 * KIB
# A penalty of this much is looked for first, as it takes few reads: what is inconclusive behind that can still say that there is none so large.
# Pages that are read in two halves take half as long again and more, where a drive does not hide it.
COARSE = 1.25
# The comparisons in which a search can go wrong: levels and screens from 4 to 64 KiB, for the coarse penalty and for the least; at each of these
# grains the least penalty, of two and of all; pairs above, looked at twice, and pairs below, both ways.
_PARTS = 2 * (5 + 4 * 4) + 2 * 5 + 2 * (2 * 4 + 3)
# A little less than the gap that matters is looked for, since the base that it is a share of is an estimate.
_SAFETY = 0.8

PILOT = 2  # rounds that only show how fast the device is
SMALLEST_GAP = 0.01
PATIENCE = 8  # times the rounds that found a phase, for a pair of two to show it as well, which is a quarter of the reads in each
LEAST_ROUNDS = 64
HOPED = 0.5  # of the penalty as estimated: what is looked for first
LIKELY = (8, 32)  # how many phases are compared behind a screen, before all are


class Round(NamedTuple):
    """Reads of *size* bytes, each at one of *offsets* behind a random multiple of *grain*, in this order; all in bytes."""

    grain: int
    size: int
    offsets: List[int]


# It asks for rounds, is sent their latencies in the same order and any unit (None: stop now), and returns its verdict.
Search = Generator[Round, Optional[Sequence[float]], "Verdict"]


class Options(NamedTuple):
    """What certainty is wanted, and what it may cost."""

    logical: int = 512  # bytes; the step between phases
    last_grain: int = LAST_GRAIN  # bytes; the largest grain that is looked for
    error: float = 1e-4  # the probability that a verdict is wrong
    min_ratio: float = 1.1  # the smallest penalty that matters, as a share of the latency of an aligned read
    max_bytes: int = 2048 * MIB  # a guard: what a search costs is time, and a share of the device's load


class Verdict(NamedTuple):
    """What the sweep found. *phase* and *grain* in bytes; for ``no_preference`` *grain* is the largest that was searched."""

    verdict: str
    phase: int = 0
    grain: int = 0
    ratio: float = 1.0  # latency of a read at another phase ÷ at this one, medians
    reads: int = 0
    bytes: int = 0
    why: str = ""
    excluded: float = 0.0  # the smallest penalty, as a ratio of latencies, that there certainly is not; 0: none was excluded


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
    return [(last - (bisect.bisect_left(ordered, one) + bisect.bisect_right(ordered, one) - 1) / 2) / last - 0.5 for one in latencies]


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


class _Sweep:
    """What the parts of one search share: the options, the budget, the dice."""

    def __init__(self, options: Options, shuffle: Callable[[List[int]], None]) -> None:
        self.options = options
        self.shuffle = shuffle
        self.error = options.error / _PARTS
        self.gap = 0.0  # that is looked for, as a share of the base
        self.excluded = 0.0
        self.reads = 0
        self.bytes = 0
        self.why = ""

    def ask(self, grain: int, size: int, offsets: Sequence[int]) -> Generator[Round, Optional[Sequence[float]], Optional[List[float]]]:
        """One round in an order of its own: latencies in the order of *offsets*, or None where a budget is spent."""
        if self.bytes + len(offsets) * size > self.options.max_bytes:
            self.why = "the byte budget of %d was spent at a grain of %d" % (self.options.max_bytes, grain)
            return None
        order = list(range(len(offsets)))
        self.shuffle(order)
        answers = yield Round(grain, size, [offsets[number] for number in order])
        if answers is None:
            self.why = "the time budget was spent at a grain of %d" % grain
            return None
        self.reads += len(offsets)
        self.bytes += len(offsets) * size
        latencies = [0.0] * len(offsets)
        for number, latency in zip(order, answers):
            latencies[number] = latency
        return latencies

    def compare(self, grain: int, phases: Sequence[int], gap: float) -> Generator[Round, Optional[Sequence[float]], "Compared"]:
        """Read rounds until one of the phases is certainly faster, or none by the gap, or a budget is spent."""
        level = Level(len(phases), self.error, gap)
        while True:
            latencies = yield from self.ask(grain, grain, phases)
            if latencies is None:
                return Compared(None, False, 0.0)
            level.add(latencies)
            winner = level.winner()
            if winner is not None:
                return Compared(phases[winner], False, level.penalty(winner), phases, len(level.rounds))
            if level.none():
                return Compared(None, True, 0.0)

    def at_least(self, grain: int, phases: Sequence[int], hoped: float, rounds: int) -> Generator[Round, Optional[Sequence[float]], Optional[float]]:
        """By how much the first phase is certainly faster, as a share of the base, up to what is hoped for.

        0 where nothing is certain after so many rounds, None where a budget is spent.
        """
        bound = AtLeast(len(phases), hoped, self.error)
        while not bound.enough() and (bound.value or bound.rounds < rounds):
            latencies = yield from self.ask(grain, grain, phases)
            if latencies is None:
                return None
            bound.add(latencies)
        return bound.value

    def levels(self, ratio: float) -> Generator[Round, Optional[Sequence[float]], Tuple["Compared", int]]:
        """From the smallest grain up, until a phase is certain, or that none is faster by this ratio. Returns what was found, and the last grain."""
        self.gap = _SAFETY * (ratio - 1)
        grain = first_grain(self.options.logical)
        while True:
            found = yield from self.level(grain)
            if found.phase is not None or not found.none or 2 * grain > self.options.last_grain:
                break
            grain *= 2
        if found.none:
            self.excluded = ratio
        return found, grain

    def level(self, grain: int) -> Generator[Round, Optional[Sequence[float]], "Compared"]:
        """Whether one phase of the grain is faster, and which."""
        phases: Sequence[int] = range(0, grain, self.options.logical)
        if grain == first_grain(self.options.logical):
            return (yield from self.compare(grain, phases, self.gap))
        likely = yield from self.screen(grain)
        if likely is None:
            return Compared(None, False, 0.0)
        if not likely:
            return Compared(None, True, 0.0)
        for count in (*LIKELY, len(likely)):  # first the few that the screen points to: all at once would cost many times as much
            found = yield from self.compare(grain, likely[:count], self.gap)
            if not found.none or count >= len(likely):
                break
        return found

    def screen(self, grain: int) -> Generator[Round, Optional[Sequence[float]], Optional[List[int]]]:
        """The phases that the grain may have, the likely ones first; empty: none. None where a budget is spent."""
        step = self.options.logical
        screen = Screen(grain, step, self.error, self.gap)
        lots = grain // Screen.READS // step
        lot = list(range(max(lots, 1)))
        while True:
            self.shuffle(lot)
            offsets = [lot[0] * step + part * grain // Screen.READS // step * step for part in range(Screen.READS)]
            latencies = yield from self.ask(grain, grain // 2, offsets)
            if latencies is None:
                return None
            screen.add(offsets, latencies)
            if screen.found():
                return screen.likely()
            if screen.none():
                return []

    def verdict(self, verdict: str, phase: int = 0, grain: int = 0, penalty: float = 0.0) -> Verdict:
        excluded = self.excluded if verdict != PHASE else 0.0
        return Verdict(verdict, phase, grain, 1 + penalty if verdict == PHASE else 1.0, self.reads, self.bytes, self.why, excluded)


class Compared(NamedTuple):
    """What a comparison found: the faster phase, or that certainly none is by the gap, or neither (a budget was spent)."""

    phase: Optional[int]
    none: bool
    penalty: float  # an estimate, for people
    phases: Sequence[int] = ()  # that were compared
    rounds: int = 0  # that it took


def first_grain(logical: int) -> int:
    """The smallest grain that has more than one phase on a device with this logical block, in bytes."""
    return max(FIRST_GRAIN, 2 * logical)


def search(options: Options, shuffle: Callable[[List[int]], None]) -> Search:
    """Find the grain and the phase at which reads are fastest. A generator: it asks for rounds and is sent their latencies.

    *shuffle* must draw every order of a list with the same probability. Raises nothing; what it cannot tell is ``inconclusive``.
    """
    state = _Sweep(options, shuffle)
    first = first_grain(options.logical)
    for ratio in sorted({max(COARSE, options.min_ratio), options.min_ratio}, reverse=True):
        found, grain = yield from state.levels(ratio)
        if found.phase is not None:
            break
        if not found.none:
            return state.verdict(INCONCLUSIVE)
    if found.phase is None:
        return state.verdict(NO_PREFERENCE, grain=grain)
    phase, penalty = found.phase, found.penalty
    least = HOPED * max(penalty, options.min_ratio - 1)  # of which it is to be shown that the penalty is larger, and a pair's is not
    sure: Optional[float] = 0.0
    while True:
        # Is the page larger? Of the phases that coincide at this grain, only one is right at its double. Below the true grain only some of
        # the reads at a wrong phase straddle, so that a pair which differs shows at least the penalty that came before.
        larger = first_grain(options.logical) <= grain <= options.last_grain // 2
        if larger:
            pair = yield from state.compare(2 * grain, (phase, phase + grain), _SAFETY * least)
            if pair.phase is not None:
                grain, phase, penalty, found = 2 * grain, pair.phase, max(penalty, pair.penalty), pair
                least, sure = HOPED * max(penalty, options.min_ratio - 1), 0.0
                continue
            if not pair.none:
                return state.verdict(INCONCLUSIVE)
            if sure:
                return state.verdict(PHASE, phase, grain, penalty)
        # Not by as much as was hoped for; but an estimate is nothing certain, and a burst makes it too large. So the least penalty is
        # measured, against the opposite phase. Where nothing shows, the page may be smaller, and it is measured against all.
        opposite = (phase + grain // 2) % grain
        patience = sys.maxsize if len(found.phases) == 2 else max(PATIENCE * found.rounds, LEAST_ROUNDS)
        sure = yield from state.at_least(grain, (phase, opposite), least, patience)
        if sure == 0:
            sure = yield from state.at_least(grain, [phase, *(other for other in found.phases if other != phase)], least, sys.maxsize)
            while sure and grain == first and grain // 2 > options.logical:
                pair = yield from state.compare(grain, (phase, (phase + grain // 2) % grain), _SAFETY * sure)
                if pair.phase is not None:
                    phase, penalty = pair.phase, max(penalty, pair.penalty)
                    break
                if not pair.none:
                    return state.verdict(INCONCLUSIVE)
                grain, phase, first = grain // 2, phase % (grain // 2), grain // 2
                larger = False
        if not sure:
            return state.verdict(INCONCLUSIVE)
        if sure >= least or not larger:
            return state.verdict(PHASE, phase, grain, penalty)
        least = sure  # and so not by that little either


def report(name: str, found: Verdict, min_ratio: float, expected: int, seconds: float, what: str = "read") -> List[str]:
    """The verdict for people. *expected*: the phase by the kernel, -1 where it does not know; *what*: read or write."""
    cost = "%d %ss, %s, %.1f s" % (found.reads, what, human(found.bytes), seconds)
    if found.verdict == PHASE:
        where = "%s: fastest at offset %d of %s" % (name, found.phase, human(found.grain))
        lines = ["%s; elsewhere a %s takes %.2f times as long (%s)" % (where, what, found.ratio, cost)]
        if 0 <= expected != found.phase:
            lines.append(
                "%s: by the kernel it is offset %d: a layer below is misaligned, or the device lies about its alignment; compare stack_info"
                % (name, expected)
            )
        return lines
    if found.verdict == NO_PREFERENCE:
        return ["%s: no offset is faster by a ratio of %g or more, up to a grain of %s (%s)" % (name, min_ratio, human(found.grain), cost)]
    if found.verdict == CANNOT_TELL:
        return ["%s: cannot tell: no offset is faster, and %s (%s)" % (name, found.why, cost)]
    known = "; a penalty of %g or more is excluded" % found.excluded if found.excluded else ""
    return ["%s: inconclusive, %s%s (%s); allow more, or measure when it is quieter" % (name, found.why, known, cost)]
