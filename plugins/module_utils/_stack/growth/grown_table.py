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

import struct
from typing import Callable, Dict, Iterator, List, NamedTuple, Sequence, Set, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.our_table import ENTRIES, ENTRY, HEADER, gpt_header
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


def table_writes(read: ReadAt, size: int, logical: int, number: int, end: int) -> List[TableWrite]:
    """The writes by which partition *number* ends at byte *end* of a disk of *size* bytes, and the table at that of the disk.

    *read*: (byte, length) → what the disk holds there. Raises PlumblineError, before there is anything to write, where a place that is needed holds
    something that is no part of this table, old or new.
    """
    old = _read(read(0, TABLE_HEAD), logical)
    new = _grown(old, size, logical, number, end)
    taken = _taken(logical)
    spare, last = 2 + taken, new.last
    if (spare + taken) * logical > MIB:
        raise PlumblineError("with sectors of %d bytes there is no room for the new entries before the first MiB" % logical)
    array = new.array.ljust(taken * logical, b"\0")

    def header(own: int, other: int, entries: int) -> bytes:
        return gpt_header(new.guid, (own, other, entries), new.usable, new.array).ljust(logical, b"\0")

    writes = [
        TableWrite("the backup's entries", (last - taken) * logical, array),
        TableWrite("the backup's header", last * logical, header(last, 1, last - taken)),
        *_cleared(old, new, logical),
        TableWrite("the spare entries", spare * logical, array),
        TableWrite("the header, with the spare entries", logical, header(1, last, spare)),
        TableWrite("the entries", 2 * logical, array),
        TableWrite("the header", logical, header(1, last, 2)),
        TableWrite("zeros over the spare entries", spare * logical, bytes(taken * logical)),
        TableWrite("the protective MBR", 0, _protective(read(0, logical), last)),
    ]
    _check_places(read, logical, _known(old, new, logical, writes))
    return writes


def old_backup(read: ReadAt, size: int, logical: int) -> Tuple[int, int]:
    """From which byte to which the backup lies that a larger disk has outgrown; (0, 0) where the backup is in its place."""
    old = _read(read(0, TABLE_HEAD), logical)
    begin, end = (old.last - _taken(logical)) * logical, (old.last + 1) * logical
    return (begin, end) if old.last != size // logical - 1 else (0, 0)


def _taken(logical: int) -> int:
    """Sectors that the entries take."""
    return -(-ENTRIES * ENTRY // logical)


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
    return _Table(old.guid, last, (old.usable[0], last - _taken(logical) - 1), bytes(array), 2)


def _backup(table: _Table, logical: int) -> Iterator[Tuple[int, bytes]]:
    """(Sector, bytes) of a table's backup."""
    taken = _taken(logical)
    for number in range(taken):
        yield table.last - taken + number, table.array.ljust(taken * logical, b"\0")[number * logical : (number + 1) * logical]
    yield table.last, gpt_header(table.guid, (table.last, 1, table.last - taken), table.usable, table.array).ljust(logical, b"\0")


def _cleared(old: _Table, new: _Table, logical: int) -> List[TableWrite]:
    """The backup that the disk has outgrown is within the new partition, or in its way. It goes when the new one is there."""
    first, end = old.last - _taken(logical), min(old.last + 1, new.last - _taken(logical))
    return [TableWrite("zeros over the old backup", first * logical, bytes((end - first) * logical))] if old.last < new.last and first < end else []


def _protective(sector: bytes, last: int) -> bytes:
    """The protective MBR with the length of the disk, UEFI 2.10, 5.2.3. What else it holds stays."""
    raw = bytearray(sector)
    for entry in range(446, 510, 16):
        if raw[entry + 4] == 0xEE:
            struct.pack_into("<I", raw, entry + 12, min(last, 0xFFFFFFFF))
    return bytes(raw)


def _known(old: _Table, new: _Table, logical: int, writes: Sequence[TableWrite]) -> Dict[int, Set[bytes]]:
    """What a cut may have left in each sector that is written to: what was there, or what is to be. The places of the first table are the table itself."""
    known: Dict[int, Set[bytes]] = {}
    for write in writes:
        for at in range(write.at, write.at + len(write.data), logical):
            if at >= (2 + _taken(logical)) * logical:
                known.setdefault(at, {bytes(logical)}).add(write.data[at - write.at : at - write.at + logical])
    for table in (old, new):
        for sector, data in _backup(table, logical):
            if sector * logical in known:
                known[sector * logical].add(data)
    return known


def _check_places(read: ReadAt, logical: int, known: Dict[int, Set[bytes]]) -> None:
    for at, contents in sorted(known.items()):
        if read(at, logical) not in contents:
            text = "the sector at byte %d holds something that is no part of its partition table [data]; look at it; it is left alone"
            raise PlumblineError(text % at)
