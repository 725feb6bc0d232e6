# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated SSD against its own promises: what is counted exactly, what is lost, and what it costs.

Costs are differences. An operation is timed with a cost and with a larger one, in turns, so that what the client and the socket
add is in both and drops out. The client waits awake, because a sleeper is woken the later the longer it slept. Of each cost the
lowest of several medians counts: other load on the machine only ever adds.
"""

from __future__ import annotations

import errno
import os
import random
import select
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from simssd import SimSSD, SimSSDError
from simssd.nbd_client import HAS_FUA, READ, TRIM, WRITE, NBDClient, NBDError

KIB = 1024
MIB = 1024 * KIB
SIZE = 4 * MIB
BASE_US = 200  # long enough that the device goes to sleep, as it does with the cost added

Parameter = str | int


class Bench:
    """A directory of simulated SSDs and the connections to them."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._ssds: list[SimSSD] = []
        self._clients: list[NBDClient] = []

    def start(self, parameters: dict[str, Parameter] | None = None, size_bytes: int = SIZE, polling: bool = False) -> tuple[SimSSD, NBDClient]:
        ssd = SimSSD.start(self.run_dir, f"ssd{len(self._ssds)}", size_bytes, parameters or {})
        self._ssds.append(ssd)
        return ssd, self.connect(ssd, polling)

    def connect(self, ssd: SimSSD, polling: bool = False) -> NBDClient:
        self._clients.append(NBDClient(ssd.socket, polling))
        return self._clients[-1]

    def close(self) -> None:
        for client in self._clients:
            client.close()
        for ssd in self._ssds:
            if ssd.pid is not None:
                ssd.counters()  # raises if the backing file failed: no verdict on such a device means anything
            ssd.stop()


@pytest.fixture
def bench() -> Iterator[Bench]:
    # Not tmp_path: a unix socket's path ends at 107 bytes.
    run_dir = Path(tempfile.mkdtemp(prefix="simssd-"))
    opened = Bench(run_dir)
    try:
        yield opened
    finally:
        opened.close()
        shutil.rmtree(run_dir)


