# SPDX-License-Identifier: GPL-3.0-or-later
"""What two runs built, of which the first was cut short: the very stack that one would have built."""

from proofs import MIB, StripedLegs, StripedVolume, reading

__all__ = ["reading"]

SERIALS = ("PLUMBINT1", "PLUMBINT2")


class TestLegs(StripedLegs):
    stack = "cut"
    sizes = dict.fromkeys(SERIALS, 1024 * MIB)
    reserves = dict.fromkeys(SERIALS, 107374183)
    lengths = dict.fromkeys(SERIALS, 920 * MIB)
    extents = 229


class TestData(StripedVolume):
    vg = "cut"
    lv = "data"
    size = 2 * 229 * 4 * MIB
    stripe = 64 * 1024
    starts = dict.fromkeys(SERIALS, 2 * MIB)
    label = "cut-data"
    mount = "/srv/interrupted/data"
    stride = 16
    width = 32
