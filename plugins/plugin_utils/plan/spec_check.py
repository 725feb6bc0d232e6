# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is wrong with the public variables of a host, as far as it can be said without the host. Reads the roles' argument specs, and nothing else."""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml
from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import check_entry, check_keys, kind
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import Faults, PlumblineError, several
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import health_call
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance import options as acceptance
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import request as steady_state
from ansible_collections.plumbline.ssd.plugins.module_utils._monitor.unit_files import check_settings
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.health_gate import read_gate
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import VARIABLES, check_variables, read_stacks
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Stack
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import read_verify

NOTHING: dict[str, Any] = {}
_ROLES = os.path.join(os.path.dirname(__file__), "..", "..", "..", "roles")
Variables = Mapping[str, Any]
# Ansible would make a mapping of some texts.
_KINDS: Mapping[str, tuple[type, str]] = {"dict": (dict, "a mapping"), "list": (list, "a list")}


def check_spec(variables: Variables, others: Sequence[str] = ()) -> list[Stack]:
    """The stacks that are asked for. *variables*: those whose names begin with plumbline_, without templates; of *others* the names alone are checked.
    Raises PlumblineError with all mistakes."""
    faults = Faults()
    for name in others:
        faults.take(None, check_variables, [name])
    none: list[Stack] = []
    stacks = none
    for name, value in variables.items():
        faults.take(None, check_variables, [name])
        if name == "plumbline_stacks":
            stacks = faults.take(none, read_stacks, value)
        elif name in VARIABLES:
            faults.take(None, _check_variable, name, value, variables)
    if faults.lines:
        raise several("", faults.lines)
    return stacks


def _check_variable(name: str, value: Any, variables: Variables) -> None:
    """First the shape, as the argument spec of a role has it, then the values, by the code that will read them."""
    if name in _ITSELF:  # it is read without an argument spec, and says more
        _ITSELF[name](value)
    faults = Faults()
    declared = _declared().get(name)
    if declared:
        _check_shape(name, declared, value, faults)
        faults.tell()
        _validated(name, {name: declared}, {name: value})
    if name in _VALUES:
        _VALUES[name](value, variables, faults)
        faults.lines = [line if line.startswith(name) else f"{name}.{line}" for line in dict.fromkeys(faults.lines)]
        faults.tell()


def _check_shape(where: str, option: Mapping[str, Any], value: Any, faults: Faults) -> None:
    """Mappings and lists where they belong, and no key in them that nobody knows. Ansible's own words for that have no nearest key."""
    if value is None and "." in where:  # a key without a value is one that is not given
        return
    expected, words = _KINDS.get(option["type"], (object, ""))
    if not isinstance(value, expected):
        faults.lines.append(f"{where}: found {kind(value)}; wanted {words}")
        return
    options = option.get("options", {})
    if not options:
        return
    listed: list[Any] = value if isinstance(value, list) else []
    entries: list[tuple[str, Any]] = [(where, value)] if isinstance(value, dict) else [(f"{where}[{number}]", entry) for number, entry in enumerate(listed)]
    for place, entry in entries:
        known: Mapping[str, Any] = faults.take(NOTHING, check_entry, entry, tuple(options), (), place, faults)
        for key in [key for key in known if key in options]:
            _check_shape(f"{place}.{key}", options[key], known[key], faults)


