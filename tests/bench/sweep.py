# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the offset sweep is wrong: the real statistics on simulated latencies, seeded, beside the fixed nine-offset recipe.

Each trial is one sweep of one device: page size 4096, one of its eight phases, a penalty for reads that straddle two pages,
and one kind of noise. A sweep may read as much as the default time and rate let it. Nothing is measured; the figures depend on the seed only.
"""

from __future__ import annotations

import concurrent.futures
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import parser
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.search import NO_PREFERENCE, PHASE, Verdict, search

PAGE = 4096
STEP = 512
PHASES = range(0, PAGE, STEP)
RATIOS = (1.02, 1.05, 1.1, 1.3, 1.5, 2.0, 5.0)
OPTIONS = Options()
MOST_READS = 60_000  # 30 s at 2,000 reads a second
BASE = 100.0  # microseconds

Noise = Callable[[float, int, random.Random], float]


class Quiet:
    """5 % around the service time."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice

    def __call__(self, service: float) -> float:
        return service * self.dice.gauss(1, 0.05)


class Drift(Quiet):
    """The whole device gets slower and faster, by up to a half, over some hundred reads."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.at = dice.uniform(0, 2 * math.pi)
        self.step = 2 * math.pi / dice.uniform(200, 2000)

    def __call__(self, service: float) -> float:
        self.at += self.step
        return super().__call__(service) * (1 + 0.5 * math.sin(self.at))


class Bursts(Quiet):
    """Somebody else's load: for 5 to 60 reads in a row everything waits a random time on top."""

    left = 0
    load = 0.0

    def __call__(self, service: float) -> float:
        if self.left == 0 and self.dice.random() < 0.02:
            self.left, self.load = self.dice.randrange(5, 60), self.dice.uniform(0.5, 8) * BASE
        self.left = max(self.left - 1, 0)
        return super().__call__(service) + (self.dice.expovariate(1 / self.load) if self.left else 0)


class Lognormal(Quiet):
    """A right-skewed device: sigma 0.4."""

    def __call__(self, service: float) -> float:
        return service * self.dice.lognormvariate(0, 0.4)


class Pareto(Quiet):
    """Tails without a variance (shape 1.5) on top of a quiet device."""

    def __call__(self, service: float) -> float:
        return super().__call__(service) * (1 + 0.3 * (self.dice.paretovariate(1.5) - 1))


class Correlated(Quiet):
    """Each read is like the one before it: an autoregressive logarithm, coefficient 0.95, sigma 0.3."""

    state = 0.0

    def __call__(self, service: float) -> float:
        self.state = 0.95 * self.state + self.dice.gauss(0, 0.3 * math.sqrt(1 - 0.95**2))
        return service * math.exp(self.state)


class Half(Quiet):
    """Half of the reads take three times as long, whatever they are."""

    def __call__(self, service: float) -> float:
        return super().__call__(service) * self.dice.choice((1, 3))


class Cached(Quiet):
    """A quarter of the reads are answered by a cache, which has no pages: as much as may be where no phase is called none."""

    def __call__(self, service: float) -> float:
        return super().__call__(0.3 * BASE if self.dice.random() < 0.25 else service)


NOISES: dict[str, type[Quiet]] = {
    "quiet": Quiet, "drift": Drift, "bursts": Bursts, "lognormal": Lognormal, "pareto": Pareto, "correlated": Correlated, "half": Half, "cached": Cached,
}  # fmt: skip


