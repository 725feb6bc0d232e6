# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the class of a drive's flushes is wrong: the real judgement on simulated drives, seeded.

The grid: ways of 20 to 2,000 us (a write to the drive and back), programming of 200 to 4,000 us. On each point one drive of every kind: one
that ignores flushes, one whose flush programs as a write without the cache does, one whose flush goes to cells of one bit, one with
capacitors. A row is eight pieces of time; each noise is 10 % of a piece, and they differ in how the pieces belong together.
Wrong is a drive that ignores flushes and is called honest, and an honest one that is said to ignore them. Nothing is
measured; the figures depend on the seed only.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.flush_honesty import HONEST, IGNORES, PROTECTED, Time, Times, judge_flushes

PIECES = 8
NOISE = 0.1
WAYS = range(20, 2001, 20)
PROGRAMMINGS = range(200, 4001, 20)
STATED_ERROR = 1e-4

Draw = Callable[[random.Random, int], float]  # a factor of a piece's time, by the number of the piece


def independent(dice: random.Random) -> Draw:
    """Each piece on its own."""
    return lambda dice, _piece: dice.gauss(1, NOISE)


def drift(dice: random.Random) -> Draw:
    """The host gets slower or faster all the time, by as much for every row of a state."""
    slope, phase = NOISE * dice.gauss(0, 1), dice.uniform(0, 2 * math.pi)
    return lambda _dice, piece: 1 + slope * math.sin(phase + piece / 2)


def bimodal(dice: random.Random) -> Draw:
    """Now and then a piece beside somebody else's load, which takes up to half as long again."""
    return lambda dice, _piece: 1 + 0.02 * dice.gauss(0, 1) + (dice.uniform(0.1, 0.5) if dice.random() < 0.15 else 0)


def stalls(dice: random.Random) -> Draw:
    """A stall in one piece of twenty doubles it."""
    return lambda dice, _piece: 1 + 0.05 * dice.gauss(0, 1) + (1 if dice.random() < 0.05 else 0)


NOISES: dict[str, Callable[[random.Random], Draw]] = {"independent": independent, "drift": drift, "bimodal": bimodal, "stalls": stalls}


def ignoring(dice: random.Random, way: float, _programming: float) -> float:
    """A flush that comes to nothing: no time, or a command's way to the drive and back."""
    return way * dice.uniform(0.2, 1) * dice.randrange(2)


def programming_flush(dice: random.Random, way: float, programming: float) -> float:
    """Its way, and half of what a write without the cache programs at the least."""
    return way * dice.uniform(0.2, 1) + programming * dice.uniform(0.5, 1.2)


def one_bit(dice: random.Random, way: float, _programming: float) -> float:
    """Its way, and the quickest flash there is."""
    return way * dice.uniform(0.2, 1) + dice.uniform(200, 800)


KINDS = {
    "ignoring": (ignoring, 1.0, IGNORES, {HONEST}),
    "honest": (programming_flush, 1.0, HONEST, {IGNORES}),
    "one bit a cell": (one_bit, 1.0, HONEST, {IGNORES}),
    "capacitors": (ignoring, 0.0, PROTECTED, {HONEST, IGNORES}),
}


def measure(dice: random.Random, noise: str, mean: float, state: Draw) -> Time:
    """One row: the mean of its pieces and its standard error."""
    pieces = [mean * max(state(dice, piece), 0.1) for piece in range(PIECES)]
    return Time(statistics.fmean(pieces), statistics.stdev(pieces) / math.sqrt(PIECES))


def trial(dice: random.Random, kind: str, noise: str, way: float, programming: float) -> str:
    """The class of one drive."""
    flush, programs, _right, _wrong = KINDS[kind]
    flushing, filesystem = flush(dice, way, programming), dice.uniform(0, 500)
    on, off = NOISES[noise](dice), NOISES[noise](dice)
    return judge_flushes(
        Times(
            measure(dice, noise, way + filesystem + flushing, on),
            measure(dice, noise, way + filesystem, on),
            measure(dice, noise, way, on),
            measure(dice, noise, way + programming * programs, off),
        )
    ).kind


def main() -> int:
    words = parser("honesty", __doc__)
    words.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th point of the grid")
    options = words.parse_args()
    points = [(way, programming) for way in WAYS for programming in PROGRAMMINGS][:: options.every]
    rows = []
    print(line("drive", "noise", "trials", "right", "wrong", "inconclusive", "other"))
    for kind, (_flush, _programs, right, wrong) in KINDS.items():
        for noise in NOISES:
            dice = random.Random(f"{options.seed}/{kind}/{noise}")
            found = Counter(trial(dice, kind, noise, *point) for point in points)
            row = {
                "drive": kind,
                "noise": noise,
                "trials": len(points),
                "right": found[right],
                "wrong": sum(found[one] for one in wrong),
                "inconclusive": found["unclear"],
            }
            row["other"] = len(points) - row["right"] - row["wrong"] - row["inconclusive"]  # type: ignore[operator]
            rows.append(row)
            print(line(*row.values()), flush=True)
    totals = {key: sum(row[key] for row in rows) for key in ("trials", "right", "wrong", "inconclusive", "other")}  # type: ignore[misc]
    print(line("all", "", *totals.values()))
    if options.json:
        print(json.dumps({"seed": options.seed, "stated_error": STATED_ERROR, **totals, "rows": rows}))
    return 1 if totals["wrong"] > STATED_ERROR * totals["trials"] else 0


if __name__ == "__main__":
    sys.exit(main())
