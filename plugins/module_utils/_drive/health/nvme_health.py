# SPDX-License-Identifier: GPL-3.0-or-later
"""The health log of an NVMe drive, from the bytes of the command itself. Pure.

Source: NVM Express Base Specification 2.0 Figure 275 (Identify Controller: WCTEMP 266), Figure 207 (SMART / Health Information, log page 02h).
"""

from __future__ import annotations

import struct
from typing import Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import parse_id_ctrl
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health

HEALTH_BYTES = 512
_KELVIN = 273
_DATA_UNIT = 512 * 1000
# Counters of 128 bits in the health log, by the byte where they begin.
_COUNTERS = (
    ("busy_minutes", 96),
    ("power_cycles", 112),
    ("power_on_hours", 128),
    ("unsafe_shutdowns", 144),
    ("media_errors", 160),
    ("error_log_entries", 176),
)


def said_wear(spare: Optional[int], threshold: Optional[int], used: Optional[int]) -> Tuple[Optional[int], Optional[int], Optional[int]]:
    """(spare, its threshold, percent used), without what is never reported.

    A drive has spare blocks above a threshold; where both are 0, as in the log of an emulated one, it has no figures of them, and its endurance of 0 is
    none either.
    """
    if spare or threshold:
        return spare, threshold, used
    return None, None, used or None


def parse_health(controller: bytes, log: bytes) -> Health:
    """Identify Controller and log page 02h → Health. A temperature of 0 K, and a threshold of 0, are none."""
    who = parse_id_ctrl(controller)
    limit = struct.unpack_from("<H", controller, 266)[0]
    warning, kelvin, spare, threshold, used = struct.unpack_from("<BHBBB", log)
    left, least, worn = said_wear(spare if spare <= 100 else None, threshold if threshold <= 100 else None, used)
    counters = {name: int.from_bytes(log[at : at + 16], "little") for name, at in _COUNTERS}
    counters["host_bytes_written"] = int.from_bytes(log[48:64], "little") * _DATA_UNIT
    counters["hot_minutes"], counters["critical_minutes"] = struct.unpack_from("<II", log, 192)
    return Health(
        source="nvme",
        protocol="NVMe",
        model=escape_unprintable(who["model"]),
        serial=escape_unprintable(who["serial"]),
        firmware=escape_unprintable(who["firmware"]),
        critical_warning=warning,
        spare=left,
        spare_threshold=least,
        used=worn,
        used_source="" if worn is None else "health log",
        temperature=kelvin - _KELVIN if kelvin else None,
        temperature_limit=limit - _KELVIN if limit else None,
        counters=counters,
    )
