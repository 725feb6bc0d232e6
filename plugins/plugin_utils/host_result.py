# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module returned from a host, as the controller takes it: data, of which nothing is an instruction to the controller. Pure.

A host may return anything: variables that Ansible would set, keys that only the controller itself writes, text that drives a terminal. What
is left here is what a module may tell, each value of its type, printable, and of a bounded length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import printable_result
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable, one_line

# Ansible acts on these: it sets variables of the host or of the whole run, adds hosts and groups, skips the task, takes a failure for none, or prints
# them as its own.
_ACTED_ON = (
    *("ansible_facts", "ansible_stats", "add_host", "add_group", "invocation", "exception", "deprecations", "skipped", "skip_reason", "skipped_reason"),
    *("failed_when_result", "failed_when_suppressed_exception", "results"),
)
_FLAGS = ("changed", "failed", "unreachable")
_LINES = ("reasons", "report", "paragraphs", "warnings")
_OUTPUT = ("module_stdout", "module_stderr", "stdout", "stderr")  # of a module that did not come to a result
# What a failure of a module may tell beside its own keys.
OF_A_FAILURE = ("msg", "reasons", "warnings", "rc", *_FLAGS, *_OUTPUT)

_DEEPEST = 64  # levels of lists and mappings in each other; a plan has some ten
_LONGEST_TEXT = 1 << 20  # characters of one value: an fstab as a diff is far below it
_LONGEST_LINE = 4000
_MOST_LINES = 10_000


def as_data(result: Any, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """The result of a module without what Ansible would act on. *only*: of all other keys, these."""
    if not isinstance(result, Mapping):
        return _no_result(f"found {type(result).__name__}")
    try:
        result = plain(result)
    except (TypeError, ValueError) as fault:
        return _no_result(str(fault))
    except RecursionError:
        return _no_result("it is nested too deeply")
    told = {str(key): value for key, value in result.items() if key not in _ACTED_ON and (not only or key in only)}
    told = {key: value for key, value in told.items() if not key.startswith("_ansible_") or key == "_ansible_parsed"}
    try:
        data = printable_result({key: _bounded(value) for key, value in told.items() if key not in _LINES})
    except RecursionError:
        return _no_result("it is nested too deeply")
    data.update({key: bool(told[key]) for key in _FLAGS if key in told})
    data.update({key: one_line(_text(told["msg"])) for key in ("msg",) if key in told})
    data.update({key: lines_of(told[key]) for key in _LINES if key in told})
    if "diff" in data:
        data["diff"] = _diff(data["diff"])
    return data


def _no_result(why: str) -> dict[str, Any]:
    return {"failed": True, "changed": False, "msg": f"what the host returned is no result of a module of this release: {why}"}


def lines_of(value: Any) -> list[str]:
    """Lines for people, from whatever stands in their place: of each what can be printed, and of all as many as somebody may read."""
    ones = value if isinstance(value, (list, tuple)) else [value] if value else []
    lines = [line_of(one) for one in ones[:_MOST_LINES]]
    return [*lines, f"… and {len(ones) - _MOST_LINES:,} more lines"] if len(ones) > _MOST_LINES else lines


def line_of(value: Any) -> str:
    """One line for people. The blanks before it stay: a table needs them."""
    text = _text(value)
    line = escape_unprintable(text[:_LONGEST_LINE])
    return line if len(text) <= _LONGEST_LINE else f"{line} … ({len(text):,} characters)"


def _text(value: Any) -> str:
    """A value as text. What a module of ansible-core 2.19 or newer warns of is an object with its message inside."""
    told = getattr(getattr(value, "event", None), "msg", value)
    return told if isinstance(told, str) else str(told)


def plain(value: Any) -> Any:
    """A value as JSON has it: without what Ansible notes of its parts, which a host may have made up (ansible-core 2.19 has tags on texts)."""
    return json.loads(json.dumps(value, default=_text))


def _bounded(value: Any, level: int = 0) -> Any:
    """The same with each text cut to what somebody may have written. RecursionError where no result of ours is so deep."""
    if level > _DEEPEST:
        raise RecursionError
    if isinstance(value, str):
        return value if len(value) <= _LONGEST_TEXT else f"{value[:_LONGEST_TEXT]} … ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {str(key)[:_LONGEST_LINE]: _bounded(one, level + 1) for key, one in value.items()}
    return [_bounded(one, level + 1) for one in value] if isinstance(value, (list, tuple)) else value


def _diff(value: Any) -> Any:
    """Texts before and after, and what they are of, or a list of such; Ansible prints them as they are."""
    if isinstance(value, list):
        return [_diff(one) for one in value]
    keys = ("before", "after", "before_header", "after_header", "prepared")
    return {key: value[key] for key in keys if isinstance(value.get(key), str)} if isinstance(value, Mapping) else {}
