# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules on a drive's health, each as a row: what was read, what it is for, and what that comes to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import endurance, firmware_advisories
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import health_rules as judge
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Attribute, Health, Reading, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.endurance import DAY, project
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.firmware_advisories import ADVISORIES, Advisory
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_rules import DriveUse, judge_health, mixed_firmware, worst_level
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.report import Known, StackDrives, health_result

NOW = 1_800_000_000
NVME = Health(source="smartctl", protocol="NVMe", model="M", serial="S1X2", firmware="F1", passed=True, critical_warning=0)
ATA = Health(source="smartctl", protocol="ATA", model="M", serial="S1X2", firmware="F1", passed=True)
NEW, TRUSTS = DriveUse("pgdata", new=True), DriveUse("pgdata", trusts_capacitors=True)


def bits(value):
    return NVME._replace(critical_warning=value)


def counted(one=ATA, **counters):
    return one._replace(counters=counters)


def attribute(prefail=True, failing=True):
    return ATA._replace(attributes=(Attribute(5, "Reallocated_Sector_Ct", 1, 10, 900, prefail, failing),))


def reading(days, used=None, **counters):
    return Reading(NOW - int(days * DAY), "M", "S1X2", "F1", used, counters)


ROWS = [
    # drive, use, history, failing, {rule: level}
    (ATA, None, (), False, {}),
    (ATA._replace(passed=None), None, (), None, {"no_verdict": "warning"}),
    (NVME._replace(passed=None), None, (), False, {}),
    (NVME._replace(passed=None, critical_warning=None), None, (), None, {"no_verdict": "warning"}),
    (Health(fault="gone"), NEW, (), None, {"unread": "warning"}),
    (Health(fault="volume", volume=True), None, (), None, {"unread": "warning"}),
    (Health(fault="no SMART", unsupported=True), None, (), None, {"unread": "warning"}),  # a physical one
    (Health(fault="no SMART", unsupported=True, virtual="QEMU"), NEW, (), None, {"not_applicable": "info"}),
    (Health(fault="it did not end within 30 s", virtual="QEMU"), None, (), None, {"unread": "warning"}),  # of this moment: it may hang
    (ATA._replace(passed=None, virtual="QEMU"), None, (), None, {"no_verdict": "info"}),
    (NVME._replace(virtual="QEMU"), None, (), False, {}),  # what it says counts
    (Health(fault="volume", volume=True), DriveUse(members_read=True), (), None, {"unread": "info"}),
    (ATA._replace(link_speed=3000, link_most=6000), DriveUse(member=True), (), False, {"link": "warning"}),
    (ATA._replace(link_speed=3000, link_most=6000), None, (), False, {}),  # the kernel shows its link, which is judged by both ends
    (ATA._replace(link_speed=6000, link_most=6000), DriveUse(member=True), (), False, {}),
    (ATA._replace(link_speed=12000, link_most=6000), DriveUse(member=True), (), False, {}),
    (ATA._replace(link_speed=None, link_most=6000), DriveUse(member=True), (), False, {}),
    (ATA._replace(link_speed=3000, link_most=None), DriveUse(member=True), (), False, {}),
    (ATA._replace(passed=False), None, (), True, {"status": "error"}),
    (ATA._replace(exit_bits=8), None, (), True, {"status": "error"}),
    (ATA._replace(passed=None, exit_bits=8), None, (), True, {"status": "error"}),
    (bits(1), None, (), True, {"spare_low": "error"}),
    (bits(2), None, (), False, {"temperature": "warning"}),
    (bits(2)._replace(passed=None), NEW, (), False, {"temperature": "warning"}),
    (bits(64), None, (), None, {"no_verdict": "warning"}),
    (bits(4), None, (), True, {"unreliable": "error"}),
    (bits(8), None, (), True, {"read_only": "error"}),
    (bits(16), None, (), False, {"backup_failed": "warning"}),
    (bits(16), TRUSTS, (), False, {"backup_failed": "error"}),
    (bits(32), None, (), False, {"memory_region": "warning"}),
    (NVME._replace(spare=9, spare_threshold=10), None, (), True, {"spare": "error"}),
    (NVME._replace(spare=10, spare_threshold=10), None, (), False, {}),
    (NVME._replace(spare=0, spare_threshold=0), None, (), False, {}),
    (NVME._replace(spare=0, spare_threshold=None), None, (), False, {}),
    (attribute(), None, (), True, {"attribute": "error"}),
    (attribute(prefail=False), None, (), False, {}),
    (attribute(failing=False), None, (), False, {}),
    (ATA._replace(exit_bits=16), None, (), True, {"attribute": "error"}),
    (ATA._replace(exit_bits=32), None, (), False, {"attribute_past": "warning"}),
    (ATA._replace(exit_bits=64), None, (), False, {"error_log": "info"}),
    (ATA._replace(exit_bits=128), None, (), False, {"self_test_log": "warning"}),
    (ATA._replace(exit_bits=4), None, (), False, {"refused": "info"}),
    (counted(ATA._replace(exit_bits=64), error_log_entries=5), None, (reading(1, error_log_entries=4),), False, {"error_log": "warning"}),
    (counted(NVME._replace(exit_bits=64), error_log_entries=5), None, (reading(1, error_log_entries=4),), False, {"error_log": "info"}),
    (counted(NVME, media_errors=7), None, (), False, {"media_errors": "warning"}),
    (counted(NVME, media_errors=7), NEW, (), False, {"media_errors": "error"}),
    (counted(NVME, media_errors=7), None, (reading(1, media_errors=7),), False, {"media_errors": "info"}),
    (counted(NVME, media_errors=7), NEW, (reading(1, media_errors=7),), False, {"media_errors": "error"}),
    (counted(NVME, media_errors=7), None, (reading(400, media_errors=6), reading(1, media_errors=7)), True, {"media_errors": "error"}),
    (counted(NVME, media_errors=0), NEW, (), False, {}),
    *((counted(ATA, **{name: 1}), None, (reading(1, **{name: 0}),), True, {name: "error"}) for name in ("uncorrectable_errors", "end_to_end_errors")),
    (counted(ATA, offline_uncorrectable=1), NEW, (), False, {"offline_uncorrectable": "error"}),
    (counted(ATA._replace(named=False), offline_uncorrectable=1), NEW, (), False, {"offline_uncorrectable": "warning"}),
    (counted(ATA._replace(named=False), offline_uncorrectable=1), NEW, (reading(1, offline_uncorrectable=0),), False, {"offline_uncorrectable": "warning"}),
    (counted(ATA._replace(named=False), offline_uncorrectable=1), NEW, (reading(1, offline_uncorrectable=1),), False, {"offline_uncorrectable": "info"}),
    (ATA._replace(wear_doubt="231 says two things"), NEW, (), False, {"wear_unclear": "info"}),
    (ATA._replace(protocol="SCSI", passed=None, exception="5d1d"), TRUSTS, (), None, {"backup_failed": "error"}),
    (ATA._replace(protocol="SCSI", passed=None, exception="5d73"), NEW, (), None, {"worn_out": "error"}),
    (ATA._replace(self_test_passed=False), None, (), True, {"self_test": "error"}),
    (ATA._replace(used=79), NEW, (), False, {}),
    (ATA._replace(used=80), NEW, (), False, {"wear": "warning"}),
    (ATA._replace(used=100), None, (), False, {"wear": "warning", "endurance": "warning"}),
    (ATA._replace(used=255), NEW, (), False, {"wear": "error", "endurance": "warning"}),
    (ATA._replace(temperature=69), None, (), False, {}),
    (ATA._replace(temperature=70), None, (), False, {"hot": "warning"}),
    (ATA._replace(temperature=75, temperature_limit=80), None, (), False, {}),
    (ATA._replace(temperature=60, temperature_limit=60), None, (), False, {"hot": "warning"}),
    *((counted(ATA, **{name: 9}), None, (reading(1, **{name: 8}),), False, {name: "warning"}) for name in ("reallocated", "pending", "crc_errors")),
    (counted(ATA, crc_errors=9), None, (), False, {}),
    (counted(NVME, hot_minutes=9), None, (reading(1, hot_minutes=8),), False, {"hot_minutes": "warning"}),
    (counted(NVME, hot_minutes=9), None, (reading(90, hot_minutes=0), reading(8, hot_minutes=9), reading(1, hot_minutes=9)), False, {}),
    (counted(NVME, unsafe_shutdowns=30, power_cycles=32), NEW, (), False, {"unsafe_shutdowns": "info"}),
    (counted(NVME, power_on_hours=482, busy_minutes=1184621), None, (), False, {"hours": "info"}),
    (Health(model="HP EK0800JVYPN", firmware="HPD6", passed=True, counters={"power_on_hours": 35679}), None, (), False, {"firmware": "warning"}),
    (Health(model="HP EK0800JVYPN", firmware="HPD6", passed=True, counters={"power_on_hours": 35680}), None, (), False, {"firmware": "error"}),
    (Health(model="HP EK0800JVYPN", firmware="HPD6", passed=True), None, (), False, {"firmware": "warning"}),
    (Health(model="HP EK0800JVYPN", firmware="HPD7", passed=True, counters={"power_on_hours": 39999}), None, (), False, {}),
    (Health(model="VO1920JFDGV", firmware="HPDA", passed=True, counters={"power_on_hours": 32000}), None, (), False, {}),
    (Health(model="VO1920JFDGV", firmware="HPD7", passed=True, counters={"power_on_hours": 32000}), None, (), False, {"firmware": "error"}),
]  # fmt: skip


