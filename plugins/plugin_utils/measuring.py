# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugins of the measurements: who waits is told what begins, and how long it may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._proof.measurements import MEASUREMENTS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.duration import span
from ansible_collections.plumbline.ssd.plugins.plugin_utils.report import HostAction, host_of, print_report

# What a limit is of, where it is not of the whole call.
_EACH = {"offset_sweep": " for each layer", "throughput": ", and what the filling takes before", "fstrim_proof": " for each drive"}
_TARGETS = ("device", "path", "paths", "volumes")


def begin_line(name: str, arguments: Mapping[str, Any]) -> str:
    """What is measured, and the limit of it by the options of the task."""
    target = next(iter([arguments[key] for key in _TARGETS if arguments.get(key)]), "")
    what = ", ".join(map(str, target)) if isinstance(target, list) else str(target)
    try:
        limit = float(MEASUREMENTS[name].options(arguments)["max_seconds"])
    except (TypeError, ValueError):  # the module says what is wrong with it
        return f"{name} of {what} begins"
    return f"{name} of {what} begins: {span(0, max(limit, 1))}{_EACH.get(name, '')}"


class MeasuringAction(HostAction):
    """Says that the measurement begins. A call that only looks, in check mode, is not one."""

    def ask(self, task_vars, arguments=None, **more):
        if not self._task.check_mode:
            name = self._task.action.rpartition(".")[2]
            print_report(self._display, host_of(task_vars), [begin_line(name, self._task.args)])
        return super().ask(task_vars, arguments, **more)
