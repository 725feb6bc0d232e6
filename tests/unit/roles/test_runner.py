# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook of the audit under ansible-runner, as AWX runs it: its artifacts, and two workers whose records come to one report."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_records import make_answer, make_record
from ansible_collections.plumbline.ssd.tests.unit.roles import plays

pytestmark = pytest.mark.skipif(not shutil.which("ansible-runner"), reason="ansible-runner is not here")

HOSTS = {f"db-{number}": kind for number, kind in enumerate(["healthy", "sector_63", "worn", "healthy", "failing"])}
TIME = "2026-01-01T00:00:00Z"


def answer(name, kind):
    """What the audit of a host returns."""
    record = json.loads(json.dumps(make_record(name, kind, name)))
    return {key: record[key] for key in ("device_info", "drive_health", "stack_info")}


def private_directory(place, name, **settings):
    """What ansible-runner is given, on the prepared inventory: the artifacts of a run are below it, and so are its records."""
    home = place / name
    (home / "env").mkdir(parents=True)
    (home / "project").mkdir()
    (home / "inventory").mkdir()
    shutil.copy(place / "hosts.json", home / "inventory/hosts.json")
    kept = {"plumbline_audit": {"directory": str(home / "artifacts/files")}, "ansible_become": False, **settings}
    (home / "env/extravars").write_text(json.dumps(kept))
    return home


def start(place, home, *words):
    """ansible-runner on the playbook of the audit, by the collection's name for it."""
    argv = ["ansible-runner", "run", str(home), "--playbook", "plumbline.ssd.audit", "--ident", "job", *words]
    return subprocess.Popen(argv, cwd=place, env=plays.environment(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def artifacts(home):
    """(status, return code, events by name, the results of the audit by host) of the run."""
    job = home / "artifacts/job"
    events = [json.loads(path.read_text()) for path in sorted((job / "job_events").glob("*.json"), key=lambda path: int(path.name.split("-")[0]))]
    by_name = {}
    for event in events:
        by_name.setdefault(event["event"], []).append(event["event_data"])
    results = {data["host"]: data["res"] for data in by_name.get("runner_on_ok", []) if data["task_action"] == "plumbline.ssd.audit"}
    return (job / "status").read_text(), int((job / "rc").read_text()), by_name, results


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = tmp_path_factory.mktemp("runner")
    plays.prepare(place, {name: {"audit": [make_answer(name, kind, name)]} for name, kind in HOSTS.items()})
    return place


@pytest.fixture(scope="module")
def whole(place):
    """One run over all hosts."""
    home = private_directory(place, "whole")
    done = start(place, home)
    said = done.communicate(timeout=HANG)[0]
    assert done.returncode == 0, said
    return home


@pytest.fixture(scope="module")
def workers(place, whole):
    """Two runs at the same time, each on its part of the inventory and in a directory of its own."""
    parts = {"first": "all[0:2]", "second": "all[3:4]"}
    homes = {name: private_directory(place, name) for name in parts}
    for done in [start(place, homes[name], "--limit", limit) for name, limit in parts.items()]:
        said = done.communicate(timeout=HANG)[0]
        assert done.returncode == 0, said
    return homes


def test_the_artifacts_of_a_run(place, whole):
    status, code, events, results = artifacts(whole)
    assert (status, code) == ("successful", 0)
    assert set(results) == set(HOSTS)
    assert results["db-1"]["stack_info"]["findings"] == answer("db-1", "sector_63")["stack_info"]["findings"]
    (stats,) = events["playbook_on_stats"]
    assert set(stats["ok"]) == set(HOSTS) and not stats["failures"] and not stats["dark"]
    assert {call[0] for calls in plays.calls_of(place, HOSTS).values() for call in calls} == {"audit"}
    files = whole / "artifacts/files"
    assert sorted(path.name for path in files.iterdir()) == ["records", "report.html", "report.json", "report.md"]
    assert sorted(path.name for path in (files / "records").iterdir()) == [f"{name}.json" for name in HOSTS]
    levels = {one["host"]: one["level"] for one in json.loads((files / "report.json").read_text())["hosts"]}
    assert levels["db-0"] in ("ok", "info") and levels["db-1"] == "error"


def test_a_run_that_fails_says_so(place):
    """A host that is not in the inventory, and one whose spec is wrong."""
    home = private_directory(place, "wrong", plumbline_audit={"directry": "x"})
    done = start(place, home, "--limit", "db-0")
    done.communicate(timeout=HANG)
    status, code, events, results = artifacts(home)
    assert done.returncode and (status, code) == ("failed", 2) and results == {}
    (failed,) = [data for data in events["runner_on_failed"] if data["host"] == "db-0"]
    assert "directry" in json.dumps(failed["res"])


def report(place, name, records):
    """The module on the records of all these runs, each read at the same time: the text of its page, its list and its table."""
    together = place / name
    together.mkdir()
    for path in records:
        record = {**json.loads(path.read_text()), "time": TIME}
        (together / path.name).write_text(json.dumps(record))
    task = {"plumbline.ssd.report": {"directory": str(together), "path": str(place / name / "fleet"), "hosts": list(HOSTS), "time": TIME}, "run_once": True}
    (place / f"{name}.yml").write_text(plays.PLAY % json.dumps([task]))
    argv = ["ansible-playbook", "-i", str(place / "hosts.json"), str(place / f"{name}.yml")]
    done = subprocess.run(argv, cwd=place, env=plays.environment(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=HANG)
    assert done.returncode == 0, done.stdout
    return {end: (together / f"fleet.{end}").read_text() for end in ("html", "json", "md")}


def test_two_workers_come_to_the_page_of_one_run(place, whole, workers):
    kept = {name: sorted((home / "artifacts/files/records").iterdir()) for name, home in [*workers.items(), ("whole", whole)]}
    assert [[path.stem for path in kept[name]] for name in workers] == [["db-0", "db-1", "db-2"], ["db-3", "db-4"]]
    for name in workers:
        status, code, _events, results = artifacts(workers[name])
        assert (status, code) == ("successful", 0) and set(results) == {path.stem for path in kept[name]}
    merged = report(place, "merged", [path for name in workers for path in kept[name]])
    assert merged == report(place, "single", kept["whole"])
    assert all(name in merged["html"] for name in HOSTS) and len(json.loads(merged["json"])["hosts"]) == len(HOSTS)
    # One worker's records alone are another page: what is missing is told.
    half = report(place, "half", kept["first"])
    missing = [one["host"] for one in json.loads(half["json"])["hosts"] if one["level"] == "missing"]
    assert missing == ["db-3", "db-4"] and half["html"] != merged["html"]
