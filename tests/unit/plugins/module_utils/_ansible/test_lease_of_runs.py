# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan that means to write comes with the lease, and one that leaves nothing to do gives it back; the controller knows its own dead."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.plumbline.ssd.plugins.action import stack_plan
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible import plan_call
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._records import begun, lease_file
from ansible_collections.plumbline.ssd.plugins.module_utils._records.lease_file import Held, Run


class Plans(list):
    """What is still to be found; *proofs*: whether each reading so far read blank devices."""

    def __init__(self):
        super().__init__()
        self.proofs = []
        self.stacks = []


@pytest.fixture
def plans(tmp_path, monkeypatch):
    """What the readings of the host will find, one after the other: (steps, digest), or a refusal."""
    monkeypatch.setattr(lease_file, "DIRECTORY", str(tmp_path / "plumbline"))
    monkeypatch.setattr(lease_file, "connection", lease_file.Process)
    todo = Plans()
    proofs = todo.proofs

    def read(*_args, prove=True, **_more):
        proofs.append(prove)
        found = todo.pop(0)
        if callable(found):
            found = found()
        if isinstance(found, Exception):
            raise found
        return {"steps": found[0], "digest": found[1], "stacks": todo.stacks}, []

    monkeypatch.setattr(plan_call, "read", read)
    monkeypatch.setattr(begun, "MAKING", str(tmp_path / "kept" / "making.json"))
    return todo


ONE, TWO = ([{"action": "a step"}], "1" * 64), ([{"action": "another"}], "2" * 64)
DONE = ([], "")


def ask(me=None):
    """A plan that means to write."""
    return plan_call.read_to_write(None, (), "filesystem", None, me or Run(controller="me@here"))


def current():
    """The lease as it is."""
    return lease_file.peek(Run())[0]


def test_a_host_that_is_as_asked_needs_no_lease(plans):
    plans += [DONE]
    assert ask()[0] == {"steps": [], "digest": "", "stacks": [], "lease": {}, "released": ""}
    assert current() is None


def test_from_the_first_plan_to_the_last(plans):
    plans += [ONE, TWO, DONE]
    first = ask()[0]
    assert first["lease"] == {"run": current().run, "digest": ONE[1]} and not current().free
    second = ask(Run(first["lease"]["run"]))[0]  # with the tools
    assert second["lease"] == {"run": first["lease"]["run"], "digest": TWO[1]} and current().digest == TWO[1]
    last = ask(Run(first["lease"]["run"]))[0]
    assert (last["lease"], last["released"]) == ({}, first["lease"]["run"]) and current().free


def test_another_run_is_refused_with_the_holders_name(plans):
    plans += [ONE, TWO, DONE, PlumblineError("refused: nothing was written. it is busy")]
    run = ask(Run(controller="first@there"))[0]["lease"]["run"]
    with pytest.raises(Held, match=r"of first@there") as caught:
        ask()
    assert caught.value.holder["run"] == run
    assert ask()[0]["lease"] == {}, "nothing to write, nothing to wait for"
    with pytest.raises(Held, match=r"of first@there"):
        ask()  # what the other run is about to change is no reason worth naming
    assert current().run == run


def test_while_another_run_has_the_host_no_device_is_read_for_a_proof(plans):
    """That run would find it open."""
    plans += [ONE, PlumblineError("unproven"), ONE]
    run = ask()[0]["lease"]["run"]
    with pytest.raises(Held):
        ask()
    ask(Run(run))
    assert plans.proofs == [True, False, True]


def test_what_was_seen_while_another_run_had_the_host_is_looked_at_again(plans, monkeypatch):
    """That run could still write, and no device was read for a proof."""
    plans += [ONE]
    ask()

    def it_falls_silent():
        later = lease_file._now() + 10 * lease_file.GRACE_SECONDS
        monkeypatch.setattr(lease_file, "_now", lambda: later)
        return ONE

    plans += [it_falls_silent, TWO]
    result = ask(Run(controller="other@there"))[0]
    assert plans.proofs == [True, False, True] and result["lease"]["digest"] == TWO[1] == current().digest


