# SPDX-License-Identifier: GPL-3.0-or-later
"""Benchmarks that are tests of the lab: what they run, and the figures that these noted (see the fixture ``figure``)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Figures:
    """What tests noted, a dictionary for each note, and the names of those that failed."""

    notes: list[dict[str, object]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    def numbers(self, key: str) -> list[float]:
        """What was noted under a key, in its order."""
        return [float(str(note[key])) for note in self.notes if key in note]


def run_tests(row: str, *words: str, quiet: bool = False) -> Figures:
    """Run tests of the lab, the long ones too, in one machine; *words* are those of pytest.

    Figures of *row* alone. The file that PLUMBLINE_FIGURES names gets all of them, as from the tests themselves.
    """
    with tempfile.TemporaryDirectory() as scratch:
        notes, results = Path(scratch) / "figures", Path(scratch) / "results"
        argv = [sys.executable, "-m", "pytest", "-v", "-s", "-n", "0", "-p", "no:cacheprovider", f"--junit-xml={results}", *words]
        environment = dict(os.environ, PLUMBLINE_ALL="1", PLUMBLINE_FIGURES=str(notes))
        done = subprocess.run(argv, cwd=ROOT, env=environment, stdout=sys.stderr if quiet else None, check=False)
        if not results.exists():
            raise SystemExit(f"the tests did not run; pytest returned {done.returncode}")
        lines = notes.read_text(encoding="utf-8").splitlines() if notes.exists() else []
        if kept := os.environ.get("PLUMBLINE_FIGURES"):
            with open(kept, "a", encoding="utf-8") as handle:
                handle.writelines(f"{text}\n" for text in lines)
        found = Figures([note for note in map(json.loads, lines) if note["row"] == row])
        for case in ElementTree.parse(results).iter("testcase"):
            if any(case.find(word) is not None for word in ("failure", "error")):
                found.failed.append(str(case.get("name")))
        if not found.notes:
            found.failed.append("no figure was noted")
    return found
