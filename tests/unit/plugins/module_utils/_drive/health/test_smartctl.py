# SPDX-License-Identifier: GPL-3.0-or-later
"""What smartctl, the NVMe log, storcli and sysfs say, read. Every record of fixtures/health.json is a row."""

from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import nvme_health, raid_cli, smart_attributes, smartctl
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Attribute, Health, Source, same_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.emmc import parse_emmc
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.endurance import hours_of
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_rules import DriveUse, judge_health
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.smart import RECORDS, document, health_log, health_of, record

NOW = 1_800_000_000


@pytest.mark.parametrize("one", RECORDS, ids=lambda one: one["id"])
def test_every_record(one):
    found = health_of(one)
    assert judge_health(found, NOW).failing is one["expect"]["failing"]
    assert found.used == one["wear_percent_used"]
    assert found.temperature == one["temperature_c"]
    counters = ("media_errors", "unsafe_shutdowns", "power_cycles", "power_on_hours", "host_bytes_written", "error_log_entries")
    if one["protocol"] == "NVMe":
        assert [found.counters.get(name) for name in counters] == [one[name] for name in counters]
        assert (found.spare, found.spare_threshold, found.critical_warning) == (one["available_spare"], one["spare_threshold"], one["critical_warning"])
    else:
        assert [found.counters.get(name) for name in counters[1:5]] == [one[name] for name in counters[1:5]]


def test_all_records_are_there():
    assert len(RECORDS) == 22 and sum(one["expect"]["failing"] is None for one in RECORDS) == 3


def test_hours_that_cannot_be():
    assert hours_of(health_of(record("hgst-sn260-3t2"))) is None and hours_of(health_of(record("intel-p4510-8tb"))) == 12164


@pytest.mark.parametrize(
    ("code", "text", "words"),
    [
        (0, "", "no complete JSON"),
        (0, '{"smartctl": {', "no complete JSON"),
        (0, "[]", "no complete JSON"),
        (0, "[" * 100000, "no complete JSON"),
        (-11, json.dumps(document(RECORDS[0])), "ended by signal 11"),
        (1, json.dumps(document(RECORDS[0])), "smartctl read nothing: return code 1"),
        (2, json.dumps(document(RECORDS[0])), "smartctl read nothing: return code 2"),
        (0, json.dumps(dict(document(RECORDS[0]), smartctl={"exit_status": 2})), "smartctl read nothing"),
        (0, json.dumps({"smartctl": {"exit_status": 0}}), "smartctl read nothing"),
        (0, json.dumps(dict(document(RECORDS[0]), device={"protocol": "Martian"})), "no protocol that is known"),
        (4, json.dumps(dict(document(RECORDS[0]), smart_support={"available": False})), "it is a volume of a controller, or has no SMART"),
    ],
)
def test_nothing_read_is_no_verdict(code, text, words):
    found = smartctl.parse_smartctl(code, text)
    assert words in found.fault and not found.read
    verdict = judge_health(found, NOW)
    assert verdict.failing is None and [one.rule for one in verdict.problems] == ["unread"]


@pytest.mark.parametrize("passed", [1, "true", "PASSED", [True], None, 0])
def test_only_a_boolean_is_a_verdict(passed):
    ata = document(record("samsung-sm843t-240gb-sata"), smart_status={"passed": passed})
    assert judge_health(smartctl.parse_smartctl(0, json.dumps(ata)), NOW).failing is None


@pytest.mark.parametrize("count", [(1 << 127) + 5, 2**64, 5])
def test_counters_of_128_bits(count):
    log = {"critical_warning": 0, "media_errors": 0, "power_on_hours": count}
    for one in (log, {**log, "power_on_hours": 1.7e38, "power_on_hours_s": str(count)}):
        found = smartctl.parse_smartctl(0, json.dumps(document(RECORDS[0], nvme_smart_health_information_log=one)))
        assert found.counters["power_on_hours"] == count


@pytest.mark.parametrize("value", [-1, 256, 1.5, True, "7", None, 10**400])
def test_what_is_no_percentage_is_unknown(value):
    found = smartctl.parse_smartctl(0, json.dumps(document(RECORDS[0], nvme_smart_health_information_log={"percentage_used": value, "critical_warning": 0})))
    assert found.used is None and found.used_source == ""


def test_a_model_is_printable():
    found = smartctl.parse_smartctl(0, json.dumps(document(RECORDS[0], model_name="<script>\x1b[2J\u202e")))
    assert found.model == "<script>\\x1b[2J\\u202e"