class Device:
    """Answers reads: what straddles a page boundary takes *ratio* times as long."""

    def __init__(self, phase: int, ratio: float, noise: str, seed: str, page: int = PAGE) -> None:
        self.dice = random.Random(seed)
        self.phase, self.ratio, self.page = phase, ratio, page
        self.noise = NOISES[noise](self.dice)

    def read(self, grain: int, size: int, offset: int) -> float:
        """One read of *size* bytes at *offset* behind a random multiple of the grain."""
        start = self.dice.randrange(1 << 16) * grain + offset - self.phase
        pages = (start + size - 1) // self.page - start // self.page + 1
        return self.noise(BASE * (self.ratio if pages > -(-size // self.page) else 1.0))


def sweep(device: Device) -> Verdict:
    """The real search on a simulated device."""
    asking = search(OPTIONS, device.dice.shuffle)
    wanted = next(asking)
    reads = 0
    while True:
        try:
            reads += len(wanted.offsets)
            late = reads > MOST_READS
            wanted = asking.send(None if late else [device.read(wanted.grain, wanted.size, offset) for offset in wanted.offsets])
        except StopIteration as done:
            return done.value


def recipe(device: Device, reads: int) -> int | None:
    """The fixed recipe: one offset after the other, as many reads in all; the phase that wins by 1.05, or None."""
    each = max(reads // 9, 1)
    means = {offset: statistics.fmean(device.read(PAGE, PAGE, offset) for _turn in range(each)) for offset in range(0, PAGE + 1, STEP)}
    means[0] = (means[0] + means.pop(PAGE)) / 2
    best, second = sorted(means, key=lambda offset: means[offset])[:2]
    return best if means[second] >= 1.05 * means[best] else None


def trial(cell: tuple[int, float, str], number: int, seed: str) -> tuple[Verdict, bool, bool]:
    """(verdict, wrong, the recipe is wrong) of one trial; ratio 1 is a device without a penalty."""
    phase, ratio, noise = cell
    name = f"{seed}/{phase}/{ratio}/{noise}/{number}"
    found = sweep(Device(phase, ratio, noise, name))
    other = recipe(Device(phase, ratio, noise, "recipe/" + name), found.reads)
    return found, is_wrong(found, phase, ratio), (other is not None if ratio == 1 else other != phase)


def is_wrong(found: Verdict, phase: int, ratio: float) -> bool:
    """A phase must be the phase; none may be found only below the ratio that matters."""
    if found.verdict == PHASE:
        return ratio == 1 or (found.phase, found.grain) != (phase, PAGE)
    return found.verdict == NO_PREFERENCE and ratio >= OPTIONS.min_ratio


def run_cell(job: tuple[tuple[int, float, str], int, str]) -> dict:
    """All trials of one cell."""
    cell, trials, seed = job
    results = [trial(cell, number, seed) for number in range(trials)]
    found = [one[0] for one in results]
    return {
        "phase": cell[0],
        "ratio": cell[1],
        "noise": cell[2],
        "trials": trials,
        "wrong": sum(one[1] for one in results),
        "inconclusive": sum(one.verdict == INCONCLUSIVE for one in found),
        "excluding": sum(one.verdict == INCONCLUSIVE and one.excluded > 0 for one in found),
        "no_preference": sum(one.verdict == NO_PREFERENCE for one in found),
        "recipe_wrong": sum(one[2] for one in results),
        "median_ios": statistics.median(one.reads for one in found),
        "median_mib": round(statistics.median(one.bytes for one in found) / (1 << 20), 3),
    }


def upper_bound(wrong: int, trials: int, confidence: float = 0.99) -> float:
    """Clopper and Pearson's one-sided upper bound of a probability, by bisection of the binomial tail."""
    if wrong >= trials:
        return 1.0
    low, high = wrong / trials, 1.0
    for _turn in range(60):
        middle = (low + high) / 2
        terms = (
            math.exp(
                math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1) + k * math.log(middle) + (trials - k) * math.log1p(-middle)
            )
            for k in range(wrong + 1)
        )
        low, high = (middle, high) if 0 < middle < 1 and sum(terms) > 1 - confidence else (low, middle)
    return high


def pooled(cells: Iterable[dict]) -> list[dict]:
    """Rows of ratio and noise, phases together."""
    rows: dict[tuple[float, str], list[dict]] = {}
    for cell in cells:
        rows.setdefault((cell["ratio"], cell["noise"]), []).append(cell)
    merged = []
    for (ratio, noise), group in rows.items():
        total = {key: sum(cell[key] for cell in group) for key in ("trials", "wrong", "inconclusive", "excluding", "no_preference", "recipe_wrong")}
        middle = {key: statistics.median(cell[key] for cell in group) for key in ("median_ios", "median_mib")}
        merged.append({"ratio": ratio, "noise": noise, **total, **middle, "bound": upper_bound(total["wrong"], total["trials"])})
    return merged


def table(rows: Iterable[dict]) -> Iterable[str]:
    """For people."""
    yield "ratio  noise       trials  wrong  (99 % bound)  inconclusive  (of which 1.25 is excluded)  none    recipe wrong  median I/Os    MiB"
    for row in rows:
        shares = {key: 100 * row[key] / row["trials"] for key in ("inconclusive", "excluding", "no_preference", "recipe_wrong")}
        yield (
            f"{row['ratio'] if row['ratio'] > 1 else 'none':>5}  {row['noise']:10}  {row['trials']:6}  {row['wrong']:5}  (< {row['bound']:.5f})"
            f"   {shares['inconclusive']:9.1f} %  {shares['excluding']:24.1f} %  {shares['no_preference']:5.1f} %  {shares['recipe_wrong']:9.1f} %"
            f"  {row['median_ios']:11.0f}  {row['median_mib']:5.2f}"
        )


def main() -> None:
    options = parser("sweep", __doc__)
    options.add_argument("--trials", type=int, default=96000, help="trials in all, spread evenly (default: 96000)")
    given = options.parse_args()
    groups = [(phase, ratio, noise) for ratio in (1.0, *RATIOS) for noise in NOISES for phase in PHASES]
    each = given.trials // len(groups)
    if each < 1:
        options.error(f"--trials: wanted at least {len(groups)}, one for each of the {len(groups)} cells")
    cells = []
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for done, cell in enumerate(pool.map(run_cell, [(cell, each, given.seed) for cell in groups]), 1):
            cells.append(cell)
            if done % (len(NOISES) * len(PHASES)) == 0:
                print(f"ratio {cell['ratio']}: done", file=sys.stderr, flush=True)
    rows = pooled(cells)
    total = {key: sum(row[key] for row in rows) for key in ("trials", "wrong", "inconclusive", "excluding", "recipe_wrong")}
    print("\n".join(table(rows)))
    bound = upper_bound(total["wrong"], total["trials"])
    print(f"\nstated error {OPTIONS.error:g}; {total['wrong']} wrong of {total['trials']} (< {bound:.6f} at 99 %); seed {given.seed}")
    if given.json:
        middle = {key: statistics.median(row[key] for row in rows) for key in ("median_ios", "median_mib")}
        print(json.dumps({**total, "stated_error": OPTIONS.error, "seed": given.seed, **middle, "rows": rows, "cells": cells}))


if __name__ == "__main__":
    main()
