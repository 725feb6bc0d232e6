# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan of a host, made on the controller from what one call of a module reads there. A host in the desired state costs that one call.

The code of a module is sent and compiled anew in each call; on the controller it is compiled once. So the host reads, and the controller plans.
Where steps remain and a lease is asked for, a second call takes the lease.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator
from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import kind
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import NOTHING_WRITTEN, PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import printable_result
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import one_line
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.plan_options import PLAN_OPTIONS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import StorageReading
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import OF_A_FAILURE, as_data, plain
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.duration import duration_lines
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.health_gate import read_gate
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_reading import fault_of, filesystems_of, plan_reading, questions
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import check_variables, read_stacks
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Stack
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.verify_options import read_verify
from ansible_collections.plumbline.ssd.plugins.plugin_utils.reading import failed_task, made_of_reading, unpacked

Call = Callable[[str, Mapping[str, Any]], Any]


class Failed(Exception):
    """Ends planning early: *result* is what stack_plan returns."""

    def __init__(self, result: dict[str, Any]) -> None:
        super().__init__(result.get("msg"))
        self.result = result


def plan_host(call: Call, arguments: Mapping[str, Any], check_mode: bool = False) -> dict[str, Any]:
    """What stack_plan returns. *call*: (module, its arguments) → what that module returns on the host; *arguments*: those of stack_plan.

    What the host returns is data. A failure is passed on with only those keys that a failure may have, and a success is a plan that was made here.
    """
    checked = ArgumentSpecValidator(dict(PLAN_OPTIONS)).validate(arguments)
    if checked.error_messages:
        answer = as_data(call("stack_plan", arguments), OF_A_FAILURE)  # the module itself reports wrong arguments, as every module does
        wrong = _of_wrong_type(arguments)
        if wrong and not answer.get("unreachable"):
            return failed_task(PlumblineError(wrong))
        return answer if answer.get("failed") or answer.get("unreachable") else failed_task(PlumblineError("; ".join(checked.error_messages)))
    # Values of a task know where they come from. A plan is of plain ones, as a module gets them.
    params = plain(checked.validated_parameters)
    try:
        return _Planner(call, arguments, params, check_mode).plan()
    except Failed as failed:
        return failed.result
    except PlumblineError as fault:
        return failed_task(fault)


def _of_wrong_type(arguments: Mapping[str, Any]) -> str:
    """What is wrong with a public variable that is not of its type, by the variable's own name; Ansible knows the option of the module."""
    for name, expected, words in (("stacks", list, "a list of stacks"), ("verify", Mapping, "a mapping"), ("health", Mapping, "a mapping")):
        value = plain(arguments.get(name))
        if value is not None and not isinstance(value, expected):
            return f"plumbline_{name}: found {kind(value)}; wanted {words}"
        for number, entry in enumerate(value or () if expected is list else ()):
            if not isinstance(entry, Mapping):
                return f"plumbline_{name}[{number}]: found {kind(entry)}; wanted a mapping with name, devices and volumes"
    return ""


