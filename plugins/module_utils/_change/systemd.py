# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

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
