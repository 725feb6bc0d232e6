# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a drive under random load has reached its steady state, from the rounds of the load. Pure.

The standard (SNIA's performance test specification) looks at five rounds: none further apart than a fifth of their mean, and the line of least squares
through them rises or falls by a tenth of it at most. That holds on many drives before garbage collection has begun, and with noise by chance.
Ours wants it of two windows of five beside each other, whose means differ by 3 % at most, with a line through all ten that changes by 5 % at
most, and an interval of the rate that is narrow enough. Where rounds scatter too much for that, neighbours are joined: a round of the windows
is then two, three or more rounds of the load. The interval allows for rounds that are each like the one before, for as much of that as so few
rounds cannot exclude. The windows reach over most of what was written since the fresh space was gone, and all of it has to hold once more a window
later, since a short look at a long series finds some stretch that is flat. So noise makes a run longer, or leaves it inconclusive, and its result
no worse (./plumbline bench steady).

The rate is that of both windows, bytes by seconds. A round that a stall has hit (more than a quarter below the median of the windows) is left
out and counted: it says something of the drive or of its neighbours, but not of what the drive does between stalls.
"""

from __future__ import annotations

import math
from typing import List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.statistics import t_quantile
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS, HOT, Options

STEADY = "steady"
RUNNING = "running"  # more rounds are wanted

ROUND_SHARE = 0.05  # of a fill
WINDOW = 5
_SNIA_RANGE, _SNIA_SLOPE = 0.20, 0.10
_MEANS = 0.03
_SLOPE = 0.05
_FEW, _OF_FEW, _MOST_ALIKE = 30, 16, 0.9  # for correlations
_ERRORS = 4.0  # standard errors of a correlation
_USABLE = 0.65  # of the rounds behind the fresh space, for the windows: a shorter stretch is flat by chance too often
_TAIL = 0.02  # on either side of the interval of the rate
_STALLED = 0.75  # below this share of the median
_STALLED_ROUNDS = 0.2  # with a larger share of such rounds, stalls are how the drive works
_LATENCY_MEANS = _LATENCY_SLOPE = 0.20
_WARMING = 5  # degrees Celsius over both windows


class LoadRound(NamedTuple):
    """The result of one round of the load. Rounds end by bytes: a round is a share of the capacity, however long it takes."""

    bytes: int
    seconds: float
    p99_us: Optional[float] = None
    temperature: Optional[int] = None  # the highest, in degrees Celsius
    p50_us: Optional[float] = None
    p999_us: Optional[float] = None

    @property
    def rate(self) -> float:
        """Bytes per second; 0 for a round that says nothing."""
        rate = self.bytes / self.seconds if self.seconds > 0 and self.bytes > 0 else 0.0
        return rate if math.isfinite(rate) else 0.0


class Steady(NamedTuple):
    """What the rounds say so far. Without a steady state the rate is that of the last ten rounds, and its bounds are None."""

    verdict: str
    why: str
    fills: float
    rate: float
    low: Optional[float] = None
    high: Optional[float] = None
    first: int = 0  # the first round of the windows
    joined: int = 1  # rounds of the load in one of the windows
    stalled: int = 0  # rounds in the windows that were left out


def line_slope(values: Sequence[float]) -> float:
    """The slope of the line of least squares, for each step; 0 for fewer than two values."""
    count = len(values)
    if count < 2:
        return 0.0
    middle = (count - 1) / 2
    square = count * (count * count - 1) / 12
    return math.fsum((number - middle) * value for number, value in enumerate(values)) / square


def snia_holds(values: Sequence[float]) -> bool:
    """The rule of the standard, by the letter, for five rounds."""
    mean = math.fsum(values) / len(values) if values else 0.0
    if len(values) != WINDOW or not mean > 0 or not math.isfinite(mean):
        return False
    return max(values) - min(values) <= _SNIA_RANGE * mean and abs(line_slope(values)) * (WINDOW - 1) <= _SNIA_SLOPE * mean


def windows_agree(values: Sequence[float]) -> bool:
    """Our rule, for ten rounds, but for the interval."""
    early, late = values[:WINDOW], values[WINDOW:]
    if not snia_holds(early) or not snia_holds(late):
        return False
    first, second = math.fsum(early) / WINDOW, math.fsum(late) / WINDOW
    mean = (first + second) / 2
    return abs(first - second) <= _MEANS * mean and abs(line_slope(values)) * (2 * WINDOW - 1) <= _SLOPE * mean


def without_stalls(rounds: Sequence[LoadRound]) -> List[LoadRound]:
    """The rounds that no stall has hit."""
    rates = [load_round.rate for load_round in rounds]
    least = _STALLED * sorted(rates)[len(rates) // 2] if rates else 0.0
    return [load_round for load_round in rounds if load_round.rate >= least and load_round.rate > 0]


def rate_of(rounds: Sequence[LoadRound]) -> float:
    """The rate of all of them together: their bytes divided by their seconds."""
    seconds = math.fsum(load_round.seconds for load_round in rounds if load_round.rate > 0)
    return sum(load_round.bytes for load_round in rounds if load_round.rate > 0) / seconds if seconds > 0 else 0.0


def joined_rates(rounds: Sequence[LoadRound], kept: Sequence[LoadRound], joined: int) -> List[float]:
    """The rates of groups of *joined* neighbours, of the rounds that are kept alone; 0 for a group of which none is kept."""
    chosen = {id(load_round) for load_round in kept}
    return [rate_of([load_round for load_round in rounds[begin : begin + joined] if id(load_round) in chosen]) for begin in range(0, len(rounds), joined)]


def judge_steady(rounds: Sequence[LoadRound], capacity: int, options: Options = DEFAULTS) -> Steady:
    """Look at the rounds of the random load so far, the latest last."""
    fills = sum(max(load_round.bytes, 0) for load_round in rounds) / capacity if capacity > 0 else 0.0
    rate = rate_of(without_stalls(rounds[-2 * WINDOW :]))
    if options.snia:
        if snia_holds([load_round.rate for load_round in rounds[-WINDOW:]]):
            mean = math.fsum(load_round.rate for load_round in rounds[-WINDOW:]) / WINDOW
            return Steady(STEADY, "the rule of the standard holds on the last five rounds", fills, mean, first=len(rounds) - WINDOW)
        why = "the rule of the standard does not hold on the last five rounds"
    else:
        steady, why = _two_windows(rounds, capacity, fills, options)
        if steady is not None and _two_windows(rounds[:-WINDOW], capacity, fills, options)[0] is not None:
            return steady
        why = why or "the rule holds for the first time; it has to hold for a window more"
    if fills >= options.max_fills - 1e-9:
        return Steady(INCONCLUSIVE, "no steady state after %.1f fills: %s" % (fills, why), fills, rate)
    return Steady(RUNNING, why, fills, rate)


def _two_windows(rounds: Sequence[LoadRound], capacity: int, fills: float, options: Options) -> Tuple[Optional[Steady], str]:
    if fills < options.min_fills - 1e-9:
        return None, "%.2f of the %.2f fills that are the least were written" % (fills, options.min_fills)
    usable = _behind_the_fresh_space(rounds, capacity, options)
    why = "fewer than ten rounds were written behind the space that was fresh"
    for joined in range(usable // (2 * WINDOW), math.ceil(_USABLE * usable / (2 * WINDOW)) - 1, -1):
        window = rounds[-2 * WINDOW * joined :]
        kept = without_stalls(window)
        why = _obstacle(window, kept, joined, options)
        if not why:
            return _steady(window, kept, joined, fills, len(rounds)), ""
    return None, why


def _behind_the_fresh_space(rounds: Sequence[LoadRound], capacity: int, options: Options) -> int:
    """How many of the last rounds began when the physical space had been written once, whatever is hidden of it."""
    fresh = max(options.min_fills - 2 * WINDOW * ROUND_SHARE, 0.0) * capacity
    written = 0
    for number, load_round in enumerate(rounds):
        if written >= fresh * (1 - 1e-9):
            return len(rounds) - number
        written += load_round.bytes
    return 0


def correlation(values: Sequence[float]) -> float:
    """The largest lag-1 correlation that the values leave room for, 0 to 0.9: what is found, its bias (Kendall 1954), and some standard errors.

    Fewer than thirty say next to nothing of it. Then it is taken to be 16 divided by their number.
    """
    count = len(values)
    if count < _FEW:
        return min(_OF_FEW / max(count, 1), _MOST_ALIKE)
    mean = math.fsum(values) / count
    square = math.fsum((value - mean) ** 2 for value in values)
    beside = math.fsum((values[number] - mean) * (values[number - 1] - mean) for number in range(1, count))
    measured = beside / square if square > 0 else 0.0
    return min(max(measured + (1 + 4 * measured) / count + _ERRORS / math.sqrt(count), 0.0), _MOST_ALIKE)


def rate_interval(rates: Sequence[float]) -> float:
    """The half of the interval of the mean of some rates, as a share of it: Student's t, for rates that may each be like the one before.

    Rates so correlated count as fewer (Bayley and Hammersley 1946), and scatter less than they would over a long time.
    """
    count = len(rates)
    mean = math.fsum(rates) / count if count > 2 else 0.0
    if not mean > 0:
        return math.inf
    near = correlation(rates)
    effective = max(count * (1 - near) / (1 + near), 1.05)
    square = math.fsum((rate - mean) ** 2 for rate in rates) / (count - 1) / (1 - 1 / effective)
    return t_quantile(_TAIL, count - 1) * math.sqrt(square / effective) / mean


def _obstacle(window: Sequence[LoadRound], kept: Sequence[LoadRound], joined: int, options: Options) -> str:
    """Why these windows show no steady state; empty if they do."""
    stalled = len(window) - len(kept)
    if stalled > _STALLED_ROUNDS * len(window):
        return "%d of %d rounds were stalled" % (stalled, len(window))
    if not windows_agree(joined_rates(window, kept, joined)):
        return "the last two windows of five rounds do not agree" + (" (%d rounds of the load each)" % joined if joined > 1 else "")
    half = rate_interval([load_round.rate for load_round in kept])
    if half > options.precision:
        return "the rate is known to %.1f %% only; wanted %.1f %%" % (100 * half, 100 * options.precision)
    return _too_warm(window, options.hot or HOT) or (_restless_latency(window, joined) if options.latency else "")


def _too_warm(window: Sequence[LoadRound], limit: int) -> str:
    """Whether the drive may have slowed itself down. A drive that names no temperature cannot be asked."""
    seen = [load_round.temperature for load_round in window if load_round.temperature is not None]
    if not seen:
        return ""
    if max(seen) >= limit:
        return "it was at %d degrees Celsius, and may slow itself down from %d; look at the air flow" % (max(seen), limit)
    if seen[-1] - seen[0] > _WARMING:
        return "it is still warming up (%d to %d degrees Celsius)" % (seen[0], seen[-1])
    return ""


def _restless_latency(window: Sequence[LoadRound], joined: int) -> str:
    """Whether the 99th percentile still moves. It scatters more than the rate: the medians of both windows are compared, and a line through the ten."""
    tails = [max((load_round.p99_us or 0.0 for load_round in window[begin : begin + joined]), default=0.0) for begin in range(0, len(window), joined)]
    if min(tails) <= 0:
        return "the 99th percentile of a round is not known"
    first, second = sorted(tails[:WINDOW])[WINDOW // 2], sorted(tails[WINDOW:])[WINDOW // 2]
    mean = math.fsum(tails) / len(tails)
    if abs(first - second) > _LATENCY_MEANS * mean or abs(line_slope(tails)) * (2 * WINDOW - 1) > _LATENCY_SLOPE * mean:
        return "the 99th percentile still moves (%.0f and %.0f us)" % (first, second)
    return ""


def _steady(window: Sequence[LoadRound], kept: Sequence[LoadRound], joined: int, fills: float, count: int) -> Steady:
    rate, half = rate_of(kept), rate_interval([load_round.rate for load_round in kept])
    why = "two windows of five agree within the rule, and the rate is known to %.1f %%" % (100 * half)
    return Steady(STEADY, why, fills, rate, rate * (1 - half), rate * (1 + half), count - len(window), joined, len(window) - len(kept))
