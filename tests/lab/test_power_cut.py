# SPDX-License-Identifier: GPL-3.0-or-later
"""A database's writer, and the power that goes: no acknowledged record is lost while barriers or a switched-off cache keep them.

The simulated SSD copies, at random instants, what a power cut would leave at each; the acknowledgements that had arrived outside the
machine by then are what each copy has to hold. The same with the machine and its drive really cut off.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from labkit import caches
from labkit.bench import Bench, Disk
from labkit.crash import DIRECTORY, Witness, read_guest, read_image, witness
from labkit.harness import Harness
from labkit.records import SEGMENT_ENTRIES, SLOT_BYTES, SLOTS, Writer, is_state, is_table, judge, log_index, segment_name, slot_of
from labkit.specs import stack

MOUNT = "/pl/pgdata0"
IMAGES = 25
MANY_IMAGES = int(os.environ.get("PLUMBLINE_CRASH_IMAGES", "500"))
# On SCSI, because QEMU's NVMe takes a write with FUA for an ordinary one. The cache is larger than what is ever written, and would
# keep it for an hour: whatever the guest does not flush is lost.
HOUR_MS = 3_600_000
SIMULATED = {
    "page_size": 4096, "channels": 4, "program_us": 300, "flush_us": 500, "transfer_us": 20,
    "write_cache": 1, "cache_size": "256MiB", "writeback_ms": HOUR_MS, "plp": 0,
}  # fmt: skip
DISKS = [{"name": "cut", "bus": "scsi", "size": "96MiB", "serial": "POWERCUT", "simulated": SIMULATED}]


@dataclass(frozen=True)
class State:
    """How durability is meant to come about."""

    name: str
    cache: bool = True  # the drive's, by its caching mode page
    options: tuple[str, ...] = ("noatime",)
    accept: tuple[str, ...] = ()
    remount: str = ""  # by hand, what no spec allows
    writeback_ms: int = HOUR_MS
    plp: bool = False  # capacitors
    safe: bool = True
    everyday: bool = True  # part of the default run

    @property
    def barriers(self) -> bool:
        return "barrier=0" not in (*self.options, self.remount)


STATES = [
    State("default"),
    State("cache-off", cache=False, everyday=False),
    # What shows that switching the cache off is enough by itself: there are no flushes to help.
    State("cache-off-nobarrier", cache=False, remount="barrier=0", everyday=False),
    # What an operator may state of a drive.
    State("protected-nobarrier", remount="barrier=0", plp=True, everyday=False),
    # With a write-back of some seconds, as drives have it, so that what is lost is the end of the log and not all there ever was.
    State("nobarrier", options=("noatime", "barrier=0"), accept=("data_loss_on_power_cut",), writeback_ms=2000, safe=False),
]
by_state = pytest.mark.parametrize("state", STATES, ids=[state.name for state in STATES])


@dataclass
class Row:
    """One line of the table."""

    state: str
    how: str
    cuts: int = 0
    acknowledged: int = 0  # by the end
    wanted: int = 0  # records that were looked for, in all images
    lost_images: int = 0
    lost: int = 0  # of those
    seconds: float = 0

    def add(self, files: dict[str, bytes], acknowledged: int) -> None:
        found = judge(files, acknowledged)
        self.cuts += 1
        self.acknowledged = max(self.acknowledged, acknowledged)
        self.wanted += found.wanted
        self.lost_images += bool(found.lost)
        self.lost += len(found.lost)


@pytest.fixture(scope="module")
def table() -> Iterator[list[Row]]:
    """Printed at the end, for people to copy."""
    rows: list[Row] = []
    yield rows
    print(f"\n\n{'state':22s}{'power cuts':>12s}{'acknowledged':>14s}{'looked for':>12s}{'with losses':>13s}{'lost':>9s}{'s':>7s}")
    for row in rows:
        print(f"{row.state:22s}{row.cuts:6d} {row.how:5s}{row.acknowledged:14d}{row.wanted:12d}{row.lost_images:13d}{row.lost:9d}{row.seconds:7.0f}")


# --- the check itself, on images without a machine ----------------------------------------------------------------------------


def make_image(directory: Path, image: Path) -> Path:
    """An ext4 as mke2fs fills it."""
    image.unlink(missing_ok=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-b", "4096", "-d", str(directory), str(image), "16M"], check=True, capture_output=True)
    return image


@pytest.fixture
def written(tmp_path: Path) -> tuple[Path, int]:
    """The directory of a writer that has come far enough to have thrown some of its log away."""
    (tmp_path / "volume").mkdir()
    writer = Writer(tmp_path / "volume" / DIRECTORY)
    number = next(number for number in iter(writer.write, 0) if number > 2500 and is_table(number))
    assert not (writer.home / segment_name(0)).exists() and (writer.home / segment_name(2)).exists()
    return writer.home, number


def lost_of(home: Path, acknowledged: int) -> list[int]:
    found = judge(read_image(make_image(home.parent, home.parents[1] / "image")), acknowledged)
    assert found.wanted >= SLOTS + 200
    return found.lost


def test_the_check_finds_all_that_was_written(written: tuple[Path, int]) -> None:
    home, number = written
    for acknowledged in (number, number - 1, number - 20):  # acknowledgements that were on their way
        assert lost_of(home, acknowledged) == []


def test_the_check_sees_what_was_never_written(written: tuple[Path, int]) -> None:
    home, number = written
    assert sorted(lost_of(home, number + 3)) == [number + 1, number + 2, number + 3]


def test_the_check_sees_a_torn_record(written: tuple[Path, int]) -> None:
    home, number = written
    with (home / "table").open("r+b") as table:
        table.seek(slot_of(number - 2) * SLOT_BYTES + SLOT_BYTES // 2)
        table.write(bytes(512))
    assert lost_of(home, number) == [number - 2]
    # The next one but one cannot have been under way.
    with (home / "table").open("r+b") as table:
        table.seek(slot_of(number + 2) * SLOT_BYTES)
        table.write(bytes(512))
    assert lost_of(home, number) == [number + 2 - 2 * SLOTS, number - 2]


def test_the_check_allows_the_slot_that_was_being_written(written: tuple[Path, int]) -> None:
    home, number = written
    acknowledged = number - 1
    with (home / "table").open("r+b") as table:
        table.seek(slot_of(number) * SLOT_BYTES + 100)
        table.write(b"torn")
    assert lost_of(home, acknowledged) == []


def test_the_check_sees_a_file_that_is_gone(written: tuple[Path, int]) -> None:
    home, number = written
    state = next(one for one in range(number, 0, -1) if is_state(one))
    (home / "state").unlink()
    assert lost_of(home, number) == [state]
    last = max(home.glob("log.*"))
    last.unlink()
    entries = [one for one in range(1, number + 1) if not is_table(one) and not is_state(one)]
    assert set(lost_of(home, number)) == {state, *(one for one in entries if segment_name(log_index(one) // SEGMENT_ENTRIES) == last.name)}


def test_the_check_replays_a_journal_behind_a_partition_table(written: tuple[Path, int], tmp_path: Path) -> None:
    home, number = written
    image, disk = make_image(home.parent, tmp_path / "image"), tmp_path / "disk"
    dirty = b"journal_open -c\njournal_write -b 4000 /dev/zero\njournal_close\n"
    subprocess.run(["debugfs", "-w", "-f", "-", image], input=dirty, check=True, capture_output=True)
    assert "needs_recovery" in subprocess.run(["dumpe2fs", "-h", image], capture_output=True, text=True, check=True).stdout
    disk.write_bytes(bytes(1 << 20) + image.read_bytes())
    assert judge(read_image(disk, 1 << 20), number).lost == []


def test_an_image_beyond_repair_has_nothing(written: tuple[Path, int], tmp_path: Path) -> None:
    home, number = written
    image = make_image(home.parent, tmp_path / "image")
    os.truncate(image, 0)
    os.truncate(image, 16 << 20)
    assert read_image(image) == {}
    assert len(judge({}, number).lost) == judge({}, number).wanted


# --- the machine --------------------------------------------------------------------------------------------------------------


@contextmanager
def prepared(bench: Bench, harness: Harness, state: State) -> Iterator[Disk]:
    """The disk with an ext4 of ours on it, mounted, and all of that on the flash."""
    disk = bench.disks["cut"]
    one = stack([disk], "separate", volumes=1, accept=list(state.accept))
    one["volumes"] = [{"name": "vol0", "mount": MOUNT, "mount_options": list(state.options)}]
    drive = bench.simulated(disk)
    try:
        harness.build([one])
        wanted = "on" if state.cache else "off"
        caches.put(harness, disk, wanted)
        assert caches.state(harness, disk) == wanted
        if state.remount:
            harness.must(f"mount -o remount,{state.remount} {MOUNT}")
        barriers = "nobarrier" not in harness.must(f"cat /proc/fs/ext4/{Path(disk.part()).name}/options").split()
        assert barriers is state.barriers
        drive.set("writeback_ms", state.writeback_ms)
        drive.set("plp", int(state.plp))
        yield disk
    finally:
        drive.set("writeback_ms", HOUR_MS)
        drive.set("plp", 0)
        caches.put(harness, bench.disks["cut"], "on")
        bench.clean()


@contextmanager
def writing(bench: Bench, harness: Harness, disk: Disk) -> Iterator[Witness]:
    """A writer that writes. Whatever was there before is on the flash, barriers or not: fsync of a block device flushes the drive.

    So is the fstab of the machine's own root.
    """
    with witness(bench.paths, MOUNT) as one:
        harness.must(f"sync; sync {disk.path}")
        bench.simulated(disk).reset()
        one.begin()
        one.wait_for(50)
        yield one


def start_of(harness: Harness, disk: Disk) -> int:
    """The first byte of the disk's partition."""
    return 512 * int(harness.must(f"cat /sys/class/block/{Path(disk.part()).name}/start"))


