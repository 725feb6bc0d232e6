# SPDX-License-Identifier: GPL-3.0-or-later
"""One run to the steady state on the simulated SSD, and what the matrix of the standard would have written for one; steady.py says how."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "molecule/lab"))
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line
from _flash import Flash
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import amplification_at
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import (
    ROUND_SHARE,
    RUNNING,
    STEADY,
    LoadRound,
    judge_steady,
    snia_holds,
)
from simssd import SimSSD

PAGE = 4096
SIZE = 256 << 20
PAGES = SIZE // PAGE
BLOCK_PAGES = 64
CHANNELS = 8
READ_US, PROGRAM_US, ERASE_US = 50, 200, 2000
SEQUENTIAL = 128 * 1024
TRUTH = (20, 22)  # fills of random load
WORST, MOST_BYTES = 0.05, 0.25

# The standard: block sizes in bytes, the share of writes, tracking cells.
SIZES = (*(kib * 1024 for kib in (1024, 128, 64, 32, 16, 8, 4)), 512)
MIXES = (0.0, 0.05, 0.35, 0.5, 0.65, 0.95, 1.0)
TRACKED = ((1024 * 1024, 0.0), (64 * 1024, 0.35), (4096, 1.0))
PRECONDITION = 2  # capacities in sequence
CELL_SECONDS = 60
LEAST_ROUNDS, MOST_ROUNDS = 5, 25
# Seconds for a fill: 1 TB and 4 TB at 3 GB/s, 4 TB at 0.5 GB/s.
OTHERS = {"1 TB NVMe": 333.0, "4 TB NVMe": 1333.0, "4 TB SATA": 8000.0}
MODEL_PAGES = 16_384


def booked(host: float, moves: float, erases: float) -> float:
    """Seconds that so many pages of the host, moves and erases take on channels that are always busy."""
    return ((host + moves) * PROGRAM_US + moves * READ_US + erases * ERASE_US) / CHANNELS / 1e6


class Drive:
    """A new simulated SSD without costs, fio on it, and the time that its counts would have cost."""

    def __init__(self, run_dir: Path, op: float, seed: str) -> None:
        self.dice = random.Random(seed)
        self.ssd = SimSSD.start(run_dir, "steady", SIZE, {"page_size": PAGE, "channels": CHANNELS, "op": op, "block_pages": BLOCK_PAGES}, fresh=True)

    def _counts(self) -> tuple[int, int, int]:
        smart = self.ssd.smart()
        return int(smart["host_pages"]), int(smart["gc_moves"]), int(smart["erases"])

    def fio(self, rw: str, request: int, fills: float = 1.0) -> LoadRound:
        """One round of fio, to its end."""
        before = self._counts()
        words = ["fio", "--name=steady", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={self.ssd.socket}", f"--rw={rw}", f"--bs={request}"]
        words += [f"--size={SIZE}", f"--io_size={round(fills * PAGES) * PAGE}", "--iodepth=32", "--zero_buffers", "--thread", "--norandommap=1"]
        words += [f"--randseed={self.dice.randrange(1, 1 << 31)}", "--randrepeat=0"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"fio ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        host, moves, erases = (late - early for early, late in zip(before, self._counts(), strict=True))
        return LoadRound(host * PAGE, booked(host, moves, erases))


class Matrix:
    """The standard's rounds on a page map. Reads change nothing but the time."""

    def __init__(self, op: float, fill_seconds: float, seed: str) -> None:
        self.flash = Flash(op, MODEL_PAGES, BLOCK_PAGES, seed)
        # A minute of a drive that takes so long for a fill, as time of this one.
        self.cell_seconds = CELL_SECONDS / fill_seconds * booked(MODEL_PAGES, 0, 0)
        self.written = float(PRECONDITION)  # fills
        self.count = 0.0

    def cell(self, size: int, writes: float) -> float:
        """Requests a second of one cell, in steps of a few blocks' worth of pages."""
        pages, part = max(size // PAGE, 1), size < PAGE
        requests, seconds = 0.0, 0.0
        read = pages * READ_US / CHANNELS / 1e6
        while seconds < self.cell_seconds:
            if not writes:
                return 1 / read
            step = max(1, 2 * BLOCK_PAGES // pages)  # requests that write
            moves = self.flash.moves
            self.flash.write(step * pages, pages)
            took = booked(step * pages, self.flash.moves - moves, step * pages / BLOCK_PAGES) + (step * read if part else 0)
            took += step * (1 - writes) / writes * read
            share = min(1.0, (self.cell_seconds - seconds) / took)  # the last step is not all of the cell's
            requests, seconds = requests + share * step / writes, seconds + took
            self.written += share * step * min(size, pages * PAGE) / (MODEL_PAGES * PAGE)
        return requests / self.cell_seconds

    def run(self) -> int:
        """Rounds until the tracking cells are steady by the standard."""
        tracked: dict[tuple[int, float], list[float]] = {cell: [] for cell in TRACKED}
        for number in range(1, MOST_ROUNDS + 1):
            for writes in MIXES:
                for size in SIZES:
                    rate = self.cell(size, writes)
                    if (size, writes) in tracked:
                        tracked[size, writes].append(rate)
            if number >= LEAST_ROUNDS and all(snia_holds(rates[-LEAST_ROUNDS:]) for rates in tracked.values()):
                return number
        return MOST_ROUNDS


def by_the_letter(op: float) -> float:
    """Fills that the least rounds write with cells of a minute on the small drive itself, at the amplification that random pages have for good."""
    wa = amplification_at(1 + op / 100, BLOCK_PAGES)
    fills = float(PRECONDITION)
    for size in SIZES:
        pages = max(size // PAGE, 1)
        write = booked(pages, pages * (wa - 1), pages * wa / BLOCK_PAGES) + (READ_US / CHANNELS / 1e6 if size < PAGE else 0)
        read = pages * READ_US / CHANNELS / 1e6
        for writes in MIXES:
            fills += LEAST_ROUNDS * CELL_SECONDS / (writes * write + (1 - writes) * read) * writes * size / SIZE
    return fills


def run_drive(op: float, seed: str, as_json: bool) -> int:
    """The table, and whether the verdict is right."""
    shm = Path("/dev/shm")
    roomy = shm.is_dir() and shutil.disk_usage(shm).free > 2 * SIZE
    with tempfile.TemporaryDirectory(prefix="plumbline-steady-", dir=shm if roomy else None) as place:
        drive = Drive(Path(place), op, seed)
        try:
            drive.fio("trim", SEQUENTIAL)
            filled = drive.fio("write", SEQUENTIAL)
            rounds: list[LoadRound] = []
            letter = None
            verdict = judge_steady(rounds, SIZE)
            while verdict.verdict == RUNNING:
                rounds.append(drive.fio("randwrite", PAGE, ROUND_SHARE))
                verdict = judge_steady(rounds, SIZE)
                if letter is None and snia_holds([one.rate for one in rounds[-5:]]):
                    letter = (len(rounds) * ROUND_SHARE, sum(one.rate for one in rounds[-5:]) / 5)
            written = sum(one.bytes for one in rounds)
            drive.fio("randwrite", PAGE, TRUTH[0] - written / SIZE)
            truth = drive.fio("randwrite", PAGE, TRUTH[1] - TRUTH[0]).rate
        finally:
            with suppress(Exception):
                drive.ssd.stop()
    error = verdict.rate / truth - 1
    fills = (filled.bytes + written) / SIZE
    standard = {"this drive": by_the_letter(op)}
    turns = {"this drive": LEAST_ROUNDS}
    for name, seconds in OTHERS.items():
        matrix = Matrix(op, seconds, f"{seed}/{name}")
        turns[name] = matrix.run()
        standard[name] = matrix.written
    print(f"over-provisioned by {op:g} %: {verdict.verdict} at {verdict.rate / 1e6:.2f} MB/s of booked time; {verdict.why}")
    print(f"after {TRUTH[0]} fills {truth / 1e6:.2f} MB/s: error {100 * error:+.2f} %; written {fills:.2f} fills, {verdict.fills:.2f} of them at random")
    if letter is not None:
        print(f"the standard's rule on the same rounds: after {letter[0]:.2f} fills of random load, error {100 * (letter[1] / truth - 1):+.1f} %")
    print(line("the matrix on", "rounds", "fills", "ours by it"))
    for name, whole in standard.items():
        print(line(name, turns[name], f"{whole:.2f}", f"{fills / whole:.4f}"))
    ratio = fills / standard["this drive"]
    held = verdict.verdict == STEADY and abs(error) <= WORST and ratio <= MOST_BYTES
    print(f"wanted: error <= {100 * WORST:g} %, bytes <= {MOST_BYTES:g} of the matrix on this drive: {'held' if held else 'MISSED'}; seed {seed}")
    if as_json:
        found = {"op": op, "verdict": verdict.verdict, "error": round(error, 4), "fills": round(fills, 3), "random_fills": round(verdict.fills, 3)}
        ratios = {name: round(fills / whole, 4) for name, whole in standard.items()}
        snia = {"snia_error": round(letter[1] / truth - 1, 4) if letter else None, "snia_fills": {name: round(whole, 2) for name, whole in standard.items()}}
        print(json.dumps({**found, **snia, "bytes_ratio": ratios, "seed": seed, "held": held}))
    return 0 if held else 1
