# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever ends a build, at any step: the next run carries it on to the very stack that an undisturbed build makes, and touches no other disk."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from labkit.bench import Bench, Disk, forget_partitions, pool
from labkit.harness import Harness
from labkit.roles import Task
from labkit.runs import (
    LAYOUTS,
    bystander,
    carry_on,
    changed,
    comparable,
    end_playbook,
    first_task,
    kill_playbook,
    next_plan,
    reading_of,
    spec_of,
    start_playbook,
    wait_for_lease,
)
from labkit.specs import assert_error

DISKS = pool(["leg0", "leg1", "bystander"])
LONGEST = 2.0  # of a step here; later kills find it done
by_layout = pytest.mark.parametrize("layout", LAYOUTS)


@pytest.fixture
def legs(bench: Bench, disks: dict[str, Disk]) -> Iterator[list[Disk]]:
    """Two disks to build on, beside one that is somebody else's."""
    with bystander(bench, disks["p2"]):
        yield [disks["p0"], disks["p1"]]


@pytest.fixture(scope="module")
def builds() -> dict[str, Any]:
    """What was built of each layout so far when nothing ended it."""
    return {}


@pytest.fixture
def undisturbed(bench: Bench, harness: Harness, legs: list[Disk], builds: dict[str, Any]) -> Callable[[str], Any]:
    """What a build that nothing ends makes of a layout; the first who asks has it built on his disks, which are cleaned for it."""

    def of(layout: str) -> Any:
        if layout not in builds:
            bench.clean(*legs)
            spec = spec_of(legs, layout)
            harness.build(spec["stacks"])
            builds[layout] = comparable(reading_of(harness, spec), legs)
        return builds[layout]

    return of


class Killer:
    """Kills a module of ours or of others, with its tools, at a time that the dice say."""

    def __init__(self, harness: Harness, seed: str, turns: int = 1) -> None:
        self.harness, self.dice, self.turns = harness, random.Random(seed), turns
        self.kills = self.boundaries = 0

    def once(self, task: Task) -> None:
        """Begin the task and kill it, at once or later. What it finished meanwhile is as good as any other state."""
        self.kills += self.harness.cut(task.module, task.args, self.dice.choice([0.0, self.dice.uniform(0, LONGEST)]), task.env)
        self.harness.run("udevadm settle --timeout=30")

    def __call__(self, task: Task) -> None:
        """Before a step: until so many kills have hit. Where one came too late, the next hits a run that asks for what is there already."""
        self.boundaries += 1
        while self.kills < self.boundaries * self.turns:
            self.once(task)


@pytest.mark.parametrize(("layout", "turns"), [("one", 1), *(pytest.param(layout, 3, marks=pytest.mark.long) for layout in LAYOUTS)])
def test_killed_at_every_step(
    harness: Harness, undisturbed: Callable[[str], Any], legs: list[Disk], layout: str, turns: int, figure: Callable[..., None]
) -> None:
    """Every step is begun and killed, then planned anew and carried out."""
    spec = spec_of(legs, layout)
    killer = Killer(harness, f"{layout} {turns}", turns)
    carry_on(harness, spec, killer)
    assert killer.boundaries >= 3
    assert comparable(reading_of(harness, spec), legs) == undisturbed(layout)
    figure("interrupted", boundaries=killer.boundaries, kills_at_them=killer.kills, other_stacks=0, bystanders_changed=0)


@pytest.mark.long(minutes=4)
@by_layout
def test_killed_at_random_times(
    bench: Bench, harness: Harness, undisturbed: Callable[[str], Any], legs: list[Disk], layout: str, figure: Callable[..., None]
) -> None:
    """At least ten kills a layout that hit a module at work, at any time of any step, several in a row as it comes."""
    spec = spec_of(legs, layout)
    killer = Killer(harness, f"{layout} random")
    for _build in range(20):
        while killer.dice.random() < 0.8:
            plan = next_plan(harness, spec)
            if not plan["steps"]:
                break
            killer.once(first_task(plan))
        carry_on(harness, spec)
        assert comparable(reading_of(harness, spec), legs) == undisturbed(layout)
        bench.clean(*legs)
        if killer.kills >= 10:
            break
    assert killer.kills >= 10
    figure("interrupted", kills_at_random=killer.kills, other_stacks=0)


