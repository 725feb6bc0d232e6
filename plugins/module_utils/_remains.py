# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What is left of a table of ours whose writing was cut off, told from anything else to the byte. Pure.

sfdisk writes five pieces, in the order that UEFI asks for: backup entries, backup header, entries, header, protective MBR (libfdisk,
gpt_write_disklabel()). A kill ends that anywhere, and a power cut may keep any of the sectors, since a volatile cache writes in an order
of its own. But nothing in a table of ours is left to chance: its GUIDs are made beforehand. So each sector of both ends of the device is
either zero or exactly what would stand there in the end, or the device is somebody else's.
"""

from __future__ import annotations

import binascii
import struct
import uuid
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._guards import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Ends, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import MIB

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
    sectors = {0: _protective(sector, last)}
    for own, other, at in places.values():
        sectors[own * sector] = _header(device, (own, other, at), (2 + taken, last - taken - 1), array).ljust(sector, b"\0")
        sectors[at * sector] = array[:sector].ljust(sector, b"\0")
    return sectors


def _header(device: Mapping[str, Any], places: Sequence[int], usable: Sequence[int], array: bytes) -> bytes:
    own, other, at = places
    guid = uuid.UUID(disk_guid(device["guid"])).bytes_le
    crc = binascii.crc32(array) & 0xFFFFFFFF

    def pack(checksum: int) -> bytes:
        return _HEADER.pack(b"EFI PART", 0x10000, _HEADER.size, checksum, 0, own, other, usable[0], usable[1], guid, at, _ENTRIES, _ENTRY, crc)

    return pack(binascii.crc32(pack(0)) & 0xFFFFFFFF)


def _protective(sector: int, last: int) -> bytes:
    entry = _MBR_ENTRY.pack(0, b"\x00\x02\x00", 0xEE, b"\xff\xff\xff", 1, min(last, 0xFFFFFFFF))
    return (bytes(446) + entry + bytes(48) + b"\x55\xaa").ljust(sector, b"\0")


def is_unfinished(ends: Ends, device: Mapping[str, Any], ones: bool = False) -> bool:
    """Whether a device holds a part of exactly the table that this step writes, and nothing else at its ends.

    A protective MBR alone is anybody's: it has no GUID in it. *ones*: the drive says that what nobody wrote reads as 0xFF.
    """
    if len(ends.head) != MIB or len(ends.tail) < MIB or not MIB <= ends.tail_at == device["size_bytes"] - len(ends.tail):
        return False
    sectors, size = table_sectors(device), device["logical_bytes"]
    found = False
    for start, raw in ((0, ends.head), (ends.tail_at, ends.tail)):
        for at in range(0, len(raw), size):
            piece = raw[at : at + size]
            if piece.count(0) == len(piece) or (ones and piece.count(0xFF) == len(piece)):
                continue
            if sectors.get(start + at) != piece:
                return False
            found = found or start + at > 0
    return found


def can_be_finished(seen: Observation, devno: str, device: Mapping[str, Any]) -> bool:
    """The same of a device that was observed."""
    ones = deallocated_reads_ones(int(seen.namespaces.get(devno, {}).get("dlfeat", 0)))
    return is_unfinished(seen.ends.get(devno, Ends()), device, ones)


def changed_reasons(seen: Observation, devno: str, device: Mapping[str, Any]) -> List[Reason]:
    """A table that was cut off is written again where the ends of the device still hold a part of just that table; that the rest is blank is proven besides."""
    if can_be_finished(seen, devno, device):
        return []
    return [Reason("data", "its ends hold something else than the table that was cut off when it was planned", "run again")]


def is_whole(ends: Ends, device: Mapping[str, Any]) -> bool:
    """Whether the table of this step is there, with all of its sectors."""

    def stands(at: int, piece: bytes) -> bool:
        raw, start = (ends.head, 0) if at < MIB else (ends.tail, ends.tail_at)
        return raw[at - start : at - start + len(piece)] == piece

    return all(stands(at, piece) for at, piece in table_sectors(device).items())


def names_stack(ends: Ends, stack: str) -> bool:
    """Whether one of the ends names a partition of this stack: the entries are the first thing that is written."""
    name = ("plumbline:%s:" % stack).encode("utf-16-le")
    return name in ends.head or name in ends.tail


def between(ends: Ends) -> Tuple[int, int]:
    """What lies between the ends, from byte to byte: where the blank proof of a device with a table of ours that was cut off looks."""
    return len(ends.head), ends.tail_at


def marks_between(seen: Observation, devno: str) -> bool:
    """Whether a format was recognised between the ends of a device, where no table has a sector."""
    start, end = between(seen.ends[devno])
    return any(start <= one.offset < end for one in seen.signatures.get(devno, []) + seen.marks.get(devno, []))
