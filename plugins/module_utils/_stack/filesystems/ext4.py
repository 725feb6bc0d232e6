# SPDX-License-Identifier: GPL-3.0-or-later
"""ext4, as it is made, recognised, mounted and judged here; ext2 and ext3 are recognised. Pure.

Sources: Linux, Documentation/filesystems/ext4/super.rst (magic 0xEF53 at 0x38, s_raid_stride at 0x164, s_raid_stripe_width at 0x170) and
blockgroup.rst; Documentation/admin-guide/ext4.rst; fs/ext4/super.c; ext4(5), mke2fs(8), tune2fs(8).
"""

from __future__ import annotations

import struct
import uuid
from typing import Callable, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import durability
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import Change, FilesystemKind, Making
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import (
    VFS_CANNOT_HOLD,
    VFS_FLAGS,
    VFS_OPPOSITES,
    VFS_SETTINGS,
    VFS_SILENT,
    VFS_VALUES,
    MountOptions,
)

_RO_COMPAT = {0x1: "sparse_super", 0x2: "large_file", 0x10: "gdt_csum", 0x400: "metadata_csum"}
_INCOMPAT = {0x40: "extent", 0x80: "64bit", 0x200: "flex_bg"}
# The kernel reads a number in the base that its beginning tells (kstrtouint, base 0): 030 would be 24, and shown as that.
_NUMBER = "0|[1-9][0-9]{0,%d}"
_ERRORS = {1: "continue", 2: "remount-ro", 3: "panic"}

OPTIONS = MountOptions(
    filesystem="ext4",
    # What a volume is mounted with, by name. benchmark_2016 is what the article's host was measured with; it wants its acceptances.
    profiles={"default": ("noatime",), "benchmark_2016": ("noatime", "nodiratime", "nodelalloc", "barrier=0", "data=writeback")},
    flags=VFS_FLAGS
    | frozenset(
        "acl auto_da_alloc barrier block_validity bsddf bsdgroups delalloc dioread_lock dioread_nolock discard grpid grpquota init_itable "
        "journal_async_commit journal_checksum minixdf noauto_da_alloc nobarrier noblock_validity nodelalloc nodioread_nolock nodiscard nogrpid "
        "noinit_itable nojournal_checksum no_mbcache nombcache noquota no_prefetch_block_bitmaps nouid32 sysvgroups user_xattr usrquota".split()
    ),
    values={
        **VFS_VALUES,
        **dict.fromkeys(("commit", "init_itable"), (_NUMBER % 5, "a whole number below a million, without leading zeros")),
        **dict.fromkeys(("max_batch_time", "max_dir_size_kb", "min_batch_time"), (_NUMBER % 8, "a whole number, without leading zeros")),
        **dict.fromkeys(("resgid", "resuid"), (_NUMBER % 8, "a whole number, without leading zeros")),
        "stripe": ("[2-9]|[1-9][0-9]{1,8}", "a number of blocks above 1"),
        **dict.fromkeys(("barrier", "mb_optimize_scan"), ("[01]", "0 or 1")),
        "data": ("journal|ordered|writeback", "journal, ordered or writeback"),
        "data_err": ("abort|ignore", "abort or ignore"),
        "inode_readahead_blks": ("0|" + "|".join(str(1 << bit) for bit in range(31)), "0 or a power of two"),
        "dax": ("inode|never", "inode or never, since no SSD is memory"),
        "journal_ioprio": ("[0-7]", "0 to 7"),
    },
    cannot_hold={
        **VFS_CANNOT_HOLD,
        **dict.fromkeys(("bh", "nobh", "oldalloc", "orlov"), "the kernel ignores it"),
        **dict.fromkeys(("noacl", "nouser_xattr"), "the kernel does not mount so any more"),
        **dict.fromkeys(("prjquota",), "it wants a feature that the filesystem is not made with"),
        "sb": "the volume would be mounted from a copy of its superblock, once; see e2fsck -b",
    },
    settings={
        **VFS_SETTINGS,
        **dict.fromkeys(("bsdgroups", "sysvgroups"), "grpid"),
        **dict.fromkeys(("bsddf", "minixdf"), "df"),
        "dioread_lock": "dioread_nolock",
    },
    alone={"noquota": ("grpquota", "usrquota")},
    shown={"barrier=0": "nobarrier", "bsdgroups": "grpid", "dioread_lock": "nodioread_nolock", "no_mbcache": "nombcache"},
    silent=VFS_SILENT
    | frozenset(
        "acl auto_da_alloc barrier barrier=1 block_validity bsddf commit=0 commit=5 data=ordered data_err=ignore delalloc dioread_nolock errors=continue "
        "init_itable init_itable=10 journal_checksum max_batch_time=15000 min_batch_time=0 nodiscard nogrpid noquota sysvgroups user_xattr".split()
    ),
    silent_starts=("journal_ioprio=",),
    opposites={
        **VFS_OPPOSITES,
        "grpid": "nogrpid",
        "nodelalloc": "delalloc",
        "nobarrier": "barrier=1",
        "noauto_da_alloc": "auto_da_alloc",
        "errors=remount-ro": "errors=continue",
        "errors=panic": "errors=continue",
        "data_err=abort": "data_err=ignore",
        "data=writeback": "",
        "data=journal": "",
        "journal_async_commit": "",
        "discard": "nodiscard",
    },
    numbers={"commit=": "commit=0"},
    brings={"data=journal": ("nodelalloc",)},  # which the kernel does without delayed allocation, and says so
    uncertain=("errors=",),  # what the superblock does at an error anyway is not shown (_ext4_show_options())
    # The journaling mode is refused (ext4_check_opt_consistency()); an asynchronous commit and the journal's checksums are features of the journal,
    # which are set when it is loaded (ext4_load_and_init_journal()), so that a remount would show them and change nothing.
    modes=("data=ordered", "data=journal", "data=writeback"),
    by_no_remount=("journal_async_commit", "nojournal_checksum"),
    examples={"data": "ordered", "data_err": "abort", "dax": "never", "inode_readahead_blks": "64", "max_dir_size_kb": "1000", "stripe": "32"},
    needs={"journal_async_commit": "journal_async_commit,data=journal"},
)


