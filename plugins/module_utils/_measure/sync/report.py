# SPDX-License-Identifier: GPL-3.0-or-later
"""What is reported of synchronous writes. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import flush_honesty
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.flush_honesty import State, Times, time_of
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import DIRECT, HEADINGS, WRITTEN, Row
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.samples import ROUNDS, Measured, Samples, samples_for
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.verdict import Check, compare, judge_checks, stalled_text


def compare_states(on: Measured, off: Measured, protected: Optional[bool]) -> Tuple[Dict[str, Any], List[str]]:
    """Both states of the write cache side by side: what the module returns of them, and the lines of its report."""
    states = [{row.name: State(samples.ops, samples.rate, samples.rate_error()) for row, samples in measured} for measured in (on, off)]
    with_cache = [time_of(states[0], row) for row in ("fdatasync", WRITTEN.name, DIRECT.name)]
    times = Times(with_cache[0], with_cache[1], with_cache[2], time_of(states[1], DIRECT.name))
    honesty = flush_honesty.judge_flushes(times, protected)
    returned = {
        "on": [figures(row, samples) for row, samples in on],
        "off": [figures(row, samples) for row, samples in off],
        "collapse": flush_honesty.collapse(*states),
        "honesty": honesty.as_dict(),
    }
    return returned, flush_honesty.report_flushes([row.name for row, _samples in on], states[0], states[1], honesty)


def with_flushes(sync_result: Mapping[str, Any], honesty: Mapping[str, Any], relies: bool, protected: bool) -> Tuple[Dict[str, Any], List[str]]:
    """The result with what was found of the flushes, and the warnings. Drives that seem to ignore them fail it where the volume relies on them
    (*relies*) and nobody says that they need none (*protected*). No threshold on speed can pass that: such drives are fast.
    """
    if honesty["class"] != flush_honesty.IGNORES:
        return dict(sync_result), []
    text = "the drives seem to ignore flushes: %s" % honesty["text"]
    if protected or not relies:
        return dict(sync_result), [text]
    reason = text + "; state power_loss_protection if they have it"
    reasons = [*sync_result["reasons"], reason] if sync_result["verdict"] == FAIL else [reason]
    return dict(sync_result, verdict=FAIL, reasons=reasons, report=[*sync_result["report"], "%s: %s" % (FAIL, reason)]), []


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


def table_of_rows(measured: Measured) -> List[str]:
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
    return "%13.3f ops/sec  %6.0f usecs/op  %s%s" % (samples.rate, 1e6 / samples.rate, "  ".join(marks), stalled_text(samples, "  "))


def _latency(microseconds: Optional[float]) -> str:
    return "-" if microseconds is None else ("%.1f" if microseconds < 10 else "%.0f") % microseconds


def histogram_table(measured: Measured) -> List[str]:
    """A line for each row, a column for each power of two; percent of the row's operations."""
    shown = [(row, samples.histogram()) for row, samples in measured if samples.ops]
    if not shown:
        return []
    last = max(max(counts) for _row, counts in shown)
    edges = [1 << power for power in range(last.bit_length()) if 1 << power >= min(min(counts) for _row, counts in shown)]
    lines = ["Operations in percent, by the latency that they stayed below (powers of two: 1ms is 1024us):"]
    lines.append(" " * 26 + "".join(_edge(edge).rjust(6) for edge in edges))
    for row, counts in shown:
        total = sum(counts.values())
        cells = "".join(_percent(counts.get(edge, 0), total).rjust(6) for edge in edges)
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


def report_sync(title: str, options: Options, measured: Measured, verdict: str, reasons: Sequence[str], seconds: float, written: int) -> List[str]:
    """The whole for people. *title*: which volume; *written*: bytes."""
    lines = ["%s; %g s per row in %d rounds, O_DIRECT for open_datasync and open_sync" % (title, options.seconds, ROUNDS)]
    lines += table_of_rows(measured) + histogram_table(measured)
    needs = "a percentile is shown from so many operations: p99 %d, p99.9 %d, and is that of a program that waits for each" % (
        samples_for(0.99),
        samples_for(0.999),
    )
    lines.append("%s were written in %.1f s; %s" % (human(written // MIB * MIB), seconds, needs))
    return lines + ["%s: %s" % (verdict, reason) for reason in reasons]


def result(title: str, options: Options, measured: Measured, seconds: float, written: int) -> Dict[str, Any]:
    """What the module returns of a measurement."""
    checks = compare(measured, options)
    verdict, reasons = judge_checks(checks)
    return {
        "verdict": verdict,
        "reasons": reasons,
        "rows": [figures(row, samples) for row, samples in measured],
        "checks": [_check(check) for check in checks],
        "seconds": round(seconds, 2),
        "written_bytes": written,
        "report": report_sync(title, options, measured, verdict, reasons, seconds, written),
    }


def _check(check: Check) -> Dict[str, Any]:
    value, low, high = (round(value, 3) for value in check.interval) if check.interval else (None, None, None)
    return {
        "row": check.row, "threshold": check.option, "wanted": check.limit, "found": value, "low": low, "high": high, "verdict": check.verdict
    }  # fmt: skip


def unmeasured(title: str) -> Dict[str, Any]:
    """What the module returns in check mode."""
    reason = "check mode: nothing is written, so nothing was measured"
    report_lines = [title, "%s: %s" % (INCONCLUSIVE, reason)]
    return {"verdict": INCONCLUSIVE, "reasons": [reason], "rows": [], "checks": [], "seconds": 0.0, "written_bytes": 0, "report": report_lines}
