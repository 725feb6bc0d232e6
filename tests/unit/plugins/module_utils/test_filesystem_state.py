# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._filesystem_state import changes_of
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Ext4
from ansible_collections.plumbline.ssd.plugins.module_utils._tables import parse_ext4

MIB = 1 << 20
SOUND = Ext4("12345678-1234-5678-9abc-def012345678", "data", 4096, 256 * 100, 16, 32, 1000, ("extent",))


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
    changes = changes_of(found, size)
    assert [change.bad for change in changes] == bad
    assert all(change.wanted for change in changes) and words in "".join(change.found for change in changes)


@pytest.mark.parametrize("compat, state, journal, faulty", [(0x3C, 1, True, False), (0x38, 1, False, False), (0x3C, 2, True, True), (0x3C, 3, True, True)])
def test_the_superblock_tells(compat, state, journal, faulty):
    raw = bytearray(1024)
    struct.pack_into("<I", raw, 0x5C, compat)
    struct.pack_into("<HH", raw, 0x38, 0xEF53, state)
    found = parse_ext4(bytes(raw))
    assert (found.journal, found.faulty) == (journal, faulty)
