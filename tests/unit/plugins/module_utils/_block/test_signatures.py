# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks of formats: made by real tools where the host has them, else byte by byte from the formats' own definitions."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import signatures
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import KIB, MIB, fixture

SIZE = 96 * MIB
PLACES = (0, 34 * 512, 63 * 512, 64 * 512, MIB)


def recognised(data, size=SIZE, logical=512, starts=()):
    """What is recognised on a device that holds these bytes: {offset: bytes}. Only the windows are looked at."""
    pieces = []
    for offset, length in signatures.windows(size, logical, starts):
        raw = bytearray(length)
        for at, what in data.items():
            low, high = max(at, offset), min(at + len(what), offset + length)
            if low < high:
                raw[low - offset : high - offset] = what[low - at : high - at]
        pieces.append((offset, bytes(raw)))
    return [(one.type, one.usage, one.offset) for one in signatures.recognise(pieces, size, logical, starts, [EXT4.mark])]


def test_nothing_is_recognised_in_zeros_and_ones():
    assert recognised({}) == []
    assert recognised({0: b"\xff" * SIZE}) == []


@pytest.mark.parametrize("seed", range(20))
def test_noise_is_not_taken_for_anything(seed):
    assert recognised({0: random.Random(seed).randbytes(2 * MIB), SIZE - MIB: random.Random(-seed - 1).randbytes(MIB)}) == []


@pytest.mark.parametrize("base", PLACES)
@pytest.mark.parametrize("mark", signatures._MARKS, ids=lambda mark: "%s@%d" % (mark[0], mark[2]))
def test_every_mark_at_every_place(mark, base):
    kind, usage, where, magic = mark
    if base + where >= MIB + 72 * KIB:
        pytest.skip("a mark 1 MiB behind the beginning is looked for at the beginning of the device only")
    assert (kind, usage, base + where) in recognised({base + where: magic})


def uberblock_ring(place):
    return {place + 128 * KIB + 5 * KIB: b"\x0c\xb1\xba\0\0\0\0\0" + b"\x88\x13" + bytes(6)}


WHOLE = SIZE // (256 * KIB) * 256 * KIB
DRBD_08 = bytes(60) + struct.pack(">I", 0x8374026D)
ROWS = {
    "swap 4K": ({4086: b"SWAPSPACE2"}, ("swap", "other", 4086)),
    "swap 64K": ({65526: b"SWAPSPACE2"}, ("swap", "other", 65526)),
    "hibernated": ({4086: b"S1SUSPEND\0"}, ("swap", "other", 4086)),
    "lvm in sector 1": ({512: b"LABELONE" + bytes(16) + b"LVM2 001"}, ("LVM2_member", "raid", 536)),
    "lvm in sector 3": ({1536: b"LABELONE" + bytes(16) + b"LVM2 001"}, ("LVM2_member", "raid", 1560)),
    "md 0.90": ({SIZE - 64 * KIB: b"\xfc\x4e\x2b\xa9"}, ("linux_raid_member", "raid", SIZE - 64 * KIB)),
    "md 0.90, other endian": ({SIZE - 64 * KIB: b"\xa9\x2b\x4e\xfc"}, ("linux_raid_member", "raid", SIZE - 64 * KIB)),
    "md 1.0": ({SIZE - 8 * KIB: b"\xfc\x4e\x2b\xa9\x01\0\0\0"}, ("linux_raid_member", "raid", SIZE - 8 * KIB)),
    "ddf": ({SIZE - 512: b"\xde\x11\xde\x11"}, ("ddf_raid_member", "raid", SIZE - 512)),
    "imsm": ({SIZE - 1024: b"Intel Raid ISM Cfg Sig. 1.3"}, ("isw_raid_member", "raid", SIZE - 1024)),
    "drbd 8": ({SIZE - 4096: DRBD_08}, ("drbd", "raid", SIZE - 4096)),
    "backup gpt": ({SIZE - 512: b"EFI PART"}, ("gpt backup", "partition-table", SIZE - 512)),
    "zfs 0": (uberblock_ring(0), ("zfs_member", "filesystem", 133 * KIB)),
    "zfs 1": (uberblock_ring(256 * KIB), ("zfs_member", "filesystem", 389 * KIB)),
    "zfs 2": (uberblock_ring(WHOLE - 512 * KIB), ("zfs_member", "filesystem", WHOLE - 379 * KIB)),
    "zfs 3": (uberblock_ring(WHOLE - 256 * KIB), ("zfs_member", "filesystem", WHOLE - 123 * KIB)),
    "postgresql": ({0: struct.pack("<QHHHHHH", 99, 0, 4, 200, 300, 8192, 0x2004)}, ("postgresql", "database", 0)),
    "innodb": ({0: b"\x12\x34\x56\x78" + bytes(4) + b"\xff" * 8 + bytes(8) + b"\0\x08" + bytes(8) + b"\0\0\0\x05\0\0\0\x05"}, ("innodb", "database", 0)),
    "oracle": ({0: b"\0\xa2\0\0" + bytes(24) + b"}|{z"}, ("oracle", "database", 0)),
    "asm": ({32: b"ORCLDISKDATA01"}, ("oracleasm", "database", 32)),
}


