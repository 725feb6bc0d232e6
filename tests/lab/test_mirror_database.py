# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL commits while its mirrored stack loses an SSD, gets another and replaces one. What is acknowledged is there; the longest wait is printed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.databases import Postgres, under_commits
from labkit.harness import Harness
from labkit.specs import assert_error, said

MOUNT = "/var/lib/pldata"
DISKS = [{"name": f"mdb{number}", "bus": "nvme", "size": "320MiB", "serial": f"MDB{number}"} for number in range(6)]
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
    print(f"\n\n{'mirror':28s}{'commits':>9s}{'longest wait, ms':>18s}{'s':>7s}")
    for row in rows:
        print(f"{row.what:28s}{row.commits:9d}{row.longest_ms:18.0f}{row.seconds:7.0f}")


def spec_of(disks: list[Disk], unit: str, **more: Any) -> dict[str, Any]:
    volume = {"name": "data", "mount": MOUNT, "owner": "postgres", "group": "postgres", "mode": "0700", "required_by": [unit]}
    return {"stacks": [{"name": "pgdata", "mirror": True, "devices": [disk.by_id for disk in disks], "volumes": [volume], **more}]}


def carried_out(harness: Harness, spec: dict[str, Any], *wanted: str) -> None:
    """Every step of the plan, which has just these actions; none is left."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"] and [step["action"] for step in plan["steps"]] == list(wanted), (said(plan), plan["steps"])
    harness.apply(plan["steps"])
    plan = harness.module("stack_plan", spec)
    assert (plan["failed"], plan["steps"]) == (False, []), said(plan)


@pytest.mark.long(minutes=6)
def test_every_loss_under_commits(bench: Bench, harness: Harness, declared: dict[str, Disk], table: list[Row], figure: Callable[..., None]) -> None:
    disks, postgres = [declared[f"mdb{number}"] for number in range(6)], Postgres(harness, MOUNT)
    unit = postgres.unit
    harness.build(spec_of(disks[:4], unit)["stacks"])
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

            def lose(disk: Disk) -> None:
                bench.pull(disk)
                del bench.disks[disk.name]
                time.sleep(3)

            spares = [disks[0], disks[4], disks[2], disks[3]]
            during("none", lambda: time.sleep(IDLE_SECONDS))
            during("the second of a pair is pulled", lambda: lose(disks[1]))
            assert_error(harness.module("stack_plan", spec_of(disks[:4], unit)), "[degraded]", "MDB1")
            during("another takes its place", lambda: carried_out(harness, spec_of(spares, unit, replace={"MDB1": "MDB4"}), "partition", "mirror_add"))
            last = [*spares[:2], disks[5], spares[3]]
            during("one is replaced", lambda: carried_out(harness, spec_of(last, unit, replace={"MDB2": "MDB5"}), "partition", "mirror_replace"))
            during("the first of a pair is pulled", lambda: lose(disks[0]))
            during("none, afterwards", lambda: time.sleep(IDLE_SECONDS))
        idle, busy = (round(max(row.longest_ms for row in table if row.what.startswith("none") is none)) for none in (True, False))
        figure("mirror", pulls=2, lost_commits=len(postgres.missing(client.last)), stall_ms=busy, baseline_stall_ms=idle)
        assert postgres.missing(client.last) == [] and all(row.commits > 0 for row in table), table
        assert harness.must(f"systemctl show --property MainPID --value {unit}") == pid, "the database was restarted"
        harness.run("systemctl stop lab-pgbench")
        bench.power_cut()
        assert postgres.is_up(300)
        figure("mirror", lost_commits=len(postgres.missing(client.last)))
        assert postgres.missing(client.last) == []
    finally:
        harness.run("systemctl stop lab-pgbench")
        postgres.remove()
