# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host has of the means that keep its write caches, as it is: persist_files judges it. I/O."""

from __future__ import annotations

import json
import os
from typing import Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import kept_paths
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping


def read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except OSError:
        return ""


def has_systemd() -> bool:
    """Whether systemd runs this host."""
    return os.path.isdir("/run/systemd/system")


def starts_at_boot() -> bool:
    """Whether systemd starts the service at boot; or there is no systemd that could."""
    return not has_systemd() or os.path.islink(kept_paths.WANTS)


def tool_exists(tool: str) -> bool:
    """Whether what a rule runs can be run: packages are removed, and the rules stay."""
    return os.access(tool, os.X_OK)


def read_keeping() -> Keeping:
    """The files that are there, whether they are at work, and which of the tools that they name can be run."""
    paths = (kept_paths.RULES, kept_paths.SCRIPT, kept_paths.SERVICE, kept_paths.TIMER, kept_paths.STATE)
    texts = {path: read_file(path) for path in paths if os.path.lexists(path)}
    state = texts.get(kept_paths.STATE, "")
    return Keeping(texts, not state or starts_at_boot(), _tools_of(state))


def _tools_of(state: str) -> Tuple[str, ...]:
    """The tools that the state names and that can be run. A state that is none names no tool."""
    try:
        named = {str(device["tool"]) for device in json.loads(state)["devices"]}
    except (ValueError, KeyError, TypeError):
        return ()
    return tuple(sorted(tool for tool in named if tool_exists(tool)))