def test_scsi_of_7_3_and_of_7_2():
    """Captures of smartmontools 7.3 (an SSD behind -d scsi, a PERC volume) and 7.2, shortened to what is read."""
    device = {"name": "/dev/sdc", "type": "scsi", "protocol": "SCSI"}
    ssd = {
        "smartctl": {"exit_status": 0}, "device": device, "logical_unit_id": "0x5002538f31b1fd8f", "serial_number": "S6PPNJ0RB04XXX",
        "smart_support": {"available": True, "enabled": True}, "smart_status": {"passed": True}, "scsi_percentage_used_endurance_indicator": 11,
        "temperature": {"current": 21, "drive_trip": 70}, "power_on_time": {"hours": 26195, "minutes": 0},
    }  # fmt: skip
    found = smartctl.parse_smartctl(0, json.dumps(ssd))
    assert (found.wwn, found.used, found.used_source, found.temperature_limit) == ("naa.5002538f31b1fd8f", 11, "page 11h", 70)
    assert (
        smartctl.parse_smartctl(0, json.dumps({**ssd, "scsi_percentage_used_endurance_indicator": None, "endurance_used": {"current_percent": 12}})).used == 12
    )
    perc = {
        "smartctl": {"exit_status": 4}, "device": device, "scsi_vendor": "DELL", "scsi_product": "PERC H740P Mini", "scsi_model_name": "DELL PERC H740P Mini",
        "scsi_revision": "5.13", "smart_support": {"available": False}, "temperature": {"current": 0}, "scsi_temperature": {"drive_trip": 0},
    }  # fmt: skip
    found = smartctl.parse_smartctl(4, json.dumps(perc))
    assert (found.volume, found.model, found.firmware, found.read) == (True, "DELL PERC H740P Mini", "5.13", False)
    errors = {"read": {"total_uncorrected_errors": 3}, "write": {"total_uncorrected_errors": 0}}
    old = {**ssd, "vendor": "TOSHIBA", "product": "AL13SXB60EN", "revision": "5702", "scsi_grown_defect_list": 4, "scsi_error_counter_log": errors}
    found = smartctl.parse_smartctl(0, json.dumps(old))
    assert (found.model, found.firmware, found.counters["media_errors"], found.counters["reallocated"]) == ("TOSHIBA AL13SXB60EN", "5702", 3, 4)


def log_of_tests(kind, *rows):
    return {
        "NVMe": {"nvme_self_test_log": {"table": [{"self_test_code": {"value": code}, "self_test_result": {"value": result}} for code, result in rows]}},
        "ATA": {"ata_smart_self_test_log": {"extended": {"table": [{"type": {"value": code}, "status": {"value": result}} for code, result in rows]}}},
        "SCSI": {"scsi_self_test_%d" % number: {"code": {"value": code}, "result": {"value": result}} for number, (code, result) in enumerate(rows)},
    }[kind]


@pytest.mark.parametrize(
    ("kind", "rows", "passed"),
    [
        ("NVMe", [(2, 0)], True),
        ("NVMe", [(2, 7), (2, 0)], False),
        ("NVMe", [(1, 7), (2, 1), (2, 0)], True),
        ("NVMe", [(1, 7)], None),
        ("ATA", [(2, 0)], True),
        ("ATA", [(1, 117), (2, 16), (2, 121)], False),
        ("ATA", [(2, 249)], None),
        ("SCSI", [(2, 0)], True),
        ("SCSI", [(1, 3), (2, 2), (6, 4)], False),
        ("SCSI", [], None),
    ],
)
def test_the_latest_extended_self_test(kind, rows, passed):
    found = dict(document(RECORDS[0], **log_of_tests(kind, *rows)), device={"name": "x", "protocol": kind})
    assert smartctl.parse_smartctl(0, json.dumps(found)).self_test_passed is passed


def test_device_statistics_come_before_the_vendor():
    pages = [
        {"number": 1, "table": [{"offset": 24, "value": 1000, "flags": {"valid": True}}]},
        {"number": 7, "table": [{"offset": 8, "value": 12, "flags": {"valid": True}}]},
    ]
    one = record("samsung-sm843t-240gb-sata")
    found = smartctl.parse_smartctl(0, json.dumps(document(one, ata_device_statistics={"pages": pages}, logical_block_size=4096)))
    assert (found.used, found.used_source, found.counters["host_bytes_written"]) == (12, "device statistics", 4096000)
    pages[1]["table"][0]["flags"]["valid"] = False
    assert smartctl.parse_smartctl(0, json.dumps(document(one, ata_device_statistics={"pages": pages}))).used == 9


