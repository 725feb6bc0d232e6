# SPDX-License-Identifier: GPL-3.0-or-later
"""sync_latency beside the real pg_test_fsync, on drives that collapse without their cache, and where nothing can be measured."""

from __future__ import annotations

import itertools
import math
import re
import statistics
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import Harness, until_counted
from labkit.specs import assert_error, said
from plumblab import plugging
from plumblab import state as states
from plumblab.disks import parse

MIB = 1 << 20
AT = "/pl/sync"
# A flush takes 7 ms with a page to program, so that neither Python's part of an operation nor that of the emulated machine (some
# 4 ms of an fsync, and uneven) says much. On SCSI, because QEMU's NVMe takes a write with FUA for an ordinary one: open_datasync
# would wait for nothing.
HONEST = {"page_size": 4096, "channels": 16, "program_us": 4000, "flush_us": 3000, "transfer_us": 20, "write_cache": 1}
# It answers flushes at once and keeps the data in its cache, as the drive of 2015 did: only without the cache does a write wait for the flash.
CONSUMER = {"page_size": 4096, "program_us": 5000, "transfer_us": 20, "write_cache": 1, "flush": "ignore", "fua": "ignore"}
DISKS = [
    {"name": "honest", "bus": "scsi", "size": "256MiB", "serial": "SYNCHONEST", "simulated": HONEST},
    {"name": "consumer", "bus": "scsi", "size": "256MiB", "serial": "SYNCCONSUMER", "simulated": CONSUMER},
    {"name": "native", "bus": "nvme", "size": "256MiB", "serial": "SYNCNATIVE", "logical_block_size": 4096},
    {"name": "plain", "bus": "nvme", "size": "512MiB", "serial": "SYNCPLAIN"},
    {"name": "lost", "bus": "nvme", "size": "256MiB", "serial": "SYNCLOST"},
]
METHODS = ["open_datasync", "fdatasync", "fsync", "open_sync"]
UNSYNCED = "write"
# One 8 kB write, two, and 16 kB in 1 to 16 pieces: operations per second with the cache on, and off (the article of 2015).
ARTICLE = dict(
    zip(
        [*METHODS, *(f"{name}_2" for name in METHODS), "open_sync_1x16k", "open_sync_2x8k", "open_sync_4x4k", "open_sync_8x2k", "open_sync_16x1k", UNSYNCED],
        [
            *((14641, 527), (13786, 519), (9385, 169), (9606, 170), (8158, 262), (10784, 517), (7118, 168), (4914, 84)),
            *((7361, 168), (5275, 84), (3099, 42), (2048, 21), (1226, 10), (338000, 338000)),
        ],
        strict=True,
    )
)


@pytest.fixture
def mounted(bench: Bench, harness: Harness, plugged: dict[str, Disk], request: pytest.FixtureRequest) -> Iterator[Disk]:
    """The disk that the test names, with a new ext4 on it, mounted on AT."""
    disk = plugged[request.param]
    put_on(harness, disk)
    yield disk
    bench.clean()


def put_on(harness: Harness, disk: Disk, words: str = "", mkfs: str = "mkfs.ext4 -q -F -b 4096 -E lazy_itable_init=0,lazy_journal_init=0") -> None:
    # Everything is written at once, so that nothing goes on behind the measurement.
    harness.must(f"mkdir -p {AT}; {mkfs} {words} {disk.path}; mount {disk.path} {AT}; sync; udevadm settle")


def measure(harness: Harness, rows: Sequence[str] | None = None, **options: Any) -> dict[str, Any]:
    found = harness.module("sync_latency", {"path": AT, **({"rows": list(rows)} if rows else {}), **options}, timeout=300)
    assert not found["failed"], said(found)
    assert found["changed"] is False and (found["mount"], found["path"]) == (AT, AT)
    assert harness.must(f"find {AT} -mindepth 1 ! -name lost+found") == ""
    return found


def rates(found: Mapping[str, Any]) -> dict[str, float]:
    return {row["row"]: row["ops_per_sec"] for row in found["rows"]}


NAMELESS = "#* (deleted)"


def held(name: str) -> str:
    """Shell that prints the descriptors that are open on a file there. find fails where a process ends while it looks."""
    return f"(find /proc/[0-9]*/fd -lname '{AT}/{name}' 2>/dev/null || true)"


