# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirrored stack: built, idle, without a member, given one again by the spec, grown; what an older member may not do. Read back by the tools of others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.everyday import everyday
from labkit.harness import Harness
from labkit.specs import assert_error, errors, said
from labkit.standing import actions, carried_out, contents, fill

DISKS = [{"name": f"mir{number}", "bus": "nvme", "size": "192MiB", "serial": f"MIR{number}"} for number in range(7)]
SCSI = [{"name": f"row{number}", "bus": "scsi", "size": "160MiB", "serial": f"ROW{number}", "physical_block_size": 4096} for number in range(5)]
DISKS += SCSI + [{"name": f"big{number}", "bus": "scsi", "size": "512MiB", "serial": f"BIG{number}", "physical_block_size": 4096} for number in range(4)]
ALL = ["partition", "mirror_create", "volume_group", "logical_volume", "logical_volume", "filesystem", "filesystem", "mount"]
VOLUMES = ({"name": "data", "size": "60%", "mount": "/pl/data"}, {"name": "wal", "size": "30%", "mount": "/pl/wal"})
MD = "$(basename $(readlink -f /dev/disk/by-id/md-name-any:pgdata))"
AT = f"/sys/block/{MD}/md"


def spec_of(disks: Sequence[Disk], volumes: Sequence[dict[str, Any]] = VOLUMES, **more: Any) -> dict[str, Any]:
    return {"stacks": [{"name": "pgdata", "mirror": True, "devices": [disk.by_id for disk in disks], "volumes": list(volumes), **more}]}




