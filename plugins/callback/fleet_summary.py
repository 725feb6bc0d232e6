# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet_summary
type: aggregate
short_description: What a run over many hosts came to, in ten lines
version_added: 0.1.0
description:
  - At the end of a playbook that planned storage, prints how many hosts are as specified, changed, failed or unreachable, and then what is wrong, worst
    first. What is wrong with several hosts in the same way is one line.
  - With C(show) set to V(summary) in C(plumbline_verify), a host in the desired state prints nothing else.
requirements:
  - It has to be enabled, for example by C(callbacks_enabled = plumbline.ssd.fleet_summary) in C(ansible.cfg).
seealso:
  - module: plumbline.ssd.stack_plan
  - module: plumbline.ssd.report
author:
  - the plumbline.ssd authors (@plumbline)
"""

from ansible.plugins.callback import CallbackBase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import words
from ansible_collections.plumbline.ssd.plugins.plugin_utils.run_summary import FAILED, UNREACHABLE, HostRun, kept_of_plan, outcome_of, summary_lines

_PLANS = ("plumbline.ssd.stack_plan", "stack_plan")


class CallbackModule(CallbackBase):
    """Keeps the last plan and the last failure of each host."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "plumbline.ssd.fleet_summary"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, display=None, options=None):
        super().__init__(display=display, options=options)
        self._plans, self._faults = {}, {}

    def v2_runner_on_ok(self, result):
        if result._task.action in _PLANS:
            self._plans[result._host.get_name()] = kept_of_plan(result._result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        if result._task.action in _PLANS:
            self._plans.setdefault(result._host.get_name(), {})
        if not ignore_errors:
            self._faults[result._host.get_name()] = words(result._result.get("msg") or "")

    def v2_runner_on_unreachable(self, result):
        if result._task.action in _PLANS:
            self._plans.setdefault(result._host.get_name(), {})
        self._faults[result._host.get_name()] = words(result._result.get("msg") or "")

    def v2_playbook_on_stats(self, stats):
        runs = []
        for host, plan in self._plans.items():
            outcome = outcome_of(stats.summarize(host), plan)
            ended = outcome in (FAILED, UNREACHABLE)
            runs.append(HostRun(host, outcome, self._faults.get(host, "") if ended else "", plan))
        lines = summary_lines(runs)
        if lines:
            self._display.banner("PLUMBLINE")
            self._display.display("\n".join(lines))
