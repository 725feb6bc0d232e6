# SPDX-License-Identifier: GPL-3.0-or-later
"""XFS as a kind, against superblocks and layouts of xfsprogs."""

from __future__ import annotations

import json
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import xfs_superblock
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import UNFINISHED
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import SHUT_DOWN, Making
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import copies_of, copies_of_all, parse_any, unfinished_any
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.xfs import OPTIONS, XFS
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, fixture

MADE = json.loads(fixture("xfs.json"))
ID = "12345678-1234-5678-9abc-def012345678"
ROWS = MADE["ours"]
# What the kernel shows of every XFS, on two legs with stripes of 64 KiB.
SHOWN = ("rw", "noatime", "attr2", "inode64", "logbufs=8", "logbsize=32k", "sunit=128", "swidth=256", "noquota")


def raw_of(row, name="superblock"):
    return bytes.fromhex(row[name]).ljust(4096, b"\0")


def sealed(raw, **fields):
    """A superblock with other fields, and its checksum."""
    places = {"inprogress": (">B", 126), "rootino": (">Q", 56), "incompat": (">I", 216), "sector": (">H", 102), "block": (">I", 4), "groups": (">I", 88)}
    raw = bytearray(raw)
    for name, value in fields.items():
        struct.pack_into(places[name][0], raw, places[name][1], value)
    struct.pack_into("<I", raw, 224, 0)
    struct.pack_into("<I", raw, 224, xfs_superblock.crc32c(bytes(raw)))
    return bytes(raw)


def making(row):
    stride = row["stripe"] // 4096
    return Making("pl-data", ID, stride, stride * row["legs"], discarded=True, size=row["size"], grain=row["grain"])


def test_the_checksum():
    assert xfs_superblock.crc32c(b"123456789") == 0xE3069283  # RFC 3720's polynomial, the check value of every catalogue


