# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan on the controller of what the host reads: which calls it takes, and how its lease comes and goes.

The host's part of each call is done here, with the lease in a directory of the test.
"""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core import keep_lease
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Held, Run
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun, read_packed
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import StorageReading
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.taken_lease import take_for_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import plan_host

STACKS = [{"name": "pgdata", "devices": ["a"], "layout": "separate", "volumes": [{"name": "data"}]}]
MAKE = {"action": "filesystem", "uuid": "u", "summary": "ext4"}
ONE, TWO, DONE = ([MAKE], "1" * 64), ([{"action": "another", "summary": "x"}], "2" * 64), ([], "")


class HostInMemory:
    """Answers the calls. *plans*: what each reading comes to; *meanwhile*: what happens between a reading and the next call."""

    def __init__(self):
        self.calls, self.proves, self.plans, self.check, self.meanwhile = [], [], [], False, []
        self.seen = Observation()

    def call(self, module, arguments):
        self.calls.append(module)
        try:
            answer = self.stack_plan(arguments) if module == "stack_plan" else self.run_lease(**arguments)
        except Held as fault:
            return {"failed": True, "msg": fault.msg, "holder": fault.holder}
        except PlumblineError as fault:
            return {"failed": True, "msg": fault.msg}
        return {"changed": False, "ansible_facts": {"module": module}, **answer}

    def stack_plan(self, arguments):
        if arguments.get("questions") == {}:
            return {"answer": ""}
        lease = arguments.get("lease")
        me = None if lease is None or self.check else Run(*(lease.get(name, "") for name in Run._fields))
        answer = read_packed.packed_answer(None, read_packed.read_questions(arguments["questions"]), me)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        return {"answer": answer}

    @staticmethod
    def run_lease(run, take=None):
        if take is None:
            return {"released": keep_lease.release(run)}
        taken, warnings = take_for_plan(run, take)
        return {**taken, "warnings": warnings}

    def ask(self, **more):
        self.calls.clear()
        return plan_host.plan_host(self.call, {"stacks": STACKS, "lease": {"controller": "me@here", "process": ""}, **more}, self.check)


@pytest.fixture
def host(tmp_path, monkeypatch):
    found = HostInMemory()
    monkeypatch.setattr(keep_lease, "DIRECTORY", str(tmp_path / "plumbline"))
    monkeypatch.setattr(keep_lease, "connection", keep_lease.Process)
    monkeypatch.setattr(keep_begun, "MAKING", str(tmp_path / "kept" / "making.json"))

    def read(_run, ask):
        found.proves.append(ask.prove)
        return StorageReading(found.seen, {}, {}, Keeping({}, True, ()), 0)

    def plan(*_args):
        steps = found.plans.pop(0)
        if isinstance(steps, Exception):
            raise steps
        error = {"level": "error", "layer": "ext4", "text": "it is off"}
        made = {"changed": bool(steps[0]), "steps": steps[0], "digest": steps[1], "stacks": [], "report": ["a report"]}
        return {**made, "findings": [] if steps[0] else [error]}, ["a\nwarning"]

    monkeypatch.setattr(read_packed, "read_for_plan", read)
    monkeypatch.setattr(plan_host, "plan_reading", plan)
    return found


def current():
    return keep_lease.peek(Run())[0]


def test_a_host_that_is_as_asked_is_one_call(host):
    host.plans += [DONE]
    result = host.ask()
    assert (result["steps"], result["lease"], result["released"], result["changed"]) == ([], {}, "", False)
    assert host.calls == ["stack_plan"] and current() is None
    assert result["warnings"] == ["a; warning"] and "ansible_facts" not in result
    assert "answer" not in result


def test_from_the_first_plan_to_the_last(host):
    host.plans += [ONE, TWO, DONE]
    first = host.ask()
    assert first["lease"] == {"run": current().run, "digest": ONE[1]} and first["digest"] == ONE[1] and not current().free
    assert host.calls == ["stack_plan", "run_lease"] and keep_begun.load_making() == ["u"]
    second = host.ask(lease={"run": first["lease"]["run"]})
    assert second["lease"] == {"run": first["lease"]["run"], "digest": TWO[1]} and current().digest == TWO[1]
    host.seen.filesystems["8:1"] = Filesystem("ext4", "u", "", 4096, 1, 0, 0, 1)
    last = host.ask(lease={"run": first["lease"]["run"]})
    assert (last["lease"], last["released"]) == ({}, first["lease"]["run"]) and current().free and keep_begun.load_making() == []


def test_without_a_lease_and_in_check_mode_none_is_taken(host):
    host.plans += [ONE, ONE, DONE]
    assert host.ask(lease=None)["lease"] == {} and host.calls == ["stack_plan"]
    host.check = True
    assert host.ask(fail_if="any")["lease"] == {} and host.calls == ["stack_plan"] and current() is None
    assert not host.ask(fail_if="any").get("failed"), "a finding fails nothing in check mode"


def test_another_run_is_refused_with_the_holders_name(host):
    host.plans += [ONE, TWO, DONE, PlumblineError("refused: nothing was written. it is busy")]
    run = host.ask(lease={"controller": "first@there"})["lease"]["run"]
    refused = host.ask()
    assert refused["failed"] and "of first@there" in refused["msg"] and refused["holder"]["run"] == run
    assert host.ask()["lease"] == {}, "nothing to write, nothing to wait for"
    busy = host.ask()
    assert "of first@there" in busy["msg"] and busy["reasons"] == [busy["msg"]] and set(busy["holder"]) == {"run", "controller", "process", "since"}
    assert current().run == run and host.proves == [True, False, False, False]


def test_while_another_run_has_the_host_no_device_is_read_for_a_proof(host):
    """That run would find it open."""
    host.plans += [ONE, PlumblineError("unproven"), ONE]
    run = host.ask()["lease"]["run"]
    assert host.ask()["failed"]
    host.ask(lease={"run": run})
    assert host.proves == [True, False, True]


def test_what_was_seen_while_another_run_had_the_host_is_looked_at_again(host, monkeypatch):
    host.plans += [ONE, ONE, TWO]
    host.ask()

    def it_falls_silent():
        later = keep_lease._now() + 10 * keep_lease.GRACE_SECONDS
        monkeypatch.setattr(keep_lease, "_now", lambda: later)

    host.meanwhile += [it_falls_silent]
    result = host.ask(lease={"controller": "other@there"})
    assert host.proves == [True, False, True] and result["lease"]["digest"] == TWO[1] == current().digest
    assert host.calls == ["stack_plan", "run_lease"] * 2 and any("was taken over" in line for line in result["warnings"])


def quick_run():
    keep_lease.release(keep_lease.take(Run(controller="quick@there"), "")[0].run)


@pytest.mark.parametrize("then, lease, calls", [(DONE, {}, 4), (TWO, TWO[1], 4), (PlumblineError("refused"), None, 4)])
def test_a_run_that_came_and_went_meanwhile_is_seen(host, then, lease, calls):
    """Between the reading and the lease another run has built all there is to build, or a part."""
    host.meanwhile += [quick_run]
    host.plans += [ONE, then]
    result = host.ask()
    assert host.plans == [] and len(host.calls) == calls and keep_begun.load_making() == []
    if lease is None:
        assert result["msg"] == "refused" and current().free
    else:
        assert result["lease"].get("digest", {}) == lease and current().free is not bool(lease)


def test_a_refusal_gives_it_back(host):
    host.plans += [ONE, PlumblineError("refused", ["a", "b"])]
    run = host.ask()["lease"]["run"]
    assert host.ask(lease={"run": run}) == {"failed": True, "changed": False, "msg": "refused", "reasons": ["a", "b"]}
    assert current().free


def test_a_failure_by_what_is_found_gives_it_back(host):
    host.plans += [ONE, DONE]
    left = host.ask(fail_if="any")
    assert left["failed"] and left["released"] == current().run and current().free and left["report"] == ["a report"] and "lease" not in left
    off = host.ask(fail_if="unsound")
    assert "it is off" in off["msg"] and off["released"] == "" and host.calls == ["stack_plan"]


def test_a_host_that_cannot_be_read_gives_it_back(host, monkeypatch):
    host.plans += [ONE]
    run = host.ask()["lease"]["run"]

    def broken(*_args):
        raise PlumblineError("it went away")

    monkeypatch.setattr(read_packed, "read_for_plan", broken)
    assert host.ask()["holder"]["run"] == run, "another run has it: that comes first"
    assert host.ask(lease={"run": run})["msg"] == "it went away" and current().free


def test_without_a_record_nothing_is_begun(host, tmp_path):
    (tmp_path / "kept").write_text("")
    host.plans += [ONE]
    assert "which filesystems are being made could not be kept" in host.ask()["msg"] and current().free


@pytest.mark.parametrize(
    "more, words",
    [
        ({"stacks": [{"name": "x"}]}, "'devices' is missing"),
        ({"variables": ["plumbline_stakcs"]}, "plumbline_stacks"),
        ({"verify": {"polici": "never"}}, "policy"),
        ({"health": {"gate": "of"}}, "gate"),
    ],
)
def test_a_mistake_in_the_spec_needs_no_reading(host, more, words):
    result = host.ask(**more)
    assert result["failed"] and words in str(result) and "\n" not in result["msg"] and host.proves == []


def test_arguments_that_are_none_are_told_by_the_module():
    told = {"failed": True, "msg": "Unsupported parameters"}
    assert plan_host.plan_host(lambda module, arguments: {**told, "asked": (module, arguments)}, {"stakcs": 1}) == told
    assert "stakcs" in plan_host.plan_host(lambda *_call: {"changed": False}, {"stakcs": 1})["msg"], "a host that has nothing against them"


@pytest.mark.parametrize("answer", [{"failed": True, "msg": "no"}, {"unreachable": True}])
def test_a_failure_of_the_host_is_told(answer):
    for stacks in (STACKS, [{}]):
        assert plan_host.plan_host(lambda *_call: answer, {"stacks": stacks}) == answer


LYING = {
    "verify": {"fetch": "/etc/cron.d", "show": "full", "inconclusive": "warn", "measures": {}}, "steps": [], "proofs": [], "report": ["x"],
    "ansible_facts": {"plumbline_verify": {"fetch": "/etc"}}, "add_host": {"host_name": "x"}, "_ansible_verbose_always": True, "_ansible_no_log": True,
    "invocation": {"module_args": {}}, "exception": "Traceback", "skipped": True, "deprecations": [{"msg": "x"}], "diff": {"before": "a", "after": "b"},
}  # fmt: skip


@pytest.mark.parametrize("answer", [{}, {"answer": None}, {"answer": {"reading": 1}}, {"answer": ["x"]}])
def test_a_success_without_an_answer_is_no_plan(answer):
    """Whatever else is in it: it says where the controller writes, and was taken for the plan."""
    result = plan_host.plan_host(lambda *_call: {"changed": True, **LYING, **answer}, {"stacks": STACKS})
    assert result["failed"] and set(result) == {"failed", "changed", "msg"}
    assert result["msg"] == "what the host returned is no reading of this release: it has no answer; wanted the module of the same release as on the controller"


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"stacks": {"name": "a"}}, "plumbline_stacks: found a mapping; wanted a list of stacks"),
        ({"stacks": "pgdata"}, "plumbline_stacks: found a string; wanted a list of stacks"),
        ({"stacks": [{"name": "a"}, "pgdata"]}, "plumbline_stacks[1]: found a string; wanted a mapping with name, devices and volumes"),
        ({"stacks": [], "verify": "always"}, "plumbline_verify: found a string; wanted a mapping"),
        ({"stacks": [], "health": ["gate"]}, "plumbline_health: found a list; wanted a mapping"),
    ],
)
def test_a_variable_of_another_type_is_told_by_its_name(arguments, words):
    of_module = {"failed": True, "msg": "argument 'stacks' is of type dict and we were unable to convert to list"}
    result = plan_host.plan_host(lambda module, given: of_module, arguments)
    assert result["failed"] and result["msg"] == words
    gone = {"unreachable": True, "msg": "no route to host"}
    assert plan_host.plan_host(lambda module, given: gone, arguments)["msg"] == "no route to host"


def test_a_failure_tells_what_a_failure_may_tell():
    answer = {"failed": "yes", "msg": "no\x1b]52;c;x\x07", "reasons": ["a\nb", 3], "holder": {"run": "\x9b2J", "more": 1}, "rc": 1}
    answer["module_stderr"] = "x\x1b[2J\ny"
    assert plan_host.plan_host(lambda *_call: {**answer, **LYING}, {"stacks": STACKS}) == {
        "failed": True,
        "msg": "no\\x1b]52;c;x\\x07",
        "reasons": ["a\\x0ab", "3"],
        "holder": {"run": "\\x9b2J", "controller": "", "process": "", "since": ""},
        "module_stderr": "x\\x1b[2J\ny",
        "rc": 1,
    }


@pytest.mark.parametrize("text", ["x", "", 3, None, []])
def test_a_reading_that_is_none(host, monkeypatch, text):
    monkeypatch.setattr(read_packed, "pack", lambda answer: text)
    result = host.ask()
    assert result["failed"] and result["msg"].startswith("what the host returned is no reading of this release: ")


@pytest.mark.parametrize("taken", [{}, {"lease": 3}, {"lease": {}}, {"lease": {"run": 3}}])
def test_a_lease_that_is_none(host, monkeypatch, taken):
    host.plans += [ONE]
    monkeypatch.setattr(host, "run_lease", lambda **_arguments: taken)
    assert host.ask()["msg"] == "what the host returned is no lease of this release"
