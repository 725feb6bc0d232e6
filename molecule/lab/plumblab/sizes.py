# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes with their unit, to bytes."""

from __future__ import annotations

import re

from .errors import LabError

_UNITS = {"": 1, "B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SIZE = re.compile(r"(\d+)\s*([A-Za-z]*)")


def to_bytes(value: object) -> int:
    """`2GiB` or a number of bytes; powers of 1024 only, because GB means two things."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match and match[2] in _UNITS:
            return int(match[1]) * _UNITS[match[2]]
    raise LabError(f"{value!r} is not a size; write bytes, or a whole number with one of {', '.join(u for u in _UNITS if u)}")
