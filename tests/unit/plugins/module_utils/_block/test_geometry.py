# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import json
import math
import random
from fractions import Fraction

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import geometry as model_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block import nvme, stack_addresses
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, fixture

DEVICES = json.loads(fixture("geometry.json"))
NVME_FIELDS = ("npwg", "npwa", "npdg", "npda", "nows")


def limits_of(record):
    return Limits(
        logical=record["logical"] or 512,
        physical=record["physical"],
        min_io=record["min_io"],
        opt_io=record["opt_io"],
        alignment_offset=record["alignment_offset"],
        discard_granularity=record["discard_granularity"],
        discard_alignment=record["discard_alignment"],
    )


@pytest.mark.parametrize("record", DEVICES, ids=lambda record: record["id"])
def test_real_device(record):
    """Every device of the collection of real ones: the numbers that a person derived from its reply."""
    expect = record["expect"]
    made = make_geometry(limits_of(record), record["nvme"])
    units = model_geometry.nvme_units(record["nvme"] or {}, record["logical"] or 512)
    for name in NVME_FIELDS:
        if name + "_bytes" in expect and units:
            assert units[name] == expect[name + "_bytes"], name
    if "reported_grain_bytes" in expect:
        assert made.reported_grain.value == expect["reported_grain_bytes"]
        assert made.grain_bytes == max(expect["reported_grain_bytes"], 4096)
        assert (made.grain.confidence == "assumed") == (expect["reported_grain_bytes"] < 4096)
    if "grain_bytes" in expect:
        assert made.grain_bytes == max(expect["grain_bytes"], 4096)
    if "opt_io_trusted" in expect:
        assert model_geometry.trusted_optimal_io(limits_of(record)) is expect["opt_io_trusted"]
        assert (made.optimal_write.source == "sysfs optimal_io_size") is expect["opt_io_trusted"]
        assert any("optimal_io_size" in note and "not believed" in note for note in made.notes)
    if "start_align_bytes" in expect:
        assert made.start_alignment.value == expect["start_align_bytes"]
    if "better_lbaf" in expect:
        assert nvme.better_format(record["nvme"]["lbafs"]) == expect["better_lbaf"]
    if "aligned_start_example" in expect:
        start = expect["aligned_start_example"] * (record["logical"] or 512)
        assert start % made.grain_bytes == made.offset_bytes
        assert model_geometry.partition_start(made) == start
    assert made.grain_bytes % made.logical_bytes == 0
    if record["logical"]:
        assert model_geometry.partition_start(made) % made.grain_bytes == made.offset_bytes


def test_all_devices_are_there():
    assert len(DEVICES) == 74 and len({record["id"] for record in DEVICES}) == 74


# --- which value wins ------------------------------------------------------------------------------

NS = {"nsfeat": 0x10, "npwg": 31, "npwa": 0, "npdg": 31, "npda": 0, "nows": 31}


@pytest.mark.parametrize(
    "limits, id_ns, vpd, override, grain, source, confidence",
    [
        (Limits(512, 512, 512), None, None, None, 4096, "assumed: the device reports 512, which says nothing of its flash page", "assumed"),
        (Limits(512), None, None, None, 4096, "assumed: the device reports 512, which says nothing of its flash page", "assumed"),
        (Limits(512, 1024, 1024), None, None, None, 4096, "assumed: the device reports 1024, which says nothing of its flash page", "assumed"),
        (Limits(512, 4096, 4096), None, None, None, 4096, "physical_block_size = minimum_io_size", "reported"),
        (Limits(512, 4096, 512), None, None, None, 4096, "physical_block_size", "reported"),
        (Limits(512, 512, 16384), None, None, None, 16384, "minimum_io_size", "reported"),
        (Limits(4096), None, None, None, 4096, "logical_block_size", "reported"),
        (Limits(4096, 4096, 131072), NS, None, None, 131072, "nvme NPWG = minimum_io_size", "stated"),
        (Limits(4096, 4096), NS, None, None, 131072, "nvme NPWG", "stated"),
        (Limits(4096, 4096), dict(NS, nsfeat=0), None, None, 4096, "logical_block_size", "reported"),
        (Limits(512, 4096), dict(NS, npwg=255, npwa=255), None, None, 131072, "nvme NPWG = nvme NPWA", "stated"),
        (Limits(512, 4096, 4096), None, {"granularity": 65536}, None, 65536, "scsi vpd b0 granularity", "reported"),
        (Limits(512, 4096, 98304), None, None, None, 98304, "minimum_io_size", "reported"),
        (Limits(512, 4096, 2 * MIB), None, None, None, 4096, "physical_block_size", "reported"),
        (Limits(512, 4096, 5000), None, None, None, 4096, "physical_block_size", "reported"),
        (Limits(512, 524288, 196608), None, None, None, 524288, "physical_block_size", "reported"),
        (Limits(512, 4096), None, None, {"grain": 16384}, 16384, "operator", "stated"),
        (Limits(512, 4096), None, None, {"grain": 512}, 512, "operator", "stated"),
        (Limits(4096, 4096), NS, None, {"grain": 65536}, 65536, "operator", "stated"),
    ],
)
def test_grain_has_a_source(limits, id_ns, vpd, override, grain, source, confidence):
    found = make_geometry(limits, id_ns, vpd, override).grain
    assert found == (grain, source, confidence)


