# SPDX-License-Identifier: GPL-3.0-or-later
"""The drives behind a MegaRAID or PERC in what ``storcli /call/eall/sall show all J`` prints; perccli prints the same. Pure.

Source: StorCLI Reference Manual (Broadcom), "Show All" of drives; the members are named as version 7 writes them.
"""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import wwid_of
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Source

SHOW_DRIVES = ("/call/eall/sall", "show", "all", "J")
_DETAILED = re.compile(r"Drive (/c[0-9]+(?:/e[0-9]+)?/s[0-9]+) - Detailed Information")
_CELSIUS = re.compile(r"\s*(-?[0-9]{1,3})C\b")
_GIGABITS = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?) ?Gb/s")
_COUNTERS = {"Media Error Count": "media_errors", "Predictive Failure Count": "predictive_failures"}


def parse_drives(text: str) -> List[Tuple[Source, Health]]:
    """Each drive that is described; none where the text is no such JSON."""
    try:
        controllers = json.loads(text)["Controllers"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    drives = []
    for controller in controllers if isinstance(controllers, list) else []:
        data = _members(_members(controller).get("Response Data"))
        for title, drive in data.items():
            name = _DETAILED.fullmatch(str(title))
            if name and isinstance(drive, dict):
                rows = data.get("Drive " + name.group(1))
                row = _members(rows[0]) if isinstance(rows, list) and rows else {}
                drives.append((Source(name.group(1), member="storcli"), _drive(name.group(1), row, drive)))
    return drives


def _members(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _drive(name: str, row: Mapping[str, Any], drive: Mapping[str, Any]) -> Health:
    state = _members(drive.get("Drive %s State" % name))
    who = _members(drive.get("Drive %s Device attributes" % name))
    said: Dict[str, str] = {key: escape_unprintable(value.strip())[:200] for key, value in who.items() if isinstance(key, str) and isinstance(value, str)}
    alert = {"Yes": True, "No": False}.get(str(state.get("S.M.A.R.T alert flagged by drive")).strip())
    counters = {ours: state[theirs] for theirs, ours in _COUNTERS.items() if _is_count(state.get(theirs))}
    wwn = said.get("WWN", "").lower()
    temperature = _CELSIUS.match(str(state.get("Drive Temperature")))
    protocol = {"SATA": "ATA", "SAS": "SCSI", "NVMe": "NVMe"}.get(str(row.get("Intf")), "")
    passed = _passed(alert, counters)
    unclear = protocol == "NVMe" and passed is False  # any bit of its critical warning, heat as well, is an alert
    return Health(
        fault="" if alert is not None else "storcli does not say whether the drive flagged an alert",
        source="storcli",
        protocol=protocol,
        model=said.get("Model Number", ""),
        serial=said.get("SN", ""),
        firmware=said.get("Firmware Revision", ""),
        wwn=wwid_of("naa." + wwn) if re.fullmatch("[0-9a-f]{16}|[0-9a-f]{32}", wwn) else "",
        passed=None if unclear else passed,
        exception="alert" if unclear else "",
        temperature=int(temperature.group(1)) if temperature else None,
        counters=counters,
        link_speed=_speed(said.get("Link Speed", "")),
        link_most=_speed(said.get("Device Speed", "")),
    )


def _speed(text: str) -> Optional[int]:
    """Mb/s of ``6.0Gb/s``."""
    match = _GIGABITS.fullmatch(text)
    return round(float(match.group(1)) * 1000) or None if match else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 64


def _passed(alert: Optional[bool], counters: Mapping[str, int]) -> Optional[bool]:
    """The drive's verdict as the controller heard it: a predictive failure is an alert that it has counted."""
    if alert or counters.get("predictive_failures"):
        return False
    return None if alert is None else True
