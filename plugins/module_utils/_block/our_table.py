# SPDX-License-Identifier: GPL-3.0-or-later
"""The bytes of a partition table of ours, as sfdisk makes it. Pure.

Source: UEFI Specification 2.10, 5.3.2 (GPT header: signature, CRC32 at 16, LBAs from 24, entries at 72).
"""

from __future__ import annotations

import binascii
import struct
import uuid
from typing import Any, Dict, Mapping, Sequence

ENTRIES, ENTRY = 128, 128  # as libfdisk makes them
HEADER = struct.Struct("<8sIIIIQQQQ16sQIII")  # UEFI 2.10, 5.3.2
_MBR_ENTRY = struct.Struct("<B3sB3sII")


def disk_guid(partition_guid: str) -> str:
    """The GUID of a table, made from that of its one partition, so that the whole table is known before it is written."""
    return str(uuid.uuid5(uuid.UUID(partition_guid), "table")).upper()


def entry_sectors(logical: int) -> int:
    """Sectors that the entries of a table take."""
    return -(-ENTRIES * ENTRY // logical)


def table_sectors(device: Mapping[str, Any]) -> Dict[int, bytes]:
    """The table that sfdisk makes for a device of a partition step: byte of each sector that is not zero → its content."""
    sector = device["logical_bytes"]
    last = device["size_bytes"] // sector - 1
    name = device["name"].encode("utf-16-le")[:72].ljust(72, b"\0")
    first, end = device["start_bytes"] // sector, (device["start_bytes"] + device["length_bytes"]) // sector - 1
    entry = uuid.UUID(device["type_guid"]).bytes_le + uuid.UUID(device["guid"]).bytes_le + struct.pack("<QQQ", first, end, 0) + name
    array = entry.ljust(ENTRIES * ENTRY, b"\0")
    taken = entry_sectors(sector)
    places = {"primary": (1, last, 2), "backup": (last, 1, last - taken)}
    sectors = {0: _protective_mbr(sector, last)}
    guid = uuid.UUID(disk_guid(device["guid"])).bytes_le
    for own, other, at in places.values():
        sectors[own * sector] = gpt_header(guid, (own, other, at), (2 + taken, last - taken - 1), array).ljust(sector, b"\0")
        sectors[at * sector] = array[:sector].ljust(sector, b"\0")
    return sectors


def gpt_header(guid: bytes, places: Sequence[int], usable: Sequence[int], array: bytes) -> bytes:
    """A header of a table with these entries. *places*: its own sector, that of the other header, and the first of its entries; *usable*: first and last."""
    own, other, at = places
    crc = binascii.crc32(array) & 0xFFFFFFFF

    def pack(checksum: int) -> bytes:
        return HEADER.pack(b"EFI PART", 0x10000, HEADER.size, checksum, 0, own, other, usable[0], usable[1], guid, at, ENTRIES, ENTRY, crc)

    return pack(binascii.crc32(pack(0)) & 0xFFFFFFFF)


def _protective_mbr(sector: int, last: int) -> bytes:
    entry = _MBR_ENTRY.pack(0, b"\x00\x02\x00", 0xEE, b"\xff\xff\xff", 1, min(last, 0xFFFFFFFF))
    return (bytes(446) + entry + bytes(48) + b"\x55\xaa").ljust(sector, b"\0")


def alike(raw: bytes, array: bytes, number: int) -> bool:
    """Whether these are the entries of a table, but for where a partition ends."""
    last = (number - 1) * ENTRY + 40
    return len(raw) == len(array) and raw[:last] + raw[last + 8 :] == array[:last] + array[last + 8 :]


def is_unsettled(head: bytes, logical: int) -> bool:
    """Whether a growth of a table of ours was cut off while its first copy was written: its entries are, or were about to be, in the spare place."""
    taken = entry_sectors(logical)
    spare = head[(2 + taken) * logical : (2 + 2 * taken) * logical]
    entries_at, count, each = HEADER.unpack_from(head, logical)[10:13]
    return entries_at == 2 + taken or (entries_at == 2 and (count, each) == (ENTRIES, ENTRY) and alike(spare, head[2 * logical : (2 + taken) * logical], 1))
