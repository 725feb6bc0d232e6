# SPDX-License-Identifier: GPL-3.0-or-later
"""The verdicts of a measurement: their words, and the worst of several. Pure."""

from __future__ import annotations

from typing import Sequence

PASS = "pass"
ACCEPTED = "accepted"  # it passes, except for what has no result and was explicitly accepted
FAIL = "fail"
INCONCLUSIVE = "inconclusive"
UNFINISHED = "unfinished"  # writes were measured, and nothing since
NOT_JUDGED = "not_judged"  # there is no rule: it is only shown

_FROM_WORST = (FAIL, UNFINISHED, INCONCLUSIVE, ACCEPTED, PASS)


def worst(verdicts: Sequence[str]) -> str:
    """Of several verdicts the worst; of none, inconclusive: what was not measured is not proven."""
    return min(verdicts, key=_FROM_WORST.index) if verdicts else INCONCLUSIVE