def take_images(bench: Bench, harness: Harness, state: State, count: int, folder: Path) -> Row:
    """*count* copies at random instants, each checked against what was acknowledged before it."""
    row, image = Row(state.name, "image"), folder / "image"
    dice = random.Random(f"{state.name} {count}")
    with prepared(bench, harness, state) as disk, writing(bench, harness, disk) as one:
        drive, offset = bench.simulated(disk), start_of(harness, disk)
        began = time.monotonic()
        for _turn in range(count):
            time.sleep(dice.random() * 0.1)
            one.wait_for(one.acknowledged + 1)
            acknowledged = one.acknowledged
            drive.copy(image)
            row.add(read_image(image, offset), acknowledged)
            image.unlink()
            if state.safe and row.lost:
                break  # and not for minutes more
        row.seconds = time.monotonic() - began
        counted = drive.counters()
        one.end()
    # What was tested is what was meant.
    assert (counted["fua_writes"] > 0) is not state.cache, counted
    assert (counted["flushes"] > 0) is state.barriers, counted
    return row


def cut_off(bench: Bench, harness: Harness, state: State, seconds: float) -> tuple[dict[str, bytes], int]:
    """The files after a real power cut, and what was acknowledged before it."""
    with prepared(bench, harness, state) as disk:
        with writing(bench, harness, disk) as one:
            time.sleep(seconds)
            one.wait_for(one.acknowledged + 1)
            acknowledged = one.acknowledged
            bench.power_cut()
        harness.run(f"for i in $(seq 100); do mountpoint -q {MOUNT} && exit; sleep 0.2; done")  # its line in fstab is nofail
        return read_guest(bench.paths, MOUNT), acknowledged


