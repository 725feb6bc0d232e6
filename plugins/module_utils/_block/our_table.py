# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of a partition table of ours, as sfdisk makes it. Pure.

Source: UEFI Specification 2.10, 5.3.2 (GPT header: signature, CRC32 at 16, LBAs from 24, entries at 72).
"""

from __future__ import annotations

import binascii
import struct
import uuid
from typing import Any, Dict, Mapping, Sequence

_ENTRIES, _ENTRY = 128, 128  # as libfdisk makes them
_HEADER = struct.Struct("<8sIIIIQQQQ16sQIII")  # UEFI 2.10, 5.3.2
_MBR_ENTRY = struct.Struct("<B3sB3sII")


def disk_guid(partition_guid: str) -> str:
    """The GUID of a table, made from that of its one partition, so that the whole table is known before it is written."""
    return str(uuid.uuid5(uuid.UUID(partition_guid), "table")).upper()


def table_sectors(device: Mapping[str, Any]) -> Dict[int, bytes]:
    """The table that sfdisk makes for a device of a partition step: byte of each sector that is not zero → its content."""
    sector = device["logical_bytes"]
    last = device["size_bytes"] // sector - 1
    name = device["name"].encode("utf-16-le")[:72].ljust(72, b"\0")
    first, end = device["start_bytes"] // sector, (device["start_bytes"] + device["length_bytes"]) // sector - 1
    entry = uuid.UUID(device["type_guid"]).bytes_le + uuid.UUID(device["guid"]).bytes_le + struct.pack("<QQQ", first, end, 0) + name
    array = entry.ljust(_ENTRIES * _ENTRY, b"\0")
    taken = -(-len(array) // sector)
    places = {"primary": (1, last, 2), "backup": (last, 1, last - taken)}
    sectors = {0: _protective_mbr(sector, last)}
    for own, other, at in places.values():
        sectors[own * sector] = _gpt_header(device, (own, other, at), (2 + taken, last - taken - 1), array).ljust(sector, b"\0")
        sectors[at * sector] = array[:sector].ljust(sector, b"\0")
    return sectors


def _gpt_header(device: Mapping[str, Any], places: Sequence[int], usable: Sequence[int], array: bytes) -> bytes:
    own, other, at = places
    guid = uuid.UUID(disk_guid(device["guid"])).bytes_le
    crc = binascii.crc32(array) & 0xFFFFFFFF

    def pack(checksum: int) -> bytes:
        return _HEADER.pack(b"EFI PART", 0x10000, _HEADER.size, checksum, 0, own, other, usable[0], usable[1], guid, at, _ENTRIES, _ENTRY, crc)

    return pack(binascii.crc32(pack(0)) & 0xFFFFFFFF)


def _protective_mbr(sector: int, last: int) -> bytes:
    entry = _MBR_ENTRY.pack(0, b"\x00\x02\x00", 0xEE, b"\xff\xff\xff", 1, min(last, 0xFFFFFFFF))
    return (bytes(446) + entry + bytes(48) + b"\x55\xaa").ljust(sector, b"\0")
