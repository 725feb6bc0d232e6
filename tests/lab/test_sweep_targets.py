# SPDX-License-Identifier: GPL-3.0-or-later
"""What the offset sweep can be pointed at beside a bare disk, and what may happen meanwhile: files, volumes, layers, load, loss.

The disks' pages are of 4 KiB, and a read that straddles two of them takes twice as long. The stacks are made with the ordinary tools.
"""

from __future__ import annotations

import json
import os
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from labkit import sweeps
from labkit.bench import Bench, Disk
from labkit.harness import Harness, HarnessError
from labkit.specs import assert_error, said
from plumblab import guest, machine, plugging
from plumblab import state as states

pytestmark = pytest.mark.measured
KIB, MIB = 1 << 10, 1 << 20
PAGE = 4096
FLASH = {"read_us": 300, "transfer_us": 20, "straddle_parallel": 0, "page_size": PAGE, "rmw_us": 300}
# So slow that at a depth of 32 the flash is the limit, and not the guest's processor.
SLOW = {**FLASH, "read_us": 1000, "channels": 2}
DISKS = [
    {"name": name, "bus": "nvme", "size": "256MiB", "serial": name.upper(), "simulated": SLOW if name == "slow" else FLASH}
    for name in ("left", "right", "lost", "slow")
]
# A sweep that is to find a phase of 4 KiB need not look further than twice that.
NEAR = {"max_grain": "8KiB"}
# The classic recipe's time for each of nine offsets; 60 once, for the comparison that is written down.
RECIPE_SECONDS = float(os.environ.get("PLUMBLINE_RECIPE_SECONDS", "60"))


def part(start: int, disk: Disk) -> str:
    """One partition from *start* (512-byte sectors) to the end."""
    return f"printf 'label: gpt\\nfirst-lba: 34\\nstart={start}\\n' | sfdisk -q {disk.path}; udevadm settle; "


@pytest.fixture
def pair(bench: Bench, disks: dict[str, Disk]) -> Iterator[tuple[Disk, Disk]]:
    """Two disks whose pages begin at their first byte, then and afterwards."""
    both = (disks["left"], disks["right"])
    usual = {"page_phase": 0, "flush_us": 0, "read_us": FLASH["read_us"], "rmw_us": FLASH["rmw_us"]}
    bench.change(*both, **usual)
    yield both
    bench.change(*both, **usual)


def striped(harness: Harness, pair: tuple[Disk, Disk], size: int = 48) -> str:
    """A striped volume with ext4, mounted, and a file in it that was written. Returns the file's path."""
    left, right = pair
    pvs = f"{left.part()} {right.part()}"
    harness.must(
        part(2048, left) + part(2048, right) + f"pvcreate -q {pvs}; vgcreate -q -s 4M sweep {pvs}; lvcreate -q -y -n lv -l 100%FREE -i 2 -I 64k sweep; "
        "mkfs.ext4 -q -b 4096 -E stride=16,stripe_width=32,lazy_itable_init=0,lazy_journal_init=0 /dev/sweep/lv; "
        "mkdir -p /pl/sweep; mount /dev/sweep/lv /pl/sweep; "
        f"dd if=/dev/zero of=/pl/sweep/file bs=1M count={size} oflag=direct status=none; sync"
    )
    return "/pl/sweep/file"


def sweep(bench: Bench, harness: Harness, target: str, *disks: Disk, **options: Any) -> dict[str, Any]:
    """One sweep, during which the host counts no write to the disks."""
    with bench.untouched(*disks):
        found = sweeps.sweep(harness, target, **NEAR, **options)
    assert found["changed"] is False
    return found


