# SPDX-License-Identifier: GPL-3.0-or-later
"""Which measured proof a stack needs, and what the record of the host says of it. Pure.

A proof is of exactly one stack on exactly these devices under exactly these thresholds: its digest names them; and of the very
filesystems that were there: their birth does. The record of the last one is kept on the host. A record that did not pass is never
taken for one that did, whatever happened since.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import UNFINISHED
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.kept_proof import (
    MOST_TRIES,
    WRITES,
    KeptProof,
    how_to_end,
    read_kept_proof,
    verdict_of_parts,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import FORMAT, MEASUREMENTS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_proofs import path_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Plan, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import Verify

Record = Mapping[str, Any]


def digests_of(plan: StackPlan, seen: Observation, verify: Verify) -> tuple[str, str, str]:
    """What a proof is of, what its writes are of, and the same of the writes without all that growth changes: the same before and after the stack is built.

    Both name the stack, the identities of its devices and the options of the measures. Writes cannot be measured again, so other mounts, other
    options of the reads or a stack that has grown are no reason to forget them.
    """
    spec = plan.spec
    built = {
        "format": FORMAT,
        "stack": spec.name,
        "layout": spec.layout,
        "stripe": plan.stripe,
        **({"mirror": True} if spec.mirror else {}),
        "stripes": {volume.name: volume.stripe for volume in plan.volumes if volume.stripe != plan.stripe},
    }
    of_a_size = {
        "legs": [[seen.nodes[leg.devno].identity.key, leg.start, leg.size] for leg in plan.ordered],
        "volumes": [[volume.name, volume.size] for volume in plan.volumes],
        **({"width": plan.row_legs} if len(plan.rows) > 1 and spec.laid.striped else {}),
    }
    first = plan.rows[0] if spec.laid.striped else plan.ordered
    of_any_size = {"width": plan.row_legs, "first": [[seen.nodes[leg.devno].identity.key, leg.start] for leg in first]}
    writing = {key: verify.measures[key] for key in verify.measures if MEASUREMENTS[key].writes}
    mounts = [[volume.mount, sorted(volume.mount_options)] for volume in spec.volumes]
    whole = {**built, **of_a_size, "mounts": mounts, "measures": verify.measures}
    return _digest(whole), _digest({**built, **of_a_size, "measures": writing}), _digest({**built, **of_any_size, "measures": writing})


def _digest(what: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()


def proofs(plan: Plan, seen: Observation, verify: Verify, records: Mapping[str, Record], conditions: Mapping[str, str]) -> list[dict[str, Any]]:
    """For each stack: what its proof is called, what the record of the host says of it, and what is to be measured. *conditions*: those of the host now."""
    found = []
    for stack in plan.stacks:
        digest, writes_digest, writes_base = digests_of(stack, seen, verify)
        record = records.get(stack.spec.name, {})
        made = [volume.made for volume in stack.volumes]
        same = record.get("digest") == digest and record.get("made") == made
        kept = read_kept_proof(record if same else {})
        wanted = bool(verify.measures) and verify.policy != "never"
        due = wanted and (verify.policy == "always" or not kept.finished or kept.may_pass(verify.accept, conditions))
        accepted = kept.accepts(verify.accept)
        bare = [str(step["device"]) for step in stack.steps if step["action"] == "filesystem"]
        found.append(
            {
                "stack": stack.spec.name,
                "record": path_of(stack.spec.name),
                "digest": digest,
                "writes_digest": writes_digest,
                "writes_base": writes_base,
                "made": made,
                "stored": kept.verdict,
                "stored_time": kept.time if kept.verdict else "",
                "due": due,
                "settled": not wanted or (not due and not kept.open_parts(verify.accept) and accepted == list(kept.accepted)),
                "accepted": accepted,
                "state": "%s: %s" % (stack.spec.name, _state(verify, record, digest, kept, due, conditions)),
                "volumes": [
                    {
                        "stack": stack.spec.name,
                        "volume": volume.name,
                        "device": volume.device,
                        "path": volume.spec.mount,
                        "power_loss_protection": volume.protected,
                    }
                    for volume in stack.volumes
                ],
                # Writes are measured on volumes that nothing stands on yet, all of a stack together or not at all.
                "bare": bare if len(bare) == len(stack.spec.volumes) and not stack.carries_on else [],
            }
        )
    return found


def _state(verify: Verify, record: Record, digest: str, kept: KeptProof, due: bool, conditions: Mapping[str, str]) -> str:
    """The record in one line, for people. *kept*: the record if it is of this stack."""
    if verify.policy == "never":
        return "not measured (policy never)"
    if not verify.measures:
        return "not measured (every measurement is switched off)"
    if kept.verdict == UNFINISHED or (not kept.verdict and record.get("digest") == digest and record.get("verdict") == UNFINISHED):
        return "not proven yet; its writes were measured on %s" % read_kept_proof(record).time
    if not kept.verdict and record:
        text = "the last record, of %s, is of another stack, mount or filesystem, or of other options of the measurements; it is proven anew"
        return text % read_kept_proof(record).time
    if not kept.verdict:
        return "not proven by measurement yet"
    by_policy = "; measured again, by policy" if verify.policy == "always" else ""
    accepted, parts = kept.accepts(verify.accept), kept.open_parts(verify.accept)
    if not parts and not accepted:
        return "measured on %s and passed%s" % (kept.time, by_policy)
    if not parts:
        return "measured on %s and passed, except what is accepted (%s): %s%s" % (kept.time, ", ".join(accepted), kept.why, by_policy)
    return "the last proof, of %s, is %s: %s; %s" % (kept.time, verdict_of_parts(kept.parts, verify.accept), kept.why, _next(verify, kept, due, conditions))


def _next(verify: Verify, kept: KeptProof, due: bool, conditions: Mapping[str, str]) -> str:
    """Whether a proof that did not pass is measured again, and why, or why not."""
    if not due:
        return how_to_end(kept, verify.accept)
    if verify.policy == "always":
        return "measured again, by policy" + ("; its writes are not" if WRITES in kept.open_parts(verify.accept) else "")
    changed = kept.differing(conditions)
    return "measured again, %s" % (
        "because the conditions are others (%s)" % ", ".join(changed) if changed else "as attempt %d of %d" % (kept.tries + 1, MOST_TRIES)
    )
