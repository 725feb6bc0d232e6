# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack that grows while it is in use: larger devices, larger volumes, further rows of devices. Read back by the tools of others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.everyday import everyday
from labkit.harness import Harness
from labkit.nvme_tcp import nvme_drives
from labkit.specs import assert_error, said
from labkit.standing import actions, carried_out, contents, fill

BEFORE, AFTER = 160 * MIB, 288 * MIB
DISKS = [{"name": f"row{number}", "bus": "scsi", "size": "160MiB", "serial": f"ROW{number}", "physical_block_size": 4096} for number in range(4)]
DISKS += [{"name": f"big{number}", "bus": "scsi", "size": "160MiB", "serial": f"BIG{number}", "logical_block_size": 4096} for number in range(2)]
DISKS += [{"name": f"old{number}", "bus": "scsi", "size": "160MiB", "serial": f"OLD{number}"} for number in range(2)]
DRIVES = {"512e": ["row0", "row1"], "4Kn": ["big0", "big1"], "512n": ["old0", "old1"], "NVMe": ["row2", "row3"]}
VOLUMES = ({"name": "data", "size": "60%", "mount": "/pl/data"}, {"name": "wal", "size": "30%", "mount": "/pl/wal"})
GROWN = ["grow_partition", "grow_pv", "grow_lv", "grow_lv", "grow_filesystem", "grow_filesystem"]


def spec_of(disks: Sequence[Disk], volumes: Sequence[dict[str, Any]] = VOLUMES, **more: Any) -> dict[str, Any]:
    return {"stacks": [{"name": "pgdata", "devices": [disk.by_id for disk in disks], "volumes": list(volumes), **more}]}



def built(harness: Harness, spec: dict[str, Any]) -> None:
    harness.build(spec["stacks"])
    assert actions(harness, spec) == []





def check_by_others(harness: Harness, disks: Sequence[Disk], reserve: float = 0.1) -> None:
    """Tables, PVs, maps and filesystems as sfdisk, sgdisk, LVM, the kernel and e2fsprogs see them."""
    for disk in disks:
        size = int(harness.must(f"blockdev --getsize64 {disk.path}"))
        table = json.loads(harness.must(f"sfdisk --json {disk.path}"))["partitiontable"]
        (part,) = table["partitions"]
        end = (part["start"] + part["size"]) * table["sectorsize"]
        assert 0 <= size * (1 - reserve) - end < 2 * MIB, (disk.name, size, end)
        assert "No problems found" in harness.must(f"sgdisk --verify {disk.path}")
        assert harness.must(f"sfdisk --verify {disk.path} 2>&1").count("No errors detected") == 1
        shown = int(harness.must(f"blockdev --getsize64 {disk.part()}"))
        assert shown == part["size"] * table["sectorsize"] == int(harness.must(f"pvs --noheadings --units b --nosuffix -o dev_size {disk.part()}"))
    for line in harness.must("lvs --noheadings --units b --nosuffix -o lv_name,lv_size --separator : pgdata").split():
        name, size = line.strip().split(":")
        tool = dict(row.split(":", 1) for row in harness.must(f"dumpe2fs -h /dev/pgdata/{name} 2>/dev/null").splitlines() if ":" in row)
        assert int(tool["Block count"]) * 4096 == int(size) == int(harness.must(f"blockdev --getsize64 /dev/pgdata/{name}"))
        assert (int(tool["RAID stride"]), int(tool["RAID stripe width"])) == (16, 32) and "resize_inode" in tool["Filesystem features"]
        for segment in harness.must(f"dmsetup table pgdata-{name}").splitlines():
            words = segment.split()
            assert words[2:5] == ["striped", "2", "128"] and all(int(first) % 2048 == 0 for first in words[6::2]), segment


@contextmanager
def drives_of(kind: str, bench: Bench, harness: Harness, declared: dict[str, Disk]) -> Iterator[tuple[list[Disk], Any]]:
    """Two drives of a kind, and how one of them is made larger."""
    backing = [declared[name] for name in DRIVES[kind]]
    if kind != "NVMe":
        yield backing, bench.resize
        bench.clean()
        return
    with nvme_drives(bench, harness, backing) as drives:
        yield drives.disks, drives.resize


@pytest.mark.parametrize("kind", everyday(DRIVES, "NVMe", minutes=1.5))
def test_larger_devices(bench: Bench, harness: Harness, declared: dict[str, Disk], kind: str) -> None:
    with drives_of(kind, bench, harness, declared) as (disks, resize):
        spec = spec_of(disks)
        built(harness, spec)
        before = fill(harness, "/pl/data", "/pl/wal")
        for disk in disks:
            resize(disk, AFTER)
        watched = [declared[name] for name in DRIVES[kind]]
        with bench.untouched(*watched):
            plan = harness.module("stack_plan", spec)
            assert (plan["failed"], plan["steps"]) == (False, []), said(plan)
            assert str(plan["warnings"]).count("set grow: true on the stack") == 2
            assert [finding["rule"] for finding in plan["findings"]].count("device_grown") >= 2
        spec = spec_of(disks, grow=True)
        with bench.untouched(*watched):
            plan = harness.module("stack_plan", spec, check=True)
            assert not plan["failed"], said(plan)
            assert [step["action"] for step in plan["steps"]] == GROWN
            harness.apply(plan["steps"][:1], check=True)
        assert carried_out(harness, spec) == GROWN
        check_by_others(harness, disks)
        assert contents(harness, "/pl/data", "/pl/wal") == before
        harness.must("umount /pl/data /pl/wal; e2fsck -fn /dev/pgdata/data; e2fsck -fn /dev/pgdata/wal; mount /pl/data; mount /pl/wal")


