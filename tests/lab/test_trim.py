# SPDX-License-Identifier: GPL-3.0-or-later
"""What is discarded before the tables, counted by the drives themselves, and whether a trim of a filesystem reaches them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from labkit.bench import Bench, Disk
from labkit.everyday import everyday
from labkit.harness import Harness, until_counted
from labkit.specs import assert_error, said, stack

MIB = 1 << 20
SIZE = 1 << 30
BIG = 4 << 40
# On SCSI nothing promises zeros after a trim, so that the time of reads has to tell.
TIMED = {"page_size": 4096, "read_us": 400, "unmapped_us": 20}
DISKS = [
    {"name": "one", "bus": "nvme", "size": "1GiB", "serial": "TRIMONE", "simulated": {}},
    {"name": "two", "bus": "nvme", "size": "1GiB", "serial": "TRIMTWO", "simulated": {}},
    {"name": "timed", "bus": "scsi", "size": "1GiB", "serial": "TRIMTIMED", "simulated": TIMED},
    {"name": "big", "bus": "scsi", "size": "4TiB", "serial": "TRIMBIG", "simulated": {"transfer_us": 0}},
]


@pytest.fixture
def pair(disks: dict[str, Disk]) -> list[Disk]:
    return [disks["one"], disks["two"]]


@pytest.fixture
def honest(bench: Bench, plugged: dict[str, Disk]) -> Iterator[None]:
    """The drives honour trim again, whatever the test made them do."""
    yield
    bench.change(plugged["one"], plugged["two"], plugged["timed"], trim="honest")


def discarded(bench: Bench, *disks: Disk) -> list[int | None]:
    return [one["discard_bytes"] for one in bench.counters(*disks).values()]


@pytest.mark.parametrize("stripe", everyday(["8KiB", "64KiB", "1MiB"], "8KiB"))
def test_all_that_the_stack_owns_is_discarded_once(bench: Bench, harness: Harness, pair: list[Disk], stripe: str) -> None:
    bench.counters(*pair, reset=True)
    plan = harness.build([stack(pair, stripe_size=stripe)])
    assert all("nodiscard" in step["options"] for step in plan["steps"] if step["action"] == "filesystem")
    assert discarded(bench, *pair) == [SIZE - 2 * MIB] * 2  # by us, and nothing by mkfs
    again = harness.module("stack_plan", {"stacks": [stack(pair, stripe_size=stripe)]})
    assert again["steps"] == [] and not [one for one in again["findings"] if one["layer"] == "trim"], said(again)


def test_discard_false(bench: Bench, harness: Harness, pair: list[Disk]) -> None:
    bench.counters(*pair, reset=True)
    plan = harness.module("stack_plan", {"stacks": [stack(pair, discard=False)], "through": "partition"})
    harness.apply(plan["steps"])
    assert discarded(bench, *pair) == [0, 0]


@pytest.mark.quick("aligned_partition")
def test_a_device_whose_proof_fails_is_not_discarded(bench: Bench, harness: Harness, pair: list[Disk]) -> None:
    """Nor is the other one, whose proof passes."""
    (step,) = harness.module("stack_plan", {"stacks": [stack(pair)], "through": "partition"})["steps"]
    harness.must(f"printf x | dd of={pair[1].path} bs=1 seek={40 * MIB} conv=notrunc status=none; sync; udevadm settle")
    with bench.untouched(*pair):
        assert_error(harness.module("aligned_partition", {"devices": step["devices"]}), "[data]")
    assert harness.must(f"dd if={pair[1].path} bs=1 skip={40 * MIB} count=1 status=none") == "x"


@pytest.mark.long(minutes=1)
@pytest.mark.parametrize(
    "settings",
    [
        {"unmap_granularity": 8, "unmap_alignment": 7},
        {"unmap_granularity": 3},
        {"unmap_granularity": 64, "unmap_max_blocks": 8},
    ],
)
def test_odd_granules(bench: Bench, harness: Harness, settings: dict[str, int]) -> None:
    """Granules of 3 sectors, an alignment of 3,584 bytes, a limit below a granule."""
    with bench.scsi_debug(size_mib=256, **settings) as disks:
        plan = harness.module("stack_plan", {"stacks": [stack(disks, "separate")], "through": "partition"})
        result = harness.module("aligned_partition", {"devices": plan["steps"][0]["devices"]})
        assert not result["failed"], said(result)
        (done,) = [one["discarded_bytes"] for one in result["partitions"]]
        assert done in (0, 254 * MIB)
        print(settings, "asked", done, "sent", 512 * int(harness.must(f"cat /sys/block/{disks[0].path[5:]}/stat").split()[13]))


@pytest.mark.long(minutes=1)
def test_a_sparse_device_of_4_tib(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    big = disks["big"]
    wanted = stack([big], "separate")
    wanted["volumes"][0]["lazy_init"] = True
    plan = harness.module("stack_plan", {"stacks": [wanted]})
    bench.counters(big, reset=True)
    for step in plan["steps"]:
        before = harness.seconds
        harness.apply([step])
        print(step["action"], round(harness.seconds - before, 2), "s")
        assert discarded(bench, big) == [BIG - 2 * MIB]


@pytest.mark.parametrize("way", everyday(["kill", "eio"], "kill"))
def test_stopped_in_the_middle_of_a_discard(bench: Bench, harness: Harness, disks: dict[str, Disk], way: str) -> None:
    """No table is there then, and the next run proves the device blank and discards all of it."""
    big, whole = disks["big"], BIG - 2 * MIB
    (step,) = harness.module("stack_plan", {"stacks": [stack([big], "separate")], "through": "partition"})["steps"]
    bench.counters(big, reset=True)
    name = harness.must(f"basename $(readlink -f {big.path})").strip()
    state = f"/sys/class/block/{name}/device/state"
    begun = until_counted(big.path, 14, 1)
    bench.change(big, transfer_us=5000)  # each request takes so long: a busy host must not see the end of the discard before it ends the module
    if way == "kill":
        harness.cut_when(begun, "aligned_partition", {"devices": step["devices"]})
    else:
        harness.must(f"({begun}; echo offline > {state}) > /dev/null 2>&1 &")
        failed = harness.module("aligned_partition", {"devices": step["devices"]})
        assert_error(failed, f"{big.path}: the discard failed at byte ", f" of {whole} bytes: ", "no table was written to it; run again")
        harness.must(f"echo running > {state}; udevadm trigger --settle --subsystem-match=block")
    bench.change(big, transfer_us=0)
    (count,) = discarded(bench, big)
    print(way, "after", count, "of", whole, "bytes")
    assert count and count < whole
    assert harness.run(f"sfdisk --dump {big.path}")[0] != 0
    (step,) = harness.module("stack_plan", {"stacks": [stack([big], "separate")], "through": "partition"})["steps"]
    harness.apply([step])
    assert discarded(bench, big) == [count + whole]


def prove(harness: Harness, path: str) -> dict[str, Any]:
    result = harness.module("fstrim_proof", {"path": path})
    assert not result["failed"], said(result)
    return result


@pytest.mark.quick("fstrim_proof")
@pytest.mark.parametrize(
    ("stripe", "turns"), [("64KiB", 2), *(pytest.param(stripe, turns, marks=pytest.mark.long) for stripe, turns in (("8KiB", 2), ("64KiB", 10), ("1MiB", 2)))]
)
def test_honest_drives_and_one_that_ignores_trim(bench: Bench, harness: Harness, pair: list[Disk], honest: None, stripe: str, turns: int) -> None:
    harness.build([stack(pair, stripe_size=stripe)])
    for turn in range(turns):
        found = prove(harness, "/pl/pgdata0")
        assert (found["trim"], found["verdict"], found["reasons"]) == ("reached", "pass", []), (turn, found["report"])
        # Of the file, whole rows of the stripe are followed, and the kernel sends both drives all of it.
        assert all(one["counted_bytes"] >= 0.99 * one["asked_bytes"] >= 24 * MIB for one in found["drives"]), found["drives"]
    bench.change(pair[1], trim="ignore")
    for turn in range(turns):
        found = prove(harness, "/pl/pgdata0")
        assert (found["trim"], found["verdict"]) == ("not_reached", "fail"), (turn, found["report"])
        assert [one["trim"] for one in sorted(found["drives"], key=lambda one: str(one["device"]))].count("not_reached") == 1


@pytest.mark.long(minutes=1)
@pytest.mark.parametrize("turns", [2, 10])
def test_the_time_of_reads_tells(bench: Bench, harness: Harness, disks: dict[str, Disk], honest: None, turns: int) -> None:
    """The drive promises nothing. It keeps the data, and reads them as slowly as their neighbours."""
    disk = disks["timed"]
    harness.build([stack([disk], "separate")])
    assert prove(harness, "/pl/pgdata0")["trim"] == "reached"
    bench.change(disk, trim="ignore")
    for turn in range(turns):
        found = prove(harness, "/pl/pgdata0")
        (drive,) = found["drives"]
        assert (found["trim"], drive["contents"], drive["promised"], drive["faster"]) == ("not_reached", "kept", False, False), (turn, found["report"])


def test_a_path_that_takes_no_trim(harness: Harness, disks: dict[str, Disk]) -> None:
    """dm-crypt without allow_discards, as a mapping that stops them."""
    disk = disks["one"]
    harness.must(
        f"size=$(blockdev --getsz {disk.path}); modprobe dm-crypt; "
        f'dmsetup create shut --table "0 $size crypt capi:cbc(aes)-plain 00112233445566778899aabbccddeeff 0 {disk.path} 0"; '
        "mkfs.ext4 -q /dev/mapper/shut; mkdir -p /pl/shut; mount /dev/mapper/shut /pl/shut"
    )
    try:
        found = prove(harness, "/pl/shut")
        assert (found["trim"], found["offered"]) == ("not_reached", False) and "allow_discards" in str(found["reasons"]), found
        layers = harness.module("stack_info", {"devices": [disk.by_id]})["findings"]
        assert [(one["layer"], one["name"]) for one in layers if one["layer"] == "trim"] == [("trim", "shut")]
    finally:
        harness.must("umount /pl/shut; rmdir /pl/shut; dmsetup remove --retry shut")


def test_check_mode_writes_nothing(bench: Bench, harness: Harness, pair: list[Disk]) -> None:
    harness.build([stack(pair)])
    with bench.untouched(*pair):
        found = harness.module("fstrim_proof", {"path": "/pl/pgdata0"}, check=True)
    assert (found["trim"], found["verdict"]) == ("cannot_tell", "inconclusive")
