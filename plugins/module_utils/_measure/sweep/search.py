# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of the offset sweep: from latencies of reads at chosen offsets to a verdict. Pure.

A round reads once at every phase, in an order that is drawn anew; nothing but that order is taken to be random.
The evidence is kept as test martingales ("betting": Waudby-Smith and Ramdas 2024, doi:10.1093/jrsssb/qkad009), whose
error bounds hold at every moment (Ville 1939), so that the sweep may stop as soon as it is certain. The derivation
is in the guide on the offset sweep.
"""

from __future__ import annotations

import sys
from typing import Callable, Generator, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.evidence import AtLeast, Level, Screen
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import COARSE, FIRST_GRAIN, Options

PHASE = "phase"
NO_PREFERENCE = "no_preference"
CANNOT_TELL = "cannot_tell"  # no phase showed, and a cache may have hidden it

# The comparisons in which a search can go wrong: levels and screens from 4 to 64 KiB, for the coarse penalty and for the least; at each of these
# grains the least penalty, of two and of all; pairs above, looked at twice, and pairs below, both ways.
_PARTS = 2 * (5 + 4 * 4) + 2 * 5 + 2 * (2 * 4 + 3)
# A little less than the gap that matters is looked for, since the base that it is a share of is an estimate.
_SAFETY = 0.8

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
            compared = yield from self.level(grain)
            if compared.phase is not None or not compared.none or 2 * grain > self.options.last_grain:
                break
            grain *= 2
        if compared.none:
            self.excluded = ratio
        return compared, grain

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
            compared = yield from self.compare(grain, likely[:count], self.gap)
            if not compared.none or count >= len(likely):
                break
        return compared

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
        compared, grain = yield from state.levels(ratio)
        if compared.phase is not None:
            break
        if not compared.none:
            return state.verdict(INCONCLUSIVE)
    if compared.phase is None:
        return state.verdict(NO_PREFERENCE, grain=grain)
    phase, penalty = compared.phase, compared.penalty
    least = HOPED * max(penalty, options.min_ratio - 1)  # of which it is to be shown that the penalty is larger, and a pair's is not
    sure: Optional[float] = 0.0
    while True:
        # Is the page larger? Of the phases that coincide at this grain, only one is right at its double. Below the true grain only some of
        # the reads at a wrong phase straddle, so that a pair which differs shows at least the penalty that came before.
        larger = first_grain(options.logical) <= grain <= options.last_grain // 2
        if larger:
            pair = yield from state.compare(2 * grain, (phase, phase + grain), _SAFETY * least)
            if pair.phase is not None:
                grain, phase, penalty, compared = 2 * grain, pair.phase, max(penalty, pair.penalty), pair
                least, sure = HOPED * max(penalty, options.min_ratio - 1), 0.0
                continue
            if not pair.none:
                return state.verdict(INCONCLUSIVE)
            if sure:
                return state.verdict(PHASE, phase, grain, penalty)
        # Not by as much as was hoped for; but an estimate is nothing certain, and a burst makes it too large. So the least penalty is
        # measured, against the opposite phase. Where nothing shows, the page may be smaller, and it is measured against all.
        opposite = (phase + grain // 2) % grain
        patience = sys.maxsize if len(compared.phases) == 2 else max(PATIENCE * compared.rounds, LEAST_ROUNDS)
        sure = yield from state.at_least(grain, (phase, opposite), least, patience)
        if sure == 0:
            sure = yield from state.at_least(grain, [phase, *(other for other in compared.phases if other != phase)], least, sys.maxsize)
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


def report_sweep(name: str, verdict: Verdict, min_ratio: float, expected: int, seconds: float, what: str = "read") -> List[str]:
    """The verdict for people. *expected*: the phase by the kernel, -1 where it does not know; *what*: read or write."""
    cost = "%d %ss, %s, %.1f s" % (verdict.reads, what, human(verdict.bytes), seconds)
    if verdict.verdict == PHASE:
        where = "%s: fastest at offset %d of %s" % (name, verdict.phase, human(verdict.grain))
        lines = ["%s; elsewhere a %s takes %.2f times as long (%s)" % (where, what, verdict.ratio, cost)]
        if 0 <= expected != verdict.phase:
            lines.append(
                "%s: by the kernel it is offset %d: a layer below is misaligned, or the device lies about its alignment; compare stack_info"
                % (name, expected)
            )
        return lines
    if verdict.verdict == NO_PREFERENCE:
        return ["%s: no offset is faster by a ratio of %g or more, up to a grain of %s (%s)" % (name, min_ratio, human(verdict.grain), cost)]
    if verdict.verdict == CANNOT_TELL:
        return ["%s: cannot tell: no offset is faster, and %s (%s)" % (name, verdict.why, cost)]
    known = "; a penalty of %g or more is excluded" % verdict.excluded if verdict.excluded else ""
    return ["%s: inconclusive, %s%s (%s); allow more, or measure when it is quieter" % (name, verdict.why, known, cost)]
