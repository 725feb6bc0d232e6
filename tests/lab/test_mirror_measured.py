# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirrored stack measured: reads and writes against all members, a sweep of the volume and of each of them, its first copy and its bitmap."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from labkit import sweeps
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.specs import said
from test_commit_cost import programmed
from test_mirror import AT, MD, spec_of

pytestmark = pytest.mark.measured
KIB, MIB = 1 << 10, 1 << 20
PAGE = 16 * KIB
FLASH = {"page_size": PAGE, "channels": 2, "program_us": 3000, "read_us": 2500, "rmw_us": 50, "transfer_us": 10, "straddle_parallel": 0}
DISKS = [{"name": f"mfl{number}", "bus": "nvme", "size": "160MiB", "serial": f"MIRFLASH{number}", "simulated": FLASH} for number in range(4)]
CACHED = {"page_size": 4 * KIB, "channels": 2, "program_us": 100, "flush_us": 100, "transfer_us": 5, "write_cache": 1, "cache_size": "64MiB", "plp": 0}
DISKS += [{"name": f"mfc{number}", "bus": "scsi", "size": "768MiB", "serial": f"MIRCACHE{number}", "simulated": CACHED} for number in range(4)]
QUICK = {"block_seconds": 1, "depth": 16, "span": "24MiB", "max_seconds": 240, "jobs": ["seq_read", "rand_read", "seq_write", "rand_write"]}


@pytest.mark.long(minutes=5)
def test_a_mirror_against_its_drives(bench: Bench, harness: Harness, declared: dict[str, Disk], figure: Callable[..., None]) -> None:
    disks = [declared[f"mfl{number}"] for number in range(4)]
    model = {"model": harness.must(f"cat /sys/block/{disks[0].kernel}/device/model").strip(), "grain": f"{PAGE // KIB}KiB"}
    spec = {
        "stacks": [
            {
                "name": "pgdata", "mirror": True, "devices": [one.by_id for one in disks], "geometry": [model],
                "volumes": [{"name": "data", "mount": "/pl/data"}],
            }
        ]
    }  # fmt: skip
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    bench.counters(*disks, reset=True)
    harness.apply([step for step in plan["steps"] if step["action"] in ("partition", "mirror_create")])
    copied = {name: one["host_write_bytes"] for name, one in bench.counters(*disks).items()}
    print(f"\nbuilt: {plan['steps'][1]['summary']}; written to each drive: {copied}")
    harness.apply([step for step in plan["steps"] if step["action"] in ("volume_group", "logical_volume")])
    found = harness.module("throughput", {"volumes": ["/dev/pgdata/data"], "write": True, **QUICK}, timeout=600)
    assert not found["failed"], said(found)
    print("\n".join(found["report"]))
    shares = {job["name"]: job["share"] for job in found["jobs"]}
    assert shares["rand_write"] > 0.7 and shares["seq_write"] > 0.7, found["report"]
    harness.apply([step for step in plan["steps"] if step["action"] in ("filesystem", "mount")])
    plan = harness.module("stack_plan", spec)
    assert (plan["failed"], plan["steps"]) == (False, []) and not [one for one in plan["findings"] if one["level"] == "error"], said(plan)
    harness.must("sync; sleep 8")
    bench.counters(*disks, reset=True)
    harness.must("dd if=/dev/urandom of=/pl/data/file bs=1M count=16 oflag=direct conv=fsync status=none")
    counted = bench.counters(*disks)
    written = [counted[disk.name]["host_write_bytes"] or 0 for disk in disks]
    print(f"16 MiB written through the mirror: {written}")
    assert all(8 * MIB <= one < 12 * MIB for one in written), counted
    assert abs(written[0] - written[1]) < 64 * KIB and abs(written[2] - written[3]) < 64 * KIB
    figure("mirror", write_share=shares["rand_write"], read_share=shares["rand_read"])
    for device in ("/dev/pgdata/data", *(disk.part() for disk in disks)):
        swept = sweeps.sweep(harness, device)
        print(f"sweep of {device}: {swept['verdict']}, grain {swept['grain_bytes']}, phase {swept['phase_bytes']}")
        assert (swept["verdict"], swept["grain_bytes"], swept["phase_bytes"]) == ("phase", PAGE, 0), swept["report"]


def scrub(harness: Harness) -> int:
    """Sectors that are not the same on both members, as md counts them."""
    words = f"echo check > {AT}/sync_action; sleep 0.5; until grep -q idle {AT}/sync_action; do sleep 0.2; done; cat {AT}/mismatch_cnt"
    return int(harness.must(words, 300))


