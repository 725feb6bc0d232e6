# SPDX-License-Identifier: GPL-3.0-or-later
"""A member of a mirrored stack is replaced, and blocks of it or of its partner cannot be read. md itself would leave them out of the new one without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import Harness, HarnessError
from labkit.specs import said
from labkit.standing import carried_out
from test_mirror import ALL, AT, MD, by_others, spec_of
from test_unreadable import OPTIONS, PARAMETERS, heal

DISKS = [{"name": f"mir{number}", "bus": "nvme", "size": "192MiB", "serial": f"MIR{number}"} for number in range(4)]
VOLUMES = [{"name": "data", "size": "60%", "mount": "/pl/data"}]
SECTORS = 8  # that cannot be read: 4 KiB
FIRST = 2048 + 2048  # sectors of a device before the data of its member
ERRORS = f"echo 2 > {OPTIONS}"


@pytest.fixture
def debug(bench: Bench, declared: dict[str, Disk]) -> Iterator[Disk]:
    """Of the guest's kernel: it would go with a boot for the declared ones."""
    assert declared
    with bench.scsi_debug(1) as (disk,):
        yield disk


@pytest.fixture
def five(declared: dict[str, Disk], debug: Disk) -> tuple[list[Disk], Disk]:
    """The members, the third of them the one whose blocks can become unreadable; and a new device."""
    first, second, fourth, new = (declared[f"mir{number}"] for number in range(4))
    return [first, second, debug, fourth], new


def built(harness: Harness, four: list[Disk]) -> str:
    """A stack whose volume is full of one file. Its digest."""
    assert carried_out(harness, spec_of(four, VOLUMES))[: len(ALL) - 3] == [*ALL[:4], "filesystem"], four
    harness.run("cat /dev/urandom > /pl/data/whole; sync")
    return digest(harness)


def digest(harness: Harness) -> str:
    return harness.must("sync; echo 3 > /proc/sys/vm/drop_caches; sha256sum < /pl/data/whole")


def spoil(harness: Harness, share: float) -> int:
    """Choose blocks of the data at this share of a member. Nothing is wrong with them yet. Their first sector."""
    at = FIRST + int(int(harness.must(f"cat {AT}/component_size")) * 2 * share) // SECTORS * SECTORS
    harness.must(f"echo {at} > {PARAMETERS}/medium_error_start; echo {SECTORS} > {PARAMETERS}/medium_error_count")
    return at


def when(harness: Harness, condition: str, does: str) -> None:
    """Something that happens beside the next call."""
    harness.must(f"(until {condition}; do sleep 0.05; done; {does}) > /dev/null 2>&1 &")


def replacing(harness: Harness, four: list[Disk], slot: int, new: Disk) -> dict[str, Any]:
    """The spec by which a new device takes the place of a member."""
    old = four[slot]
    serial = old.serial or harness.must(f"udevadm info -q property --property=ID_SCSI_SERIAL --value {old.path}").strip()
    members = [*four[:slot], new, *four[slot + 1 :]]
    return spec_of(members, VOLUMES, replace={serial: new.serial})


@contextmanager
def ended(harness: Harness, spec: dict[str, Any], words: str) -> Iterator[list[str]]:
    """The replacement ends with these words, and all four are members as before."""
    plan = harness.module("stack_plan", spec)
    assert plan["steps"][-1]["action"] == "mirror_replace", said(plan)
    told: list[str] = []
    try:
        with pytest.raises(HarnessError, match=words) as caught:
            harness.apply(plan["steps"])
        told.append(str(caught.value))
    finally:
        heal(harness)
        print(harness.must(f"for at in {AT}/dev-*; do echo $at $(cat $at/slot $at/state $at/errors $at/bad_blocks); done; cat {AT}/sync_action {AT}/sync_max"))
    print(told)
    assert harness.must(f"cat {AT}/dev-*/state {AT}/sync_action {AT}/sync_max").split("\n")[-3:-1] == ["idle", "max"]
    detail = harness.must(f"mdadm --detail /dev/{MD}")
    assert "Working Devices : 4" in detail and detail.count("active sync") == 4, detail
    yield told


