# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.stack_proof): it prints the report of a proof that came to its end."""

from __future__ import annotations

from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import lines_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ReportingAction


class ActionModule(ReportingAction):
    """A failure has its reasons alone. What is kept of the writes is reported with the reads, at the end."""

    def report_of(self, result):
        shown = self._task.args.get("show", "full") == "full" and boolean(self._task.args.get("final", True), strict=False)
        return [] if result.get("failed") or not shown else [*lines_of(result.get("report")), *lines_of(result.get("paragraphs"))]