def _validated(name: str, spec: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with their defaults. Raises PlumblineError with all that does not fit, in Ansible's words behind the name of the variable."""
    try:
        done = ArgumentSpecValidator(dict(spec)).validate(values)
    except (AttributeError, TypeError, ValueError) as fault:  # it goes on to the keys of what it has just found to be no mapping
        raise PlumblineError(f"{name}: a value in it is not of its type ({fault}); ansible-doc shows the types") from fault
    if done.error_messages:
        raise several("", [message if message.startswith(name) else f"{name}: {message}" for message in done.error_messages])
    validated: dict[str, Any] = done.validated_parameters
    return validated


@functools.lru_cache(maxsize=1)
def _declared() -> dict[str, Any]:
    """Variable → its option, of the role that lists its keys; of any role where none does."""
    declared: dict[str, Any] = {}
    for path in sorted(glob.glob(os.path.join(_ROLES, "*", "meta", "argument_specs.yml"))):
        with open(path, encoding="utf-8") as handle:
            options = yaml.safe_load(handle)["argument_specs"]["main"]["options"]
        for name, option in options.items():
            if name not in declared or "options" in option:
                declared[name] = option
    return declared


def _of(name: str, spec: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a module that a variable gives it."""
    return _validated(name, spec, {key: value for key, value in values.items() if key in spec and value is not None})


def _check_health(value: Variables, _variables: Variables, faults: Faults) -> None:
    params = faults.take(NOTHING, _of, "plumbline_health", health_call.OPTIONS, value)
    if params:
        faults.take(None, health_call.read_options, params, 0)


def _check_monitor(value: Variables, _variables: Variables, faults: Faults) -> None:
    faults.take(None, check_settings, value.get("interval", 15), value.get("mail", "root"))


def _check_acceptance(value: Variables, variables: Variables, faults: Faults) -> None:
    of_drives = {key: value.get(key) or {} for key in ("writes", "steady")}
    devices = variables.get("plumbline_acceptance_devices") or []
    known = devices if isinstance(devices, list) else []
    for key, drives in of_drives.items():
        strange = [str(name) for name in drives if name not in known]
        if strange:
            faults.lines.append(f"{key}: names {', '.join(strange)}; wanted names out of plumbline_acceptance_devices: {', '.join(map(str, known)) or 'none'}")
    shared = {key: given for key, given in value.items() if key not in of_drives}
    spec = {**acceptance.ARGUMENTS, "incumbent": {"type": "str", "default": ""}}
    keys = ("serial", "terabytes_written", "accept_wear")
    for name, own in of_drives["writes"].items():
        faults.take(None, check_keys, own, keys, f"writes.{name}")
    for device in known or [""]:
        own = of_drives["writes"].get(device)
        steady = of_drives["steady"].get(device)
        given = {**shared, **(own if isinstance(own, dict) else {}), "writes": own is not None, "steady": steady}
        params = faults.take(NOTHING, _of, "plumbline_acceptance", spec, given)
        if params:
            faults.take(None, acceptance.read_options, params)


def _check_steady_state(value: Variables, _variables: Variables, faults: Faults) -> None:
    for drive in value.get("drives") or [{}]:
        params = faults.take(NOTHING, _of, "plumbline_steady_state", steady_state.ARGUMENTS, {**value, **drive})
        for read in (steady_state.read_random_load, steady_state.read_run_options, steady_state.read_target) if params else ():
            faults.take(None, read, params)


_ITSELF: Mapping[str, Callable[[Any], object]] = {"plumbline_verify": read_verify, "plumbline_health": read_gate}
_VALUES: Mapping[str, Callable[[Variables, Variables, Faults], None]] = {
    "plumbline_health": _check_health,
    "plumbline_monitor": _check_monitor,
    "plumbline_acceptance": _check_acceptance,
    "plumbline_steady_state": _check_steady_state,
}


def spec_lines(stacks: list[Stack], variables: Variables) -> list[str]:
    """What is asked for, in a few lines."""
    if not variables:
        return ["no variable of this host begins with plumbline_: nothing is asked of it"]
    lines = [f"no mistake in {', '.join(sorted(variables))}"]
    for stack in stacks:
        names = ", ".join(volume.name + (f" on {volume.mount}" if volume.mount else "") for volume in stack.volumes)
        lines.append(f"{stack.name}: {stack.layout}, {stack.legs} {'device' if stack.legs == 1 else 'devices'}; {names}")
    return [*lines, "the host was not asked: whether its disks are there, unused and large enough is said by check mode"]
