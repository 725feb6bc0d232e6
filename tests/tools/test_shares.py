# SPDX-License-Identifier: GPL-3.0-or-later
"""Every scenario and every test file of the lab has one machine, the two have about as much to do, and the quick suite shows every module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from shares import Shares
from stages import scenarios_of

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests/lab").glob("test_*.py"))


def test_each_has_one_machine() -> None:
    shares = Shares.read()
    scenarios = [name for number in (1, 2) for name in shares.scenarios[number]]
    assert sorted(scenarios) == sorted(scenarios_of(ROOT))
    tests = [name for number in (1, 2) for name in shares.tests[number]]
    assert sorted(tests) == [path.stem for path in FILES]


def test_they_have_about_as_much_to_do() -> None:
    one, other = (Shares.read().seconds(number) for number in (1, 2))
    assert abs(one - other) <= 0.1 * (one + other), (one, other)


def test_those_with_sata_disks_are_neighbours() -> None:
    """They share a boot."""
    shares = Shares.read()
    for number in (1, 2):
        sata = ["*SATA" in (ROOT / name).read_text(encoding="utf-8") for name in shares.files(["tests/lab"], number)]
        assert "".join("x" if with_sata else "." for with_sata in sata).count(".x") <= 1 - sata[0]


def test_what_has_no_machine_is_named() -> None:
    shares = Shares({1: {"nvme": 1}, 2: {}}, {1: {"test_b": 1, "test_a": 1}, 2: {"test_c": 1}})
    assert shares.files(["tests/lab"]) == ["tests/lab/test_b.py", "tests/lab/test_a.py", "tests/lab/test_c.py"]
    assert shares.files(["tests/lab/test_c.py", "tests/lab/test_a.py"], 1) == ["tests/lab/test_a.py"]
    for asked in (lambda: shares.files(["tests/lab/test_new.py"]), lambda: shares.of_test("test_new"), lambda: shares.of_scenario("new")):
        with pytest.raises(ValueError, match=r"new has no machine; write it down in shares\.yml"):
            asked()


def quick_of(path: Path) -> set[str]:
    """The modules that the quick tests of a file name, in their marks."""
    return {
        str(argument.value)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.quick"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }


def test_the_quick_suite_shows_every_module_on_real_devices() -> None:
    modules = {path.stem for path in (ROOT / "plugins/modules").glob("*.py") if not path.stem.startswith("_")}
    shown = set().union(*(quick_of(path) for path in FILES))
    for scenario in (ROOT / "molecule").glob("*/molecule.yml"):
        for line in re.findall(r"(?m)^# quick: (.*)$", scenario.read_text(encoding="utf-8")):
            shown.update(line.split())
    assert shown == modules
