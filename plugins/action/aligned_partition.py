# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller, beside M(plumbline.ssd.aligned_partition): what the host returns is data.

Where whole devices are read, which takes hours, the module runs in the background of its host and is asked again and again, so that no connection has to
last that long. This is done here and not by async of the task: what that returns in the end would not be taken for data.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from ansible.errors import AnsibleConnectionFailure
from ansible.module_utils.parsing.convert_bool import boolean
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import HostAction, host_of, print_report

LONGEST = 14 * 86400  # seconds: 60 TB at 50 MB/s
EVERY = 10.0  # seconds between two questions
TELL_EVERY = 300.0
MOST_FAULTS = 30  # connections that fail one after the other
# What belongs to the background, and not to the result of the module.
_OF_THE_JOB = ("ansible_job_id", "started", "finished", "results_file", "stdout", "stderr", "stdout_lines", "stderr_lines", "erased")


def reads_whole_devices(args):
    """Whether any of the devices is to be proven blank in full."""
    devices = args.get("devices")
    entries = [entry for entry in devices if isinstance(entry, Mapping)] if isinstance(devices, list) else []
    return any(boolean(entry.get("full_proof", False), strict=False) for entry in entries)


class ActionModule(HostAction):
    """Has the module run in the background where it takes long."""

    def ask(self, task_vars, arguments=None, **more):
        if self._task.async_val or self._task.check_mode or not reads_whole_devices(self._task.args):
            return super().ask(task_vars, arguments, **more)
        self._task.async_val = LONGEST
        try:
            started = super().ask(task_vars, arguments, **more)
        finally:
            self._task.async_val = 0
        job = started.get("ansible_job_id")
        if started.get("failed") or started.get("unreachable") or not isinstance(job, str) or not job:
            return started
        return self._end_of(job, task_vars)

    def _end_of(self, job, task_vars):
        """What the module returned in the end."""
        began = reported = time.monotonic()
        faults = 0
        while True:
            time.sleep(EVERY)
            try:
                result = self._of_job(job, "status", task_vars)
                faults = 0
            except AnsibleConnectionFailure:
                faults += 1
                if faults > MOST_FAULTS:
                    raise
                continue
            if result.get("finished") or result.get("failed") or result.get("unreachable"):
                break
            if time.monotonic() - reported >= TELL_EVERY:
                reported = time.monotonic()
                minutes = round((reported - began) / 60)
                log = "journalctl --follow --grep 'plumbline: blank proof' on the host says how far it is"
                print_report(self._display, host_of(task_vars), [f"whole devices are being read since {minutes} minutes; {log}"])
        if not result.get("unreachable"):
            self._of_job(job, "cleanup", task_vars)
        return {key: value for key, value in result.items() if key not in _OF_THE_JOB}

    def _of_job(self, job, mode, task_vars):
        arguments = {"jid": job, "mode": mode, "_async_dir": self.get_shell_option("async_dir", default="~/.ansible_async")}
        return self._execute_module(module_name="ansible.legacy.async_status", module_args=arguments, task_vars=task_vars)
