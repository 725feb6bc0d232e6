# SPDX-License-Identifier: GPL-3.0-or-later
"""The demonstration's play under ansible-runner, as AWX runs one: from bare disks to a proven filesystem, told by its artifacts alone."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from labkit.bench import Disk
from labkit.harness import ROOT, Harness

DISKS = json.loads((ROOT / "tests/demo/disks.json").read_text())
HOST = "plumbline-lab"


def run(home: Path, job: str) -> None:
    """ansible-runner, to its end; what it came to is in its artifacts."""
    play, inventory = ROOT / "playbooks/provision-db-storage.yml", ROOT / "tests/demo/inventory.yml"
    argv = ["ansible-runner", "run", str(home), "--playbook", str(play), "--inventory", str(inventory), "--ident", job]
    env = dict(os.environ, ANSIBLE_CONFIG=str(ROOT / "ansible.cfg"), ANSIBLE_COLLECTIONS_PATH=str(ROOT / "playbooks/collections"))
    done = subprocess.run(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=1200)
    print(done.stdout)


def events_of(home: Path, job: str) -> list[dict[str, Any]]:
    """What happened, in order."""
    return sorted((json.loads(path.read_text()) for path in (home / "artifacts" / job / "job_events").glob("*.json")), key=lambda one: one["counter"])


@pytest.mark.long(minutes=4)
@pytest.mark.measured
def test_the_demonstration_under_ansible_runner(harness: Harness, disks: dict[str, Disk], tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    (tmp_path / "env/extravars").write_text(json.dumps({"demo_records": str(tmp_path / "artifacts/records")}))
    changed = {}
    for job in ("first", "second"):
        run(tmp_path, job)
        artifacts = tmp_path / "artifacts" / job
        assert ((artifacts / "status").read_text(), (artifacts / "rc").read_text()) == ("successful", "0")
        events = events_of(tmp_path, job)
        (stats,) = [one["event_data"] for one in events if one["event"] == "playbook_on_stats"]
        assert stats["ok"][HOST] and not stats["failures"] and not stats["dark"]
        changed[job] = stats["changed"].get(HOST, 0)
        plans = [
            one["event_data"]["res"] for one in events if one["event"] == "runner_on_ok" and one["event_data"]["task_action"] == "plumbline.ssd.stack_plan"
        ]
        assert [bool(one["steps"]) for one in plans] == [job == "first"]
    assert changed["first"] and not changed["second"]
    (record,) = [json.loads(path.read_text()) for path in (tmp_path / "artifacts/records").glob("*.json")]
    assert (record["stack"], record["verdict"]) == ("pgdata", "pass") and record["measured"]
    assert harness.must("findmnt -no FSTYPE /data01; findmnt -no FSTYPE /data02").split() == ["ext4", "ext4"]
