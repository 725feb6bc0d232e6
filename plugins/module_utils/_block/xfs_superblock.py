# SPDX-License-Identifier: GPL-3.0-or-later
"""The superblock of XFS, by its bytes. Pure.

It stands below the kinds of filesystems since what a cut mkfs has left is asked for where no kind is known.
Sources: Linux, fs/xfs/libxfs/xfs_format.h (struct xfs_dsb), xfs_cksum.h; xfsprogs, mkfs/xfs_mkfs.c.
"""

from __future__ import annotations

import struct
import uuid
from typing import Dict, List, Optional

LENGTH = 4096  # with the sectors that are read here
NEEDS_REPAIR = 0x10  # of the incompatible features
_BIG_TIME = 0x8  # of an inode: nanoseconds since 1901
_NO_ROOT = (1 << 64) - 1  # the number of the root directory, as long as mkfs has not made it


def in_progress(raw: bytes) -> bool:
    """Whether the superblock says that mkfs is running. The last write of mkfs clears that in the first superblock; in the copies it stays set."""
    return raw[126:127] not in (b"", b"\0")


def was_cut_off(raw: bytes) -> bool:
    """Whether an mkfs that was cut off has left this: there is no root directory yet. A copy that somebody put in the first place may have one."""
    return in_progress(raw) and fields_of(raw) is not None and struct.unpack_from(">Q", raw, 56)[0] == _NO_ROOT


def has_root(raw: bytes) -> bool:
    """Whether it knows its root directory, which mkfs makes late: the last copy and that before the middle one get it, and all copies when it grows."""
    return len(raw) >= 64 and struct.unpack_from(">Q", raw, 56)[0] not in (0, _NO_ROOT)


def root_of(raw: bytes) -> int:
    """The byte at which the inode of the root directory begins; -1 where the superblock does not tell. It is in the first group."""
    root, in_a_block = struct.unpack_from(">Q", raw, 56)[0], struct.unpack_from(">B", raw, 123)[0]
    block, size = struct.unpack_from(">I", raw, 4)[0], struct.unpack_from(">H", raw, 104)[0]
    if not 0 < root < 1 << 32 or in_a_block > 8 or size < 256 or size << in_a_block != block:
        return -1
    return int((root >> in_a_block) * block + (root & ((1 << in_a_block) - 1)) * size)


def born(raw: bytes) -> int:
    """When an inode was made, in seconds since 1970; 0 where it does not say so. XFS keeps no other time of its birth."""
    if len(raw) < 160 or raw[:2] != b"IN" or raw[4] < 3:
        return 0
    flags, time = struct.unpack_from(">Q", raw, 120)[0], struct.unpack_from(">Q", raw, 144)[0]
    return int(time // 10**9 - (1 << 31) if flags & _BIG_TIME else time >> 32)


def identifier_of(raw: bytes) -> str:
    return str(uuid.UUID(bytes=raw[32:48]))


def label_of(raw: bytes) -> str:
    return raw[108:120].split(b"\0")[0].decode("utf-8", "replace")


def fields_of(raw: bytes) -> Optional[Dict[str, int]]:
    """What a superblock holds; None where there is none, or its checksum is wrong, or its sector is larger than what was read."""
    if len(raw) < 512 or raw[:4] != b"XFSB":
        return None
    names = ("block", "blocks", "group", "groups", "version", "sector", "unit", "width", "log_unit", "ro_compat", "incompat")
    places = ((">I", 4), (">Q", 8), (">I", 84), (">I", 88), (">H", 100), (">H", 102), (">I", 184), (">I", 188), (">I", 196), (">I", 212), (">I", 216))
    fields = {name: struct.unpack_from(form, raw, at)[0] for name, (form, at) in zip(names, places)}
    powers = all(512 <= fields[name] <= 65536 and not fields[name] & (fields[name] - 1) for name in ("block", "sector"))
    if not powers or not fields["group"] or not fields["groups"] or not 0 < fields["blocks"] <= fields["group"] * fields["groups"]:
        return None
    version = fields["version"] & 0xF
    if version < 5:  # which has no checksum, and no features in these places
        return {**fields, "ro_compat": 0, "incompat": 0} if version == 4 else None
    sector = raw[: fields["sector"]]
    if len(sector) < fields["sector"] or crc32c(sector[:224] + bytes(4) + sector[228:]) != struct.unpack_from("<I", raw, 224)[0]:
        return None
    return fields


def _table() -> List[int]:
    table = []
    for byte in range(256):
        value = byte
        for _bit in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC_TABLE = _table()


def crc32c(data: bytes) -> int:
    """Castagnoli's checksum, RFC 3720."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
