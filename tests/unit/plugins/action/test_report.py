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


def test_files_of_several_hosts_and_of_one_are_merged(tmp_path):
    """By host, in the order of the files' names, then the records of the task."""
    files = {"a.json": [{"host": "x", "n": 1, "l": [1]}, {"host": "y", "n": 1}, {"host": "x", "n": 2}], "b.json": {"host": "y", "n": 3}, "c.json": []}
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    found = list(action.by_host(str(tmp_path), [{"host": "x", "l": [2]}, {"host": "z"}]))
    assert found == [{"host": "x", "n": 2, "l": [1, 2]}, {"host": "y", "n": 3}, {"host": "z"}]


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
        ({"a.json": "{"}, {}, r"a\.json: this is not JSON"),
        ({"a.json": "[" * 100_000}, {}, r"a\.json: this is not JSON"),
        ({"a.json": "[1]"}, {}, r"a\.json: found a value that is no mapping"),
        ({"a.json": "{}"}, {}, r"a\.json: found no name of a host"),
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
