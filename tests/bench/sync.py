# SPDX-License-Identifier: GPL-3.0-or-later
"""How often min_ops is judged wrongly: the real judgement on simulated drives that stall, seeded.

A drive makes 10,000 operations a second between its stalls; the pieces scatter by 5 % (independent, or correlated from piece to piece). Stalls
of 0.2 s or 1 s come at random, 0.1 to 1 in a second of work, or not at all, or both kinds. The threshold lies at 60 to 130 % of the rate that is
sustained. Each trial is one row that is measured as the module does: eight pieces in a second, then on until the verdict
is certain, or 60 s are spent. Wrong is a threshold above that rate that passes, and one below it that fails. The
figures depend on the seed only.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import samples as sync_samples
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync import verdict
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import ROWS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.samples import ROUNDS, Piece, Samples

RATE = 10_000.0
PIECE_SECONDS = 1.0 / ROUNDS
BUDGET_SECONDS = 60.0
LIMITS = (0.6, 0.8, 0.98, 1.02, 1.1, 1.3)  # of the sustained rate
# Stalls in a second of work, by their length in seconds.
DRIVES: dict[str, dict[float, float]] = {
    "none": {},
    "0.2 s, 0.1/s": {0.2: 0.1},
    "0.2 s, 0.3/s": {0.2: 0.3},
    "0.2 s, 1/s": {0.2: 1.0},
    "1 s, 0.1/s": {1.0: 0.1},
    "1 s, 0.3/s": {1.0: 0.3},
    "1 s, 1/s": {1.0: 1.0},
    "both, 0.1/s": {0.2: 0.1, 1.0: 0.1},
}
NOISES = {"independent": 0.0, "correlated": 0.8}
ROW = next(row for row in ROWS if row.name == "fdatasync")


class Drive:
    """Does operations for a piece of time, with the stalls that fall into it."""

    def __init__(self, stalls: dict[float, float], correlation: float, dice: random.Random) -> None:
        self.stalls, self.correlation, self.dice = stalls, correlation, dice
        self.state = dice.gauss(0, 1)

    def piece(self) -> Piece:
        self.state = self.correlation * self.state + (1 - self.correlation**2) ** 0.5 * self.dice.gauss(0, 1)
        rate = RATE * (1 + 0.05 * self.state)
        work, waited, count = 0.0, 0.0, 0  # seconds, seconds, stalls
        total = sum(self.stalls.values())
        while work + waited < PIECE_SECONDS:
            until = self.dice.expovariate(total) if total else PIECE_SECONDS
            if work + waited + until >= PIECE_SECONDS:
                work = PIECE_SECONDS - waited
                break
            work += until
            waited += self.dice.choices(list(self.stalls), list(self.stalls.values()))[0]
            count += 1
        return Piece(round(rate * work) + count, round((work + waited) * 1e9), count, round(waited * 1e9))


def trial(drive: Drive, limit: float) -> str:
    """The verdict on one row."""
    samples, options = Samples(), Options(rows=(ROW,), min_ops={ROW.name: limit})
    while samples.seconds < BUDGET_SECONDS:
        samples.pieces.append(drive.piece())
        if len(samples.pieces) >= ROUNDS and not verdict.wants_more(samples, ROW, options):
            break
    return verdict.compare([(ROW, samples)], options)[0].verdict


def main() -> int:
    words = parser("sync", __doc__)
    words.add_argument("--trials", type=int, default=105, help="for each drive, noise and threshold")
    options = words.parse_args()
    rows = []
    print(line("stalls", "noise", "trials", "false pass", "false fail", "inconclusive"))
    for name, stalls in DRIVES.items():
        sustained = RATE / (1 + sum(seconds * often for seconds, often in stalls.items()))
        for noise, correlation in NOISES.items():
            row = {"stalls": name, "noise": noise, "trials": 0, "false_pass": 0, "false_fail": 0, "inconclusive": 0}
            for limit in LIMITS:
                dice = random.Random(f"{options.seed}/{name}/{noise}/{limit}")
                found = [trial(Drive(stalls, correlation, dice), limit * sustained) for _number in range(options.trials)]
                row["trials"] += len(found)
                row["false_pass"] += found.count(PASS) if limit > 1 else 0
                row["false_fail"] += found.count(FAIL) if limit < 1 else 0
                row["inconclusive"] += found.count(INCONCLUSIVE)
            rows.append(row)
            print(line(*row.values()), flush=True)
    totals = {key: sum(int(row[key]) for row in rows) for key in ("trials", "false_pass", "false_fail", "inconclusive")}
    print(line("all", "", *totals.values()))
    if options.json:
        wrong = totals["false_pass"] + totals["false_fail"]
        print(json.dumps({"seed": options.seed, "stated_error": sync_samples.RATE_ERROR, "wrong": wrong, **totals, "rows": rows}))
    half = totals["trials"] / 2
    return 1 if max(totals["false_pass"], totals["false_fail"]) > sync_samples.RATE_ERROR * half else 0


if __name__ == "__main__":
    sys.exit(main())
