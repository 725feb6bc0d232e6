# SPDX-License-Identifier: GPL-3.0-or-later
"""The mark that a write load of ours leaves in each sector. Pure."""

from __future__ import annotations

MARK_BYTES = 16
SECTOR = 512
RANDOM_PERCENT = 95  # of each sector; fio fills the rest with the pattern


def tail_of(mark: bytes) -> bytes:
    """How each sector of 512 bytes ends that a load with this *mark* wrote: by that it is distinguished from data that somebody may need."""
    length = SECTOR - SECTOR * RANDOM_PERCENT // 100
    return (mark * length)[:length]
