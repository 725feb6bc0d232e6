# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe identify data and the health log, from the bytes of the command itself. Pure.

Source: NVM Express Base Specification 2.0 Figure 275 (Identify Controller: SN 4, MN 24, FR 64, CNTLID 78, WCTEMP 266,
ONCS 520, VWC 525), Figure 207 (SMART / Health Information, log page 02h), 5.15 (Get Features: Select in dword 10; capabilities
in dword 0 of the answer: saveable bit 0, changeable bit 2), 5.27.1.4 (Volatile Write Cache, feature 06h: WCE is bit 0, scope is
the controller) and NVM Command Set Specification 1.0 Figure 97 (Identify Namespace: NSZE 0, NUSE 16, NSFEAT 24, NLBAF 25, FLBAS 26,
DLFEAT 33, NPWG 64 … NOWS 72, LBAF from 128).
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._common.text import escape_unprintable
from ansible_collections.plumbline.ssd.plugins.module_utils._model.drive_health import Health


def parse_id_ns(raw: bytes) -> Dict[str, Any]:
    """Read Identify Namespace (4,096 bytes). The counts NPWG … NOWS stay zero-based, as the drive gives them."""
    nsfeat, nlbaf, flbas = raw[24], raw[25], raw[26]
    in_use = (flbas & 0xF) | ((flbas >> 5) & 0x3) << 4
    formats: List[Dict[str, Any]] = []
    for number in range(min(nlbaf + 1, 64)):
        metadata, shift, performance = struct.unpack_from("<HBB", raw, 128 + 4 * number)
        formats.append({"ms": metadata, "ds": shift, "rp": performance & 0x3, "in_use": number == in_use})
    nsze, nuse = (struct.unpack_from("<Q", raw, at)[0] for at in (0, 16))
    fields: Dict[str, Any] = {"nsze": nsze, "nuse": nuse, "nsfeat": nsfeat, "dlfeat": raw[33], "lbafs": formats}
    for name, at in (("npwg", 64), ("npwa", 66), ("npdg", 68), ("npda", 70), ("nows", 72)):
        fields[name] = struct.unpack_from("<H", raw, at)[0]
    return fields


def parse_id_ctrl(raw: bytes) -> Dict[str, Any]:
    """Read Identify Controller (4,096 bytes): what the collection needs of it."""
    return {
        "serial": raw[4:24].decode("ascii", "replace").strip(),
        "model": raw[24:64].decode("ascii", "replace").strip(),
        "firmware": raw[64:72].decode("ascii", "replace").strip(),
        "cntlid": struct.unpack_from("<H", raw, 78)[0],
        "vwc": raw[525],
        "oncs": struct.unpack_from("<H", raw, 520)[0],
    }


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


def parse_health(controller: bytes, log: bytes) -> Health:
    """Identify Controller and log page 02h → Health. A temperature of 0 K, and a threshold of 0, are none."""
    who = parse_id_ctrl(controller)
    limit = struct.unpack_from("<H", controller, 266)[0]
    warning, kelvin, spare, threshold, used = struct.unpack_from("<BHBBB", log)
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
        spare=spare if spare <= 100 else None,
        spare_threshold=threshold if threshold <= 100 else None,
        used=used,
        used_source="health log",
        temperature=kelvin - _KELVIN if kelvin else None,
        temperature_limit=limit - _KELVIN if limit else None,
        counters=counters,
    )


def better_format(lbafs: Optional[Sequence[Mapping[str, Any]]]) -> Optional[int]:
    """The LBA format that the drive calls better than the one in use (lower RP, no metadata), or None."""
    in_use = next((one for one in lbafs or () if one.get("in_use")), None)
    if in_use is None:
        return None
    best, best_rp = None, in_use["rp"]
    for number, one in enumerate(lbafs or ()):
        if one["ds"] >= 9 and not one["ms"] and one["rp"] < best_rp:  # LBADS 0: the format is not there
            best, best_rp = number, one["rp"]
    return best


def deallocated_reads_ones(dlfeat: int) -> bool:
    """Whether the drive says that deallocated blocks read as 0xFF (DLFEAT bits 2:0 = 2)."""
    return dlfeat & 0x7 == 2
