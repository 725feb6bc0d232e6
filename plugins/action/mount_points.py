# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.mount_points): it prints the report of what the module read back."""

from __future__ import annotations

from ansible.plugins.action import ActionBase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import print_report


class ActionModule(ActionBase):
    """Passes the task to the module."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_async = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        result = self._execute_module(module_args=self._task.args, task_vars=task_vars, wrap_async=self._task.async_val)
        report = result.pop("report", None) or (result.get("reading") or {}).get("report")
        print_report(self._display, task_vars["inventory_hostname"], report)
        return result
