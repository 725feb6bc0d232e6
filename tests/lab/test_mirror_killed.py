# SPDX-License-Identifier: GPL-3.0-or-later
"""mdadm is killed before each of its system calls that change something; the next run ends what it began, and what the stack holds is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.harness import ROOT, Harness
from labkit.roles import tasks_for
from labkit.specs import said
from labkit.standing import actions, carried_out, contents, fill
from test_mirror import ALL, MD, by_others, spec_of

DISKS = [{"name": f"mdk{number}", "bus": "scsi", "size": "96MiB", "serial": f"MIRKILL{number}", "physical_block_size": 4096} for number in range(5)]
VOLUMES = [{"name": "data", "size": "60%", "mount": "/pl/data"}]
# What md is asked by ioctl that changes something, include/uapi/linux/raid/md_u.h. All else are questions.
CHANGING = {"SET_ARRAY_INFO", "ADD_NEW_DISK", "RUN_ARRAY", "RESTART_ARRAY_RW", "HOT_REMOVE_DISK", "SET_DISK_FAULTY", "HOT_ADD_DISK"}
TOOL, REAL, WRAPPER, CALLS = "/usr/sbin/mdadm", "/usr/local/lib/mdadm", "/usr/local/lib/mdadm.sh", "/run/mdadm.calls"
# What a module calls with this word is watched, and killed. What udev calls is mdadm as it is.
_WRAPPER = """#!/bin/sh
case " $* " in
  *" {word} "*) exec strace -f -qq -e trace=write,ioctl {inject} -o {calls} {real} "$@" ;;
esac
exec {real} "$@"
"""


class Cut(NamedTuple):
    """A system call that is not made any more: the *number*-th of its kind."""

    call: str
    number: int


@contextmanager
def watched(harness: Harness, word: str, cut: Cut | None) -> Iterator[None]:
    """mdadm with this word among its arguments ends before a call; without one its calls are noted."""
    inject = f"-e inject={cut.call}:signal=KILL:when={cut.number}" if cut else ""
    text = _WRAPPER.format(word=word, inject=inject, calls=CALLS, real=REAL)
    harness.must(f"cp {TOOL} {REAL}; cat > {WRAPPER} <<'END'\n{text}END\nchmod 755 {WRAPPER}; mount --bind {WRAPPER} {TOOL}")
    try:
        yield
    finally:
        harness.must(f"umount {TOOL}; rm {WRAPPER}; udevadm settle")


def cuts(harness: Harness) -> list[Cut]:
    """The calls of the mdadm that was watched that change something."""
    seen, found = {"write": 0, "ioctl": 0}, []
    for call, fd, word in re.findall(r"(write|ioctl)\((\d+)(?:</[^>]*>)?, (\w*)", harness.must(f"cat {CALLS}")):
        seen[call] += 1
        if int(fd) > 2 and (call == "write" or word in CHANGING):
            found.append(Cut(call, seen[call]))
    assert found, "nothing was changed"
    return found


def cut_off(harness: Harness, spec: dict[str, Any], action: str, word: str, cut: Cut | None) -> None:
    """Carry a plan out, in which mdadm is killed in this step."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    before = [step["action"] for step in plan["steps"]].index(action)
    harness.apply(plan["steps"][:before])
    (task,) = tasks_for(ROOT, plan["steps"][before : before + 1])
    with watched(harness, word, cut):
        result = harness.module(task.module, task.args, env=task.env)
    assert not result["traceback"] and (result["failed"] or not cut), result


@pytest.mark.long(minutes=10)
def test_mdadm_is_killed_as_it_makes_the_array(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    four = [declared[f"mdk{number}"] for number in range(4)]
    spec, parts = spec_of(four, VOLUMES), " ".join(disk.part() for disk in four)
    outcomes = []

    def turn(cut: Cut | None) -> None:
        cut_off(harness, spec, "mirror_create", "--create", cut)
        left = harness.module("stack_plan", spec)
        assert not left["failed"], (cut, said(left))
        begun = [step for step in left["steps"] if step["action"] == "mirror_create"]
        outcomes.append("made" if begun else "there")
        harness.apply(begun)
        detail = harness.must(f"mdadm --detail /dev/{MD}")
        assert "Working Devices : 4" in detail and "State : clean" in detail and "Raid Level : raid10" in detail, (cut, detail)

    turn(None)
    found = cuts(harness)
    for cut in found:
        harness.must(f"mdadm -q --stop /dev/{MD}; udevadm settle; for part in {parts}; do blkdiscard -f -z $part; done; udevadm settle")
        turn(cut)
    print(f"\nmdadm --create: killed before {len(found)} calls; the next run found it {outcomes}")
    assert carried_out(harness, spec)[-1] == "mount"
    by_others(harness, four)
    bench.clean()


@pytest.mark.long(minutes=5)
@pytest.mark.parametrize(
    ("action", "word"), [("mirror_add", "--add"), ("mirror_replace", "--add-spare"), ("mirror_replace", "--replace"), ("mirror_replace", "--remove")]
)
def test_mdadm_is_killed_as_it_gives_a_place(bench: Bench, harness: Harness, declared: dict[str, Disk], action: str, word: str) -> None:
    """Each turn gives the place to the device that the turn before took it from."""
    disks = [declared[f"mdk{number}"] for number in range(5)]
    assert carried_out(harness, spec_of(disks[:4], VOLUMES))[:2] == ALL[:2]
    before = fill(harness, "/pl/data")
    old, new = disks[1], disks[4]
    outcomes: list[object] = []

    def turn(cut: Cut | None) -> None:
        if action == "mirror_add":
            harness.must(f"mdadm -q /dev/{MD} --fail {old.part()}; udevadm settle; mdadm -q /dev/{MD} --remove {old.part()}")
        blank = old if action == "mirror_add" else new
        harness.must(f"blkdiscard -f -z {blank.path}; blockdev --rereadpt {blank.path}; udevadm settle")
        members = [disks[0], new, *disks[2:4]]
        spec = spec_of(members, VOLUMES, replace={old.serial: new.serial})
        cut_off(harness, spec, action, word, cut)
        left = actions(harness, spec)
        assert left in ([], [action]), (cut, left)
        assert carried_out(harness, spec) == left
        outcomes.append(bool(left))
        by_others(harness, members)
        assert contents(harness, "/pl/data") == before, cut

    turn(None)
    found = cuts(harness)
    for cut in found:
        old, new = new, old
        turn(cut)
    print(f"\n{action}: mdadm {word} killed before {len(found)} calls; {sum(map(bool, outcomes))} times the next run had something to do")
    bench.clean()


@pytest.mark.long(minutes=5)
def test_mdadm_is_killed_as_the_array_grows(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    disks = [declared[f"mdk{number}"] for number in range(4)]
    assert carried_out(harness, spec_of(disks, VOLUMES))[:2] == ALL[:2]
    before = fill(harness, "/pl/data")

    def turn(cut: Cut | None, size: int) -> None:
        larger = [bench.resize(disk, size) for disk in disks]
        spec = spec_of(larger, VOLUMES, grow=True)
        cut_off(harness, spec, "mirror_grow", "--grow", cut)
        assert "mount" not in carried_out(harness, spec)
        by_others(harness, larger)
        assert contents(harness, "/pl/data") == before, cut

    turn(None, 128 * MIB)
    found = cuts(harness)
    for number, cut in enumerate(found, start=5):
        turn(cut, 32 * number * MIB)
    print(f"\nmdadm --grow: killed before {len(found)} calls")
    bench.clean()
