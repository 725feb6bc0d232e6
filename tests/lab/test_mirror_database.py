# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL commits while members of its mirror are pulled and replaced. What is acknowledged is there; the longest wait is printed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.databases import Postgres, Waits, under_commits
from labkit.harness import Harness
from labkit.specs import assert_error, said
from plumblab import guest
from test_mirror import AT, spec_of

MOUNT = "/var/lib/pldata"
DISKS = [{"name": f"mdb{number}", "bus": "nvme", "size": "384MiB", "serial": f"MIRDB{number}"} for number in range(9)]

FAST = f"echo 100000 > {AT}/sync_speed_min"  # else a copy and a comparison give way to the database, as the guide says


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

        slow = f"echo 300 > {AT}/sync_speed_min; echo 300 > {AT}/sync_speed_max"  # not the comparison before it
        self.harness.must(f"(until grep -q spare {AT}/dev-*/state; do sleep 0.05; done; {slow}) > /dev/null 2>&1 &")
        thread = threading.Thread(target=apply)
        thread.start()
        try:
            begun = f"grep -q recover {AT}/sync_action && grep -q ^300 {AT}/sync_speed_max"
            guest.script(self.bench.paths, f"until {begun}; do sleep 0.2; done", timeout_seconds=300)
            self.bench.pull(lost)
            del self.bench.disks[lost.name]
            noticed = f"! grep -q {lost.kernel} /proc/mdstat || grep -q '{lost.kernel}.*(F)' /proc/mdstat"
            guest.script(self.bench.paths, f"until {noticed}; do sleep 0.2; done")
        finally:
            guest.script(self.bench.paths, f"echo system > {AT}/sync_speed_max; {FAST}")
            thread.join(600)
        assert not thread.is_alive()
        return " ".join(failed)


@pytest.mark.long(minutes=12)
def test_pulls_under_commits(bench: Bench, harness: Harness, declared: dict[str, Disk], waits: Waits, figure: Callable[..., None]) -> None:
    postgres = Postgres(harness, MOUNT)
    mirror = Mirror(bench, harness, [declared[f"mdb{number}"] for number in range(9)], postgres.unit)
    harness.build(mirror.spec()["stacks"])
    harness.must(FAST)
    lost: list[Disk] = []
    try:
        postgres.create()
        postgres.ready()
        pid = harness.must(f"systemctl show --property MainPID --value {postgres.unit}")
        harness.must("systemd-run --quiet --uid=postgres --unit=lab-load pgbench --client 2 --time 2400 postgres")
        with under_commits(bench.paths, postgres) as client:

            waits.idle(client)
            lost.append(waits.during(client, "the first of a pair is pulled", lambda: mirror.pull(0)))
            waits.during(client, "it is replaced", lambda: mirror.run(mirror.renewed(lost[-1])))
            lost.append(waits.during(client, "the second of that pair is pulled", lambda: mirror.pull(1)))
            spec = mirror.renewed(lost[-1])
            waits.during(client, "the new one is pulled while it is filled", lambda: mirror.cut_off(spec, mirror.members[1]))
            again = mirror.renewed(mirror.members[1])
            again["stacks"][0]["replace"] = {lost[-1].serial: mirror.members[1].serial}
            waits.during(client, "another is put in its place", lambda: mirror.run(again))
            old = mirror.members[2]
            spec = mirror.renewed(old)
            waits.during(client, "the old one is pulled while it is replaced", lambda: mirror.cut_off(spec, old))
            waits.during(client, "the next run ends that", lambda: mirror.run(spec) if harness.module("stack_plan", mirror.spec())["failed"] else None)
            assert harness.must(f"cat {AT}/degraded").strip() == "0"
            lost.append(waits.during(client, "one of the other pair is pulled", lambda: mirror.pull(3)))
            waits.idle(client, "nothing, without it")
        gone, pulls = postgres.missing(client.last), sum("pulled" in row.what for row in waits)
        figure("mirror", pulls=pulls, lost_commits=len(gone), stall_ms=waits.longest_ms(False), baseline_stall_ms=waits.longest_ms(True))
        assert gone == [] and all(row.commits > 0 for row in waits), waits
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