# --- tables whose writing was cut off, piece by piece ------------------------------------------------

# What sfdisk writes, in its order: bytes from the start, or from the end where negative, and how many.
PIECES = {"backup entries": (-33 * 512, 32 * 512), "backup header": (-512, 512), "entries": (1024, 32 * 512), "header": (512, 512), "protective MBR": (0, 512)}


@pytest.mark.long
@pytest.mark.parametrize("left", [pytest.param(left, id=f"after the {name}") for left, name in enumerate(list(PIECES)[:4], 1)])
def test_a_table_that_was_cut_off_is_written_again(harness: Harness, undisturbed: Callable[[str], Any], legs: list[Disk], left: int) -> None:
    """As if sfdisk had been killed between two of its five writes."""
    spec = spec_of(legs, "one")
    harness.apply(next_plan(harness, spec)["steps"][:1])
    whole = harness.must(f"sfdisk -d {legs[1].path}")
    end = int(harness.must(f"blockdev --getsize64 {legs[1].path}"))
    for at, length in list(PIECES.values())[left:]:
        harness.must(f"dd if=/dev/zero of={legs[1].path} bs=512 seek={at % end // 512} count={length // 512} conv=notrunc,fsync status=none")
    forget_partitions(harness, legs[1])
    (device,) = next_plan(harness, spec)["steps"][0]["devices"]
    assert (device["serial"], device["unfinished"], device["written"]) == (legs[1].serial, True, False)
    carry_on(harness, spec)
    assert harness.must(f"sfdisk -d {legs[1].path}") == whole
    assert comparable(reading_of(harness, spec), legs) == undisturbed("one")


@pytest.mark.parametrize(
    "at",
    [
        pytest.param(600 * 1024, id="head"),
        pytest.param(8 << 20, id="middle", marks=pytest.mark.long),
        pytest.param((96 << 20) - 700 * 1024, id="tail", marks=pytest.mark.long),
    ],
)
def test_a_table_that_was_cut_off_beside_other_data_is_refused(bench: Bench, harness: Harness, legs: list[Disk], at: int) -> None:
    spec = spec_of(legs, "one")
    harness.apply(next_plan(harness, spec)["steps"][:1])
    harness.must(f"dd if=/dev/zero of={legs[1].path} bs=512 count=2 conv=notrunc,fsync status=none")
    forget_partitions(harness, legs[1])
    harness.must(f"printf x | dd of={legs[1].path} bs=1 seek={at} conv=notrunc,fsync status=none")
    with bench.untouched():
        plan = harness.module("stack_plan", spec)
        if plan["failed"]:
            assert_error(plan, legs[1].serial)
        else:  # the middle is read under the lock
            assert_error(harness.module("aligned_partition", {"devices": plan["steps"][0]["devices"]}), "[data]")


