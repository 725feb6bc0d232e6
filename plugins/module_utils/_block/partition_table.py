# SPDX-License-Identifier: GPL-3.0-or-later
"""Partition tables, read from their own bytes. Pure.

Source: UEFI Specification 2.10, 5.3.2 (GPT header: signature, CRC32 at 16, LBAs from 24, entries at 72).
"""

from __future__ import annotations

import binascii
import struct
import uuid
from typing import List, NamedTuple, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Table, TableEntry

TYPE_LVM = "E6D6D379-F507-44C2-A23C-238F2A3DF928"
TYPE_LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

_EXTENDED = (0x05, 0x0F, 0x85)


def gpt_head_bytes(logical: int) -> int:
    """How much of a disk's head must be read to see its whole GPT: 2 sectors and 128 entries of 128 bytes."""
    return 2 * logical + 128 * 128


def parse_table(head: bytes, logical: int) -> Optional[Table]:
    """Read the table at the head of a disk; None where there is neither GPT nor MBR."""
    mbr = _parse_mbr(head, logical)
    header = head[logical : logical + 92]
    if header[:8] != b"EFI PART":
        return mbr
    if len(header) < 92:
        return Table("gpt", fault="the GPT header is cut off")
    size = struct.unpack_from("<I", header, 12)[0]
    if not 92 <= size <= logical:
        return Table("gpt", fault="the GPT header says that it is %d bytes long" % size)
    whole = bytearray(head[logical : logical + size])
    stated = struct.unpack_from("<I", whole, 16)[0]
    whole[16:20] = b"\0\0\0\0"
    if binascii.crc32(bytes(whole)) & 0xFFFFFFFF != stated:
        return Table("gpt", fault="the GPT header's checksum is wrong")
    guid = str(uuid.UUID(bytes_le=bytes(header[56:72]))).upper()
    at, count, length, entries_crc = struct.unpack_from("<QIII", header, 72)
    if length < 128 or count > 4096 or at * logical + count * length > len(head):
        return Table("gpt", guid, fault="the GPT's %d entries of %d bytes at sector %d lie outside what was read" % (count, length, at))
    body = head[at * logical : at * logical + count * length]
    if binascii.crc32(body) & 0xFFFFFFFF != entries_crc:
        return Table("gpt", guid, fault="the checksum of the GPT's entries is wrong")
    return Table("gpt", guid, tuple(_gpt_entries(body, count, length, logical)))


# What is read of a disk's head to see its whole GPT, also one whose entries lie in the spare place behind their own while a disk's growth is written.
TABLE_HEAD = 64 << 10


def made_for(head: bytes, logical: int) -> int:
    """The size of the disk that a sound GPT was made for, in bytes: it ends behind the backup."""
    return (int(struct.unpack_from("<Q", head, logical + 32)[0]) + 1) * logical


def backup_fault(head: bytes, tail: bytes, logical: int, size: int) -> str:
    """What is wrong with the backup of a sound GPT, whose *head* was parsed; empty where it is a true copy. *tail*: the end of the disk.

    It is one header in the last sector, with entries before it (UEFI 2.10, 5.3.2). A power cut may lose it, and a disk that grew has it elsewhere.
    """
    last = size // logical - 1
    stated, entries_crc = struct.unpack_from("<Q", head, logical + 32)[0], head[logical + 88 : logical + 92]
    if stated != last:
        return "expected at sector %d; the last one is %d" % (stated, last)
    backup = _read_backup(tail, logical, last)
    return backup.fault or ("" if backup.crc == entries_crc else _OTHER)


def backup_entries(tail: bytes, logical: int, size: int) -> Tuple[TableEntry, ...]:
    """The partitions of a sound backup, for a disk whose first table is damaged; none where the backup is not sound either."""
    backup = _read_backup(tail, logical, size // logical - 1)
    return () if backup.fault else tuple(_gpt_entries(backup.body, backup.number, backup.each, logical))


_OTHER = "another table's, or damaged"


class _Backup(NamedTuple):
    """A backup: what is wrong with it by itself, the checksum of its entries, and these."""

    fault: str
    crc: bytes = b""
    number: int = 0
    each: int = 0
    body: bytes = b""


def _read_backup(tail: bytes, logical: int, last: int) -> _Backup:
    header = tail[-logical:]
    length = struct.unpack_from("<I", header, 12)[0]
    if header[:8] != b"EFI PART" or not 92 <= length <= logical:
        return _Backup("missing")
    whole = bytearray(header[:length])
    whole[16:20] = b"\0\0\0\0"
    if binascii.crc32(bytes(whole)) & 0xFFFFFFFF != struct.unpack_from("<I", header, 16)[0]:
        return _Backup("damaged")
    own, at, count, each = struct.unpack_from("<Q", header, 24)[0], *struct.unpack_from("<QII", header, 72)
    begin = (at - last - 1) * logical + len(tail)
    body = tail[begin : begin + count * each] if 0 <= begin < len(tail) and count * each <= len(tail) else b""
    sound = own == last and each >= 128 and struct.pack("<I", binascii.crc32(body) & 0xFFFFFFFF) == header[88:92]
    return _Backup("" if sound else _OTHER, header[88:92], count, each, body)


def _gpt_entries(body: bytes, count: int, length: int, logical: int) -> List[TableEntry]:
    entries = []
    for number in range(count):
        raw = body[number * length : (number + 1) * length]
        if raw[:16] == bytes(16):
            continue
        first, last = struct.unpack_from("<QQ", raw, 32)
        entries.append(
            TableEntry(
                number=number + 1,
                start=first * logical,
                size=(last - first + 1) * logical,
                type=str(uuid.UUID(bytes_le=raw[:16])).upper(),
                guid=str(uuid.UUID(bytes_le=raw[16:32])).upper(),
                name=raw[56:128].decode("utf-16-le", "replace").split("\0")[0],
            )
        )
    return entries


def _parse_mbr(head: bytes, logical: int) -> Optional[Table]:
    if head[510:512] != b"\x55\xaa":
        return None
    entries = []
    protective = False
    for number in range(4):
        raw = head[446 + 16 * number : 462 + 16 * number]
        kind, first, count = raw[4], *struct.unpack_from("<II", raw, 8)
        if raw[0] not in (0x00, 0x80):
            return None  # a filesystem's boot sector ends in 55 AA as well
        if kind == 0xEE:
            protective = True
        elif kind and count:
            entries.append(TableEntry(number + 1, first * logical, count * logical, "extended" if kind in _EXTENDED else "%02x" % kind, "", ""))
    if not entries and not protective:
        return None
    return Table("protective" if protective else "mbr", "", tuple(entries))


BCACHE_SUPERBLOCK_AT = 4096
_BCACHE_MAGIC = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")


def bcache_data_start(raw: bytes) -> int:
    """Where the data begins on a backing device, by its superblock (struct cache_sb_disk, bcache_ondisk.h), in bytes; 0 where there is none."""
    if len(raw) < 192 or raw[24:40] != _BCACHE_MAGIC:
        return 0
    version: int = struct.unpack_from("<Q", raw, 16)[0]
    sectors: int = struct.unpack_from("<Q", raw, 184)[0] if version in (4, 6) else 16
    return sectors * 512 if version in (1, 4, 6) else 0
