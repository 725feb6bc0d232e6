# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL commits while its stack grows: larger devices, a larger volume, a further row. What is acknowledged is there; the longest wait is printed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.databases import Postgres, Waits, under_commits
from labkit.harness import Harness
from labkit.specs import said

MOUNT = "/var/lib/pldata"
DISKS = [{"name": f"grow{number}", "bus": "scsi", "size": "384MiB", "serial": f"GROWDB{number}", "physical_block_size": 4096} for number in range(4)]


def spec_of(disks: list[Disk], unit: str, size: str, **more: Any) -> dict[str, Any]:
    volume = {"name": "data", "size": size, "mount": MOUNT, "owner": "postgres", "group": "postgres", "mode": "0700", "required_by": [unit]}
    return {"stacks": [{"name": "pgdata", "devices": [disk.by_id for disk in disks], "volumes": [volume], **more}]}


def grow(harness: Harness, spec: dict[str, Any], *wanted: str) -> None:
    """Every step of the plan, which has just these actions; none is left."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"] and [step["action"] for step in plan["steps"]] == list(wanted), (said(plan), plan["steps"])
    harness.apply(plan["steps"])
    plan = harness.module("stack_plan", spec)
    assert (plan["failed"], plan["steps"]) == (False, []), said(plan)


@pytest.mark.long(minutes=6)
def test_every_growth_under_commits(bench: Bench, harness: Harness, declared: dict[str, Disk], waits: Waits, figure: Callable[..., None]) -> None:
    disks, postgres = [declared[f"grow{number}"] for number in range(4)], Postgres(harness, MOUNT)
    unit = postgres.unit
    harness.build(spec_of(disks[:2], unit, "400MiB")["stacks"])
    try:
        postgres.create()
        harness.must("cd /; runuser -u postgres -- pgbench --initialize --quiet --scale 2 postgres", 300)
        pid = harness.must(f"systemctl show --property MainPID --value {unit}")
        harness.must("systemd-run --quiet --uid=postgres --unit=lab-pgbench pgbench --client 2 --time 1200 postgres")
        with under_commits(bench.paths, postgres) as client:

            def larger_devices() -> None:
                for disk in disks[:2]:
                    bench.resize(disk, 640 * MIB)
                grow(harness, spec_of(disks[:2], unit, "400MiB", grow=True), "grow_partition", "grow_pv")

            waits.idle(client)
            waits.during(client, "larger devices", larger_devices)
            waits.during(client, "a larger volume", lambda: grow(harness, spec_of(disks[:2], unit, "1000MiB", grow=True), "grow_lv", "grow_filesystem"))
            rows = ("partition", "extend_vg", "grow_lv", "grow_lv", "grow_filesystem")
            waits.during(client, "a further row of devices", lambda: grow(harness, spec_of(disks, unit, "1500MiB", grow=True, stripes=2), *rows))
            waits.idle(client, "nothing, afterwards")
        figure("growth", lost_commits=len(postgres.missing(client.last)), stall_ms=waits.longest_ms(False), baseline_stall_ms=waits.longest_ms(True))
        assert postgres.missing(client.last) == [] and all(row.commits > 0 for row in waits), waits
        assert harness.must(f"systemctl show --property MainPID --value {unit}") == pid, "the database was restarted"
        harness.run("systemctl stop lab-pgbench")
        bench.power_cut()
        assert postgres.is_up(120)
        figure("growth", lost_commits=len(postgres.missing(client.last)))
        assert postgres.missing(client.last) == []
        size = int(harness.must(f"df --output=size --block-size=1M {MOUNT} | tail -1"))
        assert size > 1350, size
    finally:
        harness.run("systemctl stop lab-pgbench")
        postgres.remove()
