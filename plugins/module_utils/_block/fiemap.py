# SPDX-License-Identifier: GPL-3.0-or-later
"""A file's extents on its block device, as FS_IOC_FIEMAP reports them. Pure."""

from __future__ import annotations

import struct
from typing import Iterable, List, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span, join

# linux/fiemap.h: struct fiemap and struct fiemap_extent
FIEMAP_HEAD = struct.Struct("=QQLLLL")
FIEMAP_EXTENT = struct.Struct("=QQQQQLLLL")
EXTENT_LAST = 0x1
# Whoever reads the device at these would not read the file: place unknown, not allocated yet, compressed or encrypted, within metadata
# (inline, tail, not aligned to blocks), or allocated and never written.
NOT_THERE = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400 | 0x800
# Their extents are bytes of the one block device that is mounted. Others (btrfs, bcachefs, f2fs on several devices) have an address space of their own.
PLAIN_FILESYSTEMS = ("ext4", "xfs", "ext3", "ext2")


class Extent(NamedTuple):
    """One extent of a file; bytes."""

    logical: int
    physical: int
    length: int
    flags: int


def parse_fiemap(raw: bytes) -> List[Extent]:
    """The extents in a buffer that FS_IOC_FIEMAP filled."""
    count = min(FIEMAP_HEAD.unpack_from(raw)[3], (len(raw) - FIEMAP_HEAD.size) // FIEMAP_EXTENT.size)
    extents = []
    for number in range(count):
        logical, physical, length, _r1, _r2, flags, _r3, _r4, _r5 = FIEMAP_EXTENT.unpack_from(raw, FIEMAP_HEAD.size + number * FIEMAP_EXTENT.size)
        extents.append(Extent(logical, physical, length, flags))
    return extents


def written(extents: Iterable[Extent]) -> List[Span]:
    """Where the file's written data lies on its block device: in order of address, neighbours joined."""
    return join((extent.physical, extent.length) for extent in extents if not extent.flags & NOT_THERE)
