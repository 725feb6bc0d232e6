# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role steady_state calls, and when it fails. The host is an interpreter that returns prepared answers."""

from __future__ import annotations

import json
import shutil

import pytest
from ansible_collections.plumbline.ssd.plugins.action.report import by_host
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import make_fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_reserve import read_reserve
from ansible_collections.plumbline.ssd.tests.unit.roles.plays import play

pytestmark = pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="ansible-core is not here")

DRIVE = {"device": "nvme-A", "serial": "A", "terabytes_written": 7000}
BEGUN = {"changed": True, "state": "running", "wear": "it writes 480 MiB at most", "report": ["unit-A: starting"]}


def polled(state, verdict="pass"):
    return {"changed": False, "state": state, "verdict": verdict, "report": ["nvme-A: " + state]}


MEASURED = {"model": "MODEL/A", "firmware": "1 2", "share": 0.1141, "target": {"p99_write_ms": 2.0}, "points": []}
SOUGHT = {**polled("finished"), "measured": MEASURED}


# A host each: plumbline_steady_state, the answers, and how often the module is called.
CASES = {
    "nothing_is_set": ({}, [], 0),
    "waits": ({"drives": [DRIVE]}, [BEGUN, polled("running"), polled("running"), polled("finished")], 4),
    "inconclusive": ({"drives": [DRIVE]}, [BEGUN, polled("finished", "inconclusive")], 2),
    "fails": ({"drives": [DRIVE]}, [BEGUN, polled("failed")], 2),
    "does_not_wait": ({"drives": [DRIVE], "wait": False, "depth": 4}, [BEGUN, polled("running")], 2),
    "two_drives": ({"drives": [DRIVE, {**DRIVE, "serial": "B"}]}, [BEGUN, polled("finished"), BEGUN, polled("finished")], 4),
    "picture": ({"drives": [DRIVE], "mode": "passes", "reserve": "10%"}, [BEGUN, polled("finished", "not_judged")], 2),
    "picture_cut_off": ({"drives": [DRIVE], "mode": "saturation"}, [BEGUN, polled("interrupted", "not_judged")], 2),
    "search": ({"drives": [DRIVE], "target": {"p99_write_ms": 2}}, [BEGUN, polled("running"), SOUGHT], 3),
    "search_elsewhere": ({"drives": [DRIVE], "target": {"p99_write_ms": 2}}, [BEGUN, {**SOUGHT, "measured": {**MEASURED, "share": 0.5, "host": "search"}}], 2),
    "nothing_is_enough": ({"drives": [DRIVE], "target": {"wa": 3}}, [BEGUN, {**polled("finished", "fail"), "measured": None}], 2),
    "mistyped": ({"drives": [DRIVE], "dept": 4}, [], 0),
}
EMPTY = {"nothing_is_set", "mistyped"}
FAILING = {"inconclusive", "fails", "mistyped", "picture_cut_off", "nothing_is_enough"}


def test_the_calls(tmp_path):
    kept = tmp_path / "out" / "kept"  # nobody made it; a relative path begins where Ansible was started
    given = {name: {"plumbline_steady_state": {**row[0], **({"poll_seconds": 0, "directory": "out/kept"} if row[0] else {})}} for name, row in CASES.items()}
    variables = {"plumbline_steady_state": "{{ given[inventory_hostname].plumbline_steady_state }}"}
    tasks = [{"ansible.builtin.include_role": {"name": "plumbline.ssd.steady_state"}, "vars": variables}]
    answers = {name: {"steady_state": row[1]} for name, row in CASES.items()}
    _code, said, calls = play(tmp_path, answers, tasks, "--forks", "2", given=given)
    assert {name: len(calls[name]) for name in CASES} == {name: row[2] for name, row in CASES.items()}, said
    assert {name for name in CASES if "[%s]: FAILED!" % name in said} == FAILING, said
    assert "nvme-A: finished; anew: true beside this drive measures it again" in " ".join(said.split()), said
    for shown in ("it writes 480 MiB at most\n  unit-A: starting", "nvme-A: running", "nvme-A: finished"):
        assert "[waits]\n  %s\n" % shown in said, said
    first, second = (args for _module, args in calls["does_not_wait"])
    assert first == {"command": "start", "device": "nvme-A", "serial": "A", "terabytes_written": 7000, "depth": 4}
    assert second == {"command": "poll", "device": "nvme-A"}
    for name, given in (("picture", {"mode": "passes", "reserve": "10%"}), ("search", {"target": {"p99_write_ms": 2.0}})):
        args = calls[name][0][1]
        assert {key: value for key, value in args.items() if key not in ("command", "device", "serial", "terabytes_written")} == given
    # A measured reserve, as a spec takes it, where no report looks for records.
    # Each host has its own: what one says of a model is no other one's.
    names = {host: f"{host}-MODEL%2FA-1%202.json" for host in ("search", "search_elsewhere")}
    assert {path.name for path in (kept / "reserves").iterdir()} == set(names.values())
    assert {path.stat().st_mode & 0o777 for path in kept.rglob("*.json")} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "out", kept, kept / "reserves")} == {0o700}
    assert "kept in %s\n" % (kept / "waits-A.json") in said
    for host, share in (("search", 0.1141), ("search_elsewhere", 0.5)):
        measured = json.loads((kept / "reserves" / names[host]).read_text(encoding="utf-8"))
        assert {key: value for key, value in measured.items() if key != "time"} == {**MEASURED, "share": share, "host": host}
        read = read_reserve({"measured": measured}, None, "pgdata")[1].measured
        assert (read.share, read.host) == (share, host)
    found = json.loads((kept / "waits-A.json").read_text(encoding="utf-8"))
    assert (found["host"], [one["state"] for one in found["steady_state"]]) == ("waits", ["finished"])
    # What is kept is what the report takes, also of a host with two drives.
    hosts = {host.host: host for host in make_fleet(by_host(str(kept), [])).hosts}
    assert {name: len(host.steady) for name, host in hosts.items()} == {name: 2 if name == "two_drives" else 1 for name in CASES if name not in EMPTY}
    assert "steady_state" not in hosts["picture"].levels and hosts["nothing_is_enough"].levels["steady_state"] == "error"
    assert hosts["inconclusive"].levels["steady_state"] == "unknown" and hosts["waits"].levels["steady_state"] == "ok"


def test_nothing_is_loaded_before_there_is_a_place_for_the_result(tmp_path):
    (tmp_path / "file").write_text("")
    variables = {"plumbline_steady_state": {"drives": [DRIVE], "directory": "file/kept"}}
    tasks = [{"ansible.builtin.include_role": {"name": "plumbline.ssd.steady_state"}}]
    code, said, calls = play(tmp_path, {"db07": {"steady_state": [BEGUN, polled("finished")]}}, tasks, **variables)
    assert code != 0 and calls == {"db07": []}, said
    assert "directory %s: Not a directory; wanted a folder of the controller" % (tmp_path / "file" / "kept") in " ".join(said.split()), said
