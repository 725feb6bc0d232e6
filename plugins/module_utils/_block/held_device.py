# SPDX-License-Identifier: GPL-3.0-or-later
"""Which device an open descriptor is: what is written to is compared with what was looked at. I/O; nothing is written.

A path is resolved anew by everyone who opens it, and a link of udev's may lead elsewhere by then. A descriptor stays. While it is open the kernel
gives the name and the number of its device to no other: sd, NVMe, loop and device-mapper give them back when the last one has closed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
from typing import Iterator, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import devno as devno_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

BLKGETDISKSEQ = 0x80081280  # linux/fs.h, since Linux 5.15: a number that no two disks of one boot share; of a partition, its disk's


class OpenDevice(NamedTuple):
    """What an open block device is. *diskseq*: 0 where the kernel does not know it."""

    devno: str
    diskseq: int
    size: int


def device_of(fd: int) -> OpenDevice:
    """What the kernel says of an open descriptor. Raises OSError."""
    diskseq = 0
    with contextlib.suppress(OSError):  # an older kernel knows no such question
        diskseq = struct.unpack("Q", fcntl.ioctl(fd, BLKGETDISKSEQ, bytes(8)))[0]
    return OpenDevice(devno_text(os.fstat(fd).st_rdev), diskseq, os.lseek(fd, 0, os.SEEK_END))


def check_held(fd: int, node: Node) -> None:
    """Raise PlumblineError unless the open descriptor is the device that was looked at. Without diskseq only the number and the size are compared."""
    try:
        held = device_of(fd)
    except OSError as fault:
        raise PlumblineError("%s: it cannot be asked which device it is: %s; nothing was written" % (device_label(node), fault.strerror or fault)) from fault
    pairs = [("device number", held.devno, node.devno), ("size in bytes", held.size, node.size)]
    if held.diskseq and node.diskseq:
        pairs.append(("diskseq", held.diskseq, node.diskseq))
    differ = ["%s %s, was %s" % pair for pair in pairs if pair[1] != pair[2]]
    if differ:
        text = "%s is another device than the one that was looked at (%s); nothing was written to it; names have moved: run again"
        raise PlumblineError(text % (device_label(node), "; ".join(differ)))


def held_path(fd: int) -> str:
    """A path by which programs that we start reach the device of our descriptor, whatever the names below /dev lead to by then."""
    return "/proc/%d/fd/%d" % (os.getpid(), fd)


@contextlib.contextmanager
def pinned(node: Node) -> Iterator[int]:
    """Open a device for nothing but to keep its name; within, a program that is given the name reaches the device that was looked at.

    Raises PlumblineError where it is another one by now, or gone.
    """
    path = "/dev/" + node.name.replace("!", "/")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        raise PlumblineError("%s cannot be opened: %s; look for it and run again" % (device_label(node), fault.strerror or fault)) from fault
    try:
        check_held(fd, node)
        yield fd
    finally:
        os.close(fd)
