# SPDX-License-Identifier: GPL-3.0-or-later
"""How far the rate that is called steady is from the truth: the real criterion on simulated drives, seeded, beside the rule of the standard.

Each trial is one run: a drive behind one sequential fill, over-provisioned by 7 to 50 %, under uniform random load in rounds of 5 % of a fill.
Its write amplification comes from a page map with greedy garbage collection, and the time of a round is that times a noise. Independent: each
round on its own. Correlated: each like the one before it (an autoregression of the first order, coefficient 0.7). Stalls: one round of 25 takes
up to three times as long, on top. Cache: for the first 0.02 to 0.4 fills a cache of single-level cells is two to four times as fast, and its
end looks like the first collapse. The truth is the rate of the same drive between 10 and 20 fills, without noise.
An error is the distance from the truth of a rate that was called steady. The two-window rule gives a run up after four fills; what it then says is
inconclusive, which no error counts. Nothing is measured; the figures depend on the seed only.

With --drive one drive is run instead: fio's nbd engine against the simulated SSD of 256 MiB. It is discarded, filled once in sequence, and loaded with
uniform random pages in rounds until the criterion has a verdict, then until 20 fills are written; the truth is what it does in the two fills after
these. The time of a round is what the drive's own counts cost on its channels, and not that of this host's clock. What was written is compared with
the standard's matrix: twice the capacity in sequence, then rounds of 56 cells (8 block sizes, 7 mixes of reads and writes) of a minute each, 5
to 25 of them until the rule of the standard holds on its tracking cells. In a minute this small drive writes many fills, so the same is counted
for drives that take longer for a fill, on a page map.
"""

from __future__ import annotations