@pytest.mark.parametrize(
    "limits, note",
    [
        (Limits(512, 4096, 2 * MIB), "minimum_io_size of 2 MiB is not believed as a grain: more than 1 MiB"),
        (Limits(512, 4096, 5000), "minimum_io_size of 5000 is not believed: no multiple of the logical block of 512"),
        (Limits(512, 524288, 196608), "minimum_io_size of 192 KiB is left out of the grain: the common multiple would exceed 1 MiB"),
        (Limits(512, 512, 512, 33553920), "optimal_io_size 33553920 is not believed: a multiple of 65,535 sectors is a bridge's fill value"),
        (Limits(512, 512, 512, 16776960), "optimal_io_size 16776960 is not believed: a multiple of 65,535 sectors is a bridge's fill value"),
        (Limits(512, 512, 512, 4293918720), "optimal_io_size 4293918720 is not believed: not a power of two"),
        (Limits(512, 512, 512, 33554432), "optimal_io_size 33554432 is not believed: larger than 16 MiB"),
        (Limits(512, 512, 512, 512), "optimal_io_size 512 is not believed: one logical block says nothing"),
        (Limits(512, 4096, 4096, 98304), "optimal_io_size 98304 is not believed: not a power of two"),
        (Limits(512, 4096, 4096, 2048), "optimal_io_size 2048 is not believed: no multiple of the physical block and the minimum I/O size"),
    ],
)
def test_notes_say_what_is_not_believed(limits, note):
    assert note in make_geometry(limits).notes


@pytest.mark.parametrize(
    "opt_io, trusted", [(0, False), (512, False), (1024, False), (4096, True), (65536, True), (16 * MIB, True), (32 * MIB, False), (98304, False)]
)
def test_trusted_optimal_io(opt_io, trusted):
    assert model_geometry.trusted_optimal_io(Limits(512, 4096, 4096, opt_io)) is trusted


@pytest.mark.parametrize(
    "member, limits, id_ns, vpd, override, expected",
    [
        ("optimal_write", Limits(512, 4096), dict(NS, nows=255), None, None, (131072, "nvme NOWS", "stated")),
        ("optimal_write", Limits(512, 4096, 4096, 1 * MIB), None, None, None, (MIB, "sysfs optimal_io_size", "reported")),
        ("optimal_write", Limits(512, 4096), dict(NS, nows=65535), None, None, (None, "nobody says", "assumed")),
        ("discard_granularity", Limits(4096, discard_granularity=4096), NS, None, None, (131072, "nvme NPDG", "stated")),
        (
            "discard_granularity",
            Limits(512, discard_granularity=512),
            None,
            {"unmap_granularity": 1 << 30},
            None,
            (1 << 30, "scsi vpd b0 unmap granularity", "reported"),
        ),
        ("discard_granularity", Limits(512, discard_granularity=4096), None, None, None, (4096, "sysfs discard_granularity", "reported")),
        ("discard_granularity", Limits(512, discard_granularity=0), None, None, None, (None, "no discard reported", "assumed")),
        ("alignment_offset", Limits(512, 4096, alignment_offset=3584), None, None, None, (3584, "sysfs alignment_offset", "reported")),
        ("alignment_offset", Limits(512, 4096, alignment_offset=3584), None, None, {"alignment_offset": 0}, (0, "operator", "stated")),
        ("alignment_offset", Limits(512, 4096), None, None, None, (0, "no alignment_offset reported", "assumed")),
        ("start_alignment", Limits(4096, 4096), NS, None, None, (4096, "nvme NPWA", "stated")),
        ("physical", Limits(512), None, None, None, (512, "logical_block_size, no physical one reported", "assumed")),
        ("physical", Limits(512, 4096), None, None, None, (4096, "sysfs physical_block_size", "reported")),
    ],
)
def test_member_has_a_source(member, limits, id_ns, vpd, override, expected):
    made = make_geometry(limits, id_ns, vpd, override)
    assert getattr(made, member) == expected
    assert made.as_dict()[member]["source"] == expected[1]


