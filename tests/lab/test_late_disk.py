# SPDX-License-Identifier: GPL-3.0-or-later
"""Boots on which the disks come late: in time, the volume is mounted by itself; too late, it is told by the audit and mounted by the next run."""

from __future__ import annotations

from typing import Any

import pytest
from labkit.audits import audit_host
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import stack

DISKS = pool(["late0", "late1"], size="256MiB")
MOUNT, UNIT = "/pl/pgdata0", "pl-pgdata0.mount"


def boot_with_late_disks(bench: Bench, harness: Harness, disks: dict[str, Disk], seconds: int) -> dict[str, Any]:
    """Build a stack, boot without its disks, and plug them in so many seconds after the kernel has begun. Returns the spec."""
    spec = stack(disks.values())
    harness.build([spec])
    harness.must(f"umount {MOUNT}; vgchange -q -an pgdata; udevadm settle")
    bench.pull(*disks.values())
    bench.boot_again()
    assert float(harness.must("cut -d ' ' -f 1 /proc/uptime")) < seconds, "the boot alone took longer"
    bench.wait(f"[ $(cut -d . -f 1 /proc/uptime) -ge {seconds} ]", seconds + 120)
    bench.plug(*disks.values())
    return spec


def absent(harness: Harness) -> list[str]:
    """The volumes of fstab that the audit finds not mounted."""
    return [found["name"] for found in audit_host(harness)["stack_info"]["findings"] if "fstab has it, and it is not mounted" in found["found"]]


@pytest.mark.long(minutes=4)
def test_a_disk_that_comes_after_a_minute(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """The slowest of several boots of a busy host had its volumes after 63 seconds."""
    boot_with_late_disks(bench, harness, disks, 100)
    bench.wait(f"mountpoint -q {MOUNT}", 200)
    assert absent(harness) == []


@pytest.mark.long(minutes=8)
def test_a_disk_that_comes_after_the_time_is_over(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    spec = boot_with_late_disks(bench, harness, disks, 330)
    bench.wait("lvs pgdata/vol0", 120)
    harness.must("udevadm settle; sleep 5")
    assert harness.run(f"mountpoint -q {MOUNT}")[0] != 0
    assert harness.must(f"ls -A {MOUNT}") == "" and harness.run(f"touch {MOUNT}/x")[0] != 0, "nobody writes where the volume should be"
    assert absent(harness) == [MOUNT]
    # Where the guide looks for it after a reboot: its unit has not failed, and only these two show it.
    assert UNIT not in harness.must("systemctl --failed")
    for command in ("systemctl list-units --all --type=mount --state=inactive", "journalctl -b --grep 'Dependency failed'"):
        assert UNIT in harness.must(command), command
    plan = harness.module("stack_plan", {"stacks": [spec]})
    assert [step["action"] for step in plan["steps"]] == ["mount"], plan["report"]
    harness.apply(plan["steps"])
    harness.must(f"mountpoint -q {MOUNT}")
    assert absent(harness) == []
