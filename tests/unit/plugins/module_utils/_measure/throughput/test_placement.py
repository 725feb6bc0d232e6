# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput import placement
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.placement import LegPiece
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host


def striped(host, chunk=64 * KIB, count=2, start=MIB, data=MIB, size=256 * MIB, title="vg-lv", at=0):
    """An LV on partitions of *count* disks; returns (its device number, partitions)."""
    parts = [host.part(disk, start, GIB) for disk in host.pair(count)] if at == 0 else at
    segments = (Segment(0, size, "striped", chunk, tuple((part, data) for part in parts)),)
    return host.mapped(title, segments), parts


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("data", [MIB, MIB + 512, 33553920])
def test_a_stripe_is_followed_to_its_legs(count, data):
    host = Host()
    devno, parts = striped(host, count=count, data=data)
    mapped = placement.map_volume(host.seen.nodes, devno, [Span(0, 100 * MIB)])
    unit = MIB if count == 2 else 3 * MIB
    length = 100 * MIB // unit * unit
    assert mapped.spans == (Span(0, length),)
    assert [(piece.node, piece.start, piece.at, piece.length) for piece in mapped.pieces] == [(part, data, MIB + data, length // count) for part in parts]
    legs = placement.legs(host.seen.nodes, [mapped])
    for pieces in legs.values():
        (piece,) = pieces
        assert piece.at % MIB == 0 and piece.length % MIB == 0
        assert MIB + data <= piece.at and piece.at + piece.length <= MIB + data + length // count
        assert piece.at - piece.start == MIB


@pytest.mark.parametrize("offset", [0, 512, 3584])
def test_the_load_on_a_leg_begins_where_the_device_is_aligned(offset):
    host = Host()
    disk = host.disk()
    host.limits(disk, alignment_offset=offset)
    part = host.part(disk, MIB, GIB)
    legs = placement.legs(host.seen.nodes, [placement.map_volume(host.seen.nodes, part, [Span(0, 64 * MIB)])])
    (piece,) = legs[disk]
    assert piece.at % MIB == offset and piece.start == piece.at - MIB
    assert piece.length == (64 if not offset else 63) * MIB


def test_a_disk_is_its_own_leg():
    host = Host()
    disk = host.disk()
    mapped = placement.map_volume(host.seen.nodes, disk, [Span(0, 64 * MIB)])
    assert mapped.pieces == (LegPiece(disk, disk, 0, 0, 64 * MIB),)


def test_segments_are_followed_apart():
    """An LV that was extended: striped first, then linear on one leg."""
    host = Host()
    one, two = (host.part(disk, MIB, GIB) for disk in host.pair())
    first = Segment(0, 32 * MIB, "striped", 64 * KIB, ((one, MIB), (two, MIB)))
    devno = host.mapped("vg-lv", (first, Segment(32 * MIB, 32 * MIB, "linear", 0, ((two, 100 * MIB),))))
    mapped = placement.map_volume(host.seen.nodes, devno, [Span(16 * MIB, 32 * MIB)])
    assert mapped.spans == (Span(16 * MIB, 16 * MIB), Span(32 * MIB, 16 * MIB))
    assert [(piece.node, piece.start, piece.length) for piece in mapped.pieces] == [
        (one, 9 * MIB, 8 * MIB),
        (two, 9 * MIB, 8 * MIB),
        (two, 100 * MIB, 16 * MIB),
    ]


def test_volumes_side_by_side_are_joined():
    host = Host()
    first, parts = striped(host, size=64 * MIB)
    second, _parts = striped(host, size=64 * MIB, data=33 * MIB, title="vg-two", at=parts)
    mapped = [placement.map_volume(host.seen.nodes, devno, [Span(0, 64 * MIB)]) for devno in (first, second)]
    legs = placement.legs(host.seen.nodes, mapped)
    assert [[(piece.start, piece.length) for piece in pieces] for pieces in legs.values()] == [[(MIB, 64 * MIB)]] * 2


def test_volumes_on_the_same_bytes():
    host = Host()
    disk = host.disk()
    part = host.part(disk, MIB, GIB)
    mapped = [placement.map_volume(host.seen.nodes, devno, [Span(0, 64 * MIB)]) for devno in (disk, part)]
    with pytest.raises(PlumblineError, match="/dev/nvme0n1: two of the volumes lie on the same bytes of it"):
        placement.legs(host.seen.nodes, mapped)


@pytest.mark.parametrize("chunk, count", [(8 * KIB, 2), (64 * KIB, 3), (MIB, 4)])
def test_every_byte_that_is_loaded_on_a_leg_is_one_of_the_volume(chunk, count):
    """By the other way of following a byte, from the volume down."""
    host = Host()
    devno, _parts = striped(host, chunk=chunk, count=count, data=MIB + 512)
    dice = random.Random(chunk)
    for _turn in range(20):
        start = dice.randrange(0, 128 * MIB, 4096)
        span = Span(start, dice.randrange(20 * MIB, 100 * MIB, 4096))
        mapped = placement.map_volume(host.seen.nodes, devno, [span])
        for got in mapped.spans:
            assert span.start <= got.start and got.end <= span.end and got.start % MIB == 0
            for at, node, byte in placement.edges(host.seen.nodes, devno, got, 4096):
                assert placement.locate_byte(host.seen.nodes, devno, at) == (node, byte)
                assert any(piece.node == node and piece.start <= byte and byte + 4096 <= piece.start + piece.length for piece in mapped.pieces)
            reached = {node for _at, node, _byte in placement.edges(host.seen.nodes, devno, got, 4096)}
            assert reached == {piece.node for piece in mapped.pieces}
            first = {node: min(byte for _at, one, byte in placement.edges(host.seen.nodes, devno, got, 4096) if one == node) for node in reached}
            assert first == {piece.node: piece.start for piece in mapped.pieces}


@pytest.mark.parametrize(
    "kind, words",
    [
        ("thin", "cannot be followed through a mapping of kind thin; wanted linear or striped"),
        ("crypt", "through a mapping of kind crypt"),
        ("raid1", "through a mapping of kind raid1"),
        ("snapshot", "through a mapping of kind snapshot"),
    ],
)
def test_a_mapping_that_is_more_than_one(kind, words):
    host = Host()
    part = host.part(host.disk(), MIB, GIB)
    devno = host.mapped("odd", (Segment(0, 64 * MIB, kind, 0, ((part, MIB),)),))
    with pytest.raises(PlumblineError) as caught:
        placement.map_volume(host.seen.nodes, devno, [Span(0, 64 * MIB)])
    assert words in caught.value.msg


def test_a_mapping_that_is_not_known():
    host = Host()
    devno, _parts = striped(host)
    host.edit(devno, segments=())
    with pytest.raises(PlumblineError, match="cannot be followed to its disks"):
        placement.map_volume(host.seen.nodes, devno, [Span(0, 64 * MIB)])


def test_beyond_the_end():
    host = Host()
    disk = host.disk(size=32 * MIB)
    with pytest.raises(PlumblineError, match="lie outside of its"):
        placement.map_volume(host.seen.nodes, disk, [Span(0, 33 * MIB)])


def test_an_alignment_that_the_kernel_does_not_know():
    host = Host()
    disk = host.disk()
    host.limits(disk, alignment_offset=-1)
    with pytest.raises(PlumblineError, match="alignment_offset -1"):
        placement.legs(host.seen.nodes, [placement.map_volume(host.seen.nodes, disk, [Span(0, 64 * MIB)])])


def test_too_little():
    host = Host()
    devno, _parts = striped(host)
    with pytest.raises(PlumblineError, match="hold no whole row of its stripes; load more of it"):
        placement.map_volume(host.seen.nodes, devno, [Span(4096, MIB)])
    small, _parts = striped(host, data=MIB + 512, title="vg-small")
    with pytest.raises(PlumblineError, match="hold no whole 1 MiB of it"):
        placement.legs(host.seen.nodes, [placement.map_volume(host.seen.nodes, small, [Span(0, 2 * MIB)])])


def test_of_many_extents_the_largest_are_loaded():
    spans = [Span(number * 100, 10 + number % 5) for number in range(20)]
    chosen = placement.largest(spans)
    assert len(chosen) == placement.MOST_PIECES and chosen == sorted(chosen) and min(span.length for span in chosen) == 13


@pytest.mark.parametrize(
    "at_least, sides, count",
    [
        (6, [[1, 1], [1]], 6),
        (6, [[1, 1], [1, 1, 1]], 6),
        (6, [[1, 1, 1, 1], [1]], 8),
        (6, [[1] * 5, [1] * 3], 15),
        (2, [[3, 2], [4]], 6),
        (1, [[1], [1]], 1),
    ],
)
def test_both_sides_have_as_many_jobs(at_least, sides, count):
    assert placement.jobs_for(at_least, sides) == count


@pytest.mark.parametrize(
    "places, count, dealt",
    [
        ([Place("/dev/a", 0, 6 * MIB)], 3, [(0, 2), (2, 2), (4, 2)]),
        ([Place("/dev/a", MIB, 7 * MIB)], 3, [(1, 2), (3, 2), (5, 2)]),
        ([Place("/dev/a", 0, 8 * MIB), Place("/dev/a", 20 * MIB, 2 * MIB)], 3, [(0, 4), (4, 4), (20, 2)]),
        ([Place("/dev/a", 0, MIB)], 1, [(0, 1)]),
    ],
)
def test_dealing(places, count, dealt):
    assert [(place.start // MIB, place.length // MIB) for place in placement.deal(places, count)] == dealt


def test_dealing_too_little():
    with pytest.raises(PlumblineError, match="2 MiB are too few for 3 jobs; load more of the volumes"):
        placement.deal([Place("/dev/a", 0, 2 * MIB)], 3)


def mirrored_volume(count=4, width=0):
    """A volume on an array of RAID 10 over partitions, two copies side by side: (host, its number, the partitions)."""
    host = Host()
    parts = [host.part(host.disk(), MIB, GIB) for _number in range(count)]
    whole = 64 * MIB * max(count // 2, 1)
    array = host.mapped("", (Segment(0, whole, "raid10", 64 * KIB, tuple((part, MIB) for part in parts), width or count),), "md", "md127")
    return host, host.mapped("pg-data", (Segment(0, whole - 8 * MIB, "linear", 0, ((array, 4 * MIB),)),)), parts


@pytest.mark.parametrize(("count", "row"), [(2, 1), (4, 2), (6, 3)])
def test_each_copy_of_a_mirror_is_a_leg(count, row):
    host, devno, parts = mirrored_volume(count)
    found = placement.map_volume(host.seen.nodes, devno, [Span(0, 48 * MIB)])
    assert {piece.node for piece in found.pieces} == set(parts) and len({(piece.start, piece.length) for piece in found.pieces}) == 1
    assert abs(found.pieces[0].length * row - 48 * MIB) <= row * MIB
    assert placement.copies_of_bytes(host.seen.nodes, devno) == 2
    for at in range(0, 12 * 64 * KIB, 16 * KIB):
        node, byte = placement.locate_byte(host.seen.nodes, devno, at)
        below = 4 * MIB + at
        assert (node, byte) == (parts[below // (64 * KIB) % row * 2], MIB + below // (64 * KIB * row) * 64 * KIB + below % (64 * KIB))


def test_a_mirror_without_a_member_is_not_measured():
    host, devno, _parts = mirrored_volume(3, 4)
    with pytest.raises(PlumblineError, match="raid10 without all of its members is not measured"):
        placement.map_volume(host.seen.nodes, devno, [Span(0, 48 * MIB)])
    striped = host.mapped("two", (Segment(0, 64 * MIB, "linear", 0, ((host.part(host.disk(), MIB, GIB), MIB),)),))
    assert placement.copies_of_bytes(host.seen.nodes, striped) == 1