def test_a_run_that_came_and_went_meanwhile_is_seen(plans):
    """Between the reading and the lease another run has built all there is to build."""

    def meanwhile():
        lease = lease_file.take(Run(controller="quick@there"), "")[0]
        lease_file.release(lease.run)
        return ONE

    plans += [meanwhile, DONE]
    result = ask()[0]
    assert (result["steps"], result["lease"]) == ([], {}) and current().free and plans == []
    plans += [meanwhile, TWO]
    result = ask()[0]
    assert result["lease"]["digest"] == TWO[1] == current().digest
    lease_file.release(current().run)
    plans += [meanwhile, PlumblineError("refused")]
    with pytest.raises(PlumblineError, match="refused"):
        ask()
    assert current().free


def test_a_refusal_gives_it_back(plans):
    plans += [ONE, PlumblineError("refused")]
    run = ask()[0]["lease"]["run"]
    with pytest.raises(PlumblineError, match="refused"):
        ask(Run(run))
    assert current().free


# --- on the controller -----------------------------------------------------------------------------


def test_a_process_of_this_controller():
    assert not stack_plan.is_gone(stack_plan.name_process(os.getpid()))
    child = subprocess.Popen(["sleep", "60"])
    name = stack_plan.name_process(child.pid)
    assert not stack_plan.is_gone(name)
    child.kill()
    child.wait()
    assert stack_plan.is_gone(name)
    here, pid, started = stack_plan.name_process(os.getpid()).split(":")
    assert stack_plan.is_gone("%s:%s:%d" % (here, pid, int(started) + 1)), "its number was given out again"


def test_a_process_that_cannot_be_read_is_alive(monkeypatch):
    """A /proc with hidepid, on a controller that several people share."""
    child = subprocess.Popen(["sleep", "60"])
    name = stack_plan.name_process(child.pid)
    monkeypatch.setattr(stack_plan, "_read", lambda path, read=stack_plan._read: "" if path.endswith("/stat") else read(path))
    assert not stack_plan.is_gone(name)
    child.kill()
    child.wait()
    assert stack_plan.is_gone(name)


def test_a_process_of_somebody_else_is_alive(monkeypatch):
    def kill(_pid, _signal):
        raise PermissionError

    name = stack_plan.name_process(os.getpid())
    monkeypatch.setattr(stack_plan.os, "kill", kill)
    assert not stack_plan.is_gone(name)


def test_a_zombie_is_gone():
    child = subprocess.Popen(["sleep", "60"])
    name = stack_plan.name_process(child.pid)
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert stack_plan.is_gone(name)
    child.wait()


@pytest.mark.parametrize("name", ["", ":", "::", "x:1:2", "0123456789abcdef:999999999:1", "{{ 1 }}", "a:b:c:d"])
def test_what_is_of_another_controller_is_never_gone(name):
    assert not stack_plan.is_gone(name)


@pytest.mark.parametrize("rest", ["", "x:1", "-1:1", "1.5:1", "٣:1"])
def test_what_names_no_process_is_never_gone(rest):
    assert not stack_plan.is_gone("%s:%s" % (stack_plan._here(), rest))


class Task:
    """What the action looks at of a task."""

    async_val, check_mode = 0, False

    def __init__(self, args):
        self.args = args


