# SPDX-License-Identifier: GPL-3.0-or-later
"""What drives said of themselves before, one file a drive, a line a reading: root's alone, bounded. I/O; parse_readings() and compare_readings() are pure."""

from __future__ import annotations

import json
import re
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import make_private, read_own, replace_file
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import slug
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Reading

DIRECTORY = "/var/lib/plumbline/health"
MAX_READINGS = 400
MAX_BYTES = 1 << 20
EVERY_SECONDS = 86400
_LONGEST_NAME = 200
_PLAIN = re.compile(r"([0-9A-Za-z. -]+/)?[0-9A-Za-z.-]+")  # a WWID, or model/serial
# Counters that fall only where another drive answers, or this one was set back.
_RISING = (
    "power_on_hours", "power_cycles", "host_bytes_written", "media_errors", "uncorrectable_errors", "end_to_end_errors", "reallocated", "crc_errors",
    "unsafe_shutdowns",
)  # fmt: skip


class Kept(NamedTuple):
    """The readings that a drive is compared with. *due*: this one must be kept; *warning*: why a new baseline begins."""

    readings: Tuple[Reading, ...]
    due: bool
    warning: str = ""


def path_of_drive(key: str) -> str:
    """Where the readings of a drive are; *key* as Health has it.

    No two drives have one file: a name that is not plain gets the checksum of the whole.
    """
    key = key.partition(":")[2]
    plain = len(key) <= _LONGEST_NAME and _PLAIN.fullmatch(key)
    return "%s/%s.jsonl" % (DIRECTORY, re.sub("[ /]", "_", key) if plain else slug(key))


def parse_readings(text: str) -> Tuple[Reading, ...]:
    """The lines of a file, the oldest first. A line that is no reading is passed over."""
    readings: List[Reading] = []
    for line in text.splitlines():
        reading = _reading(line)
        if reading and (not readings or reading.when > readings[-1].when):
            readings.append(reading)
    return tuple(readings)


def _reading(line: str) -> Optional[Reading]:
    try:
        raw = json.loads(line)
        words = [raw[key] for key in ("model", "serial", "firmware")]
        counters = {name: count for name, count in raw["counters"].items() if _is_count(count)}
        good = _is_count(raw["when"]) and all(isinstance(word, str) for word in words) and (raw["used"] is None or _is_count(raw["used"]))
        return Reading(raw["when"], words[0], words[1], words[2], raw["used"], counters) if good else None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 144


def compare_readings(drive: Health, readings: Sequence[Reading], now: int) -> Kept:
    """Which readings a drive may be compared with: none where it is another drive, or its counters fell. One reading a day is kept."""
    if not readings:
        return Kept((), True)
    last = readings[-1]
    fallen = [name for name in _RISING if drive.counters.get(name, last.counters.get(name, 0)) < last.counters.get(name, 0)]
    why = ""
    if (drive.model, drive.serial) != (last.model, last.serial):
        why = "another drive answers: %s %s, it was %s %s" % (drive.model, drive.serial, last.model, last.serial)
    elif fallen:
        why = "%s fell from %d to %d" % (fallen[0], last.counters[fallen[0]], drive.counters[fallen[0]])
    elif now < last.when:
        why = "its last reading is of a time that has not come yet"
    return Kept((), True, why + "; a new baseline begins") if why else Kept(tuple(readings), now - last.when >= EVERY_SECONDS)


def load_readings(key: str) -> Tuple[Reading, ...]:
    """What is kept of a drive; nothing where there is no file, or one that others may write."""
    try:
        return parse_readings(read_own(path_of_drive(key), MAX_BYTES).decode("utf-8", "replace"))
    except OSError:
        return ()


def save_reading(key: str, kept: Sequence[Reading], drive: Health, now: int) -> None:
    """Add a reading, in one step. The first stays, since growth is counted from it; the oldest after it go."""
    new = Reading(now, drive.model, drive.serial, drive.firmware, drive.used, drive.counters)
    readings = [*kept[:1], *[*kept[1:], new][1 - MAX_READINGS :]]
    path = path_of_drive(key)
    try:
        make_private(DIRECTORY)
        replace_file(path, "".join(json.dumps(reading._asdict(), sort_keys=True) + "\n" for reading in readings), mode=0o600)
    except OSError as fault:
        raise PlumblineError("the reading could not be kept in %s: %s" % (path, fault.strerror or fault)) from fault
