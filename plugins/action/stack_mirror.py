# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.stack_mirror): what the host returns is data."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import HostAction


class ActionModule(HostAction):
    """All of it is the module's."""