class Ext4(FilesystemKind):
    """The facts are those of mke2fs with blocks of 4 KiB."""

    family = "ext"
    name = "ext4"
    types = ("ext4", "ext3", "ext2")
    tool = "mkfs.ext4"
    package = "e2fsprogs"
    grower = "resize2fs"
    smallest = 8 * MIB  # mke2fs makes no journal in less than 2,048 blocks, and says so only in passing (e2fsprogs, ext2fs_default_journal_size())
    too_small = "in which ext4 has no room for a journal"
    longest_label = 16
    largest_stripe = 128 * MIB  # s_raid_stride: 16 bits, in blocks of 4 KiB. The next power of two, 256 MiB, does not fit.
    stripe_bits = "ext4 keeps the stride in 16 bits"
    passno = 2
    superblock = (1024, 1024)
    stripe_rule = "ext4_stride"
    shape_words = "stride and stripe_width"
    new_uuid = "tune2fs -U random"
    set_label = "tune2fs -L"
    restore = "unmount it, and bring the superblock back with e2fsck -b 32768 %s"
    cached = True
    groups_file = "/proc/fs/ext4/%s/mb_groups"
    keys = ("errors", "bytes_per_inode", "lazy_init")
    without_journal = ("norecovery", "noload")
    options = OPTIONS

    def option_fault(self, options: Sequence[str]) -> str:
        return durability.option_fault(options)

    def parse(self, raw: bytes) -> Optional[Filesystem]:
        if len(raw) < self.superblock[1] or raw[0x38:0x3A] != b"\x53\xef":
            return None
        inodes, low = struct.unpack_from("<II", raw, 0)
        compat, incompat, ro_compat = struct.unpack_from("<III", raw, 0x5C)
        high = struct.unpack_from("<I", raw, 0x150)[0] if incompat & 0x80 else 0
        features = [name for bit, name in sorted(_INCOMPAT.items()) if incompat & bit]
        features += [name for bit, name in sorted(_RO_COMPAT.items()) if ro_compat & bit]
        growable, group, least = _growth(raw, low | high << 32)
        return Filesystem(
            kind=self.name,
            family=self.family,
            uuid=str(uuid.UUID(bytes=raw[0x68:0x78])),
            label=raw[0x78:0x88].split(b"\0")[0].decode("utf-8", "replace"),
            block=1024 << min(struct.unpack_from("<I", raw, 0x18)[0], 6),
            blocks=low | high << 32,
            stride=struct.unpack_from("<H", raw, 0x164)[0],
            stripe_width=struct.unpack_from("<I", raw, 0x170)[0],
            inodes=inodes,
            features=tuple(features),
            errors=_ERRORS.get(struct.unpack_from("<H", raw, 0x3C)[0], ""),
            made=struct.unpack_from("<I", raw, 0x108)[0] | raw[0x276] << 32,
            journal=bool(compat & 0x4),  # EXT4_FEATURE_COMPAT_HAS_JOURNAL
            reserved=struct.unpack_from("<I", raw, 0x8)[0] | (struct.unpack_from("<I", raw, 0x154)[0] << 32 if incompat & 0x80 else 0),
            faulty=bool(struct.unpack_from("<H", raw, 0x3A)[0] & 0x2),  # EXT4_ERROR_FS
            growable=growable,
            group=group,
            least_group=least,
        )

    def mark(self, at: Callable[[int, int], bytes], base: int) -> Optional[Signature]:
        raw = at(base + self.superblock[0], self.superblock[1])
        filesystem = self.parse(raw)
        if not filesystem or struct.unpack_from("<I", raw, 0x18)[0] > 6 or not filesystem.blocks or not filesystem.inodes:
            return None
        return Signature(self.family, "filesystem", base + self.superblock[0] + 0x38, filesystem.uuid, filesystem.label)

    def copies(self, size: int) -> List[int]:
        """At the start of groups 1 and the powers of 3, 5 and 7 (sparse_super), in *size* bytes of 4 KiB blocks.

        A group is as many blocks as a block has bits: 32,768 blocks, 128 MiB.
        """
        group = 8 * self.block * self.block
        groups = [1] + [base**power for base in (3, 5, 7) for power in range(1, 32)]
        return sorted(number * group for number in groups if number * group + self.superblock[1] <= size)

    def mkfs_options(self, made: Making) -> str:
        shape = "stride=%d,stripe_width=%d" % (made.stride, made.stripe_width)
        lazy = "lazy_itable_init=%d,lazy_journal_init=%d" % (made.lazy_init, made.lazy_init)
        options = "-b %d -m 0 -L %s -U %s -E %s,%s" % (self.block, made.label, made.uuid, shape, lazy)
        options += ",nodiscard" if made.discarded else ""  # it would discard again what is discarded
        return options + (" -i %d" % made.bytes_per_inode if made.bytes_per_inode else "")

    def shape(self, stride: int, stripe_width: int) -> Tuple[str, ...]:
        return "stride %d" % stride, "stripe_width %d" % stripe_width

    def changes(self, filesystem: Filesystem, size: int) -> List[Change]:
        """Of ext2 and ext3, which have no extents, nothing is judged."""
        if "extent" not in filesystem.features:
            return []
        changes = []
        if not filesystem.journal:
            remedy = "a journal, which tune2fs -O has_journal makes while it is unmounted"
            changes.append(Change("ext4_journal", True, "it has no journal: a crash can damage it", remedy))
        if filesystem.faulty:
            remedy = "a check, by e2fsck -f while it is unmounted, and a look at the kernel's log"
            changes.append(Change("ext4_errors", True, "the kernel has found errors in it", remedy))
        return changes + [Change("ext4_cut_off" if bad else "ext4_smaller", bad, *words) for bad, *words in self.other_size(filesystem, size)]

    def growth_limit(self, filesystem: Filesystem) -> str:
        if not filesystem.growable:
            return "it has no blocks reserved for the table of its groups (resize_inode), and without these ext4 is not grown here while it is mounted"
        if filesystem.growable >= filesystem.block << 32:
            return "ext4 with blocks of %d grows to 2^32 blocks while it is mounted" % filesystem.block
        return "by what it has reserved for the table of its groups (resize_inode); beyond that the kernel would convert it (meta_bg), for good"

    def grow_argv(self, device: str, mount: str, blocks: int) -> List[str]:
        return [self.grower, device, str(blocks)]

    def made_otherwise(self, filesystem: Filesystem, options: Sequence[str]) -> List[Change]:
        changes = []
        if filesystem.reserved:
            text = "it keeps %s for root alone" % human(filesystem.reserved * filesystem.block)
            changes.append(Change("ext4_reserved", False, text, "none, by tune2fs -m 0, which a mounted one takes as well"))
        if filesystem.errors and filesystem.errors != "continue" and not any(option.startswith("errors=") for option in options):
            text = "by its superblock the answer to an error is '%s'" % filesystem.errors
            remedy = "'continue' as it was made, by tune2fs -e continue, or errors=%s among the mount options" % filesystem.errors
            changes.append(Change("ext4_on_error", False, text, remedy))
        return changes

    def mounted_otherwise(self, filesystem: Filesystem, live: Sequence[str]) -> List[Change]:
        """A mount that allocates by another stripe than its superblock says; *live* names the stripe in blocks, 0 for none.

        Without a mount option it is the stripe width, else the stride, whichever fits into a block group (fs/ext4/super.c, ext4_get_stripe_size()).
        """
        shown = next((option[len("stripe=") :] for option in live if option.startswith("stripe=")), "")
        stripe = next((blocks for blocks in (filesystem.stripe_width, filesystem.stride) if 0 < blocks <= 8 * filesystem.block), 0)
        stripe = stripe if stripe > 1 else 0
        if not shown.isdigit() or int(shown) == stripe:
            return []
        text = "it is mounted with stripe=%s, and its superblock says %d" % (shown, stripe)
        return [Change("ext4_stripe", False, text, "one stripe for both, by mount -o remount,stripe=%d" % stripe)]


