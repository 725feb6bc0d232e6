# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the suite's own decisions."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from schedule import Run, Runner
from schedule import run_all as run_side_by_side
from stages import Chosen, Command, Places, Stage, lab_stages, scenarios_of
from staging import stage as stage_files
from staging import untracked
from suite import Teller, arguments, caches_of, choose, cut, summary


def _stage(name: str, *, lab: bool = False, long: bool = False) -> Stage:
    return Stage(name, name, list, lab=lab, long=long)


ROOT = Path(__file__).resolve().parents[2]
STAGES = [
    _stage("ruff"),
    _stage("unit"),
    _stage("slow", long=True),
    _stage("lab-image", lab=True),
    _stage("lab-up", lab=True),
    _stage("molecule-nvme", lab=True),
    _stage("molecule-trim", lab=True, long=True),
]


@pytest.mark.parametrize(
    ("only", "skip", "everything", "expected"),
    [
        ("", "", False, "ruff unit lab-image lab-up molecule-nvme"),
        ("", "", True, "ruff unit slow lab-image lab-up molecule-nvme molecule-trim"),
        ("unit", "", False, "unit"),
        ("unit, ruff", "", False, "ruff unit"),
        ("slow", "", False, "slow"),
        ("molecule-nvme", "", False, "lab-image lab-up molecule-nvme"),
        ("molecule-trim", "", False, "lab-image lab-up molecule-trim"),
        ("lab", "", False, "lab-image lab-up molecule-nvme"),
        ("lab", "", True, "lab-image lab-up molecule-nvme molecule-trim"),
        ("", "lab", False, "ruff unit"),
        ("", "ruff,molecule-nvme", False, "unit lab-image lab-up"),
        ("unit", "lab", False, "unit"),
    ],
)
def test_choose(only: str, skip: str, everything: bool, expected: str) -> None:
    assert [stage.name for stage in choose(STAGES, only, skip, everything)] == expected.split()


@pytest.mark.parametrize(("only", "skip"), [("rufff", ""), ("", "rufff")])
def test_unknown_stage_names_the_nearest(only: str, skip: str) -> None:
    with pytest.raises(ValueError, match=r"no stage 'rufff'; nearest: ruff"):
        choose(STAGES, only, skip, False)


def _commands(*scripts: str) -> Callable[[], list[Command]]:
    return lambda: [Command(argv=("/bin/sh", "-c", script)) for script in scripts]


def run_all(stages: list[Stage], logs: Path) -> Run:
    runner = Runner(dict(os.environ), logs, verbose=False)
    return run_side_by_side(stages, [], runner, Teller(len(stages), runner, verbose=False))


