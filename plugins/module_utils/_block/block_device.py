# SPDX-License-Identifier: GPL-3.0-or-later
"""Block devices: read past the page cache, opened alone, discarded, their table read again. I/O.

Everything but discard(), write_zeros(), write_at(), reread_table() and resize_partition() only reads.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import mmap
import os
import struct
import time
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import parse_id_ns
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

# linux/fs.h, linux/nvme_ioctl.h
BLKRRPART = 0x125F
BLKPG, BLKPG_RESIZE_PARTITION = 0x1269, 3  # linux/blkpg.h
BLKDISCARD = 0x1277
BLKZEROOUT = 0x127F
NVME_IOCTL_ADMIN_CMD = 0xC0484E41
ALONE_SECONDS = 10  # udev holds a shared lock while it probes; nobody else should


def open_read(path: str, exclusive: bool = False) -> int:
    """Open a block device for direct reads. *exclusive* fails with EBUSY where anything holds the device."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT
    return os.open(path, flags | (os.O_EXCL if exclusive else 0))


def open_alone(path: str, read_only: bool) -> int:
    """Open exclusively and lock, so that neither a mount nor udev nor another run comes between proof and write. Raises PlumblineError."""
    return _open_locked(path, os.O_EXCL | (os.O_RDONLY if read_only else os.O_RDWR))


def open_in_use(path: str, read_only: bool) -> int:
    """Open a disk whose partitions are in use, and lock it against udev and other runs. Raises PlumblineError."""
    return _open_locked(path, os.O_RDONLY if read_only else os.O_RDWR)


def _open_locked(path: str, how: int) -> int:
    flags = os.O_CLOEXEC | os.O_DIRECT | how
    deadline = time.monotonic() + ALONE_SECONDS
    while True:
        fd = -1
        try:
            fd = os.open(path, flags)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return fd
        except OSError as fault:
            if fd >= 0:
                os.close(fd)
            if fault.errno not in (errno.EBUSY, errno.EAGAIN) or time.monotonic() > deadline:
                alone = " alone" if how & os.O_EXCL else " and locked"
                raise PlumblineError("%s: it cannot be opened%s [busy]: %s" % (path, alone, fault.strerror or fault)) from fault
        time.sleep(0.1)


def read_at(fd: int, offset: int, length: int) -> bytes:
    """Read *length* bytes at *offset*, both multiples of 4,096, past the page cache. Short reads raise OSError."""
    with mmap.mmap(-1, length) as buffer:
        got = os.preadv(fd, [buffer], offset)
        if got != length:
            raise OSError(errno.EIO, "short read of %d of %d bytes at byte %d" % (got, length, offset))
        return buffer[:]


def read_head(path: str, length: int) -> bytes:
    """Read the first *length* bytes of a device, rounded up to whole 4 KiB."""
    fd = open_read(path)
    try:
        return read_at(fd, 0, -(-length // 4096) * 4096)
    finally:
        os.close(fd)


def read_cached_head(path: str, length: int) -> bytes:
    """The first bytes of a device through its page cache, where a mounted filesystem may keep its superblock."""
    with open(path, "rb", buffering=0) as handle:
        return handle.read(length)


def why_busy(path: str) -> str:
    """Why the device cannot be opened alone; empty where it can. The open is read-only and closed at once: another run's look is over by the next try."""
    for last in (False, False, True):
        try:
            os.close(open_read(path, exclusive=True))
        except OSError as fault:
            if fault.errno != errno.EBUSY:
                return fault.strerror or str(fault)
            if last:
                return "in use by the kernel or another program"
            time.sleep(0.1)
        else:
            break
    return ""


def identify_namespace(path: str, nsid: int) -> Optional[Dict[str, Any]]:
    """NVMe Identify Namespace by admin command 06h, CNS 0; None where the drive or the kernel does not answer."""
    data = array.array("B", bytes(4096))
    address = data.buffer_info()[0]
    command = bytearray(struct.pack("<BBHIIIQQII6III", 0x06, 0, 0, nsid, 0, 0, 0, address, 0, 4096, 0, 0, 0, 0, 0, 0, 0, 0))
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = fcntl.ioctl(fd, NVME_IOCTL_ADMIN_CMD, command)
    except OSError:
        return None
    finally:
        os.close(fd)
    return parse_id_ns(data.tobytes()) if status == 0 else None


def discard(fd: int, offset: int, length: int) -> None:
    """Discard a range of the open device (BLKDISCARD); offset and length in bytes, whole logical blocks."""
    fcntl.ioctl(fd, BLKDISCARD, struct.pack("QQ", offset, length))


def write_zeros(fd: int, offset: int, length: int) -> None:
    """Make a range of the open device read as zeros (BLKZEROOUT): by a command of the drive where it has one, else by writing them."""
    fcntl.ioctl(fd, BLKZEROOUT, struct.pack("QQ", offset, length))


def read_pieces(path: str, windows: Sequence[Tuple[int, int]]) -> List[Tuple[int, bytes]]:
    """Read several ranges (offset, length) of a device past the page cache. Raises OSError where one cannot be read."""
    fd = open_read(path)
    try:
        return [(offset, read_at(fd, offset, length)) for offset, length in windows]
    finally:
        os.close(fd)


def reread_table(fd: int) -> None:
    """Make the kernel read the partition table again; fails with EBUSY while a partition is open."""
    fcntl.ioctl(fd, BLKRRPART)


def write_at(fd: int, offset: int, data: bytes) -> None:
    """Write whole sectors past the page cache; they are on the medium when it returns. A short write raises OSError."""
    with mmap.mmap(-1, len(data)) as buffer:
        buffer[:] = data
        put = os.pwrite(fd, buffer, offset)
    if put != len(data):
        raise OSError(errno.EIO, "short write of %d of %d bytes at byte %d" % (put, len(data), offset))
    os.fsync(fd)


def resize_partition(fd: int, number: int, start: int, length: int) -> None:
    """Tell the kernel that a partition, which may be in use, ends elsewhere; bytes. It also believes an end behind that of the disk: the caller checks.

    Source: include/uapi/linux/blkpg.h, block/ioctl.c (blkpg_do_ioctl()).
    """
    partition = ctypes.create_string_buffer(struct.pack("=qqi64s64s4x", start, length, number, b"", b""))
    fcntl.ioctl(fd, BLKPG, struct.pack("@iiiP", BLKPG_RESIZE_PARTITION, 0, len(partition.raw), ctypes.addressof(partition)))
