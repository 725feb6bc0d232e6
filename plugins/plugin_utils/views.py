# SPDX-License-Identifier: GPL-3.0-or-later
"""What device_info, stack_info and audit make of the reading that their modules return from a host. Each is a view of the same reading."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import printable_result
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_call import AUDIT_OPTIONS, OPTIONS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import StorageReading
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.host_rules import absent_mounts, host_findings
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.stacks_gone import gone_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.device_table import device_result
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import OF_A_FAILURE, as_data, plain
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_reading import plan_reading, questions
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import read_verify
from ansible_collections.plumbline.ssd.plugins.plugin_utils.reading import failed_task, made_of_reading, unpacked
from ansible_collections.plumbline.ssd.plugins.plugin_utils.stack_table import view_report

Call = Callable[[str, Mapping[str, Any]], Any]


def device_info(call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The disks. *call*: (module, its arguments) → what that module returns on the host; *arguments*: those of the task."""
    return _view(call, "device_info", arguments, lambda reading: device_result(reading.seen, bool(reading.seen.paths)))


def stack_info(call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The volumes, each with its layers, of the disks that were asked for or of all."""
    return _view(call, "stack_info", arguments, lambda reading: _stacks(reading.seen, list(reading.seen.paths.values()) or None))


def _view(call: Call, module: str, arguments: Mapping[str, Any], make: Callable[[StorageReading], Mapping[str, Any]]) -> dict[str, Any]:
    result = call(module, arguments)
    told = as_data(result)
    if told.get("failed") or told.get("unreachable"):
        return as_data(result, OF_A_FAILURE)
    try:
        made = made_of_reading(make, unpacked(result.get("answer")).reading)
    except PlumblineError as fault:
        return failed_task(fault)
    warnings = {"warnings": told["warnings"]} if told.get("warnings") else {}
    return {"changed": False, **warnings, **printable_result(made)}


def _stacks(seen: Observation, devices: Sequence[str] | None, of_host: Sequence[Finding] = ()) -> dict[str, Any]:
    """What stack_info returns. *devices*: numbers of those that the volumes lie on, None for all."""
    views = [view(seen, devno) for devno in tops(seen, devices)]
    return {
        "stacks": [stack.as_dict() for stack in views],
        "findings": [finding.as_dict() for finding in [found for stack in views for found in stack.findings] + list(of_host)],
        "report": [line for stack in views for line in view_report(stack)] + [finding.text for finding in of_host],
    }


def audit(call: Call, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """All of a host: name of a module → what it returns. A part that fails is its failure, and the others are there all the same."""
    checked = ArgumentSpecValidator(dict(AUDIT_OPTIONS)).validate(dict(arguments))
    if checked.error_messages:  # it says so as every module does
        return {**failed_task(PlumblineError("; ".join(checked.error_messages))), **as_data(call("audit", arguments), OF_A_FAILURE)}
    params = plain(checked.validated_parameters)
    try:
        stacks = read_stacks(params["stacks"]) if params["stacks"] else []
        verify = None if params["verify"] is None else read_verify(params["verify"])
    except PlumblineError as fault:
        return failed_task(fault)
    ask = questions(stacks, prove=False, verify=verify is not None)._replace(everything=True)
    of_host = {key: value for key, value in arguments.items() if key in OPTIONS}
    result = call("audit", {**of_host, "questions": plain(ask._asdict())})
    told = as_data(result)
    if told.get("failed") or told.get("unreachable"):
        return as_data(result, OF_A_FAILURE)
    health = told.get("drive_health")
    parts: dict[str, Any] = {"drive_health": health if isinstance(health, dict) else _failed(PlumblineError("the host returned no reading of its drives"))}
    try:
        reading = unpacked(_answer(result.get("storage"))).reading
    except PlumblineError as fault:
        parts["stack_info"] = _failed(fault)
        return {"changed": False, **parts, **({"stack_plan": _failed(fault)} if stacks else {})}
    seen, recorded = reading.seen, reading.recorded
    makers: dict[str, Callable[[], Mapping[str, Any]]] = {
        "device_info": lambda: device_result(seen),
        "stack_info": lambda: _stacks(
            seen, None, host_findings(seen) + absent_mounts(seen) + gone_stacks(seen, recorded, [stack.name for stack in stacks])
        ),
        **({"stack_plan": lambda: plan_reading(reading, stacks, verify=verify, refused="")[0]} if stacks else {}),
    }
    for name, make in makers.items():
        try:
            parts[name] = printable_result(made_of_reading(make))
        except PlumblineError as fault:
            parts[name] = _failed(fault)
    return {"changed": False, **parts}


def _answer(storage: object) -> object:
    """The packed reading in a part of the result. Raises PlumblineError with the failure that is there in its place."""
    part = storage if isinstance(storage, Mapping) else {}
    if part.get("failed"):
        reasons = part.get("reasons")
        raise PlumblineError(str(part.get("msg", "it says nothing")), [str(reason) for reason in reasons] if isinstance(reasons, list) else [])
    return part.get("answer")


def _failed(fault: PlumblineError) -> dict[str, Any]:
    return {"failed": True, "msg": fault.msg, "reasons": fault.reasons}


# The modules whose results are made on the controller, beside stack_plan.
VIEWS = {"device_info": device_info, "stack_info": stack_info, "audit": audit}
