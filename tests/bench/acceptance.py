# SPDX-License-Identifier: GPL-3.0-or-later
"""How often an acceptance beside an incumbent is wrong: the real judgement on simulated drives, seeded.

A run is eight cells in five rounds. A drive is as fast as its incumbent, and wrong is fail; or it is slower by 30 %, and wrong is pass. Each
noise is one of a block of a drive. "beside others" adds a host whose rate drifts by a half, with a neighbour that takes a third of every
tenth block. Nothing is measured; the figures depend on the seed only.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._measure.acceptance.noisy_drives import NOISES, run_of_a_drive

MOST_WRONG = 1 / 40
# Kind of drive → its share of the incumbent's rate, the right verdict and the wrong one.
DRIVES = {"alike": (1.0, PASS, FAIL), "slower": (0.7, FAIL, PASS)}


def main() -> int:
    words = parser("acceptance", __doc__)
    words.add_argument("--runs", type=int, default=2000, help="of each row")
    options = words.parse_args()
    rows = []
    print(line("noise", "", "", "drive", "wrong", "inconclusive", "right"))
    for name, noise in NOISES.items():
        for shared in (False, True):
            for kind, (share, right, wrong) in DRIVES.items():
                seeds = (f"{options.seed}/{name}/{kind}/{number}" for number in range(options.runs))
                found = Counter(run_of_a_drive(share, noise, seed, shared) for seed in seeds)
                row = {"noise": name, "beside_others": shared, "drive": kind, "wrong": found[wrong], "inconclusive": found[INCONCLUSIVE], "right": found[right]}
                rows.append(row)
                print(f"{name:>32}" + line("beside others" if shared else "", *list(row.values())[2:]), flush=True)
    worst = max(row["wrong"] for row in rows) / options.runs
    print(f"{options.runs} runs a row; the worst row is wrong in {100 * worst:.2f} %")
    if options.json:
        print(json.dumps({"seed": options.seed, "runs": options.runs, "worst": worst, "rows": rows}))
    return 1 if worst > MOST_WRONG else 0


if __name__ == "__main__":
    sys.exit(main())
