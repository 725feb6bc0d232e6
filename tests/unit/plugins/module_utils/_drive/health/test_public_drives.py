# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives of public reports, each with its source and with what is right: fixtures/public_drives.json. The serials there are invented."""

from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import nvme_health, smartctl
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_rules import DriveUse, judge_health
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.smart import health_log

NOW = 1_800_000_000
DRIVES = json.loads(fixture("public_drives.json"))
NEW = DriveUse("pgdata", new=True)


def drive(name):
    return next(one for one in DRIVES if one["id"] == name)


def health(one):
    return smartctl.parse_smartctl(one["smartctl"]["smartctl"]["exit_status"], json.dumps(one["smartctl"]))


@pytest.mark.parametrize("one", DRIVES, ids=lambda one: one["id"])
def test_a_drive_of_a_public_report(one):
    found = health(one)
    verdict = judge_health(found, NOW)
    assert (found.used, found.counters.get("host_bytes_written")) == (one["used"], one["host_bytes_written"]), one["right"]
    assert (verdict.failing, {problem.rule: problem.level for problem in verdict.problems}) == (one["failing"], one["rules"]), one["right"]
    assert one["smartctl"]["serial_number"].startswith("ZZTEST") and one["source"]


@pytest.mark.parametrize("one", DRIVES, ids=lambda one: one["id"])
def test_what_stops_a_new_stack(one):
    """A drive that predicts its failure, is used up or lost data; none of the others, whatever its attributes are called."""
    stops = one["failing"] is True or (one["used"] or 0) >= 100 or "uncorrectable_errors" in one["rules"]
    assert (judge_health(health(one), NOW, NEW).level == "error") is stops, one["right"]


def test_heat_is_the_same_whoever_reads_the_log():
    by_command = nvme_health.parse_health(fixture("id_ctrl.bin"), health_log(warning=2, kelvin=273 + 84, used=3))
    by_tool = health(drive("samsung-980-hot"))
    assert [judge_health(found, NOW).failing for found in (by_command, by_tool)] == [False, False]
    assert [judge_health(found, NOW, NEW).level for found in (by_command, by_tool)] == ["warning", "warning"]


def with_log(**more):
    one = json.loads(json.dumps(drive("samsung-pm9a1-worn")))
    one["smartctl"]["nvme_smart_health_information_log"].update(more)
    one["smartctl"]["smart_status"]["nvme"]["value"] = one["smartctl"]["nvme_smart_health_information_log"]["critical_warning"]
    return judge_health(health(one), NOW)


@pytest.mark.parametrize(
    ("more", "rule", "failing"),
    [
        ({}, "worn_out", False),
        ({"percentage_used": 255, "available_spare": 60}, "worn_out", False),
        ({"percentage_used": 99}, "unreliable", True),  # the rating is not used up: the firmware means something else
        ({"media_errors": 1}, "unreliable", True),
        ({"media_errors": None}, "unreliable", True),
        ({"available_spare": 10}, "unreliable", True),
        ({"available_spare": 0, "available_spare_threshold": 0}, "unreliable", True),  # it does not say
        ({"available_spare": None}, "unreliable", True),
        ({"critical_warning": 4 | 2}, "worn_out", False),
        ({"critical_warning": 4 | 8}, "read_only", True),
        ({"critical_warning": 4 | 1}, "spare_low", True),
        ({"critical_warning": 4 | 64}, "worn_out", None),  # a bit that nobody knows
    ],
)
def test_reliability_beside_an_endurance_that_is_used_up(more, rule, failing):
    verdict = with_log(**more)
    assert rule in [one.rule for one in verdict.problems] and verdict.failing is failing
    assert "replace the drive" not in " ".join(one.wanted for one in verdict.problems if one.rule == "worn_out")


@pytest.mark.parametrize(
    ("status", "log", "failing", "rules"),
    [
        ({"passed": True}, {}, False, []),  # of an older smartctl: no bit is set
        ({"passed": False, "nvme": {"value": 2}}, {}, False, ["temperature"]),
        ({"passed": False}, {}, None, ["no_verdict"]),  # some bit, and nobody says which
        ({"passed": False, "nvme": {"value": 2}}, {"critical_warning": 8}, True, ["read_only"]),
        ({"passed": False}, {"critical_warning": 128}, None, ["no_verdict"]),
        ({"passed": False}, {"critical_warning": 0}, None, ["no_verdict"]),  # the one contradicts the other
    ],
)
def test_the_bits_count_and_not_that_one_is_set(status, log, failing, rules):
    """smartctl's passed, and bit 3 of what it ends with, are no second witness."""
    one = {"smartctl": {"exit_status": 8 if status["passed"] is False else 0}, "device": {"protocol": "NVMe"}, "smart_status": status}
    verdict = judge_health(smartctl.parse_smartctl(0, json.dumps({**one, "nvme_smart_health_information_log": log})), NOW)
    assert (verdict.failing, [problem.rule for problem in verdict.problems]) == (failing, rules)


@pytest.mark.parametrize(
    ("asc", "ascq", "rule", "level", "failing"),
    [
        (0x5D, 0x00, "status", "error", True),
        (0x5D, 0x03, "status", "error", True),
        (0x5D, 0x10, "status", "error", True),
        (0x5D, 0x73, "worn_out", "warning", None),
        (0x5D, 0x1D, "backup_failed", "warning", None),
        (0x5D, 0xFF, "exception", "warning", None),
        (0x0B, 0x01, "temperature", "warning", None),
        (0x0B, 0x0D, "temperature", "warning", None),
        (0x0B, 0x03, "self_test", "error", True),
        (0x0B, 0x06, "backup_failed", "warning", None),
        (0x0B, 0x02, "exception", "warning", None),
        (0x0B, 0x14, "exception", "warning", None),
    ],
)
def test_what_a_scsi_drive_reports_of_itself(asc, ascq, rule, level, failing):
    one = json.loads(json.dumps(drive("seagate-sas-predicts")))
    one["smartctl"]["smart_status"]["scsi"].update(asc=asc, ascq=ascq)
    verdict = judge_health(health(one), NOW)
    assert (verdict.failing, [(problem.rule, problem.level) for problem in verdict.problems]) == (failing, [(rule, level)])


def test_a_scsi_drive_that_says_no_more_than_failed():
    one = json.loads(json.dumps(drive("seagate-sas-predicts")))
    del one["smartctl"]["smart_status"]["scsi"]
    assert judge_health(health(one), NOW).failing is True


def test_a_guess_by_number_is_told_as_one():
    """198 of a drive that no database has is a Barefoot's host reads as well as sectors that cannot be read: look, and do not replace it for that."""
    one = json.loads(json.dumps(drive("ocz-intrepid-3700")))
    del one["smartctl"]["model_family"]
    for row in one["smartctl"]["ata_smart_attributes"]["table"]:
        row["name"] = {184: "End-to-End_Error", 187: "Reported_Uncorrect", 197: "Current_Pending_Sector", 198: "Offline_Uncorrectable"}.get(row["id"], "x")
    found = health(one)
    verdict = judge_health(found, NOW, NEW)
    assert (found.used, verdict.failing, verdict.level) == (None, False, "warning")
    assert {problem.rule for problem in verdict.problems} == {"end_to_end_errors", "offline_uncorrectable"}
    assert all("smartctl's database does not have this drive" in problem.found for problem in verdict.problems)
