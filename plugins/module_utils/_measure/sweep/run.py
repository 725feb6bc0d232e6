# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of offset_sweep: the measurements that were asked for, and what the module returns of them."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import mapping
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import guilty_layer, offset_table, probe, search, write_probe
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import Options, SweepLimits, read_limits, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.target import Target, last_grain, look_at_target, scratch_target
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe, observe_maps


def sweep(run: Runner, run_fio: Callable[[float], Runner], path: str, params: Mapping[str, Any], check: bool) -> Dict[str, Any]:
    """Measure, and return the result. *run_fio*: makes a runner for fio that takes so many seconds at most; *check*: write nothing. Raises PlumblineError."""
    options, limits = read_options(params), read_limits(params)
    seen = observe(run, Questions(prove=False)) if params["layers"] else observe_maps(run)
    with contextlib.ExitStack() as scratch:
        if os.path.isdir(path) and not params["write"]:
            if check:
                return _unmeasured(path)
            target = scratch.enter_context(scratch_target(path, seen, options.last_grain))
        else:
            target = look_at_target(path, seen)
        return _sweep_target(run, run_fio, seen, target, options, limits, params, check)


def _sweep_target(
    run: Runner,
    run_fio: Callable[[float], Runner],
    seen: Observation,
    target: Target,
    options: Options,
    limits: SweepLimits,
    params: Mapping[str, Any],
    check: bool,
) -> Dict[str, Any]:
    options = options._replace(logical=target.logical, last_grain=last_grain(target, options.last_grain))
    if params["write"]:
        measured = _write(run, seen, target, options, limits, params, check)
    else:
        measured = probe.measure_target(target, options, limits)
    result = _verdict(seen, target, measured, options, limits, "write" if params["write"] else "read")
    if params["chunk_edges"]:
        _add_edges(result, target, measured.verdict, limits)
    if params["layers"]:
        _add_layers(result, probe.measure_layers(seen, target, measured, options, limits))
    if params["table"]:
        grain, rows = probe.measure_table(run_fio, target, measured.verdict, params["table_seconds"])
        result["table"] = [row.as_dict() for row in rows]
        result["report"] += offset_table.render(target.title, rows, grain)
    return result


def _unmeasured(path: str) -> Dict[str, Any]:
    """What check mode returns for a directory, on which a scratch file would have to be written."""
    why = "check mode: nothing is written, so there is no scratch file and nothing was measured"
    numbers = {"phase_bytes": 0, "grain_bytes": 0, "expected_bytes": -1, "reads": 0, "read_bytes": 0}
    shares = {"ratio": 1.0, "excluded_ratio": 0.0, "seconds": 0.0, "share": 0.0}
    return dict(numbers, **shares, verdict=INCONCLUSIVE, contradicts=False, legs=[], reasons=[why], report=["%s: %s" % (path, why)])


def _write(
    run: Runner, seen: Observation, target: Target, options: Options, limits: SweepLimits, params: Mapping[str, Any], check: bool
) -> probe.Measured:
    """The sweep with writes, or in check mode only the question whether the target may be written to."""
    if params["layers"] or target.file:
        what = "layers are only read" if params["layers"] else "a file is only read"
        raise PlumblineError("write: %s; wanted a partition or a logical volume, and no layers" % what)
    if check:
        write_probe.check_write_target(run, seen, target)
        return probe.Measured(search.Verdict(INCONCLUSIVE, why="nothing is written in check mode"), 0.0)
    return probe.measure_target(target, options, limits, write_probe.maker(run, seen))


def expected_in(target: Target, verdict: search.Verdict) -> int:
    """The phase by the kernel at the verdict's grain; -1 where it does not know."""
    return -1 if target.expected is None or not verdict.grain else target.expected % verdict.grain


