# SPDX-License-Identifier: GPL-3.0-or-later
"""Take each guard out in turn, and see whether a unit test notices: `python tests/tools/mutation.py` prints a line of JSON for each.

A guard is a function of module_utils/_guards.py, _erase.py or _remains.py that returns reasons. Muted, it returns none, wherever it is called
from: its name in the module and its place in the tuples there are both exchanged. Each runs in a fork of its own, and stops at the first test that fails.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

GUARDS = tuple(f"ansible_collections.plumbline.ssd.plugins.module_utils.{name}" for name in ("_guards", "_erase", "_remains"))
TESTS = Path(__file__).resolve().parents[1] / "unit/plugins/module_utils"
SKIPPED = ("test_mutation.py", "test_fuzz.py")
# What of the tests may know of a guard, the nearest first: those that name the module, then those that plan or write.
NEAR, FAR = re.compile(r"\b(?:_guards|_erase|_remains)\b"), re.compile(r"\b(?:make_plan|partition_all|held_alone|_own)\b")


def guards_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions of the module that return a list of reasons, or one."""
    functions = {name: one for name, one in vars(module).items() if inspect.isfunction(one) and one.__module__ == module.__name__}
    return {name: one for name, one in functions.items() if re.search(r"\bReason\b", str(one.__annotations__.get("return", "")))}


def mute(module: ModuleType, name: str) -> None:
    """Make a guard say nothing, by whatever way it is called."""
    guard = vars(module)[name]
    listed = "List" in str(guard.__annotations__["return"]) or "Tuple" in str(guard.__annotations__["return"])

    def silent(*_args: object, **_more: object) -> list[Any] | None:
        return [] if listed else None

    for key, value in list(vars(module).items()):
        if value is guard:
            setattr(module, key, silent)
        elif isinstance(value, (tuple, list)) and any(one is guard for one in value):
            setattr(module, key, type(value)(silent if one is guard else one for one in value))
        elif isinstance(value, dict) and any(one is guard for one in value.values()):
            setattr(module, key, {inner: silent if one is guard else one for inner, one in value.items()})


def files_to_run(places: Iterable[Path]) -> list[str]:
    """The test files that may notice."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(places) if path.name not in SKIPPED}
    near = [path for path, text in texts.items() if NEAR.search(text)]
    return [str(path) for path in near + [path for path, text in texts.items() if path not in near and FAR.search(text)]]


def outcome(module: str, guard: str, files: Sequence[str]) -> int:
    """pytest's exit status with a guard muted (empty: with none), in a fork: 0 where nothing was noticed, 1 where a test failed."""
    child = os.fork()
    if child == 0:
        import importlib

        import pytest

        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        code = 99
        try:
            if guard:
                mute(importlib.import_module(module), guard)
            code = int(pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib", *files]))
        finally:
            os._exit(code)
    _pid, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def main() -> int:
    """Exit status 0 where every guard was missed by a test, and no test failed with all in place."""
    import importlib

    import pytest  # noqa: F401 # once, before the forks

    files = files_to_run(TESTS.glob("test_*.py"))
    guards = [(module, guard) for module in GUARDS for guard in guards_of(importlib.import_module(module))]
    rows = {guard and f"{module.rpartition('.')[2]}.{guard}": outcome(module, guard, files) for module, guard in [("", ""), *guards]}
    for guard, code in rows.items():
        print(json.dumps({"guard": guard, "noticed": code == 1, "status": code}), flush=True)
    return int(rows.pop("") != 0 or any(code != 1 for code in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