def row(number, name, value=100, raw=0, thresh=0, text=""):
    return Attribute(number, name, value, thresh, raw, False, False, text)


SAMSUNG, MICRON, CLIENT, WD = "Samsung based SSDs", "Micron 5100 / 52x0 / 5300 / 5400 SSDs", "Crucial/Micron Client SSDs", "WD Blue / Red / Green SSDs"
INTEL, DELL = "Intel 730 and DC S35x0/3610/3700 Series SSDs", "Dell Certified Intel S3520 Series SSDs"
PHISON, SANDFORCE = "Phison Driven SSDs", "SandForce Driven SSDs"
NYTRO, SMI, BAREFOOT, INTREPID = "Seagate Nytro SATA SSD", "Silicon Motion based SSDs", "Indilinx Barefoot 3 based SSDs", "OCZ Intrepid 3000 SSDs"
U110, MARVELL, HYNIX, HK4R = "SanDisk based SSDs", "Marvell based SanDisk SSDs", "SK hynix SATA SSDs", "Toshiba HK4R Series SSD"
INNODISK = "Innodisk 3IE2/3ME2/3MG2/3SE2/3TG6 SSDs"


@pytest.mark.parametrize(
    ("family", "attribute", "used", "spare", "counters"),
    [
        # Wear, by the name and the family. Where value and raw value do not fit together, unknown.
        (SAMSUNG, row(177, "Wear_Leveling_Count", 98, 40), 2, None, {}),
        (SAMSUNG, row(177, "Wear_Leveling_Count", 200), None, None, {}),
        (SAMSUNG, row(202, "Exception_Mode_Status", 100, 0), None, None, {}),
        (NYTRO, row(177, "Wear_Range_Delta", 98, 40), None, None, {}),
        (NYTRO, row(231, "SSD_Life_Left", 97, 0x645D00), 3, None, {}),
        (NYTRO, row(230, "Drv_Life_Protect_Status", 100, 100), None, None, {}),
        (HYNIX, row(177, "Wear_Leveling_Count", 98, 40), None, None, {}),
        (HYNIX, row(177, "Endurance_Limit_Met", 98, 40), None, None, {}),
        (PHISON, row(231, "SSD_Life_Left", 90, 90), 10, None, {}),
        (PHISON, row(231, "SSD_Life_Left", 14, 86), 14, None, {}),
        (PHISON, row(231, "SSD_Life_Left", 100, 74), 26, None, {}),
        (PHISON, row(231, "SSD_Life_Left", 100, 0), None, None, {}),
        (PHISON, row(231, "SSD_Life_Left", 0, 0), 100, None, {}),
        (SANDFORCE, row(231, "SSD_Life_Left", 95, 0), 5, None, {}),
        (SANDFORCE, row(231, "SSD_Life_Left", 14, 86), None, None, {}),  # a Corsair Force LS is a Phison
        (SANDFORCE, row(230, "Life_Curve_Status", 100, 100), None, None, {}),
        (SANDFORCE, row(230, "Media_Wearout_Indicator", 100, 100), None, None, {}),  # a SanDisk Plus
        (SMI, row(169, "Remaining_Lifetime_Perc", 93, 93), 7, None, {}),
        (SMI, row(169, "Remaining_Lifetime_Perc", 100, 93), 7, None, {}),
        (SMI, row(177, "Wear_Leveling_Count", 100, 0), None, None, {}),
        (BAREFOOT, row(233, "Remaining_Lifetime_Perc", 96, 96), 4, None, {}),
        (BAREFOOT, row(233, "Remaining_Lifetime_Perc", 4, 96), None, None, {}),
        (BAREFOOT, row(230, "Write_Throttling", 0, 100), None, None, {}),
        (INTEL, row(233, "Media_Wearout_Indicator", 95), 5, None, {}),
        (INTEL, row(232, "Available_Reservd_Space", 99), None, 99, {}),
        (DELL, row(202, "End_of_Life", 100, 0), None, None, {}),
        (DELL, row(245, "Percent_Life_Remaining", 100, 88), 12, None, {}),
        (MICRON, row(202, "Percent_Lifetime_Remain", 96, 4), 4, None, {}),
        (MICRON, row(202, "Percent_Lifetime_Remain", 0, 130), 130, None, {}),
        (MICRON, row(202, "Percent_Lifetime_Remain", 96, 96), None, None, {}),
        ("Crucial/Micron RealSSD m4/C400/P400", row(202, "Perc_Rated_Life_Used", 90, 10), 10, None, {}),
        (WD, row(230, "Media_Wearout_Indicator", 100, 5), 5, None, {}),
        (WD, row(230, "Media_Wearout_Indicator", 100, 0x2600140026), 0, None, {}),
        (WD, row(230, "Media_Wearout_Indicator", 100, 0x2600140027), None, None, {}),
        (WD, row(230, "Media_Wearout_Indicator", 100, 0x25060D282506), 37, None, {}),
        (WD, row(230, "Media_Wearout_Indicator", 100, 0x0D2825062506), None, None, {}),
        ("Western Digital RE4", row(230, "Head_Amplitude", 100, 5), None, None, {}),
        (U110, row(230, "Perc_Write/Erase_Count", 100, 160), 1, None, {}),
        (U110, row(232, "Perc_Avail_Resrvd_Space", 100, 0), None, 100, {}),
        (MARVELL, row(230, "Perc_Write/Erase_Count", 100, 0x0900140009, text="9 20 9"), 0, None, {}),
        (MARVELL, row(230, "Perc_Write/Erase_Count", 100, 0x014B00D2014B, text="331 210 331"), None, None, {}),
        ("", row(177, "Wear_Leveling_Count", 3, 3), None, None, {}),
        ("", row(231, "Temperature_Celsius", 3, 3), None, None, {}),
        # What was written: the unit is in the name, or it is none.
        (INTEL, row(241, "Host_Writes_32MiB", 100, 3), None, None, {"host_bytes_written": 3 * (32 << 20)}),
        (DELL, row(233, "Total_LBAs_Written", 100, 129493), None, None, {}),
        (MICRON, row(246, "Total_LBAs_Written", 100, 7), None, None, {"host_bytes_written": 7 * 512}),
        (SAMSUNG, row(241, "Total_LBAs_Written", 99, None), None, None, {}),
        (PHISON, row(241, "Lifetime_Writes_GiB", 100, 2), None, None, {"host_bytes_written": 2 << 30}),
        (BAREFOOT, row(199, "Host_Writes_GiB", 100, 2), None, None, {"host_bytes_written": 2 << 30}),
        (BAREFOOT, row(198, "Host_Reads_GiB", 100, 2), None, None, {}),
        (MARVELL, row(241, "Total_Writes_GiB", 100, 2), None, None, {"host_bytes_written": 2 << 30}),
        (U110, row(241, "Total_LBAs_Written", 100, 178000000), None, None, {"host_bytes_written": 178000000 * 512}),
        (HYNIX, row(241, "Total_Writes_GB", 100, 2), None, None, {"host_bytes_written": 2 * 10**9}),
        (HYNIX, row(241, "Lifetime_NAND_Prg_GiB", 100, 2), None, None, {}),
        (NYTRO, row(241, "Lifetime_Wts_Frm_Hst_GB", 100, 2), None, None, {"host_bytes_written": 2 * 10**9}),
        (HK4R, row(241, "Total_LBAs_Written", 100, 7), None, None, {}),  # smartmontools issue 312: 32 MiB
        ("OCZ/Toshiba Trion SSDs", row(241, "Host_Writes", 100, 7), None, None, {}),
        ("", row(241, "Total_LBAs_Written", 100, 83346), None, None, {}),  # QDiskInfo issue 50: 32 MiB
        (WD, row(233, "NAND_GB_Written_TLC", 100, 8), None, None, {"flash_bytes_written": 8 * 10**9}),
        (INNODISK, row(233, "Flash_Writes_32MiB", 100, 8), None, None, {"flash_bytes_written": 8 * (32 << 20)}),
        (PHISON, row(233, "Flash_Writes_GiB", 100, 8), None, None, {}),
        (SANDFORCE, row(233, "SandForce_Internal", 0, 8), None, None, {}),
        (MICRON, row(247, "Host_Program_Page_Count", 100, 8), None, None, {"host_pages": 8}),
        (CLIENT, row(248, "FTL_Program_Page_Count", 100, 8), None, None, {"background_pages": 8}),
        # Errors: 184, 187, 197, 198 and 199 are not what they usually are.
        (INTREPID, row(184, "Factory_Bad_Block_Count", 100, 214), None, None, {}),
        ("Indilinx Barefoot based SSDs", row(184, "Initial_Bad_Block_Count", 100, 214), None, None, {}),
        (CLIENT, row(184, "Error_Correction_Count", 100, 214), None, None, {}),
        (SANDFORCE, row(184, "IO_Error_Detect_Code_Ct", 100, 214), None, None, {}),
        (WD, row(184, "End-to-End_Error", 100, 214), None, None, {}),
        (INTEL, row(184, "End-to-End_Error", 100, 2), None, None, {"end_to_end_errors": 2}),
        (BAREFOOT, row(187, "Total_Unc_NAND_Reads", 100, 5), None, None, {}),
        (BAREFOOT, row(197, "Total_Unc_Read_Failures", 100, 5), None, None, {"uncorrectable_errors": 5}),
        (SAMSUNG, row(187, "Uncorrectable_Error_Cnt", 100, 5), None, None, {"uncorrectable_errors": 5}),
        (NYTRO, row(198, "Uncor_Read_Error_Ct", 100, 5), None, None, {"uncorrectable_errors": 5}),
        (SMI, row(160, "Uncorrectable_Error_Cnt", 100, 5), None, None, {"uncorrectable_errors": 5}),
        (CLIENT, row(197, "Current_Pending_ECC_Cnt", 100, 1), None, None, {}),
        (PHISON, row(197, "Not_In_Use", 100, 1), None, None, {}),
        ("", row(197, "Current_Pending_Sector", 100, 1), None, None, {"pending": 1}),
        ("", row(198, "Offline_Uncorrectable", 100, 1), None, None, {"offline_uncorrectable": 1}),
        (SANDFORCE, row(198, "Uncorrectable_Sector_Ct", 100, 1), None, None, {}),
        (BAREFOOT, row(210, "SATA_CRC_Error_Count", 100, 1), None, None, {"crc_errors": 1}),
        (DELL, row(199, "CRC_Error_Count", 100, 1), None, None, {"crc_errors": 1}),
        (BAREFOOT, row(5, "Runtime_Bad_Block", 100, 1), None, None, {"reallocated": 1}),
        (CLIENT, row(5, "Reallocate_NAND_Blk_Cnt", 100, 1), None, None, {"reallocated": 1}),
        # A raw value of several parts counts by the one before a bracket, or not at all.
        (SAMSUNG, row(5, "Reallocated_Sector_Ct", 100, 3 << 16 | 2, text="2 (0 3)"), None, None, {"reallocated": 2}),
        (SANDFORCE, row(187, "Reported_Uncorrect", 100, 3 << 32 | 2, text="3/2"), None, None, {}),
    ],
)  # fmt: skip
def test_what_an_attribute_means_to_its_vendor(family, attribute, used, spare, counters):
    found = smart_attributes.wear_of(family, [attribute])
    assert (found.used, found.spare, found.counters) == (used, spare, counters)


