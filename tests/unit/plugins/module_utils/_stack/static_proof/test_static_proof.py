# SPDX-License-Identifier: GPL-3.0-or-later
"""The static proof, against an oracle that maps single bytes, and for every known way to be off."""

from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment, Signature, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import chunk_below, data_legs, layouts, levels_below, pieces, starts
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DURABILITY
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.layers import leg_starts
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.stack_table import view_report
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host, spec

K4 = Limits(512, 4096, 4096, 0, 0)


def errors(host, devno):
    return [(finding.layer, finding.name) for finding in view(host.seen, devno).findings if finding.level == "error"]


def warnings(host, devno):
    return [(finding.layer, finding.name) for finding in view(host.seen, devno).findings if finding.level == "warning"]


# --- the oracle ------------------------------------------------------------------------------------


def locate(seen, devno, byte):
    """Where one byte of a device lies: (disk, byte there). Knows nothing but the segments' own definition."""
    while seen.nodes[devno].segments:
        segment = next(s for s in seen.nodes[devno].segments if s.start <= byte < s.start + s.length)
        within = byte - segment.start
        if segment.chunk:
            number, rest = divmod(within, segment.chunk)
            child, first = segment.legs[number % len(segment.legs)]
            devno, byte = child, first + number // len(segment.legs) * segment.chunk + rest
        else:
            child, first = segment.legs[0]
            devno, byte = child, first + within
    return devno, byte


