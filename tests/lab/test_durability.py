# SPDX-License-Identifier: GPL-3.0-or-later
"""The durability table on real drives: what is refused and what is allowed over each state of a write cache, what is recorded, what drifts.

The caches are switched with the drives' own tools. `queue/write_cache`, which the collection never writes, is written here to make
the kernel believe what is not so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.caches import switched_off
from labkit.harness import Harness
from labkit.specs import assert_error, assert_refused, errors, said, stack

DISKS = [
    {"name": "nvme", "bus": "nvme", "size": "96MiB", "serial": "DURABLENVME"},
    {"name": "scsi", "bus": "scsi", "size": "96MiB", "serial": "DURABLESCSI", "physical_block_size": 4096},
]
by_bus = pytest.mark.parametrize("bus", [pytest.param("nvme", marks=pytest.mark.long), "scsi"])
MOUNT = "/pl/pgdata0"
RECORD = "/var/lib/plumbline/accepted/pgdata.json"
POWER_CUT, STALE = "data_loss_on_power_cut", "stale_data_after_crash"
ARTICLE = ["noatime", "nodiratime", "nodelalloc", "barrier=0", "data=writeback"]


def spec_of(disk: Disk, volume: Mapping[str, Any] | None = None, **more: Any) -> list[dict[str, Any]]:
    """One filesystem on one disk, mounted."""
    return [stack([disk], "separate") | {"volumes": [{"name": "vol0", "mount": MOUNT, **(volume or {})}]} | more]


def options_of(disk: Disk, *options: str, **more: Any) -> list[dict[str, Any]]:
    """The same with mount options."""
    return spec_of(disk, {"mount_options": list(options)}, **more)


def plan_of(harness: Harness, stacks: list[dict[str, Any]]) -> dict[str, Any]:
    """The plan, which must not be refused."""
    plan = harness.module("stack_plan", {"stacks": stacks})
    assert not plan["failed"], said(plan)
    return plan


def live(harness: Harness) -> set[str]:
    """The options of the live mount."""
    return set(harness.must(f"findmnt -no OPTIONS --mountpoint {MOUNT}").strip().split(","))


def state(harness: Harness) -> str:
    """What must not change: the mount's number and options, and fstab to the byte."""
    return harness.must(f"findmnt -no ID,OPTIONS --mountpoint {MOUNT}; sha256sum /etc/fstab")


def audit(harness: Harness, disk: Disk) -> dict[str, Any]:
    """What is found without a spec."""
    found = harness.module("stack_info", {"devices": [disk.by_id]})
    assert not found["failed"], said(found)
    return found


def texts(found: Mapping[str, Any], layer: str) -> list[tuple[str, str]]:
    """(level, text) of the findings in a layer."""
    return [(finding["level"], finding["text"]) for finding in found["findings"] if finding["layer"] == layer]


def accepted(found: Mapping[str, Any]) -> list[str]:
    """The lines of a report on accepted risks."""
    return [line.strip() for line in found["report"] if line.strip().startswith("accepted: ")]


def recorded(harness: Harness) -> dict[str, dict[str, Any]]:
    """The record of the host by option; nothing where there is none."""
    text = harness.must(f"cat {RECORD} 2>/dev/null || echo '[]'")
    return {entry["option"]: entry for entry in json.loads(text)}


def named(disk: Disk) -> str:
    return f"device {disk.kernel} ({disk.serial})"


@contextmanager
def belief(harness: Harness, disk: Disk, word: str) -> Iterator[None]:
    """While the kernel believes this of the drive."""
    path = f"/sys/block/{disk.kernel}/queue/write_cache"
    before = harness.must(f"cat {path}").strip()
    harness.must(f"echo '{word}' > {path}")
    try:
        yield
    finally:
        harness.must(f"echo '{before}' > {path}")


# --- refused as written --------------------------------------------------------------------------------------------------

