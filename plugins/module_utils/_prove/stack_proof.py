# SPDX-License-Identifier: GPL-3.0-or-later
"""What all that was measured of a stack comes to, and the record of it. Pure."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._common.verdict import FAIL, INCONCLUSIVE, PASS, UNFINISHED
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.measurements import FORMAT, judge_of

Record = Mapping[str, Any]
_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")  # of a stack; it becomes a file's name
_WANTED = ("stack", "digest")


def check_proofs(wanted: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The proofs as they were planned. Raises PlumblineError where they are not."""
    for proof in wanted:
        whole = all(isinstance(proof.get(key), str) and proof[key] for key in _WANTED) and isinstance(proof.get("made"), list)
        if not whole or not _NAME.fullmatch(proof["stack"]):
            raise PlumblineError("proofs: found %s; wanted what stack_plan lists as proofs" % (", ".join(sorted(map(str, proof))) or "nothing"))
    return wanted


def results_of_stack(stack: str, measured: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
    """The results that are of this stack, without what Ansible says of the task."""
    ours = [one for one in measured if isinstance(one.get("item"), Mapping) and one["item"].get("stack") == stack]
    return [dict({key: value for key, value in one.items() if key not in _OF_THE_TASK}, of=_subject(one["item"])) for one in ours]


_OF_THE_TASK = ("item", "ansible_loop_var", "invocation", "changed", "failed", "failed_when_result")


def _subject(item: Mapping[str, Any]) -> str:
    """Which volume was measured; all of the stack where none is named."""
    return "/".join(str(item[key]) for key in ("stack", "volume") if item.get(key))


def judge_measured(measured: Sequence[Mapping[str, Any]]) -> Tuple[str, List[str]]:
    """The worst verdict of what was measured, and its reasons."""
    by_verdict: Dict[str, List[str]] = {PASS: [], INCONCLUSIVE: [], FAIL: []}
    for one in measured:
        verdict, reasons = judge_of(one.get("measure"))(one)
        if verdict not in by_verdict:
            verdict, reasons = INCONCLUSIVE, ["a measurement gave no verdict: %s" % (one.get("msg") or one.get("verdict"))]
        by_verdict[verdict] += [_of(one, reason) for reason in reasons or [verdict]]
    if not measured:
        return INCONCLUSIVE, ["nothing was measured"]
    verdict = FAIL if by_verdict[FAIL] else INCONCLUSIVE if by_verdict[INCONCLUSIVE] else PASS
    return verdict, by_verdict[FAIL] + by_verdict[INCONCLUSIVE]


def _of(one: Mapping[str, Any], reason: str) -> str:
    return "%s: %s" % (one["of"], reason) if one.get("of") else reason


def record_of(proof: Mapping[str, Any], measured: Sequence[Mapping[str, Any]], when: str, final: bool, before: Record) -> Dict[str, Any]:
    """What is kept on the host. *final* False: what was measured by writing, before there were filesystems.

    Writes stay in the record of a stack until it is built anew, and count: they cannot be measured again.
    """
    reads, writes = (measured, _writes(proof, before)) if final else ([], measured)
    verdict, reasons = judge_measured([*reads, *writes])
    return {
        "format": FORMAT,
        "stack": proof["stack"],
        "digest": proof["digest"],
        "writes_digest": proof.get("writes_digest", ""),
        "made": proof["made"],
        "time": when,
        "verdict": verdict if final else UNFINISHED,
        "reasons": reasons,
        "writes": list(writes),
        "measured": list(reads),
    }


def _writes(proof: Mapping[str, Any], before: Record) -> Sequence[Mapping[str, Any]]:
    """What was measured by writing before just these filesystems were made."""
    same = before.get("made") == proof["made"] or before.get("verdict") == UNFINISHED
    if not same or before.get("writes_digest", "") != proof.get("writes_digest", ""):
        return []
    return [one for one in before.get("writes", []) if isinstance(one, Mapping)]


def paragraph(judged: Mapping[str, Any]) -> str:
    """For the one who has to act: what was measured, against what, and where to look next."""
    word = "failed" if judged["verdict"] == FAIL else "is %s" % judged["verdict"]
    return "%s: the measured proof %s: %s. All figures are in %s on the host." % (judged["stack"], word, "; ".join(judged["reasons"]), judged["record"])
