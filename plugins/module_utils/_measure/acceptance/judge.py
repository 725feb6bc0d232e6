# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of an acceptance: from the rates of blocks to a verdict on each cell, and on the drive. Pure.

A cell is measured in rounds that are spread over the whole time, with the other cells between them. One round is one value, the log
of its rate; beside an incumbent it is four blocks, A B B A or B A A B, and the log of A's rate less that of B's, so that what both have
in common falls out, and what changes steadily does too. The intervals are Student's over rounds, so a round may be as noisy as it likes within.

Few rounds of a drive that has two rates may all be alike by chance, and their scatter then hides that it has two. So beside an incumbent each round
is halved, A B and B A: the scatter of the halves shows it. The mean is the same, and of the two intervals the wider counts.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import number_text, table
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS, worst
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import AS_FOUND, BY_NAME, STEADY, Cell
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import MOST, Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import report_rows
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.latency import merge_bins, percentiles_us
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.share import ONE_CPU, Share, interval, interval_apart, judge_share

LEAST_OF_DRIVE = 0.9  # of an incumbent's rate
LEAST_OF_FLOOR = 1.0
ERROR = 0.05  # the probability that the interval of a cell misses
_MANY = 1e6  # a bound above that counts as no bound
_TURNS = 2  # of the requests outstanding, in each block: fewer do not show a rate

BLANK = "%s holds nothing; reads of trimmed blocks say nothing of the flash"
NOTHING = "there is nothing to compare it with"
NOTHING_AT_ALL = "there is nothing to compare the drive with; give an incumbent, a record, floors or a workload"


class ReadBlock(NamedTuple):
    """One block: its rate in the unit of its cell, requests by latency in ns, and what the CPUs did meanwhile (shares)."""

    rate: float
    bins: Mapping[int, int] = {}
    busy: float = 0.0  # of all CPUs of the host
    busiest: float = 0.0  # of one CPU, by fio's job


class CellRound(NamedTuple):
    """What one round gave: the blocks of the drive, and as many of the incumbent, where there is one."""

    own: Tuple[ReadBlock, ...]
    base: Tuple[ReadBlock, ...] = ()


class Against(NamedTuple):
    """A cell against one thing: its rate is *ratio* times *base*, which has to be *least*."""

    against: str
    ratio: Share
    base: float
    least: float
    verdict: str
    why: str


class CellFound(NamedTuple):
    """The result of a cell. *compared*: the comparison that decided it."""

    cell: Cell
    rounds: Tuple[CellRound, ...]
    rate: Share  # in the cell's unit
    required: bool
    verdict: str
    why: str
    compared: Optional[Against]


class Sampled(NamedTuple):
    """A side of the comparison: its name, and the share of sampled blocks that read as blank."""

    name: str = ""
    blank: float = 0.0


def _log(blocks: Sequence[ReadBlock]) -> float:
    return math.fsum(math.log(block.rate) for block in blocks) / len(blocks)