RISKY = {"barrier=0": POWER_CUT, "nobarrier": POWER_CUT, "noauto_da_alloc": POWER_CUT, "data=writeback": STALE}
NEVER = {
    "norecovery": "would not be replayed",
    "noload": "would not be replayed",
    "journal_dev=2049": "a device that is not looked at",
    "journal_path=/dev/null": "a device that is not looked at",
    "abort": "stops the journal",
    "journal_async_commit": "breaks the promise of data=ordered",
    "barrier=00": "wanted barrier=0 or barrier=1",
    "auto_da_alloc=0": "wanted auto_da_alloc or noauto_da_alloc",
}


@by_bus
def test_what_is_risky_is_refused_by_name(bench: Bench, harness: Harness, disks: dict[str, Disk], bus: str) -> None:
    """Device, serial, option and acceptance; nothing reaches the disk."""
    disk = disks[bus]
    with bench.untouched():
        for option, acceptance in RISKY.items():
            wanted = (f"mount option '{option}' on {named(disk)}: ", f"it wants accept: [{acceptance}] on the stack")
            other = STALE if acceptance == POWER_CUT else POWER_CUT
            assert_refused(harness, options_of(disk, "noatime", option), *wanted)
            assert_refused(harness, options_of(disk, "noatime", option, accept=[other]), *wanted)
        for option, words in NEVER.items():
            assert_refused(harness, options_of(disk, "noatime", option, accept=[POWER_CUT, STALE]), f"'{option}'", words)


