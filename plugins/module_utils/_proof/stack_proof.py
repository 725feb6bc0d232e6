# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdict of all that was measured of a stack, and the record of it. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS, UNFINISHED
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.kept_proof import (
    READS,
    WRITES,
    KeptProof,
    how_to_end,
    read_kept_proof,
    verdict_of_parts,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import FORMAT, judge_of

Record = Mapping[str, Any]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")  # of a stack; it becomes a file's name
_WANTED = ("stack", "digest")


def check_proofs(proofs: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The proofs as they were planned. Raises PlumblineError where they are not."""
    for proof in proofs:
        whole = all(isinstance(proof.get(key), str) and proof[key] for key in _WANTED) and isinstance(proof.get("made"), list)
        if not whole or not _NAME.fullmatch(proof["stack"]):
            raise PlumblineError("proofs: found %s; wanted what stack_plan lists as proofs" % (", ".join(sorted(map(str, proof))) or "nothing"))
    return proofs


def results_of_stack(stack: str, measured: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """The results that are of this stack, without what Ansible says of the task."""
    ours = [result for result in measured if isinstance(result.get("item"), Mapping) and result["item"].get("stack") == stack]
    return [dict({key: value for key, value in result.items() if key not in _OF_THE_TASK}, of=_subject(result["item"])) for result in ours]


_OF_THE_TASK = ("item", "ansible_loop_var", "invocation", "changed", "failed", "failed_when_result")


def _subject(item: Mapping[str, Any]) -> str:
    """Which volume was measured; all of the stack where none is named."""
    return "/".join(str(item[key]) for key in ("stack", "volume") if item.get(key))


def judge_measured(measured: Sequence[Mapping[str, Any]]) -> Tuple[str, List[str]]:
    """The worst verdict of what was measured, and its reasons."""
    by_verdict: Dict[str, List[str]] = {PASS: [], INCONCLUSIVE: [], FAIL: []}
    for result in measured:
        verdict, reasons = judge_of(result.get("measure"))(result)
        if verdict not in by_verdict:
            verdict, reasons = INCONCLUSIVE, ["a measurement gave no verdict: %s" % (result.get("msg") or result.get("verdict"))]
        by_verdict[verdict] += [_of(result, reason) for reason in reasons or [verdict]]
    if not measured:
        return INCONCLUSIVE, ["nothing was measured"]
    verdict = FAIL if by_verdict[FAIL] else INCONCLUSIVE if by_verdict[INCONCLUSIVE] else PASS
    return verdict, by_verdict[FAIL] + by_verdict[INCONCLUSIVE]


def _of(result: Mapping[str, Any], reason: str) -> str:
    return "%s: %s" % (result["of"], reason) if result.get("of") else reason


class Rules(NamedTuple):
    """By which a proof is judged: what is *accept*ed unproven, and the *conditions* of the measurement."""

    accept: Sequence[str] = ()
    conditions: Mapping[str, str] = {}


_STRICT = Rules()


def record_of(
    proof: Mapping[str, Any], measured: Sequence[Mapping[str, Any]], when: str, final: bool, before: Record, rules: Rules = _STRICT
) -> Dict[str, Any]:
    """What is kept on the host. *final* False: what was measured by writing, before there were filesystems.

    Writes stay in the record of a stack until it is built anew, and count: they cannot be measured again.
    """
    reads, writes = (measured, _writes(proof, before)) if final else ([], measured)
    parts = {name: judge_measured(some)[0] for name, some in ((READS, reads), (WRITES, writes)) if some}
    parts = parts or {READS: INCONCLUSIVE}  # nothing was measured
    verdict, reasons = verdict_of_parts(parts, rules.accept), judge_measured([*reads, *writes])[1]
    return {
        "format": FORMAT,
        "stack": proof["stack"],
        "digest": proof["digest"],
        **{key: proof.get(key, "") for key in _OF_WRITES},
        "made": proof["made"],
        "time": when,
        "verdict": verdict if final else UNFINISHED,
        "parts": parts,
        "accepted": KeptProof(parts=parts).accepts(rules.accept) if final else [],
        "tries": _tries(proof, before, parts, rules.conditions) if final else 0,
        "conditions": dict(rules.conditions),
        "reasons": reasons,
        "writes": list(writes),
        "measured": list(reads),
    }


def _tries(proof: Mapping[str, Any], before: Record, parts: Mapping[str, str], conditions: Mapping[str, str]) -> int:
    """How often the reads have been measured under these conditions, this time included, since they passed last."""
    kept = read_kept_proof(before)
    same = before.get("digest") == proof["digest"] and before.get("made") == proof["made"] and not kept.differing(conditions)
    return 0 if parts.get(READS, PASS) == PASS else 1 + (kept.tries if same else 0)


def judge_again(proof: Mapping[str, Any], before: Record, accept: Sequence[str]) -> Dict[str, Any]:
    """The record of a proof with what is accepted now. Nothing was measured. Raises PlumblineError where the record is not the one that was planned with."""
    kept = read_kept_proof(before)
    if before.get("digest") != proof["digest"] or before.get("made") != proof["made"] or not kept.finished:
        raise PlumblineError("%s: the record of its proof was changed since it was read; run the play again" % proof["stack"])
    return {**before, "verdict": verdict_of_parts(kept.parts, accept), "accepted": kept.accepts(accept)}


# Digests of what was measured by writing: with sizes, and with nothing that a growth changes. Records of earlier releases have the first alone.
_OF_WRITES = ("writes_digest", "writes_base")


def _writes(proof: Mapping[str, Any], before: Record) -> Sequence[Mapping[str, Any]]:
    """What was measured by writing before just these filesystems were made; others may have come beside them since."""
    made = before.get("made")
    stands = isinstance(made, list) and bool(made) and all(when in proof["made"] for when in made)
    same = stands or before.get("verdict") == UNFINISHED
    if not same or not any(before.get(key, "") == proof.get(key, "") != "" for key in _OF_WRITES):
        return []
    return [write for write in before.get("writes", []) if isinstance(write, Mapping)]


def as_result(record: Record, path: str, accept: Sequence[str]) -> Dict[str, Any]:
    """What a module returns of a record."""
    fields = {key: record[key] for key in ("stack", "verdict", "reasons", "accepted")}
    return {**fields, "record": path, "next": "" if record["verdict"] == UNFINISHED else how_to_end(read_kept_proof(record), accept)}


def paragraph(judged: Mapping[str, Any]) -> str:
    """A paragraph for the operator: what was measured, against what, and where to look next."""
    word = "failed" if judged["verdict"] == FAIL else "is %s" % judged["verdict"]
    text = "%s: the measured proof %s: %s. All figures are in %s on the host." % (judged["stack"], word, "; ".join(judged["reasons"]), judged["record"])
    return "%s Note: %s." % (text, judged["next"]) if judged.get("next") else text
