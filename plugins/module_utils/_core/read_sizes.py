# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and shares as people write them."""

from __future__ import annotations

import re
from typing import Union

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import GIB, KIB, MIB, TIB

# Units that people write and nobody should need.
_OTHER_UNITS = ("PiB", "EiB")
_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB, "TiB": TIB}
_SIZE = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)$")
_WRITTEN = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(TB|PB)")
_PERCENT = re.compile(r"^([0-9]+(?:\.[0-9]+)?)\s*%$")

# Longest number that a size may have: 2^63 bytes is the largest device that Linux can address.
_MAX_BYTES = 1 << 63


def parse_size(text: Union[str, int], where: str, share: bool = False) -> int:
    """Read a size such as ``64KiB`` or ``1.5 TiB`` and return bytes. *share*: a percentage would be taken there as well, which the error says.

    Only binary units are taken, because ``GB`` means 10^9 to a drive and 2^30 to LVM. *where* names
    the option in the error. Raises PlumblineError for anything that is not a whole number of bytes.
    """
    match = _SIZE.match(str(text).strip()) if not isinstance(text, bool) else None
    if not match or len(str(text)) > 32:
        raise PlumblineError("%s: '%s' is not a size; write a number with one of %s, for example 64KiB" % (where, text, ", ".join(_UNITS)))
    number, unit = match.groups()
    if unit not in _UNITS and not (not unit and float(number) == 0):
        unit_meant = _closest_unit(unit)
        hint = " (did you mean '%s%s'?)" % (number, unit_meant) if unit_meant else ""
        if share and not unit and 0 < float(number) <= 100:
            hint = ", or %% (did you mean '%s%%'?)" % number
        elif unit in _OTHER_UNITS:
            hint = "; %s%s are %s TiB" % (number, unit, "%g" % (float(number) * 1024 ** (1 + _OTHER_UNITS.index(unit))))
        has = "the unit '%s'" % unit if unit else "no unit"
        raise PlumblineError("%s: '%s' has %s; wanted one of %s%s" % (where, text, has, ", ".join(_UNITS), hint))
    whole, _dot, fraction = number.partition(".")
    scale = int(10 ** len(fraction))
    numerator = int(whole + fraction) * _UNITS.get(unit, 1)
    if numerator % scale:
        raise PlumblineError("%s: '%s' is not a whole number of bytes" % (where, text))
    if numerator // scale >= _MAX_BYTES:
        raise PlumblineError("%s: '%s' is larger than any device can be (8 EiB)" % (where, text))
    return numerator // scale


def parse_written(text: object, where: str) -> int:
    """Read what a drive is rated for, such as ``1.2PB``, as data sheets say it: in decimal units, which name no size on a device here. Returns bytes."""
    match = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) and len(text) <= 32 else None
    number = int(float(match.group(1)) * {"TB": 10**12, "PB": 10**15}[match.group(2)]) if match else 0
    if not 0 < number < 10**21:
        raise PlumblineError("%s: '%s' does not fit; wanted the TBW of the data sheet, a number with TB or PB, for example 1.2PB" % (where, text))
    return number


def _closest_unit(unit: str) -> str:
    """``G``, ``GB``, ``gib`` → ``GiB``; empty where no unit comes near."""
    for known in ("KiB", "MiB", "GiB", "TiB"):
        if unit and unit[0].upper() == known[0] and unit.lower().rstrip("ib") in (known[0].lower(), ""):
            return known
    return ""


def parse_share(text: Union[str, int], where: str) -> float:
    """Read a percentage such as ``70%`` and return it as a number of percent, 0 < p <= 100."""
    match = _PERCENT.match(str(text).strip())
    if not match:
        raise PlumblineError("%s: '%s' is not a percentage; write for example 70%%" % (where, text))
    share = float(match.group(1))
    if not 0 < share <= 100:
        raise PlumblineError("%s: '%s' is out of range; wanted more than 0%% and at most 100%%" % (where, text))
    return share


def is_percent(text: Union[str, int]) -> bool:
    """True where *text* is written as a percentage, valid or not."""
    return str(text).strip().endswith("%")
