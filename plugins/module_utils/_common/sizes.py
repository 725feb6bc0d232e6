# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as people write them and as the code keeps them: bytes, as ints."""

from __future__ import annotations

import re
from typing import Union

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40

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
    found = _SIZE.match(str(text).strip()) if not isinstance(text, bool) else None
    if not found or len(str(text)) > 32:
        raise PlumblineError("%s: '%s' is not a size; write a number with one of %s, for example 64KiB" % (where, text, ", ".join(_UNITS)))
    number, unit = found.groups()
    if unit not in _UNITS and not (not unit and float(number) == 0):
        wanted = _closest_unit(unit)
        hint = " (did you mean '%s%s'?)" % (number, wanted) if wanted else ""
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
    found = _WRITTEN.fullmatch(text.strip()) if isinstance(text, str) and len(text) <= 32 else None
    number = int(float(found.group(1)) * {"TB": 10**12, "PB": 10**15}[found.group(2)]) if found else 0
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
    found = _PERCENT.match(str(text).strip())
    if not found:
        raise PlumblineError("%s: '%s' is not a percentage; write for example 70%%" % (where, text))
    share = float(found.group(1))
    if not 0 < share <= 100:
        raise PlumblineError("%s: '%s' is out of range; wanted more than 0%% and at most 100%%" % (where, text))
    return share


def is_percent(text: Union[str, int]) -> bool:
    """True where *text* is written as a percentage, valid or not."""
    return str(text).strip().endswith("%")


def is_power_of_two(number: int) -> bool:
    """True for 1, 2, 4, 8 …"""
    return number > 0 and number & (number - 1) == 0


def gcd(first: int, second: int) -> int:
    """Greatest common divisor of two non-negative ints."""
    while second:
        first, second = second, first % second
    return first


def lcm(first: int, second: int) -> int:
    """Least common multiple of two positive ints."""
    return first // gcd(first, second) * second


def round_up(number: int, unit: int) -> int:
    """The first multiple of *unit* that is not below *number*."""
    return -(-number // unit) * unit


def round_down(number: int, unit: int) -> int:
    """The last multiple of *unit* that is not above *number*."""
    return number // unit * unit


def human(number: int) -> str:
    """Bytes for people: exact (``64 KiB``, ``3584 B``) where a unit divides, else two digits (``7.45 GiB``)."""
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if unit <= number < 4096 * unit and number % unit == 0:
            return "%d %s" % (number // unit, name)
    for unit, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB")):
        if number >= unit:
            return "%.2f %s" % (number / unit, name)
    return "%d B" % number