@pytest.mark.long(minutes=4)
@pytest.mark.parametrize("clean", [True, False], ids=["known-to-be-zeros", "compared"])
def test_the_first_copy(bench: Bench, harness: Harness, declared: dict[str, Disk], clean: bool, figure: Callable[..., None]) -> None:
    """md compares the members where they are not known to be zeros, and writes what differs: of blank ones nothing."""
    disks = [declared[f"mfc{number}"] for number in range(4)]
    more = {"blank_proof": "full"} if clean else {"blank_proof": "sampled", "discard": False}
    plan = harness.module("stack_plan", spec_of(disks, [{"name": "data", "mount": "/pl/data"}], **more))
    assert not plan["failed"], said(plan)
    for step in plan["steps"]:
        if step["action"] == "mirror_create":
            harness.must("sync; udevadm settle")
            bench.counters(*disks, reset=True)
            harness.apply([step])
            written = sum(int(one["host_write_bytes"] or 0) for one in bench.counters(*disks).values())
        else:
            harness.apply([step])
    print(f"\nmirror: the first copy writes {written:,} bytes")
    assert scrub(harness) == 0 and written < MIB
    if not clean:
        figure("mirror", initial_copy_bytes=written)
    bench.clean()


@pytest.mark.long(minutes=3)
def test_a_member_that_is_off(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    """A drive of four that lies about where its pages begin: the sweep of the layers, as role verify makes it, names it."""
    disks = [declared[f"mfl{number}"] for number in range(4)]
    bench.change(disks[2], page_phase=1024)
    spec = spec_of(disks, volumes=[{"name": "data"}])
    spec["stacks"][0]["geometry"] = [{"model": harness.must(f"cat /sys/block/{disks[0].kernel}/device/model").strip(), "grain": f"{PAGE // KIB}KiB"}]
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    harness.apply([step for step in plan["steps"] if step["action"] in ("partition", "mirror_create", "volume_group", "logical_volume")])
    found = sweeps.sweep(harness, "/dev/pgdata/data", layers=True)
    print("\n" + "\n".join(found["report"]))
    assert (found["culprit"], found["agreement"]) == (f"device {disks[2].kernel}", "contradicts"), found["report"]
    swept = {layer["name"]: layer["phase_bytes"] for layer in found["layers"] if layer["verdict"]}
    assert all(swept[disk.kernel] == (1024 if disk is disks[2] else 0) for disk in disks), found["report"]
    assert any(f"device {disks[2].kernel} is fastest at offset 1024" in reason and "lies about its alignment" in reason for reason in found["reasons"])
    bench.change(disks[2], page_phase=0)


@pytest.mark.long(minutes=3)
def test_a_member_whose_partition_is_off(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    """A mirror that somebody else built, with one of its partitions at sector 63."""
    left, right = declared["mfl0"], declared["mfl1"]
    for disk, start in ((left, 2048), (right, 63)):
        harness.must(f"printf 'label: dos\\nstart={start}\\n' | sfdisk -q --wipe always {disk.path}; udevadm settle")
    members = f"--level=1 --raid-devices=2 {left.part()} {right.part()}"
    harness.must(f"mdadm --create /dev/md/others --run {members} --metadata=1.2 --data-offset=1M --assume-clean; udevadm settle")
    found = sweeps.sweep(harness, "/dev/md/others", layers=True)
    print("\n" + "\n".join(found["report"]))
    guilty = f"partition {right.part().rsplit('/', 1)[-1]}"
    assert (found["culprit"], found["static_culprit"], found["agreement"]) == (guilty, guilty, "agrees"), found["report"]


@pytest.mark.long(minutes=3)
def test_the_bitmap(bench: Bench, harness: Harness, declared: dict[str, Disk], figure: Callable[..., None]) -> None:
    """Bytes programmed for commits with the bitmap as it is made, and without one."""
    disks = [declared[f"mfc{number}"] for number in range(4)]
    harness.build(spec_of(disks, [{"name": "data", "mount": "/pl/data"}])["stacks"])
    cost = {}
    for bitmap in ("internal", "none"):
        if bitmap == "none":
            harness.must(f"mdadm -q --grow --bitmap=none /dev/{MD}")
        cost[bitmap] = programmed(bench, harness, disks, "append")
    ratio = cost["internal"] / cost["none"] - 1
    print(f"\nmirror: {cost['internal'] / KIB:.1f} KiB for each commit of 8 KiB with the bitmap, {cost['none'] / KIB:.1f} without: {ratio:+.3f}")
    figure("mirror", bitmap_cost=round(ratio, 4))
    bench.clean()
    assert ratio < 0.2
