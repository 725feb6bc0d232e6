# SPDX-License-Identifier: GPL-3.0-or-later
"""A partition table of ours for a disk that grew, or whose partition grows: what is written where, and in which order. Pure.

At every boundary of the order the first header is sound and its entries are: whatever a power cut keeps, the kernel shows the partition, in its old or its new
length. libfdisk writes the first entries before their header: a cut between the two leaves a table that the kernel does not take (block/partitions/efi.c looks
at the backup only where its command line says "gpt"), and the next boot shows no partition. Here the new entries first lie in a spare place behind the
old ones. A header is one sector, and no drive tears a sector: with it the table becomes the new one, at once, whatever the size of a sector.

The order is the same after a cut: what is there already is written again with the same bytes, or skipped.
Source: UEFI Specification 2.10, 5.3.2.
"""

from __future__ import annotations

import binascii
import struct
from typing import Callable, List, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.our_table import ENTRIES, ENTRY, HEADER, alike, entry_sectors, gpt_header
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import TABLE_HEAD
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB

ReadAt = Callable[[int, int], bytes]


class TableWrite(NamedTuple):
    """Whole sectors that are written at a byte of the disk, and are on the medium before the next ones are written."""

    what: str
    at: int
    data: bytes


class _Table(NamedTuple):
    """A table as its first header says. *last*: sector of the backup's header; *usable*: first and last sector; *entries*: first sector of the entries."""

    guid: bytes
    last: int
    usable: Tuple[int, int]
    array: bytes
    entries: int


def table_writes(read: ReadAt, size: int, logical: int, number: int, end: int, ours: int = 0, ones: bool = False) -> List[TableWrite]:
    """The writes by which partition *number* ends at byte *end* of a disk of *size* bytes, and the table at that of the disk.

    *read*: (byte, length) → what the disk holds there. *ours*: up to which byte our PV or filesystem is known to reach: what lies before is no backup any
    more. *ones*: whether the drive says that what nobody wrote reads as 0xFF. Raises PlumblineError, before there is anything to write, where a place that is
    needed holds something that is no part of this table, as it is, as it is to be, or as a growth to another end that was cut off left it.
    """
    old = _read(read(0, TABLE_HEAD), logical)
    new = _grown(old, size, logical, number, end)
    taken = entry_sectors(logical)
    spare, last = 2 + taken, new.last
    if (spare + taken) * logical > MIB:
        raise PlumblineError("with sectors of %d bytes there is no room for the new entries before the first MiB" % logical)
    array = new.array.ljust(taken * logical, b"\0")

    def header(table: _Table, places: Tuple[int, int, int]) -> bytes:
        return gpt_header(table.guid, places, table.usable, table.array).ljust(logical, b"\0")

    writes = [
        TableWrite("the backup's entries", (last - taken) * logical, array),
        TableWrite("the backup's header", last * logical, header(new, (last, 1, last - taken))),
        *_cleared(old, new, logical, ours),
        TableWrite("the spare entries", spare * logical, array),
        TableWrite("the header, with the spare entries", logical, header(new, (1, last, spare))),
        TableWrite("the entries", 2 * logical, array),
        TableWrite("the header", logical, header(new, (1, last, 2))),
        TableWrite("zeros over the spare entries", spare * logical, bytes(taken * logical)),
        TableWrite("the protective MBR", 0, _protective(read(0, logical), last)),
    ]
    if old.entries == spare:  # a growth was cut off: the table as it is has its entries in their own place again, before the spare one is used anew
        settled = TableWrite("the entries as they are", 2 * logical, old.array.ljust(taken * logical, b"\0"))
        writes[:0] = [settled, TableWrite("the header as it is", logical, header(old, (1, old.last, 2)))]
    _check_places(read, logical, old, number, writes, (bytes(logical), b"\xff" * logical) if ones else (bytes(logical),))
    return writes


def old_backup(read: ReadAt, size: int, logical: int) -> Tuple[int, int]:
    """From which byte to which the backup lies that a larger disk has outgrown; (0, 0) where the backup is in its place."""
    old = _read(read(0, TABLE_HEAD), logical)
    begin, end = (old.last - entry_sectors(logical)) * logical, (old.last + 1) * logical
    return (begin, end) if old.last != size // logical - 1 else (0, 0)


