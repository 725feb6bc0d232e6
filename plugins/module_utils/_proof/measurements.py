# SPDX-License-Identifier: GPL-3.0-or-later
"""The measurements of a proof: one row each. Pure.

A new measurement is a row here, a module that returns its name as "measure", and a task in the role "verify".
"""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import options as sweep
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import options as sync
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput import options as throughput
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim import options as trim

FORMAT = 1  # of the record of a proof
PROOF_ROWS = 4  # of sync_latency, that the role verify asks for unless others are named

Result = Mapping[str, Any]
Judged = Tuple[str, List[str]]  # a verdict and its reasons


def own_verdict(result: Result) -> Judged:
    """The verdict that the module itself returned."""
    return str(result.get("verdict")), [str(reason) for reason in result.get("reasons", [])]


def judge_sweep(result: Result) -> Judged:
    """A sweep fails a proof only where it contradicts the static one, since many drives hide a straddle. One without a verdict may still exclude that."""
    if "contradicts" not in result:
        return own_verdict(result)
    report = [str(line) for line in result.get("report", [])]
    if result["contradicts"]:
        look = ["look first at %s" % result["culprit"]] if result.get("culprit") else []
        return FAIL, report[:1] + [str(reason) for reason in result.get("reasons", [])] + look
    excluded = result.get("excluded_ratio")
    enough = isinstance(excluded, (int, float)) and 1 < excluded <= sweep.COARSE  # a straddle that matters would have shown
    return (INCONCLUSIVE, report[:1]) if result.get("verdict") == INCONCLUSIVE and not enough else (PASS, [])


def judge_trim(result: Result) -> Judged:
    """A trim fails a proof only where it was sent off and did not arrive. Many drives do not tell, and a path without trim is a finding of its own."""
    verdict, reasons = own_verdict(result)
    return (FAIL, reasons) if verdict == FAIL and result.get("offered") else (PASS, []) if verdict in (FAIL, INCONCLUSIVE) else (verdict, reasons)


# Seconds of one measurement, at least and at most, by all options of its module and the number of the stack's devices. How long a drive takes to answer is
# not known before, so the least is what a quick one leads to.
def _sweep_seconds(options: Mapping[str, Any], legs: int) -> Tuple[float, float]:
    layers = 2 * legs + 1  # disk and partition of each device, and the volume
    return min(1.0, options["max_seconds"]), options["max_seconds"] * layers


def _throughput_seconds(options: Mapping[str, Any], _legs: int) -> Tuple[float, float]:
    jobs = 2  # in sequence and at random
    return min(jobs * 2 * throughput.FIRST_LOOK * options["block_seconds"], options["max_seconds"]), options["max_seconds"]


def _sync_seconds(options: Mapping[str, Any], _legs: int) -> Tuple[float, float]:
    rows = len(options["rows"]) if options["rows"] else PROOF_ROWS
    return rows * options["seconds"], options["max_seconds"] * (2 if options["cache_states"] else 1)


def _trim_seconds(options: Mapping[str, Any], legs: int) -> Tuple[float, float]:
    return min(1.0, options["max_seconds"]), options["max_seconds"] * legs


class Measurement(NamedTuple):
    """How the options of one measurement are read, and how its result counts in a proof."""

    arguments: Mapping[str, Mapping[str, Any]]  # what its module takes beside its target
    read: Callable[[Mapping[str, Any]], Any]
    target: Mapping[str, Any] = {}  # a target to read the options with
    writes: bool = False  # it writes to bare volumes, too
    judge: Callable[[Result], Judged] = own_verdict
    seconds: Callable[[Mapping[str, Any], int], Tuple[float, float]] = _sweep_seconds
    of_stack: bool = False  # measured once for a stack, and else once for each of its volumes

    def options(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """All of its options: those that were given, and the defaults of the others."""
        return {**{key: argument.get("default") for key, argument in self.arguments.items()}, **given}


MEASUREMENTS: Mapping[str, Measurement] = {
    "offset_sweep": Measurement(sweep.ARGUMENTS, sweep.read_options, judge=judge_sweep, seconds=_sweep_seconds),
    "throughput": Measurement(
        throughput.ARGUMENTS, throughput.read_options, throughput.ANY_TARGET, writes=True, seconds=_throughput_seconds, of_stack=True
    ),
    "sync_latency": Measurement(sync.ARGUMENTS, sync.read_options, seconds=_sync_seconds),
    "fstrim_proof": Measurement(trim.ARGUMENTS, trim.read_options, judge=judge_trim, seconds=_trim_seconds),
}


def judge_of(measure: Any) -> Callable[[Result], Judged]:
    """What judges the result of a measurement. A result that names no known measurement is judged by its own verdict."""
    return MEASUREMENTS[measure].judge if measure in MEASUREMENTS else own_verdict
