# SPDX-License-Identifier: GPL-3.0-or-later
"""mdadm is killed at each of its system calls that change something; the next run ends what it began, and what the stack holds is there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.harness import HOME, ROOT, Harness
from labkit.roles import tasks_for
from labkit.specs import said
from labkit.standing import actions, carried_out, contents, fill
from test_mirror import ALL, MD, by_others, spec_of

DISKS = [{"name": f"mdk{number}", "bus": "scsi", "size": "96MiB", "serial": f"MIRKILL{number}", "physical_block_size": 4096} for number in range(5)]
VOLUMES = [{"name": "data", "size": "60%", "mount": "/pl/data"}]
CALLS = ("write", "ioctl", "fsync")
MOST = 120  # calls of one kind, far more than there are
# What a module calls is killed; what udev calls is mdadm as it is.
_WRAPPER = """#!/bin/sh
case "$1" in
  --create|--grow|--manage) exec strace -f -qq -e trace={call} -e inject={call}:signal=KILL:when={number} -o {home}/mdadm.calls {home}/mdadm "$@" ;;
esac
exec {home}/mdadm "$@"
"""


@contextmanager
def killed(harness: Harness, call: str, number: int) -> Iterator[None]:
    """mdadm as modules call it ends at its so-manieth call of a kind."""
    text = _WRAPPER.format(call=call, number=number, home=HOME)
    harness.must(f"cp /usr/sbin/mdadm {HOME}/mdadm; cat > {HOME}/mdadm.sh <<'END'\n{text}END\nchmod 755 {HOME}/mdadm.sh")
    harness.must(f"mount --bind {HOME}/mdadm.sh /usr/sbin/mdadm")
    try:
        yield
    finally:
        harness.must("umount /usr/sbin/mdadm; udevadm settle")


def cut_off(harness: Harness, spec: dict[str, Any], action: str, call: str, number: int) -> bool:
    """Carry a plan out in which mdadm is killed in this step; whether it was."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    before = [step["action"] for step in plan["steps"]].index(action)
    harness.apply(plan["steps"][:before])
    (task,) = tasks_for(ROOT, plan["steps"][before : before + 1])
    with killed(harness, call, number):
        result = harness.module(task.module, task.args, env=task.env)
    assert not result["traceback"], result
    return bool(result["failed"])


@pytest.mark.long(minutes=10)
@pytest.mark.parametrize("call", CALLS)
def test_mdadm_is_killed_as_it_makes_the_array(bench: Bench, harness: Harness, declared: dict[str, Disk], call: str) -> None:
    four = [declared[f"mdk{number}"] for number in range(4)]
    spec, parts = spec_of(four, VOLUMES), " ".join(disk.part() for disk in four)
    for number in range(1, MOST):
        was_killed = cut_off(harness, spec, "mirror_create", call, number)
        left = harness.module("stack_plan", spec)
        assert not left["failed"], (number, said(left))
        begun = [step for step in left["steps"] if step["action"] == "mirror_create"]
        assert was_killed or not begun, left["steps"]
        harness.apply(begun)
        if not was_killed:
            break
        detail = harness.must(f"mdadm --detail /dev/{MD}")
        assert "Working Devices : 4" in detail and "State : clean" in detail and "Raid Level : raid10" in detail, (number, detail)
        harness.must(f"mdadm -q --stop /dev/{MD}; udevadm settle; for part in {parts}; do blkdiscard -f -z $part; done; udevadm settle")
    else:
        raise AssertionError("it was killed each time")
    print(f"\nmdadm --create: killed at each of {number - 1} calls of {call}")
    assert number > 1 and carried_out(harness, spec)[-1] == "mount"
    by_others(harness, four)
    bench.clean()


@pytest.mark.long(minutes=10)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("action", ["mirror_add", "mirror_replace"])
def test_mdadm_is_killed_as_it_gives_a_place(bench: Bench, harness: Harness, declared: dict[str, Disk], action: str, call: str) -> None:
    """Each turn gives the place to the device that the turn before took it from."""
    disks = [declared[f"mdk{number}"] for number in range(5)]
    assert carried_out(harness, spec_of(disks[:4], VOLUMES))[:2] == ALL[:2]
    before = fill(harness, "/pl/data")
    old, new = disks[1], disks[4]
    for number in range(1, MOST):
        if action == "mirror_add":
            harness.must(f"mdadm -q /dev/{MD} --fail {old.part()}; udevadm settle; mdadm -q /dev/{MD} --remove {old.part()}")
        if action == "mirror_add" or number > 1:
            blank = old if action == "mirror_add" else new
            harness.must(f"blkdiscard -f -z {blank.path}; blockdev --rereadpt {blank.path}; udevadm settle")
        members = [disks[0], new, *disks[2:4]]
        spec = spec_of(members, VOLUMES, replace={old.serial: new.serial})
        was_killed = cut_off(harness, spec, action, call, number)
        left = actions(harness, spec)
        assert left in ([], [action]) and (left == [] or was_killed), left
        assert carried_out(harness, spec) == left
        by_others(harness, members)
        assert contents(harness, "/pl/data") == before
        if not was_killed:
            print(f"\n{action}: mdadm killed at each of {number - 1} calls of {call}")
            assert number > 1
            break
        old, new = new, old
    else:
        raise AssertionError("it was killed each time")
    bench.clean()


@pytest.mark.long(minutes=5)
@pytest.mark.parametrize("call", CALLS)
def test_mdadm_is_killed_as_the_array_grows(bench: Bench, harness: Harness, declared: dict[str, Disk], call: str) -> None:
    disks = [declared[f"mdk{number}"] for number in range(4)]
    assert carried_out(harness, spec_of(disks, VOLUMES))[:2] == ALL[:2]
    before = fill(harness, "/pl/data")
    for number in range(1, MOST):
        disks = [bench.resize(disk, (96 + 16 * number) * MIB) for disk in disks]
        spec = spec_of(disks, VOLUMES, grow=True)
        was_killed = cut_off(harness, spec, "mirror_grow", call, number)
        left = actions(harness, spec)
        assert ("mirror_grow" in left) <= was_killed, left
        assert carried_out(harness, spec) == left
        by_others(harness, disks)
        assert contents(harness, "/pl/data") == before
        if not was_killed:
            print(f"\nmdadm --grow: killed at each of {number - 1} calls of {call}")
            assert number > 1
            break
    else:
        raise AssertionError("it was killed each time")
    bench.clean()
