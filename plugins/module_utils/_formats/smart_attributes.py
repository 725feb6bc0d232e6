# SPDX-License-Identifier: GPL-3.0-or-later
"""What the vendors' ATA attributes mean, by model and number. Pure.

One number means different things: 177 is wear on a Samsung and the spread of erases on a Seagate; 233 is the life left on an Intel and
bytes to the flash on a WD. What no row says stays unknown. The meanings are those of smartmontools' drivedb.h and of the vendors' notes.
"""

from __future__ import annotations

import re
from typing import Dict, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._model.drive_health import Attribute

_GIB, _MIB32 = 1 << 30, 32 << 20


class Meaning(NamedTuple):
    """*what* is one of: left (percent, used = 100 - it), used (percent), spare (percent left), or the name of a counter.

    *of*: ``value`` (normalised) or ``raw``; *unit*: what a raw count is multiplied by.
    """

    what: str
    of: str = "value"
    unit: int = 1


_LEFT = Meaning("left")
_SPARE = Meaning("spare")
_HOST_SECTORS = Meaning("host_bytes_written", "raw", 512)
_HOST_32MIB = Meaning("host_bytes_written", "raw", _MIB32)
_HOST_GIB = Meaning("host_bytes_written", "raw", _GIB)
_FLASH_GB = Meaning("flash_bytes_written", "raw", 10**9)
_FLASH_32MIB = Meaning("flash_bytes_written", "raw", _MIB32)
_ERASES = Meaning("mean_erases", "raw")
_UNSAFE = Meaning("unsafe_shutdowns", "raw")

# The first pattern that fits the model counts. SK hynix has no row: 177 is wear, spread or "limit met", and 241 GB or NAND GiB, by model.
# Nor has Lenovo's Intel, where 177 is spread and 231 PHY errors.
VENDORS: Tuple[Tuple[str, Dict[int, Meaning]], ...] = (
    (r"SAMSUNG .*|Samsung .*|MZ[0-9A-Z].*", {177: _LEFT, 241: _HOST_SECTORS}),
    (r"M4-CT.*|C400-MTFD.*", {202: Meaning("used", "raw"), 173: _ERASES}),
    (
        r"Micron[_ ].*|MTFD.*|Crucial[_ ].*|CT[0-9]+[A-Z]+[0-9]+.*",
        {202: _LEFT, 246: _HOST_SECTORS, 173: _ERASES, 247: Meaning("host_pages", "raw"), 248: Meaning("background_pages", "raw")},
    ),
    (
        r"WDC +WDS.*|WD +(Blue|Green|Red) .*|SanDisk.*",
        {230: Meaning("used", "raw"), 232: _SPARE, 233: _FLASH_GB, 241: _HOST_GIB, 173: _ERASES},
    ),
    (r"INTEL SSD.*", {233: _LEFT, 232: _SPARE, 225: _HOST_32MIB, 241: _HOST_32MIB, 174: _UNSAFE}),
    # Dell's own part names of Intel drives end in R, and in R and a generation.
    (r"SSDS[A-Z0-9]+[0-9]G[0-9]?R", {245: Meaning("left", "raw"), 225: _HOST_32MIB, 241: _HOST_32MIB, 174: _UNSAFE}),
    (r"KINGSTON S(A400|V300|UV|KC|EDC|E100).*", {231: _LEFT, 241: _HOST_GIB}),
    (r"(XA|ZA)[0-9]+[A-Z]+[0-9]+.*|ST[0-9]+F[MNP][0-9]+.*", {231: _LEFT}),
    (r"(ADATA )?SU[0-9]+.*|TS[0-9]+G(SSD|MTS|MSA).*", {169: _LEFT, 241: _HOST_32MIB}),
    (r"(?i)innodisk.*", {169: _LEFT, 233: _FLASH_32MIB, 241: _HOST_32MIB}),
)


class Wear(NamedTuple):
    """What the vendor's attributes say: percent used and spare left, from which attribute, and counters."""

    used: Optional[int]
    used_source: str
    spare: Optional[int]
    counters: Dict[str, int]


def wear_of(model: str, attributes: Sequence[Attribute]) -> Wear:
    """Look the attributes of a model up. A percentage that is none says nothing."""
    meanings = next((known for pattern, known in VENDORS if re.fullmatch(pattern, model)), {})
    used: Optional[int] = None
    spare: Optional[int] = None
    source = ""
    counters: Dict[str, int] = {}
    for one in attributes:
        meaning = meanings.get(one.id)
        found = None if meaning is None else one.raw if meaning.of == "raw" else one.value
        if meaning is None or found is None:
            continue
        if meaning.what in ("left", "used", "spare"):
            if found > (255 if meaning.what == "used" else 100):
                continue
            if meaning.what == "spare":
                spare = found
            elif used is None:
                used, source = (found if meaning.what == "used" else 100 - found), "attribute %d" % one.id
        else:
            counters[meaning.what] = found * meaning.unit
    return Wear(used, source, spare, counters)