def pattern(length: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(length)


# ---- the pure parts ----


def test_model_tables(tmp_path: Path) -> None:
    done = subprocess.run(["make", "-C", str(HERE), f"BUILD={tmp_path}", "check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# ---- what things cost ----


@contextmanager
def real_time() -> Iterator[None]:
    """Lets the client be woken at once, as the device is, where that is allowed: its own delay is not what is measured."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


def lowest_medians(operation: Callable[[], object], switch: Callable[[int], None], costs_us: list[int], each: int, settled: int) -> list[float]:
    """Microseconds for one operation at each of the costs. Ends when the lowest have stood for `settled` batches."""
    lowest = [float("inf") for _cost in costs_us]
    since_lower = batches = 0
    while since_lower < settled and batches < 8 * settled:
        since_lower += 1
        batches += 1
        for i, cost_us in enumerate(costs_us):
            switch(cost_us)
            samples = []
            for _turn in range(each):
                began = time.perf_counter()
                operation()
                samples.append(time.perf_counter() - began)
            found = statistics.median(samples) * 1e6
            if found < 0.99 * lowest[i]:
                since_lower = 0
            lowest[i] = min(found, lowest[i])
    return lowest


def lowest(measure: Callable[[], float], settled: int) -> float:
    """The lowest figure, once it has stood for `settled` more: whatever else the host does only adds to it."""
    found, since_lower = float("inf"), 0
    for _turn in range(8 * settled):
        one = measure()
        since_lower = 0 if one < 0.99 * found else since_lower + 1
        found = min(one, found)
        if since_lower >= settled:
            break
    return found


def added_us(operation: Callable[[], object], ssd: SimSSD, key: str, cost_us: int = 2000, each: int = 9, settled: int = 8) -> float:
    """What raising one parameter by cost_us adds to an operation."""
    with real_time():
        low, high = lowest_medians(operation, lambda us: ssd.set(key, us), [BASE_US, BASE_US + cost_us], each, settled)
    return high - low


PAGE = pattern(4 * KIB)

COSTS: list[tuple[str, dict[str, Parameter], str, Callable[[NBDClient], object], float]] = [
    ("aligned read", {"straddle_parallel": 0}, "read_us", lambda c: c.read(8 * KIB, 4 * KIB), 1),
    ("straddling read", {"straddle_parallel": 0}, "read_us", lambda c: c.read(512, 4 * KIB), 2),
    ("straddling read, costly", {"straddle_parallel": 0}, "straddle_us", lambda c: c.read(512, 4 * KIB), 1),
    ("straddling read, hidden", {"straddle_parallel": 1}, "read_us", lambda c: c.read(512, 4 * KIB), 1),
    ("straddling read, one channel", {"channels": 1}, "read_us", lambda c: c.read(512, 4 * KIB), 2),
    ("four pages, one after another", {"straddle_parallel": 0}, "read_us", lambda c: c.read(0, 16 * KIB), 4),
    ("four pages on two channels", {"channels": 2}, "read_us", lambda c: c.read(0, 16 * KIB), 2),
    ("whole-page write", {}, "program_us", lambda c: c.write(0, PAGE), 1),
    ("whole-page write needs no read", {}, "rmw_us", lambda c: c.write(0, PAGE), 0),
    ("partial write programs", {}, "program_us", lambda c: c.write(512, PAGE[:512]), 1),
    ("partial write reads first", {}, "rmw_us", lambda c: c.write(512, PAGE[:512]), 1),
    ("rmw_us follows read_us", {}, "read_us", lambda c: c.write(512, PAGE[:512]), 1),
    ("straddling write, one channel", {"channels": 1}, "program_us", lambda c: c.write(512, PAGE), 2),
    ("flush", {}, "flush_us", lambda c: c.flush(), 1),
    ("flush that lies", {"flush": "ignore"}, "flush_us", lambda c: c.flush(), 0),
    ("controller", {}, "transfer_us", lambda c: c.read(0, 512), 1),
    ("cached write", {"write_cache": 1, "writeback_ms": 3600000}, "program_us", lambda c: c.write(0, PAGE), 0),
    ("cached write and its transfer", {"write_cache": 1, "writeback_ms": 3600000}, "transfer_us", lambda c: c.write(0, PAGE), 1),
    ("FUA write through the cache", {"write_cache": 1}, "program_us", lambda c: c.write(0, PAGE, fua=True), 1),
    ("FUA write, ignored", {"write_cache": 1, "fua": "ignore"}, "program_us", lambda c: c.write(0, PAGE, fua=True), 0),
    ("FUA write, capacitors", {"write_cache": 1, "plp": 1}, "program_us", lambda c: c.write(0, PAGE, fua=True), 0),
    ("SLC cache", {"op": 100, "block_pages": 16, "slc_size": "64M", "idle_gc": 3600000}, "program_us", lambda c: c.write(0, PAGE), 0.25),
    ("flush, capacitors", {"write_cache": 1, "plp": 1}, "flush_us", lambda c: c.flush(), 0),
]


@pytest.mark.parametrize(("parameters", "key", "operation", "times"), [row[1:] for row in COSTS], ids=[row[0] for row in COSTS])
def test_cost(bench: Bench, parameters: dict[str, Parameter], key: str, operation: Callable[[NBDClient], object], times: float) -> None:
    ssd, client = bench.start({key: BASE_US, **parameters}, polling=True)
    found = added_us(lambda: operation(client), ssd, key)
    assert found == pytest.approx(times * 2000, rel=0.1, abs=200)


@pytest.mark.parametrize("cost_us", [100, 500])
def test_small_costs(bench: Bench, cost_us: int) -> None:
    ssd, client = bench.start({"read_us": BASE_US}, polling=True)
    # A tenth of so little is less than a busy host adds to a wake-up for a while; what the device is off by, it is off by every time.
    found = [added_us(lambda: client.read(0, 4 * KIB), ssd, "read_us", cost_us, each=5, settled=80)]
    while found[-1] != pytest.approx(cost_us, rel=0.1) and len(found) < 5:
        found.append(added_us(lambda: client.read(0, 4 * KIB), ssd, "read_us", cost_us, each=5, settled=80))
    assert found[-1] == pytest.approx(cost_us, rel=0.1), found


def read_in_parallel(client: NBDClient, pages: int) -> None:
    for handle in [client.submit(READ, page * 4 * KIB, 4 * KIB) for page in range(pages)]:
        client.result(handle)


@pytest.mark.parametrize(("channels", "requests", "rounds"), [(8, 8, 1), (8, 16, 2), (2, 8, 4), (1, 8, 8)])
def test_requests_overlap_on_channels(bench: Bench, channels: int, requests: int, rounds: int) -> None:
    ssd, client = bench.start({"channels": channels, "read_us": BASE_US}, polling=True)
    found = added_us(lambda: read_in_parallel(client, requests), ssd, "read_us", 3000, each=5)
    assert found == pytest.approx(rounds * 3000, rel=0.1)


def test_flush_waits_for_every_page(bench: Bench) -> None:
    """12 pages on 4 channels are 3 programs one after another, then the flush itself."""
    ssd, client = bench.start({"write_cache": 1, "channels": 4, "writeback_ms": 3600000, "program_us": BASE_US}, polling=True)

    def write_and_flush() -> None:
        client.write(0, pattern(48 * KIB))
        client.flush()

    assert added_us(write_and_flush, ssd, "program_us", each=5) == pytest.approx(3 * 2000, rel=0.1)
    assert added_us(write_and_flush, ssd, "flush_us", each=5) == pytest.approx(2000, rel=0.1)


def test_full_cache_is_as_slow_as_the_medium(bench: Bench) -> None:
    """8 slots, 2 channels, 1 ms a page: of 200 pages all but the last 8 are programmed before the last write is answered."""
    _ssd, client = bench.start({"write_cache": 1, "cache_size": 32 * KIB, "channels": 2, "program_us": 1000})

    def fill() -> float:
        began = time.perf_counter()
        for page in range(200):
            client.write(page * 4 * KIB, PAGE)
        took = time.perf_counter() - began
        client.flush()
        return took

    with real_time():
        took = lowest(fill, 8)
    assert took == pytest.approx((200 - 8) / 2 * 1e-3, rel=0.1)


def test_no_costs_no_waiting(bench: Bench) -> None:
    ssd, client = bench.start({"write_cache": 1})
    for page in range(300):
        client.write(page * 4 * KIB, PAGE)
        client.read(page * 4 * KIB, 4 * KIB)
    client.flush()
    assert ssd.counters()["waits"] == 0


# ---- what is counted ----


@pytest.mark.parametrize("page_size", [4 * KIB, 8 * KIB, 16 * KIB])
def test_phase_moves_the_fast_offset(bench: Bench, page_size: int) -> None:
    ssd, client = bench.start({"page_size": page_size})
    offsets = range(0, page_size, 512)
    for phase in offsets:
        ssd.set("page_phase", phase)
        ssd.reset()
        client.read(page_size + phase, page_size)
        assert (ssd.counters()["straddles"], ssd.counters()["media_page_reads"]) == (0, 1)
        for handle in [client.submit(READ, page_size + offset, page_size) for offset in offsets if offset != phase]:
            client.result(handle)
        others = len(offsets) - 1
        assert (ssd.counters()["straddles"], ssd.counters()["media_page_reads"]) == (others, 1 + 2 * others)


COUNTED = ["host_write_bytes", "media_write_bytes", "media_page_programs", "rmw", "media_page_reads", "straddles"]

WRITES: list[tuple[str, dict[str, Parameter], list[tuple[int, int]], list[int]]] = [
    # name, parameters, writes (offset, length), then COUNTED after a flush
    ("whole pages", {}, [(0, 64 * KIB)], [64 * KIB, 64 * KIB, 16, 0, 0, 0]),
    ("amplification 2", {}, [(512, 4 * KIB)], [4 * KIB, 8 * KIB, 2, 2, 2, 1]),
    ("amplification 2 in 8 KiB", {"page_size": 8 * KIB}, [(4 * KIB, 8 * KIB), (20 * KIB, 8 * KIB)], [16 * KIB, 32 * KIB, 4, 4, 4, 2]),
    ("8 KiB at its phase", {"page_size": 8 * KIB, "page_phase": 4 * KIB}, [(4 * KIB, 8 * KIB)], [8 * KIB, 8 * KIB, 1, 0, 0, 0]),
    ("one sector of 16 KiB", {"page_size": 16 * KIB}, [(512, 512)], [512, 16 * KIB, 1, 1, 1, 0]),
    ("halves, no cache", {}, [(0, 2 * KIB), (2 * KIB, 2 * KIB)], [4 * KIB, 8 * KIB, 2, 2, 2, 0]),
    ("halves merge in the cache", {"write_cache": 1}, [(0, 2 * KIB), (2 * KIB, 2 * KIB)], [4 * KIB, 4 * KIB, 1, 0, 0, 0]),
    ("misaligned but adjacent", {"write_cache": 1}, [(512 + i * 4 * KIB, 4 * KIB) for i in range(8)], [32 * KIB, 36 * KIB, 9, 2, 2, 8]),
    ("overwritten in the cache", {"write_cache": 1}, [(0, 4 * KIB)] * 10, [40 * KIB, 4 * KIB, 1, 0, 0, 0]),
    ("half stays half", {"write_cache": 1}, [(0, 2 * KIB)], [2 * KIB, 4 * KIB, 1, 1, 1, 0]),
]


@pytest.mark.parametrize(("parameters", "writes", "expected"), [row[1:] for row in WRITES], ids=[row[0] for row in WRITES])
def test_media_bytes(bench: Bench, parameters: dict[str, Parameter], writes: list[tuple[int, int]], expected: list[int]) -> None:
    ssd, client = bench.start({"writeback_ms": 3600000, **parameters})
    for offset, length in writes:
        client.write(offset, pattern(length))
    client.flush()
    counted = ssd.counters()
    assert [counted[name] for name in COUNTED] == expected


def test_every_request_is_counted_as_what_it_was(bench: Bench) -> None:
    ssd, client = bench.start()
    client.write(0, PAGE)
    client.write(0, PAGE, fua=True)
    client.read(0, 8 * KIB)
    client.trim(0, 8 * KIB)
    client.zero(4 * KIB, 4 * KIB)
    client.zero(4 * KIB, 4 * KIB)
    client.flush()
    counted = ssd.counters()
    expected = {
        "host_reads": 1, "host_read_bytes": 8 * KIB, "host_writes": 2, "host_write_bytes": 8 * KIB, "fua_writes": 1, "flushes": 1,
        "discards": 1, "discard_bytes": 8 * KIB, "zeroes": 2, "zero_bytes": 8 * KIB, "mutations": 5, "media_page_programs": 2,
    }  # fmt: skip
    assert {name: counted[name] for name in expected} == expected


def test_the_window_begins_again_and_the_total_goes_on(bench: Bench) -> None:
    ssd, client = bench.start()
    client.write(0, PAGE)
    ssd.reset()
    assert set(ssd.counters().values()) == {0}
    client.read(0, 4 * KIB)
    assert (ssd.counters()["host_writes"], ssd.counters()["host_reads"]) == (0, 1)
    assert (ssd.counters(window=False)["host_writes"], ssd.counters(window=False)["host_reads"]) == (1, 1)


def test_the_cache_answers_reads_of_what_it_holds(bench: Bench) -> None:
    ssd, client = bench.start({"write_cache": 1, "writeback_ms": 3600000})
    client.write(512, PAGE)
    assert client.read(512, 4 * KIB) == PAGE
    assert ssd.counters()["media_page_reads"] == 0
    assert client.read(0, 8 * KIB) == bytes(512) + PAGE + bytes(4 * KIB - 512)
    assert ssd.counters()["media_page_reads"] == 2


# ---- what is kept and what is lost ----

KEPT: list[tuple[str, dict[str, Parameter], bool, bool, bool, bool]] = [
    # name, parameters, FUA, flush, kept over a power cut, kept over a stop
    ("written", {"write_cache": 1}, False, False, False, True),
    ("flushed", {"write_cache": 1}, False, True, True, True),
    ("FUA", {"write_cache": 1}, True, False, True, True),
    ("flush ignored", {"write_cache": 1, "flush": "ignore"}, False, True, False, True),
    ("FUA with flush ignored", {"write_cache": 1, "flush": "ignore"}, True, False, True, True),
    ("FUA ignored", {"write_cache": 1, "fua": "ignore"}, True, False, False, True),
    ("no cache", {"write_cache": 0}, False, False, True, True),
    ("capacitors", {"write_cache": 1, "plp": 1}, False, False, True, True),
    ("capacitors and no cache", {"write_cache": 0, "plp": 1}, False, False, True, True),
]


@pytest.mark.parametrize(("parameters", "fua", "flush", "over_cut", "over_stop"), [row[1:] for row in KEPT], ids=[row[0] for row in KEPT])
def test_kept_or_lost(bench: Bench, parameters: dict[str, Parameter], fua: bool, flush: bool, over_cut: bool, over_stop: bool) -> None:
    for orderly, kept in ((False, over_cut), (True, over_stop)):
        ssd, client = bench.start({"writeback_ms": 3600000, **parameters})
        client.write(0, PAGE, fua=fua)
        if flush:
            client.flush()
        assert client.read(0, 4 * KIB) == PAGE
        if orderly:
            ssd.stop()
        else:
            assert ssd.power_cut()["cache_lost_bytes"] == (0 if kept else 4 * KIB)
        assert ssd.pid is None
        ssd.power_on()
        assert bench.connect(ssd).read(0, 4 * KIB) == (PAGE if kept else bytes(4 * KIB))


@pytest.mark.parametrize(("parameters", "fua", "flush", "kept"), [row[1:5] for row in KEPT], ids=[row[0] for row in KEPT])
def test_a_copy_is_what_a_power_cut_leaves(bench: Bench, parameters: dict[str, Parameter], fua: bool, flush: bool, kept: bool) -> None:
    ssd, client = bench.start({"writeback_ms": 3600000, **parameters})
    client.write(4 * KIB, PAGE, fua=fua)
    if flush:
        client.flush()
    copied = bench.run_dir / "copy of it"
    ssd.copy(copied)
    assert client.read(4 * KIB, 4 * KIB) == PAGE, "it does not go on"
    client.write(8 * KIB, PAGE)  # after the instant
    assert copied.read_bytes() == bytes(4 * KIB) + (PAGE if kept else bytes(4 * KIB)) + bytes(SIZE - 8 * KIB)
    assert ssd.counters()["cache_lost_bytes"] == 0


def test_a_copy_has_a_write_under_way_page_by_page(bench: Bench) -> None:
    """As after a power cut; but here the write ends, and is answered."""
    ssd, client = bench.start({"channels": 1, "program_us": 400_000})
    with real_time():
        handle = client.submit(WRITE, 0, data=pattern(16 * KIB))
        time.sleep(1)
        ssd.copy(bench.run_dir / "copy")
    client.result(handle)
    with (bench.run_dir / "copy").open("rb") as copied:
        assert copied.read(16 * KIB) == pattern(16 * KIB)[: 8 * KIB] + bytes(8 * KIB)
    assert client.read(0, 16 * KIB) == pattern(16 * KIB)
    assert ssd.counters()["media_page_programs"] == 4


SLOT_PAGES = 3
SLOTS = 16


def writes_numbers(client: NBDClient, durable: str, acknowledged: list[int], until: threading.Event) -> None:
    """Overwrites slots of some pages with rising numbers, several at a time, and notes each when it is answered."""
    numbers = [0] * SLOTS
    while not until.is_set():
        handles = []
        for slot in range(SLOTS):
            numbers[slot] += 1
            data = numbers[slot].to_bytes(8, "little") * (SLOT_PAGES * 4 * KIB // 8)
            handles.append(client.submit(WRITE, slot * SLOT_PAGES * 4 * KIB, data=data, flags=int(durable == "fua")))
        if durable == "flush":
            for handle in handles:
                client.result(handle)
            client.flush()
            acknowledged[:] = numbers
        else:
            for slot, handle in enumerate(handles):
                client.result(handle)
                acknowledged[slot] = numbers[slot]


@pytest.mark.parametrize(
    ("durable", "parameters"),
    [
        ("written", {"write_cache": 0, "program_us": 200}),
        ("written", {"write_cache": 0, "program_us": 200, "straddle_parallel": 0}),
        ("fua", {"write_cache": 1, "program_us": 200}),
        ("flush", {"write_cache": 1, "program_us": 200, "cache_size": 64 * KIB}),
        ("written", {"write_cache": 1, "program_us": 200, "plp": 1}),
    ],
)
def test_a_copy_has_whatever_was_answered(bench: Bench, durable: str, parameters: dict[str, Parameter]) -> None:
    """While it goes on writing: nothing that was answered before the copy is missing, and each page is there or not."""
    ssd, client = bench.start({"writeback_ms": 3600000, "channels": 4, **parameters})
    acknowledged = [0] * SLOTS
    enough = threading.Event()
    writer = threading.Thread(target=writes_numbers, args=(client, durable, acknowledged, enough))
    writer.start()
    torn = 0
    dice = random.Random(11)
    try:
        for turn in range(40):
            time.sleep(dice.random() * 0.02)
            before = list(acknowledged)
            copied = bench.run_dir / f"copy{turn}"
            assert ssd.copy(copied)["held_ns"] > 0
            data = copied.read_bytes()
            copied.unlink()
            for slot in range(SLOTS):
                pages = [data[at : at + 4 * KIB] for at in range(slot * SLOT_PAGES * 4 * KIB, (slot + 1) * SLOT_PAGES * 4 * KIB, 4 * KIB)]
                assert all(page == page[:8] * (4 * KIB // 8) for page in pages), "a page is there in part"
                numbers = [int.from_bytes(page[:8], "little") for page in pages]
                assert min(numbers) >= before[slot] and max(numbers) <= min(numbers) + 1, (before[slot], numbers)
                torn += len(set(numbers)) > 1
    finally:
        enough.set()
        writer.join()
    assert min(acknowledged) > 40, "the device did not go on"
    if not parameters["write_cache"]:
        assert torn, "no copy fell into a write"


def test_a_copy_is_sparse(bench: Bench) -> None:
    ssd, client = bench.start(size_bytes=1 << 30)
    client.write(512 * MIB, PAGE)
    client.flush()
    assert ssd.copy(bench.run_dir / "copy")["bytes"] <= 64 * KIB
    found = (bench.run_dir / "copy").stat()
    assert found.st_size == 1 << 30 and found.st_blocks * 512 <= 64 * KIB


@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no second filesystem")
def test_a_copy_may_be_on_another_filesystem(bench: Bench) -> None:
    ssd, client = bench.start()
    client.write(1 * MIB, pattern(600 * KIB))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        ssd.copy(Path(other) / "copy")
        assert (Path(other) / "copy").read_bytes() == ssd.file.read_bytes() == bytes(MIB) + pattern(600 * KIB) + bytes(SIZE - MIB - 600 * KIB)


def test_a_copy_replaces_nothing(bench: Bench) -> None:
    ssd, client = bench.start()
    client.write(0, PAGE)
    with pytest.raises(SimSSDError, match=f"{ssd.file}: File exists"):
        ssd.copy(ssd.file)
    with pytest.raises(SimSSDError, match="No such file or directory"):
        ssd.copy(bench.run_dir / "none" / "copy")
    assert client.read(0, 4 * KIB) == PAGE


def test_the_cache_is_written_back_with_time(bench: Bench) -> None:
    ssd, client = bench.start({"write_cache": 1, "writeback_ms": 1000})
    client.write(0, PAGE)
    assert ssd.counters()["media_page_programs"] == 0
    deadline = time.monotonic() + 5
    while ssd.counters()["media_page_programs"] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert ssd.power_cut()["cache_lost_bytes"] == 0


def test_a_write_under_way_is_lost_page_by_page(bench: Bench) -> None:
    """Four pages on one channel, 400 ms each, cut after 1 s: two are on the medium, and the write was never answered."""
    ssd, client = bench.start({"channels": 1, "program_us": 400_000})
    with real_time():
        handle = client.submit(WRITE, 0, data=pattern(16 * KIB))
        time.sleep(1)
        ssd.command("power_cut")
    with pytest.raises(NBDError):
        client.result(handle)
    ssd.command("power_on")
    assert client.read(0, 16 * KIB) == pattern(16 * KIB)[: 8 * KIB] + bytes(8 * KIB)


def test_no_power_no_answers(bench: Bench) -> None:
    ssd, client = bench.start({"write_cache": 1, "writeback_ms": 3600000})
    client.write(0, PAGE)
    client.flush()
    assert ssd.command("power_cut")["cache_lost_bytes"] == 0
    for request in (lambda: client.read(0, 512), lambda: client.write(0, PAGE), client.flush, lambda: client.trim(0, 4 * KIB)):
        with pytest.raises(NBDError) as refused:
            request()
        assert refused.value.errno == errno.EIO
    ssd.command("power_on")
    assert client.read(0, 4 * KIB) == PAGE


@pytest.mark.parametrize(("key", "value"), [("write_cache", 0), ("page_phase", 512)])
def test_the_cache_is_written_out_before_the_device_changes(bench: Bench, key: str, value: int) -> None:
    ssd, client = bench.start({"write_cache": 1, "writeback_ms": 3600000, "program_us": 1000})
    client.write(0, pattern(64 * KIB))
    ssd.set(key, value)
    assert client.read(0, 64 * KIB) == pattern(64 * KIB)
    assert ssd.power_cut()["cache_lost_bytes"] == 0


@pytest.mark.parametrize(
    "parameters",
    [
        {"write_cache": 0},
        {"write_cache": 1, "cache_size": 64 * KIB, "program_us": 50},
        {"write_cache": 1, "cache_size": 8 * KIB, "page_size": 8 * KIB, "page_phase": 1536, "channels": 3},
        {"write_cache": 1, "writeback_ms": 1, "page_size": 16 * KIB, "program_us": 300},
    ],
)
def test_reads_give_what_was_written(bench: Bench, parameters: dict[str, Parameter]) -> None:
    """Random requests, 16 under way at a time on ranges of their own, against a plain array of bytes."""
    ssd, client = bench.start(parameters, 1 * MIB)
    dice = random.Random(7)
    expected = bytearray(1 * MIB)
    for _turn in range(60):
        handles = []
        for region in range(0, 1 * MIB, 64 * KIB):
            offset = region + 512 * dice.randrange(64)
            length = 512 * dice.randint(1, 64)
            kind = dice.choice(["write", "write", "fua", "trim", "zero", "read"])
            if kind in ("write", "fua"):
                data = dice.randbytes(length)
                expected[offset : offset + length] = data
                handles.append((client.submit(WRITE, offset, data=data, flags=int(kind == "fua")), b""))
            elif kind == "read":
                handles.append((client.submit(READ, offset, length), bytes(expected[offset : offset + length])))
            else:
                expected[offset : offset + length] = bytes(length)
                handles.append((client.submit(4 if kind == "trim" else 6, offset, length), b""))
        for handle, data in handles:
            assert client.result(handle) == data
    assert client.read(0, 1 * MIB) == expected
    client.flush()
    ssd.power_cut()
    assert ssd.file.read_bytes() == expected


# ---- the flash translation layer ----

AGEING: dict[str, Parameter] = {"op": "12.5", "block_pages": 16, "channels": 4}  # of 4 MiB: 1024 pages, 72 blocks, 8 spare


def overwrite(client: NBDClient, writes: int, seed: int = 1, pages: int = SIZE // (4 * KIB)) -> None:
    """Random pages, 32 under way at a time."""
    dice = random.Random(seed)
    for _turn in range(0, writes, 32):
        for handle in [client.submit(WRITE, dice.randrange(pages) * 4 * KIB, data=PAGE) for _request in range(32)]:
            client.result(handle)


@pytest.mark.parametrize("parameters", [{}, {"write_cache": 1, "cache_size": 128 * KIB}, {"gc_step": "amortised", "gc_low": 3}])
def test_garbage_collection_is_counted(bench: Bench, parameters: dict[str, Parameter]) -> None:
    ssd, client = bench.start({**AGEING, **parameters})
    client.write(0, bytes(SIZE))
    client.flush()
    counted, smart = ssd.counters(), ssd.smart()
    assert (counted["gc_moves"], counted["media_page_programs"], smart["mapped"], smart["host_pages"]) == (0, 1024, 1024, 1024)
    overwrite(client, 4096)
    client.flush()
    counted, smart = ssd.counters(), ssd.smart()
    assert counted["gc_moves"] == smart["gc_moves"] > 2048
    assert counted["erases"] == smart["erases"] == round(smart["erases_mean"] * smart["blocks"])
    assert smart["erases_min"] <= smart["erases_mean"] <= smart["erases_max"]
    assert counted["media_page_programs"] == smart["host_pages"] + smart["gc_moves"]
    assert counted["media_page_reads"] == counted["gc_moves"]
    assert smart["host_units_written"] == -(-counted["host_write_bytes"] // 512_000)
    assert smart["media_units_written"] == -(-counted["media_write_bytes"] // 512_000)
    assert 0 < smart["free"] <= smart["blocks"] == 72


def test_garbage_collection_can_be_free(bench: Bench) -> None:
    ssd, client = bench.start({**AGEING, "gc": "off"})
    overwrite(client, 8192)
    smart = ssd.smart()
    assert (ssd.counters()["media_page_programs"], smart["gc_moves"], smart["erases"]) == (8192, 0, 0)


def test_wear_is_told_in_per_cent_of_the_rating(bench: Bench) -> None:
    ssd, client = bench.start({**AGEING, "rated_cycles": 10})
    for turn in range(9):
        client.write(0, pattern(SIZE, turn))
    smart = ssd.smart()
    assert smart["percentage_used"] == int(smart["erases_mean"] * 10) == 70
    ssd.set("rated_cycles", 1)
    assert ssd.smart()["percentage_used"] == 255


@pytest.mark.parametrize(
    ("key", "each"),
    [("program_us", lambda after: after["media_page_programs"]), ("read_us", lambda after: after["gc_moves"]), ("erase_us", lambda after: after["erases"])],
)
def test_garbage_collection_takes_the_channels_time(bench: Bench, key: str, each: Callable[[dict[str, int]], int]) -> None:
    """On one channel the same writes take as much longer as the operations that were counted cost."""
    cost_us = 500
    ssd, client = bench.start({**AGEING, "channels": 1})
    client.write(0, bytes(SIZE))
    overwrite(client, 2048)
    ssd.set(key, cost_us)
    ssd.reset()
    began = time.perf_counter()
    overwrite(client, 512, seed=2)
    took_us = (time.perf_counter() - began) * 1e6
    assert each(ssd.counters()) > 16
    assert took_us >= each(ssd.counters()) * cost_us
    assert ssd.counters()["waits"] > 0


def test_a_trimmed_page_is_moved_no_more(bench: Bench) -> None:
    ssd, client = bench.start(AGEING)
    client.write(0, bytes(SIZE))
    overwrite(client, 2048)
    client.trim(512, SIZE - 1024)
    assert ssd.smart()["mapped"] == 2, "the pages that were trimmed in part"
    client.zero(0, SIZE)
    assert ssd.smart()["mapped"] == 0
    ssd.reset()
    client.write(0, bytes(SIZE))
    assert ssd.counters()["gc_moves"] == 0


def test_a_drive_may_ignore_trim(bench: Bench) -> None:
    ssd, client = bench.start({**AGEING, "trim": "ignore"})
    client.write(0, pattern(SIZE))
    client.trim(0, SIZE)
    assert (ssd.counters()["discards"], ssd.smart()["mapped"]) == (1, 1024)
    assert client.read(0, SIZE) == pattern(SIZE)
    ssd.set("trim", "honest")
    client.trim(0, SIZE)
    assert (client.read(0, SIZE), ssd.smart()["mapped"]) == (bytes(SIZE), 0)


@pytest.mark.parametrize("parameters", [{}, AGEING], ids=["plain", "op"])
def test_unmapped_pages_have_a_cost_of_their_own(bench: Bench, parameters: dict[str, Parameter]) -> None:
    ssd, client = bench.start({**parameters, "unmapped_us": BASE_US, "read_us": BASE_US}, polling=True)
    client.write(0, pattern(SIZE // 2))
    assert added_us(lambda: client.read(0, 4 * KIB), ssd, "unmapped_us") == pytest.approx(0, abs=200)
    assert added_us(lambda: client.read(SIZE // 2, 4 * KIB), ssd, "unmapped_us") == pytest.approx(2000, rel=0.1)
    client.trim(0, 4 * KIB)
    assert added_us(lambda: client.read(0, 4 * KIB), ssd, "unmapped_us") == pytest.approx(2000, rel=0.1)


def test_trim_during_garbage_collection(bench: Bench) -> None:
    """Trims and writes at once, where victims are half emptied at any time; the data are as they should be."""
    ssd, client = bench.start({**AGEING, "gc_step": "amortised", "gc_low": 4, "program_us": 20})
    dice = random.Random(5)
    expected = bytearray(SIZE)
    for _turn in range(200):
        handles = []
        for page in dice.sample(range(1024), 32):
            written = dice.random() < 0.7
            expected[page * 4 * KIB : (page + 1) * 4 * KIB] = PAGE if written else bytes(4 * KIB)
            handles.append(client.submit(WRITE, page * 4 * KIB, data=PAGE) if written else client.submit(TRIM, page * 4 * KIB, 4 * KIB))
        for handle in handles:
            client.result(handle)
    assert client.read(0, SIZE) == expected
    assert ssd.smart()["mapped"] == expected.count(PAGE[:64])


def test_a_power_cut_and_a_copy_during_garbage_collection(bench: Bench) -> None:
    """What is booked on the channels goes with the power; what was answered stays, and the drive goes on ageing."""
    ssd, client = bench.start({**AGEING, "program_us": 100, "erase_us": 2000})
    client.write(0, bytes(SIZE))
    for turn in range(5):
        overwrite(client, 256, turn)
        client.write(0, pattern(4 * KIB, turn))
        begun = [client.submit(WRITE, page * 4 * KIB, data=PAGE) for page in range(1, 65)]
        copied = bench.run_dir / f"copy{turn}"
        ssd.copy(copied)
        before = ssd.smart()
        ssd.power_cut()
        with suppress(OSError):
            client.result(begun[-1])
        assert copied.read_bytes()[: 4 * KIB] == ssd.file.read_bytes()[: 4 * KIB] == pattern(4 * KIB, turn)
        ssd.power_on()
        client = bench.connect(ssd)
        after = ssd.smart()
        assert after["mapped"] == 1024 and before["host_pages"] <= after["host_pages"] <= before["host_pages"] + 64
    assert ssd.smart()["gc_moves"] > 0


def kill(ssd: SimSSD) -> None:
    """As the kernel ends it when memory runs out: in the middle of anything."""
    pid = ssd.pid
    assert pid is not None
    process = os.pidfd_open(pid)
    signal.pidfd_send_signal(process, signal.SIGKILL)
    select.select([process], [], [])
    os.close(process)
    ssd.stop()  # removes what is left of it


@pytest.mark.parametrize("parameters", [{}, {"gc_step": "amortised", "gc_low": 3}, {"slc_size": 64 * KIB, "idle_gc": 1}])
def test_a_process_may_be_killed_while_it_collects(bench: Bench, parameters: dict[str, Parameter]) -> None:
    ssd, client = bench.start({**AGEING, **parameters})
    client.write(0, bytes(SIZE))
    dice = random.Random(3)
    for turn in range(10):
        before = ssd.smart()
        overwrite(client, 320, turn)
        for _write in range(64):  # answers that nobody takes: more would fill the socket
            client.submit(WRITE, dice.randrange(1024) * 4 * KIB, data=PAGE)
        kill(ssd)
        ssd.power_on()
        client = bench.connect(ssd)
        assert ssd.smart()["mapped"] == 1024
        assert ssd.smart()["host_pages"] >= before["host_pages"] + 320


@pytest.mark.parametrize("end", ["stop", "power_cut", "kill"])
def test_the_age_outlives_the_process(bench: Bench, end: str) -> None:
    ssd, client = bench.start(AGEING)
    client.write(0, bytes(SIZE))
    overwrite(client, 2048)
    before = ssd.smart()
    if end == "kill":
        kill(ssd)
    else:
        getattr(ssd, end)()
    ssd.power_on()
    after = ssd.smart()
    assert after == before
    overwrite(bench.connect(ssd), 512, seed=3)
    assert ssd.smart()["gc_moves"] > before["gc_moves"]


def lose(ssd: SimSSD) -> None:
    ssd.side_file.unlink()


def lose_the_data(ssd: SimSSD) -> None:
    ssd.file.unlink()


def shorten(ssd: SimSSD) -> None:
    os.truncate(ssd.side_file, 100)


def zero_the_end(ssd: SimSSD) -> None:
    length = ssd.side_file.stat().st_size
    os.truncate(ssd.side_file, length // 2)
    os.truncate(ssd.side_file, length)


def scramble(ssd: SimSSD) -> None:
    ssd.side_file.write_bytes(pattern(ssd.side_file.stat().st_size))


SPOILT: list[tuple[Callable[[SimSSD], None] | None, dict[str, Parameter], str]] = [
    (lose, AGEING, r"img\.ftl: missing"),
    (lose_the_data, AGEING, r"img\.ftl: left of an earlier drive"),
    (shorten, AGEING, r"img\.ftl: damaged, or of another drive: its length"),
    (zero_the_end, AGEING, r"img\.ftl: damaged: the map"),
    (scramble, AGEING, r"img\.ftl: damaged: it does not begin"),
    (None, {**AGEING, "op": 25}, r"img\.ftl: damaged, or of another drive: its length"),
    (None, {**AGEING, "slc_size": MIB, "idle_gc": 1000}, r"img\.ftl: of another drive: size, page_size, page_phase, op"),
    (None, {}, "img: has a side file: it is a drive with op=, and is started with it"),
]


@pytest.mark.parametrize(("spoil", "parameters", "message"), SPOILT)
def test_a_side_file_that_does_not_fit(bench: Bench, spoil: Callable[[SimSSD], None] | None, parameters: dict[str, Parameter], message: str) -> None:
    ssd, client = bench.start(AGEING)
    client.write(0, pattern(SIZE))
    ssd.stop()
    if spoil is not None:
        spoil(ssd)
    before = {path.name: path.read_bytes() for path in (ssd.file, ssd.side_file) if path.exists()}
    with pytest.raises(SimSSDError, match=message):
        SimSSD.start(bench.run_dir, ssd.name, SIZE, parameters)
    after = {path.name: path.read_bytes() for path in (ssd.file, ssd.side_file) if path.exists() and path.stat().st_size}
    assert after == before
    new = SimSSD.start(bench.run_dir, ssd.name, SIZE, AGEING, fresh=True)
    assert new.smart()["host_pages"] == 0


def test_idle_time_is_used(bench: Bench) -> None:
    ssd, client = bench.start(AGEING)
    client.write(0, bytes(SIZE))
    overwrite(client, 2048)
    assert ssd.smart()["free"] <= 2
    ssd.set("idle_gc", 10)
    deadline = time.monotonic() + 10
    while ssd.smart()["free"] < 4:  # half of the spare blocks
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_an_slc_cache_is_emptied_in_idle_time(bench: Bench) -> None:
    ssd, client = bench.start({**AGEING, "slc_size": MIB, "idle_gc": 3600000})
    client.write(0, bytes(2 * MIB))
    assert (ssd.smart()["mapped"], ssd.smart()["free"]) == (512, 72 - 16), "half of it is in the cache"
    ssd.set("idle_gc", 1)
    deadline = time.monotonic() + 10
    while ssd.smart()["gc_moves"] < 256:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert (ssd.smart()["mapped"], ssd.smart()["free"], ssd.counters()["gc_moves"]) == (512, 72 - 32, 256)


def test_a_phase_stays(bench: Bench) -> None:
    ssd, client = bench.start({**AGEING, "page_phase": 512})
    assert ssd.smart()["pages"] == 1025
    client.write(0, bytes(SIZE))
    assert ssd.smart()["mapped"] == 1025
    with pytest.raises(SimSSDError, match="page_phase=1024: cannot change while the device runs with op"):
        ssd.set("page_phase", 1024)


# ---- parameters and the process ----

REFUSED: list[tuple[dict[str, Parameter], str]] = [
    ({"page_size": 3000}, "page_size=3000: expected a power of two"),
    ({"page_size": 256}, "page_size=256: expected 512 to 1048576"),
    ({"page_size": "2M"}, "page_size=2M: expected 512 to 1048576"),
    ({"page_phase": 100}, "page_phase=100: expected a multiple of 512"),
    ({"page_phase": 4096}, "page_phase=4096: expected less than page_size=4096"),
    ({"channels": 0}, "channels=0: expected 1 to 256"),
    ({"read_us": "fast"}, "read_us=fast: expected a whole number"),
    ({"read_us": "-1"}, "read_us=-1: expected a whole number"),
    ({"read_us": "1.5"}, "read_us=1.5: expected a whole number"),
    ({"read_us": "1K"}, "read_us=1K: expected a whole number"),
    ({"cache_size": "16 MiB"}, "cache_size=16 MiB: expected a whole number of bytes"),
    ({"cache_size": 1024}, "cache_size=1024: expected at least one page of 4096"),
    ({"write_cache": 2}, "write_cache=2: expected 0 to 1"),
    ({"plp": 2}, "plp=2: expected 0 to 1"),
    ({"flush": "maybe"}, "flush=maybe: expected one of: honest, ignore"),
    ({"noise": "pink"}, "noise=pink: expected one of: none, drift, bursts, lognormal, pareto"),
    ({"reed_us": 1}, "reed_us: unknown parameter"),
    ({"op": 0}, "op=0: makes 0 spare blocks of block_pages=64, and gc_low=2 needs 4; raise op or size, or lower gc_low or block_pages"),
    ({"op": "12.5", "gc_low": 7, "block_pages": 16}, "op=12.5: makes 8 spare blocks of block_pages=16, and gc_low=7 needs 9"),
    ({"op": "12,5"}, "op=12,5: expected a number of per cent"),
    ({"op": "-1"}, "op=-1: expected a number of per cent"),
    ({"op": "1e3"}, "op=1e3: expected a number of per cent"),
    ({"op": 1001}, "op=1001: expected 0 to 1000"),
    ({"op": 100, "gc_low": 1}, "gc_low=1: expected 2 to"),
    ({"op": 100, "gc": "lazy"}, "gc=lazy: expected one of: greedy, off"),
    ({"op": 100, "gc_step": 4}, "gc_step=4: expected one of: burst, amortised"),
    ({"op": 100, "trim": "no"}, "trim=no: expected one of: honest, ignore"),
    ({"op": 100, "slc_size": 1000, "idle_gc": 1}, "slc_size=1000: expected a multiple of page_size=4096"),
    ({"op": 100, "slc_size": "1M"}, "slc_size=1048576: idle_gc= is required with it"),
    ({"erase_us": 1}, "erase_us, idle_gc, slc_size: without op= there is no flash translation layer for them"),
    ({"file": "relative.img"}, "file=relative.img: expected an absolute path"),
]


@pytest.mark.parametrize(("parameters", "message"), REFUSED, ids=["_".join(f"{k}={v}" for k, v in row[0].items()) for row in REFUSED])
def test_bad_parameters(bench: Bench, parameters: dict[str, Parameter], message: str) -> None:
    with pytest.raises(SimSSDError, match="did not start") as refused:
        SimSSD.start(bench.run_dir, "bad", SIZE, parameters)
    assert message in str(refused.value)
    assert not list(bench.run_dir.glob("bad.img"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("set channels 2", "channels: cannot change while the device runs"),
        ("set page_phase 77", "page_phase=77: expected a multiple of 512"),
        ("set fua none", "fua=none: clients were told at connection time"),
        ("set read_us", "usage: set KEY VALUE"),
        ("smart", "no flash translation layer: the drive was started without op="),
        ("copy", "usage: copy PATH"),
        ("copy here.img", "here.img: expected an absolute path"),
        ('sing "along"', "unknown command; there are: counters"),
        ("", "empty line"),
    ],
)
def test_bad_commands(bench: Bench, line: str, message: str) -> None:
    ssd, _client = bench.start()
    before = ssd.settings()
    with pytest.raises(SimSSDError) as refused:
        ssd.command(line)
    assert message in str(refused.value)
    assert ssd.settings() == before


def test_sizes_have_units(bench: Bench) -> None:
    ssd, client = bench.start({"page_size": "16K", "cache_size": "32MiB"})
    assert (ssd.settings()["page_size"], ssd.settings()["cache_size"]) == (16 * KIB, 32 * MIB)
    assert client.size_bytes == SIZE


def test_fua_can_be_hidden(bench: Bench) -> None:
    assert bench.start()[1].flags & HAS_FUA
    assert not bench.start({"fua": "none"})[1].flags & HAS_FUA


def test_data_outlives_the_process_unless_fresh(bench: Bench) -> None:
    ssd, client = bench.start()
    client.write(0, PAGE)
    ssd.stop()  # with a client that stays
    ssd.stop()
    again = SimSSD.open(bench.run_dir, ssd.name)
    assert again == ssd
    again.power_on()
    assert bench.connect(again).read(0, 4 * KIB) == PAGE
    again.stop()
    with pytest.raises(SimSSDError, match=rf"holds {SIZE} bytes, but size={2 * SIZE}"):
        SimSSD.start(bench.run_dir, ssd.name, 2 * SIZE)
    SimSSD.start(bench.run_dir, ssd.name, 2 * SIZE, fresh=True)
    assert bench.connect(again).read(0, 4 * KIB) == bytes(4 * KIB)


def test_one_device_one_process(bench: Bench) -> None:
    ssd, _client = bench.start()
    with pytest.raises(SimSSDError, match="is running"):
        SimSSD.start(bench.run_dir, ssd.name, SIZE)
    with pytest.raises(SimSSDError, match="another simulated SSD is using it"):
        SimSSD.start(bench.run_dir, "other", SIZE, {"file": str(ssd.file)})


def test_only_its_own_process_is_ended(bench: Bench) -> None:
    ssd, _client = bench.start()
    real = ssd.pid_file.read_text(encoding="utf-8")
    ssd.pid_file.write_text(f"{os.getpid()}\n", encoding="utf-8")
    assert ssd.pid is None
    ssd.pid_file.write_text(real, encoding="utf-8")
    assert ssd.pid == int(real)


def test_a_backing_file_that_fails_is_named(bench: Bench) -> None:
    ssd, client = bench.start()
    os.truncate(ssd.file, 0)
    with pytest.raises(NBDError):
        client.read(0, 4 * KIB)
    with pytest.raises(SimSSDError, match="the backing file failed: No data available"):
        ssd.counters()
    ssd.stop()


def test_it_outlives_the_shell_that_started_it(bench: Bench) -> None:
    code = "import sys; from pathlib import Path; from simssd import SimSSD; SimSSD.start(Path(sys.argv[1]), 'ssd', 1 << 20)"
    subprocess.run(["bash", "-c", '"$@"', "-", sys.executable, "-c", code, str(bench.run_dir)], cwd=HERE.parent, check=True)
    ssd = SimSSD.open(bench.run_dir, "ssd")
    assert len(bench.connect(ssd).read(0, 4 * KIB)) == 4 * KIB
    ssd.stop()


def test_a_long_path_is_named(bench: Bench) -> None:
    with pytest.raises(SimSSDError, match="longer than a unix socket's path can be"):
        SimSSD.start(bench.run_dir / ("x" * 100), "ssd", SIZE)


def test_qemu_reads_writes_discards_and_flushes(bench: Bench) -> None:
    ssd, _client = bench.start({"write_cache": 1, "page_size": 8 * KIB})
    script = ["write -P 0x5a 512 8k", "read -P 0x5a 512 8k", "flush", "write -f -P 0x33 1M 8k", "discard 0 4k", "read -P 0 0 4k",
              "read -P 0x5a 4k 4608", "write -z 1M 4k", "read -P 0 1M 4k", "read -P 0x33 1028k 4k"]  # fmt: skip
    argv = ["qemu-io", "-f", "raw", "-t", "none"] + [word for line in script for word in ("-c", line)]
    done = subprocess.run([*argv, f"nbd:unix:{ssd.socket}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counted = ssd.counters()
    assert [counted[name] for name in ("host_writes", "fua_writes", "discards", "zeroes")] == [2, 1, 1, 1]
    assert counted["flushes"] >= 1