def when_syncing(disk: Disk) -> str:
    """Shell that waits until the file is there and the disk has had ten flushes more: it is written then, and is synced again and again.

    Flushes alone do not tell: ext4 makes its inode tables after the first mount, and flushes after each group.
    """
    return f"until {held(NAMELESS)} | grep -q . || [ $SECONDS -gt 600 ]; do sleep 0.1; done; {until_counted(disk.path, 16, 10)}"


def test_its_image_has_pg_test_fsync_and_no_cluster(harness: Harness) -> None:
    assert harness.must("ls /usr/lib/postgresql/*/bin/pg_test_fsync").strip()
    assert harness.must("ls -d /etc/postgresql/*/* /var/lib/postgresql/*/* 2>/dev/null || true; pgrep postgres || true") == ""


# --- the real pg_test_fsync -------------------------------------------------------------------------------------------------


def pg_test_fsync(harness: Harness, seconds: int, until: str) -> list[tuple[str, float]]:
    """(title, operations per second) in its order. *until*: words in a heading, at which it is left; empty for all of it."""
    left = f"| sed '/{until}/q'" if until else ""
    # Nobody reads on, so that it ends with its next line, and cannot remove its file. What the server in the guest starts ignores SIGPIPE.
    program = "env --default-signal=PIPE /usr/lib/postgresql/*/bin/pg_test_fsync"
    _code, out, err = harness.run(f"cd {AT} && {program} -s {seconds} {left}; rm -f {AT}/pg_test_fsync.out", timeout=300)
    found = [(title.strip(), float(ops)) for title, ops in re.findall(r"^ {8}(.{30}) *([0-9.]+) ops/sec", out, re.MULTILINE)]
    assert found, out + err
    return found


AT_MOST = 0.15  # between both programs, however uncertain their ratio is
SURE = 2.0  # standard errors on either side of a ratio