@pytest.mark.long(minutes=0.5)
def test_the_profile_of_2016_wants_both_acceptances(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["nvme"]
    barrier = (f"mount option 'barrier=0' (of mount_profile 'benchmark_2016') on {named(disk)}: ", f"accept: [{POWER_CUT}]")
    data = (f"mount option 'data=writeback' (of mount_profile 'benchmark_2016') on {named(disk)}: ", f"accept: [{STALE}]")
    profile = {"mount_profile": "benchmark_2016"}
    with bench.untouched():
        assert_refused(harness, spec_of(disk, profile), *barrier, *data)
        assert "barrier=0" not in said(assert_refused(harness, spec_of(disk, profile, accept=[POWER_CUT]), *data))
        assert "data=writeback" not in said(assert_refused(harness, spec_of(disk, profile, accept=[STALE]), *barrier))
        assert_refused(harness, spec_of(disk, {**profile, "mount_options": ["noatime"]}), "'mount_options' and 'mount_profile' are both given")


# --- the table, over each state of a cache -----------------------------------------------------------------------------------


@by_bus
def test_no_barriers_over_a_cache_that_is_on_and_one_that_is_off(bench: Bench, harness: Harness, disks: dict[str, Disk], bus: str) -> None:
    disk = disks[bus]
    refused = options_of(disk, "noatime", "nobarrier")
    with bench.untouched():
        assert_refused(harness, refused, f"{named(disk)}: its write cache is on (", f"accept: [{POWER_CUT}]", f"power_loss_protection: [{disk.serial}]")
        with switched_off(harness, disk):
            assert_refused(harness, refused, f"{named(disk)}: its write cache is off, and a reset can bring it back", f"accept: [{POWER_CUT}]")
            assert plan_of(harness, spec_of(disk))["steps"]
            assert plan_of(harness, options_of(disk, "nobarrier", power_loss_protection=[disk.serial]))["steps"]
        for more in ({"accept": [POWER_CUT]}, {"power_loss_protection": [disk.serial]}):
            assert plan_of(harness, options_of(disk, "nobarrier", **more))["steps"]
        assert_refused(harness, options_of(disk, "nobarrier", power_loss_protection=["ANOTHER"]), named(disk))


def test_a_cache_that_cannot_be_read_is_not_safe(harness: Harness) -> None:
    harness.must("truncate -s 64M /run/pl.img; losetup /dev/loop7 /run/pl.img")
    try:
        volume = {"name": "vol0", "mount": MOUNT, "mount_options": ["nobarrier"]}
        spec = {"name": "pgdata", "layout": "separate", "devices": [{"path": "/dev/loop7", "test_identity": "lab"}], "volumes": [volume]}
        assert_refused(harness, [spec], "device loop7 (lab): its write cache could not be read", f"accept: [{POWER_CUT}]")
        assert plan_of(harness, [spec | {"accept": [POWER_CUT]}])["steps"]
        assert plan_of(harness, [spec | {"volumes": [{"name": "vol0", "mount": MOUNT}]}])["steps"]
    finally:
        harness.must("losetup -d /dev/loop7; rm /run/pl.img")


@by_bus
def test_flushes_that_the_kernel_drops_over_a_cache_are_an_error(harness: Harness, disks: dict[str, Disk], bus: str) -> None:
    """On and off, believed "write back" and "write through": only the volatile cache without flushes fails."""
    disk = disks[bus]
    harness.build(spec_of(disk))
    name = f"{disk.kernel} ({disk.serial})"
    assert errors(audit(harness, disk)) == [] and texts(audit(harness, disk), "write_cache") == []
    with belief(harness, disk, "write through"):
        found = audit(harness, disk)
        assert errors(found) == [("write_cache", name)]
        assert "its write cache is on, and the kernel believes 'write through' and drops flushes" in texts(found, "write_cache")[0][1]
        assert errors(plan_of(harness, spec_of(disk))) == [("write_cache", name)]
        with switched_off(harness, disk):
            assert [level for level, _text in texts(audit(harness, disk), "write_cache")] == ["warning"]
    with switched_off(harness, disk):
        found = audit(harness, disk)
        assert errors(found) == [] and texts(found, "write_cache") == [], "a belief of write back over a cache that is off is safe"


@by_bus
def test_no_barriers_that_nobody_accepted_over_a_cache(harness: Harness, disks: dict[str, Disk], bus: str) -> None:
    """Without a spec: an error over the cache that is on, a note over one that is off."""
    disk = disks[bus]
    harness.build(spec_of(disk))
    harness.must(f"mount -o remount,nobarrier {MOUNT}")
    assert errors(audit(harness, disk)) == [("mount", MOUNT)]
    assert f"'nobarrier' on {named(disk)}: its write cache is on" in texts(audit(harness, disk), "mount")[0][1]
    with switched_off(harness, disk):
        assert errors(audit(harness, disk)) == []
        assert "its write cache is off, and a reset can bring it back" in texts(audit(harness, disk), "mount")[0][1]


# --- what was accepted -------------------------------------------------------------------------------------------------------


def test_what_is_accepted_is_recorded_and_shown_until_it_is_gone(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["nvme"]
    both = spec_of(disk, {"mount_profile": "benchmark_2016"}, accept=[POWER_CUT, STALE])
    harness.build(both)
    assert {"noatime", "nodiratime", "nodelalloc", "nobarrier", "data=writeback"} <= live(harness)
    record = recorded(harness)
    assert {option: (entry["acceptance"], entry["serials"]) for option, entry in record.items()} == {
        "barrier=0": (POWER_CUT, [disk.serial]),
        "data=writeback": (STALE, [disk.serial]),
    }
    assert harness.must(f"stat -c '%a %U' {RECORD} /var/lib/plumbline/accepted /var/lib/plumbline").split("\n")[:3] == ["600 root", "700 root", "700 root"]
    plan, info = plan_of(harness, both), audit(harness, disk)
    assert plan["steps"] == [] and errors(plan) == [] and errors(info) == []
    for found in (plan, info):
        lines = accepted(found)
        assert [line.split("'")[1] for line in lines] == ["nobarrier", "data=writeback"]
        for line, option, acceptance in zip(lines, ("barrier=0", "data=writeback"), (POWER_CUT, STALE), strict=True):
            assert f"on {MOUNT} over {named(disk)}: " in line and line.endswith(f"[{acceptance}, since {record[option]['since']}]")
    # Barriers come back by a remount, and their risk leaves the record; the other keeps its date.
    half = options_of(disk, "noatime", "nodiratime", "nodelalloc", "data=writeback", accept=[POWER_CUT, STALE])
    number = harness.must(f"findmnt -no ID --mountpoint {MOUNT}")
    harness.build(half)
    assert "nobarrier" not in live(harness) and harness.must(f"findmnt -no ID --mountpoint {MOUNT}") == number
    assert recorded(harness) == {"data=writeback": record["data=writeback"]}
    assert [line.split("'")[1] for line in accepted(audit(harness, disk))] == ["data=writeback"]
    assert plan_of(harness, half)["steps"] == []
    # The data mode only goes with a new mount.
    harness.must(f"umount {MOUNT}")
    harness.build(spec_of(disk))
    assert not {"nobarrier", "data=writeback", "nodelalloc"} & live(harness)
    assert harness.run(f"test -e {RECORD}")[0] == 1
    info = audit(harness, disk)
    assert accepted(info) == [] and texts(info, "mount") == [] and plan_of(harness, spec_of(disk))["steps"] == []


@pytest.mark.long
def test_the_operators_word_is_recorded_by_serial(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["scsi"]
    stacks = options_of(disk, "noatime", "barrier=0", power_loss_protection=[disk.serial])
    harness.build(stacks)
    assert [(entry["acceptance"], entry["serials"]) for entry in recorded(harness).values()] == [("power_loss_protection", [disk.serial])]
    (line,) = accepted(audit(harness, disk))
    assert "power-loss protected, as stated in the spec" in line and "[power_loss_protection, since " in line
    assert errors(audit(harness, disk)) == [] and plan_of(harness, stacks)["steps"] == []


@pytest.mark.long
def test_a_record_that_is_lost_is_written_again(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["scsi"]
    stacks = options_of(disk, "noatime", "noauto_da_alloc", accept=[POWER_CUT])
    harness.build(stacks)
    harness.must(f"rm {RECORD}")
    found = audit(harness, disk)
    assert accepted(found) == [] and [level for level, _text in texts(found, "mount")] == ["warning"]
    before = state(harness)
    (step,) = plan_of(harness, stacks)["steps"]
    assert step["mounts"] == [] and f"record that 'noauto_da_alloc' is accepted on {MOUNT}" in step["summary"]
    harness.apply([step], check=True)
    assert recorded(harness) == {}
    harness.apply([step])
    assert set(recorded(harness)) == {"noauto_da_alloc"} and state(harness) == before and plan_of(harness, stacks)["steps"] == []


# --- allowed as written, and drift -------------------------------------------------------------------------------------------

# Options of ext4(5) that touch what is on the disk when, and take nothing from what was acknowledged.
HARMLESS = [
    ["data=ordered"], ["data=journal"], ["data=journal", "journal_async_commit"], ["barrier=1"], ["barrier"], ["auto_da_alloc"],
    ["commit=30"], ["commit=5"], ["lazytime"], ["nodelalloc"], ["sync"], ["dirsync"], ["async"], ["data_err=abort"], ["data_err=ignore"],
    ["journal_checksum"], ["nojournal_checksum"], ["max_batch_time=0"], ["min_batch_time=5"], ["init_itable=5"], ["noinit_itable"],
    ["discard"], ["dioread_lock"], ["dioread_nolock"], ["strictatime"], [],
]  # fmt: skip


def mounts_and_stays(harness: Harness, disk: Disk, options: list[str]) -> None:
    """Mounted anew with these options, nothing is left to do, and nothing is found."""
    stacks = options_of(disk, *options)
    harness.run(f"umount {MOUNT}")
    harness.build(stacks)
    plan = plan_of(harness, stacks)
    assert plan["steps"] == [] and errors(plan) == [], (options, plan["steps"])
    assert texts(plan, "mount") == [] and accepted(plan) == [], options


@pytest.mark.long(minutes=0.5)
def test_what_is_harmless_is_mounted_as_written(harness: Harness, disks: dict[str, Disk]) -> None:
    mounts_and_stays(harness, disks["scsi"], ["nojournal_checksum", "commit=30", "data_err=abort", "sync"])


@pytest.mark.long
def test_every_harmless_option_is_mounted_as_written(harness: Harness, disks: dict[str, Disk]) -> None:
    for options in HARMLESS:
        mounts_and_stays(harness, disks["scsi"], options)


def test_drift_is_repaired_by_remount(harness: Harness, disks: dict[str, Disk]) -> None:
    """The same mount goes on, and fstab is not touched."""
    disk = disks["nvme"]
    harness.build(spec_of(disk))
    before = state(harness)
    for option in ("nobarrier", "nodelalloc", "noauto_da_alloc", "commit=60", "sync"):
        harness.must(f"mount -o remount,{option} {MOUNT}")
        assert option in live(harness)
        drifted = texts(audit(harness, disk), "mount")
        assert any(f"the mount has {option}, fstab has not" in text for _level, text in drifted), drifted
        (step,) = plan_of(harness, spec_of(disk))["steps"]
        assert step["summary"] == f"mount {MOUNT}: remounted: -{option}"
        harness.apply([step])
        assert state(harness) == before, option
    assert plan_of(harness, spec_of(disk))["steps"] == []
    assert texts(audit(harness, disk), "mount") == []


@pytest.mark.long
def test_a_line_of_fstab_that_the_next_boot_would_take_is_found(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["scsi"]
    harness.build(spec_of(disk))
    before = state(harness)
    harness.must(f"sed -i 's|{MOUNT} ext4 noatime|&,data=writeback,barrier=0|' /etc/fstab")
    ((level, text),) = texts(audit(harness, disk), "mount")
    assert level == "warning" and "fstab has data=writeback, the mount has not" in text and "fstab has nobarrier, the mount has not" in text
    (step,) = plan_of(harness, spec_of(disk))["steps"]
    harness.apply([step])
    assert state(harness) == before


@pytest.mark.long(minutes=0.5)
def test_a_data_mode_that_drifted_is_refused_and_nothing_is_changed(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["scsi"]
    stacks = spec_of(disk)
    harness.build(stacks)
    harness.must(f"mount -o remount,strictatime {MOUNT}")
    (stale,) = plan_of(harness, stacks)["steps"]
    harness.must(f"umount {MOUNT}; mount -o data=writeback {MOUNT}")
    before = state(harness)
    assert_refused(
        harness, stacks, f"volume 'vol0' is mounted on {MOUNT} with data=writeback; wanted data=ordered", "neither the mount nor fstab was changed",
        f"umount {MOUNT}, and run again",
    )  # fmt: skip
    assert [level for level, text in texts(audit(harness, disk), "mount") if f"'data=writeback' on {named(disk)}" in text] == ["warning"]
    # A plan that was made before it was mounted so: the writer looks again, before it touches anything.
    keys = ("mounts", "drop_ins", "enable_fstrim_timer", "accepted")
    result = harness.module("mount_points", {key: stale[key] for key in keys})
    assert_error(result, f"{MOUNT} is mounted with data=writeback, wanted data=ordered")
    assert state(harness) == before
    # And the kernel does refuse it.
    code, _out, _err = harness.run(f"mount -o remount,data=ordered {MOUNT}")
    assert code != 0 and state(harness) == before
    # The other way round, with the acceptance: refused as well, and fstab is not half changed.
    harness.must(f"umount {MOUNT}")
    harness.build(stacks)
    assert "data=writeback" not in live(harness) and plan_of(harness, stacks)["steps"] == []
    before = state(harness)
    assert_refused(harness, options_of(disk, "noatime", "data=writeback", accept=[STALE]), "with data=ordered; wanted data=writeback")
    assert state(harness) == before and recorded(harness) == {}


@pytest.mark.long(minutes=0.5)
def test_what_the_superblock_sets_is_found(harness: Harness, disks: dict[str, Disk]) -> None:
    """No mountinfo shows it, since it is the default of that very filesystem."""
    disk = disks["scsi"]
    harness.build(spec_of(disk))
    harness.must(f"umount {MOUNT}; tune2fs -o nobarrier,journal_data_writeback {disk.part()}; mount {MOUNT}")
    assert not {"nobarrier", "data=writeback"} & live(harness)
    found = [text for _level, text in texts(audit(harness, disk), "mount")]
    assert any(f"'nobarrier' (a default of the filesystem itself) on {named(disk)}" in text for text in found), found
    assert any(f"'data=writeback' (a default of the filesystem itself) on {named(disk)}" in text for text in found), found
    harness.must(f"umount {MOUNT}; tune2fs -o ^nobarrier,^journal_data_writeback {disk.part()}; mount {MOUNT}")
    assert texts(audit(harness, disk), "mount") == []
