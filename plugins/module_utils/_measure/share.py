# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of the throughput proof: from rates in pairs of blocks to a share with its interval, and a verdict. Pure.

A pair is one block of the legs and one of the volumes, in an order that is drawn anew for each; its value is the log rate of the volumes
less that of the legs. The interval is Student's t over pairs. It is looked at after every second pair, and the error is
spent over those looks, so that stopping early costs nothing. The derivation is in the guide on throughput.
"""

from __future__ import annotations

import math
import random
from typing import Any, Callable, Dict, Generator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import Link
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import table
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.statistics import spent, t_quantile
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.link_load import is_link_bound, link_loads
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.options import FIRST_LOOK, ShareOptions

LEGS = "legs"
VOLUMES = "volumes"
# The order of a pair is drawn: a fixed one, whichever, resonates with a load that comes and goes in its time.
PAIRS = ((LEGS, VOLUMES), (VOLUMES, LEGS))
TURN = 2  # pairs from look to look
# Pairs before the first look are FIRST_LOOK. With a stored baseline two blocks of the volumes are one value.
FIRST_LOOK_APART = 3
ONE_CPU = 0.9  # a job that takes more than this of a CPU is held up by it
UNEVEN = 0.8  # a leg below this share of the fastest is named

Links = Mapping[str, Sequence[Link]]  # of the legs, by name


class Block(NamedTuple):
    """One run: bytes per second and I/Os per second of one side, by device too, and what the CPUs did meanwhile (shares)."""

    rate: float
    iops: float = 0.0
    busy: float = 0.0  # of all CPUs of the host
    busiest: float = 0.0  # of one CPU, by the busiest job
    rates: Tuple[Tuple[str, float], ...] = ()


class Share(NamedTuple):
    """Stack divided by raw, with the bounds of its interval."""

    share: float
    low: float
    high: float

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


class JobShare(NamedTuple):
    """The result of one job. Rates are means over its blocks, in bytes per second. A *share* of None: too few blocks for one."""

    share: Optional[Share]
    stack: float
    raw: float
    stack_iops: float
    raw_iops: float
    blocks: int
    verdict: str
    why: str
    cpu: float
    rates: Tuple[Tuple[str, float], ...]  # of the raw legs
    raw_blocks: Tuple[float, ...]  # for a baseline


# It asks for a block of one side, is sent it (None: the budget is spent), and returns what it found.
Measuring = Generator[str, Optional[Block], JobShare]


def _moments(values: Sequence[float]) -> Tuple[float, float]:
    """Mean, and the squared standard error of the mean."""
    mean = math.fsum(values) / len(values)
    return mean, math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values)


def interval(logs: Sequence[float], error: float) -> Share:
    """The share from log shares, two or more, with Student's interval."""
    mean, square = _moments(logs)
    return _bounds(mean, t_quantile(error / 2, len(logs) - 1) * math.sqrt(square))


def interval_apart(volumes: Sequence[float], raw: Sequence[float], error: float) -> Share:
    """The share from log rates that were not measured side by side (a stored baseline), with Welch's interval (1947)."""
    (mean, square), (base, base_square) = _moments(volumes), _moments(raw)
    total = square + base_square
    freedom = total * total / (square * square / (len(volumes) - 1) + base_square * base_square / (len(raw) - 1)) if total else 1.0
    return _bounds(mean - base, t_quantile(error / 2, freedom) * math.sqrt(total))


def _bounds(mean: float, half: float) -> Share:
    return Share(math.exp(mean), math.exp(mean - half), math.exp(min(mean + half, 700.0)))


def judge_share(share: Share, min_share: float) -> str:
    """Certainly enough, certainly too little, or neither."""
    if share.low >= min_share:
        return PASS
    return FAIL if share.high < min_share else INCONCLUSIVE


def blocks_of_turn(baseline: Sequence[float]) -> int:
    """Blocks from one look to the next."""
    return 2 if baseline else 2 * TURN


