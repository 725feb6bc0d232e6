# SPDX-License-Identifier: GPL-3.0-or-later
"""What an array with redundancy is doing, and what its last check found. Pure. Source: Documentation/admin-guide/md.rst, md(4)."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple, Optional, Tuple

WAITING = "waiting"  # a resync that is due and has not begun, as of an array that nobody has written to since it was assembled
# What moves data until all members hold what they should; a check and a repair read an array that holds it.
SYNCING = ("resync", "recover", "reshape", WAITING)
CHECKING = ("check", "repair")
_RATIO = re.compile(r"([0-9]{1,20}) ?/ ?([0-9]{1,20})")
_COUNT = re.compile(r"[0-9]{1,20}")


class RaidState(NamedTuple):
    """*action*: idle, frozen, or a word of SYNCING or CHECKING; *done* of *total* sectors of that (0: not known).

    *mismatches*: sectors that differed between its members at the last check; None: it was not checked since it was assembled.
    """

    action: str = "idle"
    done: int = 0
    total: int = 0
    mismatches: Optional[int] = None


def parse_ratio(text: str) -> Tuple[int, int]:
    """``1024 / 200704`` or ``1024/200704``, in sectors; (0, 0) for ``none``, ``delayed`` and whatever else."""
    match = _RATIO.fullmatch(text.strip())
    return (int(match.group(1)), int(match.group(2))) if match else (0, 0)


def parse_count(text: str) -> Optional[int]:
    """A number of sectors; None for whatever else."""
    return int(text) if _COUNT.fullmatch(text) else None


def md_state(files: Mapping[str, str]) -> RaidState:
    """What the files below md/ of an array say, by their names.

    A count of mismatches is what a check found. Behind a repair it is what was made equal, and behind any other action it means nothing.
    """
    action = files.get("sync_action", "")
    if action == "idle" and parse_count(files.get("resync_start", "")) is not None:  # of an array that is in sync it is "none"
        action = WAITING
    checked = files.get("last_sync_action") == "check" and action != "check"
    return RaidState(action or "idle", *parse_ratio(files.get("sync_completed", "")), parse_count(files.get("mismatch_cnt", "")) if checked else None)
