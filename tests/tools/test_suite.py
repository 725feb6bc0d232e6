# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of the suite's own decisions."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from schedule import Run, Runner
from schedule import run_all as run_side_by_side
from shares import Shares
from stages import ALL, FULL, LEVELS, QUICK, Chosen, Command, Places, Stage, lab_stages, scenarios_of
from staging import stage as stage_files
from staging import untracked
from suite import SUITES, Teller, arguments, caches_of, choose, cut, level_of, suites_of, summary


def _stage(name: str, *levels: str, lab: bool = False) -> Stage:
    return Stage(name, name, list, lab=lab, levels=frozenset(levels or LEVELS))


ROOT = Path(__file__).resolve().parents[2]
PLACES = Places(ROOT, ROOT, ROOT, ROOT, ROOT)
STAGES = [
    _stage("ruff"),
    _stage("unit"),
    _stage("lab-image", lab=True),
    _stage("lab-up", lab=True),
    _stage("database", lab=True),
    _stage("lab-quick", QUICK, lab=True),
    _stage("molecule-nvme", FULL, ALL, lab=True),
    _stage("molecule-trim", ALL, lab=True),
]


@pytest.mark.parametrize(
    ("only", "skip", "level", "expected"),
    [
        ("", "", QUICK, "ruff unit lab-image lab-up database lab-quick"),
        ("", "", FULL, "ruff unit lab-image lab-up database molecule-nvme"),
        ("", "", ALL, "ruff unit lab-image lab-up database molecule-nvme molecule-trim"),
        ("unit", "", QUICK, "unit"),
        ("unit, ruff", "", QUICK, "ruff unit"),
        ("molecule-nvme", "", QUICK, "lab-image lab-up molecule-nvme"),
        ("molecule-trim", "", QUICK, "lab-image lab-up molecule-trim"),
        ("lab", "", QUICK, "lab-image lab-up database lab-quick"),
        ("lab", "", FULL, "lab-image lab-up database molecule-nvme"),
        ("lab", "", ALL, "lab-image lab-up database molecule-nvme molecule-trim"),
        ("", "lab", FULL, "ruff unit"),
        ("", "ruff,molecule-nvme", FULL, "unit lab-image lab-up database"),
        ("unit", "lab", FULL, "unit"),
    ],
)
def test_choose(only: str, skip: str, level: str, expected: str) -> None:
    assert [stage.name for stage in choose(STAGES, only, skip, level)] == expected.split()


@pytest.mark.parametrize(("only", "skip"), [("rufff", ""), ("", "rufff")])
def test_unknown_stage_names_the_nearest(only: str, skip: str) -> None:
    with pytest.raises(ValueError, match=r"no stage 'rufff'; nearest: ruff"):
        choose(STAGES, only, skip, QUICK)


@pytest.mark.parametrize(
    ("words", "level", "suites"),
    [
        ("", QUICK, "bookworm bookworm"),
        ("--suite trixie", QUICK, "trixie trixie"),
        ("--full", FULL, "bookworm trixie"),
        ("--full --machines 1", FULL, "bookworm"),
        ("--full --suite trixie", FULL, "trixie trixie"),
        ("--changed", FULL, "bookworm trixie"),
        ("--all", ALL, "bookworm trixie"),
        ("--all --suite bookworm", ALL, "bookworm bookworm"),
    ],
)
def test_how_much_runs_and_where(words: str, level: str, suites: str) -> None:
    asked = arguments(words.split())
    assert (level_of(asked), suites_of(asked)) == (level, suites.split())


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


def lab(level: str, suites: list[str] | None = None, chosen: Chosen | None = None) -> list[Stage]:
    """The project's own stages of the lab that a run of this level has."""
    stages = lab_stages(PLACES, list(SUITES) if suites is None else suites, chosen or Chosen(), Shares.read(), level)
    return [stage for stage in stages if level in stage.levels]


def words_of(stage: Stage) -> list[str]:
    return list(stage.commands()[0].argv)


def files_of(stage: Stage) -> set[str]:
    return {word for word in words_of(stage) if word.startswith("tests/lab/")}


def test_what_measures_is_alone_and_last() -> None:
    stages = lab(ALL)
    alone = [stage.name for stage in stages if stage.alone]
    assert {name.split("-trixie")[0].split("-bookworm")[0] for name in alone} >= {"molecule-simulated", "lab-measured-1", "lab-measured-2"}
    assert [stage.name for stage in stages][-len(alone) :] == alone
    assert all(stage.after for stage in stages if stage.machine)


def test_each_machine_runs_its_own_and_with_all_each_runs_everything() -> None:
    full, everything = {stage.name: stage for stage in lab(FULL)}, {stage.name: stage for stage in lab(ALL)}
    files = {f"tests/lab/{path.name}" for path in (ROOT / "tests/lab").glob("test_*.py")}
    one, other = files_of(full["lab-tests-1"]), files_of(full["lab-tests-2"])
    assert one | other == files and not one & other
    assert (files_of(full["lab-measured-1"]), files_of(full["lab-measured-2"])) == (one, other)
    assert {stage.machine for stage in full.values()} == {0, 1, 2}
    assert files_of(everything["lab-tests-1"]) == files_of(everything["lab-tests-2"]) == files
    for scenario in scenarios_of(ROOT):
        machines = {stage.machine for stage in everything.values() if words_of(stage)[-1] == scenario}
        assert machines == {1, 2}, scenario
    assert {everything["whole-host"].machine, everything["whole-host-bookworm"].machine} == {1, 2}


def test_one_machine_runs_all_of_it_once() -> None:
    stages = {stage.name: stage for stage in lab(FULL, ["trixie"])}
    assert {stage.machine for stage in stages.values()} == {0, 1}
    assert len(files_of(stages["lab-tests-1"])) == len(Shares.read().files(["tests/lab"])) and "lab-tests-2" not in stages


def test_chosen_tests_run_on_their_machine() -> None:
    stages = {stage.name: stage for stage in lab(FULL, chosen=Chosen(lab=["tests/lab/test_trim.py"]))}
    (number,) = (number for number in (1, 2) if f"lab-tests-{number}" in stages)
    assert files_of(stages[f"lab-tests-{number}"]) == {"tests/lab/test_trim.py"} and number == Shares.read().of_test("test_trim")


def test_a_test_of_the_whole_host_is_run_by_one_stage() -> None:
    """What is marked whole_host runs in the stage of that name, and not among the other tests of the lab as well."""
    stages = {stage.name: stage for stage in lab(FULL, ["bookworm"])}
    asked = {name: argv[argv.index("-m", 3) + 1] for name in ("lab-tests-1", "whole-host", "lab-measured-1") for argv in [words_of(stages[name])]}
    assert asked == {"lab-tests-1": "not measured and not whole_host", "whole-host": "whole_host", "lab-measured-1": "measured"}
    for path in (ROOT / "tests/lab").glob("test_whole_host*.py"):
        assert re.search(r"(?m)^pytestmark = \[?pytest\.mark\.whole_host\b", path.read_text(encoding="utf-8")), path


def test_list_names_every_stage_once() -> None:
    suite = Path(__file__).with_name("suite.py")
    done = subprocess.run([sys.executable, str(suite), "--all", "--list"], capture_output=True, text=True, check=True)
    names = [line.split()[0] for line in done.stdout.splitlines()]
    assert len(names) == len(set(names))
    assert names.index("lab-image") < names.index("lab-up")
