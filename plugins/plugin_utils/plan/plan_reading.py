# SPDX-License-Identifier: GPL-3.0-or-later
"""What a reading of a host comes to against a spec: the plan, the static proof, what is known of measured proofs and of the drives' health. Pure.

The controller alone makes this call, for a plan and for an audit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import NOTHING_WRITTEN, PlumblineError, several
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.persist_files import kept_of
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DURABILITY
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import contexts_of
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import StorageReading
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.host_rules import host_findings
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.drawing import diff, steps_report
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.health_gate import NO_READING, needed_reading, needs_smartctl
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.mounts import drop_in_files
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.needed_proof import proofs
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.packages import packages_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Stack
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import Verify
from ansible_collections.plumbline.ssd.plugins.plugin_utils.stack_table import view_report


def questions(stacks: Sequence[Stack], prove: bool = True, verify: bool = False, health: bool = False) -> Questions:
    """What the host is asked for these stacks. *prove*: read blank devices, which keeps them open for a while; *verify*, *health*: what it keeps of them."""
    volumes = [volume for stack in stacks for volume in stack.volumes]
    return Questions(
        devices=tuple((device.path, device.test_identity) for stack in stacks for device in stack.devices),
        models=tuple(stack.selector.model for stack in stacks if stack.selector),
        mounts=tuple(volume.mount for volume in volumes if volume.mount),
        files=tuple(drop_in_files(stacks)),
        users=tuple(volume.owner for volume in volumes if volume.owner),
        groups=tuple(volume.group for volume in volumes if volume.group),
        contexts=tuple(context for volume in volumes for context in (*contexts_of(volume.mount_options).values(), volume.selinux_context) if context),
        volumes=tuple((stack.name, volume.name) for stack in stacks if stack.grouped for volume in stack.volumes),
        full_proof=any(stack.blank_proof == "full" for stack in stacks),
        prove=prove,
        overrides=tuple(override for stack in stacks for override in stack.overrides),
        proofs=tuple(stack.name for stack in stacks) if verify else (),
        health=health,
        serials=tuple(pair.old for stack in stacks for pair in stack.replace),
    )


def plan_reading(
    reading: StorageReading,
    stacks: Sequence[Stack],
    through: str = "filesystem",
    verify: Verify | None = None,
    refused: str = NOTHING_WRITTEN,
    gate: str = "off",
) -> tuple[dict[str, Any], list[str]]:
    """Plan *stacks* up to a layer. Returns (what a module returns of it, warnings).

    With *verify* also what is known of their measured proofs, and unless *gate* is "off" what is known of their drives' health.
    Raises PlumblineError with every reason if the plan is refused; *refused* begins it.
    """
    seen = dataclasses.replace(reading.seen, kept=kept_of(reading.keeping))
    plan = make_plan(stacks, seen, through)
    if plan.refusals:
        raise several(refused, plan.refusals)
    legs = [leg.devno for stack in plan.stacks for leg in stack.legs]
    views = [view(seen, devno) for devno in tops(seen, legs)]
    of_host = host_findings(seen)
    proven = proofs(plan, seen, verify, reading.proofs, reading.conditions) if verify else []
    health, known = needed_reading(plan, seen, reading.drives, reading.now) if gate != "off" else (NO_READING, [])
    tools = ["fio"] if verify and "throughput" in verify.measures and any(proof["due"] for proof in proven) else []
    tools += ["smartctl"] if plan.steps and needs_smartctl(health) else []
    result = {
        "changed": bool(plan.steps),
        "steps": plan.steps,
        "digest": plan.digest if plan.steps else "",
        "missing_packages": sorted(set(plan.missing_packages + packages_of(seen, tools))),
        "stacks": [one.as_dict() for one in views],
        "findings": [finding.as_dict() for finding in [found for one in views for found in one.findings] + plan.findings + of_host],
        "proofs": proven,
        "verify": verify.as_dict() if verify else {},
        "health": health,
        "report": steps_report(plan)
        + [line for one in views for line in view_report(one)]
        + [proof["state"] for proof in proven]
        + ([health["state"]] if health["state"] else []),
        "diff": diff(plan, seen),
    }
    return result, plan.warnings + known + [finding.text for finding in of_host]


def fault_of(fail_if: str, result: Mapping[str, Any]) -> PlumblineError | None:
    """Why a reading is not as the caller wants it, by one of the choices of FAIL_IF.

    "unfinished": a step is left. "unsound": no step is left that could help, and a finding has the level error. "any": a step or such a finding.
    """
    left = ["still to be done: " + step["summary"] for step in result["steps"]]
    errors = [finding for finding in result["findings"] if finding["level"] == "error"]
    if fail_if == "never" or (fail_if == "unsound" and left):
        return None
    if fail_if == "unfinished":
        errors = []
    if not errors and not left:
        return None
    words = ["It is left in place."]
    if any(finding["layer"] not in DURABILITY for finding in errors):
        words.append("Look first at the layer that is named; the layers above it only inherit its phase.")
    if any(finding["layer"] in DURABILITY for finding in errors):
        text = "A finding about %s or %s concerns durability: acknowledged data can be lost. See the guide on durability."
        words.append(text % (", ".join(DURABILITY[:-1]), DURABILITY[-1]))
    found = "; ".join([finding["text"] for finding in errors] + left)
    return PlumblineError("The stack is not as it should be, so nothing is to be installed on it: %s. %s" % (found, " ".join(words)))


def filesystems_of(result: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """UUIDs of the filesystems that the steps of a result make, and of those that stand."""
    begun = [step["uuid"] for step in result["steps"] if step["action"] == "filesystem"]
    return begun, [layer["uuid"] for stack in result["stacks"] for layer in stack["layers"] if layer.get("uuid")]
