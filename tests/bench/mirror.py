# SPDX-License-Identifier: GPL-3.0-or-later
"""What a mirrored stack loses when its SSDs are pulled, and what it costs: the lab's tests of mirrors, run in one machine.

pulls: SSDs that were pulled while PostgreSQL committed. lost_commits: acknowledged by it, and gone. stall_ms: the longest time between two commits while
SSDs went and were replaced; baseline_stall_ms: otherwise. initial_copy_bytes: written to all members as the array was made of blank ones, which md compares.
bitmap_cost: bytes programmed for a commit with the bitmap against none, less one. write_share, read_share: random writes (each copy counted) and reads
against the raw drives.
"""

from __future__ import annotations

import json
import sys

from _bench import line, parser
from _lab import run_tests

TESTS = ("test_mirror_database", "test_mirror_measured")
KEYS = ("pulls", "stall_ms", "baseline_stall_ms", "initial_copy_bytes", "bitmap_cost", "write_share", "read_share")


def main() -> int:
    words = parser("mirror", __doc__, seeded=False)
    words.add_argument("--select", default="", metavar="EXPRESSION", help="only these tests, as pytest -k takes them")
    options = words.parse_args()
    selection = ["-k", options.select] if options.select else []
    found = run_tests("mirror", *(f"tests/lab/{name}.py" for name in TESTS), *selection, quiet=options.json)
    figures: dict[str, object] = {"lost_commits": int(sum(found.numbers("lost_commits")))}
    for key in KEYS:
        figures[key] = next(iter(found.numbers(key)), None)
    if not options.json:
        print(line(*figures))
        print(line(*figures.values()))
    print(json.dumps({**figures, "failed": found.failed}))
    return 1 if found.failed or figures["lost_commits"] else 0


if __name__ == "__main__":
    sys.exit(main())
