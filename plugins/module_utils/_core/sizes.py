# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes as the code keeps them: bytes, as ints."""

from __future__ import annotations

import math

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
TIB = 1 << 40


def is_power_of_two(number: int) -> bool:
    """True for 1, 2, 4, 8 …"""
    return number > 0 and number & (number - 1) == 0


def lcm(first: int, second: int) -> int:
    """Least common multiple of two positive ints."""
    return first // math.gcd(first, second) * second


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
