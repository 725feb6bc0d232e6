# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What device_info, stack_info and audit make on the controller of one reading that a host returns."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.packing import pack
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import PlanAnswer
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.device_table import device_result
from ansible_collections.plumbline.ssd.plugins.plugin_utils.views import VIEWS
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils._core.test_packing import SPEC, reading

FAILED = {"failed": True, "msg": "it hangs", "reasons": ["it hangs", "for long"]}
HEALTH = {"drives": [{"name": "nvme0n1"}], "findings": []}


def answer_of(found=None, **more):
    return {"changed": False, "answer": pack(PlanAnswer(found or reading(), "", {})), **more}


def made(name, answer, **arguments):
    """(the result, the calls that it took)."""
    calls = []

    def call(module, given):
        calls.append((module, given))
        return answer

    return VIEWS[name](call, arguments), calls


def audited(storage, health=None, **arguments):
    return made("audit", {"changed": False, "storage": storage, "drive_health": HEALTH if health is None else health}, **arguments)


def test_disks_and_volumes_are_those_of_the_reading():
    seen = reading().seen
    disks, calls = made("device_info", answer_of())
    assert disks == {"changed": False, **device_result(seen, bool(seen.paths))} and calls == [("device_info", {})]
    volumes, calls = made("stack_info", answer_of(), devices=["a"])
    wanted = [view(seen, devno).as_dict() for devno in tops(seen, list(seen.paths.values()) or None)]
    assert [one["name"] for one in volumes["stacks"]] == [one["name"] for one in wanted] and volumes["report"]
    assert calls == [("stack_info", {"devices": ["a"]})]


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("result", [{"failed": True, "msg": "root is missing", "devices": [1]}, {"unreachable": True, "msg": "gone"}, ["no mapping"]])
def test_a_failure_of_the_host_is_the_result(name, result):
    found, _calls = made(name, result)
    assert (found.get("failed") or found.get("unreachable")) and found["msg"] and "devices" not in found


@pytest.mark.parametrize("name", ["device_info", "stack_info"])
@pytest.mark.parametrize("answer", [None, 7, "x", "", pack([1])])
def test_a_success_without_a_reading_is_a_failure(name, answer):
    found, _calls = made(name, answer_of(answer=answer))
    assert found["failed"] and "no reading of this release" in found["msg"]


@pytest.mark.parametrize("name", ["device_info", "stack_info"])
def test_nothing_but_the_reading_is_taken_of_a_host(name):
    found, _calls = made(name, answer_of(devices=["made-up"], stacks=["made-up"], report=["made-up"], ansible_facts={"a": 1}, warnings=["w"]))
    assert "made-up" not in str(found) and "ansible_facts" not in found and found["warnings"] == ["w"]


def test_one_call_has_all_parts_of_an_audit():
    found, calls = audited(answer_of(), stacks=SPEC, verify={}, timeout=60)
    assert set(found) == {"changed", "device_info", "stack_info", "drive_health", "stack_plan"}
    assert not [part for part in found.values() if isinstance(part, dict) and part.get("failed")]
    ((module, given),) = calls
    assert module == "audit" and set(given) == {"questions", "timeout"} and given["questions"]["everything"] and not given["questions"]["prove"]
    assert found["device_info"]["devices"] and found["stack_info"]["stacks"] and found["drive_health"] == HEALTH
    assert found["stack_plan"]["proofs"] and "steps" in found["stack_plan"]
    assert "stack_plan" not in audited(answer_of())[0]


def test_a_part_that_fails_leaves_the_others():
    found, _calls = audited(FAILED, stacks=SPEC)
    assert (found["stack_info"], found["stack_plan"], found["drive_health"]) == (FAILED, FAILED, HEALTH) and "device_info" not in found
    found, _calls = audited(answer_of(), FAILED)
    assert found["drive_health"] == FAILED and found["stack_info"]["stacks"]
    found, _calls = audited(answer_of(), "lie")
    assert found["drive_health"]["failed"] and not found["stack_info"].get("failed")
    found, _calls = audited({"answer": "x"}, stacks=SPEC)
    assert "no reading of this release" in found["stack_info"]["msg"] and found["stack_plan"]["failed"]


def test_a_plan_that_is_refused_is_a_part():
    other = [{**SPEC[0], "devices": ["nvme-that-is-not-there", "nvme-nor-that"]}]
    found, _calls = audited(answer_of(), stacks=other)
    assert found["stack_plan"]["failed"] and found["stack_plan"]["reasons"] and found["stack_info"]["stacks"]


@pytest.mark.parametrize(("arguments", "word"), [({"stacks": [{"name": "A"}]}, "name"), ({"stacks": SPEC, "verify": {"meesure": []}}, "meesure")])
def test_a_mistake_in_the_spec_asks_no_host(arguments, word):
    found, calls = audited(answer_of(), **arguments)
    assert found["failed"] and word in found["msg"] and not calls


def test_an_option_that_is_none_is_told_as_every_module_does():
    found, calls = made("audit", {"failed": True, "msg": "Unsupported parameters for (plumbline.ssd.audit) module: recrod."}, recrod="x")
    assert found["failed"] and found["msg"].startswith("Unsupported parameters for (plumbline.ssd.audit)") and calls == [("audit", {"recrod": "x"})]


def test_records_of_a_stack_that_is_gone_are_a_finding():
    found, _calls = audited(answer_of(reading()._replace(recorded=("gone",))))
    assert [one["name"] for one in found["stack_info"]["findings"] if one["rule"] == "stack_gone"] == ["gone"]
