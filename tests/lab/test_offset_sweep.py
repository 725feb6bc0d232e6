# SPDX-License-Identifier: GPL-3.0-or-later
"""offset_sweep on simulated flash: it names the page and its phase, wherever that lies, and writes nothing."""

from __future__ import annotations

import statistics
from typing import Any

import pytest
from labkit import sweeps
from labkit.bench import Bench, Disk
from labkit.harness import Harness

pytestmark = pytest.mark.measured
KIB, MIB = 1 << 10, 1 << 20
PAGES = (4 * KIB, 8 * KIB, 16 * KIB)
# One page after the other, as a drive does at depth 1 that has nothing to overlap with.
FLASH = {"read_us": 300, "transfer_us": 20, "straddle_parallel": 0}
DISKS = [
    *({"name": f"page{page // KIB}", "bus": "nvme", "size": "256MiB", "serial": f"PAGE{page}", "simulated": {**FLASH, "page_size": page}} for page in PAGES),
    {"name": "hidden", "bus": "nvme", "size": "256MiB", "serial": "HIDDEN", "simulated": {"read_us": 300, "straddle_parallel": 1, "page_size": 4096}},
    {"name": "native", "bus": "nvme", "size": "256MiB", "serial": "NATIVE", "logical_block_size": 4096, "simulated": {**FLASH, "page_size": 4096}},
]
# By default each page once, at another phase.
DAILY = ((4 * KIB, 1), (8 * KIB, 6), (16 * KIB, 0))
ONCE = [pytest.param(page, part, marks=[] if (page, part) in DAILY else [pytest.mark.long]) for page in PAGES for part in range(8)]
AGAIN = [pytest.param(number, marks=pytest.mark.long) for number in range(1, 5)]


# Flash that is not steady, and straddles that cost little or much, with what a sweep must find of it at least: the emulated machine's own part of each
# request makes every penalty look smaller, on a busy host much smaller.
_UNSTEADY = [
    *((noise, {"noise": noise, "read_us": 1000}, 1.1) for noise in ("drift", "bursts", "lognormal", "pareto")),
    ("slow", {"read_us": 8000}, 1.6),
    ("faint", {"read_us": 250, "transfer_us": 2000}, 1.03),
    ("steep", {"straddle_us": 2500}, 3),
]
UNSTEADY = [pytest.param(*row, id=row[0], marks=[] if row[0] in ("drift", "pareto") else pytest.mark.long) for row in _UNSTEADY]


def sweep(bench: Bench, harness: Harness, disk: Disk, **options: Any) -> dict[str, Any]:
    """One sweep, during which the host counts no write."""
    with bench.untouched(disk):
        found = sweeps.sweep(harness, disk.path, **options)
    assert found["read_bytes"] <= 256 * MIB
    assert found["changed"] is False
    return found


@pytest.fixture(scope="module")
def costs() -> Any:
    """What the sweeps cost, printed at the end. A busy host costs them more rounds: only the median of the long run's many is asserted, and bytes only."""
    rows: list[dict[str, Any]] = []
    yield rows
    seconds, read = (statistics.median(row[key] for row in rows) for key in ("seconds", "read_bytes"))
    print(f"\nmedian of {len(rows)} sweeps: {seconds:.2f} s, {read / MIB:.2f} MiB")
    if len(rows) >= 100:
        assert read <= 16 * MIB


@pytest.mark.parametrize("number", [0, *AGAIN])
@pytest.mark.parametrize("page, part", ONCE)
def test_it_names_the_page_and_its_phase(bench: Bench, harness: Harness, plugged: dict[str, Disk], costs: list[Any], page: int, part: int, number: int) -> None:
    disk = plugged[f"page{page // KIB}"]
    phase = part * page // 8
    bench.change(disk, page_phase=phase)
    found = sweep(bench, harness, disk)
    costs.append(found)
    assert (found["verdict"], found["grain_bytes"], found["phase_bytes"]) == ("phase", page, phase), found["report"]
    # The kernel knows nothing of these pages, so that it expects 0.
    assert (found["expected_bytes"], found["contradicts"]) == (0, phase != 0)
    assert found["ratio"] > 1.1


@pytest.mark.parametrize("number", [0, *AGAIN])
@pytest.mark.parametrize("name", ["hidden", pytest.param("native", marks=pytest.mark.long)])
def test_no_offset_is_faster(bench: Bench, harness: Harness, plugged: dict[str, Disk], costs: list[Any], name: str, number: int) -> None:
    """A drive that hides a straddle in its parallelism, and one whose page is its block."""
    found = sweep(bench, harness, plugged[name], max_grain="16KiB")
    costs.append(found)
    assert (found["verdict"], found["contradicts"]) == ("no_preference", False), found["report"]


@pytest.mark.parametrize("number", [0, *AGAIN])
@pytest.mark.parametrize("name, settings, ratio", UNSTEADY)
def test_flash_that_is_not_steady(
    bench: Bench, harness: Harness, plugged: dict[str, Disk], name: str, settings: dict[str, Any], ratio: float, number: int
) -> None:
    """Never a wrong verdict: the right phase is found through drift, bursts and heavy tails, or on slow flash."""
    disk = plugged["page4"]
    bench.change(disk, page_phase=2560, **settings)
    try:
        found = sweep(bench, harness, disk, max_grain="8KiB", min_ratio=min(1.1, ratio))
    finally:
        bench.change(disk, noise="none", straddle_us=0, **{key: FLASH[key] for key in ("read_us", "transfer_us")})
    print(f"\n{name}: {found['report'][0]}")
    assert (found["verdict"], found["grain_bytes"], found["phase_bytes"]) == ("phase", 4 * KIB, 2560), found["report"]
    assert found["ratio"] > ratio


@pytest.mark.quick("offset_sweep")
def test_what_cannot_be_read(bench: Bench, harness: Harness) -> None:
    """A read error is an error of one line, and no verdict."""
    with bench.scsi_debug(1, size_mib=64, physblk_exp=3, opts=2, medium_error_start=20000, medium_error_count=40000) as (disk,):
        found = harness.module("offset_sweep", {"device": disk.path, "max_grain": "4KiB"})
    assert found["failed"] and "could not be read: " in found["msg"] and "\n" not in found["msg"]
    assert f"{disk.path}: the 4096 bytes at byte " in found["msg"]


@pytest.mark.parametrize(
    "options, words",
    [
        ({"device": "/dev/not-there"}, "/dev/not-there is not there"),
        (
            {"device": "/dev/null"},
            "/dev/null is neither a block device nor a regular file; name a disk, a partition, a logical volume, a file, or the mount point",
        ),
        ({"max_grain": "12KiB"}, "max_grain: 12KiB; wanted a power of two from 4KiB to 64KiB"),
        ({"error": 0.5}, "error: 0.5; wanted 1e-09 to 0.05"),
    ],
)
def test_a_request_that_makes_no_sense(harness: Harness, plugged: dict[str, Disk], options: dict[str, Any], words: str) -> None:
    found = harness.module("offset_sweep", {"device": plugged["page4"].path, **options})
    assert found["failed"] and words in found["msg"] and "\n" not in found["msg"]