@pytest.mark.parametrize(
    ("database", "model", "family"),
    [
        (PHISON, "KINGSTON SA400S37240G", PHISON),
        ("", "Samsung SSD 860 PRO 256GB", SAMSUNG),
        ("", "MZ7KH480HAHQ0D3", SAMSUNG),
        ("", "SAMSUNG MZ7L31T9HBLT-00A07", SAMSUNG),
        ("", "SAMSUNG HD103SJ", ""),
        ("", "KINGSTON SA400S37240G", ""),
        ("", "unheard of", ""),
    ],
)
def test_who_knows_a_drive(database, model, family):
    assert smart_attributes.family_of(database, model) == family


@pytest.mark.parametrize(
    ("family", "rows", "used", "doubt", "written"),
    [
        (SMI, [row(169, "Remaining_Lifetime_Perc", 93, 93), row(231, "SSD_Life_Left", 90, 90)], 7, "", None),
        (SMI, [row(169, "Remaining_Lifetime_Perc", 93, 93), row(231, "SSD_Life_Left", 50, 50)], None, "231 SSD_Life_Left has the value 50", None),
        (SMI, [row(169, "Remaining_Lifetime_Perc", 93, 93), row(231, "SSD_Life_Left", 50, 0)], None, "50 and the raw value 0", None),
        (INTEL, [row(225, "Host_Writes_32MiB", 100, 7), row(241, "Host_Writes_32MiB", 100, 7)], None, "", 7 * (32 << 20)),
        (INTEL, [row(225, "Host_Writes_32MiB", 100, 7), row(241, "Host_Writes_32MiB", 100, 9)], None, "", None),
    ],
)
def test_attributes_that_contradict_each_other_say_nothing(family, rows, used, doubt, written):
    found = smart_attributes.wear_of(family, rows)
    assert (found.used, found.counters.get("host_bytes_written")) == (used, written)
    assert doubt in found.doubt and bool(doubt) is bool(found.doubt)


