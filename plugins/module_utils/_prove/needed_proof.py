# SPDX-License-Identifier: GPL-3.0-or-later
"""Which measured proof a stack needs, and what the record of the host says of it. Pure.

A proof is of exactly one stack on exactly these devices under exactly these thresholds: its digest names them; and of the very
filesystems that were there: their birth does. The record of the last one is kept on the host. A record that did not pass is never
taken for one that did, whatever happened since.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.verdict import PASS, UNFINISHED
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.plan_model import Plan, StackPlan
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.measurements import FORMAT, MEASUREMENTS
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.verify_options import Verify
from ansible_collections.plumbline.ssd.plugins.module_utils._records.proofs import path_of

Record = Mapping[str, Any]


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
        "stripes": {volume.name: volume.stripe for volume in plan.volumes if volume.stripe != plan.stripe},
        "legs": [[seen.nodes[leg.devno].identity.key, leg.start, leg.size] for leg in sorted(plan.legs, key=lambda one: one.index)],
        "volumes": [[volume.name, volume.size] for volume in plan.volumes],
    }
    writing = {key: verify.measures[key] for key in verify.measures if MEASUREMENTS[key].writes}
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
        made = [volume.made for volume in stack.volumes]
        same = record.get("digest") == digest and record.get("made") == made
        stored = str(record.get("verdict", "")) if same else ""
        due = bool(verify.measures) and (verify.policy == "always" or (verify.policy == "unproven" and stored != PASS))
        bare = [str(step["device"]) for step in stack.steps if step["action"] == "filesystem"]
        found.append(
            {
                "stack": stack.spec.name,
                "record": path_of(stack.spec.name),
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
                        "device": volume.device,
                        "path": volume.spec.mount,
                        "power_loss_protection": volume.protected,
                    }
                    for volume in stack.volumes
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
        return "%s: the last record, of %s, is of another stack, filesystem or thresholds; it is proven anew" % (name, record.get("time", "?"))
    return "%s: not proven by measurement yet" % name
