# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL commits while members of its mirror are pulled and replaced. What is acknowledged is there; the longest wait is printed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.databases import Postgres, under_commits
from labkit.harness import Harness
from labkit.specs import assert_error, said
from test_mirror import AT, spec_of

MOUNT = "/var/lib/pldata"
DISKS = [{"name": f"mdb{number}", "bus": "nvme", "size": "384MiB", "serial": f"MIRDB{number}"} for number in range(9)]
IDLE_SECONDS = 20


@dataclass
class Row:
    """One line of the table: what was done, and the longest time between two acknowledgements meanwhile."""

    what: str
    pulls: int
    commits: int
    longest_ms: float
    seconds: float


@pytest.fixture(scope="module")
def table() -> Iterator[list[Row]]:
    rows: list[Row] = []
    yield rows
    print(f"\n\n{'mirror':44s}{'commits':>9s}{'longest wait, ms':>18s}{'s':>7s}")
    for row in rows:
        print(f"{row.what:44s}{row.commits:9d}{row.longest_ms:18.0f}{row.seconds:7.0f}")


class Mirror:
    """The stack of four devices, and what is done to it."""

    def __init__(self, bench: Bench, harness: Harness, disks: list[Disk], unit: str) -> None:
        self.bench, self.harness = bench, harness
        self.members, self.spares = disks[:4], disks[4:]
        self.volume = {"name": "data", "mount": MOUNT, "owner": "postgres", "group": "postgres", "mode": "0700", "required_by": [unit]}

    def spec(self, **more: Any) -> dict[str, Any]:
        return spec_of(self.members, [self.volume], **more)

    def pull(self, place: int) -> Disk:
        """A member goes without a word. md notices with its next write; a run says who is missing."""
        disk = self.members[place]
        self.bench.pull(disk)
        del self.bench.disks[disk.name]
        self.bench.wait(f"[ $(cat {AT}/degraded) = 1 ]")
        assert_error(self.harness.module("stack_plan", self.spec()), "[degraded]", disk.serial)
        return disk

    def renewed(self, old: Disk) -> dict[str, Any]:
        """The spec with the next spare in the place of a member."""
        self.members[self.members.index(old)] = new = self.spares.pop(0)
        return self.spec(replace={old.serial: new.serial})

    def run(self, spec: dict[str, Any]) -> None:
        """All steps of a run; none is left, and no member is missing."""
        plan = self.harness.module("stack_plan", spec)
        assert not plan["failed"] and plan["steps"], said(plan)
        self.harness.apply(plan["steps"])
        plan = self.harness.module("stack_plan", self.spec())
        assert (plan["failed"], plan["steps"]) == (False, []), said(plan)
        assert self.harness.must(f"cat {AT}/degraded").strip() == "0"

    def cut_off(self, spec: dict[str, Any], lost: Disk) -> str:
        """A run whose copy is slow, and a device that is pulled meanwhile; what the run says."""
        failed: list[str] = []

        def apply() -> None:
            plan = self.harness.module("stack_plan", spec)
            assert not plan["failed"], said(plan)
            try:
                self.harness.apply(plan["steps"])
            except Exception as error:  # the message is what the test is about
                failed.append(str(error))

        self.harness.must(f"echo 300 > {AT}/sync_speed_min; echo 300 > {AT}/sync_speed_max")
        thread = threading.Thread(target=apply)
        thread.start()
        try:
            self.bench.wait(f"grep -q recover {AT}/sync_action", 300)
            self.bench.pull(lost)
            del self.bench.disks[lost.name]
            self.bench.wait(f"! grep -q {lost.kernel} /proc/mdstat || grep -q '{lost.kernel}.*(F)' /proc/mdstat", 120)
        finally:
            self.harness.must(f"echo system > {AT}/sync_speed_min; echo system > {AT}/sync_speed_max")
            thread.join(600)
        assert not thread.is_alive()
        return " ".join(failed)


@pytest.mark.long(minutes=12)
def test_pulls_under_commits(bench: Bench, harness: Harness, declared: dict[str, Disk], table: list[Row], figure: Callable[..., None]) -> None:
    postgres = Postgres(harness, MOUNT)
    mirror = Mirror(bench, harness, [declared[f"mdb{number}"] for number in range(9)], postgres.unit)
    harness.build(mirror.spec()["stacks"])
    lost: list[Disk] = []
    try:
        postgres.create()
        postgres.ready()
        pid = harness.must(f"systemctl show --property MainPID --value {postgres.unit}")
        harness.must("systemd-run --quiet --uid=postgres --unit=lab-load pgbench --client 2 --time 2400 postgres")
        with under_commits(bench.paths, postgres) as client:

            def during(what: str, pulls: int, work: Callable[[], Any]) -> Any:
                began, before = time.monotonic(), client.last
                done = work()
                client.wait_for(client.last + 5)
                table.append(Row(what, pulls, client.last - before, client.longest_ms(began), time.monotonic() - began))
                return done

            during("nothing", 0, lambda: time.sleep(IDLE_SECONDS))
            lost.append(during("the first of a pair is pulled", 1, lambda: mirror.pull(0)))
            during("it is replaced", 0, lambda: mirror.run(mirror.renewed(lost[-1])))
            lost.append(during("the second of that pair is pulled", 1, lambda: mirror.pull(1)))
            spec = mirror.renewed(lost[-1])
            during("the new one is pulled while it is filled", 1, lambda: mirror.cut_off(spec, mirror.members[1]))
            again = mirror.renewed(mirror.members[1])
            again["stacks"][0]["replace"] = {lost[-1].serial: mirror.members[1].serial}
            during("another is put in its place", 0, lambda: mirror.run(again))
            old = mirror.members[2]
            spec = mirror.renewed(old)
            during("the old one is pulled while it is replaced", 1, lambda: mirror.cut_off(spec, old))
            during("the next run ends that", 0, lambda: mirror.run(spec) if harness.module("stack_plan", mirror.spec())["failed"] else None)
            assert harness.must(f"cat {AT}/degraded").strip() == "0"
            lost.append(during("one of the other pair is pulled", 1, lambda: mirror.pull(3)))
            during("nothing, without it", 0, lambda: time.sleep(IDLE_SECONDS))
        busy = max(row.longest_ms for row in table if row.pulls)
        idle = max(row.longest_ms for row in table if row.what == "nothing")
        gone = postgres.missing(client.last)
        figure("mirror", pulls=sum(row.pulls for row in table), lost_commits=len(gone), stall_ms=round(busy), baseline_stall_ms=round(idle))
        assert gone == [] and all(row.commits > 0 for row in table), table
        assert harness.must(f"systemctl show --property MainPID --value {postgres.unit}") == pid, "the database was restarted"
        harness.run("systemctl stop lab-load")
        bench.power_cut()  # a member is missing at that boot
        assert postgres.is_up(200)
        gone = postgres.missing(client.last)
        figure("mirror", pulls=1, lost_commits=len(gone))
        assert gone == []
    finally:
        harness.run("systemctl stop lab-load")
        postgres.remove()
        bench.clean()