def test_the_same_errors_in_two_places_are_counted_once():
    rows = [row(187, "Uncorrectable_Error_Cnt", 100, 5), row(195, "Uncorrectable_Error_Cnt", 100, 7)]
    assert smart_attributes.wear_of(DELL, rows).counters == {"uncorrectable_errors": 7}


def test_a_filler_is_no_count():
    rows = [{"id": 187, "name": "Reported_Uncorrect", "value": 100, "thresh": 0, "raw": {"value": 4294967295}}]
    one = document(record("samsung-sm843t-240gb-sata"), ata_smart_attributes={"table": rows})
    assert "uncorrectable_errors" not in smartctl.parse_smartctl(0, json.dumps(one)).counters


def test_scan_knows_members_of_megaraid_only():
    rows = [
        {"name": "/dev/sda", "type": "scsi"}, {"name": "/dev/bus/0", "type": "megaraid,8"}, {"name": "/dev/bus/0", "type": "sat+megaraid,9"},
        {"name": "/dev/bus/0", "type": "megaraid,8"}, {"name": "--help", "type": "megaraid,1"}, {"name": 5}, 7,
    ]  # fmt: skip
    assert smartctl.parse_scan(json.dumps({"devices": rows})) == (("/dev/bus/0", "megaraid,8"), ("/dev/bus/0", "sat+megaraid,9"))
    assert smartctl.parse_scan("x") == smartctl.parse_scan("[]") == ()


