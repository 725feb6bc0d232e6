# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs on the controller: M(plumbline.ssd.stack_plan) reads the host, and the plan is made here, in plugin_utils/plan/plan_host.py.

It says who asks for the host's lease, and knows whether an earlier run lives. It also prints the report of a plan that judges what stands.

Only the controller can tell that a run of its own is gone: the host sees a connection, which ControlPersist shares between runs and keeps
after the last. Where the host names a holder of this very controller whose process is no more, it is asked once again, and the request says so.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import platform

from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_host import plan_host
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import HostAction, host_of, print_report


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def _here():
    """Names this controller: where the same process number is the same process. A container has numbers, and a name, of its own."""
    try:
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        space = ""
    words = "\n".join([platform.node(), _read("/proc/sys/kernel/random/boot_id").strip(), space])
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def _state(pid):
    """(state, start in ticks since boot) of a process, proc_pid_stat(5); empty where that cannot be read: no /proc, or one with hidepid."""
    words = _read(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (words[0], words[19]) if len(words) > 19 else ("", "")


def name_process(pid):
    """A process of this controller, distinguished from a later one with its number."""
    return f"{_here()}:{pid}:{_state(pid)[1]}"


def is_gone(name):
    """Whether a process is certainly no more: it was one of this controller, and its number is nobody's, a zombie's or another's.

    What cannot be read is no answer: on a controller whose /proc hides the processes of others (hidepid) theirs are alive.
    """
    here, _colon, rest = name.partition(":")
    number, _colon, started = rest.partition(":")
    if here != _here() or not (number.isascii() and number.isdigit() and len(number) < _LONGEST_NUMBER):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OverflowError:
        return False
    except OSError:
        pass  # it is there, and somebody else's
    state, began = _state(int(number))
    return bool(began) and (state in ("Z", "X") or (bool(started) and began != started))


_LONGEST_NUMBER = 20  # digits of a process number; the host names it


def _user():
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return str(os.getuid())


class ActionModule(HostAction):
    """Fills in who asks, if a lease is asked for, and prints the report if the task judges what stands.

    Nobody is here when a task in the background ends, so there is no async. What takes hours is done by aligned_partition.
    """

    _supports_async = False

    def run(self, tmp=None, task_vars=None):
        result = super().run(tmp, task_vars)
        lines, whole = [], self._is_whole()
        if self._task.args.get("fail_if", "never") != "never":
            if result.get("failed"):
                lines = result.pop("report", [])
            elif whole and (not result.get("changed") or self._task.check_mode):  # of a plan that is carried out, the steps speak
                lines = result.get("report", [])
        # How long it takes is printed before it begins, or in check mode.
        print_report(self._display, host_of(task_vars), [*lines, *(result.get("duration", []) if whole and not result.get("failed") else [])])
        return result

    def _is_whole(self):
        """Whether a report is printed of a plan that did not fail."""
        verify = self._task.args.get("verify")
        return not isinstance(verify, dict) or verify.get("show", "full") == "full"

    def ask(self, task_vars, arguments=None, **more):
        arguments = dict(self._task.args)
        lease = arguments.get("lease")
        if not isinstance(lease, dict):
            return self._plan(arguments, task_vars)
        # A task runs in a process of its own, whose parent is the run.
        own = {"controller": f"{_user()}@{platform.node()}", "process": name_process(os.getppid())}
        arguments["lease"] = {**own, **lease}
        result = self._plan(arguments, task_vars)
        holder = result.get("holder") if result.get("failed") else None
        if isinstance(holder, dict) and is_gone(str(holder.get("process", ""))):
            arguments["lease"]["gone"] = str(holder.get("run", ""))
            result = self._plan(arguments, task_vars)
        return result

    def _plan(self, arguments, task_vars):
        return plan_host(self.caller(task_vars), arguments, self._task.check_mode)
