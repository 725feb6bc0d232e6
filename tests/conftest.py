# SPDX-License-Identifier: GPL-3.0-or-later
"""For all tests: figures for the table of docs/docsite/rst/guide_reliability.rst, which tests/tools/reliability.py makes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[..., None]:
    """``figure("fuzz", cases=20000, tracebacks=0)``: a line of JSON in the file that PLUMBLINE_FIGURES names; nothing where it names none."""

    def note(row: str, **numbers: object) -> None:
        path = os.environ.get("PLUMBLINE_FIGURES")
        if path:
            with open(path, "a", encoding="utf-8") as handle:
                handle.write(json.dumps({"row": row, "test": request.node.name, **numbers}) + "\n")

    return note
