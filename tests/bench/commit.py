# SPDX-License-Identifier: GPL-3.0-or-later
"""What a commit of 8 KiB costs the flash, by filesystem: the lab's test of it, run in one machine. Bytes are those that the drives programmed.

log_unit: the stripe unit of the log of an XFS, as the collection makes it and as mkfs.xfs does by itself.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "playbooks/collections"))

from _bench import line, parser
from _lab import run_tests
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Scale
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.charts import Bar, Bars, bar_chart
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.environment import render_picture

KIB = 1024
COLUMNS = ("filesystem", "made", "page", "stripe", "load", "log_unit", "media_bytes")


def picture(rows: list[dict[str, object]]) -> Bars:
    """What each append costs, in KiB."""
    bars = []
    for row in rows:
        if row["load"] == "append":
            page, stripe, unit, cost = (int(str(row[key])) / KIB for key in ("page", "stripe", "log_unit", "media_bytes"))
            log = f", log unit {unit:g}" if unit else ""
            bars.append(Bar(f"{row['filesystem']}{log} · {page:g}/{stripe:g}", cost, f"{cost:.0f} KiB"))
    title = "What the flash programs for a commit of 8 KiB"
    about = "A file is appended to and synchronised. Beside the filesystem: page of the flash and stripe, KiB. Counted by simulated drives."
    return bar_chart("commit-cost", title, about, bars, Scale("programmed for each commit", "KiB"), reference=(8.0, "the commit itself"))


def main() -> int:
    words = parser("commit", __doc__, seeded=False)
    words.add_argument("--write", type=Path, metavar="DIRECTORY", help="write the picture there, such as docs/images")
    options = words.parse_args()
    found = run_tests("commit", "tests/lab/test_commit_cost.py", quiet=options.json)
    rows = [{key: note[key] for key in COLUMNS} for note in found.notes]
    if not options.json:
        print(line("filesystem", "page", "stripe", "load", "log unit", "programmed"))
        for row in rows:
            print(line(*(row[key] for key in COLUMNS if key != "made")))
    if options.write and not found.failed:
        (options.write / "commit-cost.svg").write_text(render_picture(picture(rows)), encoding="utf-8")
    print(json.dumps({"rows": rows, "failed": found.failed}))
    return 1 if found.failed else 0


if __name__ == "__main__":
    sys.exit(main())
