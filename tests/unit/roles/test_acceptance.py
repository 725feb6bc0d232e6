# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The playbook of the acceptance: each drive is measured, each host has a record, all have one report, and what fails the play."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG
from ansible_collections.plumbline.ssd.tests.unit.roles import plays

pytestmark = pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="ansible-core is not here")

ROOT = os.path.join(os.path.dirname(__file__), *[".."] * 3)


def result(verdict):
    """What the module returns of a drive with one cell."""
    cell = {"name": "rand_read_4k_qd64", "verdict": verdict, "required": True, "state": "as_found", "value": 900.0, "low": 890.0, "high": 910.0}
    cell.update(wanted=1000.0, unit="IOPS", against="{{ 1 + 1 }}")
    return {"verdict": verdict, "reasons": [] if verdict == "pass" else ["why it is " + verdict], "cells": [cell], "report": ["a table of a drive"]}


BROKEN = {"failed": True, "msg": "fio is not on this host"}
# What steady_state returned for a drive.
STEADY = {
    "verdict": "pass",
    "pattern": "4 KiB, random writes",
    "windows": [{"first_fills": 0, "last_fills": 20}],
    "series": {"fills": list(range(1, 21)), "iops": [9000 + number for number in range(20)]},
}
# A host each: its answers, its devices, plumbline_acceptance, and whether the play ends well for it.
CASES = {
    "sound/1": ([result("pass")], ["/dev/sdb"], {}, True),
    "slow": ([result("fail")], ["/dev/sdb"], {}, False),
    "one_of_two": ([result("pass"), result("fail")], ["/dev/sdb", "/dev/sdc"], {}, False),
    "unsure": ([result("inconclusive")], ["/dev/sdb"], {}, True),
    "strict": ([result("inconclusive")], ["/dev/sdb"], {"fail_if": "inconclusive"}, False),
    "never": ([result("fail")], ["/dev/sdb"], {"fail_if": "never"}, True),
    "broken": ([BROKEN, result("pass")], ["/dev/sdb", "/dev/sdc"], {}, False),
    "broken_never": ([BROKEN], ["/dev/sdb"], {"fail_if": "never"}, True),
    "written": (
        [result("pass"), result("pass")],
        ["/dev/sdb", "/dev/sdc"],
        {"writes": {"/dev/sdb": {"serial": "S1", "terabytes_written": 700}}, "steady": {"/dev/sdb": STEADY}},
        True,
    ),
    "none": ([], [], {}, True),
    "mistyped": ([], ["/dev/sdb"], {"incumbant": "/dev/sda"}, False),
    "mistyped_key_of_a_drive": ([], ["/dev/sdb"], {"writes": {"/dev/sdb": {"serail": "S1"}}}, False),
    "mistyped_list": ([], "/dev/sdb", {}, False),
    "mistyped_drive": ([], ["/dev/sdb"], {"writes": {"/dev/sdc": {"serial": "S1"}}}, False),
    "lying": ([result("perfect")], ["/dev/sdb"], {}, False),
}
MISTYPED = {name for name in CASES if name.startswith("mistyped")}
OPTIONS = {"incumbent": "/dev/sda", "required": ["rand_read_4k_qd64"], "workload": {"read_iops": 1600, "kib": 5}, "blocks": 7}


def run(place, *words, first=None):
    """The playbook on all cases, *first* before the others, and on a host that does not answer: (code, output, calls)."""
    plays.prepare(place, {name: {"acceptance": case[0]} for name, case in CASES.items()})
    hosts = json.loads((place / "hosts.json").read_text())
    for name, (_answers, devices, options, _good) in CASES.items():
        given = {**options, **OPTIONS} if name == "sound/1" else options
        given = {"directory": "new/out", **given}
        hosts["all"]["hosts"][name].update(plumbline_acceptance_devices=devices, plumbline_acceptance=given)
    gone = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_ssh_args": "-o ConnectTimeout=1"}
    hosts["all"]["hosts"]["gone"] = {**gone, "plumbline_acceptance_devices": ["/dev/sdb"], "plumbline_acceptance": {"directory": "new/out"}}
    hosts["all"]["hosts"] = dict(sorted(hosts["all"]["hosts"].items(), key=lambda item: item[0] != first))
    (place / "hosts.json").write_text(json.dumps(hosts))
    playbook = os.path.join(ROOT, "playbooks", "accept_drives.yml")
    argv = ["ansible-playbook", "-i", str(place / "hosts.json"), "-e", "ansible_become=false", *words, playbook]
    done = subprocess.run(argv, cwd=place, env=plays.environment(place), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=HANG)
    return done.returncode, done.stdout, plays.calls_of(place, CASES)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    place = tmp_path_factory.mktemp("acceptance")
    return (*run(place), place / "new" / "out")


