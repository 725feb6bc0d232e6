# SPDX-License-Identifier: GPL-3.0-or-later
"""SCSI vital product data pages, mode pages and sense data, from their bytes. Pure.

Source: SBC-4 6.6.4, Block Limits VPD page (B0h): optimal transfer length granularity at 6, optimal transfer
length at 12, optimal unmap granularity at 28, unmap granularity alignment at 32; all in logical blocks.
SPC-4 7.5.5 and 7.5.6, mode parameter header of 8 or 4 bytes; SBC-4 6.5.6, Caching mode page (08h): PS is bit 7 of byte 0,
WCE bit 2 of byte 2. SPC-4 7.8.7, Extended INQUIRY Data VPD page (86h): NV_SUP and V_SUP are bits 1 and 0 of byte 6.
SPC-4 4.5, sense data in fixed (70h, 71h) and in descriptor format (72h, 73h).
"""

from __future__ import annotations

import struct
from typing import Dict, NamedTuple, Optional, Tuple


def parse_block_limits(raw: bytes, logical: int) -> Dict[str, int]:
    """Read VPD page B0h and return bytes; a field of 0 says nothing and is left out."""
    if len(raw) < 16 or raw[1] != 0xB0:
        return {}
    fields = {"granularity": struct.unpack_from(">H", raw, 6)[0], "optimal": struct.unpack_from(">I", raw, 12)[0]}
    if len(raw) >= 36:
        fields["unmap_granularity"] = struct.unpack_from(">I", raw, 28)[0]
    return {name: count * logical for name, count in fields.items() if count}


CACHING_PAGE = 0x08


class CachingPage(NamedTuple):
    """What is used of a Caching mode page. Asked for changeable values, *write_back* says whether WCE can be changed."""

    write_back: bool  # WCE
    savable: bool  # PS: the drive can keep the page over a loss of power


def parse_caching_page(raw: bytes, ten: bool) -> Optional[CachingPage]:
    """Find the Caching page in what MODE SENSE returned; *ten*: the command of 10 bytes. None where it is not there."""
    head = 8 if ten else 4
    if len(raw) < head:
        return None
    end = min(len(raw), struct.unpack_from(">H", raw)[0] + 2 if ten else raw[0] + 1)
    at = head + (struct.unpack_from(">H", raw, 6)[0] if ten else raw[3])
    while at + 2 < end:
        long_form = bool(raw[at] & 0x40)  # SPF: a subpage, whose length has 16 bits
        if raw[at] & 0x3F == CACHING_PAGE and not long_form:
            return CachingPage(bool(raw[at + 2] & 0x04), bool(raw[at] & 0x80))
        at += 4 + struct.unpack_from(">H", raw, at + 2)[0] if long_form and at + 4 <= end else 2 + raw[at + 1]
    return None


def parse_extended_inquiry(raw: bytes) -> Tuple[bool, bool]:
    """Read VPD page 86h: whether the drive says that it has (a volatile, a non-volatile) cache. Many say neither and have one."""
    if len(raw) < 7 or raw[1] != 0x86:
        return False, False
    return bool(raw[6] & 0x01), bool(raw[6] & 0x02)


def parse_sense(raw: bytes) -> Tuple[int, int, int]:
    """Sense data → (key, additional code, its qualifier); (0, 0, 0) where there is none."""
    code = raw[0] & 0x7F if raw else 0
    if code in (0x70, 0x71) and len(raw) >= 14:
        return raw[2] & 0x0F, raw[12], raw[13]
    if code in (0x72, 0x73) and len(raw) >= 4:
        return raw[1] & 0x0F, raw[2], raw[3]
    return 0, 0, 0


_SENSE_WORDS = {
    (0x5, 0x20, 0x00): "it does not know the command",
    (0x5, 0x24, 0x00): "it does not know a field of the command",
    (0x5, 0x26, 0x00): "it does not take a field of the parameters",
    (0x5, 0x39, 0x00): "it saves no parameters",
    (0x2, 0x04, 0x00): "it is not ready",
}


def sense_text(sense: Tuple[int, int, int]) -> str:
    """Sense data for people."""
    return "%s (sense %x/%02x/%02x)" % ((_SENSE_WORDS.get(sense, "it refused"),) + sense)
