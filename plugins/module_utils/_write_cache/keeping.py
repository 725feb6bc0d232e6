# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has of the means that keep its write caches, as it is: persist_files judges it. I/O."""

from __future__ import annotations

import json
import os
from typing import Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._io.tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._model.storage_reading import Keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._write_cache import kept_paths


def read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except OSError:
        return ""


def has_systemd() -> bool:
    """Whether systemd runs this host."""
    return os.path.isdir("/run/systemd/system")


def timer_is_active(run: Runner) -> bool:
    """Whether systemd starts the timer and the service at boot, and the timer runs by now; or there is no systemd that could.

    The timer is stopped while a cache is switched. A killed run can leave it stopped, and so can whoever stops it by hand.
    """
    if not has_systemd():
        return True
    return all(os.path.islink(path) for path in kept_paths.WANTS) and run(["systemctl", "is-active", "--quiet", kept_paths.UNITS[0]])[0] == 0


def tool_exists(tool: str) -> bool:
    """Whether what a rule runs can be run: packages are removed, and rules do not mind."""
    return os.access(tool, os.X_OK)


def read_keeping(run: Runner) -> Keeping:
    """The files that are there, whether they are at work, and which of the tools that they name can be run."""
    paths = (kept_paths.RULES, kept_paths.SCRIPT, kept_paths.SERVICE, kept_paths.TIMER, kept_paths.STATE)
    texts = {path: read_file(path) for path in paths if os.path.lexists(path)}
    state = texts.get(kept_paths.STATE, "")
    return Keeping(texts, not state or timer_is_active(run), _tools_of(state))


def _tools_of(state: str) -> Tuple[str, ...]:
    """The tools that the state names and that can be run. A state that is none names no tool."""
    try:
        named = {str(device["tool"]) for device in json.loads(state)["devices"]}
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(sorted(tool for tool in named if tool_exists(tool)))
