# SPDX-License-Identifier: GPL-3.0-or-later
"""What nobody may do to a mirrored stack: add to an array that has lost a pair, empty a second place, take the only copy away. Seen on real arrays."""

from __future__ import annotations

import re

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import Harness, HarnessError
from labkit.specs import assert_error, said
from labkit.standing import actions, carried_out, contents, fill
from test_mirror import ALL, AT, MD, by_others, lose, nothing_written, spec_of

CHUNK = 128  # sectors
DISKS = [{"name": f"mir{number}", "bus": "nvme", "size": "192MiB", "serial": f"MIR{number}"} for number in range(7)]


@pytest.fixture
def mirrors(bench: Bench, declared: dict[str, Disk]) -> list[Disk]:
    return [declared[f"mir{number}"] for number in range(7)]


def degraded(bench: Bench, number: int) -> None:
    bench.wait(f"[ $(cat {AT}/degraded) = {number} ]")


@pytest.mark.long(minutes=3)
def test_both_of_a_pair_are_gone(bench: Bench, harness: Harness, mirrors: list[Disk]) -> None:
    """Nothing is added to the array; the one that was lost last brings all back, and the spec gives it a partner then."""
    four, spare = mirrors[:4], mirrors[4]
    spec = spec_of(four)
    assert carried_out(harness, spec) == ALL
    lose(bench, four[0])
    before = fill(harness, "/pl/data", "/pl/wal")
    degraded(bench, 1)
    (add,) = [step for step in harness.module("stack_plan", spec_of([spare, *four[1:]], replace={"MIR0": "MIR4"}))["steps"] if step["action"] == "partition"]
    harness.apply([add])
    late = harness.module("stack_plan", spec_of([spare, *four[1:]], replace={"MIR0": "MIR4"}))
    assert [step["action"] for step in late["steps"]] == ["mirror_add"], said(late)
    bench.pull(four[1])
    last = bench.disks.pop(four[1].name)
    harness.run("dd if=/dev/urandom of=/pl/data/lost bs=1M count=8 conv=fsync status=none; sync")
    print(harness.must(f"cat /proc/mdstat {AT}/array_state; ls -d {AT}/dev-*; cat {AT}/dev-*/state"))
    there = four[2:]
    with nothing_written(bench, *there, spare):
        result = harness.module("stack_plan", spec)
        assert_error(result, "has failed [damaged]", "bring back the device of that pair that was lost last")
        assert_error(harness.module("stack_plan", spec_of([spare, *four[1:]], replace={"MIR0": "MIR4"})), "[damaged]")
        assert_error(harness.module("stack_plan", spec_of([four[0], spare, *there], replace={"MIR1": "MIR4"})), "[damaged]")
        assert "zero-superblock" not in said(result) and "wipe" not in said(result)
        with pytest.raises(HarnessError, match="the device is gone"):
            harness.apply(late["steps"])
    bench.disks[last.name] = last
    shown = bench.plug(last)
    four = [four[0], *(shown[disk.name] for disk in four[1:])]
    spare = shown[spare.name]
    with nothing_written(bench, *four[1:], spare):
        for replace in ({"MIR1": "MIR1"}, {"MIR0": "MIR4"}):
            devices = four if "MIR1" in replace else [spare, *four[1:]]
            assert_error(harness.module("stack_plan", spec_of(devices, replace=replace)), "[damaged]")
        (told,) = [disk for disk in late["steps"][0]["disks"] if disk["device"] == last.path]
        told.update(device=four[1].path, diskseq=int(harness.must(f"cat /sys/block/{four[1].kernel}/diskseq")))
        with pytest.raises(HarnessError, match=r"has failed \[damaged\].* nothing was changed"):
            harness.apply(late["steps"])
    bench.power_cut()
    harness.must("sleep 50; udevadm settle", timeout=200)
    disks = [bench.disks[disk.name] for disk in four[1:]]
    renewed = spec_of([bench.disks[spare.name], *disks], replace={"MIR0": "MIR4"})
    for asked in (spec, renewed):
        with nothing_written(bench, *disks):
            result = harness.module("stack_plan", asked)
        assert_error(result, "(MIR1) has ", "and no other that is missing", "mdadm --assemble --force")
        (commands,) = set(re.findall(r"starts by (mdadm [^;]*);", said(result)))
        assert four[0].serial not in commands and all(disk.part() in commands for disk in disks)
    print(commands)
    harness.must(commands.replace(", and then ", "; ") + "; udevadm settle")
    harness.must("until findmnt /pl/data && findmnt /pl/wal; do systemctl start pl-data.mount pl-wal.mount; sleep 0.5; done", timeout=100)
    assert contents(harness, "/pl/data", "/pl/wal") == before
    assert carried_out(harness, renewed) == ["mirror_add"]
    by_others(harness, [bench.disks[spare.name], *disks])
    assert contents(harness, "/pl/data", "/pl/wal") == before
    bench.clean()


