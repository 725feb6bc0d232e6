# SPDX-License-Identifier: GPL-3.0-or-later
"""Speeds and widths of links, from the kernel's text and the drives' bytes to Mb/s (PCIe: MT/s) and lanes. Pure.

What is no speed or width of the standards is None: "Unknown", "<unknown>", "Phy disabled", a width of 0 or 255.
"""

from __future__ import annotations

import re
import struct
from typing import Optional

# drivers/ata/libata-transport.c sata_spd_string(), drivers/scsi/scsi_transport_sas.c sas_linkspeed_names, drivers/pci/probe.c pci_speed_string()
_SPEED = re.compile(r"([0-9]{1,2}(?:\.[05])?) (?:Gbps|Gbit|GT/s|GT/s PCIe)")
_SPEEDS = frozenset((1500, 3000, 6000, 12000, 22500, 2500, 5000, 8000, 16000, 32000, 64000))
_WIDTHS = ("1", "2", "4", "8", "12", "16", "32")  # PCIe 5.0 section 7.5.3.6
_GENERATIONS = (1500, 3000, 6000)  # of SATA
_PHY_RATES = {0x8: 1500, 0x9: 3000, 0xA: 6000, 0xB: 12000, 0xC: 22500}  # SPL-4, PHYSICAL LINK RATE
_IDENTIFY_AT = 60  # in VPD page 89h, SAT-3 10.3.5
_PHY_PAGE = b"\x59\x01"  # page 19h with a subpage (SPF), 01h


def parse_speed(text: str) -> Optional[int]:
    """``6.0 Gbps``, ``12.0 Gbit``, ``8.0 GT/s PCIe`` or ``8 GT/s``."""
    match = _SPEED.fullmatch(text)
    speed = round(float(match.group(1)) * 1000) if match else 0
    return speed if speed in _SPEEDS else None


def parse_width(text: str) -> Optional[int]:
    return int(text) if text in _WIDTHS else None


def parse_ahci_speed(text: str) -> Optional[int]:
    """The most that a controller's ports can do, from its capabilities (``ahci_host_caps``, hex): Interface Speed Support, AHCI 1.3.1 section 3.1.1."""
    caps = int(text, 16) if re.fullmatch("[0-9a-f]{1,8}", text) else 0
    generation = caps >> 20 & 0xF
    return _GENERATIONS[generation - 1] if 1 <= generation <= len(_GENERATIONS) else None


def parse_identify_words(text: str) -> Optional[int]:
    """sata_speed() of the file ``id`` of an ATA device: 256 words in hex (libata-transport.c, show_ata_dev_id())."""
    words = text.split()
    if len(words) != 256 or not all(re.fullmatch("[0-9a-f]{4}", word) for word in words):
        return None
    return sata_speed(struct.pack("<256H", *(int(word, 16) for word in words)))


def parse_ata_information(raw: bytes) -> Optional[int]:
    """sata_speed() of VPD page 89h, which has the IDENTIFY data of a SATA drive behind a SAS controller."""
    return sata_speed(raw[_IDENTIFY_AT:]) if len(raw) > 1 and raw[1] == 0x89 else None


def sata_speed(identify: bytes) -> Optional[int]:
    """The most that a SATA drive can do, by word 76 of IDENTIFY DEVICE: bits 1 to 3, where the word is not 0000h or FFFFh (ACS-3 7.12.7.36)."""
    word = struct.unpack_from("<H", identify, 152)[0] if len(identify) >= 512 else 0
    able = [speed for bit, speed in enumerate(_GENERATIONS, 1) if word & 1 << bit]
    return max(able) if able and not word & 1 else None  # bit 0 is always 0


def parse_phy_page(raw: bytes) -> Optional[int]:
    """The most that a SAS drive's phys can do, from MODE SENSE (10) of page 19h, subpage 01h.

    Source: SPL-4, Phy Control And Discover mode page: protocol identifier (6h) in byte 5, number of phys in byte 7, then 48 bytes for each phy, with
    the hardware maximum physical link rate in the low half of byte 33.
    """
    at = 8 + (struct.unpack_from(">H", raw, 6)[0] if len(raw) >= 8 else 0)
    page = raw[at:]
    if len(page) < 8 or bytes([page[0] & 0x7F, page[1]]) != _PHY_PAGE or page[5] & 0x0F != 6:
        return None
    rates = [_PHY_RATES.get(page[place + 33] & 0x0F) for place in range(8, 8 + 48 * page[7], 48) if place + 34 <= len(page)]
    known = [rate for rate in rates if rate]
    return max(known) if known else None