def test_a_failed_stage_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [
        Stage("good", "", _commands("true", "echo unseen")),
        Stage("bad", "", _commands("echo why it failed; exit 3", "echo never reached > never")),
        Stage("raises", "", lambda: [Command(call=lambda: 1 // 0)]),
        Stage("last", "", _commands("true")),
    ]
    status = summary(run_all(stages, tmp_path), 60.0)
    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert lines[-1] == "2 passed, 2 failed"
    assert "    why it failed" in lines
    assert "    unseen" not in lines
    assert any("ZeroDivisionError" in line for line in lines)
    assert not (tmp_path / "never").exists()


def test_what_comes_after_a_stage_that_failed_is_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [
        Stage("lab-up", "", _commands("false"), lab=True),
        Stage("molecule-nvme", "", _commands("true"), lab=True, after=frozenset({"lab-up"})),
        Stage("later", "", _commands("true"), after=frozenset({"molecule-nvme"})),
    ]
    assert summary(run_all(stages, tmp_path), 1.0) == 1
    out = capsys.readouterr().out
    assert "not run: molecule-nvme: lab-up did not pass" in out
    assert "not run: later: molecule-nvme did not pass" in out
    assert out.splitlines()[-1] == "0 passed, 1 failed"


def test_the_last_line_counts_tests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = "echo '===== 1 failed, 40 passed, 3 skipped, 2 warnings in 3.21s ====='"
    stages = [Stage("tests", "", _commands(f"{said}; exit 1")), Stage("lint", "", _commands("true"))]
    assert summary(run_all(stages, tmp_path), 1.0) == 1
    out = capsys.readouterr().out
    assert "40 passed, 1 failed, 3 skipped\n" in out
    assert out.splitlines()[-1] == "41 passed, 1 failed, 3 skipped"


def test_nothing_chosen_is_not_success() -> None:
    assert summary(Run(), 0.0) == 1


def test_a_stage_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    stage = Stage("slow", "", _commands(f"sleep 60 & echo $! > {pid_file}; wait"), minutes=1 / 60)
    began = time.monotonic()
    run = run_all([stage], tmp_path)
    assert time.monotonic() - began < 15
    assert "not done in time" in (run.results[0].error or "")
    deadline = time.monotonic() + 30
    child = Path("/proc") / pid_file.read_text().strip() / "cmdline"
    while child.exists() and b"sleep" in child.read_bytes():
        assert time.monotonic() < deadline, "the child is still there"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_stage_is_in_one_part_and_what_all_need_in_each(number: int) -> None:
    stages = [*STAGES, Stage("lab-tests", "", list, lab=True, shared_out=True)]
    names = [stage.name for stage in cut(stages, number, 3)]
    assert {"lab-image", "lab-up", "lab-tests"} <= set(names)
    dealt = [stage.name for part in (1, 2, 3) for stage in cut(stages, part, 3)]
    assert all(dealt.count(stage.name) in (1, 3) for stage in stages)
    assert {stage.name for stage in stages} == set(dealt)


@pytest.mark.parametrize("words", [["--all", "--part", "5/4"], ["--all", "--part", "0/4"], ["--all", "--part", "two"], ["--part", "1/2"]])
def test_a_part_that_makes_no_sense(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments(words)
    assert ended.value.code == 2 and "--part" in capsys.readouterr().err


def test_a_second_machine_shares_what_is_costly_to_make(tmp_path: Path) -> None:
    for _again in range(2):
        first, second = caches_of(tmp_path, 2)
        assert first == tmp_path and second.parent == tmp_path
        (first / "image" / "made").touch()
        assert (second / "image" / "made").exists() and not (second / "run").exists()


def test_a_copy_holds_the_tracked_files_as_they_are_now(tmp_path: Path) -> None:
    root, collections = tmp_path / "checkout", tmp_path / "collections"
    root.mkdir()
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name, text in {"kept": "1", "gone": "2", "d/new": "3", "stray": "4", "x.pyc": "5", ".gitignore": "*.pyc\n"}.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "-C", str(root), "add", "kept", "gone", "d/new", ".gitignore"], check=True)
    (root / "gone").unlink()
    (root / "kept").write_text("changed")
    target = stage_files(root, collections)
    assert target == collections / "ansible_collections/plumbline/ssd"
    assert {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()} == {"kept", "d/new", ".gitignore"}
    assert (target / "kept").read_text() == "changed"
    assert untracked(root) == ["stray"]


def test_scenarios_have_a_fixed_order(tmp_path: Path) -> None:
    for name in ("audit", "loop", "nvme", "zoned"):
        (tmp_path / "molecule" / name).mkdir(parents=True)
        (tmp_path / "molecule" / name / "molecule.yml").touch()
    (tmp_path / "molecule" / "lab").mkdir()
    assert scenarios_of(tmp_path) == ["nvme", "loop", "audit", "zoned"]


def test_what_measures_is_alone_and_last() -> None:
    stages = lab_stages(Places(ROOT, ROOT, ROOT, ROOT, ROOT), 2, Chosen())
    alone = [stage.name for stage in stages if stage.alone]
    assert set(alone) == {"molecule-simulated", "lab-measured"}
    assert [stage.name for stage in stages][-len(alone) :] == alone
    assert all(stage.after for stage in stages if stage.machines)


def test_a_test_of_the_whole_host_is_run_by_one_stage() -> None:
    """What is marked whole_host runs in the stage of that name, and not among the other tests of the lab as well."""
    stages = {stage.name: stage for stage in lab_stages(Places(ROOT, ROOT, ROOT, ROOT, ROOT), 1, Chosen())}
    asked = {name: argv[argv.index("-m", 3) + 1] for name in ("lab-tests", "whole-host", "lab-measured") for argv in [stages[name].commands()[0].argv]}
    assert asked == {"lab-tests": "not measured and not whole_host", "whole-host": "whole_host", "lab-measured": "measured"}
    for path in (ROOT / "tests/lab").glob("test_whole_host*.py"):
        assert "pytestmark = pytest.mark.whole_host\n" in path.read_text(encoding="utf-8"), path


def test_list_names_every_stage_once() -> None:
    suite = Path(__file__).with_name("suite.py")
    done = subprocess.run([sys.executable, str(suite), "--all", "--list"], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(names) == len(set(names))
    assert names.index("lab-image") < names.index("lab-up")
