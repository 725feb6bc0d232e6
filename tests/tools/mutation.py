# SPDX-License-Identifier: GPL-3.0-or-later
"""Take each guard out in turn, and see whether a unit test notices: `python tests/tools/mutation.py` prints a line of JSON for each.

A guard is a function of one of the files below that returns reasons. Muted, it returns none, wherever it is called
from: its name in every module and its place in the tuples there are exchanged. The tests are collected once; each guard is muted in a fork of
its own, which stops at the first test that fails.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import itertools
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import pytest

COLLECTION = "ansible_collections.plumbline.ssd."
GUARDS = tuple(
    f"{COLLECTION}plugins.module_utils.{name}"
    for name in (
        "_block.reasons",
        "_block.guards",
        "_block.lost_data",
        "_stack.volumes.volume_rules",
        "_stack.partitions.erase",
        "_stack.partitions.unfinished_table",
    )
)
TESTS = [Path(__file__).resolve().parents[1] / "unit/plugins" / name for name in ("module_utils", "plugin_utils")]
SKIPPED = ("test_mutation.py", "test_fuzz.py")
# What of the tests may know of a guard, the nearest first: those that name the module, then those that plan or write.
NEAR = re.compile(r"\bmodule_utils\b.*\b(?:reasons|guards|lost_data|volume_rules|erase|unfinished_table)\b")
FAR = re.compile(r"\b(?:make_plan|partition_all|held_alone|held_volumes)\b")


def guards_of(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """The functions of the module that return a list of reasons, or one."""
    functions = {name: one for name, one in vars(module).items() if inspect.isfunction(one) and one.__module__ == module.__name__}
    return {name: one for name, one in functions.items() if re.search(r"\bReason\b", str(one.__annotations__.get("return", "")))}


def exchange(module: ModuleType, name: str, other: Callable[..., Any], users: Iterable[ModuleType] = ()) -> None:
    """Put another function in a guard's place, also where *users* have it by name or in a table of theirs."""
    guard = vars(module)[name]
    for user in (module, *users):
        for key, value in list(vars(user).items()):
            if value is guard:
                setattr(user, key, other)
            elif isinstance(value, (tuple, list)) and any(one is guard for one in value):
                setattr(user, key, type(value)(other if one is guard else one for one in value))
            elif isinstance(value, dict) and any(one is guard for one in value.values()):
                setattr(user, key, {inner: other if one is guard else one for inner, one in value.items()})


def mute(module: ModuleType, name: str, users: Iterable[ModuleType] = ()) -> None:
    """Make a guard of a module say nothing, wherever it is called from."""
    guard = vars(module)[name]
    listed = "List" in str(guard.__annotations__["return"]) or "Tuple" in str(guard.__annotations__["return"])

    def silent(*_args: object, **_more: object) -> list[Any] | None:
        return [] if listed else None

    exchange(module, name, functools.wraps(guard)(silent), users)


def listen(module: ModuleType, name: str, called: set[str], users: Iterable[ModuleType] = ()) -> None:
    """Let a guard note its name in *called* each time that it is called."""
    guard, label = vars(module)[name], label_of(module.__name__, name)

    def noting(*args: object, **more: object) -> Any:
        called.add(label)
        return guard(*args, **more)

    exchange(module, name, functools.wraps(guard)(noting), users)


def label_of(module: str, guard: str) -> str:
    """``guards.guard_loop``"""
    return f"{module.rpartition('.')[2]}.{guard}"


def loaded() -> list[ModuleType]:
    """All modules of the collection that are loaded, tests among them."""
    return [module for name, module in sys.modules.items() if name.startswith(COLLECTION) and module is not None]


def files_to_run(places: Iterable[Path]) -> list[str]:
    """The test files that may notice."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(places) if path.name not in SKIPPED}
    near = [path for path, text in texts.items() if NEAR.search(text)]
    return [str(path) for path in near + [path for path, text in texts.items() if path not in near and FAR.search(text)]]


class Outcomes:
    """A plugin that runs the collected tests in forks: all with every guard in place, then for each guard those that called it, with the guard muted.

    A test that does not call a guard cannot miss it. Those that call the fewest guards come first: they are made for one. *rows* has
    pytest's exit statuses: 1 where a test failed.
    """

    def __init__(self, guards: Sequence[tuple[str, str]]) -> None:
        self._guards = guards
        self.rows: dict[str, int] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """In place of a single run."""
        with tempfile.TemporaryFile("w+") as noted:
            self.rows[""] = in_fork(lambda: self._listen(session, noted))
            noted.seek(0)
            calls: dict[str, list[str]] = json.loads(noted.read() or "{}")
        items = sorted(session.items, key=lambda item: len(calls.get(item.nodeid, ())))
        for module, guard in self._guards:
            label = label_of(module, guard)
            callers = [item for item in items if label in calls.get(item.nodeid, ())]
            self.rows[label] = in_fork(lambda module=module, guard=guard, callers=callers: self._muted(session, module, guard, callers))  # type: ignore[misc]
        return True

    def _listen(self, session: pytest.Session, noted: IO[str]) -> int:
        called: set[str] = set()
        calls: dict[str, list[str]] = {}
        for module, guard in self._guards:
            listen(importlib.import_module(module), guard, called, loaded())

        def note(item: pytest.Item) -> None:
            calls[item.nodeid] = sorted(called)
            called.clear()

        status = run_until_one_fails(session, session.items, note)
        json.dump(calls, noted)
        noted.flush()
        return status

    @staticmethod
    def _muted(session: pytest.Session, module: str, guard: str, callers: Sequence[pytest.Item]) -> int:
        mute(importlib.import_module(module), guard, loaded())
        return run_until_one_fails(session, callers)


def in_fork(work: Callable[[], int]) -> int:
    """The exit status of some work that nothing may remain of."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:
            os._exit(code)
    _pid, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def run_until_one_fails(session: pytest.Session, items: Sequence[pytest.Item], after: Callable[[pytest.Item], object] = id) -> int:
    """Run tests in their order: 1 at the first that fails, 0 where none does."""
    for item, following in itertools.zip_longest(items, items[1:]):
        session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        after(item)
        if session.testsfailed:
            return 1
    return 0


def main() -> int:
    """Exit status 0 where every guard was missed by a test, and no test failed with all in place."""
    files = files_to_run(path for folder in TESTS for path in folder.rglob("test_*.py"))
    outcomes = Outcomes([(module, guard) for module in GUARDS for guard in guards_of(importlib.import_module(module))])
    with contextlib.redirect_stdout(sys.stderr):  # what the tests print is not what is asked for
        pytest.main(["-x", "-q", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist", "--import-mode=importlib", *files], plugins=[outcomes])
    for guard, code in outcomes.rows.items():
        print(json.dumps({"guard": guard, "noticed": code == 1, "status": code}), flush=True)
    return int(outcomes.rows.pop("") != 0 or any(code != 1 for code in outcomes.rows.values()))


if __name__ == "__main__":
    sys.exit(main())