@pytest.mark.parametrize(
    "args, results, calls",
    [
        ({"stacks": []}, [{"changed": False}], 1),
        ({"stacks": [], "lease": None}, [{"changed": False}], 1),
        ({"stacks": [], "lease": {}}, [{"changed": True}], 1),
        ({"stacks": [], "lease": {"run": "a" * 32}}, [{"failed": True, "msg": "no"}], 1),
        ({"stacks": [], "lease": {}}, [{"failed": True, "holder": {"run": "b" * 32, "process": "alive"}}], 1),
        ({"stacks": [], "lease": {}}, [{"failed": True, "holder": {"run": "b" * 32, "process": "dead"}}, {"changed": True}], 2),
        ({"stacks": [], "lease": {}}, [{"failed": True, "holder": "strange"}], 1),
    ],
)
def test_the_action_asks_again_only_for_a_dead_run_of_its_own(monkeypatch, args, results, calls):
    monkeypatch.setattr(stack_plan, "is_gone", lambda name: name == "dead")
    monkeypatch.setattr(stack_plan, "plan_host", lambda call, arguments, check_mode: call("stack_plan", arguments))
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp, task_vars: {})
    asked, answers = [], list(results)
    action = stack_plan.ActionModule.__new__(stack_plan.ActionModule)
    action._task = Task(args)

    def execute(module_args, task_vars, wrap_async):
        asked.append({**module_args, "lease": dict(module_args["lease"])} if module_args.get("lease") else module_args)
        return answers.pop(0)

    action._execute_module = execute
    assert action.run(task_vars={}) == results[-1]
    assert len(asked) == calls
    if isinstance(args.get("lease"), dict):
        assert asked[0]["lease"]["process"] == stack_plan.name_process(os.getppid()) and "gone" not in asked[0]["lease"]
        assert asked[0]["lease"].get("run", "") == args["lease"].get("run", "")
    else:
        assert asked == [args]
    assert [one["lease"].get("gone") for one in asked[1:]] == ["b" * 32] * (calls - 1)


# --- filesystems that are being made --------------------------------------------------------------


def test_what_is_about_to_be_made_is_recorded_until_it_stands(plans):
    plans += [([{"action": "volume_group"}, {"action": "filesystem", "uuid": "a"}, {"action": "filesystem", "uuid": "b"}], "1" * 64), TWO, DONE]
    run = Run(ask()[0]["lease"]["run"])
    assert begun.load_making() == ["a", "b"]
    plans.stacks = [{"layers": [{"layer": "lv"}, {"layer": "filesystem", "uuid": "a"}]}]
    ask(run)
    assert begun.load_making() == ["b"]
    plans.stacks += [{"layers": [{"layer": "filesystem", "uuid": "b"}]}]
    ask(run)
    assert begun.load_making() == []


def test_a_run_that_fails_behind_mkfs_leaves_no_leave_to_make_it_anew(plans, tmp_path, monkeypatch):
    """It does not read back. The volume may hold a database when it loses its superblock."""
    plans += [([{"action": "filesystem", "uuid": one} for one in "abc"], "1" * 64), PlumblineError("refused")]
    run = Run(ask()[0]["lease"]["run"])
    (tmp_path / "a").write_text("")
    monkeypatch.setattr(begun, "BY_UUID", str(tmp_path) + "/")
    begun.forget_made(["b"])
    assert begun.load_making() == ["c"]
    (tmp_path / "c").write_text("")
    with pytest.raises(PlumblineError, match="refused"):
        ask(run)
    assert begun.load_making() == []


def test_without_a_record_nothing_is_begun(plans, tmp_path):
    (tmp_path / "kept").write_text("")
    plans += [([{"action": "filesystem", "uuid": "a"}], "1" * 64)]
    with pytest.raises(PlumblineError, match="which filesystems are being made could not be kept"):
        ask()
    assert current().free


@pytest.mark.parametrize("text", ["", "[]", "3", '{"filesystems": "a"}', '{"filesystems": [3]}'])
def test_a_record_that_says_nothing(plans, tmp_path, text):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "making.json").write_text(text)
    assert begun.load_making() == []


# --- what the host cannot run -----------------------------------------------------------------------


@pytest.mark.parametrize("key", ["msg", "module_stderr", "exception"])
def test_a_host_whose_python_is_too_old_is_told_in_one_line(key):
    """Python 3.6 cannot compile a module of ours: a traceback, without this."""
    said = "Traceback (most recent call last):\n  File \"<stdin>\", line 12\nSyntaxError: future feature annotations is not defined\n"
    found = stack_plan.explained({"failed": True, "rc": 1, key: said})
    assert found["failed"] and "\n" not in found["msg"] and "ansible_python_interpreter" in found["msg"] and "older than 3.7" in found["msg"]


@pytest.mark.parametrize("result", [{"failed": True, "msg": "refused: nothing was written."}, {"changed": False, "msg": "annotations"}])
def test_other_results_stay_as_they_are(result):
    assert stack_plan.explained(result) is result


def test_it_can_run_in_the_background():
    assert stack_plan.ActionModule._supports_async
