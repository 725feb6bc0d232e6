# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller: M(plumbline.ssd.device_info) reads the host, and the result is made here, in plugin_utils/views.py."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ReportingAction, ViewAction
from ansible_collections.plumbline.ssd.plugins.plugin_utils.views import device_info


class ActionModule(ViewAction, ReportingAction):
    """Prints the disks as a spec names them; all else about them is in the result."""

    view = staticmethod(device_info)

    def report_of(self, result):
        return result.get("names")
