# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils import _probe, _sweep
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._probe import Target

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PARAMS = {"max_grain": "64KiB", "error": 1e-4, "min_ratio": 1.1, "max_bytes": "64MiB", "max_seconds": 10, "reads_per_second": 500}


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
        place = _probe.pick(dice, target(size, chunk=chunk), grain, grain, offset)
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
    assert _probe.last_grain(one, wanted) == grain


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
        _probe.last_grain(one, wanted)
    assert words in caught.value.msg and "\n" not in caught.value.msg


def test_options():
    assert _probe.read_options(PARAMS) == _sweep.Options(512, 64 * KIB, 1e-4, 1.1, 64 * MIB)


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
        ("reads_per_second", -1, "reads_per_second: -1; wanted 0 to 1e+06"),
        ("max_bytes", "many", "max_bytes: 'many' is not a size"),
    ],
)
def test_options_out_of_range(word, value, message):
    with pytest.raises(PlumblineError) as caught:
        _probe.read_options(dict(PARAMS, **{word: value}))
    assert message in caught.value.msg


@pytest.mark.parametrize("path, message", [("/dev/not-there", "/dev/not-there is not there"), ("/dev/null", "/dev/null is no block device")])
def test_no_block_device(path, message):
    with pytest.raises(PlumblineError, match=message):
        _probe.look_at(path)


@pytest.fixture
def sparse(tmp_path):
    path = tmp_path / "disk"
    with open(path, "wb") as handle:
        handle.truncate(64 * MIB)
    return str(path)


def test_it_reads_within_its_time_and_bytes(sparse):
    options = _sweep.Options(last_grain=4 * KIB, max_bytes=4 * MIB)
    before = os.stat(sparse)
    measured = _probe.measure(target(64 * MIB, path=sparse), options, 5, 0)
    assert measured.found.bytes <= 4 * MIB and measured.found.reads * 4 * KIB == measured.found.bytes
    after = os.stat(sparse)
    assert (before.st_mtime_ns, before.st_blocks) == (after.st_mtime_ns, after.st_blocks)


def test_it_keeps_to_the_rate(sparse):
    options = _sweep.Options(last_grain=4 * KIB, max_bytes=32 * 8 * 4 * KIB)
    measured = _probe.measure(target(64 * MIB, path=sparse), options, 5, 100)
    assert measured.seconds >= measured.found.reads / 100 * 0.99


def test_it_stops_when_the_time_is_up(sparse):
    measured = _probe.measure(target(64 * MIB, path=sparse), _sweep.Options(max_bytes=GIB), 0.2, 50)
    assert measured.found.verdict == _sweep.INCONCLUSIVE and "time budget" in measured.found.why
    assert measured.found.reads <= 16


def test_a_device_that_ends_early(sparse):
    with pytest.raises(PlumblineError, match=r"could not be read|ended early"):
        _probe.measure(target(64 * GIB, path=sparse), _sweep.Options(), 1, 0)
