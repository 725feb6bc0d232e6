# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import DiskLoad, Observation, Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._core import verdict as common_verdict
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import options as sweep_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import probe as sweep_probe
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import search
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import target as sweep_target
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import SweepLimits
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.target import Target
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PARAMS = {
    "max_grain": "64KiB", "error": 1e-4, "min_ratio": 1.1, "max_bytes": "64MiB",
    "max_seconds": 10, "reads_per_second": 500, "max_share": 0.02, "table_seconds": 30, "cache_size": "2GiB",
}  # fmt: skip


def target(size=GIB, logical=512, chunk=0, path="/dev/x"):
    return Target(path, "x", size, logical, chunk, 0)


@pytest.mark.parametrize("chunk", [0, 8 * KIB, 64 * KIB, 192 * KIB])
@pytest.mark.parametrize("grain", [4 * KIB, 8 * KIB, 64 * KIB])
def test_places_lie_within_the_device_and_a_chunk(chunk, grain):
    dice = random.Random(chunk + grain)
    if chunk and 2 * grain > chunk:
        pytest.skip("last_grain() does not let this through")
    size = 64 * MIB + 512 * 7
    offsets = set()
    for _turn in range(400):
        offset = dice.randrange(0, grain, 512)
        one = target(size, chunk=chunk)
        place = sweep_target.pick(dice, one, sweep_target.places_in(one, grain), grain, grain, offset)
        assert place % grain == offset and place >= 0 and place + grain <= size
        assert not chunk or place // chunk == (place + grain - 1) // chunk
        offsets.add(place // MIB)
    assert len(offsets) > 60


@pytest.mark.parametrize(
    "one, wanted, grain",
    [
        (target(), 64 * KIB, 64 * KIB),
        (target(chunk=64 * KIB), 64 * KIB, 32 * KIB),
        (target(chunk=8 * KIB), 64 * KIB, 4 * KIB),
        (target(size=4 * MIB), 4 * KIB, 4 * KIB),
        (target(logical=4096), 8 * KIB, 8 * KIB),
    ],
)
def test_last_grain(one, wanted, grain):
    assert sweep_target.last_grain(one, wanted) == grain


@pytest.mark.parametrize(
    "one, wanted, words",
    [
        (target(chunk=4 * KIB), 64 * KIB, "stripes of 4 KiB with blocks of 512 leave no two offsets to compare; wanted room for a grain of 4 KiB"),
        (target(chunk=8 * KIB, logical=4096), 64 * KIB, "stripes of 8 KiB with blocks of 4096 leave no two offsets"),
        (target(logical=4096), 4 * KIB, "a largest grain of 4 KiB with blocks of 4096 leave no two offsets"),
        (target(size=MIB), 64 * KIB, "its 1 MiB are too few for reads of up to 64 KiB: caches would answer them; wanted at least 32 MiB"),
    ],
)
def test_targets_that_cannot_be_swept(one, wanted, words):
    with pytest.raises(PlumblineError) as caught:
        sweep_target.last_grain(one, wanted)
    assert words in caught.value.msg and "\n" not in caught.value.msg


def test_options():
    assert sweep_options.read_limits(PARAMS) == SweepLimits(10, 500, 0.02, 2 << 30)
    assert sweep_options.read_limits(dict(PARAMS, cache_size="0")).cache == 0
    assert sweep_options.read_options(PARAMS) == sweep_options.Options(512, 64 * KIB, 1e-4, 1.1, 64 * MIB)


@pytest.mark.parametrize(
    "word, value, message",
    [
        ("max_grain", "12KiB", "max_grain: 12KiB; wanted a power of two from 4KiB to 64KiB"),
        ("max_grain", "2KiB", "max_grain: 2KiB; wanted a power of two from 4KiB to 64KiB"),
        ("max_grain", "64K", "max_grain: '64K' has the unit 'K'"),
        ("error", 0, "error: 0; wanted 1e-09 to 0.05"),
        ("error", float("nan"), "error: nan; wanted 1e-09 to 0.05"),
        ("min_ratio", 1.0, "min_ratio: 1; wanted 1.01 to 10"),
        ("max_seconds", 0, "max_seconds: 0; wanted 0.1 to 3600"),
        ("max_share", 0, "max_share: 0; wanted 0.0001 to 1"),
        ("table_seconds", 0.5, "table_seconds: 0.5; wanted 1 to 3600"),
        ("reads_per_second", -1, "reads_per_second: -1; wanted 0 to 1e+06"),
        ("max_bytes", "many", "max_bytes: 'many' is not a size"),
        ("cache_size", "much", "cache_size: 'much' is not a size"),
    ],
)
def test_options_out_of_range(word, value, message):
    with pytest.raises(PlumblineError) as caught:
        sweep_options.read_options(dict(PARAMS, **{word: value}))
    assert message in caught.value.msg


@pytest.mark.parametrize(
    "path, message", [("/dev/not-there", "/dev/not-there is not there"), ("/dev/null", "/dev/null is neither a block device nor a regular file")]
)
def test_no_block_device(path, message):
    with pytest.raises(PlumblineError, match=message):
        sweep_target.look_at_target(path, Observation())


@pytest.fixture
def sparse(tmp_path):
    path = tmp_path / "disk"
    with open(path, "wb") as handle:
        handle.truncate(64 * MIB)
    return str(path)


def test_it_reads_within_its_time_and_bytes(sparse):
    options = sweep_options.Options(last_grain=4 * KIB, max_bytes=4 * MIB)
    before = os.stat(sparse)
    measured = sweep_probe.measure_target(target(64 * MIB, path=sparse), options, SweepLimits(5, 0))
    assert measured.verdict.bytes <= 4 * MIB and measured.verdict.reads * 4 * KIB == measured.verdict.bytes
    after = os.stat(sparse)
    assert (before.st_mtime_ns, before.st_blocks) == (after.st_mtime_ns, after.st_blocks)


def test_it_keeps_to_the_rate(sparse):
    options = sweep_options.Options(last_grain=4 * KIB, max_bytes=32 * 8 * 4 * KIB)
    measured = sweep_probe.measure_target(target(64 * MIB, path=sparse), options, SweepLimits(5, 100))
    assert measured.seconds >= (measured.verdict.reads - 8) / 100 * 0.99  # a round may be read at once


def test_it_stops_when_the_time_is_up(sparse):
    measured = sweep_probe.measure_target(target(64 * MIB, path=sparse), sweep_options.Options(max_bytes=GIB), SweepLimits(0.4, 50))
    assert measured.verdict.verdict == common_verdict.INCONCLUSIVE and "time budget" in measured.verdict.why
    assert measured.verdict.reads <= 24


def test_a_device_that_ends_early(sparse):
    with pytest.raises(PlumblineError, match=r"could not be read|ended early"):
        sweep_probe.measure_target(target(64 * GIB, path=sparse), sweep_options.Options(), SweepLimits(1, 0))


# --- what is swept --------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk, legs, left", [(64 * KIB, 2, 64 * KIB), (0, 1, None), (0, 2, None)])
def test_a_mapped_device_by_its_table(chunk, legs, left):
    """A volume of several linear pieces has no chunk, whatever its least efficient size is."""
    host = Host()
    parts = [host.part(disk, MIB) for disk in host.pair(2)]
    if chunk:
        segments = [Segment(0, 8 * GIB, "striped", chunk, tuple((part, MIB) for part in parts))]
    else:
        segments = [Segment(4 * GIB * number, 4 * GIB, "linear", 0, ((part, MIB),)) for number, part in enumerate(parts[:legs])]
    volume = host.mapped("vg-lv", segments)
    one = sweep_target.target_of(host.seen, host.seen.nodes[volume])
    assert (one.chunk, one.name, one.disks) == (chunk, "vg-lv", ("nvme0n1", "nvme1n1")[: 2 if chunk else legs])
    assert one.left(0) == (left or 4 * GIB) and one.left(1000) == (left or 4 * GIB) - 1000


def test_an_edge_that_a_layer_above_has_moved():
    host = Host()
    parts = [host.part(disk, MIB) for disk in host.pair(2)]
    volume = host.mapped("vg-lv", [Segment(0, 8 * GIB, "striped", 64 * KIB, tuple((part, MIB) for part in parts))])
    skewed = host.mapped("skewed", [Segment(0, GIB, "linear", 0, ((volume, 512),))], kind="dm")
    one = sweep_target.target_of(host.seen, host.seen.nodes[skewed])
    assert (one.chunk, one.left(0), one.left(64 * KIB - 512)) == (64 * KIB, 64 * KIB - 512, 64 * KIB)
    dice = random.Random(1)
    for _turn in range(300):
        place = sweep_target.pick(dice, one, sweep_target.places_in(one, 4 * KIB), 4 * KIB, 4 * KIB, 1536)
        assert place % (4 * KIB) == 1536 and (place + 512) // (64 * KIB) == (place + 512 + 4 * KIB - 1) // (64 * KIB)


def test_a_file_is_read_where_it_was_written_and_nowhere_else():
    spans = ((MIB, 3 * MIB), (8 * MIB + 4096, 12 * KIB), (32 * MIB, 64 * MIB))
    one = target()._replace(spans=spans, file="/srv/file")
    places = sweep_target.places_in(one, 16 * KIB)
    assert places.total == 67 * MIB  # the short run has no room for the largest reads
    dice = random.Random(2)
    for _turn in range(300):
        offset = dice.randrange(0, 16 * KIB, 512)
        place = sweep_target.pick(dice, one, places, 16 * KIB, 16 * KIB, offset)
        assert place % (16 * KIB) == offset
        assert any(start <= place and place + 16 * KIB <= start + length for start, length in spans)


def test_a_file_that_is_too_small():
    one = target()._replace(spans=((MIB, 3 * MIB),), file="/srv/file")
    with pytest.raises(PlumblineError) as caught:
        sweep_target.last_grain(one, 64 * KIB)
    assert caught.value.msg == (
        "/srv/file: the 3 MiB of /srv/file that are written, in runs of 128 KiB and more, are too few for reads of up to 64 KiB: "
        "caches would answer them; wanted at least 32 MiB, or a smaller max_grain"
    )
    assert sweep_target.largest_grain(one, 64 * KIB) == 4 * KIB
    with pytest.raises(PlumblineError, match="the 0 B of /srv/file that are written"):
        sweep_target.last_grain(one._replace(spans=()), 4 * KIB)


def test_a_file_on_no_block_device(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x")
    with pytest.raises(PlumblineError, match="wanted a file on ext4, xfs, ext3, ext2"):
        sweep_target.look_at_target(str(path), Observation())


def test_a_loaded_device_gets_its_share_only(sparse, monkeypatch):
    """Others make 1,000 requests a second, of 1 ms each: in one second that leaves 20 reads of 2 %."""
    began = sweep_probe.time.monotonic()

    def load(_disks):
        passed = sweep_probe.time.monotonic() - began
        return DiskLoad(int(1000 * passed), 1000 * passed)

    monkeypatch.setattr(sweep_probe.read_disk_activity, "read_load", load)
    measured = sweep_probe.measure_target(target(64 * MIB, path=sparse), sweep_options.Options(max_bytes=GIB), SweepLimits(1.2, 0, 0.02))
    assert measured.verdict.verdict == common_verdict.INCONCLUSIVE
    assert 0 < measured.verdict.reads <= 24 and measured.held > 0.5


def test_an_edge_is_crossed_in_its_middle(sparse):
    one = target(64 * MIB, chunk=64 * KIB, path=sparse)
    with sweep_probe.Probe(one, 8 * KIB, SweepLimits()) as probe:
        for _turn in range(100):
            assert (sweep_probe._at_edge(probe, 8 * KIB) + 4 * KIB) % (64 * KIB) == 0
    edges = sweep_probe.measure_edges(one, 8 * KIB, 512, SweepLimits(5, 0))
    assert edges.reads == sweep_probe.EDGE_ROUNDS * 2 * sweep_probe.EDGE_READS and edges.bytes == edges.reads * 8 * KIB and edges.ratio > 0


@pytest.mark.parametrize(
    "verdict, room, cache, wanted",
    [
        (search.NO_PREFERENCE, 8 << 30, 2 << 30, search.NO_PREFERENCE),
        (search.NO_PREFERENCE, (8 << 30) - 4096, 2 << 30, search.CANNOT_TELL),
        (search.NO_PREFERENCE, 64 << 20, 2 << 30, search.CANNOT_TELL),
        (search.NO_PREFERENCE, 64 << 20, 0, search.NO_PREFERENCE),
        (search.PHASE, 64 << 20, 2 << 30, search.PHASE),
        (common_verdict.INCONCLUSIVE, 64 << 20, 2 << 30, common_verdict.INCONCLUSIVE),
    ],
)
def test_a_cache_may_have_answered(verdict, room, cache, wanted):
    """It has no pages, so that a misalignment behind it does not show."""
    found = sweep_probe._behind_cache(search.Verdict(verdict, excluded=1.1), room, cache)
    assert found.verdict == wanted and (wanted != search.CANNOT_TELL or (found.excluded == 0 and "could have answered" in found.why))
