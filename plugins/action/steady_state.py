# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.steady_state): it prints what a run costs, and how far it is."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import lines_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ReportingAction


class ActionModule(ReportingAction):
    """All of it is the module's."""

    def report_of(self, result):
        return [*lines_of(result.get("wear")), *lines_of(result.get("report"))]
