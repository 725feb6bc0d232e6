# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe identify data, from the bytes of the command itself. Pure.

Source: NVM Express Base Specification 2.0 Figure 275 (Identify Controller: SN 4, MN 24, FR 64, CNTLID 78,
ONCS 520, VWC 525), 5.15 (Get Features: Select in dword 10; capabilities
in dword 0 of the answer: saveable bit 0, changeable bit 2), 5.27.1.4 (Volatile Write Cache, feature 06h: WCE is bit 0, scope is
the controller) and NVM Command Set Specification 1.0 Figure 97 (Identify Namespace: NSZE 0, NUSE 16, NSFEAT 24, NLBAF 25, FLBAS 26,
DLFEAT 33, NPWG 64 … NOWS 72, LBAF from 128).
"""

from __future__ import annotations

import struct
from typing import Any, Dict, List, Mapping, Optional, Sequence


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


def deallocated_reads_ones(id_ns: Mapping[str, Any]) -> bool:
    """Whether the drive says that deallocated blocks read as 0xFF (DLFEAT bits 2:0 = 2). *id_ns*: as of parse_id_ns(), empty where there is none."""
    return int(id_ns.get("dlfeat", 0)) & 0x7 == 2


def deallocated_reads_zeros(id_ns: Mapping[str, Any]) -> bool:
    """Whether the drive says that deallocated blocks read as zeros (DLFEAT bits 2:0 = 1)."""
    return int(id_ns.get("dlfeat", 0)) & 0x7 == 1
