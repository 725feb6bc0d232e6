# SPDX-License-Identifier: GPL-3.0-or-later
"""What the third run built, when the disk that had failed the two before was well again."""

from proofs import MIB, StripedLegs, StripedVolume, reading

__all__ = ["reading"]

SERIALS = ("PLUMBFLT1", "PLUMBFLT2")


class TestLegs(StripedLegs):
    stack = "ill"
    sizes = dict.fromkeys(SERIALS, 1024 * MIB)
    reserves = dict.fromkeys(SERIALS, 107374183)
    lengths = dict.fromkeys(SERIALS, 920 * MIB)
    extents = 229


class TestData(StripedVolume):
    vg = "ill"
    lv = "data"
    size = 2 * 229 * 4 * MIB
    stripe = 64 * 1024
    starts = dict.fromkeys(SERIALS, 2 * MIB)
    label = "ill-data"
    mount = "/srv/faults/data"
    stride = 16
    width = 32