@pytest.mark.parametrize(("drive", "use", "history", "failing", "rules"), ROWS)
def test_rules(drive, use, history, failing, rules):
    verdict = judge_health(drive, NOW, *([use] if use else [DriveUse()]), history=history)
    assert (verdict.failing, {one.rule: one.level for one in verdict.problems}) == (failing, rules)
    assert verdict.level == worst_level(list(rules.values()))


def test_a_drive_may_fail_that_says_it_passed():
    """The drive's own word for good does not outrank what speaks against it."""
    assert sum(failing is True and drive.passed is True for drive, _use, _history, failing, _rules in ROWS) >= 11


def test_findings_have_the_shape_that_all_have():
    (found,) = judge_health(ATA._replace(passed=False), NOW).findings("sda (S1X2)")
    assert set(found) == {"level", "layer", "name", "found", "wanted", "text", "rule", "failing"}
    assert found["text"].startswith("drive sda (S1X2): the drive says that it fails; wanted replace the drive")


def test_advisories_are_extended():
    more = Advisory(("MZ7L3*",), "JXTC304Q", 40000, "x")
    drive = Health(model="SAMSUNG MZ7L31T9HBLT", firmware="JXTC303Q")
    assert firmware_advisories.advisory_of(drive._replace(firmware="JXTC304P"), [more]) is more
    assert firmware_advisories.advisory_of(drive, [more]) is None  # of another line
    assert firmware_advisories.advisory_of(drive) is None
    assert all(one.fixed_in and one.limit_hours > 30000 for one in ADVISORIES) and sum(len(one.models) for one in ADVISORIES) == 23


