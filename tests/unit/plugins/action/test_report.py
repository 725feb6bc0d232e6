# SPDX-License-Identifier: GPL-3.0-or-later
"""The task that writes the report: played, with its options, its check mode, and what it refuses."""

from __future__ import annotations

import json
import os
import re

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.action import report as action
from ansible_collections.plumbline.ssd.plugins.modules import report as documented
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import make_fleet
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_records import make_record
from ansible_collections.plumbline.ssd.tests.unit.roles.plays import play

RECORD = json.loads(json.dumps(make_record("db-1", "sector_63", "1")))


def run(tmp_path, *words, **arguments):
    """Play the task on a controller with two hosts; (code, output)."""
    place = tmp_path / f"play{len(list(tmp_path.glob('play*')))}"
    place.mkdir()
    tasks = [{"plumbline.ssd.report": {"path": str(tmp_path / "out/fleet"), **arguments}, "run_once": True}]
    code, output, calls = play(place, {"one": {}, "two": {}}, tasks, *words)
    assert calls == {"one": [], "two": []}
    return code, output


def test_documented_options_are_those_that_are_taken():
    options = yaml.safe_load(documented.DOCUMENTATION)["options"]
    assert set(options) == set(action.ARGUMENTS)
    for name, taken in action.ARGUMENTS.items():
        said = options[name]
        assert (said["type"], said.get("elements"), said.get("default"), said.get("required"), said.get("choices")) == (
            taken["type"], taken.get("elements"), taken.get("default"), taken.get("required"), taken.get("choices"),
        ), name  # fmt: skip