def ended_well(said):
    """Host → whether the recap has no failure of it."""
    recap = [line.split() for line in said[said.index("PLAY RECAP") :].splitlines()[1:] if line.strip()]
    return {words[0]: "failed=0" in words and "unreachable=0" in words for words in recap}


def test_what_fails_the_play(played):
    code, said, _calls, _out = played
    assert code != 0 and ended_well(said) == {**{name: case[3] for name, case in CASES.items()}, "gone": False}, said
    assert "why it is fail" in said and "fio is not on this host" in said and "a table of a drive" in said


def test_each_drive_is_called_once_with_the_options(played):
    _code, said, calls, _out = played
    assert {name: [args["device"] for _module, args in found] for name, found in calls.items()} == {
        name: [] if name in MISTYPED else case[1] for name, case in CASES.items()
    }, said
    assert calls["sound/1"] == [["acceptance", {"device": "/dev/sdb", "writes": False, **OPTIONS}]]
    assert calls["slow"] == [["acceptance", {"device": "/dev/sdb", "writes": False}]]
    written = {"device": "/dev/sdb", "writes": True, "serial": "S1", "terabytes_written": 700, "steady": STEADY}
    assert calls["written"] == [["acceptance", written], ["acceptance", {"device": "/dev/sdc", "writes": False}]]


def test_records_and_the_report(played):
    _code, said, _calls, out = played
    names = {"sound%2F1" if name == "sound/1" else name for name in CASES if name not in {"none", *MISTYPED}} | {"gone"}
    assert set(os.listdir(out / "records")) == {name + "-acceptance.json" for name in names}, said
    record = json.loads((out / "records/one_of_two-acceptance.json").read_text())
    assert (record["host"], [one["verdict"] for one in record["acceptance"]]) == ("one_of_two", ["pass", "fail"])
    assert record["acceptance"][0]["cells"][0]["against"] == "{{ 1 + 1 }}", "a result is no template"
    assert {path.stat().st_mode & 0o777 for path in out.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (out.parent, out, out / "records")} == {0o700}
    assert "kept in %s/records/slow-acceptance.json\n" % out in said
    found = {host["host"]: host["levels"] for host in json.loads((out / "report.json").read_text())["hosts"]}
    assert {name: found[name]["acceptance"] for name in ("sound/1", "slow", "unsure", "broken", "one_of_two")} == {
        "sound/1": "ok",
        "slow": "error",
        "unsure": "unknown",
        "broken": "error",
        "one_of_two": "error",
    }
    assert found["gone"]["answer"] == "missing"
    rows = [line for line in (out / "report.md").read_text().replace("\\", "").splitlines() if "cell rand_read_4k_qd64" in line]
    assert {(row.split()[2], row.rpartition("IOPS. ")[2]) for row in rows} == {
        ("error", "Take another drive for this load, or another load. |"),
        ("unknown", "Measure it again while the host is quiet, with more blocks; if it holds nothing, name it in writes. |"),
    }, rows
    assert "1 MiB" not in (out / "report.md").read_text() and "900" in (out / "report.html").read_text()


def test_check_mode_keeps_nothing(tmp_path):
    _code, said, _calls = run(tmp_path, "--check")
    assert not (tmp_path / "new").exists(), said


def test_no_drive_is_measured_before_there_is_a_place_for_the_record(tmp_path):
    (tmp_path / "new").write_text("")
    _code, said, calls = run(tmp_path)
    assert set(ended_well(said).values()) == {True, False} and not any(calls.values()), said


def test_a_first_host_without_a_drive_takes_the_report_from_no_other(tmp_path):
    _code, said, _calls = run(tmp_path, "--limit", "none,sound/1", first="none")
    assert (tmp_path / "new/out/report.html").exists(), said
    found = json.loads((tmp_path / "new/out/report.json").read_text())["hosts"]
    assert [(host["host"], host["levels"]["acceptance"]) for host in found] == [("sound/1", "ok")], said
