# SPDX-License-Identifier: GPL-3.0-or-later
"""XFS, as it is made, recognised, mounted and judged here. Pure.

Sources: Linux, fs/xfs/libxfs/xfs_format.h (struct xfs_dsb), xfs_sb.c; fs/xfs/xfs_super.c (options); Documentation/admin-guide/xfs.rst;
xfsprogs, mkfs/xfs_mkfs.c (calc_default_ag_geometry(), align_ag_geometry()); xfs(5), mkfs.xfs(8), xfs_repair(8).
"""

from __future__ import annotations

import struct
from math import gcd
from typing import Callable, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import xfs_superblock
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import UNFINISHED, Filesystem, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import GIB, KIB, MIB, TIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import SHUT_DOWN, Change, FilesystemKind, Making
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import (
    VFS_CANNOT_HOLD,
    VFS_FLAGS,
    VFS_OPPOSITES,
    VFS_SETTINGS,
    VFS_SILENT,
    VFS_VALUES,
    MountOptions,
)

_RO_COMPAT = {0x1: "finobt", 0x2: "rmapbt", 0x4: "reflink", 0x8: "inobtcount"}
_INCOMPAT = {0x1: "ftype", 0x2: "sparse", 0x4: "meta_uuid", 0x8: "bigtime", 0x20: "nrext64"}
_GONE = "the kernel does not mount so (any more)"
_SPELLED = "write %s, which is what the kernel shows of it"
_FLAGS = "discard filestreams gqnoenforce grpid grpquota largeio pqnoenforce prjquota swalloc uqnoenforce usrquota wsync".split()  # shown as given
# Sizes as the kernel shows them: in KiB; a page of memory at least, which some kernels have 64 KiB of.
_SIZES = "|".join("%dk" % (1 << bit) for bit in range(6, 21))

OPTIONS = MountOptions(
    filesystem="xfs",
    profiles={"default": ("noatime",)},
    flags=(VFS_FLAGS - {"sync", "i_version"}) | frozenset(_FLAGS) | frozenset("inode32 inode64 nodiscard nogrpid nolargeio noquota".split()),
    values={
        **VFS_VALUES,
        "allocsize": (_SIZES, "a power of two from 64k to 1048576k, in k"),
        "logbsize": ("32k|64k|128k|256k", "32k, 64k, 128k or 256k"),
        "logbufs": ("[2-8]", "2 to 8"),
    },
    cannot_hold={
        **VFS_CANNOT_HOLD,
        **dict.fromkeys(
            "acl barrier commit data delaylog errors i_version noacl noattr2 nobarrier nodelalloc nodelaylog osyncisdsync user_xattr".split(), _GONE
        ),
        **dict.fromkeys(("attr2", "ikeep", "noikeep"), "later kernels know it no more, and do not show it"),
        **dict.fromkeys(("sunit", "swidth"), "it would change the superblock for good; the stripes are those that the filesystem was made with"),
        "noalign": "the stripes that the filesystem was made with would not count",
        "norecovery": "the volume would be mounted without its log, read-only, and what the log has would not be seen",
        "nouuid": "a copy of the volume could be mounted in its place",
        "sync": "it sets wsync as well, which no remount takes back; a database syncs what it has to",
        "quota": _SPELLED % "usrquota",
        "uquota": _SPELLED % "usrquota",
        "gquota": _SPELLED % "grpquota",
        "pquota": _SPELLED % "prjquota",
        "uqnoquota": _SPELLED % "noquota",
        "bsdgroups": _SPELLED % "grpid",
        "sysvgroups": _SPELLED % "nogrpid",
        **dict.fromkeys(("logdev", "rtdev"), "the volume has no further device"),
    },
    settings={**VFS_SETTINGS, **dict.fromkeys(("inode32", "inode64"), "inode")},
    alone={
        "noquota": ("gqnoenforce", "grpquota", "pqnoenforce", "prjquota", "uqnoenforce", "usrquota"),
        "usrquota": ("uqnoenforce",),
        "grpquota": ("gqnoenforce",),
        "prjquota": ("pqnoenforce",),
    },
    # Lines that others wrote; a spec has none of these.
    shown={"quota": "usrquota", "uquota": "usrquota", "gquota": "grpquota", "pquota": "prjquota", "qnoenforce": "uqnoenforce", "bsdgroups": "grpid"},
    silent=VFS_SILENT | frozenset("nodiscard nogrpid nolargeio".split()),
    silent_starts=(),
    # A remount says 0 to all options and changes these alone: ro and rw, those of all filesystems, and how wide the numbers of inodes are.
    opposites={**VFS_OPPOSITES, **dict.fromkeys(_FLAGS, ""), "inode32": "inode64"},
    numbers={},
    brings={"sync": ("wsync",)},
    uncertain=(),
    modes=(),
    by_no_remount=(*_FLAGS, "allocsize=", "logbsize=", "logbufs="),
    examples={"allocsize": "1024k", "logbsize": "64k", "logbufs": "4"},
    needs={},
    # Shown of every mount: logbufs is 8, and logbsize follows from the log's stripe unit.
    defaults={"logbufs=": "logbufs=8", "logbsize=": ""},
)