@pytest.mark.long(minutes=2)
def test_a_member_is_replaced_while_a_place_is_empty(bench: Bench, harness: Harness, mirrors: list[Disk]) -> None:
    """The empty place is filled first. A step that was planned when all were in sync is refused at its write."""
    four, first, second = mirrors[:4], *mirrors[4:6]
    assert carried_out(harness, spec_of(four)) == ALL
    before = fill(harness, "/pl/data")
    planned = spec_of([*four[:2], second, four[3]], replace={"MIR2": "MIR5"})
    plan = harness.module("stack_plan", planned)
    assert [step["action"] for step in plan["steps"]] == ["partition", "mirror_replace"], said(plan)
    harness.apply(plan["steps"][:1])
    harness.must(f"mdadm -q /dev/{MD} --fail {four[1].part()}")
    degraded(bench, 1)
    there = [four[0], *four[2:]]
    with nothing_written(bench, *there, second), pytest.raises(HarnessError, match=r"is not replaced: 1 of 4 members of .* are not in sync \[degraded\]"):
        harness.apply(plan["steps"][1:])
    lose(bench, four[1])
    with nothing_written(bench, *there, first, second):
        assert_error(harness.module("stack_plan", planned), "[degraded]", "MIR1")
        new = [four[0], first, second, four[3]]
        assert_error(harness.module("stack_plan", spec_of(new, replace={"MIR2": "MIR5"})), "[degraded]", "replace: {SERIAL OF THE OLD ONE: MIR4}")
    both = spec_of(new, replace={"MIR1": "MIR4", "MIR2": "MIR5"})
    assert carried_out(harness, both) == ["partition", "mirror_add", "mirror_replace"]
    by_others(harness, new)
    assert contents(harness, "/pl/data") == before
    assert "No md superblock" in harness.must(f"mdadm --examine {four[2].part()} 2>&1 || true")
    bench.clean()


@pytest.mark.long(minutes=5)
def test_what_is_known_to_be_on_neither_copy(bench: Bench, harness: Harness, mirrors: list[Disk]) -> None:
    """md ends the copy there. Both old members stay; when the blocks have been written again, the same spec ends the replacement."""
    four, new = mirrors[:4], mirrors[4]
    spec = spec_of(four)
    assert carried_out(harness, spec) == ALL
    before = fill(harness, "/pl/data")
    sectors = int(harness.must(f"cat {AT}/component_size")) * 2
    behind = sectors // CHUNK * CHUNK - CHUNK  # of the last chunk of each member, where no volume is
    for disk in four[2:]:
        harness.must(f"echo '{behind + 2048} 8' > {AT}/dev-{disk.part().rsplit('/', 1)[-1]}/bad_blocks")
    result = harness.module("stack_plan", spec)
    assert not result["failed"] and sum("does not hold 1 ranges of blocks" in one for one in result["warnings"]) == 2, result
    members = [*four[:2], new, four[3]]
    replacing = spec_of(members, replace={"MIR2": "MIR4"})
    plan = harness.module("stack_plan", replacing)
    assert [step["action"] for step in plan["steps"]] == ["partition", "mirror_replace"], said(plan)
    with pytest.raises(HarnessError, match=r"is not filled: .* \[degraded\]; nothing was taken out; .* noted 2 ranges .* write these blocks again"):
        harness.apply(plan["steps"])
    assert "Working Devices : 5" in harness.must(f"mdadm --detail /dev/{MD}")
    assert contents(harness, "/pl/data") == before
    harness.must(f"dd if=/dev/zero of=/dev/{MD} bs=512 seek={behind * 2 + CHUNK} count={CHUNK} oflag=direct conv=notrunc,fsync status=none; sleep 1")
    assert carried_out(harness, replacing) == ["mirror_replace"]
    by_others(harness, members)
    assert contents(harness, "/pl/data") == before
    bench.clean()


@pytest.mark.long(minutes=2)
def test_replaced_where_udev_saw_nothing(bench: Bench, harness: Harness, mirrors: list[Disk]) -> None:
    """A device goes while udev does not run: md keeps what is left of its member, and the next run lets it forget that."""
    four, new = mirrors[:4], mirrors[4]
    assert carried_out(harness, spec_of(four)) == ALL
    harness.must("systemctl stop systemd-udevd systemd-udevd-control.socket systemd-udevd-kernel.socket")
    try:
        lose(bench, four[1])
        before = fill(harness, "/pl/data")
        print(harness.must(f"cat /proc/mdstat; for at in {AT}/dev-*; do echo $at $(cat $at/state $at/slot) $(readlink -e $at/block || echo dangles); done"))
        degraded(bench, 1)
    finally:
        harness.must("systemctl start systemd-udevd-control.socket systemd-udevd-kernel.socket systemd-udevd; udevadm settle")
    print(harness.must(f"cat /proc/mdstat; ls -d {AT}/dev-*"))
    three = [four[0], new, *four[2:]]
    assert carried_out(harness, spec_of(three, replace={"MIR1": "MIR4"})) == ["partition", "mirror_add"]
    by_others(harness, three)
    assert harness.must(f"ls -d {AT}/dev-* | wc -l").strip() == "4"
    assert contents(harness, "/pl/data") == before and actions(harness, spec_of(three)) == []
    bench.clean()
