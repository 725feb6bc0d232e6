# SPDX-License-Identifier: GPL-3.0-or-later
"""A build that stopped half way is carried on: after each step the next plan holds the rest, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import said, stack

DISKS = pool(["leg0", "leg1"])


def summaries(plan: dict[str, Any]) -> list[str]:
    """The steps by their summaries."""
    assert not plan["failed"], said(plan)
    return [step["summary"] for step in plan["steps"]]


@pytest.mark.long
def test_every_step_is_a_place_to_stop(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    spec = {"stacks": [stack(disks.values(), volumes=1)]}
    plan = harness.module("stack_plan", spec)
    first = summaries(plan)
    while plan["steps"]:
        harness.apply(plan["steps"][:1])
        rest = summaries(plan)[1:]
        plan = harness.module("stack_plan", spec)
        assert summaries(plan) == rest
    assert len(first) == 5


def test_one_device_partitioned_and_the_other_not(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """As if the power had failed between the two tables: the finished one is kept, the other is written."""
    spec = {"stacks": [stack(disks.values(), volumes=1)], "through": "partition"}
    (step,) = harness.module("stack_plan", spec)["steps"]
    harness.apply([{**step, "devices": step["devices"][:1]}])
    before = harness.must(f"sfdisk -d {disks['p0'].path}")
    (rest,) = harness.module("stack_plan", spec)["steps"]
    assert [device["serial"] for device in rest["devices"]] == ["POOL1"]
    with bench.untouched(disks["p0"]):
        harness.apply([rest])
    assert harness.module("stack_plan", spec)["steps"] == []
    assert harness.must(f"sfdisk -d {disks['p0'].path}") == before


def test_a_link_that_udev_lost_is_asked_for_again(harness: Harness, disks: dict[str, Disk]) -> None:
    """A rule keeps udev from making any link when a partition appears, as a race between two of its workers may."""
    rules = "/run/udev/rules.d/99-pl-no-links.rules"
    rule = 'ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="partition", SYMLINK=""'
    spec = {"stacks": [stack(disks.values(), volumes=1)], "through": "partition"}
    steps = harness.module("stack_plan", spec)["steps"]
    harness.must(f"mkdir -p /run/udev/rules.d; echo '{rule}' > {rules}; udevadm control --reload")
    try:
        harness.apply(steps)
    finally:
        harness.must(f"rm {rules}; udevadm control --reload")
    for device in steps[0]["devices"]:
        harness.must(f"test -b /dev/disk/by-partuuid/{device['guid'].lower()}")
