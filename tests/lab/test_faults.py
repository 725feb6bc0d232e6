# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that fail or go away at each step of a build: a clear error, and when they are well again the build goes on to its end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.runs import LAYOUTS, carry_on, first_task, next_plan, reading_of, spec_of
from labkit.specs import said

DISKS = pool(["leg0", "leg1"])
by_layout = pytest.mark.parametrize("layout", ["one", *(pytest.param(name, marks=pytest.mark.long) for name in LAYOUTS if name != "one")])
# A SCSI disk that is offline answers every command with an I/O error, scsi_prep_state_check().
OFFLINE = "echo offline > /sys/class/block/{name}/device/state"
# An event of the time when nothing answered has taken the disk's links away; whoever heals a disk has udev look again.
RUNNING = "echo running > /sys/class/block/{name}/device/state; udevadm trigger --settle --subsystem-match=block"
GONE = "echo 1 > /sys/class/block/{name}/device/delete; udevadm settle --timeout=30"
BACK = "for host in /sys/class/scsi_host/host*/scan; do echo '- - -' > $host; done; udevadm settle --timeout=30"
# What stands on a disk that is gone for good has to be taken down before it can stand on the one that came back.
TAKE_DOWN = (
    "for mount in $(findmnt -rno TARGET | grep ^/pl/ | tac); do umount $mount || umount -l $mount; done; "
    "dmsetup ls | cut -f1 | grep ^pgdata- | xargs -r -n1 dmsetup remove --force --retry || true"
)
ACTIVATE = 'test -z "$(vgs --noheadings -o vg_name | grep -w pgdata)" || vgchange -qay pgdata; udevadm settle --timeout=30'

# A mounted filesystem whose disk failed says so in its superblock, and the plan refuses it until somebody has checked it.
CHECK = (
    'for volume in $(ls -d /dev/pgdata/* /dev/disk/by-partlabel/plumbline* 2> /dev/null); do'
    ' test "$(blkid -p -o value -s TYPE $volume)" != ext4 || e2fsck -fp $volume > /dev/null || test $? -eq 1; done'
)


def kernel_name(harness: Harness, disk: Disk) -> str:
    """It may be another each time that a disk comes."""
    return harness.must(f"basename $(realpath /dev/disk/by-id/{disk.by_id})").strip()


def told(result: dict[str, Any]) -> None:
    """A failure that a person can read."""
    assert result["failed"], result
    assert result["msg"] and not result["traceback"] and "Traceback" not in said(result), result


def at_each_step(harness: Harness, spec: dict[str, Any], spoil: Callable[[], None], heal: Callable[[], None]) -> int:
    """Spoil before each step, try it, heal, carry it out. Returns the steps that failed meanwhile."""
    failed = 0
    for _step in range(20):
        plan = next_plan(harness, spec)
        if not plan["steps"]:
            return failed
        task = first_task(plan)
        spoil()
        try:
            result = harness.module(task.module, task.args, env=task.env)
            if result["failed"]:
                told(result)
                failed += 1
            again = harness.module("stack_plan", spec)
            if again["failed"]:
                told(again)
        finally:
            heal()
        plan = next_plan(harness, spec)
        if plan["steps"]:
            harness.apply(plan["steps"][:1])
    raise AssertionError("it does not converge")


@by_layout
def test_io_errors_at_each_step(harness: Harness, disks: dict[str, Disk], layout: str, figure: Callable[..., None]) -> None:
    """The second disk answers nothing but errors."""
    spec = spec_of(list(disks.values()), layout)
    name = kernel_name(harness, disks["p1"])
    failed = at_each_step(
        harness, spec, lambda: void(harness, OFFLINE.format(name=name)), lambda: void(harness, f"{RUNNING.format(name=name)}; {TAKE_DOWN}; {ACTIVATE}; {CHECK}")
    )
    assert failed > 0
    carry_on(harness, spec)
    assert reading_of(harness, spec)
    figure("faults", steps_with_io_errors=failed, not_resumed=0)


@pytest.mark.long(minutes=1)
def test_a_filesystem_with_errors_is_refused_until_it_is_checked(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """What an I/O error leaves: mounted read-only by errors=remount-ro, or read-write, and a word in the superblock."""
    spec = spec_of(list(disks.values()), "one")
    carry_on(harness, spec)
    harness.must("umount /dev/mapper/pgdata-vol0; debugfs -w -R 'ssv state 3' /dev/pgdata/vol0 2> /dev/null")
    with bench.untouched():
        plan = harness.module("stack_plan", spec)
    assert plan["failed"] and "the kernel has found errors in it; wanted a check, by e2fsck -f" in said(plan), said(plan)
    harness.must("e2fsck -fp /dev/pgdata/vol0 > /dev/null || test $? -eq 1")
    carry_on(harness, spec)
    assert reading_of(harness, spec)


@pytest.mark.long
@by_layout
@pytest.mark.parametrize("after", [0.2, 0.6, 1.2])
def test_io_errors_in_the_middle_of_each_step(harness: Harness, disks: dict[str, Disk], layout: str, after: float) -> None:
    """The disk fails while the step is at work."""
    spec = spec_of(list(disks.values()), layout)
    name = kernel_name(harness, disks["p1"])
    at_each_step(
        harness,
        spec,
        lambda: void(harness, f"(sleep {after}; {OFFLINE.format(name=name)}) > /dev/null 2>&1 &"),
        lambda: void(harness, f"sleep {after}; {RUNNING.format(name=name)}; {TAKE_DOWN}; {ACTIVATE}; {CHECK}"),
    )
    carry_on(harness, spec)
    assert reading_of(harness, spec)


@pytest.mark.long
@by_layout
def test_unplugged_at_each_step(harness: Harness, disks: dict[str, Disk], layout: str, figure: Callable[..., None]) -> None:
    """The second disk is pulled, with whatever stands on it, and comes back, perhaps under another name."""
    spec = spec_of(list(disks.values()), layout)
    failed = at_each_step(
        harness,
        spec,
        lambda: void(harness, GONE.format(name=kernel_name(harness, disks["p1"]))),
        lambda: void(harness, f"{TAKE_DOWN}; {BACK}; {ACTIVATE}; {CHECK}"),
    )
    assert failed > 0
    carry_on(harness, spec)
    assert reading_of(harness, spec)
    figure("faults", steps_without_the_disk=failed, not_resumed=0)


@pytest.mark.long
def test_a_device_that_went_between_plan_and_write(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """And came back: the kernel numbers it anew (diskseq), so the plan does not hold, and nothing is written to either disk."""
    spec = spec_of(list(disks.values()), "one")
    task = first_task(next_plan(harness, spec))
    harness.must(GONE.format(name=kernel_name(harness, disks["p1"])))
    harness.must(BACK)
    with bench.untouched():
        result = harness.module(task.module, task.args)
    told(result)
    assert "changed since the plan" in said(result) or "is gone" in said(result), said(result)
    carry_on(harness, spec)
    assert reading_of(harness, spec)


def void(harness: Harness, command: str) -> None:
    """A shell command that has to succeed."""
    harness.must(command)
