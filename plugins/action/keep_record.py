# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""M(plumbline.ssd.keep_record): runs on the controller, and writes there and nowhere else. Of a host it only reads a file that the task names."""

from __future__ import annotations

import base64
import json
import os
import time
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.plugin_utils.files import absolute, file_name, prove_folder, write_whole
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import OF_A_FAILURE, as_data
from ansible_collections.plumbline.ssd.plugins.plugin_utils.record_file import LARGEST, parse_record
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import ControllerAction, check_facts, host_of, print_report

ARGUMENTS = {
    "directory": {"type": "path", "required": True},
    "name": {"type": "list", "elements": "str", "default": []},
    "record": {"type": "dict"},
    "source": {"type": "path"},
}


class ActionModule(ControllerAction):
    """Needs a connection only for a file of the host."""

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        super().run(tmp, task_vars)
        _checked, params = self.validate_argument_spec(ARGUMENTS, mutually_exclusive=[("record", "source")])
        try:
            check_facts(task_vars)
        except PlumblineError as fault:
            raise AnsibleActionFail(fault.msg) from fault
        self._host = host_of(task_vars)
        folder, check = absolute(params["directory"]), self._task.check_mode
        kept = params["record"] is not None or params["source"] is not None
        before = os.path.isdir(folder)
        try:
            prove_folder(folder, check)
        except OSError as fault:
            raise AnsibleActionFail(f"directory {folder}: {fault.strerror}; wanted a folder of the controller that can be made and written to") from fault
        if not kept:
            return self._result(folder, "" if before else "made", changed=not before)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        own = {"host": self._host, "time": now}
        record, failed = ({**params["record"], **own}, {}) if params["source"] is None else self._read(params["source"], task_vars)
        if failed:
            return failed
        record = record if params["source"] is None else {**record, "kept": now}
        path = os.path.join(folder, file_name([self._host, *params["name"]]))
        text = json.dumps(record, indent=1, sort_keys=True, default=str) + "\n"
        if not check:
            try:
                write_whole(path, text.encode("utf-8", "backslashreplace"))
            except OSError as fault:
                raise AnsibleActionFail(f"{path}: {fault.strerror}; wanted a file that can be written") from fault
        return self._result(path, "kept in", changed=True)

    def _result(self, path: str, words: str, changed: bool) -> dict[str, Any]:
        print_report(self._display, self._host, [f"{words} {path}"] if words else [])
        return {"changed": changed, "path": path}

    def _read(self, source: str, task_vars: dict[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """(the record in a file of the host, or the failure of the call). What it says of its host is not kept: the file's name says that."""
        result = self._execute_module(module_name="ansible.legacy.slurp", module_args={"src": source}, task_vars=task_vars)
        answer = as_data(result, OF_A_FAILURE)
        if answer.get("failed") or answer.get("unreachable"):
            return {}, answer
        try:
            content = result.get("content")
            if not isinstance(content, str) or len(content) > 2 * LARGEST:
                raise ValueError("found no text of at most 32 MiB; wanted the record of a proof")
            record = parse_record(base64.b64decode(content, validate=True))
            if not isinstance(record, dict):
                raise ValueError("found a value that is no mapping; wanted the record of a proof")
        except ValueError as fault:
            raise AnsibleActionFail(f"{source} on the host: {fault}") from fault
        return {key: value for key, value in record.items() if key != "host"}, {}
