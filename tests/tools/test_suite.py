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
from stages import Command, Stage, scenarios_of
from staging import stage as stage_files
from staging import untracked
from suite import choose, run_all, summary


def _stage(name: str, *, lab: bool = False, long: bool = False) -> Stage:
    return Stage(name, name, list, lab=lab, long=long)


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


def test_a_failed_stage_does_not_stop_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [
        Stage("good", "", _commands("true", "echo unseen")),
        Stage("bad", "", _commands("echo why it failed; exit 3", "echo never reached > never")),
        Stage("raises", "", lambda: [Command(call=lambda: 1 // 0)]),
        Stage("last", "", _commands("true")),
    ]
    status = summary(*run_all(stages, dict(os.environ), tmp_path, verbose=False), 60.0)
    lines = capsys.readouterr().out.splitlines()
    assert status == 1
    assert lines[-1] == "2 passed, 2 failed"
    assert "    why it failed" in lines
    assert "    unseen" not in lines
    assert any("ZeroDivisionError" in line for line in lines)
    assert not (tmp_path / "never").exists()


def test_without_a_machine_its_stages_are_not_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stages = [
        Stage("lab-up", "", _commands("false"), lab=True),
        Stage("molecule-nvme", "", _commands("true"), lab=True),
    ]
    assert summary(*run_all(stages, dict(os.environ), tmp_path, verbose=False), 1.0) == 1
    out = capsys.readouterr().out
    assert "not run: molecule-nvme" in out
    assert out.splitlines()[-1] == "0 passed, 1 failed"


def test_nothing_chosen_is_not_success() -> None:
    assert summary([], [], 0.0) == 1


def test_a_stage_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    stage = Stage("slow", "", _commands(f"sleep 60 & echo $! > {pid_file}; wait"), minutes=1 / 60)
    began = time.monotonic()
    results, _not_run = run_all([stage], dict(os.environ), tmp_path, verbose=False)
    assert time.monotonic() - began < 15
    assert "not done in time" in (results[0].error or "")
    deadline = time.monotonic() + 5
    child = Path("/proc") / pid_file.read_text().strip() / "cmdline"
    while child.exists() and b"sleep" in child.read_bytes():
        assert time.monotonic() < deadline, "the child is still there"
        time.sleep(0.05)


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


def test_list_names_every_stage_once() -> None:
    suite = Path(__file__).with_name("suite.py")
    done = subprocess.run([sys.executable, str(suite), "--all", "--list"], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(names) == len(set(names))
    assert names.index("lab-image") < names.index("lab-up")
