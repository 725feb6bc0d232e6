# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rows of a table run in every suite."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import pytest
from _pytest.mark import ParameterSet


def everyday(rows: Iterable[str], *names: str, minutes: float = 0.5) -> Collection[ParameterSet]:
    """The rows as parameters; those that are not named are long. *minutes*: what each of them takes."""
    found = list(rows)
    unknown = set(names).difference(found)
    if unknown:
        raise ValueError(f"no row {', '.join(sorted(unknown))}; there are: {', '.join(found)}")
    return [pytest.param(row, id=row.replace(" ", "-"), marks=[] if row in names else [pytest.mark.long(minutes=minutes)]) for row in found]