def _verdict(seen: Observation, target: Target, measured: probe.Measured, options: Options, limits: SweepLimits, what: str) -> Dict[str, Any]:
    verdict = measured.verdict
    expected = expected_in(target, verdict)
    contradicts = verdict.verdict == search.PHASE and expected >= 0 and verdict.phase != expected
    report = search.report_sweep(target.title, verdict, options.min_ratio, expected, measured.seconds, what)
    reasons = [verdict.why] if verdict.why else report[1:] if contradicts else []
    if target.file:
        report.append(
            "%s: %s of it in %d runs were read on %s; offsets count from the first byte of %s, not of the file"
            % (target.file, human(sum(length for _start, length in target.reach)), target.extents, target.name, target.name)
        )
    if measured.held > 0.1 * measured.seconds:
        share = 100 * limits.max_share
        report.append("%s: waited for %.1f s, to stay within %g %% of the requests while others load the disks" % (target.name, measured.held, share))
    return {
        "verdict": verdict.verdict,
        "phase_bytes": verdict.phase,
        "grain_bytes": verdict.grain,
        "ratio": round(verdict.ratio, 3),
        "excluded_ratio": verdict.excluded,
        "expected_bytes": expected,
        "contradicts": contradicts,
        "reads": verdict.reads,
        "read_bytes": verdict.bytes,
        "seconds": round(measured.seconds, 2),
        "share": round(measured.share, 4),
        "legs": _legs(seen, target, verdict),
        "reasons": reasons,
        "report": report,
    }


def _legs(seen: Observation, target: Target, verdict: search.Verdict) -> List[Dict[str, Any]]:
    """On which bytes of the disks the target's bytes lie, and the measured phase there."""
    spread = mapping.spread(seen.nodes, target.devno, target.reach)
    legs = []
    for disk, start in mapping.starts(seen, target.devno, 0):
        runs = spread.get(disk, [])
        leg: Dict[str, Any] = {"device": seen.nodes[disk].name if disk in seen.nodes else disk, "start_bytes": start}
        leg["first_byte"], leg["length_bytes"] = (runs[0][0] if runs else -1), sum(length for _first, length in runs)
        leg["phase_bytes"] = (start + verdict.phase) % verdict.grain if verdict.verdict == search.PHASE else -1
        legs.append(leg)
    return legs


def _add_edges(result: Dict[str, Any], target: Target, verdict: search.Verdict, limits: SweepLimits) -> None:
    if not target.chunk:
        result["report"].append("%s: is not striped, so that it has no chunk edges" % target.title)
        return
    phased = verdict.verdict == search.PHASE
    grain = verdict.grain if phased else search.first_grain(target.logical)
    edges = probe.measure_edges(target, grain, verdict.phase, limits)
    if not edges.reads:
        result["report"].append("%s: the time was spent before the chunk edges could be measured" % target.title)
        return
    result["chunk_edge_ratio"] = round(edges.ratio, 3)
    result["report"].append(
        "%s: a read of %s that crosses from one chunk of %s into the next takes %.2f times as long as one that does not (%d reads, %s, %.1f s)"
        % (target.title, human(grain), human(target.chunk), edges.ratio, edges.reads, human(edges.bytes), edges.seconds)
    )


def _add_layers(result: Dict[str, Any], swept: Sequence[Tuple[guilty_layer.Swept, Any]]) -> None:
    layers = [layer for layer, _measured in swept]
    located = guilty_layer.locate_guilty(layers)
    result["layers"] = [_layer(layer, measured) for layer, measured in swept]
    result.update(located.as_dict())
    result["reasons"] = result["reasons"] + list(located.reasons)
    result["report"] = result["report"] + guilty_layer.report_guilty(layers, located)


def _layer(layer: guilty_layer.Swept, measured: Any) -> Dict[str, Any]:
    row: Dict[str, Any] = {
        "layer": layer.kind,
        "name": layer.name,
        "legs": [{"device": disk, "start_bytes": start} for disk, start in layer.starts],
        "verdict": "",
    }
    if measured:
        verdict = measured.verdict
        row.update(verdict=verdict.verdict, phase_bytes=verdict.phase, grain_bytes=verdict.grain, ratio=round(verdict.ratio, 3))
        row.update(reads=verdict.reads, read_bytes=verdict.bytes, seconds=round(measured.seconds, 2))
    return row