@pytest.mark.parametrize(
    ("used", "hours", "history", "days_min", "days_max", "basis"),
    [
        (0, 12164, (), 50176, None, "lifetime"),
        (69, 29891, (), 533, 560, "lifetime"),
        (100, 29891, (), 0, 0, "lifetime"),
        (3, 167, (), None, None, None),
        (3, None, (), None, None, None),
        (50, None, (reading(100, 40),), 445, 556, "readings"),
        (50, None, (reading(100, 49),), 2450, None, "readings"),
        (61, None, (reading(7, 60),), 133, None, "readings"),
        (60, None, (reading(7, 60),), None, None, None),
        (60, 100000, (reading(7, 60),), 2663, 2778, "lifetime"),
        (60, None, (reading(300, 60),), 11700, None, "readings"),
        (50, None, (reading(6.9, 40),), None, None, None),
        (50, None, (reading(100, 51),), None, None, None),
    ],
)
def test_projection(used, hours, history, days_min, days_max, basis):
    found = project(NVME._replace(used=used, counters={} if hours is None else {"power_on_hours": hours}), NOW, history)
    if basis is None:
        assert found is None
    else:
        assert (found.days_min, found.days_max, found.basis) == (days_min, days_max, basis)


@pytest.mark.parametrize(("before", "after"), [(40.0, 50.9), (40.9, 50.0), (40.5, 50.5), (40.0, 50.0)])
def test_the_truth_is_within_the_interval(before, after):
    """Whatever the drive rounds away: the days until 100 %, had one seen the true figures."""
    truth = (100 - after) / ((after - before) / 100)
    found = project(NVME._replace(used=int(after)), NOW, (reading(100, int(before)),))
    assert found.days_min <= truth <= found.days_max


def test_rated_bytes_and_the_earlier_end():
    drive = NVME._replace(used=10, counters={"host_bytes_written": 900, "power_on_hours": 24 * 100})
    assert project(drive, NOW, (), 1000) == endurance.Projection(11, 12, "writes")
    assert project(drive, NOW, (reading(100, 10, host_bytes_written=0),), 1000) == endurance.Projection(11, 12, "writes")
    assert project(drive, NOW, (), 10**9).basis == "lifetime"
    assert project(drive._replace(used=None), NOW, (reading(100, None, host_bytes_written=900),), 1000) is None
    assert project(drive, NOW, (), 800).days_min == 0


def test_mixed_firmware():
    assert mixed_firmware([ATA, ATA._replace(firmware="F2")]).rule == "mixed_firmware"
    assert mixed_firmware([ATA, ATA._replace(firmware="F2", model="N"), ATA._replace(firmware="")]) is None


