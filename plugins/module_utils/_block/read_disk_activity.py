# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel has had disks do so far, and whether they are still there. I/O; nothing is written."""

from __future__ import annotations

import os
import time
from typing import NamedTuple, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import DiskLoad
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import read_text
from ansible_collections.plumbline.ssd.plugins.module_utils._block.tool_output import SECTOR


def read_load(names: Sequence[str]) -> Optional[DiskLoad]:
    """What these disks have done so far, added up; None where one keeps no account (queue/iostats).

    The fields of a device's stat are in Documentation/block/stat.rst: requests and milliseconds in flight of reads, writes,
    discards and flushes; the last two are missing on older kernels.
    """
    requests = milliseconds = 0
    if not names:
        return None
    for name in names:
        words = read_text("/sys/class/block/%s/stat" % name).split()
        if len(words) < 11 or read_text("/sys/class/block/%s/queue/iostats" % name) == "0":
            return None
        for count, ticks in ((0, 3), (4, 7), (11, 14), (15, 16)):
            if ticks < len(words):
                requests += int(words[count])
                milliseconds += int(words[ticks])
    return DiskLoad(requests, milliseconds)


class Account(NamedTuple):
    """Bytes of a disk that the kernel has written and discarded so far."""

    written: int
    discarded: int


def read_account(name: str) -> Optional[Account]:
    """The account of a disk (Documentation/block/stat.rst, fields 7 and 14); None where nobody keeps one."""
    words = read_text("/sys/class/block/%s/stat" % name).split()
    if len(words) < 15 or read_text("/sys/class/block/%s/queue/iostats" % name) == "0":
        return None
    return Account(int(words[6]) * SECTOR, int(words[13]) * SECTOR)


def first_gone(names: Sequence[str]) -> str:
    """The first of these disks that is no longer there. The kernel may fail requests a moment before it forgets a disk, so it is waited for."""
    for _try in range(20):
        for name in names:
            if not os.path.exists("/sys/class/block/" + name):
                return name
        time.sleep(0.05)
    return ""