@pytest.mark.quick("stack_growth")
def test_a_larger_volume_and_a_further_row(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    first, second = [declared["row0"], declared["row1"]], [declared["row2"], declared["row3"]]
    volumes = [{"name": "data", "size": "100MiB", "mount": "/pl/data"}]
    built(harness, spec_of(first, volumes))
    before = fill(harness, "/pl/data")
    wal = {"name": "wal", "size": "40MiB", "mount": "/pl/wal"}
    volumes = [{**volumes[0], "size": "160MiB"}, wal]
    assert carried_out(harness, spec_of(first, volumes)) == ["grow_lv", "logical_volume", "filesystem", "mount", "grow_filesystem"]
    volumes = [{**volumes[0], "size": "400MiB"}, wal]
    spec = spec_of(first + second, volumes, stripes=2)
    assert carried_out(harness, spec) == ["partition", "extend_vg", "grow_lv", "grow_lv", "grow_filesystem"]
    assert len(harness.must("dmsetup table pgdata-data").splitlines()) >= 2
    check_by_others(harness, first + second)
    assert contents(harness, "/pl/data") == before
    bench.clean()


@pytest.mark.long(minutes=1)
def test_what_is_behind_the_partition_is_kept(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    """Data in what would be taken in: nothing is written, and nothing advises to wipe it."""
    disks = [declared["row0"], declared["row1"]]
    sizes = [int(harness.must(f"blockdev --getsize64 {disk.path}")) for disk in disks]
    built(harness, spec_of(disks))
    for disk, size in zip(disks, sizes, strict=True):
        bench.resize(disk, size + 64 * MIB)
    harness.must(f"dd if=/dev/urandom of={disks[1].path} bs=4096 count=4 seek={(sizes[1] + 32 * MIB) // 4096} oflag=direct conv=notrunc,fsync status=none")
    plan = harness.module("stack_plan", spec_of(disks, grow=True))
    with bench.untouched(*disks):
        result = harness.module("stack_growth", {"step": plan["steps"][0]})
    assert_error(result, "what its partition would take in holds", "[data]")
    assert "wipe" not in said(result)
    bench.clean()


@pytest.mark.long(minutes=1)
def test_the_limit_of_a_filesystem(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    """One that mke2fs was told to leave room for 16 GiB in: refused with the figure before anything is written, and never converted."""
    disks, volumes = [declared["old0"], declared["old1"]], [{"name": "data", "mount": "/pl/data"}]
    built(harness, spec_of(disks, volumes))
    shape = "-b 4096 -m 0 -L pgdata-data -E stride=16,stripe_width=32,resize=4194304,lazy_itable_init=0,lazy_journal_init=0"
    made = "$(blkid -s UUID -o value /dev/pgdata/data)"
    harness.must(f"uuid={made}; umount /pl/data; mkfs.ext4 -F -q {shape} -U $uuid /dev/pgdata/data; mount /pl/data")
    assert actions(harness, spec_of(disks, volumes)) == []
    for disk in disks:
        bench.resize(disk, 20 << 30)
    with bench.untouched(*disks):
        plan = harness.module("stack_plan", spec_of(disks, volumes, grow=True))
    assert_error(plan, "it grows to 16 GiB at most", "resize_inode", "meta_bg")
    # What it does grow to is 16 GiB, by the kernel's own word as well.
    smaller = [{**volumes[0], "size": "16GiB"}]
    assert carried_out(harness, spec_of(disks, smaller, grow=True)) == ["grow_partition", "grow_pv", "grow_lv", "grow_filesystem"]
    assert "meta_bg" not in harness.must("dumpe2fs -h /dev/pgdata/data 2>/dev/null")
    bench.clean()


@pytest.mark.long(minutes=1)
def test_a_hidden_pv_ends_growth(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    """LVM is kept from a PV between the plan and its steps: nothing is changed, and nothing advises to wipe."""
    disks = [declared["row2"], declared["row3"]]
    sizes = [int(harness.must(f"blockdev --getsize64 {disk.path}")) for disk in disks]
    built(harness, spec_of(disks))
    for disk, size in zip(disks, sizes, strict=True):
        bench.resize(disk, size + 64 * MIB)
    plan = harness.module("stack_plan", spec_of(disks, grow=True))
    harness.apply(plan["steps"][:1])
    harness.must(f"echo 'devices {{ global_filter=[ \"r|{disks[1].part()}|\" ] }}' > /etc/lvm/lvmlocal.conf")
    try:
        with bench.untouched(*disks):
            result = harness.module("stack_growth", {"step": plan["steps"][1]})
            again = harness.module("stack_plan", spec_of(disks, grow=True))
    finally:
        harness.must("rm /etc/lvm/lvmlocal.conf")
    for refused in (result, again):
        assert_error(refused, "[hidden]")
        assert "wipe it" not in said(refused).replace("do not wipe it", "") and "pvcreate" not in said(refused)
    assert carried_out(harness, spec_of(disks, grow=True)) == GROWN[1:]
    bench.clean()
