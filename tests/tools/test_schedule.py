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


def _stage(name: str, machines: int = 0, *, alone: bool = False, after: Sequence[str] = ()) -> Stage:
    return Stage(name, "", list, lab=bool(machines), machines=machines, alone=alone, after=frozenset(after))


A, B, C = _stage("a"), _stage("b"), _stage("c")
ONE, OTHER, BOTH = _stage("one", 1), _stage("other", 1), _stage("both", 2)
QUIET = _stage("quiet", 1, alone=True)


@pytest.mark.parametrize(
    ("waiting", "running", "free", "expected"),
    [
        ([A, B], [], 2, A),
        ([B, C], [A], 2, B),
        ([C], [A, B], 2, None),
        ([B, ONE], [A], 2, B),
        ([B, ONE], [A, OTHER], 1, ONE),  # one static stage beside a machine's
        ([B], [A, OTHER], 1, None),
        ([ONE], [OTHER], 1, ONE),
        ([ONE], [BOTH], 0, None),
        ([BOTH, ONE], [OTHER], 1, None),  # nobody overtakes who waits for both machines
        ([BOTH, A], [OTHER], 1, A),
        ([QUIET], [A], 2, None),
        ([QUIET, A], [ONE], 1, A),
        ([QUIET, A], [], 2, QUIET),
        ([A, ONE], [QUIET], 1, None),
        ([_stage("later", after=["a"]), B], [A], 2, B),
        ([_stage("later", after=["a"]), A], [], 2, A),
    ],
)
def test_next_stage(waiting: list[Stage], running: list[Stage], free: int, expected: Stage | None) -> None:
    assert next_stage(waiting, running, free) == expected


class Recorder(Runner):
    """Runs nothing, and notes what ran at the same time."""

    def __init__(self, seconds: float = 0.05) -> None:
        self.now: set[str] = set()
        self.beside: dict[str, set[str]] = {}
        self.caches: dict[str, str] = {}
        self._seconds, self._guard = seconds, threading.Lock()

    def run(self, stage: Stage, machine_env: dict[str, str]) -> Result:  # type: ignore[override]
        with self._guard:
            self.now.add(stage.name)
            for name in self.now:
                self.beside.setdefault(name, set()).update(self.now)
        self.caches[stage.name] = machine_env.get("PLUMBLINE_CACHES", "")
        time.sleep(self._seconds)
        with self._guard:
            self.now.remove(stage.name)
        return Result(stage, self._seconds, None)


def test_machines_are_shared_and_measurements_are_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[str] = []
    raised: list[Sequence[Path]] = []
    monkeypatch.setattr(schedule, "raised", lambda caches: raised.append(caches) or nullcontext())  # type: ignore[func-returns-value]
    machines = [Machine(tmp_path / name, lambda name=name: stopped.append(name)) for name in ("m1", "m2")]  # type: ignore[misc]
    recorder = Recorder()
    stages = [A, B, C, ONE, OTHER, BOTH, QUIET]
    run = run_all(stages, machines, recorder, lambda result: None)
    assert {result.stage.name for result in run.results} == {stage.name for stage in stages}
    assert recorder.beside["quiet"] == {"quiet"}
    assert "other" in recorder.beside["one"] and "one" not in recorder.beside["both"]
    assert recorder.caches["both"] == f"{tmp_path}/m1:{tmp_path}/m2" and recorder.caches["quiet"] == f"{tmp_path}/m1" and recorder.caches["a"] == ""
    assert sorted((recorder.caches["one"], recorder.caches["other"])) == [f"{tmp_path}/m1", f"{tmp_path}/m2"]
    assert stopped == ["m2"], "the one that measures goes on with its own machine"
    assert raised == [[tmp_path / "m1"]], "and nothing else is raised"


def test_one_at_a_time(tmp_path: Path) -> None:
    recorder = Recorder()
    run_all([A, B, ONE], [Machine(tmp_path, lambda: None)], recorder, lambda result: None, one_at_a_time=True)
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
