# SPDX-License-Identifier: GPL-3.0-or-later
"""Recognise our own half-written partition table, to the byte. Pure.

sfdisk writes five pieces, in the order that UEFI asks for: backup entries, backup header, entries, header, protective MBR (libfdisk,
gpt_write_disklabel()). A kill ends that anywhere, and a power cut may keep any of the sectors, since a volatile cache writes in an order
of its own. But nothing in a table of ours is left to chance: its GUIDs are made beforehand. So each sector of both ends of the device is
either zero or exactly what would stand there in the end, or the device is somebody else's.
"""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ends, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._block.our_table import table_sectors
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB


def is_unfinished(ends: Ends, device: Mapping[str, Any], ones: bool = False) -> bool:
    """Whether a device holds a part of exactly the table that this step writes, and nothing else at its ends.

    A protective MBR alone is anybody's: it has no GUID in it. *ones*: the drive says that what nobody wrote reads as 0xFF.
    """
    if len(ends.head) != MIB or len(ends.tail) < MIB or not MIB <= ends.tail_at == device["size_bytes"] - len(ends.tail):
        return False
    sectors, size = table_sectors(device), device["logical_bytes"]
    behind_mbr = False
    for start, raw in ((0, ends.head), (ends.tail_at, ends.tail)):
        for at in range(0, len(raw), size):
            piece = raw[at : at + size]
            if piece.count(0) == len(piece) or (ones and piece.count(0xFF) == len(piece)):
                continue
            if sectors.get(start + at) != piece:
                return False
            behind_mbr = behind_mbr or start + at > 0
    return behind_mbr


def can_be_finished(seen: Observation, devno: str, device: Mapping[str, Any]) -> bool:
    """The same of a device that was observed."""
    ones = deallocated_reads_ones(seen.namespaces.get(devno, {}))
    return is_unfinished(seen.ends.get(devno, Ends()), device, ones)


def unfinished_changed_reasons(seen: Observation, devno: str, device: Mapping[str, Any]) -> List[Reason]:
    """A table that was cut off is written again where the ends of the device still hold a part of just that table; that the rest is blank is proven besides."""
    if can_be_finished(seen, devno, device):
        return []
    return [Reason("data", "its ends hold something else than the table that was cut off when it was planned", "run again")]


def is_whole(ends: Ends, device: Mapping[str, Any]) -> bool:
    """Whether the table of this step is there, with all of its sectors."""

    def stands(at: int, piece: bytes) -> bool:
        raw, start = (ends.head, 0) if at < MIB else (ends.tail, ends.tail_at)
        return raw[at - start : at - start + len(piece)] == piece

    return all(stands(at, piece) for at, piece in table_sectors(device).items())


def names_stack(ends: Ends, stack: str) -> bool:
    """Whether one of the ends names a partition of this stack: the entries are the first thing that is written."""
    name = ("plumbline:%s:" % stack).encode("utf-16-le")
    return name in ends.head or name in ends.tail


def between(ends: Ends) -> Tuple[int, int]:
    """What lies between the ends, from byte to byte: where the blank proof of a device with a table of ours that was cut off looks."""
    return len(ends.head), ends.tail_at


def marks_between(seen: Observation, devno: str) -> bool:
    """Whether a format was recognised between the ends of a device, where no table has a sector."""
    start, end = between(seen.ends[devno])
    return any(start <= mark.offset < end for mark in seen.signatures.get(devno, []) + seen.marks.get(devno, []))