def by_others(harness: Harness, disks: Sequence[Disk], chunk: int = 64) -> None:
    """The array, its members and what lies on it, as mdadm, LVM, the kernel and e2fsprogs see them; a scrub finds nothing."""
    detail = harness.must(f"mdadm --detail /dev/{MD}")
    wanted = ["Raid Level : raid10", "Layout : near=2", f"Chunk Size : {chunk}K", f"Raid Devices : {len(disks)}"]
    wanted += ["Intent Bitmap : Internal", "Failed Devices : 0"]
    assert all(words in detail for words in wanted), detail
    assert re.findall(r"active sync \S* *(/dev/\S+)", detail) and f"Working Devices : {len(disks)}" in detail, detail
    for disk in disks:
        assert "Data Offset : 2048 sectors" in harness.must(f"mdadm --examine {disk.part()}")
    check = f"echo check > {AT}/sync_action; sleep 0.5; until grep -q idle {AT}/sync_action; do sleep 0.2; done; cat {AT}/mismatch_cnt"
    assert harness.must(check).strip() == "0"
    for name in harness.must("lvs --noheadings -o lv_name pgdata").split():
        assert all(re.fullmatch(r"\d+ \d+ linear 9:\d+ \d+", row) for row in harness.must(f"dmsetup table pgdata-{name}").splitlines())
        shape = dict(row.split(":", 1) for row in harness.must(f"dumpe2fs -h /dev/pgdata/{name} 2>/dev/null").splitlines() if ":" in row)
        assert (int(shape["RAID stride"]), int(shape["RAID stripe width"])) == (chunk // 4, chunk // 4 * len(disks) // 2)




OWN = 64 << 10  # bytes that md itself writes to a member: its superblock, when nothing was written for a moment, and its bitmap some seconds later


@contextmanager
def nothing_written(bench: Bench, *disks: Disk) -> Iterator[None]:
    """Whatever happens within writes nothing to these disks, and discards nothing, but for what md notes by itself."""
    bench.guest.must("sync; udevadm settle")
    bench.counters(*disks, reset=True)
    yield
    bench.guest.must("sync; udevadm settle")
    found = bench.counters(*disks)
    assert all((one["host_write_bytes"] or 0) <= OWN and not one["discards"] for one in found.values()), found


def lose(bench: Bench, disk: Disk) -> None:
    """Pull a disk that does not come back in this test."""
    bench.pull(disk)
    del bench.disks[disk.name]


@pytest.fixture
def mirrors(bench: Bench, declared: dict[str, Disk]) -> list[Disk]:
    return [declared[f"mir{number}"] for number in range(7)]


@pytest.mark.quick("stack_mirror")
def test_built_without_a_member_and_replaced(bench: Bench, harness: Harness, mirrors: list[Disk]) -> None:
    four, spare = mirrors[:4], mirrors[4]
    spec = spec_of(four)
    assert carried_out(harness, spec) == ALL
    by_others(harness, four)
    info = harness.module("stack_info", {"devices": [disk.path for disk in four]})
    assert errors(info) == [], info["findings"]
    before = fill(harness, "/pl/data", "/pl/wal")
    with nothing_written(bench, *four):
        assert actions(harness, spec) == []
    lose(bench, four[1])
    after = fill(harness, "/pl/data", name="later")
    with nothing_written(bench, four[0], *four[2:], spare):
        result = harness.module("stack_plan", spec)
    assert_error(result, "[degraded]", "it runs without device", "MIR1", "before the next boot")
    info = harness.module("stack_info", {"devices": [four[0].path]})
    assert {one["rule"] for one in info["findings"] if one["level"] == "error"} == {"degraded"}, info["findings"]
    three = [four[0], spare, *four[2:]]
    assert_error(harness.module("stack_plan", spec_of(three)), "[degraded]", "replace: {SERIAL OF THE OLD ONE: MIR4}")
    spec = spec_of(three, replace={"MIR1": "MIR4"})
    assert carried_out(harness, spec) == ["partition", "mirror_add"]
    by_others(harness, three)
    assert (contents(harness, "/pl/data", "/pl/wal"), contents(harness, "/pl/data", name="later")) == (before, after)
    bench.clean()


def replaced_by_hand(harness: Harness, plan: dict[str, Any], until: str, old: Disk, new: Disk) -> None:
    """What a run that was ended in the middle of a replacement leaves."""
    (step,) = [step for step in plan["steps"] if step["action"] == "partition"]
    harness.apply([step])
    at = f"/dev/{MD}"
    if until == "the spare":
        harness.must(f"mdadm -q {at} --add-spare {new.part()}")
    elif until == "the beginning of the copy":
        harness.must(f"echo 200 > {AT}/sync_speed_max; mdadm -q {at} --add-spare {new.part()}; mdadm -q {at} --replace {old.part()} --with {new.part()}")
        harness.must(f"until grep -q recover {AT}/sync_action; do sleep 0.1; done; echo 200000 > {AT}/sync_speed_max")
    elif until == "the halt before its end":
        harness.must(f"echo $((($(cat {AT}/component_size) * 2 - 1) / 128 * 128)) > {AT}/sync_max")
        harness.must(f"mdadm -q {at} --add-spare {new.part()}; mdadm -q {at} --replace {old.part()} --with {new.part()}")
        harness.must(f"until grep -q ^$(cat {AT}/sync_max) {AT}/sync_completed; do sleep 0.2; done")
    elif until == "the end of the copy":
        harness.must(f"mdadm -q {at} --add-spare {new.part()}; mdadm -q {at} --replace {old.part()} --with {new.part()}; mdadm -q --wait {at} || true")
    elif until == "its removal":
        harness.must(f"mdadm -q {at} --add-spare {new.part()}; mdadm -q {at} --replace {old.part()} --with {new.part()}; mdadm -q --wait {at} || true")
        harness.must(f"until mdadm -q {at} --remove {old.part()}; do sleep 0.2; done")


CUTS = ("the partition", "the spare", "the beginning of the copy", "the halt before its end", "the end of the copy", "its removal")


@pytest.mark.parametrize("until", everyday(CUTS, minutes=1.5))
def test_replaced_while_it_works(bench: Bench, harness: Harness, mirrors: list[Disk], until: str) -> None:
    four, new = mirrors[:4], mirrors[4]
    assert carried_out(harness, spec_of(four)) == ALL
    before = fill(harness, "/pl/data")
    others = [*four[:2], new, four[3]]
    assert_error(harness.module("stack_plan", spec_of(others)), "[mirror]", "MIR2", "is a member of the array, and is not in devices")
    spec = spec_of(others, replace={"MIR2": "MIR4"})
    plan = harness.module("stack_plan", spec)
    assert [step["action"] for step in plan["steps"]] == ["partition", "mirror_replace"], said(plan)
    replaced_by_hand(harness, plan, until, four[2], new)
    assert carried_out(harness, spec) == ["mirror_replace"]
    by_others(harness, others)
    assert contents(harness, "/pl/data") == before
    assert "mdadm: No md superblock" in harness.must(f"mdadm --examine {four[2].part()} 2>&1 || true")
    assert actions(harness, spec_of(others)) == []
    bench.clean()


@pytest.mark.long(minutes=2)
def test_an_older_member_comes_back(bench: Bench, harness: Harness, mirrors: list[Disk]) -> None:
    four = mirrors[:4]
    spec = spec_of(four)
    assert carried_out(harness, spec) == ALL
    bench.pull(four[1])
    before = fill(harness, "/pl/data")
    disks = bench.plug(four[1])
    four = [disks[disk.name] for disk in four]
    with nothing_written(bench, *four):
        result = harness.module("stack_plan", spec)
    assert_error(result, "[stale]", "MIR1", "was away, and has older data", "replace: {MIR1: MIR1} does it")
    assert "zero-superblock" not in said(result) and "wipe" not in said(result)
    info = harness.module("stack_info", {"devices": [disk.path for disk in four]})
    assert {"degraded", "left_out_member"} <= {one["rule"] for one in info["findings"]}, info["findings"]
    assert carried_out(harness, spec_of(four, replace={"MIR1": "MIR1"})) == ["mirror_add"]
    by_others(harness, four)
    assert contents(harness, "/pl/data") == before
    bench.clean()


@pytest.mark.long(minutes=2)
@pytest.mark.parametrize(("count", "filesystem"), [(2, "ext4"), (6, "ext4"), (4, "xfs")])
def test_boots(bench: Bench, harness: Harness, declared: dict[str, Disk], count: int, filesystem: str) -> None:
    """Whole, and without a member; what is read after each boot is what was written before it."""
    disks = [declared[f"mir{number}"] for number in range(count)]
    volumes = [{"name": "data", "mount": "/pl/data", "filesystem": filesystem}]
    if filesystem == "xfs":
        disks = [declared[f"big{number}"] for number in range(count)]
    spec = spec_of(disks, volumes)
    assert carried_out(harness, spec)[:2] == ALL[:2]
    before = fill(harness, "/pl/data")
    disks = list(bench.boot_again().values())
    harness.must("until findmnt /pl/data; do sleep 0.5; done", timeout=120)
    assert actions(harness, spec) == [] and contents(harness, "/pl/data") == before
    gone = next(disk for disk in disks if disk.by_id == spec["stacks"][0]["devices"][1])
    lose(bench, gone)
    after = fill(harness, "/pl/data", name="later")
    bench.power_cut()
    harness.must("until findmnt /pl/data; do sleep 0.5; done", timeout=200)
    assert (contents(harness, "/pl/data"), contents(harness, "/pl/data", name="later")) == (before, after)
    assert_error(harness.module("stack_plan", spec), "[degraded]", gone.by_id)


@pytest.mark.long(minutes=2.5)
def test_what_was_ended_while_the_array_was_made(bench: Bench, harness: Harness, mirrors: list[Disk]) -> None:
    """Superblocks on one member or on all, and an array that is there: it is made again, or goes on, unless something was written to it."""
    four = mirrors[:4]
    spec = spec_of(four)
    plan = harness.module("stack_plan", spec)
    harness.apply([step for step in plan["steps"] if step["action"] == "partition"])
    (create,) = [step for step in harness.module("stack_plan", spec)["steps"] if step["action"] == "mirror_create"]
    harness.apply([create])
    assert actions(harness, spec) == ALL[2:]
    harness.must(f"mdadm -q --stop /dev/{MD}; udevadm settle; for part in {' '.join(disk.part() for disk in four[1:])}; do blkdiscard -f -z $part; done")
    harness.must(f"mdadm -q -I {four[0].part()} || true; cat /proc/mdstat")
    assert actions(harness, spec) == ALL[1:]
    harness.must(f"dd if=/dev/urandom of={four[0].part()} bs=4096 count=1 seek=600 oflag=direct conv=notrunc,fsync status=none || true")
    harness.must("for md in /dev/md12?; do mdadm -q --stop $md || true; done; udevadm settle")
    harness.must(f"dd if=/dev/urandom of={four[0].part()} bs=4096 count=1 seek=600 oflag=direct conv=notrunc,fsync status=none")
    with nothing_written(bench, *four):
        result = harness.module("stack_plan", spec)
    assert_error(result, "its array is there and does not run [mirror]")
    harness.must(f"dd if=/dev/zero of={four[0].part()} bs=4096 count=1 seek=600 oflag=direct conv=notrunc,fsync status=none")
    assert carried_out(harness, spec) == ALL[1:]
    by_others(harness, four)
    bench.clean()


@pytest.mark.long(minutes=2)
def test_it_grows(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    disks = [declared[f"row{number}"] for number in range(4)]
    assert carried_out(harness, spec_of(disks)) == ALL
    before = fill(harness, "/pl/data")
    for disk in disks:
        bench.resize(disk, 288 * MIB)
    assert actions(harness, spec_of(disks)) == []
    grown = ["grow_partition", "mirror_grow", "grow_pv", "grow_lv", "grow_lv", "grow_filesystem", "grow_filesystem"]
    writer = "while [ -e /run/going ]; do dd if=/dev/urandom of=/pl/data/busy bs=64k count=8 conv=fsync status=none; done"
    harness.must(f"touch /run/going; ({writer}) > /dev/null 2>&1 &")
    assert carried_out(harness, spec_of(disks, grow=True)) == grown
    harness.must("rm /run/going; sleep 1")
    by_others(harness, disks)
    assert contents(harness, "/pl/data") == before
    bench.clean()


@pytest.mark.long(minutes=3)
@pytest.mark.parametrize("count", [4, 2])
def test_an_older_member_alone_at_a_boot(bench: Bench, harness: Harness, mirrors: list[Disk], count: int) -> None:
    """Of one pair only the older member is there: with four devices nothing is started from it; with two md starts it, and both sides are told later."""
    disks = mirrors[:count]
    spec = spec_of(disks)
    assert carried_out(harness, spec) == ALL
    fill(harness, "/pl/data", name="before")
    bench.pull(disks[0])
    fill(harness, "/pl/data", name="after")
    harness.must(f"umount /pl/data /pl/wal; vgchange -q -an pgdata; mdadm -q --stop /dev/{MD}; udevadm settle")
    bench.pull(disks[1])
    gone = bench.disks.pop(disks[1].name)
    bench.plug(disks[0])
    bench.power_cut()
    # udev waits for the others. After 30 s mdadm-last-resort starts what can be started without them; of what cannot be there is no such unit.
    harness.must("sleep 50; udevadm settle", timeout=200)
    print(harness.must("cat /proc/mdstat; journalctl -b --no-pager -t kernel | grep -E 'md[0-9]*:|md/raid' || true"))
    if count == 4:
        result = harness.module("stack_plan", spec)
        assert "pgdata" not in harness.must("findmnt --raw --noheadings || true; vgs --noheadings -o vg_name")
        assert_error(result, "the array does not run without it [stale]", gone.serial)
    else:
        harness.must("until findmnt /pl/data; do sleep 0.5; done; test -e /pl/data/before; test ! -e /pl/data/after", timeout=200)
        assert_error(harness.module("stack_plan", spec), "[degraded]", gone.by_id)
    bench.disks[gone.name] = gone
    shown = bench.plug(gone)
    if count == 2:
        result = harness.module("stack_plan", spec)
        assert_error(result, "was run apart from the array that runs now [stale]", "nothing here joins them")
        assert "zero-superblock" not in said(result) and "wipe" not in said(result)
        same = {**spec["stacks"][0], "replace": {gone.serial: gone.serial}}
        with nothing_written(bench, shown[gone.name]):
            assert_error(harness.module("stack_plan", {"stacks": [same]}), "[stale]")
        return
    bench.power_cut()
    harness.must("until findmnt /pl/data; do sleep 0.5; done; test -e /pl/data/after", timeout=200)
    assert_error(harness.module("stack_plan", spec), "[stale]", "MIR0", "was away, and has older data")