def verdict(found: dict[str, Any]) -> tuple[str, int, int]:
    return found["verdict"], found["grain_bytes"], found["phase_bytes"]


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", [pytest.param(0, marks=pytest.mark.long), 1536])
def test_a_file_on_a_striped_volume(bench: Bench, harness: Harness, pair: tuple[Disk, Disk], phase: int) -> None:
    """The phase is the volume's, and so is the word about the legs. The file's times stay as they are."""
    path = striped(harness, pair)
    bench.change(*pair, page_phase=phase)
    before = harness.must(f"stat -c '%x %y %z' {path}")
    found = sweep(bench, harness, path, *pair)
    assert verdict(found) == ("phase", PAGE, phase), found["report"]
    assert found["contradicts"] is (phase != 0)
    assert harness.must(f"stat -c '%x %y %z' {path}") == before
    assert {(leg["device"], leg["start_bytes"], leg["phase_bytes"]) for leg in found["legs"]} == {(disk.kernel, 2 * MIB, phase) for disk in pair}
    assert all(24 * MIB - 256 * KIB <= leg["length_bytes"] <= 24 * MIB and leg["first_byte"] > 2 * MIB for leg in found["legs"])
    assert any("offsets count from the first byte of sweep-lv, not of the file" in line for line in found["report"])


def test_nothing_but_the_file_is_read(bench: Bench, harness: Harness, pair: tuple[Disk, Disk]) -> None:
    """Every byte of the volume that is not the file's, by e2fsprogs' word, is made unreadable for as long as the sweep takes."""
    disk = pair[0]
    harness.must(
        part(2048, disk) + f"size=$(blockdev --getsz {disk.part()}); dmsetup create fenced --table \"0 $size linear {disk.part()} 0\"; "
        "mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 /dev/mapper/fenced; mkdir -p /pl/fenced; "
        "mount -o noatime /dev/mapper/fenced /pl/fenced; "
        "for name in a b; do dd if=/dev/zero of=/pl/fenced/$name bs=1M count=20 oflag=direct status=none; done; "
        "fallocate -l 24M -o 20M /pl/fenced/b; sync"
    )
    size = int(harness.must("blockdev --getsz /dev/mapper/fenced"))
    row = re.compile(r"^\s*\d+:\s*\d+\.\.\s*\d+:\s*(\d+)\.\.\s*\d+:\s*(\d+):(.*)$", re.MULTILINE)
    rows = row.findall(harness.must("filefrag -v -b512 /pl/fenced/b"))
    held = sorted((int(start), int(length)) for start, length, flags in rows if "unwritten" not in flags)
    assert sum(length for _start, length in held) == 20 * MIB // 512 and any("unwritten" in flags for _start, _length, flags in rows)
    lines, at = [], 0
    for start, length in [*held, (size, 0)]:
        if start > at:
            lines.append(f"{at} {start - at} error")
        if length:
            lines.append(f"{start} {length} linear {disk.part()} {start}")
        at = start + length
    table = "\\n".join(lines)
    reload = "dmsetup suspend --noflush --nolockfs fenced; dmsetup load fenced; dmsetup resume fenced"
    harness.must(f"printf '{table}\\n' | {{ {reload}; }}")
    try:
        found = sweeps.sweep(harness, "/pl/fenced/b", **NEAR)
    finally:
        harness.must(f"printf '0 {size} linear {disk.part()} 0\\n' | {{ {reload}; }}")
    assert verdict(found) == ("phase", PAGE, 0), found["report"]


# --- layers --------------------------------------------------------------------------------------

LINEAR = 'dmsetup create skewed --table "0 400000 linear {part} 1"; '
NO_DETECTION = "--config devices/data_alignment_offset_detection=0"
LVM = "pvcreate -q {options} {part}; vgcreate -q -s 4M skewed {part}; lvcreate -q -y -n lv -l 30 skewed; "
# What is built on the disk ({part}: its partition), which device is swept, and what is to be found.
LAYERS: dict[str, tuple[int, str, str, int, str, str]] = {
    # name: (first sector, what stands on the partition, device, the flash's phase, culprit, agreement)
    "sound": (2048, LVM.replace("{options}", ""), "/dev/skewed/lv", 0, "", "agrees"),
    "start-63": (63, LVM.replace("{options}", NO_DETECTION), "/dev/skewed/lv", 0, "partition {kernel}p1", "agrees"),
    "start-34": (34, "", "{part}", 0, "partition {kernel}p1", "agrees"),
    "pe-start-65535-sectors": (2048, LVM.replace("{options}", "--dataalignment 33553920b"), "/dev/skewed/lv", 0, "pv {kernel}p1", "agrees"),
    "linear-plus-one-sector": (2048, LINEAR, "/dev/mapper/skewed", 0, "dm skewed", "agrees"),
    "the-device-lies": (2048, LVM.replace("{options}", ""), "/dev/skewed/lv", 1024, "device {kernel}", "contradicts"),
    "somebody-knew-that-it-lies": (2050, "", "{part}", 1024, "", "contradicts"),
}


