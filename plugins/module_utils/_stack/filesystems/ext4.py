# SPDX-License-Identifier: GPL-3.0-or-later
"""The superblock of ext2, ext3 and ext4, and where its copies are. Pure.

Source: Linux Documentation/filesystems/ext4/super.rst (magic 0xEF53 at 0x38, s_raid_stride at 0x164,
s_raid_stripe_width at 0x170).
"""

from __future__ import annotations

import struct
import uuid
from typing import Callable, List, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ext4, Signature

EXT4_SUPERBLOCK_AT = 1024
EXT4_SUPERBLOCK_SIZE = 1024
_RO_COMPAT = {0x1: "sparse_super", 0x2: "large_file", 0x10: "gdt_csum", 0x400: "metadata_csum"}
_INCOMPAT = {0x40: "extent", 0x80: "64bit", 0x200: "flex_bg"}
_ERRORS = {1: "continue", 2: "remount-ro", 3: "panic"}


def ext4_backups(size: int) -> List[int]:
    """Where ext4 keeps copies of its superblock in *size* bytes of 4 KiB blocks: at the start of groups 1 and the powers of 3, 5 and 7 (sparse_super).

    Source: Linux, Documentation/filesystems/ext4/blockgroup.rst. A group is as many blocks as a block has bits: 32,768 blocks, 128 MiB.
    """
    group = 8 * 4096 * 4096
    groups = [1] + [base**power for base in (3, 5, 7) for power in range(1, 32)]
    return sorted(number * group for number in groups if number * group + EXT4_SUPERBLOCK_SIZE <= size)


def ext4_mark(at: Callable[[int, int], bytes], base: int) -> Optional[Signature]:
    """The mark of a superblock in what *at* has of a device, where a filesystem would begin at byte *base*."""
    raw = at(base + EXT4_SUPERBLOCK_AT, EXT4_SUPERBLOCK_SIZE)
    found = parse_ext4(raw)
    if not found or struct.unpack_from("<I", raw, 0x18)[0] > 6 or not found.blocks or not found.inodes:
        return None
    return Signature("ext", "filesystem", base + EXT4_SUPERBLOCK_AT + 0x38, found.uuid, found.label)


def parse_ext4(raw: bytes) -> Optional[Ext4]:
    """Read an ext2/3/4 superblock (1,024 bytes from byte 1,024 of the device); None where there is none."""
    if len(raw) < EXT4_SUPERBLOCK_SIZE or raw[0x38:0x3A] != b"\x53\xef":
        return None
    inodes, low = struct.unpack_from("<II", raw, 0)
    compat, incompat, ro_compat = struct.unpack_from("<III", raw, 0x5C)
    high = struct.unpack_from("<I", raw, 0x150)[0] if incompat & 0x80 else 0
    features = [name for bit, name in sorted(_INCOMPAT.items()) if incompat & bit]
    features += [name for bit, name in sorted(_RO_COMPAT.items()) if ro_compat & bit]
    return Ext4(
        uuid=str(uuid.UUID(bytes=raw[0x68:0x78])),
        label=raw[0x78:0x88].split(b"\0")[0].decode("utf-8", "replace"),
        block=1024 << min(struct.unpack_from("<I", raw, 0x18)[0], 6),
        blocks=low | high << 32,
        stride=struct.unpack_from("<H", raw, 0x164)[0],
        stripe_width=struct.unpack_from("<I", raw, 0x170)[0],
        inodes=inodes,
        features=tuple(features),
        errors=_ERRORS.get(struct.unpack_from("<H", raw, 0x3C)[0], ""),
        made=struct.unpack_from("<I", raw, 0x108)[0] | raw[0x276] << 32,
        journal=bool(compat & 0x4),  # EXT4_FEATURE_COMPAT_HAS_JOURNAL
        reserved=struct.unpack_from("<I", raw, 0x8)[0] | (struct.unpack_from("<I", raw, 0x154)[0] << 32 if incompat & 0x80 else 0),
        faulty=bool(struct.unpack_from("<H", raw, 0x3A)[0] & 0x2),  # EXT4_ERROR_FS
    )