import json
import math
import random
import shutil
import statistics
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from _flash import Flash
from _steady_drive import run_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import (
    ROUND_SHARE,
    RUNNING,
    STEADY,
    LoadRound,
    Steady,
    judge_steady,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS

OPS = (7.0, 10.0, 12.5, 20.0, 28.0, 40.0, 50.0)  # per cent
NOISES = (0.02, 0.05, 0.10)
BLOCK_PAGES = 64
PAGES = 66_560  # rounds of 13 blocks
TRUTH = (10, 20)  # fills
CAPACITY = 10**12
WORST, MEAN = 0.06, 0.01  # of the two-window rule

Times = Callable[[random.Random, float], Iterator[float]]  # a factor of each round's time


def independent(dice: random.Random, noise: float) -> Iterator[float]:
    while True:
        yield max(dice.gauss(1, noise), 0.1)


def correlated(dice: random.Random, noise: float) -> Iterator[float]:
    state = dice.gauss(0, noise)
    while True:
        yield max(1 + state, 0.1)
        state = 0.7 * state + dice.gauss(0, noise * math.sqrt(1 - 0.7**2))


def stalls(dice: random.Random, noise: float) -> Iterator[float]:
    for factor in independent(dice, noise):
        yield factor * (dice.uniform(1.1, 3) if dice.random() < 0.04 else 1)


def cache(dice: random.Random, noise: float) -> Iterator[float]:
    ends, faster = dice.uniform(0.02, 0.4), dice.uniform(2, 4)
    for number, factor in enumerate(independent(dice, noise)):
        share = min(max(ends / ROUND_SHARE - number, 0), 1)
        yield factor * (1 - share + share / faster)


KINDS: dict[str, Times] = {"independent": independent, "correlated": correlated, "stalls": stalls, "cache": cache}


def course(job: tuple[float, str]) -> tuple[list[float], float]:
    """The write amplification of each round up to four fills, and that of the truth."""
    op, seed = job
    flash = Flash(op, PAGES, BLOCK_PAGES, f"{seed}/{op}")
    rounds = [flash.write(round(PAGES * ROUND_SHARE)) for _round in range(round(DEFAULTS.max_fills / ROUND_SHARE))]
    flash.write((TRUTH[0] * PAGES) - len(rounds) * round(PAGES * ROUND_SHARE))
    return rounds, flash.write((TRUTH[1] - TRUTH[0]) * PAGES)


def verdicts(rounds: Sequence[LoadRound]) -> tuple[Steady, Steady]:
    """Of the two-window rule and of the standard's, each when it was content, or after the last round."""
    found = []
    for options in (DEFAULTS, DEFAULTS._replace(snia=True)):
        verdict = judge_steady([], CAPACITY, options)
        for count in range(1, len(rounds) + 1):
            verdict = judge_steady(rounds[:count], CAPACITY, options)
            if verdict.verdict != RUNNING:
                break
        found.append(verdict)
    return found[0], found[1]


def run_cell(job: tuple[str, float, float, int, str, tuple[list[float], float]]) -> list[tuple[float | None, float | None, float]]:
    """All trials of one cell: the errors of both rules (None: inconclusive), and the fills of random load."""
    kind, noise, op, trials, seed, (amplification, truth) = job
    found = []
    for number in range(trials):
        times = KINDS[kind](random.Random(f"{seed}/{kind}/{noise}/{op}/{number}"), noise)
        rounds = [LoadRound(round(CAPACITY * ROUND_SHARE), wa * factor) for wa, factor in zip(amplification, times, strict=False)]
        right = CAPACITY * ROUND_SHARE / truth
        ours, standard = verdicts(rounds)
        errors = [one.rate / right - 1 if one.verdict == STEADY else None for one in (ours, standard)]
        found.append((errors[0], errors[1], ours.fills))
    return found


def summary(results: Iterable[tuple[float | None, float | None, float]]) -> dict[str, float | int | None]:
    results = list(results)
    found: dict[str, float | int | None] = {"trials": len(results)}
    for name, column in (("", 0), ("snia_", 1)):
        errors = [one[column] for one in results if one[column] is not None]
        found[name + "worst_error"] = round(max(map(abs, errors)), 4) if errors else None
        found[name + "mean_error"] = round(statistics.fmean(map(abs, errors)), 4) if errors else None
        found[name + "bias"] = round(statistics.fmean(errors), 4) if errors else None
        found[name + "wrong"] = sum(abs(error) > WORST for error in errors)
        found[name + "inconclusive"] = len(results) - len(errors)
    return {**found, "fills_median": round(statistics.median(one[2] for one in results), 3)}


def shown(name: str, row: dict[str, float | int | None]) -> str:
    def percent(key: str) -> str:
        return "-" if row[key] is None else f"{100 * row[key]:.1f} %"

    ours = [percent("worst_error"), percent("mean_error"), percent("bias"), row["wrong"], row["inconclusive"], row["fills_median"]]
    return line(name, row["trials"], *ours, percent("snia_worst_error"), percent("snia_bias"), row["snia_wrong"])


def simulate(trials: int, seed: str, as_json: bool) -> int:
    """The table, and whether the two-window rule holds."""
    cells = [(kind, noise, op) for kind in KINDS for noise in NOISES for op in OPS]
    with ProcessPoolExecutor() as pool:
        courses = dict(zip(OPS, pool.map(course, [(op, seed) for op in OPS]), strict=True))
        counts = [trials // len(cells) + (number < trials % len(cells)) for number in range(len(cells))]
        jobs = [(*cell, count, seed, courses[cell[2]]) for cell, count in zip(cells, counts, strict=True)]
        results = dict(zip(cells, pool.map(run_cell, jobs), strict=True))
    print(line("", "", "two windows", "", "", "over 6 %,", "", "fills of", "the standard", "", "over 6 %"))
    print(line("noise", "trials", "worst", "mean", "bias", "wrong", "inconclusive", "random load", "worst", "bias", "wrong"))
    for kind in KINDS:
        for noise in NOISES:
            pooled = summary(one for cell, many in results.items() if cell[:2] == (kind, noise) for one in many)
            print(shown(f"{kind} {100 * noise:g} %", pooled))
    total = summary(one for many in results.values() for one in many)
    print(shown("all", total))
    held = total["worst_error"] is not None and total["worst_error"] <= WORST and total["mean_error"] <= MEAN
    print(f"wanted: worst <= {100 * WORST:g} %, mean <= {100 * MEAN:g} %: {'held' if held else 'MISSED'}; seed {seed}")
    if as_json:
        print(json.dumps({**total, "seed": seed, "held": held}))
    return 0 if held else 1


def main() -> int:
    words = parser("steady", __doc__)
    words.add_argument("--trials", type=int, default=1000, help="trials in all, spread evenly (default: 1000)")
    words.add_argument("--drive", action="store_true", help="run one simulated SSD with fio")
    words.add_argument("--op", type=float, default=12.5, metavar="PER_CENT", help="over-provisioning of that drive (default: 12.5)")
    options = words.parse_args()
    if options.drive:
        if not 7 <= options.op <= 50:
            words.error("--op: expected 7 to 50 per cent")
        if not shutil.which("fio"):
            words.error("fio is not installed; it is in the package fio")
        return run_drive(options.op, options.seed, options.json)
    if options.trials < len(KINDS) * len(NOISES) * len(OPS):
        words.error(f"--trials: wanted at least {len(KINDS) * len(NOISES) * len(OPS)}, one for each cell")
    return simulate(options.trials, options.seed, options.json)


if __name__ == "__main__":
    sys.exit(main())
