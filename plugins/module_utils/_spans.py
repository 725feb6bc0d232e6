# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Where bytes lie: a file's extents on its block device, and a range of a mapped device on the devices below it. Pure.

A span is (first byte, length), in bytes. The mappings are the kernel's own: partitions from sysfs, device-mapper tables, md.
"""

from __future__ import annotations

import bisect
import itertools
import random
import struct
import sys
from typing import Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import round_down, round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._stack import data_legs, on_leg

Span = Tuple[int, int]

# linux/fiemap.h: struct fiemap and struct fiemap_extent
FIEMAP_HEAD = struct.Struct("=QQLLLL")
FIEMAP_EXTENT = struct.Struct("=QQQQQLLLL")
EXTENT_LAST = 0x1
# Whoever reads the device at these would not read the file: place unknown, not allocated yet, compressed or encrypted, within metadata
# (inline, tail, not aligned to blocks), or allocated and never written.
NOT_THERE = 0x2 | 0x4 | 0x8 | 0x100 | 0x200 | 0x400 | 0x800
# Their extents are bytes of the one block device that is mounted. Others (btrfs, bcachefs, f2fs on several devices) have an address space of their own.
PLAIN_FILESYSTEMS = ("ext4", "xfs", "ext3", "ext2")
# RAID levels in which every leg holds the same, or a leg's address follows from the row alone.
_PLAIN_KINDS = ("part", "linear", "striped", "raid0", "raid1", "crypt", "delay", "flakey", "log-writes")
_MAX_DEPTH = 32


class Extent(NamedTuple):
    """One extent of a file; bytes."""

    logical: int
    physical: int
    length: int
    flags: int


def parse_fiemap(raw: bytes) -> List[Extent]:
    """The extents in a buffer that FS_IOC_FIEMAP filled."""
    count = min(FIEMAP_HEAD.unpack_from(raw)[3], (len(raw) - FIEMAP_HEAD.size) // FIEMAP_EXTENT.size)
    found = []
    for number in range(count):
        logical, physical, length, _r1, _r2, flags, _r3, _r4, _r5 = FIEMAP_EXTENT.unpack_from(raw, FIEMAP_HEAD.size + number * FIEMAP_EXTENT.size)
        found.append(Extent(logical, physical, length, flags))
    return found


def written(extents: Iterable[Extent]) -> List[Span]:
    """Where the file's written data lies on its block device: in order of address, neighbours joined."""
    return join((one.physical, one.length) for one in extents if not one.flags & NOT_THERE)


def join(spans: Iterable[Span]) -> List[Span]:
    """The same bytes in order of address, neighbours and overlaps joined."""
    joined: List[Span] = []
    for start, length in sorted(span for span in spans if span[1] > 0):
        if joined and start <= joined[-1][0] + joined[-1][1]:
            first, had = joined[-1]
            joined[-1] = (first, max(had, start + length - first))
        else:
            joined.append((start, length))
    return joined


class Places:
    """Random places within spans. A read of *size* bytes never leaves the span that it begins in."""

    def __init__(self, spans: Sequence[Span], room: int) -> None:
        """*room*: the bytes that the largest read needs to be found a place in a span; shorter spans are left out."""
        self.spans = [span for span in spans if span[1] >= room]
        self.starts = [start for start, _length in self.spans]
        self.ends = list(itertools.accumulate(length for _start, length in self.spans))

    @property
    def total(self) -> int:
        """Bytes that can be read."""
        return self.ends[-1] if self.ends else 0

    def holds(self, place: int, size: int) -> bool:
        """Whether a read lies within one span."""
        number = bisect.bisect_right(self.starts, place) - 1
        return number >= 0 and place + size <= sum(self.spans[number])

    def draw(self, dice: random.Random, grain: int, size: int, offset: int) -> int:
        """A place ≡ *offset* (mod *grain*) for *size* bytes; each is as likely as the others of its offset."""
        while True:
            byte = dice.randrange(self.ends[-1])
            number = bisect.bisect_right(self.ends, byte)
            start, length = self.spans[number]
            byte -= self.ends[number] - length
            place = round_down(start + byte - offset, grain) + offset
            if place >= start and place + size <= start + length:
                return place


def straight(nodes: Mapping[str, Node], devno: str, offset: int, depth: int = 0) -> int:
    """How many bytes of a device, from *offset* on, lie side by side on one device at the bottom."""
    node = nodes.get(devno)
    segment = next((one for one in node.segments if one.start <= offset < one.start + one.length), None) if node else None
    if node is None or depth > _MAX_DEPTH:
        return sys.maxsize  # nothing is known of it, so that it sets no bound
    if segment is None:
        return 0 if node.segments else max(node.size - offset, 0)
    within = offset - segment.start
    left = segment.length - within
    if segment.chunk:
        left = min(left, segment.chunk - within % segment.chunk)
    if segment.kind not in _PLAIN_KINDS or not segment.legs:
        return left
    leg, first = segment.legs[within // segment.chunk % len(segment.legs) if segment.chunk else 0]
    return min(left, straight(nodes, leg, first + on_leg(segment, within), depth + 1))


def below(nodes: Mapping[str, Node], devno: str, spans: Iterable[Span]) -> Dict[str, List[Span]]:
    """Where spans of a device lie one level down, by device. Of a striped mapping only whole rows count."""
    found: Dict[str, List[Span]] = {}
    for start, length in spans:
        for segment in nodes[devno].segments:
            low, high = max(start, segment.start) - segment.start, min(start + length, segment.start + segment.length) - segment.start
            if segment.chunk:
                row = segment.chunk * data_legs(segment)
                low, high = round_up(low, row), round_down(high, row)
            for leg, first in segment.legs if low < high else ():
                there = on_leg(segment, low)
                found.setdefault(leg, []).append((first + there, on_leg(segment, high) - there))
    return {leg: join(there) for leg, there in found.items()}


def spread(nodes: Mapping[str, Node], devno: str, spans: Sequence[Span]) -> Dict[str, List[Span]]:
    """Where spans of a device lie on itself and on every device below it."""
    found: Dict[str, List[Span]] = {devno: join(spans)}
    todo = [(devno, 0)]
    while todo:
        one, depth = todo.pop(0)
        if one not in nodes or depth > _MAX_DEPTH:
            continue
        for leg, there in below(nodes, one, found[one]).items():
            found[leg] = join([*found.get(leg, []), *there])
            todo.append((leg, depth + 1))
    return found
