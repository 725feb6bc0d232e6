# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of docs/docsite/rst/guide_reliability.rst, from the figures that tests have noted.

`PLUMBLINE_FIGURES=/tmp/figures ./plumbline test --all`, then `python tests/tools/reliability.py /tmp/figures`. Rows that were not run keep
the figures that they have; those are in tests/reliability.json. Without an argument the table is written anew from them.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
STORE = ROOT / "tests/reliability.json"
GUIDE = ROOT / "docs/docsite/rst/guide_reliability.rst"
BEGIN, END = ".. begin: made by tests/tools/reliability.py", ".. end: made by tests/tools/reliability.py"

# By the name that tests give to `figure`: what is promised, and what is to be shown at the least.
ROWS: dict[str, tuple[str, str]] = {
    "occupied": (
        "What is on a device is refused, whatever made it, on the whole disk, in a partition and behind a holder",
        "40 kinds of content, all refused with the right reason, no write request",
    ),
    "decoys": (
        "Content that hides (first superblock gone, backup table only, a zapped table over a living filesystem)",
        "12 decoys, refused; what sampling cannot see, under ``blank_proof: full``",
    ),
    "detection": ("The sampled proof finds data in the middle of a device as often as the guide says", "stated, and held by a seeded test"),
    "unreadable": ("I/O errors, healing or replacement of a device between plan and write", "50 races, refused or aborted before the write"),
    "interrupted": (
        "Modules killed at every boundary of a step and at random times, and power cuts",
        "always the same stack, the next run changes nothing",
    ),
    "controller": ("The controller killed", "once a layout; the next run comes to the same end"),
    "races": ("Two runs at once", "50 races of modules, 3 of playbooks: one wins, the other is told"),
    "faults": ("Write errors and unplugged devices at each step", "a clear error, and the run carries on when it is healed"),
    "fuzz": ("Damaged specs, reports of tools, tables, superblocks, files of state, and what devices call themselves", "100,000 cases, no traceback"),
    "hostile": ("The same on real devices, names, links and mount points", "200 cases, no traceback, no write request"),
    "mutation": ("Each guard taken out in turn", "a test fails for each"),
    "fstab_kill": ("The run killed before and after every system call of the write of ``fstab``", "the old file or the new one, which both parse"),
    "fstab_full": ("The write of ``fstab`` stopped by the kernel at each of its bytes", "the old file, nothing beside it"),
    "fstab_foreign": (
        "Random tables with comments, odd blanks, line ends, escapes, bytes that are no UTF-8, and targets named twice",
        "foreign lines to the byte",
    ),
    "fstab_verify": ("The same before ``findmnt --verify``", "no new parse error"),
}


def gather(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Figures by row: numbers of different tests are added up; of a test that ran twice the last run counts."""
    by_test: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        found = json.loads(line)
        row, test = found.pop("row"), found.pop("test")
        if row not in ROWS:
            raise ValueError(f"a test noted figures for '{row}', which is no row of the table; add it to ROWS in tests/tools/reliability.py")
        by_test[row, test] = found
    rows: dict[str, dict[str, Any]] = {}
    for (row, _test), numbers in by_test.items():
        total = rows.setdefault(row, {})
        for key, value in numbers.items():
            total[key] = total[key] + value if isinstance(value, (int, float)) and key in total else value
    return rows


def words(numbers: Mapping[str, Any]) -> str:
    """Figures as people read them."""
    said = [
        f"{value:,} {key.replace('_', ' ')}" if isinstance(value, (int, float)) else f"{key.replace('_', ' ')}: {value}"
        for key, value in numbers.items()
        if key != "date"
    ]
    return "{} ({})".format(", ".join(said), numbers["date"]) if said else "not run yet"


def table(store: Mapping[str, Mapping[str, Any]]) -> str:
    """The generated part of the guide."""
    lines = [
        BEGIN,
        "",
        ".. list-table::",
        "   :header-rows: 1",
        "   :widths: 40 30 30",
        "",
        "   * - What is done",
        "     - What is to come of it",
        "     - What was found",
    ]
    for row, (promise, floor) in ROWS.items():
        lines += [f"   * - {promise}", f"     - {floor}", f"     - {words(store.get(row, {}))}"]
    return "\n".join([*lines, "", END])


def put(text: str, made: str) -> str:
    """The guide with its generated part replaced. ValueError where the marks are not there."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{GUIDE.name} has lost one of its marks: {BEGIN}, {END}")
    return before + made + after


def read_store() -> dict[str, dict[str, Any]]:
    """The figures that are kept."""
    kept: dict[str, dict[str, Any]] = json.loads(STORE.read_text(encoding="utf-8"))
    return kept


def main(argv: list[str]) -> int:
    """Take figures in and write the table."""
    store = read_store()
    for path in argv:
        for row, numbers in gather(Path(path).read_text(encoding="utf-8").splitlines()).items():
            store[row] = {**numbers, "date": time.strftime("%Y-%m-%d")}
    STORE.write_text(json.dumps(dict(sorted(store.items())), indent=1) + "\n", encoding="utf-8")
    GUIDE.write_text(put(GUIDE.read_text(encoding="utf-8"), table(store)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
