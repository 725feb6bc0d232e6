# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.mount_points): it plans what the module read back, and prints the report of it."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import as_data
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan_host import failure, read_back
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ReportingAction


class ActionModule(ReportingAction):
    """What was mounted, or else what was read back."""

    def ask(self, task_vars, arguments=None, **more):
        result = super().ask(task_vars, arguments, **more)
        told = as_data(result)
        args = self._task.args
        told = {key: value for key, value in told.items() if key not in ("answer", "reading")}  # what was read back is planned here, or there is none
        if told.get("failed") or told.get("unreachable") or not args.get("read_back") or self._task.check_mode or self._task.async_val:
            return told
        changed = bool(told.get("changed"))
        try:
            reading, warnings, unfit = read_back(result.get("answer"), args["read_back"], args.get("verify"), args.get("fail_if", "never"))
        except PlumblineError as fault:
            return {**failure(fault), "changed": changed}
        told["warnings"] = told.get("warnings", []) + warnings
        if unfit:
            return {**told, **failure(unfit, report=reading["report"]), "changed": changed}
        return {**told, "reading": reading}

    def report_of(self, result):
        reading = result.get("reading")
        return result.pop("report", None) or (reading.get("report") if isinstance(reading, dict) else None)
