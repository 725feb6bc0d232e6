# SPDX-License-Identifier: GPL-3.0-or-later
"""A further row of devices is as aligned, and as fast as its devices, as the first one: by the drives' own counters, by a sweep and against the raw drives."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from labkit import sweeps
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.specs import said

pytestmark = pytest.mark.measured
KIB, MIB = 1 << 10, 1 << 20
PAGE = 16 * KIB
FLASH = {"page_size": PAGE, "channels": 2, "program_us": 3000, "read_us": 2500, "rmw_us": 50, "transfer_us": 10, "straddle_parallel": 0}
DISKS = [{"name": f"row{number}", "bus": "nvme", "size": "192MiB", "serial": f"ROWFLASH{number}", "simulated": FLASH} for number in range(4)]
FIO = (
    "fio --name=w --filename={target} --rw=randwrite --bs=16k --direct=1 --ioengine=libaio --iodepth=16 --offset={at} --size={size} "
    "--time_based --runtime=8 --randrepeat=0 --norandommap --output-format=json"
)


def rate(harness: Harness, target: str, at: int, size: int) -> float:
    """Random writes of a page, bytes a second."""
    done = json.loads(harness.must(FIO.format(target=target, at=at, size=size), 120))
    return float(done["jobs"][0]["write"]["bw_bytes"])


@pytest.mark.long(minutes=4)
def test_both_rows_against_their_drives(bench: Bench, harness: Harness, declared: dict[str, Disk], figure: Callable[..., None]) -> None:
    disks = [declared[f"row{number}"] for number in range(4)]
    model = {"model": harness.must(f"cat /sys/block/{disks[0].kernel}/device/model").strip(), "grain": f"{PAGE // KIB}KiB"}

    def spec(count: int, **more: object) -> dict[str, object]:
        volumes = [{"name": "data", "mount": "/pl/data"}]
        return {"stacks": [{"name": "pgdata", "devices": [one.by_id for one in disks[:count]], "volumes": volumes, "geometry": [model], **more}]}

    harness.build(spec(2)["stacks"])  # type: ignore[arg-type]
    plan = harness.module("stack_plan", spec(4, stripes=2))
    assert not plan["failed"], said(plan)
    harness.apply(plan["steps"])
    plan = harness.module("stack_plan", spec(4, stripes=2))
    assert (plan["failed"], plan["steps"]) == (False, []) and not [one for one in plan["findings"] if one["level"] == "error"], said(plan)
    first, second = (line.split() for line in harness.must("dmsetup table pgdata-data").splitlines())
    begin, length = int(second[0]) * 512, int(second[1]) * 512
    harness.must("umount /pl/data")
    # The sweep of the new area alone, by a map of it.
    harness.must(f"dmsetup create newrow --table '0 {second[1]} linear /dev/mapper/pgdata-data {second[0]}'; udevadm settle")
    found = sweeps.sweep(harness, "/dev/mapper/newrow")
    harness.must("udevadm settle; dmsetup remove --retry newrow")
    print(f"\nsweep of the new row: {found['verdict']}, grain {found['grain_bytes']}, phase {found['phase_bytes']}")
    assert (found["verdict"], found["grain_bytes"], found["phase_bytes"]) == ("phase", PAGE, 0), found["report"]
    shares = {}
    for name, at, size, legs in (("old", 0, int(first[1]) * 512, disks[:2]), ("new", begin, length, disks[2:])):
        bench.counters(*legs, reset=True)
        volume = rate(harness, "/dev/mapper/pgdata-data", at, size // MIB * MIB)
        counted = [bench.counters(disk)[disk.name] for disk in legs]
        raw = sum(rate(harness, disk.part(), 16 * MIB, 96 * MIB) for disk in legs)
        shares[name] = volume / raw
        print(f"{name} row: {volume / 1e6:.2f} MB/s of {raw / 1e6:.2f} MB/s raw: {shares[name]:.3f}; counters {counted}")
    figure("growth", old_share=round(shares["old"], 3), new_share=round(shares["new"], 3))
    assert min(shares.values()) > 0.5
