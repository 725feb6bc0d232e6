# SPDX-License-Identifier: GPL-3.0-or-later
"""An array of md: what the kernel says of it while it is there, and what the superblocks of its members say. Pure; bytes.

Sources: include/uapi/linux/raid/md_p.h (struct mdp_superblock_1), Documentation/admin-guide/md.rst.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Optional, Tuple

NEAR_2 = 0x102  # the layout of a RAID 10 with two copies side by side, md(4)
RAID10 = 10
SUPERBLOCK_AT = 4096  # of version 1.2
SUPERBLOCK_BYTES = 4096
_MAGIC = 0xA92B4EFC
_ROLES_AT = 256
_SECTOR = 512
# Of a member without a place among those that hold data.
SPARE, FAULTY = 0xFFFF, 0xFFFE
_PLACES = 0xFF00  # roles below this are places
_TIME_BITS = (1 << 40) - 1


class MdMember(NamedTuple):
    """A member of an array that is there. *slot*: its place, -1 for none; *states*: the words of dev-NAME/state; *bad*: ranges of blocks that it does not hold.

    *errors*: sectors that it could not read and that did not make md give it up, as md counts them, and keeps the count over a restart.
    *devno* is empty where the device has gone, and md has not been told.
    A copy goes on where its source cannot be read, and notes such a range of the member that is filled; that is in sync then (md(4), BAD BLOCK LIST).
    """

    devno: str
    slot: int
    states: Tuple[str, ...] = ()
    bad: int = 0
    errors: int = 0

    @property
    def in_sync(self) -> bool:
        return bool(self.devno) and self.slot >= 0 and "in_sync" in self.states and "faulty" not in self.states

    @property
    def faulty(self) -> bool:
        return "faulty" in self.states


class MdArray(NamedTuple):
    """An array as the kernel has it. *state*: its array_state, ``inactive`` where it does not run; *component*: bytes that it uses of each member.

    *bitmap*: where its write-intent bitmap is (bitmap/location), ``none`` where it has none.

    *halt*: the sector before which md halts (sync_max), 0 for none.
    """

    name: str
    devno: str
    state: str
    level: str
    layout: int
    chunk: int
    disks: int
    component: int
    members: Tuple[MdMember, ...] = ()
    bitmap: str = ""
    halt: int = 0

    @property
    def runs(self) -> bool:
        return self.state not in ("", "clear", "inactive")

    @property
    def missing(self) -> Tuple[int, ...]:
        """The places on which no member holds what it should."""
        good = {member.slot for member in self.members if member.in_sync and "replacement" not in member.states}
        return tuple(slot for slot in range(self.disks) if slot not in good)

    @property
    def lost(self) -> Tuple[int, ...]:
        """The places of which no member holds the contents: both of a pair are gone. Only of RAID 10 with two copies side by side."""
        held = {member.slot // 2 for member in self.members if member.in_sync}
        paired = (self.level, self.layout) == ("raid10", NEAR_2)
        return tuple(slot for slot in range(self.disks) if paired and slot // 2 not in held)

    @property
    def failed(self) -> bool:
        """Whether a part of its data is on no member any more, or cannot be reached. *broken*: Documentation/admin-guide/md.rst, array_state."""
        return self.state == "broken" or bool(self.lost)


class MdSuperblock(NamedTuple):
    """What a member says. *uuid* as mdadm writes it; *role*: its own place, or SPARE, FAULTY; *roles*: of all, by their device numbers in the array.

    *size*: bytes that are used of each member, *resync*: bytes up to which the array is in sync, -1 for all of it.
    """

    uuid: str
    name: str
    level: int
    layout: int
    chunk: int
    disks: int
    size: int
    data_offset: int
    events: int
    made: int
    written: int
    role: int
    roles: Tuple[int, ...]
    resync: int

    @property
    def absent(self) -> Tuple[int, ...]:
        """The places that are empty as far as this member knows."""
        return tuple(slot for slot in range(self.disks) if slot not in self.roles)


def parse_md_superblock(raw: bytes) -> Optional[MdSuperblock]:
    """The superblock of version 1.2 in the 4 KiB at SUPERBLOCK_AT of a member; None where there is none that is sound."""
    if len(raw) < _ROLES_AT:
        return None
    magic, major = struct.unpack_from("<II", raw)
    if (magic, major) != (_MAGIC, 1):
        return None
    (most,) = struct.unpack_from("<I", raw, 0xDC)
    end = _ROLES_AT + 2 * most
    if end > len(raw) or _checksum(raw[:end]) != struct.unpack_from("<I", raw, 0xD8)[0]:
        return None
    made, level, layout, size, chunk, disks = struct.unpack_from("<QiIQII", raw, 0x40)
    data_offset, _data_size, super_at = struct.unpack_from("<QQQ", raw, 0x80)
    written, events, resync = struct.unpack_from("<QQQ", raw, 0xC0)
    (number,) = struct.unpack_from("<I", raw, 0xA0)
    roles = struct.unpack_from("<%dH" % most, raw, _ROLES_AT)
    if super_at * _SECTOR != SUPERBLOCK_AT or not 0 < disks < _PLACES:
        return None
    return MdSuperblock(
        uuid=md_uuid(raw[0x10:0x20].hex()),
        name=raw[0x20:0x40].rstrip(b"\0").decode("ascii", "replace"),
        level=level,
        layout=layout,
        chunk=chunk * _SECTOR,
        disks=disks,
        size=size * _SECTOR,
        data_offset=data_offset * _SECTOR,
        events=events,
        made=made & _TIME_BITS,
        written=written & _TIME_BITS,
        role=roles[number] if number < most else SPARE,
        roles=tuple(roles),
        resync=-1 if resync >= (1 << 63) else resync * _SECTOR,
    )


def was_run_apart(member: MdSuperblock, array: MdArray, events: int) -> bool:
    """Whether a member that is not in a running array was run without those that are: each side may have data then that the other lacks.

    *events*: the most of those in the array. A member that was only away has fewer, and misses none of the places that the array has filled.
    """
    return member.events >= events or bool(set(member.absent) - set(array.missing))


def _checksum(raw: bytes) -> int:
    """That of drivers/md/md.c: over the superblock with its roles, with zeros for the checksum itself."""
    bare = raw[:0xD8] + bytes(4) + raw[0xDC:]
    words = struct.unpack("<%dI" % (len(bare) // 4), bare[: len(bare) // 4 * 4])
    total: int = sum(words) + (struct.unpack_from("<H", bare, len(bare) - 2)[0] if len(bare) % 4 else 0)
    return ((total & 0xFFFFFFFF) + (total >> 32)) & 0xFFFFFFFF


def md_uuid(digits: str) -> str:
    """A UUID as mdadm writes it, and udev in its links: four groups of eight digits."""
    bare = digits.replace("-", "").replace(":", "").lower()
    return ":".join(bare[at : at + 8] for at in range(0, 32, 8))