EVERYDAY = ("the-device-lies",)


@pytest.mark.parametrize("row", [row if row in EVERYDAY else pytest.param(row, marks=pytest.mark.long) for row in LAYERS])
def test_the_layer_that_is_off(bench: Bench, harness: Harness, pair: tuple[Disk, Disk], row: str) -> None:
    disk = pair[0]
    start, make, device, phase, culprit, agreement = LAYERS[row]
    harness.must(part(start, disk) + make.format(part=disk.part()))
    bench.change(disk, page_phase=phase)
    found = sweep(bench, harness, device.format(part=disk.part()), disk, layers=True)
    assert (found["culprit"], found["agreement"]) == (culprit.format(kernel=disk.kernel), agreement), found["report"]
    swept = [layer for layer in found["layers"] if layer["verdict"]]
    assert [layer["layer"] for layer in swept][:2] == ["device", "partition"] and len(swept) == 2 + bool(make)
    for layer in swept:
        (leg,) = layer["legs"]
        assert layer["verdict"] == "phase" and layer["phase_bytes"] == (phase - leg["start_bytes"]) % PAGE, found["report"]
    lies = [reason for reason in found["reasons"] if "the device lies about its alignment" in reason and "alignment_offset of 0" in reason]
    assert bool(lies) == (agreement == "contradicts")


@pytest.mark.long
def test_a_leg_of_two_that_is_off(bench: Bench, harness: Harness, pair: tuple[Disk, Disk]) -> None:
    left, right = pair
    pvs = f"{left.part()} {right.part()}"
    harness.must(
        part(2048, left) + part(63, right) + f"pvcreate -q {NO_DETECTION} {pvs}; vgcreate -q -s 4M skewed {pvs}; "
        "lvcreate -q -y -n lv -l 40 -i 2 -I 64k skewed"
    )
    found = sweep(bench, harness, "/dev/skewed/lv", *pair, layers=True)
    assert (found["culprit"], found["static_culprit"], found["agreement"]) == (f"partition {right.kernel}p1",) * 2 + ("agrees",), found["report"]


# --- load, loss ----------------------------------------------------------------------------------


@pytest.mark.long(minutes=4)
def test_a_busy_volume(bench: Bench, harness: Harness, pair: tuple[Disk, Disk]) -> None:
    """Beside a load on the mounted filesystem: the right verdict, from at most 2 % of what the disks are asked for, as the host counts."""
    path = striped(harness, pair)
    # Slow flash, and a load below what the guest's processor can do, or that is what everybody waits for.
    bench.change(*pair, page_phase=512, read_us=1000)
    harness.must(
        "systemd-run -q --unit=load fio --name=load --filename=/pl/sweep/file --direct=1 --ioengine=libaio --iodepth=4 --bs=4k --rw=randrw --rwmixread=90 "
        "--rate_iops=450,50 --time_based --runtime=600 --output=/dev/null; sleep 1.5"
    )

    def measure(seconds: float) -> dict[str, Any]:
        bench.counters(*pair, reset=True)
        found = harness.module("offset_sweep", {"device": path, **NEAR, "max_seconds": seconds})
        assert not found["failed"], said(found)
        return found

    try:
        found = sweeps.until_certain(measure, 90)  # the share is some ten reads a second, and a verdict wants several hundred
        counted = bench.counters(*pair)
    finally:
        harness.run("systemctl stop load")
    asked = sum((one["host_reads"] or 0) + (one["host_writes"] or 0) for one in counted.values())
    print(f"\n{found['reads']} of {asked} requests, {100 * found['reads'] / asked:.2f} %, {found['seconds']} s")
    assert verdict(found) == ("phase", PAGE, 512), found["report"]
    assert found["reads"] / asked <= 0.02 and found["share"] <= 0.02
    assert any("to stay within 2 % of the requests" in line for line in found["report"])


