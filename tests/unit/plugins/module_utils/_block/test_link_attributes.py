# SPDX-License-Identifier: GPL-3.0-or-later
"""Speeds and widths of links: the kernel's words, and the drives' bytes."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import link_attributes


@pytest.mark.parametrize("text, speed", [
    ("1.5 Gbps", 1500), ("3.0 Gbps", 3000), ("6.0 Gbps", 6000),
    ("1.5 Gbit", 1500), ("12.0 Gbit", 12000), ("22.5 Gbit", 22500),
    ("2.5 GT/s", 2500), ("5 GT/s", 5000), ("8 GT/s", 8000), ("8.0 GT/s PCIe", 8000), ("16.0 GT/s PCIe", 16000), ("64.0 GT/s PCIe", 64000),
    *((word, None) for word in ("", "<unknown>", "Unknown", "Unknown speed", "Phy disabled", "Link Rate failed", "Spin-up hold", "0 GT/s", "7.0 Gbps",
                                "6.0", "6.0 Gbps\n3.0 Gbps", "-6.0 Gbps", "6e0 Gbps", "666666.0 Gbps", "６.0 Gbps", "6.0 Gbps <script>", "\x00")),
])  # fmt: skip
def test_speeds(text, speed):
    assert link_attributes.parse_speed(text) == speed


@pytest.mark.parametrize("text, width", [
    ("1", 1), ("4", 4), ("12", 12), ("32", 32), *((word, None) for word in ("", "0", "3", "63", "255", "x4", "-4", "4.0", "Unknown", "９")),
])  # fmt: skip
def test_widths(text, width):
    assert link_attributes.parse_width(text) == width


@pytest.mark.parametrize("text, speed", [
    ("e730ff45", 6000),  # an Intel 6 series controller, by systool -c scsi_host
    ("c330ff43", 6000),
    ("40141f05", 1500),  # QEMU's ich9-ahci
    ("40241f05", 3000),
    ("0", None), ("40041f05", None), ("40f41f05", None), ("", None), ("unknown", None), ("0x40141f05", None), ("1" * 40, None),
])  # fmt: skip
def test_what_an_ahci_controller_can_do(text, speed):
    assert link_attributes.parse_ahci_speed(text) == speed


def identify(word76):
    """IDENTIFY DEVICE data with this word 76."""
    words = [0x0040] * 256
    words[76] = word76
    return words


SATA = [(0x0E, 6000), (0x06, 3000), (0x02, 1500), (0x850E, 6000), (0x0100, None), (0x0000, None), (0xFFFF, None), (0x0F, None), (0x10, None)]


@pytest.mark.parametrize("word, speed", SATA)
def test_what_a_sata_drive_can_do(word, speed):
    words = identify(word)
    raw = struct.pack("<256H", *words)
    lines = "".join("%04x%s" % (one, "\n" if number % 8 == 7 else " ") for number, one in enumerate(words))
    assert link_attributes.sata_speed(raw) == speed
    assert link_attributes.parse_identify_words(lines.strip()) == speed
    assert link_attributes.parse_ata_information(b"\x00\x89\x02\x38" + bytes(56) + raw) == speed


@pytest.mark.parametrize("text", ["", "0040", "0040 " * 255, "0040 " * 257, "zzzz " * 256, "00400 " * 256, "+040 " * 256])
def test_identify_data_that_are_none(text):
    assert link_attributes.parse_identify_words(text) is None


def test_ata_information_that_is_cut_off_or_another_page():
    raw = b"\x00\x89\x02\x38" + bytes(56) + struct.pack("<256H", *identify(0x0E))
    assert link_attributes.parse_ata_information(raw) == 6000
    assert [link_attributes.parse_ata_information(one) for one in (b"", b"\x00", raw[:571], b"\x00\x80" + raw[2:])] == [None] * 4


def phy_page(*rates, protocol=6, page=0x59, subpage=1, descriptor=b""):
    """What MODE SENSE (10) returns of the phys' page, each with programmed and hardware maximum in one byte."""
    phys = b"".join(bytes(32) + bytes([0x88, rate]) + bytes(14) for rate in rates)
    body = bytes([page, subpage]) + struct.pack(">H", 4 + len(phys)) + bytes([0, protocol, 0, len(rates)]) + phys
    return struct.pack(">HBBBBH", 6 + len(descriptor) + len(body), 0, 0, 0, 0, len(descriptor)) + descriptor + body


@pytest.mark.parametrize("raw, speed", [
    (phy_page(0xBB, 0xBB), 12000),
    (phy_page(0x9A, 0x9A), 6000),  # set to 3.0, and able to do 6.0
    (phy_page(0xBC), 22500),
    (phy_page(0x00, 0xBB), 12000),
    (phy_page(0xAA, descriptor=bytes(8)), 6000),
    (phy_page(0xAA, page=0xD9), 6000),  # PS
    (phy_page(0xAA, protocol=0), None), (phy_page(0xAA, page=0x19), None), (phy_page(0xAA, subpage=2), None),
    (phy_page(0x0F), None), (phy_page(), None), (b"", None), (phy_page(0xBB)[:20], None), (b"\xff" * 40, None),
])  # fmt: skip
def test_what_a_sas_drive_can_do(raw, speed):
    assert link_attributes.parse_phy_page(raw) == speed
