# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host keeps of the last reading of a drive's health. Pure."""

from __future__ import annotations

from typing import NamedTuple, Tuple

VALID_SECONDS = 86400  # an older reading says nothing of a drive as it is


class LastReading(NamedTuple):
    """One drive. *when*: seconds since 1970; *level*: the worst of its findings; *findings*: the text of those that are errors or warnings."""

    when: int
    level: str
    findings: Tuple[str, ...] = ()