class _Planner:
    """One plan. *asked*: the arguments as the task has them; *params*: the same with their defaults."""

    def __init__(self, call: Call, asked: Mapping[str, Any], params: dict[str, Any], check_mode: bool) -> None:
        self.call, self.asked, self.params = call, asked, params
        self.lease: Mapping[str, Any] | None = None if check_mode else params["lease"]  # in check mode nothing is taken, and nothing is judged
        if check_mode:
            self.params["fail_if"] = "never"
        self.run = self.lease["run"] if self.lease else ""
        self.warnings: list[str] = []

    def plan(self) -> dict[str, Any]:
        """The result. Raises PlumblineError if the plan is refused, Failed if the result is a module's."""
        try:
            self._read_spec()
        except PlumblineError:
            self._ask({})  # a host that cannot be reached, or that no module can run on, is reported first
            raise
        back = self.run and self.params["fail_if"] in ("unfinished", "any")
        self.refused = "reading back was refused: " if back else NOTHING_WRITTEN
        result = self._leased(*self._read())
        warned = {"warnings": self.warnings} if self.warnings else {}
        unfit = fault_of(self.params["fail_if"], result)
        if not unfit:
            return {**warned, **printable_result(result)}
        if result["lease"] and self._release():  # the caller gets no lease from a failure
            result["released"] = self.run
        return {**warned, **failed_task(unfit, report=result["report"], released=result["released"])}

    def _read_spec(self) -> None:
        check_variables(self.params["variables"])
        self.stacks = read_stacks(self.params["stacks"])
        self.verify = None if self.params["verify"] is None else read_verify(self.params["verify"])
        self.gate = "off" if self.params["health"] is None else read_gate(self.params["health"])

    def _call(self, module: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """What a module returns on the host, with its answer as the text that it is. Raises Failed if it failed."""
        result = self.call(module, arguments)
        answer = as_data(result)
        if answer.get("failed") or answer.get("unreachable"):
            raise Failed({**as_data(result, OF_A_FAILURE), **_holder(answer.get("holder"))})
        self.warnings += answer.get("warnings", [])
        return {**answer, **({"answer": result["answer"]} if "answer" in result else {})}

    def _ask(self, asked: Mapping[str, Any] | None) -> object:
        """Call stack_plan on the host, with these questions."""
        arguments = dict(self.asked) if asked is None else {**self.asked, "questions": asked}
        if self.run:
            arguments["lease"] = {**arguments["lease"], "run": self.run}
        return self._call("stack_plan", arguments).get("answer")

    def _read(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Have the host read, and plan. Returns (the plan as a result, the lease as it was)."""
        asked = questions(self.stacks, verify=self.verify is not None, health=self.gate != "off")
        answer = unpacked(self._ask(plain(asked._asdict()) if self.stacks else None))
        try:
            result, warnings = made_of_reading(_planned, answer.reading, self.stacks, self.params["through"], self.verify, self.refused, self.gate)
        except PlumblineError as fault:
            if answer.held:
                held = NOTHING_WRITTEN + answer.held
                raise Failed(failed_task(PlumblineError(held, [held]), **_holder(answer.lease))) from fault
            self._release()
            raise
        self.warnings += [one_line(warning) for warning in warnings]
        return result, {"held": answer.held, "lease": answer.lease}

    def _leased(self, result: dict[str, Any], seen: Mapping[str, Any]) -> dict[str, Any]:
        """The result with the lease of this run, if steps remain; if none do, the lease is given back."""
        lease: dict[str, str] = {}
        if self.lease is not None and result["steps"]:
            lease, again = self._take(result, seen)
            if again:
                result, _seen = self._read()
                lease = self._take(result, None)[0] if result["steps"] else {}
        return {**result, "lease": lease, "released": self.run if not result["steps"] and self._release() else ""}

    def _take(self, result: Mapping[str, Any], seen: Mapping[str, Any] | None) -> tuple[dict[str, str], bool]:
        """Take the lease for a plan. Returns (the lease, whether another run had the host since it was read, so that it is to be read again)."""
        who = {key: (self.lease or {})[key] for key in ("controller", "process", "gone")}
        making, standing = filesystems_of(result)
        taken = self._call("run_lease", {"run": self.run, "take": {**who, "digest": result["digest"], "making": making, "standing": standing, "seen": seen}})
        lease = taken.get("lease")
        if not isinstance(lease, dict) or not isinstance(lease.get("run"), str):
            raise PlumblineError("what the host returned is no lease of this release")
        self.run = lease["run"]
        return {"run": self.run, "digest": result["digest"]}, bool(taken.get("again"))

    def _release(self) -> bool:
        """Give the lease of this run back. Returns whether it had it."""
        return bool(self.run and self._call("run_lease", {"run": self.run}).get("released"))


def _planned(reading: StorageReading, stacks: Sequence[Stack], *arguments: Any) -> tuple[dict[str, Any], list[str]]:
    """The plan of a reading as a result, with how long it will take, and warnings."""
    result, warnings = plan_reading(reading, stacks, *arguments)
    return {**result, "duration": duration_lines(result, stacks)}, warnings


def _holder(lease: object) -> dict[str, Any]:
    """Who has the lease, by what the host says of it, in the words of a result; nothing if it says none."""
    return {"holder": {key: one_line(str(lease.get(key, ""))) for key in ("run", "controller", "process", "since")}} if isinstance(lease, dict) else {}
