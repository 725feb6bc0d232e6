# SPDX-License-Identifier: GPL-3.0-or-later
"""A mirrored stack: built, idle, without a member, given one again by the spec, grown; and what an older member may not do. Read back by the tools of others."""

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

DISKS = [{"name": f"mir{number}", "bus": "nvme", "size": "192MiB", "serial": f"MIR{number}"} for number in range(7)]
SCSI = [{"name": f"row{number}", "bus": "scsi", "size": "160MiB", "serial": f"ROW{number}", "physical_block_size": 4096} for number in range(5)]
DISKS += SCSI
ALL = ["partition", "mirror_create", "volume_group", "logical_volume", "logical_volume", "filesystem", "filesystem", "mount"]
VOLUMES = ({"name": "data", "size": "60%", "mount": "/pl/data"}, {"name": "wal", "size": "30%", "mount": "/pl/wal"})
MD = "$(basename $(readlink -f /dev/disk/by-id/md-name-any:pgdata))"
AT = f"/sys/block/{MD}/md"


def spec_of(disks: Sequence[Disk], volumes: Sequence[dict[str, Any]] = VOLUMES, **more: Any) -> dict[str, Any]:
    return {"stacks": [{"name": "pgdata", "mirror": True, "devices": [disk.by_id for disk in disks], "volumes": list(volumes), **more}]}


def actions(harness: Harness, spec: dict[str, Any]) -> list[str]:
    """What is left to be done."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    return [step["action"] for step in plan["steps"]]


def carried_out(harness: Harness, spec: dict[str, Any]) -> list[str]:
    """All steps of a plan carried out in its order; none is left. Their actions."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    for step in plan["steps"]:
        harness.apply([step])
    assert actions(harness, spec) == []
    return [step["action"] for step in plan["steps"]]


def by_others(harness: Harness, disks: Sequence[Disk], chunk: int = 64) -> None:
    """The array, its members and what lies on it, as mdadm, LVM, the kernel and e2fsprogs see them; a scrub finds nothing."""
    detail = harness.must(f"mdadm --detail /dev/{MD}")
    wanted = ("Raid Level : raid10", "Layout : near=2", f"Chunk Size : {chunk}K", f"Raid Devices : {len(disks)}", "Intent Bitmap : Internal", "Failed Devices : 0")
    assert all(words in detail for words in wanted), detail
    assert re.findall(r"active sync \S* *(/dev/\S+)", detail) and f"Working Devices : {len(disks)}" in detail, detail
    for disk in disks:
        assert "Data Offset : 2048 sectors" in harness.must(f"mdadm --examine {disk.part()}")
    assert harness.must(f"echo check > {AT}/sync_action; sleep 0.5; until grep -q idle {AT}/sync_action; do sleep 0.2; done; cat {AT}/mismatch_cnt").strip() == "0"
    for name in harness.must("lvs --noheadings -o lv_name pgdata").split():
        assert re.fullmatch(r"0 \d+ linear 9:\d+ \d+", harness.must(f"dmsetup table pgdata-{name}").strip())
        shape = dict(row.split(":", 1) for row in harness.must(f"dumpe2fs -h /dev/pgdata/{name} 2>/dev/null").splitlines() if ":" in row)
        assert (int(shape["RAID stride"]), int(shape["RAID stripe width"])) == (chunk // 4, chunk // 4 * len(disks) // 2)


def fill(harness: Harness, *mounts: str, name: str = "contents") -> str:
    """A file on each mount; their digests."""
    write = "".join(f"dd if=/dev/urandom of={mount}/{name} bs=1M count=20 conv=fsync status=none; " for mount in mounts)
    return harness.must(f"{write} sha256sum {' '.join(f'{mount}/{name}' for mount in mounts)}")


def contents(harness: Harness, *mounts: str, name: str = "contents") -> str:
    """The digests of the same, read from the disks."""
    return harness.must(f"sync; echo 3 > /proc/sys/vm/drop_caches; sha256sum {' '.join(f'{mount}/{name}' for mount in mounts)}")


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
    bench.pull(four[1])
    after = fill(harness, "/pl/data", name="later")
    with nothing_written(bench, four[0], *four[2:], spare):
        result = harness.module("stack_plan", spec)
    assert_error(result, "[degraded]", "it runs without device", "MIR1", "before the next boot")
    info = harness.module("stack_info", {"devices": [four[0].path]})
    assert [one["rule"] for one in info["findings"] if one["level"] == "error"] == ["degraded"], info["findings"]
    three = [four[0], spare, *four[2:]]
    assert_error(harness.module("stack_plan", spec_of(three)), "[degraded]", "replace: {SERIAL OF THE OLD ONE: MIR4}")
    spec = spec_of(three, replace={"MIR1": "MIR4"})
    assert carried_out(harness, spec) == ["partition", "mirror_add"]
    by_others(harness, three)
    assert (contents(harness, "/pl/data", "/pl/wal"), contents(harness, "/pl/data", name="later")) == (before, after)
    bench.clean()