@pytest.mark.parametrize("name", ROWS)
def test_formats(name):
    data, expected = ROWS[name]
    assert expected in recognised(data)


@pytest.mark.parametrize("size", [SIZE, SIZE + 512, SIZE + 4096 * 3 + 512, 240057409536, 3840755982336])
def test_the_end_of_a_device_of_any_size(size):
    for place in ((size // (64 * KIB) - 1) * 64 * KIB, (size - 8 * KIB) // 4096 * 4096):
        assert ("linux_raid_member", "raid", place) in recognised({place: b"\xfc\x4e\x2b\xa9"}, size)
    assert ("gpt backup", "partition-table", size - 512) in recognised({size - 512: b"EFI PART"}, size)
    whole = size // (256 * KIB) * 256 * KIB
    assert ("zfs_member", "filesystem", whole - 123 * KIB) in recognised(uberblock_ring(whole - 256 * KIB), size)


def test_blocks_of_4096():
    assert ("gpt backup", "partition-table", SIZE - 4096) in recognised({SIZE - 4096: b"EFI PART"}, logical=4096)
    assert ("gpt", "partition-table", 4096) in recognised({4096: b"EFI PART"}, logical=4096)
    assert ("xfs", "filesystem", 63 * 4096) in recognised({63 * 4096: b"XFSB"}, logical=4096)
    assert ("xfs", "filesystem", 2048 * 4096) in recognised({2048 * 4096: b"XFSB"}, logical=4096)


def test_our_own_start_is_looked_at():
    start = 33 * MIB + 3584
    assert ("btrfs", "filesystem", start + 65600) in recognised({start + 65600: b"_BHRfS_M"}, starts=(start,))
    assert recognised({start + 65600: b"_BHRfS_M"}) == []


@pytest.mark.parametrize("size", [8192, 64 * KIB, MIB - 512, MIB, MIB + 512, 2 * MIB, SIZE + 512])
def test_windows_lie_inside_the_device(size):
    for logical in (512, 4096):
        for offset, length in signatures.windows(size, logical, (MIB,)):
            assert offset % 4096 == 0 and length > 0 and offset + length <= size


TOOLS = {
    "ext4": (["mke2fs", "-q", "-F", "-t", "ext4", "-L", "ledger"], "ext"),
    "ext4 in 1 KiB blocks": (["mke2fs", "-q", "-F", "-t", "ext4", "-b", "1024"], "ext"),
    "ext2": (["mke2fs", "-q", "-F", "-t", "ext2"], "ext"),
    "swap": (["mkswap", "-q"], "swap"),
}


@pytest.mark.parametrize("base", PLACES)
@pytest.mark.parametrize("name", TOOLS)
def test_what_real_tools_make(tmp_path, name, base):
    """Behind a table that is gone, at every place where it may have begun."""
    argv, kind = TOOLS[name]
    tool = shutil.which(argv[0], path="/usr/sbin:/sbin:/usr/bin")
    if not tool:
        pytest.skip("no %s here" % argv[0])
    path = str(tmp_path / "image")
    with open(path, "wb") as handle:
        handle.truncate(8 * MIB)
    subprocess.run([tool] + argv[1:] + [path], check=True, capture_output=True, env=dict(os.environ, MKE2FS_SKIP_PROGRESS="1"))
    with open(path, "rb") as handle:
        assert kind in [one[0] for one in recognised({base: handle.read()}, 16 * MIB)]


def test_a_captured_gpt():
    raw = fixture("gpt_512.bin")
    assert ("gpt", "partition-table", 512) in recognised({0: raw})
