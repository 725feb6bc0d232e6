# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what a module reports for people, on the controller."""

from __future__ import annotations

from ansible.plugins.action import ActionBase


def print_report(display, host, lines):
    """Print the lines of a report below the name of their host, in one piece: hosts work side by side."""
    if lines:
        display.display("\n".join([f"[{host}]", *(f"  {line}" for line in lines)]))


class ReportingAction(ActionBase):
    """Passes the task to the module, and prints the report that report_of() takes from the result."""

    TRANSFERS_FILES = False
    _requires_connection = True
    _supports_async = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        result = self._execute_module(module_args=self._task.args, task_vars=task_vars, wrap_async=self._task.async_val)
        print_report(self._display, task_vars["inventory_hostname"], self.report_of(result))
        return result

    def report_of(self, result):
        """The lines to print; it may change the result."""
        raise NotImplementedError
