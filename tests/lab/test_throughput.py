# SPDX-License-Identifier: GPL-3.0-or-later
"""throughput on simulated SSDs: a misaligned stripe shows about half of its legs' sum, aligned ones nearly all of it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import HOME, Harness
from labkit.specs import assert_error, said
from plumblab import plugging
from plumblab import state as states

KIB, MIB = 1 << 10, 1 << 20
PAGE = 8 * KIB
# Two channels of pages of 8 KiB: slow enough that the guest's processors are not what is measured.
FLASH = {"page_size": PAGE, "channels": 2, "program_us": 1100, "read_us": 900, "rmw_us": 50, "transfer_us": 10}
DISKS = [
    *({"name": f"flash{number}", "bus": "nvme", "size": "192MiB", "serial": f"FLASH{number}", "simulated": FLASH} for number in range(2)),
    {"name": "gone", "bus": "nvme", "size": "64MiB", "serial": "GONE"},
]
# Short blocks and few requests in flight, as these disks are slow.
QUICK = {"block_seconds": 1.5, "depth": 8, "span": "24MiB", "max_seconds": 150}


@dataclass(frozen=True)
class Layout:
    """One line of the article's table: how it is made on the partitions {0} and {1}, and which volumes are loaded together."""

    title: str
    make: str
    volumes: tuple[str, ...]


STRIPE = "vgcreate -q -s 1m bench {0} {1}; "
LAYOUTS = {
    "misaligned": Layout(
        "data area off by one sector, one striped LV",
        "pvcreate -q --dataalignment 1m --dataalignmentoffset 512b {0} {1}; " + STRIPE + "lvcreate -q -y -W n -n lv -i 2 -I 8k -l 80 bench",
        ("/dev/bench/lv",),
    ),
    "single": Layout(
        "aligned partitions, one striped LV",
        "pvcreate -q --dataalignment 1m {0} {1}; " + STRIPE + "lvcreate -q -y -W n -n lv -i 2 -I 64k -l 80 bench",
        ("/dev/bench/lv",),
    ),
    "three": Layout(
        "the same partitions, three striped LVs",
        "pvcreate -q --dataalignment 1m {0} {1}; "
        + STRIPE
        + "for n in 0 1 2; do lvcreate -q -y -W n -n lv$n -i 2 -I 64k -l 30%VG bench; done",
        ("/dev/bench/lv0", "/dev/bench/lv1", "/dev/bench/lv2"),
    ),
    "separate": Layout("one volume on each aligned partition", "true", ("{0}", "{1}")),
}


def pair(plugged: dict[str, Disk]) -> list[Disk]:
    return [plugged["flash0"], plugged["flash1"]]


@contextmanager
def built(bench: Bench, harness: Harness, disks: list[Disk], layout: Layout) -> Iterator[list[str]]:
    """The layout, on partitions named as aligned_partition names them; yields its volumes."""
    for number, disk in enumerate(disks):
        table = f'label: gpt\\nstart=2048, size={180 * MIB // 512}, name="plumbline:bench:{number}"\\n'
        harness.must(f"printf '{table}' | sfdisk -q {disk.path}; udevadm settle")
    parts = [disk.part() for disk in disks]
    try:
        harness.must(layout.make.format(*parts) + "; udevadm settle")
        yield [volume.format(*parts) for volume in layout.volumes]
    finally:
        bench.clean(*disks)


def measure(harness: Harness, **options: Any) -> dict[str, Any]:
    found = harness.module("throughput", {**QUICK, **options}, timeout=580)
    assert not found["failed"], said(found)
    assert found["changed"] is False
    assert len(json.dumps(found)) < 32 * KIB
    return found


def amplification(bench: Bench, harness: Harness, disks: list[Disk], volumes: list[str]) -> float:
    """Bytes that the flash programs for each byte of random 8 KiB writes to the volumes alone, by the simulated drives' counters."""
    jobs = " ".join(f"--name=j{number} --filename=$(realpath {volume})" for number, volume in enumerate(volumes))
    bench.counters(*disks, reset=True)
    harness.must(f"fio --thread --ioengine=libaio --direct=1 --rw=randwrite --bs=8k --iodepth=8 --size=24m --time_based --runtime=2 {jobs}")
    seen = bench.counters(*disks).values()
    return sum(one["media_write_bytes"] or 0 for one in seen) / sum(one["host_write_bytes"] or 0 for one in seen)


@pytest.fixture(scope="module")
def article() -> Iterator[dict[str, tuple[dict[str, Any], float]]]:
    """What was measured by layout, printed in the shape of the article's table."""
    rows: dict[str, tuple[dict[str, Any], float]] = {}
    yield rows
    print("\nlayout                                        job          MiB/s    raw  share  interval        writes x  CPU busy")
    for name, (found, factor) in rows.items():
        for job in found["jobs"]:
            print(
                f"{LAYOUTS[name].title:45s} {job['name']:10s} {job['stack_mib_s']:7.1f} {job['raw_mib_s']:6.1f} {job['share']:6.3f}"
                f"  {job['low']:.3f} to {job['high']:.3f}  {factor:8.2f} {job['cpu_busy']:8.2f}"
            )


@pytest.mark.parametrize("name", ["misaligned", "single", pytest.param("three", marks=pytest.mark.long), pytest.param("separate", marks=pytest.mark.long)])
@pytest.mark.parametrize("job", ["rand_write", pytest.param("seq_write", marks=pytest.mark.long)])
def test_the_layouts_of_the_article(bench: Bench, harness: Harness, plugged: dict[str, Disk], article: dict[str, Any], name: str, job: str) -> None:
    disks = pair(plugged)
    with built(bench, harness, disks, LAYOUTS[name]) as volumes:
        found = measure(harness, volumes=volumes, write=True, jobs=[job], nomerges=True, max_cpu=0.5)
        factor = amplification(bench, harness, disks, volumes)
    (one,) = found["jobs"]
    earlier = article.get(name)
    article[name] = ({"jobs": (earlier[0]["jobs"] if earlier else []) + [one]}, factor)
    print("\n".join(found["report"]))
    assert one["cpu_busy"] <= 0.5, "void: the guest's processors were measured"
    assert sum(leg["raw_mib_s"] for leg in one["legs"]) == pytest.approx(one["raw_mib_s"], rel=0.01)
    assert all(leg["raw_mib_s"] <= 30 for leg in one["legs"])
    if name == "misaligned":
        assert (one["verdict"], found["verdict"]) == ("fail", "fail") and one["high"] <= 0.6, one
        assert 1.8 <= factor <= 2.3
        assert found["reasons"] == [f"{job}: {one['why']}"]
    else:
        assert one["verdict"] == "pass" and one["low"] >= 0.90, one
        assert 0.95 <= factor <= 1.1
