# SPDX-License-Identifier: GPL-3.0-or-later
"""sync_latency in both states of the write cache: drives of every kind classed by it, and their caches as they were whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.caches import put, question, state
from labkit.harness import Harness
from labkit.specs import assert_error, said, stack
from labkit.sweeps import TRIES

AT = "/pl/honesty"
# On SCSI, because QEMU's NVMe takes a write with FUA for an ordinary one, and FUA is how QEMU writes past a cache that the guest has
# switched off. Programming takes long enough that the emulated machine's own way to the drive hides nothing of it.
COMMON = {"page_size": 4096, "transfer_us": 20, "write_cache": 1, "cache_size": "512MiB"}
HONEST = {**COMMON, "channels": 16, "program_us": 4000, "flush_us": 3000}
# Its flushes come to nothing, and yet it programs when its cache is off, as the drive of 2015 did: so FUA is honest. It programs so slowly that
# a needless flush is quick beside that on a busy host too, where it takes a millisecond.
IGNORING = {**COMMON, "channels": 64, "program_us": 60000, "flush": "ignore", "writeback_ms": 3_600_000}
PROTECTED = {**COMMON, "channels": 16, "program_us": 4000, "flush_us": 3000, "plp": 1}
SLOW = {**COMMON, "channels": 16, "program_us": 4000, "flush_us": 20000}
DISKS = [
    {"name": "honest", "bus": "scsi", "size": "256MiB", "serial": "HONESTY", "simulated": HONEST},
    {"name": "ignoring", "bus": "scsi", "size": "256MiB", "serial": "IGNORING", "simulated": IGNORING},
    {"name": "protected", "bus": "scsi", "size": "256MiB", "serial": "PROTECTED", "simulated": PROTECTED},
    {"name": "slow", "bus": "scsi", "size": "256MiB", "serial": "SLOWFLUSH", "simulated": SLOW},
    {"name": "nvme", "bus": "nvme", "size": "256MiB", "serial": "HONESTYNVME"},
]
KINDS = [
    ("honest", "honest"),
    ("ignoring", "ignores_flushes_perhaps"),
    ("protected", "protected_perhaps"),
    ("slow", "honest"),
]
by_kind = pytest.mark.parametrize(("name", "kind"), KINDS, ids=[row[0] for row in KINDS])


@contextmanager
def mounted(bench: Bench, harness: Harness, disk: Disk) -> Iterator[None]:
    """A new ext4 on the disk, mounted on AT."""
    mkfs = "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0"
    harness.must(f"mkdir -p {AT}; {mkfs} {disk.path}; mount {disk.path} {AT}; sync; udevadm settle")
    try:
        yield
    finally:
        bench.clean()


def measure(harness: Harness, **options: Any) -> dict[str, Any]:
    found = harness.module("sync_latency", {"path": AT, "rows": ["fdatasync", "fsync"], "cache_states": True, **options}, timeout=200)
    assert not found["failed"], said(found)
    assert found["changed"] is False and [row["row"] for row in found["rows"]] == ["fdatasync", "fsync"]
    return found


def rate(found: dict[str, Any], state: str, row: str) -> float:
    return next(float(one["ops_per_sec"]) for one in found["cache_states"][state] if one["row"] == row)


def classed(bench: Bench, harness: Harness, disk: Disk, kind: str, times: int) -> None:
    """So many times; on a host that is too slow to tell, a few times more."""
    found_classes: list[str] = []
    with mounted(bench, harness, disk):
        while len(found_classes) - found_classes.count("unclear") < times and found_classes.count("unclear") < TRIES:
            found = measure(harness)
            honesty = found["cache_states"]["honesty"]
            print(f"\n{disk.name} {len(found_classes) + 1}: {honesty['class']}: {honesty['text']}", end="")
            found_classes.append(honesty["class"])
            assert state(harness, disk) == "on"
        print("\n" + "\n".join(found["report"][-8:]))
    wrong = [one for one in found_classes if one not in (kind, "unclear")]
    assert not wrong, f"{len(wrong)} of {times} are wrong: {wrong}"
    assert found_classes.count("unclear") < TRIES, f"no class, and none that is wrong: {found['cache_states']['honesty']['text']}"


@pytest.mark.measured
@pytest.mark.parametrize(
    ("name", "kind"), [pytest.param(*row, marks=[] if row[0] in ("honest", "ignoring") else pytest.mark.long) for row in KINDS], ids=[row[0] for row in KINDS]
)
def test_drives_are_classed(bench: Bench, harness: Harness, plugged: dict[str, Disk], name: str, kind: str) -> None:
    classed(bench, harness, plugged[name], kind, 1)


@pytest.mark.long(minutes=5)
@pytest.mark.measured
@by_kind
def test_drives_are_classed_every_time(bench: Bench, harness: Harness, plugged: dict[str, Disk], name: str, kind: str) -> None:
    classed(bench, harness, plugged[name], kind, 10)


@pytest.mark.long
@pytest.mark.measured
def test_the_factor_is_what_the_drive_does(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """One that ignores flushes falls by its programming time, one with capacitors hardly at all; rows are those of the state before."""
    with mounted(bench, harness, plugged["ignoring"]):
        found = measure(harness, seconds=0.5, min_ops={"fdatasync": 20})
    assert found["cache_states"]["collapse"]["fdatasync"] > 4, found["cache_states"]["collapse"]
    assert found["verdict"] == "fail" and any("ignore" in reason for reason in found["reasons"]), "min_ops alone does not pass it"
    assert rate(found, "on", "fdatasync") == found["rows"][0]["ops_per_sec"]
    assert 5 < rate(found, "off", "direct_write") < 17, "a page takes 60 ms"
    with mounted(bench, harness, plugged["protected"]):
        found = measure(harness, seconds=0.5)
    assert all(1 / 3 < factor < 3 for factor in found["cache_states"]["collapse"].values()), found["cache_states"]["collapse"]


@pytest.mark.long
def test_a_cache_that_was_off_is_off_again(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    disk = plugged["honest"]
    with mounted(bench, harness, disk):
        put(harness, disk, "off")
        try:
            found = measure(harness, seconds=0.3)
            assert state(harness, disk) == "off"
            assert rate(found, "off", "fdatasync") == found["rows"][0]["ops_per_sec"]
            # Who relies on it being off must not be endangered, not even for a second.
            harness.must(f"mount -o remount,barrier=0 {AT}")
            refused = harness.module("sync_latency", {"path": AT, "cache_states": True})
            assert_error(refused, f"cache_states: {AT} is mounted without barriers on a drive whose write cache is off")
            assert state(harness, disk) == "off"
        finally:
            put(harness, disk, "on")


def test_check_mode_switches_nothing(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    disk = plugged["honest"]
    with mounted(bench, harness, disk):
        found = harness.module("sync_latency", {"path": AT, "cache_states": True}, check=True)
        assert (found["failed"], found["verdict"], "cache_states" in found) == (False, "inconclusive", False), found
        assert state(harness, disk) == "on"


@pytest.mark.long
def test_nvme(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """The controller's own feature, and back. What QEMU makes of it is no flash, so any class will do."""
    disk = plugged["nvme"]
    with mounted(bench, harness, disk):
        before = state(harness, disk)
        found = measure(harness, seconds=0.3)
        assert state(harness, disk) == before == "on"
        assert set(found["cache_states"]) == {"on", "off", "collapse", "honesty"}