def backup_at(read: ReadAt, size: int, logical: int, at: int) -> Tuple[int, int]:
    """From which byte to which a backup of this table lies whose entries begin at byte *at*: one that was moved by somebody else's tool leaves the old one.

    (0, 0) where there is none.
    """
    old, taken = _read(read(0, TABLE_HEAD), logical), entry_sectors(logical)
    end = at + (taken + 1) * logical
    if at % logical or end > size:
        return (0, 0)
    header = read(end - logical, logical)
    if not _is_header(header, old.guid, end // logical - 1) and header != bytes(logical):  # a cut may have left the entries alone
        return (0, 0)
    return (at, end) if alike(read(at, taken * logical), old.array.ljust(taken * logical, b"\0"), 1) else (0, 0)


def _read(head: bytes, logical: int) -> _Table:
    """The table at the head of a disk. It was parsed before, so that its checksums are right."""
    _sign, _version, length, _crc, _zero, _own, last, first, end, guid, at, count, each, _crc2 = HEADER.unpack_from(head, logical)
    if (length, count, each) != (HEADER.size, ENTRIES, ENTRY):
        text = "its header has %d bytes and its table %d entries of %d; wanted %d, and %d of %d, as sfdisk makes them"
        raise PlumblineError(text % (length, count, each, HEADER.size, ENTRIES, ENTRY))
    return _Table(guid, last, (first, end), head[at * logical : at * logical + count * each], at)


def _grown(old: _Table, size: int, logical: int, number: int, end: int) -> _Table:
    array = bytearray(old.array)
    struct.pack_into("<Q", array, (number - 1) * ENTRY + 40, end // logical - 1)
    last = size // logical - 1
    return _Table(old.guid, last, (old.usable[0], last - entry_sectors(logical) - 1), bytes(array), 2)


def _cleared(old: _Table, new: _Table, logical: int, ours: int) -> List[TableWrite]:
    """The backup that the disk has outgrown is within the new partition, or in its way. It goes when the new one is there."""
    first, end = old.last - entry_sectors(logical), min(old.last + 1, new.last - entry_sectors(logical))
    if old.last >= new.last or first >= end or first * logical < ours:
        return []
    return [TableWrite("zeros over the old backup", first * logical, bytes((end - first) * logical))]


def _protective(sector: bytes, last: int) -> bytes:
    """The protective MBR with the length of the disk, UEFI 2.10, 5.2.3. What else it holds stays."""
    raw = bytearray(sector)
    for entry in range(446, 510, 16):
        if raw[entry + 4] == 0xEE:
            struct.pack_into("<I", raw, entry + 12, min(last, 0xFFFFFFFF))
    return bytes(raw)


def _is_header(raw: bytes, guid: bytes, own: int) -> bool:
    """Whether a sector is a sound header of the table with this GUID, in its own place."""
    if raw[:8] != b"EFI PART" or struct.unpack_from("<I", raw, 12)[0] != HEADER.size:
        return False
    whole = raw[:16] + bytes(4) + raw[20 : HEADER.size]
    return binascii.crc32(whole) & 0xFFFFFFFF == struct.unpack_from("<I", raw, 16)[0] and raw[56:72] == guid and struct.unpack_from("<Q", raw, 24)[0] == own


def _check_places(read: ReadAt, logical: int, old: _Table, number: int, writes: Sequence[TableWrite], blank: Tuple[bytes, ...]) -> None:
    """What is written over behind the first table is blank, or a part of a table of ours: entries in the order that they are in, or a header in its place."""
    first = (2 + entry_sectors(logical)) * logical
    array = old.array.ljust(entry_sectors(logical) * logical, b"\0")
    pieces = [array[at : at + logical] for at in range(0, len(array), logical)]
    for at in sorted({place for write in writes for place in range(write.at, write.at + len(write.data), logical) if place >= first}):
        raw = read(at, logical)
        entries = any(alike(raw, piece, number) if index == 0 else raw == piece for index, piece in enumerate(pieces))
        if raw not in blank and not entries and not _is_header(raw, old.guid, at // logical):
            text = "the sector at byte %d holds something that is no part of its partition table [data]; look at it; it is left alone"
            raise PlumblineError(text % at)