def off_by_the_oracle(seen, devno, grain):
    """Whether any whole grain of a device does not lie on a whole grain of its disk: all near pieces, and many at random."""
    node = seen.nodes[devno]
    dice = random.Random(node.size)
    places = {dice.randrange(node.size // grain) for _try in range(200)}
    for level in levels_below(seen, devno):
        for one in level:
            for segment in seen.nodes[one].segments:
                places.update(range(segment.start // grain, segment.start // grain + 40))
    for number in places:
        if (number + 1) * grain <= node.size:
            disk, byte = locate(seen, devno, number * grain)
            geometry = seen.geometries[disk]
            if byte % geometry.grain_bytes != geometry.offset_bytes:
                return True
    return False


def random_stack(dice):
    """Partitions somewhere, PVs with some data start, an LV of several segments, perhaps a layer on top."""
    host = Host()
    offset = dice.choice((0, 0, 3584))
    disks = host.pair(dice.choice((2, 3)), limits=Limits(512, 4096, 4096, 0, offset))
    sound = dice.random() < 0.5

    def shift():
        return 0 if sound or dice.random() < 0.6 else dice.randrange(1, 16) * 512

    parts = [host.part(disk, dice.randrange(1, 9) * MIB + offset + shift(), 8 * GIB) for disk in disks for _twice in range(dice.choice((1, 2)))]
    firsts = {part: MIB + shift() for part in parts}
    segments, at = [], 0
    for _segment in range(dice.randrange(1, 5)):
        chunk = dice.choice((0, 4096, 8192, 65536))
        legs = dice.sample(parts, 1 if not chunk else dice.randrange(2, len(parts) + 1))
        unit = (chunk or 4096) * len(legs)
        length = dice.randrange(64, 512) * unit
        if not sound and not chunk and dice.random() < 0.2:
            length += 512 * dice.randrange(1, 8)
        places = tuple((leg, firsts[leg] + dice.randrange(0, 500) * 4 * MIB) for leg in legs)
        segments.append(Segment(at, length, "striped" if chunk else "linear", chunk, places))
        at += length
    top = host.mapped("v-data", segments)
    if dice.random() < 0.4:
        within = dice.choice((0, 4096 * 3)) + shift()
        top = host.mapped("c", [Segment(0, host.seen.nodes[top].size - within, "linear", 0, ((top, within),))], kind="dm")
    host.ext4(top, "x")
    return host, top


@pytest.mark.parametrize("seed", range(40))
def test_proof_agrees_with_the_oracle(seed):
    """40 × 40 stacks: the proof finds an error exactly where a single byte shows one."""
    dice = random.Random(seed)
    wrong = 0
    for _row in range(40):
        host, top = random_stack(dice)
        truth = off_by_the_oracle(host.seen, top, 4096)
        assert bool(errors(host, top)) is truth, host.seen.nodes
        wrong += truth
    assert 3 < wrong < 37


def test_starts_agree_with_the_oracle():
    """Every leg's address of a row's first byte is what the oracle finds for that leg's own byte."""
    dice = random.Random(1)
    rows = 0
    for _row in range(400):
        count, chunk = dice.randrange(2, 7), dice.choice((4096, 8192, 65536, 1048576))
        host = Host()
        legs = tuple((host.part(disk, dice.randrange(1, 5000) * 512), dice.randrange(1, 5000) * 512) for disk in host.pair(count))
        lv = host.mapped("v-data", [Segment(0, 1000 * chunk * count, "striped", chunk, legs)])
        row, within = dice.randrange(1000), dice.randrange(0, chunk, 512)
        found = starts(host.seen, lv, row * chunk * count + within)
        assert found == [locate(host.seen, lv, (row * count + leg) * chunk + within) for leg in range(count)]
        rows += count
    assert rows > 1000


# --- every way to be off ---------------------------------------------------------------------------


def pair(start=MIB, data_start=MIB, chunk=64 * KIB, limits=K4, shift=0, stride=None, width=None, count=2):
    host = Host()
    parts = [host.part(disk, start, 8 * GIB) for disk in host.pair(count, limits=limits)]
    for part in parts:
        host.pv(part, "v", data_start, 2000)
    lv = host.mapped("v-data", [Segment(0, 4 * GIB, "striped", chunk, tuple((part, data_start + shift) for part in parts))])
    host.seen.lvm = host.seen.lvm._replace(lvs=(Lv("v", "data", 4 * GIB, count, chunk, 1, ("striped",)),))
    host.ext4(lv, "data", chunk // 4096 if stride is None else stride, chunk // 4096 * count if width is None else width)
    host.mount(lv, "/data")
    return host, lv


def test_sound_pair():
    host, lv = pair()
    found = view(host.seen, lv)
    assert [layer.kind for layer in found.layers] == ["device", "partition", "pv", "lv", "filesystem", "mount"]
    assert found.findings == () and (found.name, found.mount) == ("v-data", "/data")
    assert [leg.start for leg in found.layers[3].legs] == [2 * MIB, 2 * MIB] and found.layers[3].facts["stripe_size"] == 64 * KIB
    shown = found.as_dict()
    assert set(shown["layers"][1]["legs"][0]) == {"device", "start", "phase", "wanted", "grain", "aligned"}


@pytest.mark.parametrize("sectors", range(17))
@pytest.mark.parametrize("layer", ["partition", "pv", "lv"])
def test_every_sector_shift_in_every_layer(sectors, layer):
    shift = sectors * 512
    host, lv = {"partition": lambda: pair(start=MIB + shift), "pv": lambda: pair(data_start=MIB + shift), "lv": lambda: pair(shift=shift)}[layer]()
    names = {"partition": ["nvme0n1p1", "nvme1n1p1"], "pv": ["nvme0n1p1", "nvme1n1p1"], "lv": ["v-data", "v-data"]}[layer]
    assert errors(host, lv) == ([(layer, name) for name in names] if sectors % 8 else [])
    assert warnings(host, lv) == []


@pytest.mark.parametrize("sector", [34, 63])
def test_old_partition_starts(sector):
    host, lv = pair(start=sector * 512)
    (first, second) = view(host.seen, lv).findings
    phase = sector * 512 % 4096
    assert first.text == "partition nvme0n1p1: starts at byte %d of nvme0n1, phase %d of 4 KiB; wanted phase 0" % (sector * 512, phase)
    assert second.name == "nvme1n1p1"


def test_one_leg_only():
    host, lv = pair()
    part = next(n for n in host.seen.nodes.values() if n.kind == "part" and n.parent == "259:16")
    host.edit(part.devno, start=MIB + 512, segments=(Segment(0, part.size, "part", 0, (("259:16", MIB + 512),)),))
    assert errors(host, lv) == [("partition", "nvme1n1p1")]


def test_pe_start_of_65535_sectors():
    host, lv = pair(data_start=65535 * 512)
    assert view(host.seen, lv).findings[0].text == "pv nvme0n1p1: starts at byte 34602496 of nvme0n1, phase 3584 of 4 KiB; wanted phase 0"
    assert errors(host, lv) == [("pv", "nvme0n1p1"), ("pv", "nvme1n1p1")]


@pytest.mark.parametrize("sectors, off", [(1, True), (7, True), (8, False), (2048, False)])
def test_linear_map_above(sectors, off):
    host, lv = pair()
    del host.seen.filesystems[lv]
    top = host.mapped("shifted", [Segment(0, GIB, "linear", 0, ((lv, sectors * 512),))], kind="dm")
    host.ext4(top, "data", 16, 32)
    assert errors(host, top) == ([("dm", "shifted"), ("dm", "shifted")] if off else [])


def test_linear_map_below():
    host = Host()
    disk = host.disk(limits=K4)
    plus = host.mapped("plus1", [Segment(0, 50 * GIB, "linear", 0, ((disk, 512),))], kind="dm")
    host.pv(plus, "v", MIB, 100)
    lv = host.mapped("v-data", [Segment(0, GIB, "linear", 0, ((plus, MIB),))])
    host.ext4(lv, "x")
    assert errors(host, lv) == [("dm", "plus1")]


@pytest.mark.parametrize("start, off", [(63 * 512, False), (2048 * 512, True), (2055 * 512, False), (64 * 512, True), (34 * 512, True)])
def test_flash_that_begins_at_3584(start, off):
    host, lv = pair(start=start, limits=Limits(512, 4096, 4096, 0, 3584))
    assert errors(host, lv) == ([("partition", "nvme0n1p1"), ("partition", "nvme1n1p1")] if off else [])
    assert view(host.seen, lv).layers[1].legs[0].wanted == 3584


@pytest.mark.parametrize("start, data_start", [(63 * 512, MIB + 512), (MIB + 3584, MIB + 512), (34 * 512, MIB + 3072)])
def test_what_a_higher_layer_makes_good_is_a_note(start, data_start):
    host, lv = pair(start=start, data_start=data_start)
    assert errors(host, lv) == [] and warnings(host, lv) == [("partition", "nvme0n1p1"), ("partition", "nvme1n1p1")]


def test_what_is_made_good_and_spoilt_again():
    """The partition is off and corrected by the PV; the LV spoils it once more, and is the culprit."""
    host, lv = pair(start=MIB + 512, data_start=MIB + 3584, shift=1024)
    assert errors(host, lv) == [("lv", "v-data"), ("lv", "v-data")]


@pytest.mark.parametrize(
    "grain, chunk, off", [(131072, 65536, True), (131072, 131072, False), (98304, 65536, True), (16384, 8192, True), (16384, 16384, False)]
)
def test_stripe_against_the_grain(grain, chunk, off):
    host, lv = pair(chunk=chunk, limits=Limits(512, 4096, grain, 0, 0), start=3 * MIB, data_start=3 * MIB)
    found = [finding for finding in view(host.seen, lv).findings if "stripe size" in finding.found]
    assert bool(found) is off
    if off:
        assert (found[0].level, found[0].layer, found[0].name) == ("error", "lv", "v-data")


@pytest.mark.parametrize(
    "stride, width, level",
    [(16, 32, None), (0, 0, "warning"), (16, 16, "error"), (2, 4, "error"), (0, 32, "error"), (16, 0, "error"), (8191, 0, "error"), (32, 64, "error")],
)
def test_stride(stride, width, level):
    host, lv = pair(stride=stride, width=width)
    found = [finding for finding in view(host.seen, lv).findings if finding.layer == "filesystem"]
    assert [finding.level for finding in found] == ([level] if level else [])
    if level:
        assert found[0].name == "data" and found[0].wanted == "stride 16 and stripe_width 32, for 2 stripes of 64 KiB in v-data"


def test_md_raid0():
    host = Host()
    parts = [host.part(disk, MIB, 8 * GIB) for disk in host.pair(2, limits=K4)]
    md = host.mapped("", [Segment(0, 8 * GIB, "raid0", 512 * KIB, tuple((part, 2 * MIB) for part in parts))], kind="md", name="md0")
    host.ext4(md, "data", 128, 256)
    found = view(host.seen, md)
    assert [layer.kind for layer in found.layers] == ["device", "partition", "md", "filesystem"] and found.findings == ()
    host.ext4(md, "data", 128, 128)
    assert view(host.seen, md).findings[0].wanted == "stride 128 and stripe_width 256, for 2 stripes of 512 KiB in md0"


@pytest.mark.parametrize("offset, culprit", [(2 * MIB + 512, ("md", "md0")), (2 * MIB, None)])
def test_md_that_is_off(offset, culprit):
    host = Host()
    parts = [host.part(disk, MIB, 8 * GIB) for disk in host.pair(2, limits=K4)]
    md = host.mapped("", [Segment(0, 8 * GIB, "raid0", 512 * KIB, tuple((part, offset) for part in parts))], kind="md", name="md0")
    host.pv(md, "v", MIB, 100)
    lv = host.mapped("v-data", [Segment(0, GIB, "linear", 0, ((md, MIB),))])
    host.ext4(lv, "x", 128, 256)
    assert errors(host, lv) == ([culprit, culprit] if culprit else [])


def test_md_stripe_against_the_grain_is_called_md():
    host = Host()
    md = host.mapped(
        "", [Segment(0, 8 * GIB, "raid0", 64 * KIB, tuple((disk, 0) for disk in host.pair(2, limits=Limits(512, 4096, 131072, 0, 0))))], kind="md", name="md0"
    )
    host.ext4(md, "x", 16, 32)
    assert errors(host, md) == [("md", "md0")]


@pytest.mark.parametrize("kind, width, degraded", [("raid5", 4, 1), ("raid5", 4, 0), ("raid6", 5, 2), ("raid6", 5, 1)])
def test_a_degraded_array_below_an_ext4_that_fits(kind, width, degraded):
    """Three data legs, whether all members are there or not: ext4 is right, and the array is what is told."""
    host = Host()
    there = host.pair(width - degraded, limits=K4)
    md = host.mapped(
        "", [Segment(0, 8 * GIB, kind, 512 * KIB, tuple((disk, MIB) for disk in there), width, degraded)], kind="md", name="md0"
    )
    host.ext4(md, "x", 128, 384)
    found = view(host.seen, md).findings
    assert [(one.layer, one.name) for one in found if one.level == "error"] == ([("raid", "md0")] if degraded else [])
    assert all("%d of its %d members" % (degraded, width) in one.found and "mdadm --detail /dev/md0" in one.wanted for one in found if one.layer == "raid")


def test_a_mirror_of_lvm_that_has_lost_a_leg():
    host = Host()
    lv = host.mapped("v-data", [Segment(0, GIB, "raid1", 0, ((host.pair(1, limits=K4)[0], MIB),), 2, 1)])
    host.ext4(lv, "x")
    found = [(one.level, one.name, one.rule) for one in view(host.seen, lv).findings if one.layer == "raid"]
    assert found == [("error", "v-data", "degraded"), ("warning", "v-data", "boots_degraded")]


@pytest.mark.parametrize(
    "kind, count, expected", [("raid0", 4, 4), ("striped", 3, 3), ("raid5", 4, 3), ("raid4", 4, 3), ("raid6", 6, 4), ("raid10", 4, 2), ("raid5", 1, 1)]
)
def test_data_legs(kind, count, expected):
    assert data_legs(Segment(0, 1, kind, 4096, tuple(("8:%d" % leg, 0) for leg in range(count)))) == expected


# --- several pieces --------------------------------------------------------------------------------


def two_pieces(second_start, same_disk=False):
    """An LV whose second half lies on another partition."""
    host = Host()
    disks = host.pair(1 if same_disk else 2, limits=K4)
    parts = [host.part(disks[0], MIB, 8 * GIB), host.part(disks[-1], 16 * GIB + second_start, 8 * GIB)]
    for part in parts:
        host.pv(part, "v", MIB, 1000)
    lv = host.mapped("v-data", [Segment(number * GIB, GIB, "linear", 0, ((part, MIB),)) for number, part in enumerate(parts)])
    host.ext4(lv, "x")
    return host, lv, host.seen.nodes[parts[1]].name


@pytest.mark.parametrize("same_disk", [True, False])
@pytest.mark.parametrize("shift", [0, 512, 3584, 4096])
def test_second_piece_on_a_partition_that_is_off(same_disk, shift):
    """The filesystem's first byte is fine; what lies on the second partition is not, and that partition is named."""
    host, lv, name = two_pieces(shift, same_disk)
    assert errors(host, lv) == ([("partition", name)] if shift % 4096 else [])


def test_second_piece_below_another_map():
    host, lv, name = two_pieces(512)
    del host.seen.filesystems[lv]
    top = host.mapped("c", [Segment(0, 2 * GIB - 16 * MIB, "crypt", 0, ((lv, 16 * MIB),))], kind="crypt")
    host.ext4(top, "x")
    assert errors(host, top) == [("partition", name)]
    assert pieces(host.seen, top) == [0, GIB - 16 * MIB]


def test_second_piece_begins_within_a_grain():
    """Aligned where the piece begins, but no whole grain of the filesystem begins there."""
    host = Host()
    disk = host.disk(limits=K4)
    top = host.mapped("joined", [Segment(0, MIB + 512, "linear", 0, ((disk, MIB),)), Segment(MIB + 512, MIB, "linear", 0, ((disk, 8 * MIB),))], kind="dm")
    host.ext4(top, "x")
    assert errors(host, top) == [("dm", "joined")]


def test_a_disk_whose_name_begins_like_another():
    host = Host()
    one = host.disk(name="sda", limits=K4)
    other = host.disk(name="sdaa", limits=K4)
    parts = [host.part(other, MIB, 8 * GIB), host.part(one, MIB + 512, 8 * GIB)]
    lv = host.mapped("v-data", [Segment(0, GIB, "striped", 65536, tuple((part, MIB) for part in parts))])
    host.ext4(lv, "x", 16, 32)
    assert errors(host, lv) == [("partition", "sda1")]


def test_grains_that_differ_between_legs():
    host = Host()
    small, large = host.disk(limits=K4), host.disk(limits=Limits(512, 4096, 65536, 0, 0))
    parts = [host.part(disk, MIB + 8192, 8 * GIB) for disk in (small, large)]
    lv = host.mapped("v-data", [Segment(0, GIB, "striped", 65536, tuple((part, MIB) for part in parts))])
    host.ext4(lv, "x", 16, 32)
    assert errors(host, lv) == [("partition", "nvme1n1p1")]


# --- odds and ends ---------------------------------------------------------------------------------


def test_filesystem_on_a_whole_disk():
    host = Host()
    disk = host.disk(limits=K4)
    host.ext4(disk, "x")
    assert [layer.kind for layer in view(host.seen, disk).layers] == ["device", "filesystem"] and errors(host, disk) == []
    shifted = host.disk(limits=Limits(512, 4096, 4096, 0, 3584))
    host.ext4(shifted, "y")
    assert errors(host, shifted) == [("filesystem", "y")]


def test_an_unknown_map_is_not_judged():
    host = Host()
    disk = host.disk(limits=K4)
    segments = (Segment(0, GIB, "thin", 0, ()),)
    host.seen.nodes["253:9"] = host.seen.nodes[disk]._replace(devno="253:9", name="dm-9", kind="lvm", title="v-thin", slaves=(disk,), segments=segments)
    host.ext4("253:9", "x")
    assert starts(host.seen, "253:9", 5) == [("253:9", 5)]
    found = view(host.seen, "253:9")
    assert [(layer.kind, bool(layer.legs)) for layer in found.layers] == [("device", True), ("lv", False), ("filesystem", False)]
    (finding,) = found.findings
    assert finding.text.startswith("lv v-thin: it is a mapping of kind 'thin', which cannot be followed: nothing above it is known to be aligned; wanted")
    assert found.not_followed == ("v-thin",) and view_report(found)[-1] == "  not followed above v-thin: nothing there is known to be aligned"


def test_what_is_below_an_unknown_map_is_judged():
    """The partition is off, and it alone; the stacked limits above it, with the kernel's alignment_offset of -1, say nothing of a drive."""
    host = Host()
    disk = host.disk(limits=K4)
    part = host.part(disk, 63 * 512)
    segments = (Segment(0, GIB, "cache", 0, ()),)
    limits = Limits(512, 4096, 4096, 0, -1)
    host.seen.nodes["253:9"] = host.seen.nodes[disk]._replace(
        devno="253:9", name="dm-9", kind="lvm", title="v-cached", slaves=(part,), segments=segments, limits=limits, parent="")
    host.edit(part, holders=("253:9",))
    host.ext4("253:9", "x")
    assert errors(host, "253:9") == [("partition", "nvme0n1p1")] and warnings(host, "253:9") == [("lv", "v-cached")]


def two_legs(grain=16 * KIB):
    """Two partitions of disks whose flash has pages of *grain*."""
    host = Host()
    limits = Limits(512, grain, grain, 0, 0)
    return host, [host.part(host.disk(limits=limits), MIB) for _number in range(2)]


def striped(chunk, legs, start=0, length=GIB, at=0):
    return Segment(start, length, "striped", chunk, tuple((leg, at) for leg in legs))


LAYOUTS = {
    "64 KiB, then 4 KiB": (lambda legs: [striped(64 * KIB, legs), striped(4 * KIB, legs, GIB, GIB, GIB)], [("lv", "v-lv")]),
    "4 KiB, then 64 KiB": (lambda legs: [striped(4 * KIB, legs), striped(64 * KIB, legs, GIB, GIB, GIB)], [("lv", "v-lv")]),
    "linear, then 4 KiB": (lambda legs: [Segment(0, GIB, "linear", 0, ((legs[0], 0),)), striped(4 * KIB, legs, GIB, GIB, GIB)], [("lv", "v-lv")]),
    "64 KiB twice": (lambda legs: [striped(64 * KIB, legs), striped(64 * KIB, legs, GIB, GIB, GIB)], []),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_segment_is_judged(name):
    host, legs = two_legs()
    make, wanted = LAYOUTS[name]
    lv = host.mapped("v-lv", make(legs))
    assert errors(host, lv) == wanted


def test_every_level_is_judged():
    """LVM of 64 KiB over arrays with a chunk of 4 KiB: the upper striping is fine, the lower tears pages."""
    host = Host()
    parts = [host.part(host.disk(limits=Limits(512, 16 * KIB, 16 * KIB, 0, 0)), MIB) for _number in range(4)]
    halves = [tuple((one, MIB) for one in parts[first : first + 2]) for first in (0, 2)]
    arrays = [host.mapped("md%d" % number, [Segment(0, GIB, "raid0", 4 * KIB, legs)], kind="md") for number, legs in enumerate(halves)]
    lv = host.mapped("v-lv", [striped(64 * KIB, arrays, at=MIB)])
    assert errors(host, lv) == [("md", "md0"), ("md", "md1")]


@pytest.mark.parametrize(
    "segments, stride, width, level",
    [
        (lambda legs: [striped(64 * KIB, legs), striped(32 * KIB, legs, GIB, GIB, GIB)], 16, 32, "warning"),
        (lambda legs: [striped(64 * KIB, legs), striped(32 * KIB, legs, GIB, GIB, GIB)], 8, 16, "warning"),
        (lambda legs: [striped(64 * KIB, legs), striped(32 * KIB, legs, GIB, GIB, GIB)], 4, 8, "error"),
        (lambda legs: [striped(64 * KIB, legs), striped(32 * KIB, legs, GIB, GIB, GIB)], 0, 0, "warning"),
        (lambda legs: [Segment(0, GIB, "linear", 0, ((legs[0], 0),)), striped(64 * KIB, legs, GIB, GIB, GIB)], 5, 10, "error"),
        (lambda legs: [Segment(0, GIB, "linear", 0, ((legs[0], 0),)), striped(64 * KIB, legs, GIB, GIB, GIB)], 16, 32, "warning"),
        (lambda legs: [striped(64 * KIB, legs), striped(64 * KIB, legs, GIB, GIB, GIB)], 16, 32, None),
        (lambda legs: [striped(64 * KIB, legs), striped(64 * KIB, legs, GIB, GIB, GIB)], 16, 16, "error"),
    ],
)
def test_the_stride_of_a_volume_in_pieces(segments, stride, width, level):
    host, legs = two_legs()
    lv = host.mapped("v-lv", segments(legs))
    host.ext4(lv, "x", stride, width)
    found = [finding for finding in view(host.seen, lv).findings if finding.layer == "filesystem"]
    assert [finding.level for finding in found] == ([level] if level else []), found


def test_the_layouts_of_a_volume_in_pieces_are_shown():
    host, legs = two_legs()
    lv = host.mapped("v-lv", [Segment(0, GIB, "linear", 0, ((legs[0], 0),)), striped(64 * KIB, legs, GIB, GIB, GIB)])
    assert any("linear, then 2 stripes of 64 KiB" in line for line in view_report(view(host.seen, lv)))


def test_both_devices_of_a_filesystem_over_two():
    host = Host()
    one, other = (host.disk(limits=K4) for _number in range(2))
    host.seen.members = {one: (one, other), other: (one, other)}
    for devno in (one, other):
        host.seen.signatures[devno] = [Signature("btrfs", "filesystem", 65600)]
        host.mount(devno, "/data")
    assert tops(host.seen) == [one]
    found = view(host.seen, one)
    assert [layer.names for layer in found.layers] == [("nvme0n1", "nvme1n1"), ("nvme0n1",), ("/data",)]
    assert [leg.device for leg in found.layers[1].legs] == ["nvme0n1", "nvme1n1"] and found.mount == "/data"


def test_a_leg_that_is_a_multipath_map_has_its_name():
    host = Host()
    paths = [host.disk(limits=Limits(512, 16 * KIB, 16 * KIB, 0, 0)) for _number in range(2)]
    limits = host.seen.nodes[paths[0]].limits
    host.seen.nodes["253:37"] = host.seen.nodes[paths[0]]._replace(
        devno="253:37", name="dm-37", kind="mpath", title="mpatha", slaves=tuple(paths), segments=(Segment(0, 100 * GIB, "multipath", 0, ()),), limits=limits)
    host.ext4("253:37", "x")
    found = view(host.seen, "253:37")
    assert found.findings == () and found.not_followed == () and {leg.device for leg in found.layers[-1].legs} == {"mpatha"}
    assert found.layers[-1].legs[0].grain == 16 * KIB


TABLES = {
    "an empty GPT": (Table("gpt", "G", ()), "gpt", []),
    "a protective MBR": (Table("protective"), "PMBR", [("warning", "no GPT in blocks of 512 bytes")]),
    "a damaged GPT": (Table("gpt", "G", (), "its checksum is wrong"), "gpt", [("warning", "its GPT is damaged: its checksum is wrong")]),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_no_filesystem(name):
    table, kind, wanted = TABLES[name]
    host = Host()
    disk = host.disk()
    host.seen.tables[disk] = table
    host.seen.signatures[disk] = [Signature(kind, "partition-table", 512)]
    found = view(host.seen, disk)
    assert [layer.kind for layer in found.layers] == ["device", "table"]
    assert [finding.level for finding in found.findings] == [level for level, _words in wanted]
    assert all(words in finding.found for finding, (_level, words) in zip(found.findings, wanted))


@pytest.mark.parametrize("kind", ["mbr", "gpt"])
def test_a_disk_that_was_cut_short(kind):
    """The backup of its GPT is missing as well, and to write one at the new end is the last thing to do."""
    host = Host()
    disk = host.disk(size=GIB)
    part = host.part(disk, MIB, GIB - 2 * MIB, name="old")
    entry = host.seen.tables[disk].entries[0]._replace(size=2 * GIB)
    host.seen.tables[disk] = Table(kind, "G", (entry,), "", "missing" if kind == "gpt" else "")
    host.ext4(part, "x")
    texts = [finding.text for finding in view(host.seen, part).findings if finding.layer == "device"]
    assert len(texts) == 1 and "partition 1 ends 1025 MiB behind the end of the disk; wanted the whole disk; write nothing to it" in texts[0]


def test_what_is_of_no_known_kind_is_listed():
    host = Host()
    disk = host.disk()
    for number, name in enumerate(("nbd0", "sr0", "zram0")):
        host.seen.nodes["43:%d" % number] = host.seen.nodes[disk]._replace(devno="43:%d" % number, name=name, kind="other")
    assert [host.seen.nodes[devno].name for devno in tops(host.seen)] == ["nbd0"]
    found = view(host.seen, "43:0")
    assert [finding.level for finding in found.findings] == ["warning"] and found.not_followed == ("nbd0",)


@pytest.mark.parametrize(
    ("kind", "usage", "closed"),
    [
        ("linux_raid_member", "raid", True),
        ("LVM2_member", "raid", True),
        ("crypto_LUKS", "crypto", True),
        ("bcache", "other", True),
        ("zfs_member", "filesystem", True),
        ("oracleasm", "database", True),
        ("swap", "other", False),
        ("xfs", "filesystem", False),
    ],
)
def test_what_nobody_has_opened_is_not_followed(kind, usage, closed):
    """An array's member that is not assembled, a closed LUKS device: where what is in it begins is not known."""
    host = Host()
    part = host.part(host.disk(size=GIB), MIB, GIB - 2 * MIB, name="data")
    host.seen.signatures[part] = [Signature(kind, usage, 0)]
    found = view(host.seen, part)
    assert bool(found.not_followed) is closed and [finding.level for finding in found.findings] == ["warning"] * closed
    assert any(line.startswith("  aligned:") for line in view_report(found)) is not closed
    assert not closed or "it is a %s that is not open" % kind in found.findings[0].text


def test_a_table_alone_is_not_called_aligned():
    host = Host()
    disk = host.disk(size=GIB)
    host.seen.signatures[disk] = [Signature("gpt", "partition-table", 512)]
    assert view_report(view(host.seen, disk))[-1] == "  a partition table, and nothing on it: there is nothing to be aligned"


def test_a_filesystem_on_bcache():
    host = Host()
    disk = host.disk(limits=K4)
    part = host.part(disk, MIB)
    cache = host.mapped("", [Segment(0, GIB, "bcache", 0, ((part, 8192),))], kind="bcache", name="bcache0")
    host.ext4(cache, "x")
    assert tops(host.seen) == [cache]
    found = view(host.seen, cache)
    assert [(leg.device, leg.start) for leg in found.layers[-1].legs] == [("nvme0n1", MIB + 8192)] and found.findings == ()


def test_a_loop_in_the_maps_ends():
    host = Host()
    disk = host.disk()
    one = host.mapped("a", [Segment(0, GIB, "linear", 0, ((disk, 0),))], kind="dm")
    host.edit(one, segments=(Segment(0, GIB, "linear", 0, ((one, 0),)),))
    assert len(starts(host.seen, one, 0)) == 1 and levels_below(host.seen, one) and pieces(host.seen, one) == [0]


def test_device_findings():
    host = Host()
    host.disk(model="A", size=100 * GIB, limits=Limits(512, 4096, 4096, 0, -1))
    host.disk(model="B", size=101 * GIB, firmware="9", limits=K4)
    lv = host.mapped("v-data", [Segment(0, GIB, "striped", 65536, (("259:0", MIB), ("259:16", MIB)))])
    host.ext4(lv, "x", 16, 32)
    host.seen.tables["259:0"] = Table("gpt", backup="missing")
    host.seen.namespaces["259:16"] = {"lbafs": [{"ms": 0, "ds": 9, "rp": 2, "in_use": True}, {"ms": 0, "ds": 12, "rp": 0, "in_use": False}]}
    texts = [finding.text for finding in view(host.seen, lv).findings]
    backup = "device nvme0n1: the backup of its partition table is missing; wanted a true copy, which sfdisk --relocate gpt-bak-std /dev/nvme0n1 writes"
    assert texts[-6:] == [
        "device nvme0n1: alignment_offset is -1; wanted layers below it that agree",
        backup,
        "device nvme1n1: formatted with 512-byte blocks, which the drive calls slower; wanted LBA format 1 (4096 bytes)",
        "device nvme0n1, nvme1n1: legs of different models: A, B; wanted equal legs",
        "device nvme0n1, nvme1n1: legs of different firmware versions: 1.0, 9; wanted equal legs",
        "device nvme0n1, nvme1n1: legs of different sizes: 100 GiB, 101 GiB; wanted equal legs",
    ]


def test_below_by_level():
    host, lv = pair()
    assert levels_below(host.seen, lv) == [["259:0", "259:16"], ["259:1", "259:17"], [lv]]
    assert levels_below(host.seen, "259:0") == [["259:0"]]
    assert chunk_below(host.seen, lv)[:2] == (65536, 2) and chunk_below(host.seen, "259:1") == (0, 1, None)
    assert layouts(host.seen.nodes[lv]) == [(65536, 2)] and layouts(host.seen.nodes["259:0"]) == [(0, 1)]


def test_geometry_of_a_disk_that_was_not_looked_at():
    host, lv = pair()
    for disk in ("259:0", "259:16"):
        del host.seen.geometries[disk]
    assert view(host.seen, lv).findings == () and leg_starts(host.seen, "259:1", 0)[0].grain == make_geometry(K4).grain_bytes


def test_tops():
    host, lv = pair()
    loose = host.disk(serial="L")
    host.seen.signatures[loose] = [Signature("xfs", "filesystem", 0)]
    empty = host.disk(serial="E")
    orphan = host.part(host.disk(serial="O"), MIB)
    host.pv(orphan, "")
    assert tops(host.seen) == [loose, orphan, lv]
    assert tops(host.seen, ["259:0"]) == [lv] and tops(host.seen, [empty]) == [] and tops(host.seen, []) == []
    host.mount(empty, "/x")
    assert empty in tops(host.seen)


def test_what_this_collection_builds_is_aligned():
    """Every layout on every kind of flash: built from the plan's own steps, judged byte by byte."""
    rows = 0
    for count in (2, 3, 4):
        for grain in (512, 4096, 16384, 65536, 131072, 524288):
            for offset in (0, 512, 3584):
                host = Host()
                host.pair(count, limits=Limits(512, min(grain, 4096), grain, 0, offset % grain))
                host.build(spec(host))
                for top in tops(host.seen):
                    assert view(host.seen, top).findings == ()
                    assert not off_by_the_oracle(host.seen, top, max(grain, 4096))
                    rows += 1
    assert rows == 3 * 6 * 3 * 2


@pytest.mark.parametrize(
    "change, level", [({"journal": False}, "error"), ({"faulty": True}, "error"), ({"blocks": 10}, "warning"), ({"blocks": 1 << 40}, "error")]
)
def test_what_became_of_a_filesystem_is_found_and_says_nothing_of_alignment(change, level):
    host = Host()
    disk = host.disk("sda", 64 * MIB)
    host.ext4(disk)
    host.seen.filesystems[disk] = host.seen.filesystems[disk]._replace(**change)
    (finding,) = view(host.seen, disk).findings
    assert (finding.level, finding.layer) == (level, "ext4") and finding.layer in DURABILITY
