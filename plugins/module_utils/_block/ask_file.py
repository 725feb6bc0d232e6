# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says and takes of an open file: immutable, its extents, whether it is on a realtime device. I/O."""

from __future__ import annotations

import contextlib
import fcntl
import struct
from typing import List

from ansible_collections.plumbline.ssd.plugins.module_utils._block.fiemap import EXTENT_LAST, FIEMAP_EXTENT, FIEMAP_HEAD, Extent, parse_fiemap

FS_IOC_GETFLAGS = 0x80086601
FS_IOC_SETFLAGS = 0x40086602
FS_SYNC_FL = 0x8
FS_IMMUTABLE_FL = 0x10
FS_IOC_FIEMAP = 0xC020660B
FS_IOC_FSGETXATTR = 0x801C581F
FS_XFLAG_REALTIME = 0x1
FITRIM = 0xC0185879
_EXTENTS = 512  # that are asked for at once


def _flags(fd: int) -> int:
    """The attributes of chattr that the open file carries. Raises OSError where the filesystem has none."""
    flags = bytearray(8)
    fcntl.ioctl(fd, FS_IOC_GETFLAGS, flags)
    return int(struct.unpack_from("I", flags)[0])


def _set_flags(fd: int, flags: int) -> None:
    fcntl.ioctl(fd, FS_IOC_SETFLAGS, struct.pack("Q", flags))


def is_immutable(fd: int) -> bool:
    """Whether the open file or directory carries the immutable attribute (chattr +i)."""
    try:
        return bool(_flags(fd) & FS_IMMUTABLE_FL)
    except OSError:
        return False


def set_immutable(fd: int, wish: bool = True) -> None:
    """Set the immutable attribute on the open directory, or clear it. Raises OSError where the filesystem has no such thing."""
    _set_flags(fd, _flags(fd) & ~FS_IMMUTABLE_FL | (FS_IMMUTABLE_FL if wish else 0))


def clear_sync(fd: int) -> None:
    """Clear chattr's S of a file of ours, which it has from its directory: each of its writes would be synchronous."""
    with contextlib.suppress(OSError):  # of a filesystem that has no flags
        flags = _flags(fd)
        if flags & FS_SYNC_FL:
            _set_flags(fd, flags & ~FS_SYNC_FL)


def read_extents(fd: int) -> List[Extent]:
    """All extents of the open file (FS_IOC_FIEMAP). What is still only in the page cache is not written out for it.

    Raises OSError where the filesystem has no such map.
    """
    extents: List[Extent] = []
    start = 0
    while True:
        buffer = bytearray(FIEMAP_HEAD.size + _EXTENTS * FIEMAP_EXTENT.size)
        FIEMAP_HEAD.pack_into(buffer, 0, start, (1 << 64) - 1 - start, 0, 0, _EXTENTS, 0)
        fcntl.ioctl(fd, FS_IOC_FIEMAP, buffer)
        part = parse_fiemap(bytes(buffer))
        extents += part
        if not part or part[-1].flags & EXTENT_LAST:
            return extents
        start = part[-1].logical + part[-1].length


def trim(fd: int, start: int, length: int) -> int:
    """Let the filesystem of the open file discard what is free between these bytes of it (FITRIM, linux/fs.h). Returns how many bytes that was."""
    fields = bytearray(struct.pack("QQQ", start, length, 0))
    fcntl.ioctl(fd, FITRIM, fields)
    return int(struct.unpack("QQQ", fields)[1])


def is_realtime(fd: int) -> bool:
    """Whether the open file lies on the realtime device of an XFS, so that its extents are none of the mounted device."""
    attributes = bytearray(28)
    try:
        fcntl.ioctl(fd, FS_IOC_FSGETXATTR, attributes)
    except OSError:
        return False
    return bool(struct.unpack_from("I", attributes)[0] & FS_XFLAG_REALTIME)
