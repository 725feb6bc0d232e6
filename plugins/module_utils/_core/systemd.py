# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of systemd's units. Pure."""

from __future__ import annotations

import os


def unit_name(path: str) -> str:
    """The systemd unit of a mount point, systemd-escape(1)."""
    words = os.path.normpath(path).strip("/")
    escaped = "".join(
        "-" if char == "/" else char if (char.isalnum() and char.isascii()) or (char in ":_." and (char, at) != (".", 0)) else _hex(char)
        for at, char in enumerate(words)
    )
    return (escaped or "-") + ".mount"


def _hex(char: str) -> str:
    return "".join("\\x%02x" % byte for byte in os.fsencode(char))