def _growth(raw: bytes, blocks: int) -> Tuple[int, int, int]:
    """Bytes that it is growable to while it is mounted, of a group, and of the smallest last group.

    Online, the table of groups grows into the blocks that mke2fs reserved behind it (resize_inode; fs/ext4/resize.c, ext4_resize_fs()). Where they are used up
    the kernel converts the filesystem to meta_bg, which nothing converts back. mke2fs and resize2fs leave a last group out that has fewer blocks than its
    own tables and 50 more (e2fsprogs, lib/ext2fs/initialize.c, adjust_fs_info()).
    """
    block = 1024 << min(struct.unpack_from("<I", raw, 0x18)[0], 6)
    per_group, _frags, inodes = struct.unpack_from("<III", raw, 0x20)
    compat, incompat, _ro_compat = struct.unpack_from("<III", raw, 0x5C)
    inode = struct.unpack_from("<H", raw, 0x58)[0]
    descriptor = struct.unpack_from("<H", raw, 0xFE)[0] if incompat & 0x80 else 32
    if not (per_group and inode) or not 32 <= descriptor <= block:
        return 0, 0, 0
    in_a_block = block // descriptor
    groups = -(-blocks // per_group)
    tables = -(-groups // in_a_block)
    reserved = struct.unpack_from("<H", raw, 0xCE)[0]
    least = 3 + tables + reserved + -(-inodes * inode // block) + 50
    online = bool(compat & 0x10) and not incompat & 0x10  # EXT4_FEATURE_COMPAT_RESIZE_INODE, EXT4_FEATURE_INCOMPAT_META_BG
    most = min((tables + reserved) * in_a_block * per_group, 1 << 32) * block if online else 0
    return most, per_group * block, min(least, per_group) * block


EXT4 = Ext4()
