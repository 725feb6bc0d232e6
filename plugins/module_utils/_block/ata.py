# SPDX-License-Identifier: GPL-3.0-or-later
"""ATA identify data, from the bytes of IDENTIFY DEVICE. Pure.

Source: ACS-3 7.12.7. Words 82-83 count where bits 15:14 of word 83 are 01b, words 85-87 where those of word 87 are.
Bit 5 of word 82: the volatile write cache is supported; of word 85: it is enabled.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional


class AtaCache(NamedTuple):
    """The volatile write cache by words 82 and 85. None: the drive does not say."""

    supported: Optional[bool]
    enabled: Optional[bool]


def parse_identify(raw: bytes) -> AtaCache:
    """Read IDENTIFY DEVICE (512 bytes, little-endian words)."""
    if len(raw) < 512:
        return AtaCache(None, None)
    words = struct.unpack_from("<256H", raw)
    supported = bool(words[82] & 1 << 5) if words[83] >> 14 == 1 else None
    enabled = bool(words[85] & 1 << 5) if words[87] >> 14 == 1 else None
    if supported is False:
        enabled = False
    return AtaCache(supported, enabled)


def zeros_after_trim(raw: bytes) -> bool:
    """Whether trimmed blocks read as zeros by the drive's own word: DRAT and RZAT, bits 14 and 5 of word 69 (ACS-3, 7.12.7.27)."""
    return len(raw) >= 512 and struct.unpack_from("<256H", raw)[69] & (1 << 14 | 1 << 5) == 1 << 14 | 1 << 5
