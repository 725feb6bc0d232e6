# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module returned from a host is data to the controller: of its type, printable, bounded, and nothing that Ansible acts on."""

from __future__ import annotations

import datetime
import functools
import types

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils import report
from ansible_collections.plumbline.ssd.plugins.plugin_utils.host_result import as_data, lines_of

ACTED_ON = {
    "ansible_facts": {"plumbline_verify": {}}, "add_host": {}, "add_group": {}, "invocation": {}, "exception": "x", "deprecations": [3], "skipped": True,
    "ansible_stats": 5, "failed_when_result": False, "failed_when_suppressed_exception": "x", "results": [{"skipped": True}],
    "skip_reason": "x", "_ansible_no_log": True, "_ansible_delegated_vars": {}, "_ansible_notify": ["x"],
}  # fmt: skip
ESCAPES = "\x1b]52;c;x\x07\x9b2J\u202e\udc80"
SHOWN = "\\x1b]52;c;x\\x07\\x9b2J\\u202e\\x80"
DEEP = {"a": None}
for _level in range(5000):
    DEEP = {"a": DEEP}


def test_what_ansible_acts_on_is_left_out():
    assert as_data({**ACTED_ON, "changed": True, "drives": [{"name": "sda"}]}) == {"changed": True, "drives": [{"name": "sda"}]}


def test_everything_is_printable():
    found = as_data({"msg": ESCAPES, "report": [ESCAPES, f"  {ESCAPES}"], "drives": {ESCAPES: [ESCAPES]}, "diff": {"before": f"a\n{ESCAPES}", "x": 1}})
    assert found["msg"] == SHOWN and found["report"] == [SHOWN, f"  {SHOWN}"] and found["drives"] == {SHOWN: [SHOWN]}
    assert found["diff"] == {"before": f"a\n{SHOWN}"}


@pytest.mark.parametrize("value, kept", [("x", ["x"]), (None, []), (7, ["7"]), ([1, {"a": 2}], ["1", "{'a': 2}"]), ({"a": 1}, ["{'a': 1}"])])
def test_lines_are_lines(value, kept):
    assert as_data({"reasons": value, "warnings": value}) == {"reasons": kept, "warnings": kept}


def test_no_value_is_more_than_json():
    """ansible-core 2.19 lets a host tag a text, as deprecated for example, and prints what the tag says as its own warning."""

    class Tagged(str):
        pass

    found = as_data({"verdict": Tagged("pass"), "when": datetime.date(2026, 1, 2), "list": (1, 2)})
    assert found == {"verdict": "pass", "when": "2026-01-02", "list": [1, 2]} and not isinstance(found["verdict"], Tagged)


@pytest.mark.parametrize("levels, taken", [(60, True), (70, False), (400, False), (990, False)])
def test_how_deep_a_result_may_be(levels, taken):
    found = as_data({"proofs": functools.reduce(lambda inner, _level: {"a": inner}, range(levels), 1)})
    assert ("proofs" in found) is taken and found.get("failed", False) is not taken


@pytest.mark.parametrize("result", [None, [], "x", 7, {"a": DEEP}])
def test_what_is_no_result_is_a_failure(result):
    found = as_data(result)
    assert found["failed"] and found["msg"].startswith("what the host returned is no result of a module of this release: ")


def test_the_types_of_what_everybody_reads():
    found = as_data({"failed": "no", "changed": [1], "unreachable": 0, "msg": {"a": 1}, "diff": [7, {"before": 3, "after": "x"}, [{"after": "y"}]]})
    assert found == {"failed": True, "changed": True, "unreachable": False, "msg": "{'a': 1}", "diff": [{}, {"after": "x"}, [{"after": "y"}]]}


def test_the_warnings_of_a_newer_ansible_core_are_text():
    assert as_data({"warnings": [types.SimpleNamespace(event=types.SimpleNamespace(msg=ESCAPES))]}) == {"warnings": [SHOWN]}


def test_the_length_of_all_is_bounded():
    found = as_data({"msg": ESCAPES * 10**6, "report": [ESCAPES * 10**6] * 3 + ["x"] * 10**5, "other": ["x" * (9 << 20)]})
    assert len(found["msg"]) < 5000 and len(found["report"]) == 10_001 and max(map(len, found["report"])) < 30_000 and len(found["other"][0]) < 2 << 20


def test_a_report_is_printed_as_lines_below_its_host():
    said = []
    report.print_report(types.SimpleNamespace(display=said.append), ESCAPES, [ESCAPES, 7])
    report.print_report(types.SimpleNamespace(display=said.append), "x", {})
    assert said == [f"[{SHOWN}]\n  {SHOWN}\n  7"] and lines_of(None) == []