def _mean(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


def _compare(against: str, ratio: Share, base: float, least: float, held_up: str) -> Against:
    """*held_up*: what may have been measured in place of the drives. A floor that is reached is reached all the same."""
    verdict = judge_share(ratio, least)
    shown = "%.3f (%.3f to %.3f) of %s" % (ratio.share, ratio.low, min(ratio.high, _MANY), against)
    if held_up and not (verdict == PASS and least == LEAST_OF_FLOOR):
        return Against(against, ratio, base, least, INCONCLUSIVE, "%s; %s" % (shown, held_up))
    words = {PASS: "at least", FAIL: "certainly below", INCONCLUSIVE: "neither certainly above nor certainly below"}[verdict]
    return Against(against, ratio, base, least, verdict, "%s: %s %g" % (shown, words, least))


def _beside(rounds: Sequence[CellRound]) -> Share:
    """The ratio to an incumbent that was measured in turns: by whole rounds, and by halves of them, whichever says less."""
    whole = interval([_log(cell_round.own) - _log(cell_round.base) for cell_round in rounds], ERROR)
    halves = interval([math.log(mine.rate) - math.log(other.rate) for cell_round in rounds for mine, other in zip(cell_round.own, cell_round.base)], ERROR)
    return Share(whole.share, min(whole.low, halves.low), max(whole.high, halves.high))


def _held_up(reads: Sequence[ReadBlock], max_cpu: float) -> str:
    """What held the load up, if it was not the drive. Empty where it was."""
    busy = math.fsum(read.busy for read in reads) / len(reads)
    busiest = math.fsum(read.busiest for read in reads) / len(reads)
    if busy > max_cpu:
        return "the CPUs were %.0f %% busy (more than %.0f %%): they, and not the drive, may have been measured" % (100 * busy, 100 * max_cpu)
    if busiest > ONE_CPU:
        return "fio took %.0f %% of a CPU: it, and not the drive, may have been measured" % (100 * busiest)
    return ""


def _comparisons(cell: Cell, rounds: Sequence[CellRound], options: Options, incumbent: Sampled) -> List[Against]:
    """The cell against each thing that there is for it."""
    logs = [_log(cell_round.own) for cell_round in rounds]
    held_up = _held_up([read for cell_round in rounds for read in (*cell_round.own, *cell_round.base)], options.max_cpu)
    comparisons = []
    if rounds[0].base:
        base = [_log(cell_round.base) for cell_round in rounds]
        ratio = _beside(rounds)
        comparisons.append(_compare("incumbent " + incumbent.name, ratio, _mean(base), LEAST_OF_DRIVE, held_up))
    if cell.name in options.former.rates:
        base = [math.log(rate) for rate in options.former.rates[cell.name]]
        comparisons.append(_compare(options.former.of, interval_apart(logs, base, ERROR), _mean(base), LEAST_OF_DRIVE, held_up))
    floors = [("floor", options.floors[cell.name])] if cell.name in options.floors else []
    floors += [("workload of " + demand.text, demand.floor) for demand in options.demands if demand.cell == cell.name]
    for against, floor in floors:
        comparisons.append(_compare(against, interval([log - math.log(floor) for log in logs], ERROR), floor, LEAST_OF_FLOOR, held_up))
    return comparisons


def judge_cell(cell: Cell, rounds: Sequence[CellRound], options: Options, drive: Sampled, incumbent: Sampled) -> CellFound:
    """One cell of the drive. Against several things the worst verdict counts, and of equal ones the first."""
    rate = interval([_log(cell_round.own) for cell_round in rounds], ERROR)
    compared = _comparisons(cell, rounds, options, incumbent)
    required = cell.name in options.required or cell.name in [demand.cell for demand in options.demands] or (bool(compared) and not options.required)
    if not compared:
        return CellFound(cell, tuple(rounds), rate, required, INCONCLUSIVE, NOTHING, None)
    verdict = worst([comparison.verdict for comparison in compared])
    decisive = next(comparison for comparison in compared if comparison.verdict == verdict)
    obstacles = [BLANK % ("the %s" % what) for what, side in (("drive", drive), ("incumbent", incumbent)) if side.blank > MOST and not cell.writes]
    obstacles += _too_few(cell, rounds)
    if obstacles:
        return CellFound(cell, tuple(rounds), rate, required, INCONCLUSIVE, obstacles[0], decisive)
    return CellFound(cell, tuple(rounds), rate, required, verdict, decisive.why, decisive)


def _too_few(cell: Cell, rounds: Sequence[CellRound]) -> List[str]:
    """Whether a block has answered too few requests: with most of them begun before it, or answered after it, its rate is one of its edges."""
    counts = [sum(read.bins.values()) for cell_round in rounds for read in (*cell_round.own, *cell_round.base) if read.bins]
    if not counts or min(counts) >= _TURNS * cell.depth:
        return []
    text = "a block answered %d requests; wanted %d for %d outstanding ones: give it longer blocks (block_seconds)"
    return [text % (min(counts), _TURNS * cell.depth, cell.depth)]


def judge_cells(results: Sequence[CellFound]) -> Tuple[str, List[str]]:
    """The verdict on the drive, by its required cells alone, and a reason for each that did not pass. Cells with one reason share a line."""
    required = [result for result in results if result.required]
    if not required:
        return INCONCLUSIVE, [NOTHING_AT_ALL]
    by_reason: Dict[str, List[str]] = {}
    for result in required:
        if result.verdict != PASS:
            by_reason.setdefault(result.why, []).append(result.cell.name)
    return worst([result.verdict for result in required]), ["%s: %s" % (", ".join(names), why) for why, names in by_reason.items()]


def block_rate(cell: Cell, text: str, seconds: float) -> float:
    """The rate of one block from fio's report, in the unit of the cell.

    At the end fio waits for what is outstanding. It counts that time and not those requests: of a drive that does 125 requests per second
    it reports 53 at depth 256 in 1.5 s (fio 3.33). So the time that was asked for counts, but alone where one request is outstanding.
    """
    try:
        sides = [report_rows(text)[0][side] for side in cell.sides]
        spent = max(float(side["runtime"]) for side in sides) / 1000
        rate = sum(int(side["total_ios"]) for side in sides) / (spent if cell.depth == 1 else min(spent, seconds))
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError) as fault:
        raise PlumblineError("fio's report lacks what was expected in it: %r; version 3.0 or newer is wanted" % fault) from fault
    if rate <= 0:
        raise PlumblineError("fio completed no request of %s while it was measured; give it longer blocks (block_seconds)" % cell.name)
    return rate * cell.block / MIB if cell.unit == "MiB/s" else rate