def test_a_read_only_disk(bench: Bench, harness: Harness, pair: tuple[Disk, Disk]) -> None:
    harness.must(f"blockdev --setro {pair[0].path}")
    assert verdict(sweep(bench, harness, pair[0].path, pair[0])) == ("phase", PAGE, 0)


@pytest.mark.long
def test_a_disk_that_is_pulled_out_meanwhile(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    disk = plugged["lost"]
    (shown,) = (found for found in machine.require_up(bench.paths).disks() if found.name == disk.name)
    results: list[dict[str, Any]] = []
    options = {"device": disk.path, "reads_per_second": 20, "max_seconds": 60}
    probing = threading.Thread(target=lambda: results.append(harness.module("offset_sweep", options)))
    bench.counters(disk, reset=True)
    probing.start()
    try:
        bench.wait_counted(disk, "host_reads", 30)
        bench.pull(disk)
        probing.join(60)
    finally:
        with states.exclusive(bench.paths):
            at = plugging.attach(bench.paths, [shown], fresh=True)[disk.name]
        bench.disks[disk.name] = plugged[disk.name] = Disk(disk.name, at["device"], disk.by_id, disk.serial)
    assert_error(results[0], f"{disk.path}: {disk.kernel} went away while it was measured")


@pytest.mark.long
def test_killed_with_the_table_under_way(bench: Bench, harness: Harness, pair: tuple[Disk, Disk]) -> None:
    """fio ends with the module, and neither leaves anything."""
    left_over = "ls -A /tmp /var/tmp /dev/shm /root; ipcs -m; pgrep -l fio || true"
    before = harness.must(left_over)
    failed: list[HarnessError] = []

    def probe() -> None:
        try:
            harness.module("offset_sweep", {"device": pair[0].path, **NEAR, "table": True, "table_seconds": 60})
        except HarnessError as error:
            failed.append(error)

    probing = threading.Thread(target=probe)
    probing.start()
    killed = guest.script(bench.paths, "for try in $(seq 150); do parent=$(ps -o ppid= -C fio) && kill -9 $parent && echo killed && break; sleep 0.2; done")
    probing.join(60)
    assert "killed" in killed and failed and "returned -9" in str(failed[0])
    bench.wait("! pgrep fio")
    assert harness.must(left_over) == before


# --- writes --------------------------------------------------------------------------------------


def ours(harness: Harness, disk: Disk) -> None:
    """A partition as aligned_partition names it."""
    harness.must(f"printf 'label: gpt\\nstart=2048, name=\"plumbline:pgdata:0\"\\n' | sfdisk -q {disk.path}; udevadm settle")


def on_ours(pair: tuple[Disk, Disk]) -> str:
    pvs = f"{pair[0].part()} {pair[1].part()}"
    return f"pvcreate -q {pvs}; vgcreate -q -s 4M fresh {pvs}; lvcreate -q -y -n lv -l 40 -i 2 -I 64k fresh"


@pytest.mark.parametrize(("what", "flush_us"), [*(pytest.param(what, 0, marks=pytest.mark.long) for what in ("partition", "volume")), ("volume", 2000)])
def test_a_sweep_with_writes(bench: Bench, harness: Harness, pair: tuple[Disk, Disk], what: str, flush_us: int) -> None:
    """It finds the phase, does not take its own flushes for others' load, and leaves the device as blank as it was, by reading all of it."""
    for disk in pair:
        ours(harness, disk)
    device = pair[0].part()
    if what == "volume":
        harness.must(on_ours(pair))
        device = "/dev/fresh/lv"
    # The blank proof reads much, and is not what is measured.
    bench.change(*pair, page_phase=512, read_us=0, flush_us=flush_us, rmw_us=FLASH["rmw_us"] + flush_us)
    with bench.untouched(*pair):
        planned = harness.module("offset_sweep", {"device": device, **NEAR, "write": True}, check=True)
    assert not planned["failed"] and planned["changed"] and planned["reads"] == 0, said(planned)
    bench.counters(*pair, reset=True)
    found = sweeps.sweep(harness, device, **NEAR, write=True)
    assert verdict(found) == ("phase", PAGE, 512) and found["changed"], found["report"]
    assert not any("waited" in line for line in found["report"]), found["report"]
    counted = bench.counters(*pair)
    assert sum(one["host_writes"] or 0 for one in counted.values()) >= found["reads"]
    assert all(one["discards"] for name, one in counted.items() if what == "volume" or name == "left")
    harness.must(f"cmp -n $(blockdev --getsize64 {device}) {device} /dev/zero")


MKFS = "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {0}"  # the kernel would write its tables later, on its own
# What stands on the pair ({0}, {1}: partitions of ours, {disk}: a disk of ours), what is asked for, and the answer.
REFUSED = {
    "a disk": ("", "{disk}", "cannot be opened alone|it is a disk"),
    "a partition of others": ("sfdisk -q --part-label {disk} 1 data; udevadm settle", "{0}", "a partition named 'data', not one that this collection made"),
    "a filesystem": ("mkfs.ext4 -q {0}", "{0}", "it carries an ext filesystem"),
    "swap space": ("mkswap {0}", "{0}", "it carries a signature: swap"),
    "data that nobody knows": ("printf x | dd of={0} bs=1 seek=30000000 conv=notrunc status=none", "{0}", "unrecognised data that is not zero, first at byte"),
    "mounted": (MKFS + "; mkdir -p /pl/m; mount {0} /pl/m", "{0}", "cannot be opened alone"),
    "a PV": ("pvcreate -q {0}", "{0}", "it is an LVM PV"),
    "held": ('dmsetup create holder --table "0 2048 linear {0} 0"', "{0}", "cannot be opened alone"),
    "a volume with a filesystem": ("{lv}; mkfs.ext4 -q /dev/fresh/lv", "/dev/fresh/lv", "it carries an ext filesystem"),
    "a volume on a partition of others": ("sfdisk -q --part-label {disk} 1 data; udevadm settle; {lv}", "/dev/fresh/lv", "a partition named 'data'"),
    "a file": (MKFS + "; mkdir -p /pl/m; mount {0} /pl/m; dd if=/dev/zero of=/pl/m/f bs=1M count=8 oflag=direct", "/pl/m/f", "a file is only read"),
}
SHORT = ("a partition of others", "a volume with a filesystem")


@pytest.mark.parametrize("row", [row if row in SHORT else pytest.param(row, marks=pytest.mark.long) for row in REFUSED])
def test_what_is_never_written_to(bench: Bench, harness: Harness, pair: tuple[Disk, Disk], row: str) -> None:
    make, device, words = REFUSED[row]
    bench.change(*pair, read_us=0)
    for disk in pair:
        ours(harness, disk)
    places = {"disk": pair[0].path, "lv": on_ours(pair)}
    harness.must((make or "true").format(pair[0].part(), pair[1].part(), **places) + "; sync")
    with bench.untouched(*pair):
        found = harness.module("offset_sweep", {"device": device.format(pair[0].part(), **places), **NEAR, "write": True})
    assert_error(found)
    assert re.search(words, found["msg"]), found["msg"]


# --- the table, and what it saves ----------------------------------------------------------------


@pytest.mark.long
def test_the_table_by_offset(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    disk = plugged["slow"]
    bench.change(disk, page_phase=512)
    found = sweep(bench, harness, disk.path, disk, table=True, table_seconds=8)
    print("\n" + "\n".join(found["report"]))
    rows = {row["offset_bytes"]: row for row in found["table"]}
    assert list(rows) == list(range(0, PAGE + 1, 512))
    others = [row["iops"] for offset, row in rows.items() if offset != 512]
    assert rows[512]["iops"] > 1.5 * max(others)
    assert all(0 < row["p50_us"] <= row["p99_us"] and row["reads"] > 0 for row in rows.values())
    assert found["report"][-1].startswith("ahead: offset 512, by a factor of ")


def test_no_table_without_fio(harness: Harness, pair: tuple[Disk, Disk]) -> None:
    found = harness.module("offset_sweep", {"device": pair[0].path, **NEAR, "table": True}, env={"PATH": "/usr/sbin:/sbin"})
    assert_error(found, "fio is not on this host; install the package fio")


def recipe(harness: Harness, device: str, seconds: float) -> tuple[dict[int, float], float]:
    """The classic recipe by fio's command line alone: one offset after the other. Returns (IOPS by offset, seconds in all)."""
    rates, began = {}, time.monotonic()
    for offset in range(0, PAGE + 1, 512):
        said_by_fio = harness.must(
            f"fio --output-format=json --name=x --filename={device} --readonly --direct=1 --ioengine=libaio --iodepth=32 --rw=randread --bs=4k "
            f"--randrepeat=0 --norandommap --offset={offset} --size=200M --time_based --runtime={seconds * 1000:.0f}ms",
            timeout=seconds + 60,
        )
        rates[offset] = json.loads(said_by_fio[said_by_fio.index("{") :])["jobs"][0]["read"]["iops"]
    return rates, time.monotonic() - began


def compare(bench: Bench, harness: Harness, disk: Disk, seconds: float) -> float:
    """Recipe and sweep on the same disk have the same answer; how many times as long the recipe takes."""
    bench.change(disk, page_phase=1024)
    rates, long = recipe(harness, disk.path, seconds)
    began = time.monotonic()
    found = sweep(bench, harness, disk.path, disk)
    short = time.monotonic() - began
    best = max(rates, key=lambda offset: rates[offset])
    assert verdict(found) == ("phase", PAGE, best) and best == 1024, (rates, found["report"])
    print("\n" + " / ".join(f"{rate:,.0f}" for rate in rates.values()) + " IOPS")
    print(f"recipe {long:.1f} s; sweep {found['seconds']} s ({long / found['seconds']:.0f} times), with its start {short:.1f} s ({long / short:.0f} times)")
    return long / found["seconds"]


@pytest.mark.long
def test_the_classic_recipe_has_the_same_answer(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    compare(bench, harness, plugged["slow"], 0.5)


@pytest.mark.long(minutes=10)
def test_the_classic_recipe_takes_fifty_times_as_long(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    assert compare(bench, harness, plugged["slow"], RECIPE_SECONDS) >= 50


# --- one volume for what leaves it as it is; these tests stay last, for the others build on the same disks ------------------------


@pytest.fixture(scope="module")
def stripes(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> str:
    """One volume for the tests that leave it as it is."""
    return striped(harness, (plugged["left"], plugged["right"]))


@pytest.mark.parametrize(
    "make, words",
    [
        ("fallocate -l 48M {}", "/pl/sweep/other: the 0 B of /pl/sweep/other that are written, in runs of 16 KiB and more, are too few for reads of"),
        ("dd if=/dev/zero of={} bs=1M count=3 oflag=direct status=none", "wanted at least 4 MiB, or a smaller max_grain"),
        ("mkfifo {}", "/pl/sweep/other is neither a block device nor a regular file"),
        ("ln -s /run/plumbline-harness/guest_server.py {}", "lies on no block device that is mounted here; wanted a file on ext4"),
    ],
)
def test_a_file_that_cannot_be_swept(harness: Harness, stripes: str, make: str, words: str) -> None:
    other = stripes.replace("file", "other")
    harness.must(f"rm -rf {other}; " + make.format(other) + "; sync")
    assert_error(harness.module("offset_sweep", {"path": other, **NEAR}), words)


def test_what_a_chunk_edge_costs(bench: Bench, harness: Harness, plugged: dict[str, Disk], stripes: str) -> None:
    """Half of the read on each leg: two pages, one after the other as the kernel sends them, and no part of the verdict."""
    found = sweep(bench, harness, "/dev/sweep/lv", plugged["left"], plugged["right"], chunk_edges=True)
    assert verdict(found) == ("phase", PAGE, 0)
    assert 0.8 < found["chunk_edge_ratio"] < 2.5, found["report"]
    assert any("that crosses from one chunk of 64 KiB into the next takes" in line for line in found["report"])


def test_a_partition_has_no_chunk_edges(bench: Bench, harness: Harness, plugged: dict[str, Disk], stripes: str) -> None:
    found = sweep(bench, harness, plugged["left"].part(), plugged["left"], plugged["right"], chunk_edges=True)
    assert "chunk_edge_ratio" not in found and any("is not striped" in line for line in found["report"])
