# SPDX-License-Identifier: GPL-3.0-or-later
"""The last reading of the health of each drive, as the host keeps it: root's alone, replaced in one step. I/O; parse_last() is pure."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import INFO, LEVELS
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import read_json, write_json
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.last_reading import VALID_SECONDS, LastReading

PATH = "/var/lib/plumbline/health/last.json"


def parse_last(raw: Any) -> Dict[str, LastReading]:
    """What the file holds, by the identity of a disk. An entry that is no reading is passed over."""
    readings = {}
    for key, entry in raw.items() if isinstance(raw, dict) else ():
        if isinstance(entry, dict) and _is_time(entry.get("when")) and entry.get("level") in LEVELS and isinstance(entry.get("findings"), list):
            readings[key] = LastReading(entry["when"], entry["level"], tuple(text for text in entry["findings"] if isinstance(text, str)))
    return readings


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def load_last() -> Dict[str, LastReading]:
    return parse_last(read_json(PATH))


def update_last(last: Mapping[str, LastReading], new: Mapping[str, LastReading], now: int) -> Dict[str, LastReading]:
    """What is to be kept after a reading. An entry is made anew when it is a day old or it says another thing, and goes when it is old. Pure."""
    kept = {key: reading for key, reading in last.items() if 0 <= now - reading.when < VALID_SECONDS}
    return {**kept, **{key: reading for key, reading in new.items() if key not in kept or _differ(kept[key], reading)}}


def _differ(reading: LastReading, other: LastReading) -> bool:
    """Whether the levels differ; the figures of warnings change all the time. At the level info the only finding that is kept is of a drive left out."""
    return reading.level != other.level or (reading.level == INFO and reading.findings != other.findings)


def save_last(last: Mapping[str, LastReading]) -> None:
    """Raises PlumblineError where that is not possible."""
    write_json(PATH, {key: reading._asdict() for key, reading in last.items()}, "the last reading of the drives")
