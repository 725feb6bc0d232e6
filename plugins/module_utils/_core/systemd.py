# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd's units: their names, and what is asked of systemctl. Opens nothing itself."""

from __future__ import annotations

import os
from typing import Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed


def unit_name(path: str) -> str:
    """The systemd unit of a mount point, systemd-escape(1)."""
    words = os.path.normpath(path).strip("/")
    escaped = "".join(
        "-" if char == "/" else char if (char.isalnum() and char.isascii()) or (char in ":_." and (char, at) != (".", 0)) else _hex(char)
        for at, char in enumerate(words)
    )
    return (escaped or "-") + ".mount"


def systemctl(run: Runner, *words: str, fault: str = "") -> Tuple[int, str, str]:
    """What systemctl(1) returned for these words. With *fault* it raises PlumblineError that begins so, where it failed."""
    result = run(["systemctl", *words])
    if fault:
        must_succeed(result, fault)
    return result


def reload_units(run: Runner) -> None:
    systemctl(run, "daemon-reload", fault="systemd could not read its units again")


def _hex(char: str) -> str:
    return "".join("\\x%02x" % byte for byte in os.fsencode(char))
