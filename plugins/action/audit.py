# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller: M(plumbline.ssd.audit) reads the host, and the result is made here, in plugin_utils/views.py.

It keeps on the controller what was read, also that a host was not reached or could not be read.
"""

from __future__ import annotations

import json
import os
import time

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible_collections.plumbline.ssd.plugins.plugin_utils.files import absolute, file_name, prove_folder, write_whole
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ViewAction, host_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.views import audit

PARTS = ("device_info", "stack_info", "drive_health", "stack_plan")


def record_of(host, now, result):
    """The record of a host for the report. A result without any part is a module that failed."""
    parts = {name: result[name] for name in PARTS if name in result}
    return {"host": host, "time": now, **(parts or {"stack_info": {"failed": True, "msg": str(result.get("msg", "it returned nothing"))}})}


class ActionModule(ViewAction):
    """Everything but the record is the view's."""

    view = staticmethod(audit)

    def run(self, tmp=None, task_vars=None):
        host = host_of(task_vars)
        self._folder = absolute(self._task.args["record"]) if self._task.args.get("record") else ""
        if self._folder:
            try:
                prove_folder(self._folder)
            except OSError as fault:
                raise AnsibleActionFail(f"record {self._folder}: {fault.strerror}; wanted a folder that can be made and written to") from fault
        try:
            result = super().run(tmp, task_vars)
        except AnsibleConnectionFailure as fault:
            self._keep({"host": host, "time": _now(), "unreachable": str(fault)})
            raise
        self._keep(record_of(host, _now(), result))
        return result

    def _keep(self, record):
        if not self._folder:
            return
        path = os.path.join(self._folder, file_name([record["host"]]))
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        try:
            write_whole(path, text.encode("utf-8", "backslashreplace"))
        except OSError as fault:
            raise AnsibleActionFail(f"the record could not be kept in {path}: {fault.strerror}") from fault


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
