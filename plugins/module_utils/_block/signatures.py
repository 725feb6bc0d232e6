# SPDX-License-Identifier: GPL-3.0-or-later
"""What a device holds, by its own bytes: the marks that formats leave, where formats leave them. Pure.

libblkid knows most formats, but only at the beginning and end of a device. A zapped table hides a living filesystem
behind the first MiB, a copied one begins at sector 63, and a database on the raw device carries nothing that libblkid
knows. So we look at all places where partitions have begun since 1983, at our own start, and at the end.

Sources: util-linux 2.38, libblkid/src/superblocks and partitions (offsets and magics); md: Documentation/admin-guide/md.rst
and md_p.h; OpenZFS include/sys/vdev_impl.h; Ceph os/bluestore/bluestore_types.h; drbd_int.h; oracleasmlib (ORCLDISK at 32).
"""

from __future__ import annotations

import struct
from typing import Callable, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB

END = MIB  # of head and tail, read whole
REACH = 72 * KIB  # the farthest mark behind the beginning of a format, btrfs's and reiserfs's at 64 KiB, and then some
# Sectors at which partitions begin: behind a GPT, behind a track (DOS), on a 32 KiB multiple, on a MiB.
STARTS = (0, 34, 63, 64, 2048)

_PAGES = tuple(size * KIB for size in (4, 8, 16, 32, 64))  # swap's mark ends the first page, whatever a page is
_UFS = b"\x54\x19\x01\x00"
# Type, use, byte behind the beginning, the bytes that stand there.
_MARKS: Tuple[Tuple[str, str, int, bytes], ...] = (
    ("xfs", "filesystem", 0, b"XFSB"),
    ("btrfs", "filesystem", 65600, b"_BHRfS_M"),
    ("bcachefs", "filesystem", 4120, b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("f2fs", "filesystem", 1024, b"\x10\x20\xf5\xf2"),
    ("jfs", "filesystem", 32768, b"JFS1"),
    ("reiserfs", "filesystem", 65588, b"ReIsEr"),
    ("reiserfs", "filesystem", 8244, b"ReIsEr"),
    ("gfs2", "filesystem", 65536, b"\x01\x16\x19\x70"),
    ("ocfs2", "filesystem", 1024, b"OCFSV2"),
    ("ocfs2", "filesystem", 2048, b"OCFSV2"),
    ("ocfs2", "filesystem", 4096, b"OCFSV2"),
    ("ocfs2", "filesystem", 8192, b"OCFSV2"),
    ("ntfs", "filesystem", 3, b"NTFS    "),
    ("exfat", "filesystem", 3, b"EXFAT   "),
    ("vfat", "filesystem", 54, b"FAT12   "),
    ("vfat", "filesystem", 54, b"FAT16   "),
    ("vfat", "filesystem", 82, b"FAT32   "),
    ("apfs", "filesystem", 32, b"NXSB"),
    ("iso9660", "filesystem", 32769, b"CD001"),
    ("udf", "filesystem", 32769, b"BEA01"),
    ("squashfs", "filesystem", 0, b"hsqs"),
    ("erofs", "filesystem", 1024, b"\xe2\xe1\xf5\xe0"),
    ("cramfs", "filesystem", 0, b"\x45\x3d\xcd\x28"),
    ("zonefs", "filesystem", 0, b"SFOZ"),
    ("ufs", "filesystem", 9564, _UFS),
    ("ufs2", "filesystem", 66908, b"\x19\x01\x54\x19"),
    ("crypto_LUKS", "crypto", 0, b"LUKS\xba\xbe"),
    ("crypto_LUKS", "crypto", 16384, b"SKUL\xba\xbe"),
    ("crypto_LUKS", "crypto", 32768, b"SKUL\xba\xbe"),
    ("BitLocker", "crypto", 3, b"-FVE-FS-"),
    ("DM_integrity", "crypto", 0, b"integrt\0"),
    ("DM_verity_hash", "crypto", 0, b"verity\0\0"),
    ("linux_raid_member", "raid", 0, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    ("linux_raid_member", "raid", 4096, b"\xfc\x4e\x2b\xa9\x01\0\0\0"),
    ("bcache", "other", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("ceph_bluestore", "other", 0, b"bluestore block device\n"),
    ("oracleasm", "database", 32, b"ORCLDISK"),
    ("vdo", "other", 0, b"dmvdo001"),
    ("stratis", "raid", 512, b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("VMFS", "filesystem", MIB, b"\x0d\xd0\x01\xc0"),
    ("sqlite", "database", 0, b"SQLite format 3\0"),
    ("sun", "partition-table", 508, b"\xda\xbe"),
    ("bsd", "partition-table", 512, b"\x57\x45\x56\x82"),
    ("sgi", "partition-table", 0, b"\x0b\xe5\xa9\x41"),
    ("mac", "partition-table", 512, b"PM\0\0"),
    ("gpt", "partition-table", 512, b"EFI PART"),
)
# What a device of this many bytes carries so far before its end.
_DDF = b"\xde\x11\xde\x11"
_IMSM = b"Intel Raid ISM Cfg Sig. "
_MD = (b"\xfc\x4e\x2b\xa9", b"\xa9\x2b\x4e\xfc")
_UBERBLOCK = (b"\x0c\xb1\xba\0\0\0\0\0", b"\0\0\0\0\0\xba\xb1\x0c")
_DRBD = b"\x83\x74\x02"

Reader = Callable[[int, int], bytes]
Superblock = Callable[[Reader, int], Optional[Signature]]  # (bytes at, where a format may begin) → the superblock's mark


def bases(size: int, logical: int, starts: Sequence[int] = ()) -> List[int]:
    """The bytes at which a format may begin, each once: STARTS in both sector sizes, and *starts*, where our own volumes would be."""
    places = {sector * unit for sector in STARTS for unit in (512, logical)} | set(starts)
    return sorted(place for place in places if 0 <= place < size)


def windows(size: int, logical: int, starts: Sequence[int] = ()) -> List[Tuple[int, int]]:
    """What must be read to look there: (offset, length), on whole pages where the device has them. Head first, tail second."""
    head = min(END, size)
    tail = max((size - END) // 4096 * 4096, 0)
    spans = [(0, head), (tail, size - tail)]
    for base in bases(size, logical, starts):
        low = base // 4096 * 4096
        if base + REACH > head and low < size:
            spans.append((low, min(-(-(base + REACH) // 4096) * 4096, size) - low))
    return list(dict.fromkeys(spans))


def recognise(
    pieces: Sequence[Tuple[int, bytes]], size: int, logical: int, starts: Sequence[int] = (), superblocks: Sequence[Superblock] = ()
) -> List[Signature]:
    """Every mark in the *pieces* (offset, bytes) of a device of *size* bytes, by its place. Each is reported once.

    *superblocks*: readers of those that a mark alone does not tell.
    """

    def at(offset: int, length: int) -> bytes:
        for first, raw in pieces:
            if first <= offset and offset + length <= first + len(raw):
                return raw[offset - first : offset - first + length]
        return b""

    marks: List[Signature] = []
    for base in bases(size, logical, starts):
        marks += _at_base(at, base, logical)
        marks += [mark for mark in (read(at, base) for read in superblocks) if mark]
    marks += _at_end(at, size, logical) + _zfs(at, size)
    once = {(mark.type, mark.offset): mark for mark in marks}
    return [once[key] for key in sorted(once, key=lambda key: (key[1], key[0]))]


def _at_base(at: Reader, base: int, logical: int) -> List[Signature]:
    marks = [Signature(kind, use, base + where) for kind, use, where, magic in _MARKS if at(base + where, len(magic)) == magic]
    if logical != 512 and at(base + logical, 8) == b"EFI PART":
        marks.append(Signature("gpt", "partition-table", base + logical))
    for page in _PAGES:
        if at(base + page - 10, 10) in (b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"S2SUSPEND\0", b"ULSUSPEND\0", b"LINHIB0001"):
            marks.append(Signature("swap", "other", base + page - 10))
    for sector in range(4):  # LVM looks at four (label.h, LABEL_SCAN_SECTORS)
        label = at(base + 512 * sector, 32)
        if label[:8] == b"LABELONE" and label[24:] == b"LVM2 001":
            marks.append(Signature("LVM2_member", "raid", base + 512 * sector + 24))
    return marks + _databases(at, base)


def _databases(at: Reader, base: int) -> List[Signature]:
    """First pages of database files: what PostgreSQL, InnoDB and Oracle put on a raw device."""
    head = at(base, 40)
    marks: List[Signature] = []
    if len(head) < 40:
        return marks
    lower, upper, special, version = struct.unpack_from("<HHHH", head, 12)  # bufpage.h, PageHeaderData
    if version == 0x2004 and 24 <= lower <= upper <= special <= 8192:
        marks.append(Signature("postgresql", "database", base))
    # fil0types.h: page number at 4, type at 24 (8: FSP_HDR), space at 34; page 0 says its space again at 38.
    if head[4:8] == bytes(4) and head[8:12] in (b"\xff" * 4, bytes(4)) and head[24:26] == b"\0\x08" and head[34:38] == head[38:40] + at(base + 40, 2):
        marks.append(Signature("innodb", "database", base))
    if head[28:32] in (b"}|{z", b"z{|}"):
        marks.append(Signature("oracle", "database", base))
    return marks


def _at_end(at: Reader, size: int, logical: int) -> List[Signature]:
    marks = []
    if at(size - logical, 8) == b"EFI PART":
        marks.append(Signature("gpt backup", "partition-table", size - logical))
    # md 0.90 begins on the last whole 64 KiB but one, 1.0 on the last 4 KiB that leave 8 KiB (md_p.h, super1.c).
    for place in ((size // (64 * KIB) - 1) * 64 * KIB, (size - 8 * KIB) // 4096 * 4096):
        if place > 0 and at(place, 4) in _MD:
            marks.append(Signature("linux_raid_member", "raid", place))
    for sector in (512, 4096):
        if at(size - sector, 4) == _DDF:
            marks.append(Signature("ddf_raid_member", "raid", size - sector))
        if at(size - 2 * sector, len(_IMSM)) == _IMSM:
            marks.append(Signature("isw_raid_member", "raid", size - 2 * sector))
    drbd = at((size - 4 * KIB) // 4096 * 4096, 128)
    if any(drbd[place : place + 3] == _DRBD for place in range(0, len(drbd), 4)):  # v08 and v09 keep it at different places
        marks.append(Signature("drbd", "raid", (size - 4 * KIB) // 4096 * 4096))
    return marks


def _zfs(at: Reader, size: int) -> List[Signature]:
    """Four labels of 256 KiB, two at each end; the ring of uberblocks fills the second half of each (vdev_impl.h)."""
    label, whole = 256 * KIB, size // (256 * KIB) * 256 * KIB
    marks = []
    for place in (0, label, whole - 2 * label, whole - label):
        ring = at(place + label // 2, label // 2) if place >= 0 else b""
        slots = [slot for slot in range(0, len(ring), KIB) if ring[slot : slot + 8] in _UBERBLOCK]
        if slots:
            marks.append(Signature("zfs_member", "filesystem", place + label // 2 + slots[0]))
    return marks
