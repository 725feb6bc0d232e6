# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of stack_plan, which the module on the host and the action plugin on the controller both read."""

from __future__ import annotations

from typing import Any, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import FAIL_IF

_RUN = {name: {"type": "str", "default": ""} for name in ("run", "digest", "controller", "process", "gone")}
PLAN_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "stacks": {"type": "list", "elements": "dict", "required": True},
    "through": {"type": "str", "choices": ["write_cache", "partition", "striped_lvm", "filesystem"], "default": "filesystem"},
    "verify": {"type": "dict"},
    "health": {"type": "dict"},
    "fail_if": FAIL_IF,
    "variables": {"type": "list", "elements": "str", "default": []},
    "lease": {"type": "dict", "options": _RUN},
}
