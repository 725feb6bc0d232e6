# SPDX-License-Identifier: GPL-3.0-or-later
"""How good or bad something is, from the worst to what was not asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable

ERROR = "error"
MISSING = "missing"
WARNING = "warning"
UNKNOWN = "unknown"
INFO = "info"
OK = "ok"
NONE = "none"

# From the worst. *missing*: the host did not answer. *unknown*: it was looked at, without a result.
LEVELS = (ERROR, MISSING, WARNING, UNKNOWN, INFO, OK, NONE)
GLYPHS = {ERROR: "✕", MISSING: "∅", WARNING: "!", UNKNOWN: "?", INFO: "i", OK: "✓", NONE: "–"}
MEANS = {
    ERROR: "wrong, to be mended first",
    MISSING: "the host or the drive was not reached",
    WARNING: "worth a look",
    UNKNOWN: "looked at, and cannot be told",
    INFO: "good to know; nothing has to be done",
    OK: "as it should be",
    NONE: "not part of this report",
}
_RANKS = {level: rank for rank, level in enumerate(LEVELS)}


def rank(level: str) -> int:
    """0 for the worst."""
    return _RANKS.get(level, _RANKS[UNKNOWN])


def worst_of(levels: Iterable[str]) -> str:
    """The worst of several levels; of none, what was not asked."""
    return min(levels, key=rank, default=NONE)
