# SPDX-License-Identifier: GPL-3.0-or-later
"""Releases of ansible-core beside the one that everything else is tested with: docs, argument specs, syntax, and a run in check mode."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.core_releases import archive, controller, packages
from labkit.harness import ROOT, Harness
from labkit.runs import spec_of
from plumblab import guest

DISKS = pool(["leg0", "leg1"])
# Release → the Python that it is installed for: the oldest and the next, which run here; the newest wants a newer Python than Debian 12 has.
HERE = {"2.17": "3.11", "2.18": "3.11"}
NEWEST, NEWEST_PYTHON = "2.21", "3.13"
PLAYBOOK = "playbooks/provision_db_storage.yml"
AWAY = "/root/plumbline-core"
STEPS = ("partition", "VG", "LV", "ext4", "mount")


def variables(disks: dict[str, Disk]) -> str:
    return json.dumps({"plumbline_stacks": spec_of(list(disks.values()), "one")["stacks"]})


def assert_planned(done: subprocess.CompletedProcess[str]) -> None:
    """A run in check mode that ended well and told the steps."""
    said = done.stdout + done.stderr
    assert done.returncode == 0, said[-3000:]
    assert "failed=0" in said
    assert not [word for number, word in enumerate(STEPS, 1) if f"step {number}: {word} " not in said], said[-3000:]
    assert "Traceback" not in said and "DEPRECATION" not in said, said


@pytest.fixture(params=HERE)
def installed(request: pytest.FixtureRequest, bench: Bench) -> Path:
    return packages(bench.paths.cache, request.param, HERE[request.param])


def test_docs_and_syntax(installed: Path) -> None:
    modules = [f"plumbline.ssd.{path.stem}" for path in sorted((ROOT / "plugins/modules").glob("*.py")) if not path.stem.startswith("_")]
    roles = [f"plumbline.ssd.{path.parts[-3]}" for path in sorted(ROOT.glob("roles/*/meta/argument_specs.yml"))]
    for words in (("doc", "-t", "module", *modules), ("doc", "-t", "role", *roles), ("playbook", "--syntax-check", "-i", "localhost,", PLAYBOOK)):
        done = controller(installed, *words)
        assert (done.returncode, "ERROR" in done.stderr) == (0, False), done.stderr[-3000:]


def test_check_mode(bench: Bench, disks: dict[str, Disk], installed: Path) -> None:
    bench_files = ROOT / "tests/bench"
    with bench.untouched():
        words = ("playbook", "--check", "-i", str(bench_files / "inventory.yml"), "-e", variables(disks), PLAYBOOK)
        assert_planned(controller(installed, *words, ANSIBLE_CONFIG=str(bench_files / "ansible.cfg")))


@pytest.mark.long(minutes=3)
def test_the_newest_in_the_guest(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """The controller runs on the database host itself, with that host's Python."""
    version = harness.must("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()
    if version != NEWEST_PYTHON:
        pytest.skip(f"ansible-core {NEWEST} is run where the guest has Python {NEWEST_PYTHON}; this one has {version}")
    sent = archive(packages(bench.paths.cache, NEWEST, NEWEST_PYTHON), {"given.json": variables(disks).encode()})
    unpack = f"rm -rf {AWAY}; mkdir {AWAY}; tar -xzf - -C {AWAY}"
    subprocess.run([*guest.ssh_words(bench.paths), unpack], input=sent, check=True)
    env = f"PYTHONPATH={AWAY}/packages ANSIBLE_COLLECTIONS_PATH={AWAY} ANSIBLE_NOCOLOR=1 LC_ALL=C.UTF-8"
    words = f"python3 -m ansible playbook --check -c local -i localhost, -e @{AWAY}/given.json plumbline.ssd.provision_db_storage"
    try:
        with bench.untouched():
            code, out, err = harness.run(f"cd {AWAY}; {env} {words}")
            assert_planned(subprocess.CompletedProcess(words, code, out, err))
    finally:
        harness.must(f"rm -rf {AWAY}")