def cell_as_dict(result: CellFound) -> Dict[str, Any]:
    """One cell as the module returns it, and as the report takes it.

    *low* and *high* are those of what is judged: of the ratio to *base*, in the cell's unit. So they lie about *value*, and *wanted* is
    below, above or between them as the verdict says.
    """
    comparison = result.compared
    low, high = (comparison.ratio.low * comparison.base, comparison.ratio.high * comparison.base) if comparison else (result.rate.low, result.rate.high)
    reads = [read for cell_round in result.rounds for read in cell_round.own]
    shares = percentiles_us(merge_bins([read.bins for read in reads]))
    return {
        "name": result.cell.name,
        "verdict": result.verdict,
        "required": result.required,
        "state": result.cell.state,
        "value": _figure(result.rate.share),
        "low": _figure(low),
        "high": _figure(high),
        "wanted": _figure(comparison.base * comparison.least) if comparison else None,
        "unit": result.cell.unit,
        "against": comparison.against if comparison else "",
        "why": result.why,
        "ratio": _ratio(comparison.ratio.share) if comparison else None,
        "ratio_low": _ratio(comparison.ratio.low) if comparison else None,
        "ratio_high": _ratio(comparison.ratio.high) if comparison else None,
        "rates": [_figure(math.exp(_log(cell_round.own))) for cell_round in result.rounds],
        "incumbent_rates": [_figure(math.exp(_log(cell_round.base))) for cell_round in result.rounds if cell_round.base],
        "cpu_busy": round(math.fsum(read.busy for read in reads) / len(reads), 3),
        **{name.replace(".", "") + "_us": None if value is None else round(value, 1) for name, value in shares.items()},
    }


def _figure(value: float) -> Optional[float]:
    """Four digits at least. An interval of few blocks may reach where no number is."""
    return None if value > 1e15 else round(value, 1) if value >= 1000 else float("%.4g" % value)


def _ratio(value: float) -> Optional[float]:
    return None if value > _MANY else round(value, 4)


def steady_rounds(options: Options) -> List[CellRound]:
    """The rounds of a run to the steady state as those of a cell."""
    return [CellRound((ReadBlock(rate),)) for rate in options.steady]


def headrooms(results: Sequence[CellFound], options: Options) -> List[Dict[str, Any]]:
    """How many times the drive carries each demand of the workload, the least first."""
    rounds = {result.cell.name: result.rounds for result in results}
    listed = []
    for demand in options.demands:
        ratio = interval([_log(cell_round.own) - math.log(demand.floor) for cell_round in rounds[demand.cell]], ERROR)
        times = {"headroom": ratio.share, "low": ratio.low, "high": ratio.high}
        listed.append({"cell": demand.cell, "floor": _figure(demand.floor), **{key: _ratio(value) for key, value in times.items()}})
    return sorted(listed, key=lambda load: load["headroom"] or 0.0)


def headroom_line(load: Mapping[str, Any], options: Options) -> str:
    """One headroom in words."""
    (text,) = [demand.text for demand in options.demands if demand.cell == load["cell"]]
    return "headroom: %s is %s times (%s to %s) the %s" % (load["cell"], load["headroom"], load["low"], load["high"], text)


def report_acceptance(name: str, incumbent: Sampled, drive: Sampled, cells: Sequence[Mapping[str, Any]], ending: Sequence[str]) -> List[str]:
    """The result for people: a table of cells, what was read, and what decided it."""
    rows: List[Sequence[str]] = [("cell", "state", "value", "interval", "wanted", "p50 us", "p99 us", "p99.9 us", "verdict", "against")]
    for cell in cells:
        shown = [_shown(cell[key]) for key in ("value", "low", "high", "wanted", "p50_us", "p99_us", "p999_us")]
        verdict = cell["verdict"] if cell["required"] else "(%s)" % cell["verdict"] if cell["against"] else "-"
        rows.append(
            (
                "%s %s" % (cell["name"], BY_NAME[cell["name"]].unit),
                cell["state"],
                shown[0],
                "%s to %s" % (shown[1], shown[2]),
                *shown[3:],
                verdict,
                cell["against"],
            )
        )
    written = any(cell["state"] not in (AS_FOUND, STEADY) for cell in cells)
    lines = [name + (": reads and writes" if written else ": reads of what is on it")] + ["  " + line for line in table(rows)]
    for side in (drive, incumbent):
        if side.name and not written:
            lines.append("  %s: %.0f %% of its sampled blocks read as blank, which a drive may answer without its flash" % (side.name, 100 * side.blank))
    return lines + ["  " + line for line in ending]


def _shown(value: Optional[float]) -> str:
    return "-" if value is None else number_text(value)