def verdict(row: Row, state: State) -> None:
    if state.safe:
        assert row.lost == 0, f"{row.lost} acknowledged records are lost in {row.lost_images} of {row.cuts} power cuts"
    else:
        assert row.lost > 0, "nothing was lost: this test would not see a loss"


@pytest.mark.parametrize(
    "state",
    [STATES[0], *(pytest.param(state, marks=[] if state.everyday else pytest.mark.long) for state in STATES[1:])],
    ids=[state.name for state in STATES],
)
def test_crash_images(bench: Bench, harness: Harness, plugged: dict[str, Disk], state: State, table: list[Row], tmp_path: Path) -> None:
    table.append(take_images(bench, harness, state, IMAGES, tmp_path))
    verdict(table[-1], state)


@pytest.mark.long(minutes=2)
@by_state
def test_many_crash_images(bench: Bench, harness: Harness, plugged: dict[str, Disk], state: State, table: list[Row], tmp_path: Path) -> None:
    table.append(take_images(bench, harness, state, MANY_IMAGES, tmp_path))
    verdict(table[-1], state)


@pytest.mark.long(minutes=3)
@by_state
def test_real_power_cuts(bench: Bench, harness: Harness, plugged: dict[str, Disk], state: State, table: list[Row]) -> None:
    """The machine and its drive, cut off; then the kernel's own journal replay at the next boot."""
    row = Row(state.name, "real")
    dice = random.Random(f"{state.name} real")
    began = time.monotonic()
    for _turn in range(2):
        row.add(*cut_off(bench, harness, state, dice.uniform(2, 5)))
    row.seconds = time.monotonic() - began
    table.append(row)
    verdict(row, state)
