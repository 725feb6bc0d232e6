# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.audit): it keeps there what was read, also that a host was not reached or could not be read."""

from __future__ import annotations

import json
import os
import time
from urllib.parse import quote

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.files import write_whole

PARTS = ("device_info", "stack_info", "drive_health", "stack_plan")


def record_of(host, now, result):
    """The record of a host for the report. A result without any part is a module that failed."""
    parts = {name: result[name] for name in PARTS if name in result}
    return {"host": host, "time": now, **(parts or {"stack_info": {"failed": True, "msg": str(result.get("msg", "it returned nothing"))}})}


class ActionModule(ActionBase):
    """Everything but the record is the module's."""

    TRANSFERS_FILES = False
    _requires_connection = True

    def run(self, tmp=None, task_vars=None):
        super().run(tmp, task_vars)
        host = task_vars["inventory_hostname"]
        try:
            result = self._execute_module(module_args=self._task.args, task_vars=task_vars)
        except AnsibleConnectionFailure as fault:
            self._keep({"host": host, "time": _now(), "unreachable": str(fault)})
            raise
        self._keep(record_of(host, _now(), result))
        return result

    def _keep(self, record):
        directory = self._task.args.get("record")
        if not directory:
            return
        name = quote(record["host"], safe=" ()[]@,+=") + ".json"  # a name of an inventory may hold a slash
        path = os.path.join(os.path.abspath(os.path.expanduser(directory)), name)
        text = json.dumps(record, indent=1, sort_keys=True) + "\n"
        try:
            write_whole(path, text.encode("utf-8", "backslashreplace"), 0o600)
        except OSError as fault:
            raise AnsibleActionFail(f"the record could not be kept in {path}: {fault.strerror}") from fault


def _now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