class Ratio(NamedTuple):
    """Of two programs that took turns: the geometric mean over all turns, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, these: Sequence[float], before: Sequence[float], after: Sequence[float]) -> Ratio:
        """Each figure by the geometric mean of those before and after it, so that a drift of the host cancels out."""
        logs = [math.log(one / math.sqrt(earlier * later)) for one, earlier, later in zip(these, before, after, strict=True)]
        return cls(math.exp(statistics.mean(logs)), statistics.stdev(logs) / math.sqrt(len(logs)))

    def __str__(self) -> str:
        return f"{self.value:.3f} ± {self.error:.3f}"

    def may_be_within(self, bound: float) -> bool:
        return abs(self.value - 1) <= min(bound + SURE * self.error, AT_MOST)


def against_pg(harness: Harness, turns: int, rows: list[str] | None = None, bound: float = AT_MOST) -> None:
    """Ours, so many times, each time between two runs of pg_test_fsync, a second a row: every synced row agrees within *bound*.

    *rows* are those of its first heading, or all.
    """
    ours: dict[str, list[float]] = {}
    theirs: dict[str, list[float]] = {}
    titles: dict[str, str] = {}

    def run_ours() -> None:
        for row in measure(harness, rows, seconds=1)["rows"]:
            ours.setdefault(row["row"], []).append(row["ops_per_sec"])
            titles[row["row"]] = row["title"]

    def run_theirs() -> None:
        lines = pg_test_fsync(harness, 1, "using two 8kB writes" if rows else "")
        for number, (title, ops) in enumerate(lines):
            theirs.setdefault(f"{number}: {title}", []).append(ops)

    run_theirs()
    for _turn in range(turns):
        run_ours()
        run_theirs()
    assert [name.split(": ", 1)[1] for name in theirs] == list(titles.values()), "the rows are not those of pg_test_fsync"
    print(f"\n{turns} turns: medians of operations per second, ours and theirs; the ratio, and that of pg_test_fsync by itself")
    wrong = {}
    for row, those in zip(titles, theirs.values(), strict=True):
        ratio, itself = Ratio.of(ours[row], those[:-1], those[1:]), Ratio.of(those[1:-1], those[:-2], those[2:])
        print(f"  {row:20s}{statistics.median(ours[row]):10.1f}{statistics.median(those):10.1f}   {ratio}   {itself}")
        if row != UNSYNCED and not ratio.may_be_within(bound):
            wrong[row] = f"{ratio}, wanted within {bound} of 1"
    assert not wrong, wrong


@pytest.mark.long(minutes=2)
@pytest.mark.measured
@pytest.mark.parametrize("mounted", ["honest"], indirect=True)
def test_the_methods_agree_with_pg_test_fsync(harness: Harness, mounted: Disk) -> None:
    against_pg(harness, 6, METHODS)


@pytest.mark.long(minutes=5)
@pytest.mark.measured
@pytest.mark.parametrize("mounted", ["honest"], indirect=True)
def test_all_rows_agree_with_pg_test_fsync(harness: Harness, mounted: Disk) -> None:
    against_pg(harness, 6)


@pytest.mark.long(minutes=4)
@pytest.mark.measured
@pytest.mark.parametrize("flush_us", [30, 300, 7000])
@pytest.mark.parametrize("mounted", ["honest"], indirect=True)
def test_quick_drives_agree_as_well(bench: Bench, harness: Harness, mounted: Disk, flush_us: int) -> None:
    """A drive with capacitors, a good one without, a poor one. On an emulated machine a sync takes a third of a millisecond and more, whatever the drive."""
    bench.change(mounted, flush_us=flush_us, program_us=10, transfer_us=1)
    try:
        against_pg(harness, 18, METHODS, 0.05)
    finally:
        bench.change(mounted, **{key: HONEST[key] for key in ("flush_us", "program_us", "transfer_us")})


# --- the write cache --------------------------------------------------------------------------------------------------------


@pytest.mark.long(minutes=2)
@pytest.mark.measured
@pytest.mark.parametrize("mounted", ["consumer"], indirect=True)
def test_without_its_cache_a_consumer_drive_collapses(bench: Bench, harness: Harness, mounted: Disk) -> None:
    found = {}
    for word, value in (("on", 1), ("off", 0)):
        bench.change(mounted, write_cache=value)
        found[word] = measure(harness, list(ARTICLE), seconds=0.3)
    bench.change(mounted, write_cache=1)
    on, off = rates(found["on"]), rates(found["off"])
    print("\n" + "\n".join(found["off"]["report"]))
    print("\noperations per second       cache on  cache off  kept   article: on      off   kept")
    for name, (was, became) in ARTICLE.items():
        print(f"  {name:22s}{on[name]:12.0f}{off[name]:11.1f}{off[name] / on[name]:6.2f}{was:14d}{became:9d}{became / was:7.2f}")
    synced = [name for name in ARTICLE if name != UNSYNCED]
    assert all(off[name] < on[name] / 3 for name in synced), (on, off)
    assert off[UNSYNCED] > on[UNSYNCED] / 2
    # As in the article: more pieces cost more, one after the other, and fsync costs more than fdatasync.
    cut = [off[f"open_sync_{count}x{16 // count}k"] for count in (1, 2, 4, 8, 16)]
    assert all(fewer > 1.5 * more for fewer, more in itertools.pairwise(cut)), cut
    assert off["fdatasync"] > 1.2 * off["fsync"]


# --- thresholds -------------------------------------------------------------------------------------------------------------


@pytest.mark.measured
@pytest.mark.parametrize("mounted", ["honest"], indirect=True)
def test_thresholds(harness: Harness, mounted: Disk) -> None:
    """Against what was measured just before: half of it passes, its double fails, in operations and in milliseconds."""
    before = measure(harness, ["fdatasync"], seconds=0.5, max_p99_ms={"fdatasync": 10000})
    (row,) = before["rows"]
    assert before["verdict"] == "pass" and row["ops"] >= 299, "a row with a p99 threshold goes on until it has its operations"
    assert row["p50_us"] >= 7000 and row["p99_us"] >= row["p50_us"] and row["p999_us"] is None
    ops, p99 = row["ops_per_sec"], row["p99_us"] / 1000
    good = measure(harness, ["fdatasync"], min_ops={"fdatasync": ops / 2}, max_p99_ms={"fdatasync": p99 * 3})
    assert (good["verdict"], len(good["reasons"])) == ("pass", 2), good["reasons"]
    limits = {"fdatasync": row["p50_us"] / 2000}
    slow = measure(harness, ["fdatasync", "fsync"], min_ops={"fdatasync": ops * 2, "fsync": 1}, max_p99_ms=limits)
    assert slow["verdict"] == "fail" and len(slow["reasons"]) == 2, slow["reasons"]
    assert "wanted at least" in slow["reasons"][0] and "write cache" in slow["reasons"][0]
    assert "p99 is" in slow["reasons"][1]
    assert [(check["row"], check["verdict"]) for check in slow["checks"]] == [("fdatasync", "fail"), ("fdatasync", "fail"), ("fsync", "pass")]
    print("\n" + "\n".join(slow["report"]))


@pytest.mark.measured
@pytest.mark.parametrize("mounted", ["honest"], indirect=True)
def test_too_little_time_is_no_verdict(harness: Harness, mounted: Disk) -> None:
    found = measure(harness, ["open_sync_16x1k"], seconds=0.5, max_seconds=2, max_p99_ms={"open_sync_16x1k": 10000})
    assert found["verdict"] == "inconclusive" and "are too few to tell" in found["reasons"][0], found["reasons"]
    assert found["seconds"] < 4


# --- where rows, or nothing at all, can be measured --------------------------------------------------------------------------


@pytest.mark.quick("sync_latency")
@pytest.mark.parametrize("mounted", ["native"], indirect=True)
def test_4kn_has_no_writes_below_its_block(harness: Harness, mounted: Disk) -> None:
    found = measure(harness, seconds=0.1, min_ops={"open_sync_16x1k": 1})
    unable = {row["row"]: row["unable"] for row in found["rows"] if row["unable"]}
    assert unable == {"open_sync_8x2k": "2048 B is no whole block of 4096 B", "open_sync_16x1k": "1024 B is no whole block of 4096 B"}
    assert found["verdict"] == "inconclusive" and "open_sync_16x1k cannot run here: 1024 B is no whole block" in found["reasons"][0]
    assert all(row["ops"] > 0 for row in found["rows"] if not row["unable"])


@pytest.mark.long
def test_xfs(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    put_on(harness, plugged["plain"], mkfs="mkfs.xfs -q -f")
    try:
        found = measure(harness, seconds=0.1)
        assert found["fstype"] == "xfs" and not any(row["unable"] for row in found["rows"])
        assert found["verdict"] == "pass" and found["reasons"] == ["no threshold is set"]
    finally:
        bench.clean()


@pytest.mark.parametrize(
    "path, words",
    [
        ("/pl/not-there", "/pl/not-there is not there: No such file or directory; name the directory that the volume is mounted on"),
        ("/etc/fstab", "/etc/fstab is no directory; name the directory that the volume is mounted on"),
        ("/dev/shm", "/dev/shm is on no filesystem of one block device"),
    ],
)
def test_no_volume(harness: Harness, path: str, words: str) -> None:
    assert_error(harness.module("sync_latency", {"path": path}), words)


def usage(harness: Harness) -> str:
    return harness.must(f"sync -f {AT}; df -B1 --output=used,iused {AT} | tail -n 1; ls -A {AT}")


@pytest.mark.parametrize("mounted", ["plain"], indirect=True)
def test_what_stops_it_leaves_everything_as_it_was(bench: Bench, harness: Harness, mounted: Disk) -> None:
    """Too little space, a read-only mount, check mode, an immutable directory: nothing is written."""
    harness.must(f"head -c 1M /dev/urandom > {AT}/other; fallocate -l 16M {AT}/room")
    before = usage(harness)
    sums = harness.must(f"sha256sum {AT}/other")
    found = harness.module("sync_latency", {"path": AT}, check=True)
    assert (found["failed"], found["verdict"], found["rows"]) == (False, "inconclusive", []), found
    assert "check mode" in found["reasons"][0] and usage(harness) == before

    harness.must(f"mkdir {AT}/inside; chattr +i {AT}/inside")
    assert_error(harness.module("sync_latency", {"path": f"{AT}/inside"}), "Operation not permitted; if it is immutable, the volume that belongs there is not")
    harness.must(f"chattr -i {AT}/inside; rmdir {AT}/inside")

    harness.must(f"mount -o remount,ro {AT}")
    with bench.untouched(mounted):
        assert_error(harness.module("sync_latency", {"path": AT}), f"{AT} is on {AT}, which is mounted read-only")
    harness.must(f"mount -o remount,rw {AT}")
    assert usage(harness) == before

    harness.must(f"fallocate -l $(( $(df -B1 --output=avail {AT} | tail -n 1) - 40 * 1024 * 1024 )) {AT}/room2")
    before = usage(harness)
    assert_error(harness.module("sync_latency", {"path": AT}), "MiB free; wanted at least 64 MiB")
    harness.must(f"dd if=/dev/zero of={AT}/room3 bs=1M 2>/dev/null || true; sync")
    before = usage(harness)
    assert_error(harness.module("sync_latency", {"path": AT}), "0 B free; wanted at least 64 MiB")
    assert usage(harness) == before and harness.must(f"sha256sum {AT}/other") == sums


def test_no_inode_is_left(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    put_on(harness, plugged["plain"], "-N 16")
    try:
        harness.must(f"i=0; while touch {AT}/$i 2>/dev/null; do i=$((i + 1)); done")
        before = usage(harness)
        assert_error(harness.module("sync_latency", {"path": AT}), "no file can be made there: No space left on device; its filesystem has no free inode")
        assert usage(harness) == before
    finally:
        bench.clean()


@pytest.mark.parametrize("mounted", ["plain"], indirect=True)
def test_killed_in_the_middle(harness: Harness, mounted: Disk) -> None:
    harness.must(f"head -c 8M /dev/urandom > {AT}/other; sync")
    before, sums = usage(harness), harness.must(f"sha256sum {AT}/other")
    middle = f"{when_syncing(mounted)}; (df -B1 --output=used {AT} | tail -n 1; {held(NAMELESS)}) > /run/plumbline-middle"
    harness.cut_when(middle, "sync_latency", {"path": AT, "rows": ["fdatasync"], "seconds": 60})
    used, *open_then = harness.must("cat /run/plumbline-middle; rm /run/plumbline-middle").split()
    assert int(used) >= int(before.split()[0]) + 16 * MIB and open_then, "it was not in the middle"
    assert usage(harness) == before and harness.must(f"sha256sum {AT}/other") == sums
    assert harness.must(held("*")) == ""
    harness.must(f"umount {AT}; e2fsck -fn {mounted.path}")


def test_a_device_that_fails_in_the_middle(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """Its writes begin to fail while it is synced: an error of one line, and no figures."""
    disk = plugged["plain"]
    sectors = harness.must(f"blockdev --getsz {disk.path}").strip()
    harness.must(f"dmsetup create failing --table '0 {sectors} linear {disk.path} 0'")
    try:
        harness.must(f"mkdir -p {AT}; mkfs.ext4 -q -F /dev/mapper/failing; mount /dev/mapper/failing {AT}")
        fail = f"dmsetup suspend --noflush --nolockfs failing; dmsetup load failing --table '0 {sectors} error'; dmsetup resume failing"
        harness.must(f"({when_syncing(disk)}; {fail}) &")
        found = harness.module("sync_latency", {"path": AT, "rows": ["fdatasync"], "seconds": 30}, timeout=90)
        assert_error(found, f"{AT}: fdatasync failed after ", "a volume that does not take every write and sync proves nothing")
        assert re.search(r"after [1-9]\d* operations: (Input/output error|Read-only file system);", found["msg"]), found["msg"]
        print("\n" + found["msg"])
    finally:
        bench.clean()


def test_a_drive_that_is_pulled_out_meanwhile(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    """One line that names the drive, and no figures; another filesystem on the same host goes on."""
    disk = plugged["lost"]
    results: list[dict[str, Any]] = []
    put_on(harness, disk)
    before = harness.must("ls -A /tmp /var/tmp /root /dev/shm")
    probing = threading.Thread(target=lambda: results.append(harness.module("sync_latency", {"path": AT, "rows": ["fdatasync"], "seconds": 20}, timeout=90)))
    bench.counters(disk, reset=True)
    probing.start()
    try:
        bench.wait_counted(disk, "host_writes", 200)  # the file takes some 40, each sync one or two
        bench.pull(disk)
        probing.join(90)
    finally:
        harness.run(f"umount -l {AT}")
        with states.exclusive(bench.paths):
            at = plugging.attach(bench.paths, [parse(dict(one)) for one in DISKS if one["name"] == disk.name], fresh=True)[disk.name]
        bench.disks[disk.name] = plugged[disk.name] = Disk(disk.name, at["device"], disk.by_id, disk.serial)
    assert_error(results[0], f"{AT}: fdatasync failed after ", f"{disk.kernel} went away while it was measured; see the kernel's log")
    assert harness.must("ls -A /tmp /var/tmp /root /dev/shm") == before


@pytest.mark.parametrize(
    "options, words",
    [
        ({"rows": ["fdatasnc"]}, "rows: there is no row 'fdatasnc' (did you mean 'fdatasync'?)"),
        ({"rows": ["fsync"], "min_ops": {"fdatasync": 1}}, "min_ops: the row 'fdatasync' is not measured (did you mean 'fsync'?)"),
        ({"max_p99_ms": {"fdatasync": "fast"}}, "max_p99_ms: fdatasync: 'fast' is no threshold; wanted a number above 0"),
        ({"seconds": 30}, "max_seconds: 120; wanted at least 480, which 16 rows of 30 s take"),
    ],
)
def test_a_request_that_makes_no_sense(harness: Harness, options: dict[str, Any], words: str) -> None:
    assert_error(harness.module("sync_latency", {"path": "/", **options}), words)
