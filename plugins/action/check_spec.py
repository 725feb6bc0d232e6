# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""M(plumbline.ssd.check_spec): runs on the controller, and asks no host. It takes the variables of the host as the inventory and the play have them."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError, several
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import plain
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec_check import check_spec, spec_lines
from ansible_collections.plumbline.ssd.plugins.plugin_utils.reading import failed_task
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ControllerAction, check_facts, host_of, print_report

ARGUMENTS: dict[str, Any] = {"variables": {"type": "list", "elements": "str", "default": []}}


class ActionModule(ControllerAction):
    """Needs no connection."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        asked = self.validate_argument_spec(ARGUMENTS)[1]["variables"]
        variables, broken = self._rendered(task_vars or {}, asked)
        try:
            check_facts(task_vars)
            stacks = check_spec(variables, [name for name in _public(task_vars) if asked and name not in asked])
            if broken:
                raise several("", broken)
        except PlumblineError as fault:
            reasons = [line for line in fault.reasons or [fault.msg] if line not in broken]
            return failed_task(several("", [*broken, *reasons]))
        lines = [] if asked else spec_lines(stacks, variables)  # a role that asks goes on to its own report
        if lines:
            print_report(self._display, host_of(task_vars), lines)
        return {"changed": False, "report": lines}

    def _rendered(self, task_vars: dict[str, Any], asked: list[str]) -> tuple[dict[str, Any], list[str]]:
        """The public variables without their templates, and what is wrong with those that no value could be made of."""
        variables, broken = {}, []
        for name in [name for name in _public(task_vars) if name in asked or not asked]:
            try:
                variables[name] = plain(self._templar.template(task_vars[name]))
            except AnsibleError as fault:
                broken.append(f"{name}: its template gives no value: {fault}")
            except (TypeError, ValueError, RecursionError) as fault:
                raise AnsibleActionFail(f"{name}: {fault}; wanted what YAML can say") from fault
        return variables, broken


def _public(task_vars: dict[str, Any] | None) -> list[str]:
    return sorted(name for name in task_vars or {} if name.startswith("plumbline_"))
