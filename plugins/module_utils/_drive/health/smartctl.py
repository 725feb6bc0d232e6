# SPDX-License-Identifier: GPL-3.0-or-later
"""What ``smartctl -x --json=c`` prints, as Health. Pure.

Sources: smartctl(8), EXIT STATUS; the JSON of smartmontools 7.1 to 7.5 (ataprint.cpp, scsiprint.cpp, nvmeprint.cpp). 7.3 writes SCSI models as
``scsi_model_name``; ``endurance_used`` is newer. A value of another type or out of its range counts as not reported.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import wwid_of
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Attribute, Health
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.nvme_health import said_wear
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.smart_attributes import family_of, wear_of

# EXIT STATUS of smartctl(8). With one of the first two nothing was read of the drive.
UNREAD = 1 << 0 | 1 << 1
REFUSED, FAILED, PREFAIL, PAST, ERRORS, TESTS = (1 << bit for bit in range(2, 8))
READ_NOTHING = "smartctl read nothing"  # how a fault begins that those bits report
_LARGEST = 1 << 128  # counters of NVMe have 128 bits
_FILLERS = (0xFFFFFFFF, 0xFFFFFFFFFFFF)
_DATA_UNIT = 512 * 1000  # NVM Express Base Specification 2.0, Figure 207

# Name of a counter → where the health log of NVMe has it.
_NVME = {
    "media_errors": "media_errors",
    "error_log_entries": "num_err_log_entries",
    "unsafe_shutdowns": "unsafe_shutdowns",
    "power_cycles": "power_cycles",
    "power_on_hours": "power_on_hours",
    "hot_minutes": "warning_temp_time",
    "critical_minutes": "critical_comp_time",
    "busy_minutes": "controller_busy_time",
}


class Member(NamedTuple):
    """A device that ``smartctl --scan`` knows, with the type by which it is addressed."""

    path: str
    type: str


def parse_smartctl(code: int, text: str, err: str = "") -> Health:
    """What smartctl printed of one drive. *code*: what it ended with, negative for a signal, 127 (which has bits 0 and 1) where it did not run."""
    try:
        output = json.loads(text) if text.strip() else None
    except (ValueError, RecursionError):
        output = None
    if code < 0:
        return Health(fault="smartctl was ended by signal %d" % -code, source="smartctl")
    if not isinstance(output, dict):
        printed = " ".join((err or text).split())[:200]
        fault = READ_NOTHING if code & UNREAD else "smartctl printed no complete JSON"
        return Health(fault="%s: %s" % (fault, printed or "return code %d" % code), source="smartctl", unsupported=bool(code & UNREAD))
    bits = code | (_number(output, "smartctl", "exit_status", below=256) or 0)
    who = _identity(output)
    if bits & UNREAD or not _dict(output, "device"):
        why = _messages(output) or " ".join(err.split())[:200] or "return code %d" % code
        return who._replace(fault="%s: %s" % (READ_NOTHING, why), unsupported=True)
    if _get(output, "smart_support", "available") is False:
        return who._replace(fault="it is a volume of a controller, or has no SMART", volume=who.protocol == "SCSI", unsupported=True)
    said = who._replace(
        passed=_flag(output, "smart_status", "passed"),
        exit_bits=bits & ~UNREAD,
        temperature=_number(output, "temperature", "current", above=-274, below=1000),
        temperature_limit=_limit(output),
        counters=_common(output),
        link_speed=_speed(output, "current"),
        link_most=_speed(output, "max"),
    )
    reader = {"NVMe": _nvme, "SCSI": _scsi, "ATA": _ata}.get(said.protocol)
    return reader(output, said) if reader else who._replace(fault="smartctl named no protocol that is known")


def parse_scan(text: str) -> Tuple[Member, ...]:
    """The members of controllers in what ``smartctl --scan --json=c`` printed; nothing where that is no such JSON."""
    try:
        output = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    entries = [entry for entry in _list(output, "devices") if isinstance(entry, dict)]
    members = [Member(_text(entry, "name"), _text(entry, "type")) for entry in entries]
    return tuple(member for member in dict.fromkeys(members) if member.path.startswith("/dev/bus/") and "megaraid," in member.type)


# --- what is there, and of the type that it has to be ---------------------------------------------------


def _get(value: Any, *way: str) -> Any:
    for key in way:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _dict(data: Any, *way: str) -> Mapping[str, Any]:
    value = _get(data, *way)
    return value if isinstance(value, dict) else {}


def _list(data: Any, *way: str) -> Sequence[Any]:
    value = _get(data, *way)
    return value if isinstance(value, list) else []


def _text(data: Any, *way: str) -> str:
    value = _get(data, *way)
    return escape_unprintable(" ".join(value.split()))[:200] if isinstance(value, str) else ""


def _flag(data: Any, *way: str) -> Optional[bool]:
    value = _get(data, *way)
    return value if isinstance(value, bool) else None


def _number(data: Any, *way: str, above: int = -1, below: int = _LARGEST) -> Optional[int]:
    """A whole number between the two; json.cpp writes those of more than 53 bits as text as well, with ``_s`` behind the key."""
    value = _get(data, *way)
    wide = _get(data, *way[:-1], way[-1] + "_s")
    if isinstance(wide, str) and len(wide) < 40 and wide.isascii() and wide.isdigit():
        value = int(wide)
    return value if isinstance(value, int) and not isinstance(value, bool) and above < value < below else None


# --- the parts -------------------------------------------------------------------------------------------


def _messages(output: Any) -> str:
    return "; ".join(text for text in (_text(message, "string") for message in _list(output, "smartctl", "messages")) if text)


def _identity(output: Mapping[str, Any]) -> Health:
    vendor, product = (_text(output, "scsi_" + key) or _text(output, key) for key in ("vendor", "product"))
    naa, oui, number = (_number(output, "wwn", key) for key in ("naa", "oui", "id"))
    wwn = "naa.%x%06x%09x" % (naa, oui, number) if naa and oui is not None and number is not None else ""
    unit = _text(output, "logical_unit_id").lower()
    wwn = wwn or ("naa." + unit[2:] if unit.startswith("0x") else "")
    return Health(
        source="smartctl",
        protocol=_text(output, "device", "protocol"),
        model=_text(output, "model_name") or _text(output, "scsi_model_name") or ("%s %s" % (vendor, product)).strip(),
        serial=_text(output, "serial_number"),
        firmware=_text(output, "firmware_version") or _text(output, "scsi_revision") or _text(output, "revision"),
        wwn=wwid_of(wwn),
    )


def _limit(output: Mapping[str, Any]) -> Optional[int]:
    ways = (("nvme_composite_temperature_threshold", "warning"), ("temperature", "drive_trip"), ("scsi_temperature", "drive_trip"))
    return next((limit for limit in (_number(output, *way, above=0, below=200) for way in ways) if limit), None)


def _common(output: Mapping[str, Any]) -> Dict[str, int]:
    return counted(power_on_hours=_number(output, "power_on_time", "hours"), power_cycles=_number(output, "power_cycle_count"))


def _speed(output: Mapping[str, Any], which: str) -> Optional[int]:
    """Mb/s of a SATA link, now or at most."""
    units, bits = (_number(output, "interface_speed", which, key, above=0, below=1 << 32) for key in ("units_per_second", "bits_per_unit"))
    return units * bits // 10**6 if units and bits else None


def counted(**counts: Optional[int]) -> Dict[str, int]:
    """The counters that are reported."""
    return {name: count for name, count in counts.items() if count is not None}


def _nvme(output: Mapping[str, Any], said: Health) -> Health:
    log = _dict(output, "nvme_smart_health_information_log")
    units = _number(log, "data_units_written")
    counts = counted(**{name: _number(log, key) for name, key in _NVME.items()}, host_bytes_written=None if units is None else units * _DATA_UNIT)
    limits = (("available_spare", 101), ("available_spare_threshold", 101), ("percentage_used", 256))
    spare, threshold, used = said_wear(*(_number(log, key, below=most) for key, most in limits))
    # Base Specification 2.0, Figure 213: 2h is an extended self-test; 0h without error, 5h to 7h failed; others did not come to an end.
    tests = [
        result
        for row in _list(output, "nvme_self_test_log", "table")
        for result in [_number(row, "self_test_result", "value")]
        if _number(row, "self_test_code", "value") == 2 and result in (0, 5, 6, 7)
    ]
    warnings = (_number(log, "critical_warning", below=256), _number(output, "smart_status", "nvme", "value", below=256), 0 if said.passed else None)
    warning = next((value for value in warnings if value is not None), None)
    # passed is smartctl's own summary, that no bit of the warning is set (nvmeprint.cpp), as bit 3 of what it ends with. It adds nothing but a contradiction.
    contradicted = warning == 0 and (said.passed is False or said.exit_bits & FAILED)
    return said._replace(
        passed=None,
        exit_bits=said.exit_bits & ~FAILED,
        critical_warning=None if contradicted else warning,
        spare=spare,
        spare_threshold=threshold,
        used=used,
        used_source="" if used is None else "health log",
        counters={**said.counters, **counts},
        self_test_passed=tests[0] == 0 if tests else None,
    )


def _scsi(output: Mapping[str, Any], said: Health) -> Health:
    errors = [_number(output, "scsi_error_counter_log", kind, "total_uncorrected_errors") for kind in ("read", "write", "verify")]
    known = [count for count in errors if count is not None]
    used = _number(output, "scsi_percentage_used_endurance_indicator", below=256)
    if used is None:
        used = _number(output, "endurance_used", "current_percent", below=256)
    counts = counted(reallocated=_number(output, "scsi_grown_defect_list"), media_errors=sum(known) if known else None)
    asc, ascq = (_number(output, "smart_status", "scsi", key, below=256) for key in ("asc", "ascq"))
    exception = "" if asc is None or ascq is None else "%02x%02x" % (asc, ascq)
    return said._replace(
        # False is smartctl's own summary: that any exception is reported, of heat as well as of failure (scsiprint.cpp). The exception itself is judged.
        passed=None if exception else said.passed,
        exit_bits=said.exit_bits & ~FAILED if exception else said.exit_bits,
        exception=exception,
        used=used,
        used_source="page 11h" if used is not None else "",
        counters={**said.counters, **counts},
        self_test_passed=_scsi_self_test(output),
    )


def _scsi_self_test(output: Mapping[str, Any]) -> Optional[bool]:
    """SPC-4 7.3.20, Self-Test Results page (10h), the latest first: 0 without error, 3 to 7 failed. Code 2 and 6 are the extended ones."""
    for number in range(20):
        test = _dict(output, "scsi_self_test_%d" % number)
        result = _number(test, "result", "value")
        if _number(test, "code", "value") in (2, 6) and result in (0, 3, 4, 5, 6, 7):
            return result == 0
    return None


def _ata(output: Mapping[str, Any], said: Health) -> Health:
    attributes = _attributes(output)
    family = family_of(_text(output, "model_family"), said.model)
    wear = wear_of(family, attributes)
    statistics = {
        (_number(page, "number"), _number(row, "offset")): _number(row, "value")
        for page in _list(output, "ata_device_statistics", "pages")
        for row in _list(page, "table")
        if _flag(row, "flags", "valid") is not False
    }
    used = statistics.get((7, 8))  # ACS-4 9.5.10, Percentage Used Endurance Indicator
    if used is not None and used > 255:
        used = None
    sectors = statistics.get((1, 24))  # ACS-4 9.5.4, Logical Sectors Written
    written = None if sectors is None else sectors * (_number(output, "logical_block_size", above=0) or 512)
    counts = counted(
        **{name: count for name, count in wear.counters.items() if name != "host_bytes_written"},
        host_bytes_written=wear.counters.get("host_bytes_written") if written is None else written,
        error_log_entries=_first(output, "ata_smart_error_log", ("extended", "summary"), "count"),
    )
    return said._replace(
        used=wear.used if used is None else used,
        used_source=wear.used_source if used is None else "device statistics",
        wear_doubt=wear.doubt if used is None else "",
        named=bool(family or _number(output, "rotation_rate")),  # smartctl's default names are those of hard disks
        spare=wear.spare,
        counters={**said.counters, **counts},
        attributes=attributes,
        self_test_passed=_ata_self_test(output),
    )


def _first(output: Mapping[str, Any], log: str, kinds: Sequence[str], key: str) -> Optional[int]:
    return next((count for count in (_number(output, log, kind, key) for kind in kinds) if count is not None), None)


def _attributes(output: Mapping[str, Any]) -> Tuple[Attribute, ...]:
    rows: List[Attribute] = []
    for row in _list(output, "ata_smart_attributes", "table"):
        number, value, thresh = (_number(row, key, below=256) for key in ("id", "value", "thresh"))
        raw = _number(row, "raw", "value")
        if number is None or value is None or thresh is None:
            continue
        prefail = _flag(row, "flags", "prefailure") is True
        failing = _text(row, "when_failed") == "now" or (0 < thresh < 254 and 0 < value <= thresh)  # ACS-2: 0, 254 and 255 are no values
        rows.append(Attribute(number, _text(row, "name"), value, thresh, None if raw in _FILLERS else raw, prefail, failing, _text(row, "raw", "string")))
    return tuple(rows)


def _ata_self_test(output: Mapping[str, Any]) -> Optional[bool]:
    """ACS-2 A.14: type 2 is the extended test, 130 the captive one. Of the upper half of the status 0 is passed, 3 to 8 failed, the rest no end."""
    for kind in ("extended", "standard"):
        for row in _list(output, "ata_smart_self_test_log", kind, "table"):
            status = _number(row, "status", "value", below=256)
            if _number(row, "type", "value") in (2, 130) and status is not None and status >> 4 in (0, *range(3, 9)):
                return status >> 4 == 0
    return None
