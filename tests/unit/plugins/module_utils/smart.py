# SPDX-License-Identifier: GPL-3.0-or-later
"""What smartctl prints of drives that are known from their captures: the records of fixtures/health.json as its JSON."""

from __future__ import annotations

import json

from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import nvme_health, smartctl
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.emmc import parse_emmc
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import fixture

RECORDS = json.loads(fixture("health.json"))
LOG = {
    "critical_warning": "critical_warning", "available_spare": "available_spare", "available_spare_threshold": "spare_threshold",
    "percentage_used": "wear_percent_used", "data_units_written": "data_units_written", "media_errors": "media_errors",
    "num_err_log_entries": "error_log_entries", "unsafe_shutdowns": "unsafe_shutdowns", "power_cycles": "power_cycles",
    "power_on_hours": "power_on_hours", "temperature": "temperature_c",
}  # fmt: skip

# What smartctl's database calls them, of those records that it has.
FAMILIES = {"intel-s3520-dell-240gb-sata-m2": "Dell Certified Intel S3520 Series SSDs", "samsung-sm843t-240gb-sata": "Samsung based SSDs"}


def record(name):
    return next(one for one in RECORDS if one["id"] == name)


def model_of(one):
    """The model as the drive says it: the words before what the record adds in brackets, but where the model is in the brackets."""
    inside = {"hgst-sn260-3t2": "HUSMR7632BHP301"}
    return inside.get(one["id"], one["device"].split(" (")[0])


def document(one, **more):
    """A record as smartctl 7.3 prints it."""
    found = {
        "json_format_version": [1, 0],
        "smartctl": {"version": [7, 3], "exit_status": 4 if "exit status 4 although healthy" in one["traps"] else 0},
        "device": {"name": "/dev/x", "info_name": "/dev/x", "type": "x", "protocol": one["protocol"]},
        "model_name": model_of(one),
        "serial_number": "S" + one["id"],
        "firmware_version": "FW1",
    }
    if one["id"] in FAMILIES:
        found["model_family"] = FAMILIES[one["id"]]
    if one["passed"] is not None:
        found["smart_status"] = {"passed": one["passed"]}
    if one["temperature_c"] is not None:
        found["temperature"] = {"current": one["temperature_c"]}
    if one["power_on_hours"] is not None:
        found["power_on_time"] = {"hours": one["power_on_hours"]}
    if one["power_cycles"] is not None:
        found["power_cycle_count"] = one["power_cycles"]
    if one["protocol"] == "NVMe":
        found["nvme_smart_health_information_log"] = {theirs: one[ours] for theirs, ours in LOG.items() if one[ours] is not None}
        if one["id"] == "hgst-sn260-3t2":
            found["nvme_smart_health_information_log"]["controller_busy_time"] = 1184621
    if one["attributes"]:
        found["ata_smart_attributes"] = {
            "table": [
                {
                    **{key: row[key] for key in ("id", "name", "value", "worst", "thresh")},
                    "when_failed": "",
                    "flags": {"value": 51, "prefailure": row["id"] in (1, 5, 170, 177, 179, 180, 181, 182, 183, 184, 232)},
                    "raw": {"value": row["raw"], "string": str(row["raw"])},
                }
                for row in one["attributes"]
            ]
        }
    return {**found, **more}


def health_of(one):
    """A record as the collection reads it, each by the way that its kind has."""
    if one["protocol"] == "eMMC":
        life = "0x%02x 0x%02x" % (one["emmc"]["life_a"], one["emmc"]["life_b"])
        return parse_emmc({"name": "EMMC", "cid": "c" + one["id"], "life_time": life, "pre_eol_info": "0x%02x" % one["emmc"]["pre_eol"]})
    if one["id"] == "megaraid-open-failed-needs-d-option":
        words = "Smartctl open device: /dev/sda failed: DELL or MegaRaid controller, please try adding '-d megaraid,N'"
        found = {"smartctl": {"exit_status": 2, "messages": [{"string": words, "severity": "error"}]}, "device": {"name": "/dev/sda"}}
        return smartctl.parse_smartctl(2, json.dumps(found))
    if one["id"] == "intel-p4610-dell-3t2":  # the tool of the capture prints no verdict: the log itself
        return nvme_health.parse_health(bytes(4096), health_log(one))
    return smartctl.parse_smartctl(0, json.dumps(document(one)))


def health_log(one=None, warning=0, kelvin=300, spare=100, threshold=10, used=0):
    """Log page 02h, 512 bytes."""
    raw = bytearray(512)
    raw[0], raw[3], raw[4], raw[5] = warning, spare, threshold, used
    raw[1:3] = kelvin.to_bytes(2, "little")
    if one:
        raw[3], raw[4], raw[5] = one["available_spare"], one["spare_threshold"], one["wear_percent_used"]
        raw[1:3] = (one["temperature_c"] + 273).to_bytes(2, "little")
        places = {"data_units_written": 48, "power_cycles": 112, "power_on_hours": 128, "unsafe_shutdowns": 144, "media_errors": 160, "error_log_entries": 176}
        for key, at in places.items():
            raw[at : at + 16] = one[key].to_bytes(16, "little")
    return bytes(raw)