@pytest.mark.parametrize("bit", range(5))
def test_each_warning_bit_by_log_and_by_smartctl(bit):
    by_log = nvme_health.parse_health(fixture("id_ctrl.bin"), health_log(warning=1 << bit))
    log = {"critical_warning": 1 << bit, "available_spare": 100, "available_spare_threshold": 10}
    by_tool = smartctl.parse_smartctl(8, json.dumps(document(RECORDS[0], nvme_smart_health_information_log=log, smart_status={"passed": False})))
    rule = ("spare_low", "temperature", "unreliable", "read_only", "backup_failed")[bit]
    for found in (by_log, by_tool):
        assert [one.rule for one in judge_health(found, NOW).problems] == [rule]
        assert judge_health(found, NOW).failing is (bit in (0, 2, 3))  # who read the log makes no difference


def test_the_log_of_the_lab():
    """QEMU: spare, threshold and used are 0, which is a drive that does not report them."""
    found = nvme_health.parse_health(fixture("id_ctrl.bin"), health_log(spare=0, threshold=0, kelvin=0x143))
    assert (found.model, found.serial, found.temperature, found.temperature_limit) == ("QEMU NVMe Ctrl", "PLUMB0001", 50, 70)
    assert judge_health(found, NOW).failing is False
    assert (found.spare, found.spare_threshold, found.used) == (None, None, None)


@pytest.mark.parametrize(
    ("log", "said"),
    [
        ({}, (None, None, None)),
        ({"available_spare": 0, "available_spare_threshold": 0, "percentage_used": 0}, (None, None, None)),
        ({"available_spare": 0, "available_spare_threshold": 0, "percentage_used": 3}, (None, None, 3)),
        ({"available_spare": 0, "percentage_used": 0}, (None, None, None)),
        ({"available_spare": 0, "available_spare_threshold": 10, "percentage_used": 0}, (0, 10, 0)),
        ({"available_spare": 100, "available_spare_threshold": 0, "percentage_used": 0}, (100, 0, 0)),
        ({"available_spare": 100, "available_spare_threshold": 10, "percentage_used": 0}, (100, 10, 0)),
        ({"percentage_used": 5}, (None, None, 5)),
    ],
)
def test_a_zero_that_a_drive_never_said(log, said):
    """Who reads the log makes no difference: no spare above no threshold is none that was said, and then an endurance of 0 is none either."""
    by_tool = smartctl.parse_smartctl(0, json.dumps(document(RECORDS[0], nvme_smart_health_information_log={"critical_warning": 0, **log})))
    assert (by_tool.spare, by_tool.spare_threshold, by_tool.used) == said and bool(by_tool.used_source) is (said[2] is not None)
    raw = {"spare": log.get("available_spare", 0), "threshold": log.get("available_spare_threshold", 0), "used": log.get("percentage_used", 0)}
    by_log = nvme_health.parse_health(fixture("id_ctrl.bin"), health_log(**raw))
    assert (by_log.spare, by_log.spare_threshold, by_log.used) == said and bool(by_log.used_source) is (said[2] is not None)


