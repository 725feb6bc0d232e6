# SPDX-License-Identifier: GPL-3.0-or-later
"""A file without a name on a filesystem in use, and where its bytes lie on the volume. I/O.

The file is made with O_TMPFILE: it has no name, so that it is gone with the last descriptor, however this process ends.
"""

from __future__ import annotations

import errno
import mmap
import os
from typing import List, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.fiemap import written
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human


class Scratch(NamedTuple):
    """An open scratch file: its descriptor, and where it lies on its volume."""

    fd: int
    spans: List[Span]


def check_device(fd: int, path: str, devno: str) -> None:
    """Raise PlumblineError where a file that was made in a directory lies on another device than the directory did when it was looked at.

    Who owns a directory above may have put another one, or a link, in its place meanwhile.
    """
    file_devno = read_sysfs.devno(os.fstat(fd).st_dev)
    if file_devno != devno:
        raise PlumblineError(
            "%s was exchanged while it was looked at: a file made there lies on device %s, and the directory lay on %s; find out who did that, and run again"
            % (path, file_devno, devno)
        )


def create(path: str, size: int, devno: str) -> Scratch:
    """Make a scratch file of *size* random bytes on the filesystem at *path*, which is on this device, written through to it.

    Raises PlumblineError, and leaves nothing, where the filesystem is read-only, too full, or does not say where its bytes lie.
    """
    fd = _open(path, size)
    try:
        check_device(fd, path, devno)
        ask_file.clear_sync(fd)
        _fill(fd, path, size)
        return Scratch(fd, read_spans(fd, path, size))
    except BaseException:
        os.close(fd)
        raise


def check_room(path: str, size: int) -> None:
    """Raise PlumblineError unless *path* is a directory on a writable filesystem with room for twice *size* bytes."""
    try:
        if not os.path.isdir(path):
            raise PlumblineError("%s is no directory; name the mount point of a filesystem" % path)
        room = os.statvfs(path)
    except OSError as fault:
        raise PlumblineError("%s could not be looked at: %s" % (path, fault.strerror or fault)) from fault
    if room.f_flag & os.ST_RDONLY:
        raise PlumblineError("%s is mounted read-only; a scratch file of %s has to be written there" % (path, human(size)))
    free = room.f_bavail * room.f_frsize
    if free < 2 * size:
        raise PlumblineError(
            "%s has %s free; wanted twice the scratch file, %s, so that nothing else runs out of room: free some, or lower scratch_size"
            % (path, human(free), human(2 * size))
        )


def _open(path: str, size: int) -> int:
    check_room(path, size)
    try:
        return os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        if fault.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise PlumblineError("%s: its filesystem has no unnamed files or no direct I/O, as ext4 and xfs have" % path) from fault
        raise PlumblineError("%s: no scratch file could be made: %s" % (path, fault.strerror or fault)) from fault


def _fill(fd: int, path: str, size: int) -> None:
    """Random bytes: what compresses, or is all zeros, some drives answer without their flash."""
    try:
        os.posix_fallocate(fd, 0, size)  # in few extents, and all or nothing
        with mmap.mmap(-1, MIB) as buffer:
            for offset in range(0, size, MIB):
                buffer.seek(0)
                buffer.write(os.urandom(MIB))
                length = min(MIB, size - offset)
                with memoryview(buffer)[:length] as view:
                    if os.pwritev(fd, [view], offset) != length:
                        raise OSError(errno.EIO, "short write")
        os.fsync(fd)
    except OSError as fault:
        if fault.errno == errno.ENOSPC:
            raise PlumblineError("%s filled up while the scratch file of %s was written; it is gone again" % (path, human(size))) from fault
        raise PlumblineError("%s: the scratch file could not be written: %s; it is gone again" % (path, fault.strerror or fault)) from fault


def read_spans(fd: int, path: str, size: int) -> List[Span]:
    """Where the *size* bytes of an open file lie on the filesystem's device, by the filesystem's own word."""
    try:
        spans = written(ask_file.read_extents(fd))
    except OSError as fault:
        raise PlumblineError("%s: its filesystem does not say where a file lies (FIEMAP): %s" % (path, fault.strerror or fault)) from fault
    covered = sum(span.length for span in spans)
    if covered < size:
        raise PlumblineError(
            "%s: only %d of the scratch file's %d bytes are on the device as they are (not compressed, inline or elsewhere); name the volume itself"
            % (path, covered, size)
        )
    return spans
