# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Which proof a stack needs, and what all that was measured of it comes to. Pure.

A proof is of exactly one stack on exactly these devices under exactly these thresholds: its digest names them; and of the very
filesystems that were there: their birth does. The record of the last one is kept on the host. A record that did not pass is never
taken for one that did, whatever happened since.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._common.verdict import FAIL, INCONCLUSIVE, PASS, UNFINISHED
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.search import COARSE
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.plan_model import Plan, StackPlan
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.volumes import volume_births, volume_devices, volume_protections
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.verify_options import Verify

FORMAT = 1  # of the record

Record = Mapping[str, Any]
_WRITING = ("throughput",)  # the measures that write to bare volumes
_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")  # of a stack; it becomes a file's name


def digests_of(plan: StackPlan, seen: Observation, verify: Verify) -> Tuple[str, str]:
    """What a proof is of, and what its writes are of: two digests, the same before and after the stack is built.

    Both name the stack, the identities of its devices and the options of the measures. Writes cannot be measured again, so other mounts or other
    options of the reads are no reason to forget them.
    """
    spec = plan.spec
    built = {
        "format": FORMAT,
        "stack": spec.name,
        "layout": spec.layout,
        "stripe": plan.stripe,
        "stripes": plan.stripes,
        "legs": [[seen.nodes[leg.devno].identity.key, leg.start, leg.size] for leg in sorted(plan.legs, key=lambda one: one.index)],
        "volumes": [[volume.name, plan.sizes.get(volume.name, 0)] for volume in spec.volumes],
    }
    writing = {key: verify.measures[key] for key in _WRITING if key in verify.measures}
    mounts = [[volume.mount, sorted(volume.mount_options)] for volume in spec.volumes]
    return _digest({**built, "mounts": mounts, "measures": verify.measures}), _digest({**built, "measures": writing})


def _digest(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def proofs(plan: Plan, seen: Observation, verify: Verify, records: Mapping[str, Record]) -> List[Dict[str, Any]]:
    """For each stack: what its proof is called, what the record of the host says of it, and what is to be measured."""
    found = []
    for stack in plan.stacks:
        digest, writes_digest = digests_of(stack, seen, verify)
        record = records.get(stack.spec.name, {})
        made = volume_births(stack, seen)
        same = record.get("digest") == digest and record.get("made") == made
        stored = str(record.get("verdict", "")) if same else ""
        due = bool(verify.measures) and (verify.policy == "always" or (verify.policy == "unproven" and stored != PASS))
        devices = volume_devices(stack, seen)
        bare = [str(step["device"]) for step in stack.steps if step["action"] == "filesystem"]
        found.append(
            {
                "stack": stack.spec.name,
                "digest": digest,
                "writes_digest": writes_digest,
                "made": made,
                "stored": stored,
                "stored_time": str(record.get("time", "")) if same else "",
                "due": due,
                "state": _state(stack.spec.name, verify, record, digest, stored, due),
                "volumes": [
                    {
                        "stack": stack.spec.name,
                        "volume": volume.name,
                        "device": device,
                        "path": volume.mount,
                        "power_loss_protection": protected,
                    }
                    for volume, device, protected in zip(stack.spec.volumes, devices, volume_protections(stack, seen))
                ],
                # Writes are measured on volumes that nothing stands on yet, all of a stack together or not at all.
                "bare": bare if len(bare) == len(stack.spec.volumes) else [],
            }
        )
    return found


def _state(name: str, verify: Verify, record: Record, digest: str, stored: str, due: bool) -> str:
    """The record in one line, for people."""
    if verify.policy == "never":
        return "%s: not measured (policy never)" % name
    if not verify.measures:
        return "%s: not measured (every measurement is switched off)" % name
    if stored == PASS:
        return "%s: measured on %s and passed%s" % (name, record.get("time", "?"), "; measured again, by policy" if due else "")
    if record.get("digest") == digest and record.get("verdict") == UNFINISHED:
        return "%s: not proven yet; its writes were measured on %s" % (name, record.get("time", "?"))
    if stored:
        return "%s: the last proof, of %s, is %s; it is made again" % (name, record.get("time", "?"), stored)
    if record:
        return "%s: proven as something else on %s (the stack, its devices or the thresholds changed); it is proven anew" % (name, record.get("time", "?"))
    return "%s: not proven by measurement yet" % name


# --- what was measured -------------------------------------------------------------------------------

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
        verdict, reasons = _sweep(one) if "contradicts" in one else (str(one.get("verdict")), [str(reason) for reason in one.get("reasons", [])])
        if verdict not in by_verdict:
            verdict, reasons = INCONCLUSIVE, ["a measurement gave no verdict: %s" % (one.get("msg") or one.get("verdict"))]
        by_verdict[verdict] += [_of(one, reason) for reason in reasons or [verdict]]
    if not measured:
        return INCONCLUSIVE, ["nothing was measured"]
    verdict = FAIL if by_verdict[FAIL] else INCONCLUSIVE if by_verdict[INCONCLUSIVE] else PASS
    return verdict, by_verdict[FAIL] + by_verdict[INCONCLUSIVE]


def _of(one: Mapping[str, Any], reason: str) -> str:
    return "%s: %s" % (one["of"], reason) if one.get("of") else reason


def _sweep(one: Mapping[str, Any]) -> Tuple[str, List[str]]:
    """A sweep fails a proof only where it contradicts the static one, since many drives hide a straddle. One without a verdict may still exclude that."""
    report = [str(line) for line in one.get("report", [])]
    if one["contradicts"]:
        look = ["look first at %s" % one["culprit"]] if one.get("culprit") else []
        return FAIL, report[:1] + [str(reason) for reason in one.get("reasons", [])] + look
    excluded = one.get("excluded_ratio")
    enough = isinstance(excluded, (int, float)) and 1 < excluded <= COARSE  # a straddle that matters would have shown
    return (INCONCLUSIVE, report[:1]) if one.get("verdict") == INCONCLUSIVE and not enough else (PASS, [])


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
