# SPDX-License-Identifier: GPL-3.0-or-later
"""Places that cannot be read, at every region that is probed, at the plan or only at the write; and disks that are another by then."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import assert_error, said, stack

MIB = 1 << 20
SIZE_MIB = 96
SECTORS = SIZE_MIB * 2048
PARAMETERS = "/sys/module/scsi_debug/parameters"
OPTIONS = "/sys/bus/pseudo/drivers/scsi_debug/opts"
DISKS = pool(["spare"])
# The first sector of each region that a guard reads: table, the beginnings of formats, the blank proof's middle, superblocks at the end.
REGIONS = {
    "first-sector": 0,
    "gpt-header": 1,
    "ext-superblock": 2,
    "behind-the-gpt": 34,
    "sector-63": 63,
    "sector-64": 64,
    "zfs-label-1": 512 + 256,
    "our-start": 2048,
    "behind-our-start": 2048 + 128,
    "middle": SECTORS // 2,
    "md-0.90": SECTORS - 128,
    "last-mib": SECTORS - 2048,
    "md-1.0": SECTORS - 16,
    "backup-gpt": SECTORS - 8,
}


def fail(harness: Harness, sector: int) -> None:
    """Reads of this sector and the seven behind it fail from now on. What was read before is not kept by the kernel."""
    harness.must(f"echo {sector} > {PARAMETERS}/medium_error_start; echo 8 > {PARAMETERS}/medium_error_count; echo 2 > {OPTIONS}")


def heal(harness: Harness) -> None:
    harness.must(f"echo 0 > {OPTIONS}")


@contextmanager
def unwritten(harness: Harness, disk: Disk) -> Iterator[None]:
    """The guest kernel's own account of a disk that the host does not see: no write, no discard."""

    def account() -> tuple[str, str]:
        words = harness.must(f"sync; cat /sys/block/{disk.kernel}/stat").split()
        return words[4], words[11]

    before = account()
    yield
    assert account() == before, "writes or discards reached the disk"


def separate(disk: Disk) -> dict[str, Any]:
    return stack([disk], "separate", name="s0")


@pytest.fixture(scope="module")
def debug(bench: Bench, plugged: dict[str, Disk]) -> Iterator[Disk]:
    """One disk of the guest's own simulator."""
    with bench.scsi_debug(1, size_mib=SIZE_MIB) as (disk,):
        yield disk


@pytest.fixture
def healthy(harness: Harness, debug: Disk) -> Iterator[Disk]:
    """The same, without errors before and after."""
    heal(harness)
    yield debug
    heal(harness)


DAILY = ("first-sector", "middle", "backup-gpt")


@pytest.mark.parametrize("region", [region if region in DAILY else pytest.param(region, marks=pytest.mark.long) for region in REGIONS])
def test_an_unreadable_region_at_the_plan_and_at_the_write(harness: Harness, healthy: Disk, region: str, figure: Callable[..., None]) -> None:
    plan = harness.module("stack_plan", {"stacks": [separate(healthy)], "through": "partition"})
    assert not plan["failed"], said(plan)
    request = plan["steps"][0]["devices"]
    with unwritten(harness, healthy):
        fail(harness, REGIONS[region])
        assert_error(harness.module("stack_plan", {"stacks": [separate(healthy)]}), "[unreadable]", "could not be read")
        for check in (True, False):
            assert_error(harness.module("aligned_partition", {"devices": request}, check=check), "[unreadable]", "could not be read")
        heal(harness)
        again = harness.module("stack_plan", {"stacks": [separate(healthy)], "through": "partition"})
        assert not again["failed"] and again["steps"][0]["devices"] == request, "healed, it is the blank disk that it was"
    figure("unreadable", regions=1, writes=0)


def test_an_error_that_comes_after_the_plan_hides_nothing(harness: Harness, healthy: Disk) -> None:
    """Data beside the sector that fails: the error is told, and the data is not taken for blank when it heals."""
    request = harness.module("stack_plan", {"stacks": [separate(healthy)], "through": "partition"})["steps"][0]["devices"]
    harness.must(f"printf x | dd of={healthy.path} bs=1 seek={(SECTORS // 2 + 4) * 512} conv=notrunc,fsync status=none")
    fail(harness, SECTORS // 2)
    with unwritten(harness, healthy):
        assert_error(harness.module("aligned_partition", {"devices": request}), "[unreadable]")
        heal(harness)
        assert_error(harness.module("aligned_partition", {"devices": request}), "[data]")
    harness.must(f"blkdiscard -f -z {healthy.path}")


def test_another_disk_of_the_same_size_and_serial(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """Pulled and plugged in between: only the kernel's sequence number tells."""
    spare = disks["p0"]
    plan = harness.module("stack_plan", {"stacks": [separate(spare)], "through": "partition"})
    request = plan["steps"][0]["devices"]
    bench.pull(spare)
    now = bench.plug(spare)[spare.name]
    request[0]["device"] = now.path
    with bench.untouched(now):
        assert_error(harness.module("aligned_partition", {"devices": request}), "the diskseq changed since the plan")


_LOOPS = """
for n in 0 1; do rm -f /run/pl-race$n; truncate -s 64M /run/pl-race$n; done
losetup /dev/loop5 /run/pl-race0
"""
_SWAP = "udevadm settle; losetup -d /dev/loop5; udevadm settle; losetup /dev/loop5 /run/pl-race{0}"


@pytest.mark.parametrize("races", [1, pytest.param(50, marks=pytest.mark.long)])
def test_races_with_a_replaced_device(harness: Harness, plugged: dict[str, Disk], races: int, figure: Callable[..., None]) -> None:
    """The same name, size and stated identity, and as blank as the first: refused each time, and neither file has a byte in it."""
    spec = {"name": "race", "layout": "separate", "devices": [{"path": "/dev/loop5", "test_identity": "race"}], "volumes": [{"name": "a"}]}
    harness.must(_LOOPS)
    try:
        for race in range(races):
            plan = harness.module("stack_plan", {"stacks": [spec], "through": "partition"})
            assert not plan["failed"], said(plan)
            request = copy.deepcopy(plan["steps"][0]["devices"])
            harness.must(_SWAP.format((race + 1) % 2))
            assert_error(harness.module("aligned_partition", {"devices": request}), "the diskseq changed since the plan")
            assert harness.must("cat /run/pl-race0 /run/pl-race1 | tr -d '\\0' | wc -c").strip() == "0"
    finally:
        harness.run("losetup -d /dev/loop5; rm -f /run/pl-race0 /run/pl-race1")
    figure("unreadable", races=races, writes=0)
