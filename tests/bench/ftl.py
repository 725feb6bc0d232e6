# SPDX-License-Identifier: GPL-3.0-or-later
"""How the simulated SSD ages: its write amplification against theory, and the collapses of its rate. fio writes to it through nbdkit; no machine.

Points: at each over-provisioning one sequential fill, then uniform random pages; the write amplification (WA) of the last fills, beside that of greedy
collection from finite blocks (k = (1 + 1/2N) a, x = 1/2 - (N/a) W(-k e^-k), WA = N / (N + 1 - x) for a = physical / logical and N pages a block).
Passes: after a fill and a trim of everything, random passes that write each page once: full rate until the physical space is full, collapse,
recovery, collapse. Rates: pages a second with a cost for programs only, at 12.5 and 100 %, where both are asked for.
A fill is one logical capacity written by the host. WA and its course come from the drive's own counts of host pages and moves, which do
not depend on how busy this host is; only the rates are measured by the clock, on one channel that always has pages waiting in the cache.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "molecule/lab"))

from _bench import line, parser
from simssd import SimSSD

PAGE = 512  # the cost of a request hardly depends on it
PAGES = 65_536  # and more where that makes too few spare blocks
BLOCK_PAGES = 64
SPARE_BLOCKS = 70  # below it the free blocks and those being filled weigh
OPS = (7.03, 12.5, 28.0, 50.0, 100.0)  # per cent
SEQUENTIAL_BYTES = 128 * 1024
MEASURED = 1.5  # fills of uniform random pages
PASSES = 4
PASSES_OP = 12.5
WINDOW = 0.01  # fills
COLLAPSED_WA = 1 / 0.95  # where only programs cost, the rate is the inverse
RATE_OPS = (12.5, 100.0)
CACHE_PAGES = 4096
RATE_PAGES = 5000
PROGRAM_US = 200


class Drive:
    """A new simulated SSD, and fio on it."""

    def __init__(self, run_dir: Path, op: float, dice: random.Random) -> None:
        self.pages = PAGES
        while self.pages / BLOCK_PAGES * op / 100 < SPARE_BLOCKS:
            self.pages *= 2
        parameters = {"page_size": PAGE, "channels": 1, "cache_size": CACHE_PAGES * PAGE, "op": op, "block_pages": BLOCK_PAGES}
        self.ssd = SimSSD.start(run_dir, "ftl", self.pages * PAGE, parameters, fresh=True)
        self.dice = dice

    def fio(self, rw: str, fills: float = 1, request: int = PAGE, random_map: bool = False) -> subprocess.Popen[bytes]:
        """Begins to write, or trim; each call draws other addresses."""
        return subprocess.Popen(
            [
                *("fio", "--name=ftl", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={self.ssd.socket}", f"--rw={rw}", f"--bs={request}"),
                *(f"--size={self.pages * PAGE}", f"--io_size={round(fills * self.pages) * PAGE}", "--iodepth=32", "--zero_buffers", "--thread"),
                *(f"--randseed={self.dice.randrange(1, 1 << 31)}", "--randrepeat=0", f"--norandommap={int(not random_map)}"),
            ],
            stdout=subprocess.DEVNULL,
        )

    def run(self, rw: str, fills: float = 1, request: int = PAGE) -> None:
        process = self.fio(rw, fills, request)
        process.wait()
        ended_well(process)

    def counts(self) -> tuple[int, int]:
        """Pages of the host and moves, since the drive was new."""
        smart = self.ssd.smart()
        return int(smart["host_pages"]), int(smart["gc_moves"])

    def amplification(self) -> float:
        """WA of uniform random pages."""
        before = self.counts()
        self.run("randwrite", MEASURED)
        after = self.counts()
        return 1 + (after[1] - before[1]) / (after[0] - before[0])

    def course(self, rw: str, passes: int, request: int, random_map: bool) -> list[float]:
        """WA of each window of some passes."""
        begin, seen = self.counts()[0], [self.counts()]
        for _number in range(passes):
            process = self.fio(rw, request=request, random_map=random_map)
            while process.poll() is None:
                seen.append(self.counts())
                time.sleep(0.003)
            ended_well(process)
            seen.append(self.counts())
        edges = [begin + number * WINDOW * self.pages for number in range(round(passes / WINDOW) + 1)]
        moves = [moves_at(seen, edge) for edge in edges]
        return [1 + (late - early) / (WINDOW * self.pages) for early, late in itertools.pairwise(moves)]

    def rate(self) -> float:
        """Pages of the host a second by the clock, where only programs cost. The full cache keeps the channel busy, however late a thread wakes up."""
        self.ssd.set("write_cache", 1)
        self.ssd.set("program_us", PROGRAM_US)
        process = self.fio("randwrite")
        try:
            self._await(process, RATE_PAGES)
            began, first = time.monotonic(), self.counts()[0]
            self._await(process, RATE_PAGES)
            return (self.counts()[0] - first) / (time.monotonic() - began)
        finally:
            process.kill()
            process.wait()

    def _await(self, process: subprocess.Popen[bytes], pages: int) -> None:
        """Until the host has written so many more."""
        end = self.counts()[0] + pages
        while self.counts()[0] < end:
            if process.poll() is not None:
                raise SystemExit(f"fio ended with {process.returncode} before its time")
            time.sleep(0.01)


def ended_well(process: subprocess.Popen[bytes]) -> None:
    if process.returncode:
        raise SystemExit(f"fio ended with {process.returncode}")


def moves_at(seen: Sequence[tuple[int, int]], host_pages: float) -> float:
    """The moves when the host had written so many pages, between two looks."""
    late = min(bisect.bisect_left(seen, (host_pages, 0)), len(seen) - 1)
    (pages, moves), (pages_before, moves_before) = seen[late], seen[max(late - 1, 0)]
    share = (host_pages - pages_before) / (pages - pages_before) if pages > pages_before else 1
    return moves_before + min(share, 1) * (moves - moves_before)


def lambert_w(z: float) -> float:
    """The principal branch, for -1/e <= z <= 0: w e^w rises from -1 to 0."""
    low, high = -1.0, 0.0
    for _turn in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle * math.exp(middle) < z else (low, middle)
    return low


def theory(op: float, block_pages: int) -> float:
    """WA of greedy collection under uniform random pages."""
    ratio = 1 + op / 100
    k = (1 + 1 / (2 * block_pages)) * ratio
    x = 0.5 - block_pages / ratio * lambert_w(-k * math.exp(-k))
    return block_pages / (block_pages + 1 - x)


def collapses(course: Sequence[float]) -> list[float]:
    """Fills at which the rate falls by a twentieth for two windows or more, each after it had recovered."""
    found, down = [], False
    for number in range(len(course) - 1):
        low = [wa > COLLAPSED_WA for wa in course[number : number + 2]]
        if all(low) and not down:
            found.append(round(number * WINDOW, 4))
        down = any(low) if down else all(low)
    return found


def period(course: Sequence[float]) -> float:
    """Fills after which the course, without its first fill, is most like itself; NaN for one without collapses."""
    tail = course[round(1 / WINDOW) :]
    if not collapses(tail):
        return math.nan
    lags = range(round(0.5 / WINDOW), round(1.5 / WINDOW) + 1)
    likeness = {lag: statistics.correlation(tail[:-lag], tail[lag:]) for lag in lags}
    return round(max(likeness, key=likeness.__getitem__) * WINDOW, 4)


def main() -> int:
    words = parser("ftl", __doc__)
    words.add_argument("--op", nargs="+", type=float, default=OPS, metavar="PER_CENT", help="over-provisioning of the points")
    options = words.parse_args()
    if any(not 2 <= op <= 500 for op in options.op):
        words.error("--op: expected 2 to 500 per cent; beyond, a point takes many minutes")
    if not shutil.which("fio"):
        words.error("fio is not installed; it is in the package fio")
    dice = random.Random(options.seed)
    points: list[dict[str, float]] = []
    rates: dict[float, float] = {}
    failed: list[str] = []

    def judged(name: str, expected: str, found: float, low: float, high: float) -> None:
        print(line(name, expected, f"{found:.3f}", "" if low <= found <= high else "WRONG"), flush=True)
        if not low <= found <= high:
            failed.append(name)

    # In memory, where that is possible: the course of a fill has to be quick.
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and shutil.disk_usage(shm).free > 8 * PAGES * PAGE
    with tempfile.TemporaryDirectory(prefix="plumbline-ftl-", dir=shm if roomy else None) as place:
        drive = None
        try:
            print(line("OP %", "expected", "found"))
            for op in options.op:
                drive = Drive(Path(place), op, dice)
                drive.run("write", request=SEQUENTIAL_BYTES)
                drive.run("randwrite", max(1.5, 1 + op / 100))  # until the physical space was full for a while
                wa, expected = drive.amplification(), theory(op, BLOCK_PAGES)
                points.append({"op": op, "wa": round(wa, 4), "formula": round(expected, 4)})
                judged(f"WA at {op:g}", f"{expected:.3f}", wa, 0.96 * expected, 1.04 * expected)
                if op in RATE_OPS and set(RATE_OPS) <= set(options.op):
                    rates[op] = drive.rate()
                drive.ssd.stop()
            drive = Drive(Path(place), PASSES_OP, dice)
            drive.run("write", request=SEQUENTIAL_BYTES)
            sequential = drive.course("write", 3, SEQUENTIAL_BYTES, False)
            sequential_wa = statistics.mean(sequential)
            drive.run("trim", request=SEQUENTIAL_BYTES)
            course = drive.course("randwrite", PASSES, PAGE, True)
        finally:
            with suppress(Exception):
                if drive is not None:
                    drive.ssd.stop()
    physical = 1 + PASSES_OP / 100
    fell = [*collapses(course), math.nan, math.nan]
    lag = period(course)
    judged("sequential WA", "<= 1.01", sequential_wa, 1, 1.01)
    judged("its spread", "<= 0.03", max(sequential) - min(sequential), 0, 0.03)
    judged("first collapse", f"{physical:.3f}", fell[0], physical - 0.02, physical + 0.02)
    judged("second collapse", f"{fell[0] + 1:.3f}", fell[1], fell[0] + 0.97, fell[0] + 1.03)
    judged("passes period", "1.000", lag, 0.97, 1.03)
    ratio = None
    if rates:
        ratio = rates[RATE_OPS[1]] / rates[RATE_OPS[0]]
        judged("rate, 12.5 to 100", "3.6", ratio, 0.9 * 3.6, 1.1 * 3.6)
    if options.json:
        found = {
            "sequential_wa": round(sequential_wa, 4),
            "first_collapse_fills": None if math.isnan(fell[0]) else fell[0],
            "passes_period_fills": None if math.isnan(lag) else lag,
            "rate_ratio": ratio,
        }
        print(json.dumps({"seed": options.seed, "block_pages": BLOCK_PAGES, "points": points, **found, "failed": failed}))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
