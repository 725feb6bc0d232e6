# SPDX-License-Identifier: GPL-3.0-or-later
"""The measurements of a proof: one row each. Pure.

A new measurement is a row here, a module that returns its name as "measure", and a task in the role "verify".
"""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import options as sweep
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import options as sync
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput import options as throughput
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim import options as trim

FORMAT = 1  # of the record of a proof

Result = Mapping[str, Any]
Judged = Tuple[str, List[str]]  # a verdict and its reasons


def own_verdict(one: Result) -> Judged:
    """The verdict that the module itself returned."""
    return str(one.get("verdict")), [str(reason) for reason in one.get("reasons", [])]


def judge_sweep(one: Result) -> Judged:
    """A sweep fails a proof only where it contradicts the static one, since many drives hide a straddle. One without a verdict may still exclude that."""
    if "contradicts" not in one:
        return own_verdict(one)
    report = [str(line) for line in one.get("report", [])]
    if one["contradicts"]:
        look = ["look first at %s" % one["culprit"]] if one.get("culprit") else []
        return FAIL, report[:1] + [str(reason) for reason in one.get("reasons", [])] + look
    excluded = one.get("excluded_ratio")
    enough = isinstance(excluded, (int, float)) and 1 < excluded <= sweep.COARSE  # a straddle that matters would have shown
    return (INCONCLUSIVE, report[:1]) if one.get("verdict") == INCONCLUSIVE and not enough else (PASS, [])


def judge_trim(one: Result) -> Judged:
    """A trim fails a proof only where it was sent off and did not arrive. Many drives do not tell, and a path without trim is a finding of its own."""
    verdict, reasons = own_verdict(one)
    return (FAIL, reasons) if verdict == FAIL and one.get("offered") else (PASS, []) if verdict in (FAIL, INCONCLUSIVE) else (verdict, reasons)


class Measurement(NamedTuple):
    """How the options of one measurement are read, and how its result counts in a proof."""

    arguments: Mapping[str, Mapping[str, Any]]  # what its module takes beside its target
    read: Callable[[Mapping[str, Any]], Any]
    target: Mapping[str, Any] = {}  # a target to read the options with
    writes: bool = False  # it writes to bare volumes, too
    judge: Callable[[Result], Judged] = own_verdict


MEASUREMENTS: Mapping[str, Measurement] = {
    "offset_sweep": Measurement(sweep.ARGUMENTS, sweep.read_options, judge=judge_sweep),
    "throughput": Measurement(throughput.ARGUMENTS, throughput.read_options, throughput.ANY_TARGET, writes=True),
    "sync_latency": Measurement(sync.ARGUMENTS, sync.read_options),
    "fstrim_proof": Measurement(trim.ARGUMENTS, trim.read_options, judge=judge_trim),
}


def judge_of(measure: Any) -> Callable[[Result], Judged]:
    """What judges the result of a measurement. A result that names none is taken for what it says itself."""
    return MEASUREMENTS[measure].judge if measure in MEASUREMENTS else own_verdict
