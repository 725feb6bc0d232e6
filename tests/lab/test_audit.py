# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit of a real host that others built on: one call, no write to any disk, nothing installed, and nothing wrong called aligned."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from labkit.audits import nothing_left
from labkit.bench import Bench, Disk, pool
from labkit.harness import ROOT, Harness
from labkit.specs import stack

DISKS = pool(["ours0", "ours1", "odd", "bare"], size="256MiB")
BENCH_FILES = ROOT / "tests/bench"
COUNTING = "/usr/local/bin/counting-python"
LAB = ROOT / "molecule/lab/lab.py"


def executions(*words: str) -> str:
    """How often Python was started in the guest by that interpreter, as the scenarios count it."""
    return subprocess.run(["python", str(LAB), "execs", *words], capture_output=True, text=True, check=True).stdout.strip()


def playbook(name: str, given: dict[str, object]) -> subprocess.CompletedProcess[str]:
    """Run a playbook of the collection on the machine, with these variables; it counts what Ansible starts there."""
    given = {**given, "ansible_python_interpreter": COUNTING}
    argv = ["ansible-playbook", "-i", str(BENCH_FILES / "inventory.yml"), "-e", json.dumps(given), f"playbooks/{name}.yml"]
    env = dict(os.environ, ANSIBLE_CONFIG=str(BENCH_FILES / "ansible.cfg"), ANSIBLE_COLLECTIONS_PATH=str(ROOT / "playbooks/collections"))
    return subprocess.run(argv, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


@pytest.mark.quick("check_spec")
def test_a_spec_is_checked_and_the_host_is_not_asked(disks: dict[str, Disk]) -> None:
    spec = stack([disks["p0"], disks["p1"]])
    executions("--reset")
    done = playbook("check_spec", {"plumbline_stacks": [spec]})
    assert done.returncode == 0 and "no mistake in plumbline_stacks" in done.stdout, done.stdout[-3000:]
    done = playbook("check_spec", {"plumbline_stacks": [{**spec, "layuot": "striped"}], "plumbline_verify": {"policy": "nevr"}})
    assert done.returncode != 0 and "did you mean 'layout'?" in done.stdout and "did you mean 'never'?" in done.stdout, done.stdout[-3000:]
    assert executions() == "0"


@pytest.mark.quick("audit")
def test_a_host_that_others_built(bench: Bench, harness: Harness, disks: dict[str, Disk], tmp_path: Path) -> None:
    spec = stack([disks["p0"], disks["p1"]])
    harness.build([spec])
    odd = disks["p2"].path
    harness.must(f"printf 'label: dos\\nstart=63, type=83\\n' | sfdisk -q {odd}; udevadm settle; mkfs.ext4 -q $(lsblk -nrpo NAME {odd} | sed -n 2p)")
    executions("--reset")
    with nothing_left(bench, harness):
        done = playbook("audit", {"plumbline_stacks": [spec], "plumbline_audit": {"directory": str(tmp_path)}})
    assert done.returncode == 0, done.stdout[-3000:]
    assert executions() == "1" and "changed=1" in done.stdout  # the report
    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "records").glob("*.json")]
    assert record["stack_plan"]["steps"] == [] and not record["stack_plan"].get("failed")
    by_mount = {one["mount"]: one for one in record["stack_info"]["stacks"]}
    assert not [found for found in by_mount[spec["volumes"][0]["mount"]]["findings"] if found["level"] == "error"]
    off = [found for found in record["stack_info"]["findings"] if found["level"] == "error" and found["layer"] == "partition"]
    assert len(off) == 1, record["stack_info"]["findings"]
    assert {disks[name].serial for name in disks} <= {one["identity"]["serial"] for one in record["device_info"]["devices"]}
    (host,) = json.loads((tmp_path / "report.json").read_text())["hosts"]
    assert (host["level"], host["levels"]["alignment"]) == ("error", "error")
