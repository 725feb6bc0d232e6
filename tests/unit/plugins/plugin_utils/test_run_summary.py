# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.run_summary import HostRun, kept_of_plan, outcome_of, summary_lines


def finding(level, name="data", layer="ext4"):
    return {"level": level, "layer": layer, "wanted": "64", "text": f"{layer} {name}: stride 16; wanted 64"}


@pytest.mark.parametrize(
    "counts, plan, expected",
    [
        ({"unreachable": 1, "failures": 1}, {}, "unreachable"),
        ({"failures": 1, "changed": 2}, {}, "failed"),
        ({"changed": 2}, {}, "changed"),
        ({"changed": 0}, {"steps": [{}]}, "with steps that remain"),
        ({}, {"steps": []}, "as specified"),
        ({}, {}, "as specified"),
    ],
)
def test_outcome(counts, plan, expected):
    assert outcome_of(counts, plan) == expected


def test_alike_is_told_once_and_worst_comes_first():
    runs = [HostRun(f"db{number:02}", "as specified", "", {"findings": [finding("warning", name=str(number))]}) for number in range(3)]
    runs.append(HostRun("db07", "failed", "refused: nothing was\n written", {}))
    runs.append(HostRun("db08", "unreachable", "no route", {"findings": [finding("error"), finding("info")]}))
    assert summary_lines(runs) == [
        "5 hosts: 3 as specified, 1 failed, 1 unreachable",
        "unreachable: db08: no route",
        "failed: db07: refused: nothing was; written",
        "error: db08: ext4 data: stride 16; wanted 64",
        "warning: db00 and 2 more: ext4 0: stride 16; wanted 64",
    ]


def test_a_thousand_hosts_are_ten_lines():
    runs = [HostRun(f"db{number:04}", "failed", f"fault {number % 40} " + "x" * 500, {}) for number in range(1000)]
    lines = summary_lines(runs)
    assert len(lines) == 10 and lines[0] == "1,000 hosts: 1,000 failed" and lines[-1] == "and 32 more kinds of what is wrong"
    assert lines[1].startswith("failed: db0000 and 24 more: fault 0") and max(map(len, lines)) <= 200


@pytest.mark.parametrize("found", [None, "text", [{}], [{"level": "error"}], [{"level": ["x"]}]])
def test_a_plan_of_another_shape_is_no_traceback(found):
    assert summary_lines([HostRun("db07", "as specified", "", {"findings": found})])[0] == "1 host: 1 as specified"


HOSTILE = [None, 7, "text", ["x"], {}, {"level": "error", "text": 7}, {"level": "error", "text": {"a": ["\x1b"]}}, {"level": ["error"]}, {"level": {}}]
HOSTILE += [{"level": "warning", "layer": 10**6000, "wanted": float("nan"), "text": "\x1b[2J\x9b1m\u202e" * 10**6}]


@pytest.mark.parametrize("found", [HOSTILE, HOSTILE * 1000, {"level": "error"}, 7])
@pytest.mark.parametrize("fault", ["", "\x1b]52;c;x\x07" * 10**6, {"a": 1}, ["x"], 7])
def test_a_host_that_lies_costs_no_other_host_its_line(found, fault):
    runs = [HostRun("db07", "failed", fault, {"findings": found, "steps": found}), HostRun("db08", "failed", "it is off", {"findings": [finding("error")]})]
    lines = summary_lines(runs)
    assert lines[0] == "2 hosts: 2 failed" and "failed: db08: it is off" in lines
    assert any(line.startswith("error: db08: ext4 data") for line in lines) or len(lines) == 10
    assert all(line.isprintable() and len(line) <= 200 for line in lines)


@pytest.mark.parametrize("plan", [None, 7, [], {"findings": HOSTILE * 1000, "steps": "x", "stacks": "y" * 10**6}])
def test_little_is_kept_of_a_plan_until_the_end(plan):
    kept = kept_of_plan(plan)
    assert set(kept) == {"steps", "findings"} and len(str(kept)) < 10**6


def test_without_a_plan_there_is_nothing_to_say():
    assert summary_lines([]) == []