class Xfs(FilesystemKind):
    family = "xfs"
    name = "xfs"
    types = ("xfs",)
    tool = "mkfs.xfs"
    package = "xfsprogs"
    grower = "xfs_growfs"
    smallest = 300 * MIB
    too_small = "in which mkfs.xfs makes no log of 64 MiB"
    longest_label = 12
    largest_stripe = 512 * MIB
    stripe_bits = "mkfs.xfs makes no stripe width of 2 GiB or more"
    passno = 0  # fsck.xfs does nothing; the mount replays the log
    superblock = (0, 4096)
    copies_by_size = True
    hides_shutdown = True
    drops_discard = True  # fs/xfs/xfs_super.c, xfs_fs_fill_super()
    settles = 90  # of what a mount changes, the log has the superblock first; the kernel writes it to its place within 30 seconds
    stripe_rule = "xfs_sunit"
    shape_words = "sunit and swidth"
    new_uuid = "xfs_admin -U generate"
    set_label = "xfs_admin -L, while it is unmounted"
    restore = (
        "unmount it, and look again: one that was mounted writes its superblock back then; else make a copy of the device first; xfs_repair -n %s says what it "
        "finds, and xfs_repair brings back up to 64 KiB of one that was unmounted in order, perhaps nothing after a crash; never use xfs_repair -L"
    )
    scans = True
    without_journal = ("norecovery",)
    options = OPTIONS
    sector = 4096  # also where the drives take 512 bytes: nothing that it writes by itself is smaller than a page of the flash's mapping

    def default_option(self, option: str) -> str:
        return "a mount without '%s'" % option

    def parse(self, raw: bytes) -> Optional[Filesystem]:
        """The primary superblock of a filesystem that was made to the end."""
        return self.copy(raw) if not xfs_superblock.in_progress(raw) else None

    def copy(self, raw: bytes) -> Optional[Filesystem]:
        """A superblock, the primary one or a copy: a copy says that mkfs is at work, until the filesystem grows."""
        fields = xfs_superblock.fields_of(raw)
        if not fields:
            return None
        block, blocks, group, unit, width = (fields[key] for key in ("block", "blocks", "group", "unit", "width"))
        features = [name for bit, name in sorted(_INCOMPAT.items()) if fields["incompat"] & bit]
        features += [name for bit, name in sorted(_RO_COMPAT.items()) if fields["ro_compat"] & bit]
        return Filesystem(
            kind=self.name,
            family=self.family,
            uuid=xfs_superblock.identifier_of(raw),
            label=xfs_superblock.label_of(raw),
            block=block,
            blocks=blocks,
            stride=unit,
            stripe_width=width,
            inodes=struct.unpack_from(">Q", raw, 128)[0],
            features=tuple(features),
            faulty=bool(fields["incompat"] & xfs_superblock.NEEDS_REPAIR),
            growable=EIB // (group * block) * group * block,
            group=group * block,
            least_group=_LEAST_AG,
            log_unit=fields["log_unit"] if fields["log_unit"] > 1 else 0,
        )

    def birth_place(self, raw: bytes) -> int:
        return xfs_superblock.root_of(raw)

    def born(self, raw: bytes) -> int:
        return xfs_superblock.born(raw)

    def is_of_whole(self, raw: bytes) -> bool:
        return xfs_superblock.has_root(raw)

    def later_copies(self, filesystem: Filesystem) -> List[int]:
        count = -(-filesystem.blocks * filesystem.block // filesystem.group)
        return sorted({number * filesystem.group for number in (count - 1, count // 2 - 1, count // 2) if number > 0})

    def unfinished(self, raw: bytes) -> Optional[Signature]:
        """One that knows its root directory is told without a UUID: mkfs had all but ended, or it is a copy of a superblock of one that was made to the end."""
        if not xfs_superblock.in_progress(raw) or xfs_superblock.fields_of(raw) is None:
            return None
        begun = xfs_superblock.identifier_of(raw) if xfs_superblock.was_cut_off(raw) else ""
        return Signature(self.family, UNFINISHED, 0, begun, xfs_superblock.label_of(raw))

    def mark(self, at: Callable[[int, int], bytes], base: int) -> Optional[Signature]:
        return None

    def copies(self, size: int) -> List[int]:
        """The starts of the first eight allocation groups, as mkfs.xfs lays them out by itself and as we do.

        For stripes up to 1 MiB on up to 64 legs, and up to 512 MiB on up to 8.
        """
        blocks, places = size // self.block, set()
        for shift in range(18):  # to the largest stripe
            stride, legs_end = 1 << shift, 65 if shift < 9 else 9
            near = [-(-blocks // count // stride) * stride for count in (4, _count(blocks, 2))]
            groups = {ag + more for ag in near for more in (-stride, 0, stride)} | {_ag_blocks(blocks, stride, legs) for legs in range(1, legs_end)}
            groups.add(_MOST_AG // (stride * self.block) * stride)
            places |= {number * ag * self.block for ag in groups if ag > 0 for number in range(1, 8)}
        return sorted(place for place in places if place + self.superblock[1] <= size)

    def least(self, stride: int, stripe_width: int) -> int:
        """Groups in each of which a log of 64 MiB finds room, as many as mkfs.xfs makes of so little."""
        legs = max(stripe_width // stride, 1)
        return max(self.smallest, _count(0, legs) * _coprime(-(-_LOG_ROOM // (stride * self.block)), legs) * stride * self.block)

    def making_fault(self, made: Making) -> str:
        width = made.stripe_width * self.block
        if width < 2 * GIB:
            return ""
        return "its stripe width would be %s, and mkfs.xfs makes none of 2 GiB or more; wanted a smaller stripe_size, or fewer stripes" % human(width)

    def log_unit(self, grain: int) -> int:
        """The grain, or the largest power of two that divides it."""
        return min(max(grain & -grain, self.block), _LARGEST_LOG_UNIT)

    def mount_fault(self, log_unit: int, options: Sequence[str]) -> str:
        size = next((int(option[len("logbsize=") : -1]) * KIB for option in options if option.startswith("logbsize=")), 0)
        if not 0 < size < log_unit:
            return ""
        return "'logbsize=%dk' is below the stripe unit of its log, %s, and the kernel does not mount so" % (size // KIB, human(log_unit))

    def mkfs_options(self, made: Making) -> str:
        """The log's stripe unit is the grain: each commit is rounded up to it, and mkfs.xfs itself takes the whole stripe."""
        legs = max(made.stripe_width // made.stride, 1)
        group = _ag_blocks(made.size // self.block, made.stride, legs) * self.block
        options = "-b size=%d -s size=%d -m uuid=%s -L %s" % (self.block, self.sector, made.uuid, made.label)
        options += " -d su=%d,sw=%d,agsize=%d -l su=%d" % (made.stride * self.block, legs, group, self.log_unit(made.grain))
        return options + (" -K" if made.discarded else "")  # it would discard again what is discarded

    def shape(self, stride: int, stripe_width: int) -> Tuple[str, ...]:
        return "sunit %d" % stride, "swidth %d" % stripe_width

    def growth_limit(self, filesystem: Filesystem) -> str:
        return "XFS is grown to 1 EiB at most here"

    def grow_argv(self, device: str, mount: str, blocks: int) -> List[str]:
        return [self.grower, "-D", str(blocks), mount]

    def changes(self, filesystem: Filesystem, size: int) -> List[Change]:
        changes = []
        if filesystem.faulty:
            remedy = "a check, by xfs_repair while it is unmounted, and a look at the kernel's log"
            changes.append(Change("xfs_errors", True, "it says itself that it needs a repair", remedy))
        return changes + [Change("xfs_cut_off" if bad else "xfs_smaller", bad, *words) for bad, *words in self.other_size(filesystem, size)]

    def grain_changes(self, filesystem: Filesystem, grain: int) -> List[Change]:
        if filesystem.log_unit <= self.log_unit(grain):
            return []
        text = "its log has a stripe unit of %s: each commit writes that much to it, however small it is"
        remedy = "%s, which is what the flash asks for; mkfs.xfs sets it (-l su=), and nothing changes it later"
        return [Change("xfs_log_unit", False, text % human(filesystem.log_unit), remedy % human(self.log_unit(grain)))]

    def made_otherwise(self, filesystem: Filesystem, options: Sequence[str]) -> List[Change]:
        return []

    def mounted_otherwise(self, filesystem: Filesystem, live: Sequence[str]) -> List[Change]:
        """A mount that allocates by other stripes than its superblock says. The kernel shows them in sectors of 512 bytes, and none where there are none."""
        if SHUT_DOWN in live:
            text = "the kernel has shut it down after an error: everything on it fails, and the mount looks as before"
            look = "a look at the kernel's log and at the drives; then unmount it, mount it again, and check it by xfs_repair -n while it is unmounted"
            return [Change("xfs_shut_down", True, text, look)]
        if "inode64" not in live and "inode32" not in live:  # not the options of a mounted XFS
            return []
        shown = [next((option[len(word) :] for option in live if option.startswith(word)), "0") for word in ("sunit=", "swidth=")]
        stripes = [str(blocks * filesystem.block // 512) for blocks in (filesystem.stride, filesystem.stripe_width)]
        if shown == stripes:
            return []
        text = "it is mounted with sunit=%s,swidth=%s, and its superblock says %s and %s" % (*shown, *stripes)
        return [Change("xfs_noalign", False, text, "a mount without noalign, sunit and swidth: unmount it, and mount it again")]


EIB = 1 << 60
_LEAST_AG = 16 * MIB  # mkfs.xfs leaves out a last group that would be smaller (XFS_AG_MIN_BYTES)
_MOST_AG = TIB - 1  # bytes (XFS_AG_MAX_BYTES)
_LOG_ROOM = 65 * MIB  # of a group: a log of 64 MiB, which is the least, and what stands before it
_LARGEST_LOG_UNIT = 256 * KIB


def _count(blocks: int, legs: int) -> int:
    """Allocation groups, by mkfs.xfs's own rule of the size: 4 on one leg; on several 8, above 8 GiB 16, above 512 GiB 32."""
    size = blocks * Xfs.block
    return 4 if legs == 1 else 32 if size > 512 * GIB else 16 if size > 8 * GIB else 8


def _coprime(number: int, legs: int) -> int:
    """The next number that has no divisor in common with the legs."""
    while gcd(number, legs) > 1:
        number += 1
    return number


def _ag_blocks(blocks: int, stride: int, legs: int) -> int:
    """Blocks of an allocation group.

    They are whole stripe units, and the number of these has no divisor in common with the legs: so the headers of the groups, which are written much, go
    round over all legs. mkfs.xfs itself only keeps them from lying on one.
    """
    count = _count(blocks, legs)
    while True:
        group_blocks = _coprime(max(-(-blocks // (count * stride)), 1), legs) * stride
        if group_blocks * Xfs.block <= _MOST_AG or group_blocks == stride:
            return group_blocks
        count += 1


XFS = Xfs()
