# SPDX-License-Identifier: GPL-3.0-or-later
"""Which write caches this host keeps, and whether what keeps them is whole and at work. I/O."""

from __future__ import annotations

import os
from typing import Dict, List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._io.tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._write_cache import persist_files


def read_file(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except OSError:
        return ""


def read_entries() -> List[persist_files.Entry]:
    """The drives whose cache this host keeps."""
    return persist_files.parse_state(read_file(persist_files.STATE))


def has_systemd() -> bool:
    """Whether systemd runs this host."""
    return os.path.isdir("/run/systemd/system")


def differing(entries: Sequence[persist_files.Entry]) -> Dict[str, str]:
    """The files that are not what these entries ask for, with their text; an empty text means: no such file."""
    wanted = persist_files.files(entries)
    return {path: text for path, text in wanted.items() if read_file(path) != text or (not text and os.path.lexists(path))}


def timer_is_active(run: Runner) -> bool:
    """Whether systemd starts the timer and the service at boot, and the timer runs by now; or there is no systemd that could.

    The timer is stopped while a cache is switched. A killed run can leave it stopped, and so can whoever stops it by hand.
    """
    if not has_systemd():
        return True
    return all(os.path.islink(path) for path in persist_files.WANTS) and run(["systemctl", "is-active", "--quiet", persist_files.UNITS[0]])[0] == 0


def tool_exists(tool: str) -> bool:
    """Whether what a rule runs can be run: packages are removed, and rules do not mind."""
    return os.access(tool, os.X_OK)


def read_kept(run: Runner) -> Dict[str, str]:
    """Identity → the state that is kept, for an observation; empty where files are missing or were changed by others, or nothing works by them."""
    entries = read_entries()
    intact = not entries or (not differing(entries) and timer_is_active(run))
    kept = persist_files.kept_states(entries, intact, read_file(persist_files.RULES))
    return {**kept, **{entry.identity: "" for entry in entries if not tool_exists(entry.tool)}}