def test_files_are_written_once_and_replaced_whole(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records/db-1.json").write_text(json.dumps(RECORD))
    proof = {"format": 1, "stack": "pg", "digest": "d", "time": "t", "measured": [{"measure": "throughput", "verdict": "fail", "reasons": ["half of it"]}]}
    (tmp_path / "records/db-2-pg.json").write_text(json.dumps(proof))
    (tmp_path / "records/notes.txt").write_text("no record")
    arguments = {"directory": str(tmp_path / "records"), "hosts": ["db-1", "db-3"], "records": [{"host": "db-4", "unreachable": "{{ 'gone' }}"}]}
    code, output = run(tmp_path, "--check", **arguments)
    assert code == 0 and "changed=1" in output and not (tmp_path / "out").exists()
    code, output = run(tmp_path, **arguments)
    assert code == 0 and "changed=1" in output
    files = sorted(os.listdir(tmp_path / "out"))
    assert files == ["fleet.html", "fleet.json", "fleet.md"]
    found = json.loads((tmp_path / "out/fleet.json").read_text())
    assert {host["host"]: host["level"] for host in found["hosts"]} == {"db-1": "error", "db-2": "error", "db-3": "missing", "db-4": "missing"}
    before = {name: (tmp_path / "out" / name).stat().st_ino for name in files}
    code, output = run(tmp_path, **arguments)
    assert code == 0 and "changed=0" in output and {name: (tmp_path / "out" / name).stat().st_ino for name in files} == before
    (tmp_path / "out/fleet.md").write_text("something else\n")
    code, output = run(tmp_path, "--diff", **arguments)
    assert code == 0 and "changed=1" in output and "-something else" in output and "+# State of the drives" in output
    after = {name: (tmp_path / "out" / name).stat().st_ino for name in files}
    assert {name for name in files if after[name] != before[name]} == {"fleet.md"}


def test_files_of_one_host_are_merged(tmp_path):
    """In the order of the files' names, then the records of the task."""
    files = {"x.json": [{"host": "x", "n": 1, "l": [1]}, {"host": "x", "n": 2}], "y-late.json": {"host": "y", "n": 3}, "y.json": {"host": "y", "n": 4}}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    found = list(action.by_host(str(tmp_path), [{"host": "x", "l": [2]}, {"host": "z"}]))
    assert found == [{"host": "x", "n": 2, "l": [1, 2]}, {"host": "y", "n": 4}, {"host": "z"}]


PROOF = {"format": 1, "stack": "pg", "digest": "d", "time": "t", "measured": [{"measure": "throughput", "verdict": "pass", "reasons": []}]}
BROKEN_DRIVE = {"drive_health": {"drives": [{"name": "sda"}], "findings": [{"level": "error", "layer": "drive", "name": "sda", "found": "it fails"}]}}
# File → its content, the host that it is of, and what is found wrong with it, in a report that expects db01, db02 and db/3.
FILES = {
    "db01-pg.json": (PROOF, "db01", ""),
    "db01-acceptance.json": ({"host": "db01", "acceptance": []}, "db01", ""),
    "db%2F3.json": ({"host": "db/3", "device_info": {}}, "db/3", ""),
    "db01-b.json": ({**PROOF, "host": "db02"}, "db01", "it says that it is of the host 'db02'; wanted a record of 'db01', as the file is named"),
    "db01-c.json": ({"host": "db02", "drive_health": {"drives": [], "findings": []}}, "db01", "it says that it is of the host 'db02'"),
    "db01-d.json": ([{"host": "db01"}, {"host": "db02"}], "db01", "it says that it is of the host 'db02'"),
    "db01-e.json": ({"host": ["db02"]}, "db01", "it says that it is of the host"),
    "db01-f.json": ({"host": "db01-f"}, "db01", "it says that it is of the host 'db01-f'; wanted a record of 'db01'"),
    "db01-g.json": ("{", "db01", "this is not JSON"),
    "db01-h.json": ("[" * 100_000, "db01", "this is not JSON"),
    "db01-i.json": ('{"a": %s}' % ("9" * 5000), "db01", "this is not JSON"),
    "db01-j.json": ("[1]", "db01", "found a value that is no mapping"),
    "db01-k.json": ("{}", "db01", "found no name of a host"),
    "db01-l.json": ("[]", "db01", "found no name of a host"),
    "db01-m.json": (b"\xff\xfe{", "db01", "this is not JSON"),
    "db01-n.json": ("[" + "[]," * (1 << 20) + "[]]", "db01", "found more than 1,048,576 values"),
    "gone.json": ("{", "gone", "this is not JSON"),
}


def test_the_name_of_a_file_says_whose_it_is(tmp_path):
    """A host may have written what is in it: it speaks for itself alone, and what cannot be read is told of it, beside all others."""
    for name, (content, _host, _fault) in FILES.items():
        raw = content if isinstance(content, bytes) else (content if isinstance(content, str) else json.dumps(content)).encode()
        (tmp_path / name).write_bytes(raw)
    (tmp_path / "db02.json").write_text(json.dumps({"host": "db02", **BROKEN_DRIVE}))
    (tmp_path / "db01-dir.json").mkdir()
    fleet = make_fleet(action.by_host(str(tmp_path), [], ["db01", "db02", "db/3"]), ["db01", "db02", "db/3"])
    hosts = {one.host: one for one in fleet.hosts}
    assert set(hosts) == {"db01", "db02", "db/3", "gone"}
    assert (hosts["db02"].level, [one.found for one in hosts["db02"].findings]) == ("error", ["it fails"]), "no other host made it better"
    told = {os.path.basename(one.name): one.found for host in hosts.values() for one in host.findings if one.kind == "file"}
    assert set(told) == {name for name, (_content, _host, fault) in FILES.items() if fault} | {"db01-dir.json"}
    for name, (_content, host, fault) in FILES.items():
        assert fault in told.get(name, ""), name
        assert name not in told or any(name in one.name for one in hosts[host].findings), name
    assert hosts["db01"].level == "error" and [one.measure for one in hosts["db01"].measured] == ["throughput"]


def test_a_host_whose_file_is_no_json_costs_no_other_host_its_report(tmp_path):
    (tmp_path / "records").mkdir()
    (tmp_path / "records/db-1.json").write_text(json.dumps(RECORD))
    (tmp_path / "records/db-2.json").write_text('{"n": %s}' % ("9" * 5000))
    code, output = run(tmp_path, directory=str(tmp_path / "records"), hosts=["db-1", "db-2"])
    found = json.loads((tmp_path / "out/fleet.json").read_text())
    assert code == 0 and {host["host"]: host["level"] for host in found["hosts"]} == {"db-1": "error", "db-2": "error"}, output
    assert {name: (tmp_path / "out" / name).stat().st_mode & 0o777 for name in os.listdir(tmp_path / "out")} == dict.fromkeys(
        ("fleet.html", "fleet.json", "fleet.md"), 0o600
    )
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o700


def test_check_mode_before_there_is_a_directory(tmp_path):
    code, output = run(tmp_path, "--check", directory=str(tmp_path / "none"), hosts=["db-1"])
    assert code == 0 and not (tmp_path / "none").exists(), output


def test_formats_and_title(tmp_path):
    code, _output = run(tmp_path, records=[RECORD], formats=["markdown"], title="Drives | <b>", time="today")
    assert code == 0 and os.listdir(tmp_path / "out") == ["fleet.md"]
    assert (tmp_path / "out/fleet.md").read_text().startswith("# Drives \\| &lt;b&gt;\n\nState of today\\.\n")


@pytest.mark.parametrize(
    ("files", "arguments", "words"),
    [
        ({}, {}, "there is no record, and no host is expected"),
        ({}, {"records": [{"name": "a"}]}, r"records\[0\]: found no name of a host; wanted a record with 'host'"),
        ({}, {"records": [{"host": 7}]}, r"records\[0\]: found no name of a host"),
        ({"a.json": '{"host": "a"}'}, {"path": "/proc/nowhere/fleet"}, r"wanted a place that can be written"),
        ({}, {"directory": "/nowhere"}, "directory /nowhere: No such file or directory"),
        ({}, {"formats": ["pdf"], "hosts": ["a"]}, "value of formats must be one or more of: html, markdown, json"),
    ],
)
def test_refusals_say_what_is_wanted(tmp_path, files, arguments, words):
    (tmp_path / "records").mkdir()
    for name, content in files.items():
        (tmp_path / "records" / name).write_text(content)
    code, output = run(tmp_path, **{"directory": str(tmp_path / "records"), **arguments})
    assert code != 0 and re.search(words, output.replace("\n", " ")), output
    assert not (tmp_path / "out").exists() and "Traceback" not in output
