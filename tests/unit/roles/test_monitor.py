# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role monitor calls. The host is an interpreter that returns prepared answers."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.plumbline.ssd.tests.unit.roles.plays import play

pytestmark = pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="ansible-core is not here")

EVERYTHING = {"state": "present", "textfile": "/t", "interval": 5, "smartd": False, "mail": ""}
HEALTH = {"timeout": 9, "members": [], "leave_out": [{"serial": "S", "reason": "r"}]}
STACKS = [{"name": "pgdata"}, {"nam": "mistyped"}, {"name": "wal"}]
# A host each: plumbline_monitor, plumbline_health, and the arguments of the call; None if the role refuses them.
CASES = {
    "nothing_is_set": ({}, {}, {"stacks": []}),
    "everything": (EVERYTHING, HEALTH, {**EVERYTHING, **HEALTH, "stacks": []}),
    "absent": ({"state": "absent"}, {"gate": "warn"}, {"state": "absent", "stacks": []}),
    "stacks": ({"retire": ["old"]}, {}, {"retire": ["old"], "stacks": ["pgdata", "wal"]}),
    "mistyped": ({"intervall": 5}, {}, None),
}


def test_the_calls(tmp_path):
    stacks = {name: STACKS if name == "stacks" else [] for name in CASES}
    given = {name: {"plumbline_monitor": row[0], "plumbline_health": row[1], "plumbline_stacks": stacks[name]} for name, row in CASES.items()}
    names = ("plumbline_monitor", "plumbline_health", "plumbline_stacks")
    tasks = [{"ansible.builtin.include_role": {"name": "plumbline.ssd.monitor"}, "vars": {name: "{{ given[inventory_hostname].%s }}" % name for name in names}}]
    answers = {name: {"monitor": [{"changed": True, "files": []}]} for name in CASES}
    _code, said, calls = play(tmp_path, answers, tasks, "--forks", "2", given=given)
    assert {name: [args for _module, args in calls[name]] for name in CASES} == {name: [] if row[2] is None else [row[2]] for name, row in CASES.items()}, said
    assert "[mistyped]: FAILED!" in said and said.count("FAILED!") == 1, said
