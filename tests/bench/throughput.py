# SPDX-License-Identifier: GPL-3.0-or-later
"""How often the throughput proof is wrong beside a load that comes and goes: the real statistics on simulated rates, seeded.

Each trial is one measurement of one stack against its legs, in blocks of the module's default length, within its default budget. Somebody else's load
with a period of 1 to 60 s slows whatever is measured meanwhile: half of the time by 30 % (square), up and down by 30 % (sine), for half
a second in each period by 80 % (bursts), or not at all; each rate scatters by 2 % besides. Wrong is a share below the wanted one that
passes, one above it that fails, and an interval of a certain verdict that misses the share. Nothing is measured;
the figures depend on the seed only.
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import share as throughput_share
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.share import VOLUMES, Block, ShareOptions

BLOCK_SECONDS = 1.0
BETWEEN_SECONDS = 0.6  # the start of fio, and a ramp of a quarter of a block
BUDGET_SECONDS = 120.0
PERIODS = range(1, 61)
SHARES = (0.8, 0.85, 0.95, 1.0)
NOISE = 0.02
OPTIONS = ShareOptions()
STEPS = 40  # parts of a block in which the load is looked at

Load = Callable[[float], float]  # the share of the rate that is left, by the phase of the period in seconds, and the period


def square(phase: float, period: float) -> float:
    return 0.7 if phase < period / 2 else 1.0


def sine(phase: float, period: float) -> float:
    return 0.85 + 0.15 * math.sin(2 * math.pi * phase / period)


def bursts(phase: float, _period: float) -> float:
    return 0.2 if phase < 0.5 else 1.0


def quiet(_phase: float, _period: float) -> float:
    return 1.0


LOADS: dict[str, Callable[[float, float], float]] = {"quiet": quiet, "square": square, "sine": sine, "bursts": bursts}


def trial(load: str, period: float, share: float, seed: str) -> throughput_share.JobShare:
    """One measurement."""
    dice = random.Random(seed)
    left, clock = LOADS[load], dice.uniform(0, period)
    end = clock + BUDGET_SECONDS
    asked = 0

    def run(side: str) -> Block | None:
        nonlocal clock, asked
        if asked % 4 == 0 and clock + 4 * (BLOCK_SECONDS + BETWEEN_SECONDS) > end:
            return None
        asked += 1
        clock += BETWEEN_SECONDS
        mean = sum(left((clock + BLOCK_SECONDS * step / STEPS) % period, period) for step in range(STEPS)) / STEPS
        clock += BLOCK_SECONDS
        return Block(1e8 * (share if side == VOLUMES else 1.0) * mean * math.exp(dice.gauss(0, NOISE)))

    return throughput_share.drive(throughput_share.measure_share(OPTIONS, (), dice), run)


def main() -> int:
    words = parser("throughput", __doc__)
    words.add_argument("--trials", type=int, default=20, help="for each load, period and share")
    options = words.parse_args()
    rows = []
    worst = (0.0, "")
    print(line("load", "share", "trials", "wrong", "missed", "inconclusive"))
    for load in LOADS:
        for share in SHARES:
            row = {"load": load, "share": share, "trials": 0, "wrong": 0, "missed": 0, "inconclusive": 0}
            for period in PERIODS:
                wrong = 0
                for number in range(options.trials):
                    found = trial(load, period, share, f"{options.seed}/{load}/{period}/{share}/{number}")
                    wrong += found.verdict == (PASS if share < OPTIONS.min_share else FAIL)
                    row["inconclusive"] += found.verdict == INCONCLUSIVE
                    row["missed"] += found.share is not None and not found.share.low <= share <= found.share.high
                row["wrong"] += wrong
                row["trials"] += options.trials
                worst = max(worst, (wrong / options.trials, f"{load}, {period} s, share {share}"))
            rows.append(row)
            print(line(*row.values()), flush=True)
    totals = {key: sum(int(row[key]) for row in rows) for key in ("trials", "wrong", "missed", "inconclusive")}
    print(line("all", "", *totals.values()))
    print(f"the most wrong verdicts of one load, period and share: {worst[0]:.1%} ({worst[1]})")
    if options.json:
        print(json.dumps({"seed": options.seed, "stated_error": OPTIONS.error, "worst_share_wrong": worst[0], **totals, "rows": rows}))
    return 1 if max(int(row["wrong"]) / int(row["trials"]) for row in rows) > OPTIONS.error else 0


if __name__ == "__main__":
    sys.exit(main())
