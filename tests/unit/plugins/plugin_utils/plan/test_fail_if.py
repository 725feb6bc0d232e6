# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.plumbline.ssd.plugins.action import stack_plan
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import FAIL_IF
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_reading import fault_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import print_report

OFF = {"level": "error", "layer": "partition", "text": "the partition is off"}
LOST = {"level": "error", "layer": "mount", "text": "barriers are off"}
NOTE = {"level": "warning", "layer": "mount", "text": "a warning"}
STEP = {"summary": "mount /data01"}
LEFT = "still to be done: mount /data01"


def told(fail_if, findings=(), steps=()):
    fault = fault_of(fail_if, {"findings": list(findings), "steps": list(steps)})
    return fault.msg if fault else ""


@pytest.mark.parametrize(
    "findings, steps, failing",
    [
        ((), (), ()),
        ((NOTE,), (), ()),
        ((), (STEP,), ("unfinished", "any")),
        ((OFF,), (), ("unsound", "any")),
        ((OFF,), (STEP,), ("unfinished", "any")),  # "unsound" lets the steps be carried out first
    ],
)
@pytest.mark.parametrize("fail_if", FAIL_IF["choices"])
def test_what_fails(fail_if, findings, steps, failing):
    assert bool(told(fail_if, findings, steps)) == (fail_if in failing)


def test_the_message_has_all():
    said = told("any", [OFF, NOTE, LOST], [STEP])
    assert "the partition is off; barriers are off; " + LEFT + ". It is left in place. Look first at the layer" in said
    assert "acknowledged data can be lost" in said and "a warning" not in said
    assert "acknowledged" not in told("any", [OFF]) and "Look first" not in told("any", [LOST])
    assert told("unfinished", [OFF], [STEP]).endswith("installed on it: %s. It is left in place." % LEFT)


class Display:
    def __init__(self):
        self.said = []

    def display(self, text):
        self.said.append(text)


def test_a_report_is_printed_in_one_piece():
    display = Display()
    print_report(display, "db07", ["one", "two"])
    print_report(display, "db07", [])
    print_report(display, "db07", None)
    assert display.said == ["[db07]\n  one\n  two"]


class Task:
    async_val = 0

    def __init__(self, check_mode=False, **args):
        self.args, self.check_mode = args, check_mode


def run(plugin, result, task):
    """What the action of a module prints, and returns, for the result of the module."""
    action = object.__new__(plugin.ActionModule)
    action._task, action._display = task, Display()
    action._execute_module = lambda **_more: dict(result)
    action._supports_check_mode, action._connection = True, None
    ActionBase.run, real = (lambda self, tmp=None, task_vars=None: {}), ActionBase.run
    try:
        returned = action.run(task_vars={"inventory_hostname": "db07"})
    finally:
        ActionBase.run = real
    return action._display.said, returned


@pytest.mark.parametrize(
    "fail_if, changed, failed, check, printed",
    [
        ("never", False, False, False, False),
        ("unsound", False, False, False, True),
        ("unsound", True, False, False, False),  # what is read back is printed
        ("unsound", True, False, True, True),
        ("any", True, True, False, True),
    ],
)
def test_when_the_plan_prints_its_report(monkeypatch, fail_if, changed, failed, check, printed):
    monkeypatch.setattr(stack_plan, "plan_host", lambda call, arguments, check_mode: call("stack_plan", arguments))
    result = {"changed": changed, "failed": failed, "report": ["one"]}
    said, returned = run(stack_plan, result, Task(check, fail_if=fail_if))
    assert said == (["[db07]\n  one"] if printed else [])
    assert ("report" in returned) is not failed, "a failure would print it a second time"


def test_a_refused_plan_has_no_report():
    assert run(stack_plan, {"failed": True, "msg": "refused"}, Task(fail_if="any")) == ([], {"failed": True, "msg": "refused"})
