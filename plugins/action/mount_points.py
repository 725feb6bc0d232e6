# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.mount_points): it prints the report of what the module read back."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ReportingAction


class ActionModule(ReportingAction):
    """What was mounted, or else what was read back."""

    def report_of(self, result):
        return result.pop("report", None) or (result.get("reading") or {}).get("report")