def test_virtual_disks_are_told_once():
    """A cloud host is not yellow for having nothing else. A physical drive beside them that cannot be read is."""
    virtual = [(Source("/dev/" + name, (name,)), Health(fault="no", unsupported=True, virtual=maker)) for name, maker in (("vda", "virtio"), ("sdb", "QEMU"))]
    found = health_result(virtual, Known(NOW))
    (finding,) = found["findings"]
    text = "drive sdb, vda: virtual (QEMU, virtio): it has no health of its own; wanted nothing here; the drives behind it are read on the hypervisor"
    assert found["level"] == "info" and finding["rule"] == "not_applicable" and finding["text"].startswith(text) and finding["failing"] is False
    assert [(one["not_applicable"], one["read"], one["failing"], one["level"]) for one in found["drives"]] == [(True, False, None, "info")] * 2
    assert len(found["report"]) == 4 and "n/a" in found["report"][1]
    beside = health_result([*virtual, (Source("/dev/sdc", ("sdc",)), Health(fault="no", unsupported=True))], Known(NOW))
    assert beside["level"] == "warning" and [one["rule"] for one in beside["findings"]] == ["unread", "not_applicable"]
    assert [one["not_applicable"] for one in beside["drives"]] == [True, False, True]


def test_a_host():
    """Context by disk and by serial, the stack's own finding, and one level for a gate."""
    drives = [
        (Source("/dev/sda", ("sda",)), counted(ATA, media_errors=1)),
        (Source("/dev/bus/0", (), "megaraid,3"), counted(ATA._replace(serial="S9", firmware="F2"), media_errors=1)),
        (Source("/dev/sdb", ("sdb",)), Health(fault="it went away", serial="S3")),
    ]
    stacks = [StackDrives("pgdata", ("sda",), ("S9",), True, False)]
    found = health_result(drives, Known(NOW, stacks, [("M", 10**12)], (), {}))
    assert [(one["name"], one["failing"], one["level"], one["stack"]) for one in found["drives"]] == [
        ("/dev/bus/0 megaraid,3", False, "error", "pgdata"),
        ("sda", False, "error", "pgdata"),
        ("sdb", None, "warning", ""),
    ]
    assert found["level"] == "error" and [one["rule"] for one in found["findings"]] == ["media_errors", "media_errors", "unread", "mixed_firmware"]
    assert len({len(one) for one in found["drives"]}) == 1 and found["report"][0].startswith("drive ")
    assert health_result([], Known(NOW))["level"] == "ok"


FAILING = [ATA._replace(passed=False), NVME._replace(critical_warning=8), ATA._replace(self_test_passed=False)]
IN_MIRROR = {"sda": ("pgdata", "0123")}


def advice(drive, names, mirrored):
    found = health_result([(Source("/dev/sda", names), drive)], Known(NOW, mirrored=mirrored))
    return [one["text"] for one in found["findings"] if one["failing"]]


@pytest.mark.parametrize("drive", FAILING, ids=["says so", "read-only", "self-test"])
def test_a_member_of_a_mirrored_stack_is_replaced_without_losing_a_copy(drive):
    (text,) = advice(drive, ("sda",), IN_MIRROR)
    assert "devices of the stack 'pgdata', set replace: {'0123': SERIAL OF THE NEW ONE} there" in text and "guide on mirrors" in text
    assert "copy first" not in text


@pytest.mark.parametrize(("names", "mirrored"), [(("sda",), {}), (("sdb",), IN_MIRROR), ((), IN_MIRROR), (("sda", "sdb"), IN_MIRROR)])
def test_what_no_other_drive_has_is_copied_first(names, mirrored):
    """A stripe, a member whose partner is gone, a drive behind a controller, an SSD with a namespace of its own beside the mirrored one."""
    (text,) = advice(FAILING[0], names, mirrored)
    assert "copy first what you need" in text and "replace:" not in text


def test_what_is_no_failure_has_no_such_advice():
    found = health_result([(Source("/dev/sda", ("sda",)), ATA._replace(temperature=90))], Known(NOW, mirrored=IN_MIRROR))
    assert found["findings"] and not any("replace:" in one["text"] for one in found["findings"])


def test_the_guide_has_every_rule():
    """Rules as the judge names them, in the first cells of the guide's table."""
    root = Path(judge.__file__).parents[4]
    named = set(re.findall(r'Problem\("([a-z_]+)"', (root / "plugins/module_utils/_drive/health/health_rules.py").read_text(encoding="utf-8")))
    named |= {*judge._DATA_ERRORS, *judge._GROWING, *(row[0] for row in judge._WARNING_BITS), *(row[1] for row in judge._EXCEPTIONS)}
    cells = re.findall(r"^   \* - (``.*)$", (root / "docs/docsite/rst/guide_drive_health.rst").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) > 30 and named <= set(re.findall("``([a-z_]+)``", " ".join(cells)))
