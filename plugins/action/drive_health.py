# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.drive_health): it prints the report of a call that judges the drives."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ReportingAction


class ActionModule(ReportingAction):
    """A failure has its reasons, and not the table as well."""

    def report_of(self, result):
        report = result.pop("report", None) if result.get("failed") else result.get("report")
        return report if "fail_if" in self._task.args else None
