# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of a drive is to stay unused, for a write amplification, a life, or a latency. Pure.

A reserve r of the capacity and hidden space h make ratio = (1 + h) / (1 - r). What is written in sequence is not amplified. The theory is that of
uniform random writes and greedy collection; a latency has none, and is measured at a few reserves.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import amplification_at, ratio_for

USUAL_HIDDEN = 0.07
MOST_RESERVED = 0.5
MOST_RUNS = 4
_NEAR = 0.02  # reserves that differ by less are one
_DAYS = 365.25
_ANY_AMPLIFICATION = 1e9  # where so much is allowed, no reserve is needed


class Workload(NamedTuple):
    """*writes_per_day* in capacities of the whole drive; *random*: the share of the bytes at random places, 0 to 1."""

    writes_per_day: float = 1.0
    random: float = 1.0


EVERYTHING_RANDOM = Workload()


class Reserve(NamedTuple):
    """A share of the capacity, and the write amplification of all writes that is expected with it."""

    share: float
    amplification: float


def expected_amplification(share: float, hidden: float, workload: Workload, block_pages: Optional[int] = None) -> float:
    """Of all writes, with this reserve."""
    _check(hidden, workload)
    if not 0 <= share < 1:
        raise PlumblineError("a reserve of %g; wanted 0 or more, and less than 1" % share)
    if workload.random == 0:
        return 1.0
    return 1 + workload.random * (amplification_at((1 + hidden) / (1 - share), block_pages) - 1)


def reserve_for_amplification(amplification: float, hidden: float = USUAL_HIDDEN, workload: Workload = EVERYTHING_RANDOM) -> Reserve:
    """The smallest reserve with which all writes are amplified by *amplification* at most. Raises PlumblineError where more than half would have to go."""
    _check(hidden, workload)
    if workload.random == 0 and amplification >= 1:
        return Reserve(0.0, 1.0)
    if not 1 < amplification < math.inf:
        raise PlumblineError("wa: %g; wanted a number above 1: less than what the host writes cannot be written" % amplification)
    return _reserve(amplification, hidden, workload, "wa: %g needs" % amplification)


def _reserve(amplification: float, hidden: float, workload: Workload, subject: str) -> Reserve:
    if workload.random == 0:
        return Reserve(0.0, 1.0)
    share = max(1 - (1 + hidden) / ratio_for(min(1 + (amplification - 1) / workload.random, _ANY_AMPLIFICATION)), 0.0)
    if share > MOST_RESERVED:
        text = "%s a reserve of %.0f %%; at most %.0f %% are sensible; buy a larger drive"
        raise PlumblineError(text % (subject, 100 * share, 100 * MOST_RESERVED))
    return Reserve(share, expected_amplification(share, hidden, workload))


def reserve_for_years(years: float, cycles: float, hidden: float = USUAL_HIDDEN, workload: Workload = EVERYTHING_RANDOM) -> Reserve:
    """The smallest reserve with which the flash lasts so long. *cycles*: bytes that the flash takes, in capacities of the drive.

    Raises PlumblineError where it would not last so long even without amplification, or where more than half would have to go.
    """
    _check(hidden, workload)
    if not 0 < years < math.inf or not 0 < cycles < math.inf:
        raise PlumblineError("years: %g with %g cycles; wanted numbers above 0" % (years, cycles))
    if workload.writes_per_day == 0:
        return Reserve(0.0, 1.0)
    allowed = min(cycles / (years * _DAYS * workload.writes_per_day), _ANY_AMPLIFICATION)
    if allowed < 1 or (allowed == 1 and workload.random > 0):
        raise PlumblineError(
            "years: %g with %g writes a day need %.0f cycles even without amplification; the drive has %.0f"
            % (years, workload.writes_per_day, cycles / allowed, cycles)
        )
    text = "years: %g with %g writes a day allow a write amplification of %.3g, which needs"
    return _reserve(allowed, hidden, workload, text % (years, workload.writes_per_day, allowed))


def _check(hidden: float, workload: Workload) -> None:
    if not 0 <= hidden < math.inf:
        raise PlumblineError("hidden: %g; wanted a share of the capacity, 0 or more" % hidden)
    if not 0 <= workload.random <= 1:
        raise PlumblineError("workload: random: %g; wanted 0 to 1" % workload.random)
    if not 0 <= workload.writes_per_day < math.inf:
        raise PlumblineError("workload: writes_per_day: %g; wanted 0 or more" % workload.writes_per_day)


class ReservePlan(NamedTuple):
    """*measure*: the reserve that is to be measured next; or None, and then *answer* is the reserve, or None where none was found to be enough."""

    measure: Optional[float]
    answer: Optional[float]
    why: str


def plan_runs(target: float, results: Sequence[Tuple[float, float]], begin: float = 0.2, most_runs: int = MOST_RUNS) -> ReservePlan:
    """What to do next, for a figure of at most *target*, such as a 99th percentile, given (reserve, figure) of the runs so far.

    First *begin* and a half of it, or halfway to the largest reserve where *begin* was not enough; then bisection, *most_runs* at most. A reserve
    counts as enough if every larger one that was measured is so as well. What is not between 0 and the largest reserve is pulled there.
    """
    if not 0 < target < math.inf or any(not 0 <= share <= MOST_RESERVED for share, _figure in results) or not math.isfinite(begin):
        raise PlumblineError("target: wanted a number above 0, and reserves of 0 to %.0f %%" % (100 * MOST_RESERVED))
    begin = min(max(begin, 0.0), MOST_RESERVED)
    # A figure that is no number was not measured: it holds nothing.
    failed = [share for share, figure in results if not 0 < figure <= target]
    most_failed = max(failed) if failed else None
    enough = [share for share, _figure in results if most_failed is None or share > most_failed]
    best = min(enough) if enough else None
    low, high = (0.0 if most_failed is None else most_failed), (MOST_RESERVED if best is None else best)
    if not results:
        return ReservePlan(begin, None, "the first run")
    if best is not None and (best == 0 or (most_failed is not None and high - low <= _NEAR)):
        return ReservePlan(None, best, "%.1f %% are enough%s" % (100 * best, "" if best == 0 else ", and %.1f %% are not" % (100 * low)))
    if len(results) >= most_runs:
        return ReservePlan(None, best, "%.1f %% are enough" % (100 * best) if best is not None else "%.1f %% are not enough" % (100 * low))
    if best is None and MOST_RESERVED - low <= _NEAR:
        return ReservePlan(None, None, "%.1f %% are not enough, and more is not sensible" % (100 * low))
    if most_failed is None and high <= _NEAR:
        return ReservePlan(0.0, None, "without a reserve")
    return ReservePlan(round((low + high) / 2, 4), None, "between %.1f and %.1f %%" % (100 * low, 100 * high))
