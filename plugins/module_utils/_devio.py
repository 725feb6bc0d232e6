# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Reading block devices past the page cache, and the few ioctls that the collection needs. I/O lives here.

Everything but discard(), write_zeros() and reread_table() only reads.
"""

from __future__ import annotations

import array
import ctypes
import errno
import fcntl
import mmap
import os
import struct
import syslog
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._blank import PROOF_SAMPLE, proof_spans
from ansible_collections.plumbline.ssd.plugins.module_utils._model import BlankProof
from ansible_collections.plumbline.ssd.plugins.module_utils._nvme import parse_id_ns
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._spans import EXTENT_LAST, FIEMAP_EXTENT, FIEMAP_HEAD, Extent, parse_fiemap

# linux/fs.h, linux/nvme_ioctl.h
BLKRRPART = 0x125F
BLKDISCARD = 0x1277
BLKZEROOUT = 0x127F
FS_IOC_GETFLAGS = 0x80086601
FS_IOC_SETFLAGS = 0x40086602
FS_IMMUTABLE_FL = 0x10
FS_IOC_FIEMAP = 0xC020660B
FS_IOC_FSGETXATTR = 0x801C581F
FS_XFLAG_REALTIME = 0x1
NVME_IOCTL_ADMIN_CMD = 0xC0484E41

_CHUNK = MIB
_EXTENTS = 512  # that are asked for at once


def open_read(path: str, exclusive: bool = False) -> int:
    """Open a block device for direct reads. *exclusive* fails with EBUSY where anything holds the device."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECT
    return os.open(path, flags | (os.O_EXCL if exclusive else 0))


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


def prove_blank(
    path: str,
    size: int,
    full: bool = False,
    ones_are_blank: bool = False,
    starts: Sequence[int] = (),
    fd: int = -1,
    between: Optional[Tuple[int, int]] = None,
    offset: int = 0,
    tails: Sequence[bytes] = (),
) -> BlankProof:
    """Show that a device holds nothing, or say what it holds and where. An unreadable place is never blank.

    *ones_are_blank*: uniform 0xFF counts as blank as well, where the drive says that it returns that for
    deallocated blocks. *fd*: an already open descriptor of the device, left open. *between*: whole pages, from
    byte to byte, where what lies outside is known otherwise. *offset*: the *size* bytes that are looked at begin there;
    *starts* count from it. *tails*: a sector that ends with one of these is of a load of ours, and counts as blank.
    """
    spans, samples = proof_spans(size, full, starts)
    own = open_read(path) if fd < 0 else fd
    buffer = mmap.mmap(-1, _CHUNK)  # one for all reads: mapping anew costs more than a sample
    blanks = [_filled(b"\0")] + ([_filled(b"\xff")] if ones_are_blank else [])
    try:
        chunks = [(at, min(_CHUNK, start + length - at)) for start, length in spans for at in range(start, start + length, _CHUNK)]
        chunks += [(sample, PROOF_SAMPLE) for sample in samples]
        if between:
            cut = [(max(at, between[0]), min(at + length, between[1])) for at, length in chunks]
            chunks = [(first, end - first) for first, end in cut if first < end]
        tell = _Progress(path, sum(length for _at, length in chunks))
        fault = _first_fault(own, [(offset + at, length) for at, length in chunks], buffer, blanks, tuple(tails), tell)
    finally:
        if fd < 0:
            os.close(own)
    return BlankProof(sum(length for _offset, length in chunks), len(samples), (fault,) if fault else ())


TELL_SECONDS = 30.0


