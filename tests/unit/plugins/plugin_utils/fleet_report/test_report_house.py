# SPDX-License-Identifier: GPL-3.0-or-later
"""The report's files open nothing, and are of a size that can be read: the rules of module_utils hold here as well."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils import fleet_report
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.test_house import files_below, openings, too_large

OWN = Path(fleet_report.__file__).parent


@pytest.mark.parametrize("rule", [openings, too_large])
def test_the_report_is_in_order(rule):
    texts = files_below(OWN, OWN)
    assert len(texts) > 10 and rule(texts) == []


def test_nothing_but_the_standard_library_and_the_collection():
    taken = {
        (node.module or "").split(".")[0] if isinstance(node, ast.ImportFrom) else one.name.split(".")[0]
        for text in files_below(OWN, OWN).values()
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for one in node.names
    }
    assert taken <= {"__future__", "ansible_collections", "collections", "html", "itertools", "json", "math", "re", "statistics", "typing"}