@contextmanager
def watched(harness: Harness, *disks: Disk) -> Iterator[list[str]]:
    """What the drives say, every quarter of a second, in the background; to be read when it is over."""
    log = "/run/plumbline-caches"
    ask = "; ".join(map(question, disks))
    harness.must(f": > {log}; (while [ -e {log} ]; do echo $({ask}) >> {log}.new; sleep 0.25; done; rm -f {log}.new) > /dev/null 2>&1 &")
    lines: list[str] = []
    try:
        yield lines
        lines += harness.must(f"cat {log}.new").splitlines()
    finally:
        harness.must(f"rm {log}; while [ -e {log}.new ]; do sleep 0.1; done")


@pytest.mark.long
def test_all_legs_are_switched(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    legs = [plugged["honest"], plugged["slow"]]
    harness.build([stack(legs, name="both")])
    try:
        with watched(harness, *legs) as lines:
            found = harness.module("sync_latency", {"path": "/pl/both0", "rows": ["fdatasync"], "seconds": 1, "cache_states": True}, timeout=120)
            assert not found["failed"], said(found)
        assert "off off" in lines, lines
        assert [state(harness, leg) for leg in legs] == ["on", "on"]
    finally:
        bench.clean()


def test_a_module_that_is_killed_leaves_the_cache_as_it_was(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """Killed with its whole process group, as soon as the drive says that its cache is off."""
    disk = plugged["honest"]
    with mounted(bench, harness, disk):
        with watched(harness, disk) as lines:
            switched = f'for turn in $(seq 900); do test "$({question(disk)})" = off && break; sleep 0.1; done'
            harness.cut_when(f"{switched}; sleep 0.5", "sync_latency", {"path": AT, "rows": ["fdatasync"], "seconds": 1, "cache_states": True})
            bench.wait(f'test "$({question(disk)})" = on')
        assert "off" in lines, lines
        found = measure(harness, seconds=0.3)
        assert found["cache_states"]["honesty"]["ratio"]