@pytest.mark.parametrize("row", ROWS)
def test_what_mkfs_made_of_our_options_is_read_back(row):
    made, shown = making(row), row["info"]
    assert XFS.mkfs_options(made) == row["options"] and row["options"].endswith(" -K")
    assert not XFS.mkfs_options(made._replace(discarded=False)).endswith("-K")
    found = XFS.parse(raw_of(row))
    assert parse_any(raw_of(row)) == found and unfinished_any(raw_of(row)) is None
    assert (found.kind, found.uuid, found.label, found.block) == ("xfs", ID, "pl-data", 4096)
    assert (found.blocks, found.stride, found.stripe_width) == (shown["blocks"], shown["sunit"], shown["swidth"]) == (row["size"] // 4096, *made[2:4])
    assert found.group == shown["agsize"] * 4096 and shown["logsunit"] * 4096 == XFS.log_unit(row["grain"]) == found.log_unit
    assert XFS.changes(found, row["size"]) == [] and XFS.room(found, row["size"]) == row["size"]
    places = XFS.copies(row["size"])
    assert all(number * found.group in places for number in range(1, min(shown["agcount"], 8)))
    assert {number * shown["agsize"] // found.stride % row["legs"] for number in range(shown["agcount"])} == set(range(row["legs"]))


@pytest.mark.parametrize("row", MADE["own"])
def test_the_copies_of_what_mkfs_lays_out_by_itself_are_looked_at(row):
    places = XFS.copies(row["size"])
    assert all(number * row["agsize"] * 4096 in places for number in range(1, min(row["agcount"], 8)))
    assert len(places) < 900 and places == sorted(set(places)) and all(place + 4096 <= row["size"] for place in places)


def test_the_copies_of_one_that_grew_are_looked_at_by_the_groups_that_it_was_made_with():
    row = ROWS[0]
    group, grown = XFS.parse(raw_of(row)).group, row["size"] * 3 + 4096 * 77
    assert group not in copies_of(XFS, grown)
    places = copies_of(XFS, grown, [group])
    assert all(number * group in places for number in range(1, 8)) and all(place + 4096 <= grown for place in places)
    assert copies_of(EXT4, grown, [group]) == EXT4.copies(grown)
    assert set(places) <= set(copies_of_all(grown, [group]))


def test_where_a_whole_filesystem_says_so():
    found = XFS.parse(raw_of(ROWS[0]))
    count = -(-found.blocks * found.block // found.group)
    assert XFS.later_copies(found) == sorted({(count - 1) * found.group, (count // 2 - 1) * found.group, count // 2 * found.group} - {0})
    assert XFS.is_of_whole(raw_of(ROWS[2])) and not XFS.is_of_whole(raw_of(ROWS[2], "copy")) and not XFS.is_of_whole(b"")


def test_what_others_wrote_in_fstab():
    for line, live in (("pquota", "prjquota"), ("uquota", "usrquota"), ("sync", "sync,wsync"), ("bsdgroups", "grpid")):
        assert OPTIONS.fstab_drift(["defaults", "noatime", line], (*SHOWN, *live.split(","))) == ([], []), line


def test_a_copy_is_no_first_superblock():
    """Copies say for ever that mkfs is at work. The first says so until mkfs is done; then it has a root directory."""
    for row in ROWS:
        copy = raw_of(row, "copy")
        assert XFS.parse(copy) is None and XFS.copy(copy) == XFS.parse(raw_of(row))._replace(inodes=XFS.copy(copy).inodes)
        mark = unfinished_any(copy)
        # mkfs writes the last and the one in the middle again, when there is a root directory. The first is like that shortly before its end.
        late = row["info"]["agcount"] == 4
        assert (mark.type, mark.usage, mark.uuid, mark.label) == ("xfs", UNFINISHED, "" if late else ID, "pl-data")
    with_root = sealed(raw_of(ROWS[0]), inprogress=1)
    assert XFS.parse(with_root) is None and unfinished_any(with_root).uuid == "", "a copy that somebody put there may have one"
    assert unfinished_any(bytes(4096)) is None and unfinished_any(raw_of(ROWS[0])) is None


@pytest.mark.parametrize(
    "fields", [{"block": 4095}, {"block": 256}, {"sector": 8192}, {"sector": 100}, {"groups": 0}, {"groups": 1}], ids=str
)
def test_what_contradicts_itself_is_none(fields):
    assert XFS.parse(sealed(raw_of(ROWS[2]), **fields)) is None


def test_a_superblock_that_was_changed_is_none():
    raw = raw_of(ROWS[2])
    for place in (8, 60, 150, 263, 4095):
        changed = bytearray(raw)
        changed[place] ^= 1
        assert XFS.parse(bytes(changed)) is None
    assert XFS.parse(raw[:512]) is None and XFS.parse(raw[:100]) is None and XFS.parse(b"") is None


def test_older_ones_and_small_sectors():
    old, plain = (bytes.fromhex(MADE[name]).ljust(4096, b"\0") for name in ("v4", "plain"))
    assert XFS.parse(old).label == "old" and not XFS.parse(old).faulty
    assert XFS.parse(plain).blocks == 600 * MIB // 4096 and XFS.parse(plain[:512] + b"\1" * 3584), "its sector has 512 bytes"


@pytest.mark.parametrize(
    ("stride", "legs", "least"),
    [
        (1, 1, 300 * MIB), (16, 2, 8 * 16656 * 4096), (2, 4, 8 * 16642 * 4096), (128, 3, 8 * 130 * 512 * KIB), (256, 5, 8 * 66 * MIB), (65536, 2, 2 * GIB),
    ],
)  # fmt: skip
def test_the_least(stride, legs, least):
    assert XFS.least(stride, stride * legs) == least
    for more in range(0, 64, 7):  # whatever is larger has room in each group as well
        options = XFS.mkfs_options(Making("l", ID, stride, stride * legs, size=least + more * MIB, grain=4096))
        group = int(options.split("agsize=")[1].split()[0])
        assert group >= 65 * MIB and group % (stride * 4096) == 0


def test_the_largest():
    """Groups are below 1 TiB; of more there are more."""
    for size in (31, 32, 33, 64, 200):
        for legs in (1, 2, 4, 6):
            group = int(XFS.mkfs_options(Making("l", ID, 256, 256 * legs, size=size << 40, grain=4096)).split("agsize=")[1].split()[0])
            assert group < 1 << 40 and -(-(size << 40) // group) <= max(32, 2 * size)


@pytest.mark.parametrize(
    ("grain", "unit"), [(4096, 4096), (1, 4096), (16384, 16384), (24 * KIB, 8 * KIB), (MIB, 256 * KIB), (3 * 4096, 4096), (512, 4096)]
)
def test_the_unit_of_the_log(grain, unit):
    assert XFS.log_unit(grain) == unit


@pytest.mark.parametrize(
    ("more", "options", "words"),
    [
        ({}, ("noatime", "logbsize=32k"), ""),
        ({"grain": 65536}, ("logbsize=32k",), "'logbsize=32k' is below the stripe unit of its log, 64 KiB"),
        ({"grain": 65536}, ("logbsize=64k",), ""),
        ({"stride": 32768, "stripe_width": 32768 * 16}, (), "its stripe width would be 2 GiB"),
        ({"stride": 32768, "stripe_width": 32768 * 15}, (), ""),
    ],
)
def test_what_cannot_be_made(more, options, words):
    made = Making("l", ID, 16, 32, size=GIB, grain=4096)._replace(**more)
    fault = XFS.making_fault(made) or XFS.mount_fault(XFS.log_unit(made.grain), options)
    assert bool(fault) == bool(words) and words in fault


@pytest.mark.parametrize(
    ("live", "words"),
    [
        (SHOWN, ""),
        ((), ""),
        (("rw", "noatime"), ""),
        (tuple(one for one in SHOWN if "unit" not in one and "width" not in one), "sunit=0,swidth=0, and its superblock says 128 and 256"),
        ((*SHOWN[:6], "sunit=256", "swidth=512"), "sunit=256,swidth=512"),
    ],
)
def test_the_live_stripes(live, words):
    found = XFS.parse(raw_of(ROWS[2]))
    changes = XFS.mounted_otherwise(found, live)
    assert bool(changes) == bool(words) and all(words in change.found and not change.bad for change in changes)


def test_one_that_the_kernel_has_shut_down():
    (change,) = XFS.mounted_otherwise(XFS.parse(raw_of(ROWS[2])), (*SHOWN, SHUT_DOWN))
    assert (change.rule, change.bad) == ("xfs_shut_down", True)


def test_changes():
    found = XFS.parse(raw_of(ROWS[2]))
    assert [one.rule for one in XFS.changes(found, 700 * MIB)] == ["xfs_smaller"] and "xfs_growfs" in XFS.changes(found, 700 * MIB)[0].wanted
    assert [(one.rule, one.bad) for one in XFS.changes(found, 500 * MIB)] == [("xfs_cut_off", True)]
    broken = XFS.parse(sealed(raw_of(ROWS[2]), incompat=0x1B))
    assert [(one.rule, one.bad) for one in XFS.changes(broken, 600 * MIB)] == [("xfs_errors", True)]
    assert XFS.grow_argv("/dev/dm-0", "/pl/data", 25600) == ["xfs_growfs", "-D", "25600", "/pl/data"]
    # A last group of less than 16 MiB is left out, by mkfs and by us.
    assert XFS.room(found, found.group * 9 + 15 * MIB) == found.group * 9 and XFS.room(found, found.group * 9 + 16 * MIB) == found.group * 9 + 16 * MIB


@pytest.mark.parametrize(
    "option",
    "barrier nobarrier data=ordered data=writeback commit=5 errors=panic sunit=16 swidth=32 noalign norecovery sync attr2 ikeep nouuid uquota bsdgroups "
    "i_version acl logdev=/dev/sda logbsize=65536 logbufs=9 allocsize=1m allocsize=1k nodelalloc".split(),
)
def test_options_that_are_not_taken(option):
    assert OPTIONS.spelling_fault(option, False)


def test_all_that_are_taken_change_as_the_kernel_has_it():
    for option in OPTIONS.known():
        assert not OPTIONS.spelling_fault(option, False), option
    assert OPTIONS.drift(("noatime",), SHOWN) == ([], []) and OPTIONS.wants_unmount(("noatime",), SHOWN) == []
    assert OPTIONS.wants_unmount(("noatime", "discard"), SHOWN) == [("no discard", "discard")]
    assert OPTIONS.wants_unmount(("noatime",), (*SHOWN, "discard")) == [("discard", "no discard")]
    assert OPTIONS.wants_unmount(("noatime", "logbufs=4"), SHOWN) == [("logbufs=8", "logbufs=4")]
    assert OPTIONS.wants_unmount(("noatime",), [one.replace("logbufs=8", "logbufs=2") for one in SHOWN]) == [("logbufs=2", "logbufs=8")]
    assert OPTIONS.wants_unmount(("noatime", "logbsize=64k"), SHOWN) == [("logbsize=32k", "logbsize=64k")]
    assert OPTIONS.drift(("noatime", "inode32"), SHOWN) == (["inode32"], [])
    live = [one.replace("inode64", "inode32") for one in SHOWN]
    assert OPTIONS.drift(("noatime",), live) == ([], ["inode32"]) and OPTIONS.undo(["inode32"]) == ["inode64"]
    assert OPTIONS.contradiction(["inode32", "inode64"]) and OPTIONS.contradiction(["noquota", "usrquota"])


def test_its_birth_is_that_of_its_root_directory():
    """The superblock has no time."""
    inode = bytes.fromhex(MADE["root"])
    assert [XFS.birth_place(raw_of(row)) for row in ROWS] == [65536, 65536, 65536, 524288, MIB, 65536, 65536]
    assert XFS.born(inode) == 1795886467
    old = bytearray(inode)
    struct.pack_into(">QII", old, 120, 0, 0, 0)
    struct.pack_into(">II", old, 144, 1700000000, 5)
    assert XFS.born(bytes(old)) == 1700000000
    assert XFS.born(b"XX" + inode[2:]) == XFS.born(inode[:100]) == XFS.born(b"") == 0
    assert XFS.birth_place(raw_of(ROWS[2], "copy")) == -1, "no root directory yet"