@pytest.mark.long(minutes=1.5)
def test_unreadable_for_long_and_written_again_by_the_comparison(bench: Bench, harness: Harness, debug: Disk, five: tuple[list[Disk], Disk]) -> None:
    """The drive has had it for some time. The comparison before the copy writes it again, which heals it; the new member has all."""
    four, new = five
    before = built(harness, four)
    spoil(harness, 0.3)
    harness.must(ERRORS)
    written = f"grep -q check {AT}/sync_action && ! grep -qx 0 {AT}/dev-{debug.kernel}1/errors"
    when(harness, written, f"echo 0 > {OPTIONS}")  # as a drive does that is written to
    spec = replacing(harness, four, 2, new)
    assert carried_out(harness, spec) == ["partition", "mirror_replace"]
    by_others(harness, [*four[:2], new, four[3]])
    assert digest(harness) == before
    bench.clean(debug)


def test_the_old_one_cannot_be_read_as_it_is_copied(bench: Bench, harness: Harness, debug: Disk, five: tuple[list[Disk], Disk]) -> None:
    """The copy is ended before the new member has the place. The next run fills it, from the partner where md knows what the old one cannot read."""
    four, new = five
    before = built(harness, four)
    spoil(harness, 0.3)
    when(harness, f"ls {AT}/dev-{new.kernel}p1", ERRORS)
    spec = replacing(harness, four, 2, new)
    with ended(harness, spec, r"\d+ sectors of \S+ could not be read as .*run again: all members are compared") as (told,):
        assert f"sectors of {debug.path}1 could" in told and f"mdadm --manage /dev/md127 --fail {debug.path}1, and run" in told and "noted" not in told
    assert digest(harness) == before
    assert carried_out(harness, spec) == ["mirror_replace"]
    by_others(harness, [*four[:2], new, four[3]])
    assert digest(harness) == before
    bench.clean(debug)


@pytest.mark.long(minutes=2)
def test_the_partner_cannot_be_read_as_it_is_copied(bench: Bench, harness: Harness, debug: Disk, five: tuple[list[Disk], Disk]) -> None:
    """md reads the first of a pair to replace the second. What it could not read it notes of both: a write to it heals that."""
    four, new = five
    before = built(harness, four)
    at = spoil(harness, 0.8)  # no volume is there
    when(harness, f"ls {AT}/dev-{new.kernel}p1", ERRORS)
    spec = replacing(harness, four, 3, new)
    with ended(harness, spec, r"\d+ sectors of \S+ could not be read as ") as (told,):
        assert f"keep {four[3].part()}" in told and "--fail" not in told and "have noted 2 ranges of blocks" in told
    assert digest(harness) == before
    chunk = (at - FIRST) // 128
    for where in (chunk * 2, chunk * 2 + 1):
        harness.must(f"dd if=/dev/zero of=/dev/{MD} bs=64K seek={where} count=1 oflag=direct conv=notrunc,fsync status=none")
    assert carried_out(harness, spec) == ["mirror_replace"]
    by_others(harness, [*four[:3], new])
    assert digest(harness) == before
    bench.clean(debug)


@pytest.mark.long(minutes=2)
def test_a_run_that_was_killed_left_a_copy_that_lacks_something(bench: Bench, harness: Harness, debug: Disk, five: tuple[list[Disk], Disk]) -> None:
    """By hand, as md does it alone: the new member has the place, and lacks what could not be read. The next run says so, and erases nothing."""
    four, new = five
    before = built(harness, four)
    spoil(harness, 0.3)
    spec = replacing(harness, four, 2, new)
    plan = harness.module("stack_plan", spec)
    harness.apply(plan["steps"][:1])
    when(harness, f"ls {AT}/dev-{new.kernel}p1", ERRORS)
    harness.must(
        f"mdadm -q /dev/{MD} --add-spare {new.part()}; mdadm -q /dev/{MD} --replace {debug.part()} --with {new.part()}; mdadm --wait /dev/{MD} || true"
    )
    bench.wait(f"grep -q faulty {AT}/dev-{debug.kernel}1/state")
    heal(harness)
    assert digest(harness) != before  # so it is, without this collection
    (step,) = harness.module("stack_plan", spec)["steps"]
    with pytest.raises(HarnessError, match=r"\d+ could not be read, and \d+ ranges are noted as bad; nothing was erased") as told:
        harness.apply([step])
    print(told.value)
    assert "Array UUID" in harness.must(f"mdadm --examine {debug.part()}")
    (advice,) = re.findall(r"; (mdadm [^,]*), and the same run again", str(told.value))
    harness.must(advice)
    assert digest(harness) == before
    assert carried_out(harness, spec) == ["mirror_replace"]
    assert digest(harness) == before
    by_others(harness, [*four[:2], new, four[3]])
    bench.clean(debug)