class _Progress:
    """How far the proof of a device is, in the host's log: a full one takes hours, and whoever waits for it sees nothing else."""

    def __init__(self, path: str, total: int) -> None:
        self.path, self.total, self.read = path, max(total, 1), 0
        self.began = self.told = time.monotonic()

    def __call__(self, length: int) -> None:
        self.read += length
        now = time.monotonic()
        if now - self.told >= TELL_SECONDS:
            self.told = now
            rate = self.read / (now - self.began)
            left = (self.total - self.read) / rate / 60
            text = "plumbline: blank proof of %s: %d %%, %s of %s at %s/s, %d minutes left"
            syslog.syslog(text % (self.path, 100 * self.read // self.total, human(self.read), human(self.total), human(int(rate)), left))


def _filled(byte: bytes) -> mmap.mmap:
    """_CHUNK bytes of one value, to compare with."""
    filled = mmap.mmap(-1, _CHUNK)
    if byte != b"\0":  # as which it came
        filled.write(byte * _CHUNK)
    return filled


def _first_fault(
    fd: int, chunks: Sequence[Tuple[int, int]], buffer: mmap.mmap, blanks: Sequence[mmap.mmap], tails: Tuple[bytes, ...], tell: Callable[[int], None]
) -> str:
    """The first thing in the chunks (offset, length) that is not blank, as a sentence; empty where there is none.

    The C library compares in place, and other threads run meanwhile: a copy of each chunk would cost more than its read.
    """
    differ = ctypes.CDLL(None).memcmp
    differ.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    here, zero, others = _address(buffer), _address(blanks[0]), [_address(blank) for blank in blanks[1:]]
    views = {length: [memoryview(buffer)[:length]] for length in {length for _offset, length in chunks}}
    for offset, length in chunks:
        try:
            got = os.preadv(fd, views[length], offset)
        except OSError as fault:
            return "byte %d could not be read: %s" % (offset, fault.strerror or fault)
        tell(length)
        if got != length:
            return "byte %d could not be read: the device ended early" % (offset + got)
        if differ(here, zero, length) and all(differ(here, other, length) for other in others):
            first = _first_byte(buffer[:length], tails, b"\0\xff" if others else b"\0")
            if first is not None:
                return "unrecognised data that is not zero, first at byte %d (%s from the start)" % (offset + first, human(offset + first))
    return ""


def _first_byte(chunk: bytes, tails: Tuple[bytes, ...], blanks: bytes) -> Optional[int]:
    """Where the first sector with data begins; None where each of them ends with one of *tails*, or holds one of the bytes *blanks* and no other."""
    for at in range(0, len(chunk), 512):
        sector = chunk[at : at + 512]
        if not (tails and (sector.endswith(tails) or any(sector.count(byte) == len(sector) for byte in blanks))) and any(sector):
            return at
    return None


def _address(buffer: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


def prove_all(jobs: Sequence[Dict[str, Any]]) -> List[BlankProof]:
    """prove_blank() for several devices at once, one thread each, since each waits for its own device."""
    # What is not proven is not blank, whatever may end a thread early.
    results = [BlankProof(0, 0, ("the device could not be proven blank",))] * len(jobs)

    def work(number: int) -> None:
        try:
            results[number] = prove_blank(**jobs[number])
        except OSError as fault:
            results[number] = BlankProof(0, 0, ("could not be opened: %s" % (fault.strerror or fault),))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


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


def lock(fd: int, seconds: float) -> None:
    """Lock an open file or device for us alone, waiting for others so long (udev holds a device while it probes it). Raises OSError after that."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def reread_table(fd: int) -> None:
    """Make the kernel read the partition table again; fails with EBUSY while a partition is open."""
    fcntl.ioctl(fd, BLKRRPART)


def is_immutable(fd: int) -> bool:
    """Whether the open file or directory carries the immutable attribute (chattr +i)."""
    flags = bytearray(8)
    try:
        fcntl.ioctl(fd, FS_IOC_GETFLAGS, flags)
    except OSError:
        return False
    return bool(struct.unpack_from("I", flags)[0] & FS_IMMUTABLE_FL)


def set_immutable(fd: int, wish: bool = True) -> None:
    """Set the immutable attribute on the open directory, or clear it. Raises OSError where the filesystem has no such thing."""
    flags = bytearray(8)
    fcntl.ioctl(fd, FS_IOC_GETFLAGS, flags)
    others = struct.unpack_from("I", flags)[0] & ~FS_IMMUTABLE_FL
    wanted = others | (FS_IMMUTABLE_FL if wish else 0)
    fcntl.ioctl(fd, FS_IOC_SETFLAGS, struct.pack("Q", wanted))


def read_extents(fd: int) -> List[Extent]:
    """All extents of the open file (FS_IOC_FIEMAP). What is still only in the page cache is not written out for it.

    Raises OSError where the filesystem has no such map.
    """
    found: List[Extent] = []
    start = 0
    while True:
        buffer = bytearray(FIEMAP_HEAD.size + _EXTENTS * FIEMAP_EXTENT.size)
        FIEMAP_HEAD.pack_into(buffer, 0, start, (1 << 64) - 1 - start, 0, 0, _EXTENTS, 0)
        fcntl.ioctl(fd, FS_IOC_FIEMAP, buffer)
        part = parse_fiemap(bytes(buffer))
        found += part
        if not part or part[-1].flags & EXTENT_LAST:
            return found
        start = part[-1].logical + part[-1].length


def is_realtime(fd: int) -> bool:
    """Whether the open file lies on the realtime device of an XFS, so that its extents are none of the mounted device."""
    attributes = bytearray(28)
    try:
        fcntl.ioctl(fd, FS_IOC_FSGETXATTR, attributes)
    except OSError:
        return False
    return bool(struct.unpack_from("I", attributes)[0] & FS_XFLAG_REALTIME)
