# SPDX-License-Identifier: GPL-3.0-or-later
"""What a commit costs the flash: bytes that the drives program for each 8 KiB that a database appends, or overwrites, and synchronises.

Counted by the simulated drives themselves, below everything in the guest. Nothing here depends on time. mkfs.xfs by itself takes the stripe for the log where
the volume has a GiB or more and the drives report sectors of 512 bytes; with sectors of 4 KiB it takes a block (xfsprogs, mkfs/xfs_mkfs.c).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import Harness

KIB = 1 << 10
COMMIT, COMMITS = 8 * KIB, 200
FLASH = {"channels": 2, "program_us": 100, "flush_us": 100, "transfer_us": 5, "write_cache": 1, "cache_size": "64MiB", "plp": 0}
DISKS = [
    {"name": f"flash{page}k{leg}", "bus": "scsi", "size": "768MiB", "serial": f"COMMIT{page}K{leg}",  # sectors of 512 bytes
     "simulated": {**FLASH, "page_size": page * KIB}}
    for page in (4, 16) for leg in (0, 1)
]  # fmt: skip
MOUNT, DEVICE = "/pl/data", "/dev/mapper/pgdata-data"
# A file that grows with each commit, and one that has its size: PostgreSQL's log is of the second kind once its segments are reused.
LOADS = {"append": "", "overwrite": f"dd if=/dev/zero of={MOUNT}/log bs={COMMIT} count={COMMITS} conv=fsync status=none; "}
FIO = (
    f"fio --name=commit --filename={MOUNT}/log --rw=write --bs={COMMIT} --size={COMMIT * COMMITS} --ioengine=psync --fdatasync=1 --end_fsync=1 "
    "--fallocate=none --overwrite=0 --zero_buffers=0"
)
# Page of the flash and stripe, KiB.
GEOMETRIES = {"4 KiB pages, 64 KiB stripes": (4, 64), "4 KiB pages, 256 KiB stripes": (4, 256), "16 KiB pages, 64 KiB stripes": (16, 64)}
OURS, OWN = "as the collection makes it", "as mkfs.xfs makes it by itself"


@pytest.fixture
def clean(bench: Bench) -> Iterator[None]:
    yield
    bench.clean()


def programmed(bench: Bench, harness: Harness, disks: list[Disk], load: str) -> float:
    """Bytes of pages that were programmed for each commit. What stood in the filesystem's own queue before is written before."""
    harness.must(f"rm -f {MOUNT}/log; {LOADS[load]} sync; sync {' '.join(disk.path for disk in disks)}")
    bench.counters(*disks, reset=True)
    harness.must(FIO)
    return sum(int(one["media_write_bytes"] or 0) for one in bench.counters(*disks).values()) / COMMITS


def log_unit(harness: Harness) -> int:
    """The stripe unit of the log of a mounted XFS, bytes."""
    found = re.search(r"^log .*\n.*sunit=(\d+) blks, lazy", harness.must(f"xfs_info {MOUNT}"), re.MULTILINE)
    assert found
    return int(found.group(1)) * 4096


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long(minutes=1.5), id=name.replace(" ", "-").replace(",", "")) for name in GEOMETRIES]
)
def test_a_commit_programs_no_more_than_it_has_to(
    bench: Bench, harness: Harness, declared: dict[str, Disk], clean: None, name: str, figure: Callable[..., None]
) -> None:
    page, stripe = GEOMETRIES[name]
    disks = [declared[f"flash{page}k{leg}"] for leg in (0, 1)]
    geometry = [{"device": disk.by_id, "grain": f"{page}KiB"} for disk in disks]
    cost: dict[tuple[str, str], float] = {}
    print(f"\n{name}")
    for filesystem in ("xfs", "ext4"):
        volume = {"name": "data", "mount": MOUNT, "size": "1200MiB", "filesystem": filesystem}
        harness.build([{"name": "pgdata", "devices": [disk.by_id for disk in disks], "stripe_size": f"{stripe}KiB", "volumes": [volume], "geometry": geometry}])
        for made in (OURS, OWN) if filesystem == "xfs" else (OURS,):
            if made == OWN:
                harness.must(f"umount {MOUNT} && mkfs.xfs -q -f {DEVICE} && mount {DEVICE} {MOUNT}")
            unit = log_unit(harness) if filesystem == "xfs" else 0
            for load in LOADS:
                each = cost[f"{filesystem} {made}", load] = programmed(bench, harness, disks, load)
                print(f"  {filesystem:5s} {made:32s} log unit {unit // KIB:4d} KiB, {load:10s} {each / KIB:6.1f} KiB for each commit of 8 KiB")
                what = {"filesystem": filesystem, "made": made, "page": page * KIB, "stripe": stripe * KIB, "load": load}
                figure("commit", **what, log_unit=unit, media_bytes=round(each))
        bench.clean(*disks)
    ours, own = (cost[f"xfs {made}", "append"] for made in (OURS, OWN))
    assert COMMIT <= ours <= COMMIT + 3 * page * KIB and own >= ours + (stripe - page) * KIB / 2, cost
    assert all(each >= 0.98 * COMMIT for each in cost.values())  # a flush or two at the ends are counted with the neighbour