@pytest.mark.parametrize(
    ("life", "pre_eol", "failing", "rules"),
    [
        ("0x0b 0x02", "0x01", None, ["life"]),
        ("0x01 0x00", "0x01", False, []),
        ("0x00 0x00", "0x01", None, ["no_verdict"]),
        ("0x01 0x01", "0x00", None, ["no_verdict"]),
        ("0x01 0x01", "0x03", True, ["pre_eol"]),
        ("0x01 0x01", "0x02", False, ["pre_eol"]),
        ("0x09 0x01", "0x01", False, ["life"]),
        ("", "", None, ["unread"]),
        ("0x01", "0x01", None, ["unread"]),
        ("x y", "0x01", None, ["unread"]),
    ],
)
def test_emmc(life, pre_eol, failing, rules):
    verdict = judge_health(parse_emmc({"name": "DG4064", "life_time": life, "pre_eol_info": pre_eol}), NOW)
    assert (verdict.failing, [one.rule for one in verdict.problems]) == (failing, rules)


def storcli(alert="No", predictive=0, media=0, interface="SATA", **who):
    """Shortened from a capture of storcli 007.0606."""
    words = {"SN": "  S42VNF0K516979R", "Model Number": "Samsung SSD 860 PRO 256GB", "WWN": "5002538E403E1157", "Firmware Revision": "RVM01B6Q ", **who}
    state = {
        "Media Error Count": media,
        "Predictive Failure Count": predictive,
        "Drive Temperature": " 21C (69.80 F)",
        "S.M.A.R.T alert flagged by drive": alert,
    }
    name = "Drive /c0/e12/s0"
    detail = {name + " State": state, name + " Device attributes": words}
    return json.dumps({"Controllers": [{"Response Data": {name: [{"Intf": interface}], name + " - Detailed Information": detail}}]})


@pytest.mark.parametrize(
    ("alert", "predictive", "failing"), [("No", 0, False), ("Yes", 0, True), ("No", 2, True), ("N/A", 0, None), (None, 0, None), (True, 0, None)]
)
def test_storcli(alert, predictive, failing):
    ((source, found),) = raid_cli.parse_drives(storcli(alert, predictive, 7))
    assert (source.device, found.serial, found.wwn, found.protocol) == ("/c0/e12/s0", "S42VNF0K516979R", "naa.5002538e403e1157", "ATA")
    assert (found.temperature, found.counters["media_errors"]) == (21, 7)
    assert judge_health(found, NOW).failing is failing


@pytest.mark.parametrize(("interface", "alert", "failing"), [("SAS", "Yes", True), ("NVMe", "No", False), ("NVMe", "Yes", None)])
def test_an_alert_that_may_be_heat(interface, alert, failing):
    """Of an NVMe drive a controller tells that some bit of the critical warning is set: look at it, and replace nothing for that alone."""
    ((_source, found),) = raid_cli.parse_drives(storcli(alert, interface=interface))
    verdict = judge_health(found, NOW, DriveUse(new=True))
    assert (verdict.failing, [one.rule for one in verdict.problems if one.level != "info"]) == (
        failing,
        [] if failing is False else ["status" if failing else "exception"],
    )


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"max": {"units_per_second": 60, "bits_per_unit": 100000000}, "current": {"units_per_second": 30, "bits_per_unit": 100000000}}, (3000, 6000)),
        ({"max": {"units_per_second": 60, "bits_per_unit": 100000000}}, (None, 6000)),
        ({"current": {"units_per_second": 0, "bits_per_unit": 100000000}, "max": {"units_per_second": True, "bits_per_unit": 1}}, (None, None)),
        ({"current": {"units_per_second": "30", "bits_per_unit": None}, "max": 5}, (None, None)),
        (None, (None, None)),
        ([], (None, None)),
    ],
)
def test_the_speed_of_a_link(given, wanted):
    found = smartctl.parse_smartctl(0, json.dumps(document(RECORDS[0], interface_speed=given)))
    assert (found.link_speed, found.link_most) == wanted


@pytest.mark.parametrize("one", [one for one in RECORDS if one["link"]], ids=lambda one: one["id"])
def test_links_of_members(one):
    """Each record with its link, as if the drive were behind a controller."""
    ends = {"current": one["link"]["current_gbps"], "max": one["link"]["max_gbps"]}
    speeds = {name: {"units_per_second": round(10 * speed), "bits_per_unit": 10**8} for name, speed in ends.items()}
    found = smartctl.parse_smartctl(0, json.dumps(document(one, interface_speed=speeds)))
    rules = [problem.rule for problem in judge_health(found, NOW, DriveUse(member=True)).problems]
    assert ("link" in rules) is one["expect"]["link_degraded"] and found.link_most == 6000


