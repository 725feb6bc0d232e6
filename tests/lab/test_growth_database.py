# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL commits while its stack grows: larger devices, a larger volume, a further row. What is acknowledged is there; the longest wait is printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.databases import Postgres, under_commits
from labkit.harness import Harness
from labkit.specs import said

MOUNT = "/var/lib/pldata"
DISKS = [{"name": f"grow{number}", "bus": "scsi", "size": "384MiB", "serial": f"GROWDB{number}", "physical_block_size": 4096} for number in range(4)]
IDLE_SECONDS = 20


@dataclass
class Row:
    """One line of the table: what was done, and the longest time between two acknowledgements meanwhile."""

    what: str
    commits: int
    longest_ms: float
    seconds: float


@pytest.fixture(scope="module")
def table() -> Iterator[list[Row]]:
    rows: list[Row] = []
    yield rows
    print(f"\n\n{'growth':28s}{'commits':>9s}{'longest wait, ms':>18s}{'s':>7s}")
    for row in rows:
        print(f"{row.what:28s}{row.commits:9d}{row.longest_ms:18.0f}{row.seconds:7.0f}")


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
def test_every_growth_under_commits(bench: Bench, harness: Harness, declared: dict[str, Disk], table: list[Row], figure: Callable[..., None]) -> None:
    disks, postgres = [declared[f"grow{number}"] for number in range(4)], Postgres(harness, MOUNT)
    unit = postgres.unit
    harness.build(spec_of(disks[:2], unit, "400MiB")["stacks"])
    try:
        postgres.create()
        harness.must("cd /; runuser -u postgres -- pgbench --initialize --quiet --scale 2 postgres", 300)
        pid = harness.must(f"systemctl show --property MainPID --value {unit}")
        harness.must("systemd-run --quiet --uid=postgres --unit=lab-pgbench pgbench --client 2 --time 1200 postgres")
        with under_commits(bench.paths, postgres) as client:

            def during(what: str, work: Any) -> None:
                began, before = time.monotonic(), client.last
                work()
                client.wait_for(client.last + 5)
                table.append(Row(what, client.last - before, client.longest_ms(began), time.monotonic() - began))

            def larger_devices() -> None:
                for disk in disks[:2]:
                    bench.resize(disk, 640 * MIB)
                grow(harness, spec_of(disks[:2], unit, "400MiB", grow=True), "grow_partition", "grow_pv")

            during("none", lambda: time.sleep(IDLE_SECONDS))
            during("larger devices", larger_devices)
            during("a larger volume", lambda: grow(harness, spec_of(disks[:2], unit, "1000MiB", grow=True), "grow_lv", "grow_filesystem"))
            rows = ("partition", "extend_vg", "grow_lv", "grow_lv", "grow_filesystem")
            during("a further row of devices", lambda: grow(harness, spec_of(disks, unit, "1500MiB", grow=True, stripes=2), *rows))
            during("none, afterwards", lambda: time.sleep(IDLE_SECONDS))
        idle, busy = (round(max(row.longest_ms for row in table if row.what.startswith("none") is none)) for none in (True, False))
        figure("growth", lost_commits=len(postgres.missing(client.last)), stall_ms=busy, baseline_stall_ms=idle)
        assert postgres.missing(client.last) == [] and all(row.commits > 0 for row in table), table
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
