# SPDX-License-Identifier: GPL-3.0-or-later
"""What growth loses where it is cut off, and what a database waits for it: the lab's tests of growth, run in one machine.

cuts: power cuts and kills, also images of a disk between two writes. unhealed: those after which the next run did not end with the stack that is
specified. lost_bytes: of files that stood there. lost_commits: acknowledged by PostgreSQL, and gone. stall_ms: the longest time between two commits while
the stack grew; baseline_stall_ms: without growth. new_share, old_share: random writes to the new and the old row against the raw drives.
"""

from __future__ import annotations

import json
import sys

from _bench import line, parser
from _lab import run_tests

TESTS = ("test_growth_cut", "test_growth_database", "test_growth_measured")


def main() -> int:
    words = parser("growth", __doc__, seeded=False)
    words.add_argument("--select", default="", metavar="EXPRESSION", help="only these tests, as pytest -k takes them")
    options = words.parse_args()
    selection = ["-k", options.select] if options.select else []
    found = run_tests("growth", *(f"tests/lab/{name}.py" for name in TESTS), *selection, quiet=options.json)
    cuts, healed = (sum(found.numbers(key)) for key in ("cuts", "healed"))
    figures: dict[str, object] = {
        "cuts": int(cuts),
        "unhealed": int(cuts - healed),
        "lost_bytes": int(sum(found.numbers("lost_bytes"))),
        "lost_commits": int(sum(found.numbers("lost_commits"))),
    }
    for key in ("stall_ms", "baseline_stall_ms", "new_share", "old_share"):
        figures[key] = next(iter(found.numbers(key)), None)
    if not options.json:
        print(line(*figures))
        print(line(*figures.values()))
    print(json.dumps({**figures, "failed": found.failed}))
    return 1 if found.failed or figures["unhealed"] or figures["lost_bytes"] or figures["lost_commits"] else 0


if __name__ == "__main__":
    sys.exit(main())