@pytest.mark.parametrize(
    ("link", "most", "wanted"),
    [("3.0Gb/s", "6.0Gb/s", (3000, 6000)), ("12.0 Gb/s", "12.0Gb/s", (12000, 12000)), ("Unknown", "0.0Gb/s", (None, None)), (5, None, (None, None))],
)
def test_the_speed_of_a_link_by_storcli(link, most, wanted):
    whole = json.loads(storcli())
    (drive,) = [one for key, one in whole["Controllers"][0]["Response Data"].items() if key.endswith("Detailed Information")]
    (who,) = [one for key, one in drive.items() if key.endswith("Device attributes")]
    who.update({"Link Speed": link, "Device Speed": most})
    ((_source, found),) = raid_cli.parse_drives(json.dumps(whole))
    assert (found.link_speed, found.link_most) == wanted


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"Controllers": 5}', '{"Controllers": [5, {}]}', storcli()[:-4]])
def test_storcli_that_says_nothing(text):
    assert raid_cli.parse_drives(text) == []


SDA, MEMBER, CLI = Source("/dev/sda", ("sda",)), Source("/dev/bus/0", member="megaraid,1"), Source("/c0/e1/s1", member="storcli")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((SDA, Health(wwn="naa.5002538e403e1157")), (MEMBER, Health(wwn="naa.5002538e403e1157")), True),
        ((SDA, Health(wwn="naa.5002538e403e1157", serial="A1B2C3")), (MEMBER, Health(wwn="naa.5002538e403e1158", serial="A1B2C3")), False),
        ((SDA, Health(serial="A1B2C3", model="TOSHIBA MG07ACA1")), (MEMBER, Health(serial="A1B2C3", model="TOSHIBA MG07ACA14TE")), True),
        ((SDA, Health(serial="A1B2C3", model="M")), (MEMBER, Health(serial="A1B2C3", model="N")), False),
        ((SDA, Health(serial="A1B2C3", model="M")), (SDA, Health(serial="A1B2C3", model="M")), False),
        ((MEMBER, Health(serial="A1B2C3", model="M")), (CLI, Health(serial="A1B2C3", model="M")), True),
        ((SDA, Health(serial="0000", model="M")), (MEMBER, Health(serial="0000", model="M")), False),
        ((SDA, Health(wwn="naa.0000000000000000")), (MEMBER, Health(wwn="naa.0000000000000000")), False),
        ((SDA, Health(wwn="naa.5002538e403e1157", volume=True)), (MEMBER, Health(wwn="naa.5002538e403e1157")), False),
    ],
)
def test_one_drive_or_two(one, other, same):
    assert [same_drive(*pair) for pair in ((one, other), (other, one))] == [same, same]


@pytest.mark.parametrize("one", json.loads(fixture("identity.json")), ids=lambda one: one["id"])
def test_identities(one):
    """Models, serials and WWNs as they are: trimmed, and no key where nothing identifies."""
    facts = one["facts"]
    found = document(RECORDS[0], model_name=" %s  " % one["device"], serial_number="        S1X" if facts.get("serial_leading_blanks") else "S1X")
    if "wwn" in facts:
        found["wwn"] = facts["wwn"] or None
    health = smartctl.parse_smartctl(0, json.dumps(found))
    assert (health.model, health.serial, health.wwn) == (one["device"], "S1X", "")
    assert health.key == "serial:%s/S1X" % one["device"]
    assert smartctl.parse_smartctl(0, json.dumps(dict(found, serial_number=""))).key == ""


def test_a_wwn_is_written_as_the_kernel_does():
    found = smartctl.parse_smartctl(0, json.dumps(document(RECORDS[0], wwn={"naa": 5, "oui": 6083300, "id": 0x1234})))
    assert found.wwn == "naa.55cd2e4000001234" and found.key == "wwn:naa.55cd2e4000001234"


@pytest.mark.parametrize(
    ("kind", "failing", "key", "rules"),
    [
        ("ata", False, "wwn:naa.%x%06x%09x" % (5, 937866, 2407013496), ["refused"]),
        ("scsi", None, "wwn:naa.502975e4469c5fcb", ["unread"]),  # QEMU's scsi-hd has no page of informational exceptions
        ("nvme", False, "serial:QEMU NVMe Ctrl/DHNVME1", []),
    ],
)
def test_what_smartctl_7_3_printed_in_the_lab(kind, failing, key, rules):
    text = fixture("smartctl_lab_%s.json" % kind).decode()
    found = smartctl.parse_smartctl(json.loads(text)["smartctl"]["exit_status"], text)
    verdict = judge_health(found, NOW)
    assert (verdict.failing, found.key, [one.rule for one in verdict.problems]) == (failing, key, rules)
