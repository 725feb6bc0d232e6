# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Synchronous writes as PostgreSQL's pg_test_fsync makes them: the rows, their figures, the verdict, the report. Pure.

The rows, their order, titles, sizes, offsets and open flags are those of pg_test_fsync (PostgreSQL 9.2 to 18 are alike
in them), so that its users find their table again. Percentiles and intervals are ours; the guide on sync latency has
the formulas.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _honesty
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._honesty import State, Times, time_of
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import KIB, MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._statistics import poisson_bounds, spent, t_quantile
from ansible_collections.plumbline.ssd.plugins.module_utils._verdict import FAIL, INCONCLUSIVE, PASS

# One WAL segment, written before anything is measured: the rows then overwrite, as they do in a recycled segment.
FILE_BYTES = 16 * MIB
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


class Row(NamedTuple):
    """One line of the table: what one operation of it does."""

    name: str  # in options and results
    group: int
    title: str  # in the table
    write: int  # bytes of one write; writes follow each other from the file's first byte
    times: int  # writes of one operation
    flag: int = 0  # O_DSYNC or O_SYNC, and with it O_DIRECT; 0: through the page cache
    sync: str = ""  # fdatasync, fsync or sync_file_range after the writes; fsync_close and close_fsync with a descriptor of its own


HEADINGS = (
    "Compare file sync methods using one 8kB write:",
    "Compare file sync methods using two 8kB writes:",
    "Compare open_sync with different write sizes (16kB in all):",
    "Test if fsync on non-write file descriptor is honored:",
    "Non-sync'ed 8kB writes:",
)


def _methods(group: int, suffix: str, count: int) -> Tuple[Row, ...]:
    return (
        Row("open_datasync" + suffix, group, "open_datasync", 8 * KIB, count, flag=os.O_DSYNC),
        Row("fdatasync" + suffix, group, "fdatasync", 8 * KIB, count, sync="fdatasync"),
        Row("fsync" + suffix, group, "fsync", 8 * KIB, count, sync="fsync"),
        Row("open_sync" + suffix, group, "open_sync", 8 * KIB, count, flag=os.O_SYNC),
    )


def _cut(count: int) -> Row:
    size = 16 // count
    return Row("open_sync_%dx%dk" % (count, size), 2, "%2d * %2dkB open_sync write%s" % (count, size, "s"[: count - 1]), size * KIB, count, flag=os.O_SYNC)


ROWS = (
    *_methods(0, "", 1),
    *_methods(1, "_2", 2),
    *(_cut(count) for count in (1, 2, 4, 8, 16)),
    Row("write_fsync_close", 3, "write, fsync, close", 8 * KIB, 1, sync="fsync_close"),
    Row("write_close_fsync", 3, "write, close, fsync", 8 * KIB, 1, sync="close_fsync"),
    Row("write", 4, "write", 8 * KIB, 1),
)

# What the write cache's two states are compared by, beside the row fdatasync. pg_test_fsync has no such rows. A write past the page cache
# and no flush behind it: without the drive's cache it is the plain durable write. And all that fdatasync does but its flush.
DIRECT = Row("direct_write", 4, "write, O_DIRECT", 8 * KIB, 1, flag=os.O_DIRECT)
WRITTEN = Row("write_sync_file_range", 4, "write, sync_file_range", 8 * KIB, 1, sync="sync_file_range")
_COMPARED = ("fdatasync",)


# What the module takes beside its target.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "rows": {"type": "list", "elements": "str"},
    "seconds": {"type": "float", "default": 1},
    "max_seconds": {"type": "float", "default": 120},
    "min_ops": {"type": "dict", "default": {}},
    "max_p99_ms": {"type": "dict", "default": {}},
    "cache_states": {"type": "bool", "default": False},
}


