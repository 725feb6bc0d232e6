# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller knows its own dead, and says so where a plan asks for the lease."""

from __future__ import annotations

import os
import subprocess

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.plumbline.ssd.plugins.action import stack_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils import report


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
    action._task, action._display = Task(args), None

    def execute(module_args, task_vars, wrap_async, module_name):
        assert module_name == "plumbline.ssd.stack_plan"
        asked.append({**module_args, "lease": dict(module_args["lease"])} if module_args.get("lease") else module_args)
        return answers.pop(0)

    action._execute_module = execute
    assert action.run(task_vars={"inventory_hostname": "db07"}) == results[-1]
    assert len(asked) == calls
    if isinstance(args.get("lease"), dict):
        assert asked[0]["lease"]["process"] == stack_plan.name_process(os.getppid()) and "gone" not in asked[0]["lease"]
        assert asked[0]["lease"].get("run", "") == args["lease"].get("run", "")
    else:
        assert asked == [args]
    assert [one["lease"].get("gone") for one in asked[1:]] == ["b" * 32] * (calls - 1)


# --- what the host cannot run -----------------------------------------------------------------------


@pytest.mark.parametrize("key", ["msg", "module_stderr", "exception"])
def test_a_host_whose_python_is_too_old_is_told_in_one_line(key):
    """Python 3.6 cannot compile a module of ours: a traceback, without this."""
    said = "Traceback (most recent call last):\n  File \"<stdin>\", line 12\nSyntaxError: future feature annotations is not defined\n"
    found = report.explained({"failed": True, "rc": 1, key: said})
    assert found["failed"] and "\n" not in found["msg"] and "ansible_python_interpreter" in found["msg"] and "older than 3.7" in found["msg"]


@pytest.mark.parametrize("result", [{"failed": True, "msg": "refused: nothing was written."}, {"changed": False, "msg": "annotations"}])
def test_other_results_stay_as_they_are(result):
    assert report.explained(result) is result
