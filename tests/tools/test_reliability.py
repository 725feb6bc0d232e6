# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re

import pytest
import reliability


def test_the_guide_has_the_table_of_the_kept_figures() -> None:
    text = reliability.GUIDE.read_text(encoding="utf-8")
    assert reliability.put(text, reliability.table(reliability.read_store())) == text, "run python tests/tools/reliability.py"


def test_every_figure_that_is_kept_or_noted_has_its_row() -> None:
    assert set(reliability.read_store()) <= set(reliability.ROWS)
    here = reliability.ROOT / "tests"
    noted = {row for path in here.rglob("test_*.py") for row in re.findall(r"\bfigure\(\"([a-z_]+)\"", path.read_text(encoding="utf-8"))}
    assert noted and noted <= set(reliability.ROWS) | reliability.OF_BENCHES


def test_figures_are_added_up_and_the_last_run_of_a_test_counts() -> None:
    lines = [
        '{"row": "fuzz", "test": "a", "cases": 5, "tracebacks": 0}',
        '{"row": "fuzz", "test": "a", "cases": 7, "tracebacks": 0}',
        '{"row": "fuzz", "test": "b", "cases": 3, "tracebacks": 1}',
        '{"row": "mutation", "test": "c", "guards": 9}',
    ]
    lines.append('{"row": "commit", "test": "d", "media_bytes": 9}')  # a benchmark's
    assert reliability.gather(lines) == {"fuzz": {"cases": 10, "tracebacks": 1}, "mutation": {"guards": 9}}


def test_a_row_that_nobody_knows() -> None:
    with pytest.raises(ValueError, match="is no row of the table"):
        reliability.gather(['{"row": "x", "test": "a"}'])


def test_words() -> None:
    assert reliability.words({"cases": 103500, "tracebacks": 0, "date": "2026-11-21"}) == "103,500 cases, 0 tracebacks (2026-11-21)"
    assert reliability.words({}) == "not run yet"


def test_marks_that_are_gone() -> None:
    with pytest.raises(ValueError, match="has lost one of its marks"):
        reliability.put("text", "made")