class Options(NamedTuple):
    """What is asked. *seconds* per row, *max_seconds* for all; thresholds by the name of a row."""

    rows: Tuple[Row, ...] = ROWS
    seconds: float = 1.0
    max_seconds: float = 120.0
    min_ops: Mapping[str, float] = {}
    max_p99_ms: Mapping[str, float] = {}


def read_options(params: Mapping[str, Any]) -> Options:
    """The options from a module's parameters. Raises PlumblineError for one that makes no sense."""
    for word, low, high in (("seconds", 0.1, 60.0), ("max_seconds", 1.0, 3600.0)):
        if not low <= params[word] <= high:
            raise PlumblineError("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    known = {row.name: row for row in ROWS}
    asked = list(known) if params["rows"] is None else params["rows"]
    for name in asked:
        if name not in known:
            raise PlumblineError("rows: there is no row '%s'%s; the rows are %s" % (name, nearest(name, known), ", ".join(known)))
    if not asked:
        raise PlumblineError("rows: the list is empty; wanted at least one of %s" % ", ".join(known))
    rows = tuple(row for row in ROWS if row.name in asked)
    if len(rows) * params["seconds"] > params["max_seconds"]:
        raise PlumblineError(
            "max_seconds: %g; wanted at least %g, which %d rows of %g s take; ask for fewer rows, or for less time each"
            % (params["max_seconds"], len(rows) * params["seconds"], len(rows), params["seconds"])
        )
    names = [row.name for row in rows]
    options = Options(rows, params["seconds"], params["max_seconds"], _limits(params, "min_ops", names), _limits(params, "max_p99_ms", names))
    if params["cache_states"]:
        for_states(options, True)  # whether the time is enough for the rows that are measured besides
    return options


def for_states(options: Options, original: bool) -> Options:
    """The options for one of the write cache's two states: with the rows that the comparison needs. Thresholds are for the original one.

    Raises PlumblineError where the time for all of them is not enough.
    """
    names = [row.name for row in options.rows]
    rows = (*(row for row in ROWS if row.name in (*names, *_COMPARED)), DIRECT, WRITTEN)
    if len(rows) * options.seconds > options.max_seconds:
        raise PlumblineError(
            "max_seconds: %g; wanted at least %g for each state of the write cache, which %d rows of %g s take: cache_states measures %s as well; "
            "ask for fewer rows, or for less time each"
            % (options.max_seconds, len(rows) * options.seconds, len(rows), options.seconds, ", ".join((*_COMPARED, DIRECT.name, WRITTEN.name)))
        )
    return options._replace(rows=rows) if original else options._replace(rows=rows, min_ops={}, max_p99_ms={})


def asked(measured: Measured, options: Options) -> Measured:
    """Of what was measured the rows that were asked for."""
    return [(row, samples) for row, samples in measured if row in options.rows]


def compare_states(on: Measured, off: Measured, protected: Optional[bool]) -> Tuple[Dict[str, Any], List[str]]:
    """Both states of the write cache side by side: what the module returns of them, and the lines of its report."""
    states = [{row.name: State(samples.ops, samples.rate, samples.rate_error()) for row, samples in measured} for measured in (on, off)]
    with_cache = [time_of(states[0], row) for row in ("fdatasync", WRITTEN.name, DIRECT.name)]
    times = Times(with_cache[0], with_cache[1], with_cache[2], time_of(states[1], DIRECT.name))
    found = _honesty.judge(times, protected)
    returned = {
        "on": [figures(row, samples) for row, samples in on],
        "off": [figures(row, samples) for row, samples in off],
        "collapse": _honesty.collapse(*states),
        "honesty": found.as_dict(),
    }
    return returned, _honesty.report([row.name for row, _samples in on], states[0], states[1], found)


def with_flushes(found: Mapping[str, Any], honesty: Mapping[str, Any], relies: bool, protected: bool) -> Tuple[Dict[str, Any], List[str]]:
    """The result with what was found of the flushes, and the warnings. Drives that seem to ignore them fail it where the volume relies on them
    (*relies*) and nobody says that they need none (*protected*). No threshold on speed can pass that: such drives are fast.
    """
    if honesty["class"] != _honesty.IGNORES:
        return dict(found), []
    text = "the drives seem to ignore flushes: %s" % honesty["text"]
    if protected or not relies:
        return dict(found), [text]
    reason = text + "; state power_loss_protection if they have it"
    reasons = [*found["reasons"], reason] if found["verdict"] == FAIL else [reason]
    return dict(found, verdict=FAIL, reasons=reasons, report=[*found["report"], "%s: %s" % (FAIL, reason)]), []


def _limits(params: Mapping[str, Any], option: str, names: Sequence[str]) -> Dict[str, float]:
    """The thresholds of one option, by row."""
    limits: Dict[str, float] = {}
    for name, value in params[option].items():
        if name not in names:
            raise PlumblineError("%s: the row '%s' is not measured%s; measured are %s" % (option, name, nearest(str(name), names), ", ".join(names)))
        try:
            limits[name] = float("nan") if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            limits[name] = float("nan")
        if not 0 < limits[name] < float("inf"):
            raise PlumblineError("%s: %s: '%s' is no threshold; wanted a number above 0" % (option, name, value))
    return limits


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

        What is smooth and what stalls is told apart. The smooth part is a ratio of two sums, with Student's t. Stalls come at random: from
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
        found = 0.0
        for ticks, count in sorted(self.counts.items(), reverse=True):
            if longer + ticks * count - (ops + count) * ticks > allowed:
                break
            longer, ops = longer + ticks * count, ops + count
            found = (longer - allowed) / ops
        return max(found, 0.0) / TICKS

    def ranked(self, ranks: Sequence[int]) -> List[float]:
        """The latencies at these ranks, in microseconds; 1 is the smallest."""
        found: Dict[int, float] = {}
        seen = 0
        waiting = sorted(set(ranks))
        for ticks, count in sorted(self.counts.items()):
            seen += count
            while waiting and waiting[0] <= seen:
                found[waiting.pop(0)] = ticks / TICKS
        return [found[rank] for rank in ranks]

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
        found: Counter[int] = Counter()
        for ticks, count in self.counts.items():
            found[1 << (ticks // TICKS).bit_length()] += count
        return dict(sorted(found.items()))


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


class Check(NamedTuple):
    """One threshold against what was measured, with the sentence for it."""

    row: str
    option: str
    limit: float
    found: Optional[Interval]
    verdict: str
    text: str


def wants_more(samples: Samples, row: Row, options: Options) -> bool:
    """Whether the row has a threshold that its samples do not carry yet. For a percentile their number decides, never what they are; a rate is
    looked at whenever there is twice as much of it, and each look has its part of the error.
    """
    if samples.unable:
        return False
    if row.name in options.max_p99_ms and samples.ops < samples_for(0.99):
        return True
    if row.name not in options.min_ops:
        return False
    rounds = len(samples.pieces)
    if look_of(rounds) == look_of(rounds + 1):
        return True  # between two looks
    return _compare(row, samples, "min_ops", options.min_ops[row.name], samples.rate_interval()).verdict == INCONCLUSIVE


def compare(measured: Measured, options: Options) -> List[Check]:
    """Every threshold, in the order of the rows."""
    checks = []
    for row, samples in measured:
        if row.name in options.min_ops:
            checks.append(_compare(row, samples, "min_ops", options.min_ops[row.name], samples.rate_interval()))
        if row.name in options.max_p99_ms:
            found = samples.percentile_interval(0.99)
            found = Interval(*(value / 1000 for value in found)) if found else None
            checks.append(_compare(row, samples, "max_p99_ms", options.max_p99_ms[row.name], found))
    return checks


def _compare(row: Row, samples: Samples, option: str, limit: float, found: Optional[Interval]) -> Check:
    least = option == "min_ops"
    wanted = "wanted at least %s" % _number(limit) if least else "wanted at most %s ms" % _number(limit)
    if samples.unable:
        return Check(row.name, option, limit, None, INCONCLUSIVE, "%s cannot run here: %s; %s" % (row.name, samples.unable, wanted))
    if found is None:
        lack = "two rounds" if least else "%d operations" % samples_for(0.99)
        text = "%s: %d operations in %d rounds are too few to tell; %s, and for that %s; raise max_seconds" % (
            row.name, samples.ops, len(samples.pieces), wanted, lack
        )  # fmt: skip
        return Check(row.name, option, limit, None, INCONCLUSIVE, text)
    figures = tuple(_number(value) for value in (found.value, found.low, found.high))
    said = "%s: " % row.name + ("%s ops/sec (%s to %s); %s" if least else "p99 is %s ms (%s to %s), closed loop%s; %s") % (
        figures + ((wanted,) if least else (_stalled(samples, ", "), wanted))
    )
    good, bad = (found.low >= limit, found.high < limit) if least else (found.high <= limit, found.low > limit)
    if good:
        return Check(row.name, option, limit, found, PASS, said)
    if bad:
        return Check(row.name, option, limit, found, FAIL, said + "; look at the write cache of the drives, and at what else loads them")
    rare = "; stalls of %g s that are too rare to be seen in %.0f s could take as much" % (UNSEEN_SECONDS, samples.seconds) if least else ""
    return Check(row.name, option, limit, found, INCONCLUSIVE, said + ", which lies within that%s; measure for longer, or when it is quieter" % rare)


def judge(checks: Sequence[Check]) -> Tuple[str, List[str]]:
    """The verdict, and the sentences that led to it."""
    for verdict in (FAIL, INCONCLUSIVE):
        if any(check.verdict == verdict for check in checks):
            return verdict, [check.text for check in checks if check.verdict in (FAIL, INCONCLUSIVE)]
    return PASS, [check.text for check in checks] or ["no threshold is set"]


def _number(value: float) -> str:
    """Three digits at least, and no more behind the point than that takes."""
    return "%.0f" % value if value >= 100 else "%.3g" % value


def figures(row: Row, samples: Samples) -> Dict[str, Any]:
    """A row of the result. Latencies in microseconds."""
    rate = samples.rate
    return {
        "row": row.name,
        "title": row.title.strip(),
        "unable": samples.unable,
        "ops": samples.ops,
        "seconds": round(samples.seconds, 3),
        "ops_per_sec": round(rate, 3),
        "usecs_per_op": round(1e6 / rate, 1) if rate else None,
        "p50_us": samples.percentile(0.5),
        "p99_us": samples.percentile(0.99),
        "p999_us": samples.percentile(0.999),
        "max_us": samples.longest() if samples.ops else None,
        "open_p99_us": _rounded(samples.waiting(0.99)),
        "method_us": _rounded(samples.own / 1000),
        "stalls": sum(piece.stalls for piece in samples.pieces),
        "stalled_share": round(samples.stalled_share(), 4),
        "histogram": {str(edge): count for edge, count in samples.histogram().items()},
    }


def _rounded(value: Optional[float]) -> Optional[float]:
    return None if value is None else round(value, 1)


def table(measured: Measured) -> List[str]:
    """The rows below their headings, as pg_test_fsync has them, with percentiles in microseconds behind."""
    lines: List[str] = []
    heading = -1
    for row, samples in measured:
        if row.group != heading:
            heading = row.group
            lines.append(HEADINGS[heading])
        lines.append("        %-30s%s" % (row.title, _line(samples)))
    return lines


def _line(samples: Samples) -> str:
    if samples.unable:
        return "%21s  %s" % ("n/a", samples.unable)
    if not samples.ops:
        return "%21s  the time was up" % "n/a"
    marks = ["%s %7s" % (word, _latency(samples.percentile(share))) for word, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))]
    return "%13.3f ops/sec  %6.0f usecs/op  %s%s" % (samples.rate, 1e6 / samples.rate, "  ".join(marks), _stalled(samples, "  "))


def _stalled(samples: Samples, before: str) -> str:
    """What an open loop would see of the stalls; nothing where there are none."""
    share = samples.stalled_share()
    return "%sstalled %.1f %% of the time, %.0f ms the longest" % (before, 100 * share, samples.longest() / 1000) if share else ""


def _latency(microseconds: Optional[float]) -> str:
    return "-" if microseconds is None else ("%.1f" if microseconds < 10 else "%.0f") % microseconds


def histogram_table(measured: Measured) -> List[str]:
    """A line for each row, a column for each power of two; percent of the row's operations."""
    shown = [(row, samples.histogram()) for row, samples in measured if samples.ops]
    if not shown:
        return []
    last = max(max(found) for _row, found in shown)
    edges = [1 << power for power in range(last.bit_length()) if 1 << power >= min(min(found) for _row, found in shown)]
    lines = ["Operations in percent, by the latency that they stayed below (powers of two: 1ms is 1024us):"]
    lines.append(" " * 26 + "".join(_edge(edge).rjust(6) for edge in edges))
    for row, found in shown:
        total = sum(found.values())
        cells = "".join(_percent(found.get(edge, 0), total).rjust(6) for edge in edges)
        lines.append("        %-18s%s" % (row.name, cells))
    return lines


def _edge(microseconds: int) -> str:
    for power, unit in ((20, "s"), (10, "ms")):
        if microseconds >> power:
            return "%d%s" % (microseconds >> power, unit)
    return "%dus" % microseconds


def _percent(count: int, total: int) -> str:
    if not count:
        return "."
    share = 100 * count / total
    return "<1" if share < 1 else "%d" % round(share)


def report(title: str, options: Options, measured: Measured, verdict: str, reasons: Sequence[str], seconds: float, written: int) -> List[str]:
    """The whole for people. *title*: which volume; *written*: bytes."""
    lines = ["%s; %g s per row in %d rounds, O_DIRECT for open_datasync and open_sync" % (title, options.seconds, ROUNDS)]
    lines += table(measured) + histogram_table(measured)
    needs = "a percentile is shown from so many operations: p99 %d, p99.9 %d, and is that of a program that waits for each" % (
        samples_for(0.99),
        samples_for(0.999),
    )
    lines.append("%s were written in %.1f s; %s" % (human(written // MIB * MIB), seconds, needs))
    return lines + ["%s: %s" % (verdict, reason) for reason in reasons]


def result(title: str, options: Options, measured: Measured, seconds: float, written: int) -> Dict[str, Any]:
    """What the module returns of a measurement."""
    checks = compare(measured, options)
    verdict, reasons = judge(checks)
    return {
        "verdict": verdict,
        "reasons": reasons,
        "rows": [figures(row, samples) for row, samples in measured],
        "checks": [_check(check) for check in checks],
        "seconds": round(seconds, 2),
        "written_bytes": written,
        "report": report(title, options, measured, verdict, reasons, seconds, written),
    }


def _check(check: Check) -> Dict[str, Any]:
    value, low, high = (round(one, 3) for one in check.found) if check.found else (None, None, None)
    return {
        "row": check.row, "threshold": check.option, "wanted": check.limit, "found": value, "low": low, "high": high, "verdict": check.verdict
    }  # fmt: skip


def unmeasured(title: str) -> Dict[str, Any]:
    """What the module returns in check mode."""
    reason = "check mode: nothing is written, so nothing was measured"
    report_lines = [title, "%s: %s" % (INCONCLUSIVE, reason)]
    return {"verdict": INCONCLUSIVE, "reasons": [reason], "rows": [], "checks": [], "seconds": 0.0, "written_bytes": 0, "report": report_lines}