def measure_share(options: ShareOptions, baseline: Sequence[float] = (), dice: Optional[random.Random] = None) -> Measuring:
    """Ask for blocks until the interval is as narrow as wanted and the share is certain, or the budget is spent.

    *baseline*: rates of raw blocks to be used instead of loading the legs. *dice* draw the orders.
    """
    toss = dice or random.Random()
    sides: Dict[str, List[Block]] = {LEGS: [], VOLUMES: []}
    logs: List[float] = []
    share: Optional[Share] = None
    first, step = (FIRST_LOOK_APART, 1) if baseline else (FIRST_LOOK, TURN)
    if baseline and (len(baseline) < 2 or min(baseline) <= 0):
        return _outcome(options, sides, None, baseline, "", "the baseline has no two blocks with a rate; measure it again")
    while True:
        rates: Dict[str, float] = {LEGS: 0.0, VOLUMES: 0.0}
        for side in (VOLUMES, VOLUMES) if baseline else toss.choice(PAIRS):
            block = yield side
            if block is None:
                return _outcome(options, sides, share, baseline, "the budget was spent")
            sides[side].append(block)
            if block.rate <= 0:
                return _outcome(options, sides, share, baseline, "", "nothing was completed in a block of the %s; look at what holds them up" % side)
            rates[side] += math.log(block.rate)
        logs.append(rates[VOLUMES] / 2 if baseline else rates[VOLUMES] - rates[LEGS])
        if len(logs) < first or (len(logs) - first) % step:
            continue
        error = spent(options.error, (len(logs) - first) // step + 1)
        share = interval_apart(logs, [math.log(rate) for rate in baseline], error) if baseline else interval(logs, error)
        if share.half <= options.precision and judge_share(share, options.min_share) != INCONCLUSIVE:
            return _outcome(options, sides, share, baseline, "")


def _outcome(options: ShareOptions, sides: Dict[str, List[Block]], share: Optional[Share], baseline: Sequence[float], budget: str, fault: str = "") -> JobShare:
    """The result. *budget*: what ended the measurement; *fault*: why no verdict may be made of it."""
    blocks = sides[LEGS] + sides[VOLUMES]
    fewest = 2 * (FIRST_LOOK_APART if baseline else FIRST_LOOK)
    too_few = "%s after %d blocks; %d are the fewest that give an interval" % (budget, len(blocks), fewest)
    verdict, why = (INCONCLUSIVE, fault) if fault else _verdict(options, blocks, share, too_few, budget)
    raw = sides[LEGS]
    return JobShare(
        share=share,
        stack=_mean([block.rate for block in sides[VOLUMES]]),
        raw=_mean([block.rate for block in raw] or list(baseline)),
        stack_iops=_mean([block.iops for block in sides[VOLUMES]]),
        raw_iops=_mean([block.iops for block in raw]),
        blocks=len(blocks),
        verdict=verdict,
        why=why,
        cpu=_mean([block.busy for block in blocks]),
        rates=_mean_rates(raw),
        raw_blocks=tuple(block.rate for block in raw),
    )


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _mean_rates(blocks: Sequence[Block]) -> Tuple[Tuple[str, float], ...]:
    names = [name for name, _rate in blocks[0].rates] if blocks else []
    return tuple((name, _mean([dict(block.rates).get(name, 0.0) for block in blocks])) for name in names)


def _verdict(options: ShareOptions, blocks: Sequence[Block], share: Optional[Share], too_few: str, budget: str) -> Tuple[str, str]:
    """The verdict, and what decided it, or why it is neither pass nor fail. A busy CPU decides first: it may be what was measured."""
    busy, busiest = _mean([block.busy for block in blocks]), _mean([block.busiest for block in blocks])
    if busy > options.max_cpu:
        return INCONCLUSIVE, "the CPUs were %.0f %% busy (more than %.0f %%): they, and not the storage, may have been measured" % (
            100 * busy,
            100 * options.max_cpu,
        )
    if busiest > ONE_CPU:
        return INCONCLUSIVE, "fio's busiest job took %.0f %% of a CPU: it, and not the storage, may have been measured" % (100 * busiest)
    if share is None:
        return INCONCLUSIVE, too_few
    shown = "a share of %.3f (%.3f to %.3f)" % share
    verdict = judge_share(share, options.min_share)
    if verdict == INCONCLUSIVE:
        return verdict, "%s is neither certainly above nor certainly below %.2f, and %s" % (shown, options.min_share, budget)
    return verdict, "%s is certainly %s %.2f" % (shown, "at least" if verdict == PASS else "below", options.min_share)


def slow_legs(rates: Sequence[Tuple[str, float]]) -> List[str]:
    """A line for each leg that is much slower than the fastest: a stripe is as fast as its slowest leg times their number."""
    best = max((rate for _name, rate in rates), default=0.0)
    return ["%s alone gave %.1f MiB/s, the fastest leg %.1f" % (name, rate / MIB, best / MIB) for name, rate in rates if rate < UNEVEN * best]


def report_throughput(name: str, results: Sequence[Tuple[str, JobShare]], notes: Sequence[str], links: Links) -> List[str]:
    """The result for people: a table of jobs, then what held each up and what decided it, then notes."""
    rows: List[Sequence[str]] = [("job", "stack MiB/s", "raw MiB/s", "share", "interval", "blocks", "verdict")]
    for job, result in results:
        share, bounds = ("%.3f" % result.share.share, "%.3f to %.3f" % (result.share.low, result.share.high)) if result.share else ("-", "-")
        rows.append((job, "%.1f" % (result.stack / MIB), "%.1f" % (result.raw / MIB), share, bounds, str(result.blocks), result.verdict))
    lines = ["%s against its legs, burst rates, not steady state" % name] + ["  " + line for line in table(rows)]
    for job, result in results:
        lines += ["  %s: %s" % (job, load.text) for load in link_loads(job, result.rates, links) if load.text]
        lines.append("  %s: %s" % (job, result.why))
        lines += ["  %s: %s" % (job, line) for line in slow_legs(result.rates)]
    return lines + ["  " + note for note in notes]


def throughput_as_dict(name: str, result: JobShare, links: Links) -> Dict[str, Any]:
    """One job as a module returns it."""
    share = result.share
    loads = link_loads(name, result.rates, links)
    return {
        "name": name,
        "verdict": result.verdict,
        "why": result.why,
        "share": _round(share.share if share else None),
        "low": _round(share.low if share else None),
        "high": _round(share.high if share else None),
        "stack_mib_s": round(result.stack / MIB, 2),
        "raw_mib_s": round(result.raw / MIB, 2),
        "stack_iops": round(result.stack_iops, 1),
        "raw_iops": round(result.raw_iops, 1),
        "blocks": result.blocks,
        "cpu_busy": round(result.cpu, 3),
        "legs": [{"device": leg, "raw_mib_s": round(rate / MIB, 2)} for leg, rate in result.rates],
        "links": [load.as_dict() for load in loads],
        "link_bound": is_link_bound(loads),
    }


def _round(value: Optional[float]) -> Optional[float]:
    return None if value is None or value > 1e6 else round(value, 4)


def drive(measuring: Measuring, run: Callable[[str], Optional[Block]]) -> JobShare:
    """Answer a measurement's requests with *run* until it has its result."""
    try:
        side = next(measuring)
        while True:
            side = measuring.send(run(side))
    except StopIteration as done:
        result: JobShare = done.value
        return result
