# SPDX-License-Identifier: GPL-3.0-or-later
"""Growth beside others: two at once, a second one before the first has ended, no room for records, and what somebody did to the volume group by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.harness import ROOT, Harness
from labkit.roles import tasks_for
from labkit.specs import assert_error, said
from labkit.standing import actions, carried_out, contents, fill
from test_growth import GROWN, built, check_by_others, spec_of

pytestmark = pytest.mark.long(minutes=1)
DISKS = [{"name": f"leg{number}", "bus": "scsi", "size": "160MiB", "serial": f"HOSTILE{number}", "physical_block_size": 4096} for number in range(3)]
VOLUMES = [{"name": "data", "size": "60%", "mount": "/pl/data"}]
HOME = "/var/lib/plumbline"


@pytest.fixture
def legs(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> Iterator[list[Disk]]:
    """Two disks with a stack that is mounted and has a file."""
    disks = [declared["leg0"], declared["leg1"]]
    built(harness, spec_of(disks, VOLUMES))
    yield disks
    bench.clean()


def larger(bench: Bench, harness: Harness, disks: list[Disk]) -> dict[str, Any]:
    """Each disk gets 32 MiB more; the first step by which that is taken in."""
    for disk in disks:
        bench.resize(disk, int(harness.must(f"blockdev --getsize64 {disk.path}")) + 32 * MIB)
    plan = harness.module("stack_plan", spec_of(disks, VOLUMES, grow=True))
    assert not plan["failed"] and plan["steps"][0]["action"] == "grow_partition", said(plan)
    return dict(plan["steps"][0])


def test_two_at_once(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Two controllers with one plan: one of them grows the partitions, and the other is told."""
    before = fill(harness, "/pl/data")
    for _race in range(3):
        step = larger(bench, harness, legs)
        results = harness.together("stack_growth", {"step": step}, {"step": step})
        assert len([one for one in results if not one["failed"]]) >= 1, [said(one) for one in results]
        for loser in (one for one in results if one["failed"]):
            assert not loser["traceback"] and any(word in said(loser) for word in ("[lease]", "nothing was changed", "[busy]")), said(loser)
        assert carried_out(harness, spec_of(legs, VOLUMES, grow=True)) == ["grow_pv", "grow_lv", "grow_filesystem"]
    assert contents(harness, "/pl/data") == before
    check_by_others(harness, legs)


def test_a_second_growth_before_the_first_has_ended(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    before = fill(harness, "/pl/data")
    spec = spec_of(legs, VOLUMES, grow=True)
    for count in (1, 2, 3):
        larger(bench, harness, legs)
        harness.apply(harness.module("stack_plan", spec)["steps"][:count])
    larger(bench, harness, legs)
    assert carried_out(harness, spec)[0] == "grow_partition"
    assert contents(harness, "/pl/data") == before
    check_by_others(harness, legs)


def test_no_room_for_the_record(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Before a table is written, both ends of the disk are kept. Where that is not possible nothing is written."""
    before = fill(harness, "/pl/data")
    (task,) = tasks_for(ROOT, [larger(bench, harness, legs)])
    harness.must(f"mount -t tmpfs -o size=64k tmpfs {HOME}; ! cat /dev/zero > {HOME}/full 2> /dev/null")
    try:
        with bench.untouched(*legs):
            assert_error(harness.module("stack_growth", task.args), "No space left on device")
    finally:
        harness.must(f"umount {HOME}")
    assert carried_out(harness, spec_of(legs, VOLUMES, grow=True)) == list(dict.fromkeys(GROWN))
    assert contents(harness, "/pl/data") == before


def test_a_volume_that_somebody_extended(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    """Less than the spec has it: the rest is done. More than that: nothing is made smaller."""
    before = fill(harness, "/pl/data")
    spec = spec_of(legs, [{**VOLUMES[0], "size": "90%"}])
    harness.must("lvextend -q -l +4 pgdata/data")
    assert carried_out(harness, spec) == ["grow_lv", "grow_filesystem"]
    with bench.untouched(*legs):
        assert_error(harness.module("stack_plan", spec_of(legs, VOLUMES)), "nothing is ever made smaller here")
    assert actions(harness, spec) == [] and contents(harness, "/pl/data") == before


def test_a_group_that_somebody_extended(bench: Bench, harness: Harness, declared: dict[str, Disk], legs: list[Disk]) -> None:
    """A disk that is not in the spec is left alone, and so is what lies on it."""
    before, other = fill(harness, "/pl/data"), declared["leg2"]
    harness.must(f"vgextend -q pgdata {other.path}; lvcreate -qq -y -n theirs -l 4 pgdata {other.path}; udevadm settle")
    spec = spec_of(legs, [{**VOLUMES[0], "size": "90%"}], grow=True)
    try:
        with bench.untouched():
            refused = harness.module("stack_plan", spec)
            assert_error(refused, "VG 'pgdata' exists on other devices")
            assert "wipe" not in said(refused) and "erase" not in said(refused)
    finally:
        harness.must(f"lvremove -q -y pgdata/theirs; vgreduce -q pgdata {other.path}; pvremove -q {other.path}")
    assert carried_out(harness, spec) == ["grow_lv", "grow_filesystem"] and contents(harness, "/pl/data") == before
