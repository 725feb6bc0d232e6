# SPDX-License-Identifier: GPL-3.0-or-later
"""The report of what the modules return of a real host: before and after its stack is mounted without barriers, and of one that is not there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from labkit.bench import Disk, pool
from labkit.harness import ROOT, Harness
from labkit.specs import said, stack

DISKS = pool(["first", "second"], size="256MiB")
MOUNT = "/pl/pgdata0"
ROWS = {"sync_latency": {"path": MOUNT, "rows": ["fdatasync"], "seconds": 0.3}, "fstrim_proof": {"path": MOUNT, "scratch_size": "16MiB"}}


def record(harness: Harness, name: str, spec: dict[str, Any], measured: bool) -> dict[str, Any]:
    """What the modules return of the host, as a play would register it; what was measured is of a loop over the volumes."""
    asked: dict[str, dict[str, Any]] = {"device_info": {}, "drive_health": {}, "stack_info": {}, "stack_plan": {"stacks": [spec], "verify": {}}}
    found: dict[str, Any] = {"host": name, "time": "2026-03-01T12:00:00Z"}
    for module, options in {**asked, **(ROWS if measured else {})}.items():
        found[module] = harness.module(module, options)
        assert not found[module]["failed"], said(found[module])
    for module in ROWS if measured else ():
        found[module] = {"results": [{**found[module], "item": {"stack": spec["name"], "volume": spec["volumes"][0]["name"]}}]}
    return found


def report(place: Path, *words: str) -> str:
    """Play the task on this machine; what it printed."""
    task = {"directory": str(place / "records"), "hosts": ["sound", "gone"], "path": str(place / "out/fleet")}
    play = [{"hosts": "localhost", "gather_facts": False, "tasks": [{"plumbline.ssd.report": task, "run_once": True}]}]
    (place / "play.yml").write_text(json.dumps(play))
    argv = ["ansible-playbook", "-i", "localhost,", "-c", "local", *words, str(place / "play.yml")]
    env = dict(os.environ, ANSIBLE_NOCOLOR="1", ANSIBLE_CONFIG=str(ROOT / "tests/bench/ansible.cfg"))
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.quick("report", "device_info", "stack_info", "drive_health")
def test_the_report_of_a_real_host(harness: Harness, disks: dict[str, Disk], tmp_path: Path) -> None:
    spec = stack(disks.values())
    harness.build([spec])
    records = [record(harness, "sound", spec, measured=True)]
    harness.must(f"mount -o remount,barrier=0 {MOUNT}")
    try:
        records.append(record(harness, "no-barriers", spec, measured=False))
    finally:
        harness.must(f"mount -o remount,barrier=1 {MOUNT}")
    (tmp_path / "records").mkdir()
    for one in records:
        (tmp_path / f"records/{one['host']}.json").write_text(json.dumps(one))
    assert "changed=1" in report(tmp_path)
    hosts = {one["host"]: one for one in json.loads((tmp_path / "out/fleet.json").read_text())["hosts"]}
    assert set(hosts) == {"sound", "no-barriers", "gone"}
    good, bad = hosts["sound"]["levels"], hosts["no-barriers"]["levels"]
    assert (good["answer"], good["alignment"], good["durability"]) == ("ok", "ok", "ok"), hosts["sound"]["findings"]
    assert "link" not in good  # nobody can tell the links of virtio-scsi
    assert good["proof"] == "ok" and good["trim"] in ("ok", "unknown") and {one["measure"] for one in hosts["sound"]["measured"]} == set(ROWS)
    assert (bad["durability"], bad["alignment"], bad["proof"]) == ("error", "ok", "unknown"), hosts["no-barriers"]["findings"]
    assert hosts["gone"]["level"] == "missing"
    page = (tmp_path / "out/fleet.html").read_text()
    assert all(disk.serial in page for disk in disks.values()) and MOUNT in page and "<script" not in page
    assert "changed=0" in report(tmp_path)
