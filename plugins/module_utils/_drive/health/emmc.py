# SPDX-License-Identifier: GPL-3.0-or-later
"""The health registers of an eMMC as sysfs shows them. Pure.

Source: JESD84-B51 7.4.32 to 7.4.34 (PRE_EOL_INFO; DEVICE_LIFE_TIME_EST_TYP_A and _B: n is at most n × 10 % of the rated life, 0Bh past it);
Linux Documentation/driver-api/mmc/mmc-dev-attrs.rst.
"""

from __future__ import annotations

import re
from typing import Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health

_BYTE = re.compile(r"(?:0x)?[0-9a-fA-F]{1,2}")


def parse_emmc(files: Mapping[str, str]) -> Health:
    """*files*: the texts of ``name``, ``serial``, ``fwrev``, ``cid``, ``life_time`` and ``pre_eol_info``; one that is not there is empty."""
    words = files.get("life_time", "").split()
    life = tuple(int(word, 16) for word in words if _BYTE.fullmatch(word))
    pre_eol = files.get("pre_eol_info", "")
    known = len(life) == 2 == len(words) and _BYTE.fullmatch(pre_eol)
    return Health(
        fault="" if known else "the kernel shows no life_time and pre_eol_info of it",
        source="sysfs",
        protocol="eMMC",
        model=escape_unprintable(files.get("name", "")),
        serial=escape_unprintable(files.get("cid", "") or files.get("serial", "")),
        firmware=escape_unprintable(files.get("fwrev", "")),
        life=life if known else (),
        pre_eol=int(pre_eol, 16) if known else 0,
    )
