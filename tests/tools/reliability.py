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

# By the name that tests give to `figure`: the test, and the least result that is required.
ROWS: dict[str, tuple[str, str]] = {
    "occupied": (
        "Every kind of content is refused, whatever made it: on the whole disk, in a partition and behind a holder",
        "40 kinds of content, all refused with the right reason, no write request",
    ),
    "decoys": (
        "Hidden content is refused: first superblock missing, only a backup table, a zapped table over a living filesystem",
        "12 decoys refused; those that sampling cannot see are refused under ``blank_proof: full``",
    ),
    "detection": (
        "The sampled proof finds data in the middle of a device as often as the guide says",
        "the stated probability, held by a seeded test",
    ),
    "unreadable": ("I/O errors, recovery or replacement of a device between plan and write", "50 races, refused or aborted before the write"),
    "interrupted": (
        "Modules are killed at every boundary of a step and at random times, and the power is cut",
        "always the same stack; the next run changes nothing",
    ),
    "controller": ("The controller is killed", "once for each layout; the next run reaches the same result"),
    "growth": (
        "A stack that grows is cut off between any two writes of a table, any two layers, and within ``resize2fs``, by a kill or by the power",
        "the partition is always shown; the next run ends it, and all files are there",
    ),
    "xfs": ("XFS on stripes of 8 KiB to 1 MiB over 1 to 5 devices", "what xfsprogs and the collection's reader read back is the same"),
    "races": ("Two runs at the same time", "50 races of modules, 3 of playbooks: one wins, the other is refused with a message"),
    "faults": ("Write errors and unplugged devices at each step", "a clear error; the next run continues after recovery"),
    "fuzz": (
        "Damaged specs, tool reports, tables, superblocks and state files, and hostile names of devices",
        "100,000 cases, no traceback",
    ),
    "lying_reading": ("What a host answers is changed at random: devices that lie on themselves, numbers of none", "refused or planned, no traceback"),
    "hostile": ("The same on real devices, names, links and mount points", "200 cases, no traceback, no write request"),
    "mutation": ("Each guard is removed in turn", "a test fails for each"),
    "fstab_kill": ("The run is killed before and after every system call that writes ``fstab``", "the old file or the new one; both parse"),
    "fstab_full": ("The kernel stops the write of ``fstab`` at each of its bytes", "the old file, and nothing left beside it"),
    "fstab_foreign": (
        "Random tables with comments, unusual blanks, line ends, escapes, bytes that are not UTF-8, and targets named twice",
        "lines of others unchanged to the byte",
    ),
    "fstab_verify": ("The same, checked by ``findmnt --verify``", "no new parse error"),
}

# Noted for benchmarks (tests/bench), not for the table.
OF_BENCHES = frozenset({"commit", "mirror"})


def gather(lines: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Figures by row: numbers of different tests are added up; of a test that ran twice the last run counts."""
    by_test: dict[tuple[str, str], dict[str, Any]] = {}
    for line in lines:
        found = json.loads(line)
        row, test = found.pop("row"), found.pop("test")
        if row in OF_BENCHES:
            continue
        if row not in ROWS:
            raise ValueError(f"a test noted figures for '{row}', which is no row of the table; add it to ROWS, or to OF_BENCHES, in tests/tools/reliability.py")
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
        "   * - Test",
        "     - Required result",
        "     - Measured result",
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