def test_what_stands_half_made_and_is_not_ours_is_refused(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Our partitions, and in one of them a PV of somebody's VG."""
    spec = spec_of(legs, "one")
    harness.apply(next_plan(harness, spec)["steps"][:1])
    harness.must(f"vgcreate -q foreign {legs[1].part()}")
    with bench.untouched():
        assert_error(harness.module("stack_plan", spec), "a PV of VG 'foreign' [signature]; it is left alone")
    harness.must("vgremove -qff foreign")


@pytest.mark.long
def test_an_inactive_volume_is_activated_and_keeps_what_is_on_it(harness: Harness, undisturbed: Callable[[str], Any], legs: list[Disk]) -> None:
    """What it holds is not known before, so that nothing on it is planned with the activation."""
    spec = spec_of(legs, "one")
    harness.build(spec["stacks"])
    (volume,) = spec["stacks"][0]["volumes"]
    name = f"{spec['stacks'][0]['name']}/{volume['name']}"
    harness.must(f"echo kept > {volume['mount']}/file; umount {volume['mount']}; lvchange -q -an {name}; udevadm settle")
    (step,) = next_plan(harness, spec)["steps"]
    assert (step["action"], step["unfinished"]) == ("logical_volume", True)
    carry_on(harness, spec)
    assert harness.must(f"cat {volume['mount']}/file").strip() == "kept"
    assert comparable(reading_of(harness, spec), legs) == undisturbed("one")


@pytest.mark.long
def test_an_inactive_volume_that_is_not_just_ours_is_refused(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Of the right name, in the right group, and a little smaller."""
    spec = spec_of(legs, "one")
    harness.build(spec["stacks"])
    (volume,) = spec["stacks"][0]["volumes"]
    name = f"{spec['stacks'][0]['name']}/{volume['name']}"
    harness.must(f"umount {volume['mount']}; lvreduce -q -f -l -4 {name}; lvchange -q -an {name}; udevadm settle")
    with bench.untouched():
        assert_error(harness.module("stack_plan", spec), f"LV {name} has ")


# --- the controller, and the power -----------------------------------------------------------------


@pytest.mark.long(minutes=3)
@by_layout
def test_the_controller_is_killed(harness: Harness, undisturbed: Callable[[str], Any], legs: list[Disk], layout: str, figure: Callable[..., None]) -> None:
    """The next run from this controller takes the lease over at once, says whose it was, and ends where an undisturbed one does."""
    spec = spec_of(legs, layout)
    process = start_playbook(spec)
    wait_for_lease(harness, process)
    time.sleep(random.Random(layout).uniform(1, 12))
    assert process.poll() is None, end_playbook(process)
    kill_playbook(process)
    end = time.monotonic() + 60  # what it had begun on the host runs to its end, and is busy until then
    texts: list[str] = []
    while True:
        code, text = end_playbook(start_playbook(spec))
        texts.append(text)
        if code == 0 or time.monotonic() > end:
            break
    assert code == 0, text[-3000:]
    assert any("its process on the controller is gone" in text for text in texts), texts
    code, text = end_playbook(start_playbook(spec))
    assert (code, changed(text)) == (0, 0), text[-3000:]
    assert comparable(reading_of(harness, spec), legs) == undisturbed(layout)
    figure("controller", kills=1, other_stacks=0)


SIMULATED = {"page_size": 4096, "write_cache": 1, "cache_size": "64MiB", "writeback_ms": 50, "plp": 0}
CUT_DISKS = [{"name": f"cut{n}", "bus": "scsi", "size": "96MiB", "serial": f"BUILDCUT{n}", "simulated": SIMULATED} for n in range(2)]


@pytest.mark.long(minutes=5)
def test_the_power_is_cut(bench: Bench, harness: Harness, figure: Callable[..., None]) -> None:
    """Six times in the middle of a build, with drives that lose what they had not written: a table, a label or a journal may be there in part."""
    bench.replace(CUT_DISKS)
    try:
        for turn in range(6):
            dice = random.Random(f"power {turn}")
            layout = list(LAYOUTS)[turn % 3]
            spec = spec_of(list(bench.disks.values()), layout)
            steps = next_plan(harness, spec)["steps"]
            harness.apply(steps[: turn % len(steps)])
            harness.must("sync -f /etc")
            rest = next_plan(harness, spec)
            if rest["steps"]:
                task = first_task(rest)
                harness.cut(task.module, task.args, dice.uniform(0.05, LONGEST), task.env)
            bench.power_cut()
            harness.run("systemctl is-system-running --wait; udevadm settle --timeout=60")
            carry_on(harness, spec)
            assert reading_of(harness, spec)
            bench.clean()
    finally:
        bench.replace(DISKS)
    figure("interrupted", power_cuts=6)