# --- addresses -------------------------------------------------------------------------------------

LOGICAL = (512, 4096)
GRAINS = (512, 4096, 8192, 12288, 16384, 24576, 32768, 49152, 65536, 98304, 131072, 196608, 262144, 393216, 524288, 786432, 1048576)
OFFSETS = (0, 512, 1024, 3072, 3584, 4096, 7680, 65536, 130560)
SIZES = (1 * GIB, 8 * GIB - 512 * 5, 240057409536, 3840755982336, 15362991415296, 1 << 47)
RESERVES = (
    {"percent": 0.0},
    {"percent": 0.5},
    {"percent": 7.0},
    {"percent": 10.0},
    {"percent": 33.3},
    {"percent": 90.0},
    {"bytes": 0},
    {"bytes": 3 * MIB + 512},
    {"bytes": 500 * MIB},
)


def made(logical, grain, offset):
    return make_geometry(Limits(logical, logical), override={"grain": grain, "alignment_offset": offset})


@pytest.mark.parametrize("logical", LOGICAL)
@pytest.mark.parametrize("grain", GRAINS)
def test_partition_addresses(logical, grain):
    """Start on the flash's own phase and not below 1 MiB; end on a grain; the reserve and the last MiB stay free."""
    rows = 0
    for offset, size, reserve in itertools.product(OFFSETS, SIZES, RESERVES):
        geometry = made(logical, grain, offset)
        phase = offset % grain
        if grain % logical or phase % logical:
            continue
        start = model_geometry.partition_start(geometry)
        end = stack_addresses.partition_end(size // logical * logical, reserve, geometry)
        kept = Fraction(str(reserve["percent"])) / 100 * size if "percent" in reserve else reserve["bytes"]
        assert start % grain == phase
        assert MIB <= start <= 65 * MIB + grain
        assert start % logical == 0
        assert start % MIB == phase or MIB % grain, "on a whole MiB plus the phase, wherever the grain divides one"
        assert end % grain == phase and end >= start and end % logical == 0
        assert size - end >= kept - 1 and size - end >= MIB
        assert (end - start) % grain == 0
        unit = math.lcm(grain, MIB)
        if end > start:
            assert size - end < max(kept, MIB) + unit + 8192, "no more than a unit is given away"
        rows += 1
    assert rows >= 100 or grain % logical


@pytest.mark.parametrize("grain", GRAINS)
def test_data_alignment(grain):
    distance = stack_addresses.data_alignment(made(512, grain, 0))
    assert distance % grain == 0 and MIB <= distance < MIB + grain


def test_random_addresses():
    """The same properties for 4,000 geometries that nobody thought of."""
    dice = random.Random(3)
    for _row in range(4000):
        grain = dice.randrange(1, 2049) * 512
        offset = dice.randrange(0, 2048) * 512
        size = dice.randrange(600 * MIB // 512, 1 << 34) * 512
        geometry = made(512, grain, offset)
        start = model_geometry.partition_start(geometry)
        end = stack_addresses.partition_end(size, {"percent": 10.0}, geometry)
        assert start % grain == offset % grain and start >= MIB
        assert end % grain == offset % grain and (size - end) * 10 >= size


def test_contradicting_layers_are_refused():
    with pytest.raises(PlumblineError, match="alignment_offset is -1: the layers below this device contradict each other"):
        model_geometry.partition_start(make_geometry(Limits(512, 4096, alignment_offset=-1)))


def test_offset_off_the_blocks_is_refused():
    with pytest.raises(PlumblineError, match="alignment_offset of 3584 is no multiple of the logical block of 4096 bytes"):
        model_geometry.partition_start(made(4096, 4096 * 2, 3584))


def test_tiny_device_has_no_room():
    geometry = make_geometry(Limits(512, 4096))
    assert stack_addresses.partition_end(MIB, {"percent": 0.0}, geometry) == model_geometry.partition_start(geometry)


# --- stripes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "grain, expected",
    [(4096, 64 * KIB), (512, 64 * KIB), (65536, 64 * KIB), (131072, 128 * KIB), (262144, 256 * KIB), (1048576, 1024 * KIB)],
)
def test_auto_stripe(grain, expected):
    assert stack_addresses.auto_stripe(grain) == expected


@pytest.mark.parametrize("grain", [98304, 12288, 24576, 49152, 196608, 786432, 2 * MIB])
def test_auto_stripe_refuses_a_grain_that_nothing_fits(grain):
    with pytest.raises(PlumblineError) as caught:
        stack_addresses.auto_stripe(grain)
    text = "no stripe size fits a grain of %s: LVM takes powers of two only, and none up to 1 MiB is a multiple of it; use layout 'separate'"
    assert caught.value.msg == text % model_geometry.human(grain)


@pytest.mark.parametrize(
    "stripe, grain, fault",
    [
        (
            98304,
            65536,
            (
                "stripe_size 96 KiB does not fit: LVM takes only powers of two; it is no multiple of the flash's grain of 64 "
                "KiB; wanted one of 64 KiB, 128 KiB, 256 KiB, 512 KiB, 1 MiB"
            ),
        ),
        (
            98304,
            4096,
            (
                "stripe_size 96 KiB does not fit: LVM takes only powers of two; wanted one of 4 KiB, 8 KiB, 16 "
                "KiB, 32 KiB, 64 KiB, 128 KiB, 256 KiB, 512 KiB, 1 MiB"
            ),
        ),
        (
            8192,
            16384,
            (
                "stripe_size 8 KiB does not fit: it is no multiple of the flash's grain of 16 KiB; wanted one of 16 "
                "KiB, 32 KiB, 64 KiB, 128 KiB, 256 KiB, 512 KiB, 1 MiB"
            ),
        ),
        (
            2048,
            512,
            "stripe_size 2 KiB does not fit: the smallest is 4 KiB; wanted one of 4 KiB, 8 KiB, 16 KiB, 32 KiB, 64 KiB, 128 KiB, 256 KiB, 512 KiB, 1 MiB",
        ),
        (
            65536,
            98304,
            "stripe_size 64 KiB does not fit: it is no multiple of the flash's grain of 96 KiB; no stripe size fits this grain: use layout 'separate'",
        ),
    ],
)
def test_check_stripe_refuses(stripe, grain, fault):
    with pytest.raises(PlumblineError) as caught:
        stack_addresses.check_stripe(stripe, grain)
    assert caught.value.msg == fault


def test_check_stripe_table():
    """Exactly the powers of two from 4 KiB that are multiples of the grain pass."""
    rows = 0
    for stripe in sorted({base << shift for base in (1, 3, 5) for shift in range(9, 24)}):
        for grain in GRAINS:
            fits = bin(stripe).count("1") == 1 and stripe >= 4096 and stripe % grain == 0
            try:
                stack_addresses.check_stripe(stripe, grain)
                passed = True
            except PlumblineError:
                passed = False
            assert passed is fits, (stripe, grain)
            rows += 1
    assert rows > 700


@pytest.mark.parametrize(
    "leg, expected",
    [(16 * MIB, 4), (4 * GIB, 4), (8 * GIB - 1, 4), (8 * GIB, 8), (16 * GIB, 16), (100 * GIB, 64), (128 * GIB, 128), (10 << 40, 128)],
)
def test_extent_size(leg, expected):
    assert stack_addresses.extent_size(leg) == expected * MIB


def test_common_grain():
    assert stack_addresses.common_grain([made(512, 4096, 0), made(512, 65536, 0)]) == 65536
    assert stack_addresses.common_grain([made(512, 98304, 0), made(512, 65536, 0)]) == 196608
