# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of reads by offset as Vdbench users know it: which jobs fio is to run, and rows from what it says. Pure.

Every round visits every offset once, in an order of its own, so that drift is spread over all rows. What the jobs of an offset
have counted and timed is added up over the rounds; the quantiles are those of all its reads.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human, round_down
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import common

DEPTH = 32  # of the recipe
ROUNDS = 3
SHORTEST = 0.2  # seconds; a shorter job says more of its own start than of the device


class TablePlan(NamedTuple):
    """What is to be run."""

    grain: int  # bytes of a read
    order: Tuple[int, ...]  # offsets in bytes, job by job
    each_ms: int  # how long a job reads


class TableRow(NamedTuple):
    """One offset: its reads, per second, and the median and the 99th percentile of their latencies."""

    offset_bytes: int
    iops: float
    p50_us: float
    p99_us: float
    reads: int

    def as_dict(self) -> Dict[str, Any]:
        return {
            "offset_bytes": self.offset_bytes,
            "iops": round(self.iops, 1),
            "p50_us": round(self.p50_us, 1),
            "p99_us": round(self.p99_us, 1),
            "reads": self.reads,
        }


def plan(grain: int, logical: int, phase: int, seconds: float, shuffle: Callable[[List[int]], None], rounds: int = ROUNDS) -> TablePlan:
    """The jobs for offsets 0 to *grain*, by logical blocks, or by as much more as the seconds allow; *phase* is always among them."""
    step = logical
    while (grain // step + 1) * rounds * SHORTEST > seconds and step * 2 <= grain:
        step *= 2
    offsets = sorted({*range(0, grain + 1, step), phase})
    order: List[int] = []
    for _round in range(rounds):
        shuffle(offsets)
        order += offsets
    return TablePlan(grain, tuple(order), max(int(seconds * 1000 / len(order)), 1))


def arguments(table: TablePlan, path: str, span: Span) -> List[str]:
    """fio's argv: one job after the other (stonewall), in threads, so that all of it is one process.

    fio's ``offset`` moves the whole grid, which is what is wanted; ``blockalign`` would not. Without ``randrepeat=0`` each job replays the same places.
    """
    start, length = span
    size = round_down(length - table.grain, table.grain)
    argv = common("fio", True, "json+") + ["--filename=%s" % path.replace(":", "\\:"), "--iodepth=%d" % DEPTH, "--rw=randread"]
    argv += ["--bs=%d" % table.grain, "--time_based=1"]
    argv += ["--runtime=%dms" % table.each_ms, "--size=%d" % size]
    for number, offset in enumerate(table.order):
        argv += ["--name=%d" % number, "--stonewall", "--offset=%d" % (start + offset)]
    return argv


def rows(table: TablePlan, text: str) -> List[TableRow]:
    """The table from fio's JSON (format json+). Raises PlumblineError where it is none, or a job failed."""
    jobs = _jobs(text)
    reads: Dict[int, int] = {}
    seconds: Dict[int, float] = {}
    bins: Dict[int, Dict[int, int]] = {}
    for number, offset in enumerate(table.order):
        job = jobs.get(str(number))
        if job is None:
            raise PlumblineError("fio's report lacks job %d of %d; the table is not complete" % (number + 1, len(table.order)))
        if job.get("error"):
            raise PlumblineError("fio could not read at offset %d: error %s; see the kernel's log" % (offset, job["error"]))
        done = job["read"]
        reads[offset] = reads.get(offset, 0) + int(done["total_ios"])
        seconds[offset] = seconds.get(offset, 0.0) + float(done["runtime"]) / 1000
        merged = bins.setdefault(offset, {})
        for upper, count in (done["clat_ns"].get("bins") or {}).items():
            merged[int(upper)] = merged.get(int(upper), 0) + int(count)
    empty = [offset for offset in sorted(reads) if not reads[offset] or not seconds[offset] or not bins[offset]]
    if empty:
        raise PlumblineError("fio read nothing at offset %d in the time it had; wanted more table_seconds" % empty[0])
    return [
        TableRow(offset, reads[offset] / seconds[offset], quantile(bins[offset], 0.5) / 1000, quantile(bins[offset], 0.99) / 1000, reads[offset])
        for offset in sorted(reads)
    ]


def _jobs(text: str) -> Dict[str, Any]:
    try:
        jobs = json.loads(text[text.index("{") :])["jobs"]  # warnings may come first
        return {str(job["jobname"]): job for job in jobs}
    except (ValueError, KeyError, TypeError) as fault:
        raise PlumblineError("fio's report could not be read: %s" % text.strip()[:200]) from fault


def quantile(bins: Dict[int, int], share: float) -> float:
    """The value below or at which *share* of the counts lie."""
    left = share * sum(bins.values())
    for value in sorted(bins):
        left -= bins[value]
        if left <= 0:
            return float(value)
    return float(max(bins))


def winners(table: Sequence[TableRow]) -> List[TableRow]:
    """The rows that stand out: from the fastest down to the widest gap between neighbours."""
    ordered = sorted(table, key=lambda row: -row.iops)
    gaps = [ordered[number].iops / row.iops for number, row in enumerate(ordered[1:]) if row.iops]
    return ordered[: gaps.index(max(gaps)) + 1] if gaps else ordered


def render(name: str, table: Sequence[TableRow], grain: int) -> List[str]:
    """The table for people."""
    lines = ["%s: random reads of %s, %d at a time, by offset" % (name, human(grain), DEPTH), "  offset      IOPS    p50 us    p99 us"]
    lines += ["%8d  %8.0f  %8.0f  %8.0f" % (row.offset_bytes, row.iops, row.p50_us, row.p99_us) for row in table]
    ahead = winners(table)
    rest = [row for row in table if row not in ahead]
    if rest:
        ratio = min(row.iops for row in ahead) / max(row.iops for row in rest)
        if ratio > 1.05:
            lines.append("ahead: offset %s, by a factor of %.2f and more" % (", ".join(str(row.offset_bytes) for row in sorted(ahead)), ratio))
    return lines
