# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The role health: what it calls, what it prints, and when it fails."""

from __future__ import annotations

import shutil

import pytest
from ansible_collections.plumbline.ssd.tests.unit.roles.plays import play

pytestmark = pytest.mark.skipif(not shutil.which("ansible-playbook"), reason="ansible-core is not here")

REPORT = ["a table"]
SOUND = {"drive_health": [{"changed": True, "level": "ok", "report": REPORT}]}
FAILING = {"drive_health": [{"failed": True, "msg": "the drives are not as they should be", "reasons": ["one"], "report": REPORT}]}
DRIVE = "nvme-MODEL_SERIAL1"
LEAVE_OUT = [{"serial": "S", "reason": "r"}]
# A host each: its answer, plumbline_health, whether the play ends well for it, and the arguments of the call.
CASES = {
    "nothing_is_set": (SOUND, {}, True, {"baseline": True, "fail_if": "error"}),
    "failing": (FAILING, {}, False, {"baseline": True, "fail_if": "error"}),
    "warn": (SOUND, {"gate": "warn"}, True, {"baseline": True, "fail_if": "never"}),
    "off": (FAILING, {"gate": "off"}, True, None),
    "off_as_yaml_reads_it": (FAILING, {"gate": False}, True, None),
    "chosen": (SOUND, {"devices": [DRIVE], "timeout": 5}, True, {"baseline": True, "fail_if": "error", "devices": [DRIVE], "timeout": 5}),
    "left_out": (SOUND, {"leave_out": LEAVE_OUT}, True, {"baseline": True, "fail_if": "error", "leave_out": LEAVE_OUT}),
    "left_out_without_a_reason": (SOUND, {"leave_out": "S"}, False, None),
    "mistyped": (SOUND, {"gat": "off"}, False, None),
}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    options = {name: case[1] for name, case in CASES.items()}
    tasks = [{"ansible.builtin.include_role": {"name": "plumbline.ssd.health"}, "vars": {"plumbline_health": "{{ options[inventory_hostname] }}"}}]
    return play(tmp_path_factory.mktemp("play"), {name: case[0] for name, case in CASES.items()}, tasks, "--forks", "2", options=options)


@pytest.mark.parametrize("name", CASES)
def test_the_call_and_its_end(played, name):
    _code, said, calls = played
    _answer, _options, good, arguments = CASES[name]
    assert [args for _module, args in calls[name]] == ([] if arguments is None else [arguments]), said
    assert f"[{name}]: FAILED!" not in said if good else f"[{name}]: FAILED!" in said, said
    assert (f"[{name}]\n  a table" in said) is (arguments is not None), said
