# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that are read as a whole: the module runs in the background of its host, and what it returns in the end is data as ever."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleConnectionFailure
from ansible_collections.plumbline.ssd.plugins.action import aligned_partition as action

DONE = {"finished": True, "changed": True, "partitions": [{"name": "sda1"}], "stdout": "", "results_file": "/root/x"}
RUNNING = {"finished": False, "started": True}


class Task:
    """What the action looks at of a task."""

    def __init__(self, devices, check_mode):
        self.args, self.check_mode, self.async_val = {"devices": devices}, check_mode, 0


def run(monkeypatch, devices, answers, check_mode=False, begun=None):
    """(what ask() returns, the calls: the module's limit in seconds, or the mode of a question; the lines that were printed)."""
    calls, said, todo = [], [], list(answers)
    monkeypatch.setattr(action.time, "sleep", lambda _seconds: None)
    monkeypatch.setattr(action, "print_report", lambda _display, _host, lines: said.extend(lines))
    one = action.ActionModule.__new__(action.ActionModule)
    one._task, one._display = Task(devices, check_mode), None
    one.get_shell_option = lambda _name, default: default

    def execute(module_args, task_vars, module_name=None, wrap_async=0):
        if module_name is None:
            calls.append(wrap_async)
            return (begun or {"ansible_job_id": "7.1"}) if wrap_async else {"changed": True}
        calls.append(module_args["mode"])
        assert (module_name, module_args["jid"]) == ("ansible.legacy.async_status", "7.1")
        answer = todo.pop(0) if module_args["mode"] == "status" else {}
        if isinstance(answer, Exception):
            raise answer
        return answer

    one._execute_module = execute
    result = one.ask({"inventory_hostname": "db07"})
    assert one._task.async_val == 0, "Ansible itself would ask on, and take what comes for more than data"
    return result, calls, said


@pytest.mark.parametrize(("devices", "check_mode"), [([{"full_proof": False}], False), ([{}], False), ("x", False), ([{"full_proof": True}], True)])
def test_what_takes_no_time_is_one_call(monkeypatch, devices, check_mode):
    assert run(monkeypatch, devices, [], check_mode)[:2] == ({"changed": True}, [0])


@pytest.mark.parametrize("full", [True, "true", "yes"])
def test_whole_devices_are_read_in_the_background(monkeypatch, full):
    result, calls, _said = run(monkeypatch, [{}, {"full_proof": full}], [RUNNING, AnsibleConnectionFailure("gone"), RUNNING, DONE])
    assert result == {"changed": True, "partitions": [{"name": "sda1"}]}
    assert calls == [action.LONGEST, *["status"] * 4, "cleanup"]


def test_it_says_now_and_then_that_it_is_still_at_work(monkeypatch):
    times = iter(range(0, 10_000, 200))
    monkeypatch.setattr(action.time, "monotonic", lambda: next(times))
    _result, _calls, said = run(monkeypatch, [{"full_proof": True}], [RUNNING] * 4 + [DONE])
    assert said and all("whole devices are being read since" in line and "journalctl" in line for line in said)


@pytest.mark.parametrize("end", [{"failed": True, "msg": "refused at the write"}, {"unreachable": True}])
def test_a_failure_is_the_result(monkeypatch, end):
    result, calls, _said = run(monkeypatch, [{"full_proof": True}], [RUNNING, end])
    assert result == end and (calls[-1] == "cleanup") is ("failed" in end)


def test_a_host_that_is_gone_for_long_is_told(monkeypatch):
    with pytest.raises(AnsibleConnectionFailure):
        run(monkeypatch, [{"full_proof": True}], [AnsibleConnectionFailure("gone")] * (action.MOST_FAULTS + 1))


@pytest.mark.parametrize("begun", [{"failed": True, "msg": "no"}, {"unreachable": True}, {"changed": False}, {"ansible_job_id": 7}])
def test_what_does_not_begin_is_not_asked_for(monkeypatch, begun):
    assert run(monkeypatch, [{"full_proof": True}], [], begun=begun)[:2] == (begun, [action.LONGEST])
