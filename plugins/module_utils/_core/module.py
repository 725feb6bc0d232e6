# SPDX-License-Identifier: GPL-3.0-or-later
"""What every module of the collection does with Ansible: demand root, end well, fail with reasons."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, NoReturn, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core import archive_imports  # noqa: F401 # pylint: disable=unused-import # acts on the next
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable, one_line


def need_root() -> None:
    """Raise PlumblineError where the module does not run as root."""
    if os.geteuid() != 0:
        raise PlumblineError("root is missing: the module runs as user %d; set become: true on the play or the task" % os.geteuid())


# The option fail_if of a module that reads the stacks: when it fails by what it found; see plan_reading.fault_of().
FAIL_IF = {"type": "str", "choices": ["never", "unfinished", "unsound", "any"], "default": "never"}
_LINES = ("report", "paragraphs")  # of a result: what people read, one line an item


def exit_success(module: Any, warnings: Sequence[str] = (), **result: Any) -> NoReturn:
    """End a module well. This is the one way out for a result, as PlumblineError is for a failure: nothing unprintable goes through either.

    Ansible takes no result of a module for a template (only what a playbook's author wrote is trusted as one), but it prints what it gets.
    """
    for warning in warnings:
        module.warn(one_line(warning))
    module.exit_json(**printable_result(result))
    raise SystemExit(0)


def printable_result(result: Mapping[str, Any]) -> Dict[str, Any]:
    """A result with nothing unprintable in it."""
    return {key: _printable(value, key in _LINES) for key, value in result.items()}


def _printable(value: Any, lines: bool = False) -> Any:
    if isinstance(value, str):
        return escape_unprintable(value, "" if lines else "\n\t")
    if isinstance(value, Mapping):
        return {_printable(key): _printable(inner, key in _LINES) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_printable(inner, lines) for inner in value]
    return value


def exit_refused(module: Any, fault: PlumblineError, warnings: Sequence[str] = (), **more: Any) -> NoReturn:
    """Fail the module with the message and its reasons, and nothing else but what is given besides."""
    for warning in warnings:
        module.warn(one_line(warning))
    module.fail_json(**refused_result(fault, more))
    raise SystemExit(1)


def refused_result(fault: PlumblineError, more: Mapping[str, Any]) -> Dict[str, Any]:
    """What a failure returns: the message, its reasons, and what is given besides."""
    reasons = {"reasons": fault.reasons} if fault.reasons else {}
    return {"msg": fault.msg, **reasons, **printable_result(more)}
