# SPDX-License-Identifier: GPL-3.0-or-later
"""What a change can affect, in this checkout as it is."""

from __future__ import annotations

import itertools
import re
import subprocess
from pathlib import Path

import pytest
from affected import BESIDE, BY_FOLDER, DECLARED, Uses, affected, changed_files, declared
from staging import tracked

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def names() -> list[str]:
    if (ROOT / ".git").exists():
        return [name for name in tracked(ROOT) if (ROOT / name).is_file()]
    found = [path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file()]
    return [str(path) for path in found if not {"__pycache__", "output"} & set(path.parts)]


@pytest.fixture(scope="module")
def uses(names: list[str]) -> Uses:
    return Uses(ROOT, names)


@pytest.mark.parametrize(
    ("changed", "stages", "others", "lab", "other_lab"),
    [
        # a module: what imports it or calls it by name, and every scenario, since the play can come to it
        (
            "plugins/modules/sync_latency.py",
            "unit sanity lint docs molecule-nvme lab-tests-1",
            "simssd",
            "test_honesty test_sync_latency",
            "test_mounts test_decoys",
        ),
        ("plugins/modules/stack_plan.py", "unit sanity molecule-loop lab-tests-1 lab-measured-1", "simssd", "test_mounts test_layouts", ""),
        ("plugins/modules/monitor.py", "unit sanity lint lab-tests-1 whole-host", "simssd molecule-nvme", "test_monitor test_whole_host", "test_mounts"),
        # a part that only measurements use
        ("plugins/module_utils/_measure/sync/writer.py", "unit molecule-nvme lab-measured-1", "simssd", "test_sync_latency", "test_refusals"),
        # a role: the scenarios, and the tests that take their calls from it
        ("roles/build/tasks/steps.yml", "lint molecule-consumer lab-tests-1", "simssd", "test_write_cache test_layouts", ""),
        ("roles/verify/tasks/measure.yml", "lint molecule-nvme unit", "simssd", "", "test_mounts"),
        # a template of the report: what renders it
        ("plugins/plugin_utils/fleet_report/templates/page.html.j2", "unit lint lab-tests-1", "simssd", "test_report", ""),
        # a guide: what is always run, and the test of its samples
        ("docs/docsite/rst/guide_flow.rst", "docs tools unit", "simssd lint molecule-nvme lab-tests-1", "", "test_mounts"),
        (
            "tests/lab/labkit/host_changes.yml",
            "whole-host tools",
            "unit simssd lint molecule-nvme lab-tests-1 lab-measured-1",
            "test_whole_host",
            "test_mounts",
        ),
        # the lab: a file of one test, a part of the kit, the machine itself
        ("tests/lab/test_mounts.py", "lab-tests-1 sanity", "unit simssd molecule-nvme whole-host", "test_mounts", "test_layouts"),
        ("tests/lab/labkit/crash.py", "lab-tests-1", "unit molecule-nvme", "test_power_cut", "test_mounts"),
        ("molecule/lab/plumblab/qemu.py", "lab-unit lab-tests-1 lab-measured-1 molecule-nvme molecule-loop", "unit simssd", "", ""),
        ("molecule/lab/simssd/cache.c", "simssd lab-tests-1 lab-measured-1", "unit", "", ""),
        ("molecule/nvme/inventory.yml", "molecule-nvme", "molecule-loop unit lab-tests-1", "", "test_mounts"),
        ("tests/consumer/storage.yml", "molecule-consumer", "molecule-loop unit", "", "test_mounts"),
        ("tests/unit/fixtures/lvm_fullreport.json", "unit", "molecule-loop lab-tests-1", "", ""),
        ("requirements/dev.txt", "unit simssd lint molecule-nvme lab-tests-1 sanity", "", "", ""),
        ("molecule/database/use.yml", "lint database", "unit molecule-nvme lab-tests-1 simssd", "", ""),
        ("no/such/place", "unit simssd lint molecule-nvme lab-tests-1 sanity", "", "", ""),
    ],
)
def test_what_a_change_affects(uses: Uses, changed: str, stages: str, others: str, lab: str, other_lab: str) -> None:
    found = affected(uses, [changed])
    chosen = {name for name in (*stages.split(), *others.split()) if found.wants(name, name.startswith(("lab-t", "lab-m", "molecule", "whole-host")))}
    assert chosen == set(stages.split()), found.why
    tests = {Path(name).stem for name in found.lab_tests()}
    assert set(lab.split()) <= tests, tests
    assert not set(other_lab.split()) & tests, tests


@pytest.mark.parametrize("changed", ["tests/lab/conftest.py", "molecule/shared/proofs.py", "molecule/lab/plumblab/qemu.py"])
def test_what_all_lab_tests_share_chooses_all_of_them(uses: Uses, changed: str) -> None:
    """And never none, which pytest takes for every test there is."""
    assert affected(uses, [changed]).lab_tests() == ["tests/lab"]


def test_a_unit_test_is_chosen_by_its_imports(uses: Uses) -> None:
    names = affected(uses, ["plugins/module_utils/_measure/sync/writer.py"]).unit_tests()
    assert "tests/unit/plugins/module_utils/_measure/sync/test_writer.py" in names
    assert "tests/unit/plugins/plugin_utils/plan/test_make_plan.py" not in names


def test_the_list_knows_every_file_and_is_of_use(names: list[str]) -> None:
    """A file in no list costs a whole run; a pattern that fits nothing is a mistake."""
    assert [name for name in names if declared(name) is None] == []
    from fnmatch import fnmatch

    for pattern in (*(pattern for pattern, _stages in DECLARED), *BY_FOLDER, *BESIDE, *itertools.chain(*BY_FOLDER.values(), *BESIDE.values())):
        assert any(fnmatch(name, pattern) for name in names) or pattern.endswith("defaults/main.yml"), pattern


def test_a_lab_test_uses_the_modules_that_it_calls(names: list[str], uses: Uses) -> None:
    called = {}
    for name in names:
        if name.startswith("tests/lab/test_"):
            said = set(re.findall(r'harness\.module\("(\w+)"', (ROOT / name).read_text(encoding="utf-8")))
            called[name] = {f"plugins/modules/{module}.py" for module in said} & set(names)
    assert sum(map(len, called.values())) > 30
    assert {name: modules - uses.of[name] for name, modules in called.items() if modules - uses.of[name]} == {}


def test_changed_files(tmp_path: Path) -> None:
    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), "-c", "user.name=x", "-c", "user.email=x@y", *words], check=True, capture_output=True)

    git("init", "-q")
    for name in ("kept", "changed", "gone", "moved"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-q", "-m", "x")
    (tmp_path / "changed").write_text("2")
    (tmp_path / "gone").unlink()
    (tmp_path / "new").touch()
    git("mv", "moved", "there")
    assert changed_files(tmp_path, "HEAD") == ["changed", "gone", "moved", "new", "there"]
    with pytest.raises(ValueError, match="--changed nowhere: fatal"):
        changed_files(tmp_path, "nowhere")
