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
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _honesty
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._honesty import Rates, State, rate_of
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import KIB, MIB, human

PASS = "pass"
FAIL = "fail"
INCONCLUSIVE = "inconclusive"

# One WAL segment, written before anything is measured: the rows then overwrite, as they do in a recycled segment.
FILE_BYTES = 16 * MIB
# A row's time is cut into so many pieces, and the pieces of all rows take turns, so that drift reaches all rows alike.
ROUNDS = 8
# On either side of an interval.
CONFIDENCE = 0.95
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
    sync: str = ""  # fdatasync or fsync after the writes; fsync_close and close_fsync with a descriptor of its own


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

# What the write cache's two states are compared by, beside the rows that are asked for: a write past the page cache and no flush
# behind it. pg_test_fsync has no such row. Without the drive's cache it is the plain durable write.
DIRECT = Row("direct_write", 4, "write, O_DIRECT", 8 * KIB, 1, flag=os.O_DIRECT)
_COMPARED = ("open_datasync", "fdatasync")


# What the module takes beside its target.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "rows": {"type": "list", "elements": "str"},
    "seconds": {"type": "float", "default": 1},
    "max_seconds": {"type": "float", "default": 120},
    "min_ops": {"type": "dict", "default": {}},
    "max_p99_ms": {"type": "dict", "default": {}},
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
    return Options(rows, params["seconds"], params["max_seconds"], _limits(params, "min_ops", names), _limits(params, "max_p99_ms", names))


def for_states(options: Options, original: bool) -> Options:
    """The options for one of the write cache's two states: with the rows that the comparison needs. Thresholds are for the original one.

    Raises PlumblineError where the time for all of them is not enough.
    """
    names = [row.name for row in options.rows]
    rows = tuple(row for row in ROWS if row.name in (*names, *_COMPARED)) + (DIRECT,)
    if len(rows) * options.seconds > options.max_seconds:
        raise PlumblineError(
            "max_seconds: %g; wanted at least %g for each state of the write cache, which %d rows of %g s take: cache_states measures %s as well; "
            "ask for fewer rows, or for less time each"
            % (options.max_seconds, len(rows) * options.seconds, len(rows), options.seconds, ", ".join((*_COMPARED, DIRECT.name)))
        )
    return options._replace(rows=rows) if original else options._replace(rows=rows, min_ops={}, max_p99_ms={})


def asked(measured: Measured, options: Options) -> Measured:
    """Of what was measured the rows that were asked for."""
    return [(row, samples) for row, samples in measured if row in options.rows]


def compare_states(on: Measured, off: Measured, protected: Optional[bool]) -> Tuple[Dict[str, Any], List[str]]:
    """Both states of the write cache side by side: what the module returns of them, and the lines of its report."""
    states = [{row.name: State(samples.ops, samples.rate) for row, samples in measured} for measured in (on, off)]
    rates = Rates(
        rate_of(states[0], "fdatasync"), rate_of(states[0], "open_datasync"), rate_of(states[0], DIRECT.name), rate_of(states[1], DIRECT.name)
    )
    found = _honesty.judge(rates, protected)
    returned = {
        "on": [figures(row, samples) for row, samples in on],
        "off": [figures(row, samples) for row, samples in off],
        "collapse": _honesty.collapse(*states),
        "honesty": found.as_dict(),
    }
    return returned, _honesty.report([row.name for row, _samples in on], states[0], states[1], found)


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


class Samples:
    """What was measured of one row: how long each operation took, and how many there were in each piece of time."""

    def __init__(self, unable: str = "") -> None:
        self.unable = unable  # why the row cannot run here
        self.counts: Counter[int] = Counter()  # by latency in ticks, rounded up
        self.pieces: List[Tuple[int, int]] = []  # operations, nanoseconds

    def add(self, latencies: Iterable[int], elapsed: int) -> None:
        """One piece of time: nanoseconds of each operation, and of all."""
        before = self.ops
        self.counts.update(-(-latency * TICKS // 1000) for latency in latencies)
        self.pieces.append((self.ops - before, elapsed))

    @property
    def ops(self) -> int:
        return sum(self.counts.values())

    @property
    def seconds(self) -> float:
        return sum(elapsed for _ops, elapsed in self.pieces) / 1e9

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.ops / self.seconds if self.pieces else 0.0

    def rate_interval(self) -> Optional[Interval]:
        """The rate with its interval by Student's t over the pieces of time; None where there are fewer than two."""
        rates = [ops * 1e9 / elapsed for ops, elapsed in self.pieces]
        if len(rates) < 2:
            return None
        mean = sum(rates) / len(rates)
        spread = math.sqrt(sum((rate - mean) ** 2 for rate in rates) / (len(rates) - 1))
        half = _t(len(rates) - 1) * spread / math.sqrt(len(rates))
        return Interval(self.rate, max(self.rate - half, 0.0), self.rate + half)

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


# Student's t, 95 % one-sided, for 1 to 30 degrees of freedom.
_STUDENT = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812, 1.796, 1.782, 1.771, 1.761, 1.753,
    1.746, 1.740, 1.734, 1.729, 1.725, 1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
)  # fmt: skip


def _t(freedom: int) -> float:
    return _STUDENT[min(freedom, len(_STUDENT)) - 1]


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
    """Whether the row has a threshold that its samples do not carry yet. Their number decides, never what they are."""
    return not samples.unable and row.name in options.max_p99_ms and samples.ops < samples_for(0.99)


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
    said = "%s: " % row.name + ("%s ops/sec (%s to %s); %s" if least else "p99 is %s ms (%s to %s); %s") % (figures + (wanted,))
    good, bad = (found.low >= limit, found.high < limit) if least else (found.high <= limit, found.low > limit)
    if good:
        return Check(row.name, option, limit, found, PASS, said)
    if bad:
        return Check(row.name, option, limit, found, FAIL, said + "; look at the write cache of the drives, and at what else loads them")
    return Check(row.name, option, limit, found, INCONCLUSIVE, said + ", which lies within that; measure for longer, or when it is quieter")


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
        "histogram": {str(edge): count for edge, count in samples.histogram().items()},
    }


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
    return "%13.3f ops/sec  %6.0f usecs/op  %s" % (samples.rate, 1e6 / samples.rate, "  ".join(marks))


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
    needs = "a percentile is shown from so many operations: p99 %d, p99.9 %d" % (samples_for(0.99), samples_for(0.999))
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
