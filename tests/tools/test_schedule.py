# SPDX-License-Identifier: GPL-3.0-or-later
"""Which stages run side by side, and which never do."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
import schedule
from counts import Counts, count
from schedule import Machine, Result, Runner, next_stage, run_all
from stages import Command, Stage


def _stage(name: str, machine: int = 0, *, alone: bool = False, after: Sequence[str] = ()) -> Stage:
    return Stage(name, "", list, lab=bool(machine), machine=machine, alone=alone, after=frozenset(after))


A, B, C = _stage("a"), _stage("b"), _stage("c")
ONE, OTHER, NEXT = _stage("one", 1), _stage("other", 2), _stage("next", 1)
QUIET = _stage("quiet", 1, alone=True)


@pytest.mark.parametrize(
    ("waiting", "running", "expected"),
    [
        ([A, B], [], A),
        ([B, C], [A], B),
        ([C], [A, B], None),
        ([B, ONE], [A], B),
        ([B, ONE], [A, OTHER], ONE),  # one static stage beside a machine's
        ([B], [A, OTHER], None),
        ([ONE], [OTHER], ONE),
        ([NEXT], [ONE], None),
        ([NEXT, OTHER], [ONE], OTHER),
        ([_stage("late", 1, after=["other"]), NEXT], [OTHER], None),  # nobody overtakes who waits for the same machine
        ([_stage("late", 1, after=["other"]), A], [OTHER], A),
        ([QUIET], [A], None),
        ([QUIET, A], [OTHER], A),
        ([QUIET, A], [], QUIET),
        ([A, OTHER], [QUIET], None),
        ([_stage("later", after=["a"]), B], [A], B),
        ([_stage("later", after=["a"]), A], [], A),
    ],
)
def test_next_stage(waiting: list[Stage], running: list[Stage], expected: Stage | None) -> None:
    assert next_stage(waiting, running) == expected


class Recorder(Runner):
    """Runs nothing, and notes what ran at the same time."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.now: set[str] = set()
        self.beside: dict[str, set[str]] = {}
        self.machines: dict[str, tuple[str, str]] = {}
        self._seconds, self._guard = seconds, threading.Lock()

    def run(self, stage: Stage, machine_env: dict[str, str]) -> Result:  # type: ignore[override]
        with self._guard:
            self.now.add(stage.name)
            for name in self.now:
                self.beside.setdefault(name, set()).update(self.now)
        self.machines[stage.name] = (machine_env.get("PLUMBLINE_CACHE", ""), machine_env.get("PLUMBLINE_SUITE", ""))
        time.sleep(self._seconds)
        with self._guard:
            self.now.remove(stage.name)
        return Result(stage, self._seconds, None)


def test_machines_are_shared_and_measurements_are_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    raised: list[Sequence[Path]] = []
    monkeypatch.setattr(schedule, "raised", lambda caches: raised.append(caches) or nullcontext())  # type: ignore[func-returns-value]
    machines = [Machine(tmp_path / name, suite, lambda name=name: stopped.append(name)) for name, suite in (("m1", "old"), ("m2", "new"))]  # type: ignore[misc]
    recorder = Recorder()
    stages = [A, B, C, ONE, OTHER, NEXT, QUIET]
    run = run_all(stages, machines, recorder, lambda result: None)
    assert {result.stage.name for result in run.results} == {stage.name for stage in stages}
    assert recorder.beside["quiet"] == {"quiet"}
    assert "other" in recorder.beside["one"] and "one" not in recorder.beside["next"]
    first, second = (str(tmp_path / "m1"), "old"), (str(tmp_path / "m2"), "new")
    assert recorder.machines == {"a": ("", ""), "b": ("", ""), "c": ("", ""), "one": first, "next": first, "quiet": first, "other": second}
    assert stopped == ["m2"], "the one that measures goes on with its own machine"
    assert raised == [[tmp_path / "m1"]], "and nothing else is raised"


def test_one_at_a_time(tmp_path: Path) -> None:
    recorder = Recorder()
    run_all([A, B, ONE], [Machine(tmp_path, "", lambda: None)], recorder, lambda result: None, one_at_a_time=True)
    assert all(beside == {name} for name, beside in recorder.beside.items())


def test_what_is_interrupted_ends_and_nothing_starts_after(tmp_path: Path) -> None:
    runner = Runner({"PATH": "/usr/bin:/bin"}, tmp_path, verbose=False)
    stages = [Stage(name, "", lambda: [Command(argv=("/bin/sleep", "60"))]) for name in ("first", "second", "third")]
    threading.Timer(0.5, runner.stop).start()
    began = time.monotonic()
    run = run_all(stages, [], runner, lambda result: None)
    assert time.monotonic() - began < 30
    assert [result.error is None for result in run.results] == [False] * 3
    assert [result.stage.name for result in run.results if result.error == "interrupted"] == ["third"]


@pytest.mark.parametrize(
    ("log", "succeeded", "expected"),
    [
        ("4284 passed, 4 skipped in 152.70s (0:02:32)\n", True, Counts(4284, 0, 4)),
        ("==== 3 passed, 1 error in 2.00s ====\n", False, Counts(3, 1, 0)),
        ("=== 2 failed, 1 passed, 5 deselected in 0.10s ===\nmore\n==== 7 passed in 1.00s ====\n", False, Counts(8, 2, 0)),
        ("all is well\n", True, Counts(1, 0, 0)),
        ("all is lost\n", False, Counts(0, 1, 0)),
        ("5 passed in 0.01s\n", False, Counts(5, 1, 0)),  # something else failed
        ("he said: 5 passed in 0.01s\n", True, Counts(1, 0, 0)),
    ],
)
def test_counts(log: str, succeeded: bool, expected: Counts) -> None:
    assert count(log, succeeded) == expected
