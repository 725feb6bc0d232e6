# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4

MIB = 1 << 20
SOUND = Filesystem("ext4", "12345678-1234-5678-9abc-def012345678", "data", 4096, 256 * 100, 16, 32, 1000, ("extent",))


@pytest.mark.parametrize(
    "found, size, bad, words",
    [
        (SOUND, 100 * MIB, [], ""),
        (SOUND, 100 * MIB + 4096, [], ""),
        (SOUND._replace(journal=False), 100 * MIB, [True], "it has no journal"),
        (SOUND._replace(faulty=True), 100 * MIB, [True], "the kernel has found errors in it"),
        (SOUND, 110 * MIB, [False], "it is 10 MiB smaller than what it stands on"),
        (SOUND, 99 * MIB, [True], "it is 1 MiB larger than what it stands on: its end is cut off"),
        (SOUND._replace(journal=False, faulty=True), 110 * MIB, [True, True, False], "no journal"),
        (SOUND._replace(journal=False, features=()), 100 * MIB, [], ""),
    ],
)
def test_changes(found, size, bad, words):
    changes = EXT4.changes(found, size)
    assert [change.bad for change in changes] == bad
    assert all(change.wanted for change in changes) and words in "".join(change.found for change in changes)


@pytest.mark.parametrize("compat, state, journal, faulty", [(0x3C, 1, True, False), (0x38, 1, False, False), (0x3C, 2, True, True), (0x3C, 3, True, True)])
def test_the_superblock_tells(compat, state, journal, faulty):
    raw = bytearray(1024)
    struct.pack_into("<I", raw, 0x5C, compat)
    struct.pack_into("<HH", raw, 0x38, 0xEF53, state)
    found = EXT4.parse(bytes(raw))
    assert (found.journal, found.faulty) == (journal, faulty)


@pytest.mark.parametrize(
    "width, stride, live, words",
    [
        (32, 16, ("rw", "stripe=32"), ""),
        (32, 16, ("rw",), ""),  # not ext4's own list of what is in force
        (32, 16, ("rw", "stripe=16"), "stripe=16, and its superblock says 32"),
        (32, 16, ("rw", "stripe=0"), "stripe=0, and its superblock says 32"),
        (0, 0, ("rw", "stripe=0"), ""),
        (0, 0, ("rw", "stripe=8"), "stripe=8, and its superblock says 0"),
        (1, 1, ("rw", "stripe=0"), ""),
        (0, 16, ("rw", "stripe=16"), ""),
        (40000, 16, ("rw", "stripe=16"), ""),  # wider than a block group
    ],
)
def test_the_live_stripe(width, stride, live, words):
    changes = EXT4.mounted_otherwise(SOUND._replace(stripe_width=width, stride=stride), live)
    assert bool(changes) == bool(words) and all(words in change.found and not change.bad for change in changes)


@pytest.mark.parametrize(
    "found, options, words",
    [
        (SOUND._replace(errors="continue"), (), []),
        (SOUND._replace(reserved=256), (), ["it keeps 1 MiB for root alone"]),
        (SOUND._replace(errors="panic"), ("noatime",), ["the answer to an error is 'panic'"]),
        (SOUND._replace(errors="panic"), ("errors=remount-ro",), []),
        (SOUND._replace(errors="remount-ro", reserved=5), (), ["it keeps", "'remount-ro'"]),
    ],
)
def test_settings_that_somebody_changed(found, options, words):
    changes = EXT4.made_otherwise(found, options)
    assert len(changes) == len(words) and all(word in change.found and not change.bad for word, change in zip(words, changes))


@pytest.mark.parametrize("incompat, reserved", [(0, 7), (0x80, 7 | 3 << 32)])
def test_reserved_blocks(incompat, reserved):
    raw = bytearray(1024)
    struct.pack_into("<I", raw, 0x8, 7)
    struct.pack_into("<HH", raw, 0x38, 0xEF53, 1)
    struct.pack_into("<I", raw, 0x60, incompat)
    struct.pack_into("<I", raw, 0x154, 3)
    assert EXT4.parse(bytes(raw)).reserved == reserved
