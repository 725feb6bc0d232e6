# SPDX-License-Identifier: GPL-3.0-or-later
"""Extents of files, and ranges of mapped devices on the devices below, against an oracle that maps single bytes."""

from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import fiemap as formats_fiemap
from ansible_collections.plumbline.ssd.plugins.module_utils._block.fiemap import Extent, parse_fiemap, written
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import spread, straight
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Places, join
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._stack.static_proof.test_static_proof import locate
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host


def fiemap(*extents):
    """As the kernel fills it, with room to spare."""
    raw = bytearray(formats_fiemap.FIEMAP_HEAD.size + 8 * formats_fiemap.FIEMAP_EXTENT.size)
    formats_fiemap.FIEMAP_HEAD.pack_into(raw, 0, 0, 1 << 40, 0, len(extents), 8, 0)
    for number, (logical, physical, length, flags) in enumerate(extents):
        at = formats_fiemap.FIEMAP_HEAD.size + number * formats_fiemap.FIEMAP_EXTENT.size
        formats_fiemap.FIEMAP_EXTENT.pack_into(raw, at, logical, physical, length, 0, 0, flags, 0, 0, 0)
    return bytes(raw)


def test_fiemap():
    assert parse_fiemap(fiemap()) == []
    assert parse_fiemap(fiemap((0, MIB, 4096, 0), (4096, 3 * MIB, 8192, 1))) == [Extent(0, MIB, 4096, 0), Extent(4096, 3 * MIB, 8192, 1)]


@pytest.mark.parametrize(
    "flags, counts",
    [
        (0x0, True), (0x1, True), (0x1000, True), (0x2000, True),  # last, merged, shared
        (0x2, False), (0x4, False), (0x8, False), (0x80 | 0x8, False),  # unknown, delayed, encoded, encrypted
        (0x100, False), (0x200 | 0x100, False), (0x400 | 0x100, False), (0x800, False), (0x801, False),  # not aligned, inline, tail, unwritten
    ],
)  # fmt: skip
def test_which_extents_hold_the_files_own_bytes(flags, counts):
    assert written([Extent(0, MIB, 4096, flags)]) == ([(MIB, 4096)] if counts else [])


@pytest.mark.parametrize(
    "spans, joined",
    [
        ([], []),
        ([(8, 4), (0, 4)], [(0, 4), (8, 4)]),
        ([(0, 4), (4, 4), (8, 1)], [(0, 9)]),
        ([(0, 8), (4, 2), (6, 6)], [(0, 12)]),
        ([(0, 0), (4, 4)], [(4, 4)]),
    ],
)
def test_join(spans, joined):
    assert join(spans) == joined


def test_places_are_spread_by_size_and_never_leave_a_span():
    places = Places([(512, 64 * KIB), (MIB, 192 * KIB), (2 * MIB, 4 * KIB)], 8 * KIB)
    assert places.total == 256 * KIB
    dice = random.Random(5)
    first = 0
    for _turn in range(4000):
        place = places.draw(dice, 4 * KIB, 4 * KIB, 512)
        assert place % (4 * KIB) == 512 and places.holds(place, 4 * KIB)
        first += place < MIB
    assert 850 < first < 1150  # a quarter
    assert not places.holds(2 * MIB, 4096) and not places.holds(0, 512) and not places.holds(MIB + 190 * KIB, 4 * KIB)


@pytest.mark.parametrize("size", [8 * KIB, 8 * KIB + 512, 12 * KIB])
def test_the_shortest_span_has_a_place_for_every_offset(size):
    places = Places([(3 * 512, size)], 8 * KIB)
    for offset in range(0, 4 * KIB, 512):
        assert places.draw(random.Random(0), 4 * KIB, 4 * KIB, offset) % (4 * KIB) == offset


def striped(chunk=64 * KIB, legs=3):
    host = Host()
    parts = [host.part(disk, (63 if number else 2048) * 512) for number, disk in enumerate(host.pair(legs))]
    segments = [
        Segment(0, 48 * MIB, "striped", chunk, tuple((part, MIB) for part in parts)),
        Segment(48 * MIB, 16 * MIB, "linear", 0, ((parts[0], 256 * MIB),)),
    ]
    return host.seen, host.mapped("vg-lv", segments)


@pytest.mark.parametrize("skew", [0, 512])
def test_straight_ends_where_the_next_byte_lies_elsewhere(skew):
    seen, devno = striped()
    host = Host()
    host.seen, host._minor = seen, 1
    top = host.mapped("top", [Segment(0, 60 * MIB, "linear", 0, ((devno, skew),))], kind="dm")
    dice = random.Random(skew)
    for _turn in range(200):
        place = dice.randrange(60 * MIB)
        left = straight(seen.nodes, top, place)
        disk, byte = locate(seen, top, place)
        assert locate(seen, top, place + left - 1) == (disk, byte + left - 1)
        if place + left < 60 * MIB:
            assert locate(seen, top, place + left) != (disk, byte + left)


def test_straight_without_maps():
    host = Host()
    disk = host.disk(size=GIB)
    assert straight(host.seen.nodes, disk, 512) == GIB - 512
    part = host.part(disk, MIB)
    assert straight(host.seen.nodes, part, 0) == host.seen.nodes[part].size
    lost = host.mapped("lost", [Segment(0, MIB, "linear", 0, ((part, 0),))])
    del host.seen.nodes[part]
    assert straight(host.seen.nodes, lost, 0) == MIB


@pytest.mark.parametrize("spans", [[(0, 64 * MIB)], [(100 * KIB, 10 * MIB), (47 * MIB, 3 * MIB)], [(512, 100 * KIB)]])
def test_spread_holds_bytes_of_the_spans_only(spans):
    seen, devno = striped()
    found = spread(seen.nodes, devno, spans)
    assert found[devno] == spans
    mapped = {}
    for start, length in spans:
        for byte in range(start, start + length, 512):
            disk, at = locate(seen, devno, byte)
            mapped.setdefault(disk, set()).add(at)
    for disk, held in mapped.items():
        bytes_there = {at for start, length in found.get(disk, []) for at in range(start, start + length, 512)}
        assert bytes_there <= held
        assert len(held) - len(bytes_there) <= 2 * 2 * 64 * KIB // 512 * len(spans)  # but for rows that are not whole
    assert set(found) <= {devno, *seen.nodes}
