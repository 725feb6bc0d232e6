# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook of the audit: one call a host, a record of each, and a report of all; and the parts of a host that fail alone."""

from __future__ import annotations

import json
import os
import subprocess

import pytest
from ansible_collections.plumbline.ssd.plugins.action.audit import record_of
from ansible_collections.plumbline.ssd.plugins.module_utils._core.packing import pack
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import PlanAnswer
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._core.test_packing import reading
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_records import make_record
from ansible_collections.plumbline.ssd.tests.unit.roles import plays

ROOT = os.path.join(os.path.dirname(__file__), *[".."] * 4)
SOUND = {
    key: value for key, value in json.loads(json.dumps(make_record("db-1", "healthy", "1"))).items() if key in ("device_info", "drive_health", "stack_info")
}
READ = {"drive_health": SOUND["drive_health"], "storage": {"answer": pack(PlanAnswer(reading(), "", {}))}}  # what the host returns
NOT_ROOT = {"failed": True, "msg": "root is missing"}


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """The playbook on a sound host, one that the module fails on, and one that does not answer: (code, output, directory, calls)."""
    place = tmp_path_factory.mktemp("audit")
    answers = {"db/1": {"audit": [READ]}, "db2": {"audit": [NOT_ROOT]}}
    plays.prepare(place, answers, plumbline_audit={"directory": str(place / "out")})
    hosts = json.loads((place / "hosts.json").read_text())
    hosts["all"]["hosts"]["db3"] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_args": "-o ConnectTimeout=1"}
    (place / "hosts.json").write_text(json.dumps(hosts))
    argv = ["ansible-playbook", "-i", str(place / "hosts.json"), "-e", "ansible_become=false", os.path.join(ROOT, "playbooks", "audit.yml")]
    done = subprocess.run(argv, cwd=place, env=plays.environment(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=HANG)
    return done.returncode, done.stdout, place / "out", plays.calls_of(place, answers)


def test_each_host_is_called_once_and_has_a_record(audited):
    _code, said, out, calls = audited
    assert {name: [module for module, _args in found] for name, found in calls.items()} == {"db/1": ["audit"], "db2": ["audit"]}, said
    assert sorted(os.listdir(out / "records")) == ["db%2F1.json", "db2.json", "db3.json"], said
    assert (out / "records/db2.json").stat().st_mode & 0o777 == 0o600
    assert "127.0.0.1" in json.loads((out / "records/db3.json").read_text())["unreachable"]


def test_the_report_has_all_hosts_and_nothing_fails(audited):
    code, said, out, _calls = audited
    found = {host["host"]: host["level"] for host in json.loads((out / "report.json").read_text())["hosts"]}
    assert set(found) == {"db/1", "db2", "db3"} and (found["db2"], found["db3"]) == ("error", "missing"), said
    assert found["db/1"] not in ("error", "missing")
    assert code == 0 and "[report]\n" in said and str(out / "report.html") in said, said


def test_a_result_without_parts_is_a_failure():
    assert record_of("h", "t", {"failed": True, "msg": "no python"}) == {"host": "h", "time": "t", "stack_info": {"failed": True, "msg": "no python"}}
    assert record_of("h", "t", {**SOUND, "changed": False}) == {"host": "h", "time": "t", **SOUND}
