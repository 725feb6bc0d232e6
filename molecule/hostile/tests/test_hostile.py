# SPDX-License-Identifier: GPL-3.0-or-later
"""An ordinary stack, beside a disk that calls itself names."""

from proofs import MIB, StripedLegs, StripedVolume, reading

__all__ = ["reading"]

SERIALS = ("PLUMBHOST1", "PLUMBHOST2")


class TestLegs(StripedLegs):
    stack = "good"
    sizes = dict.fromkeys(SERIALS, 1024 * MIB)
    reserves = dict.fromkeys(SERIALS, 107374183)
    lengths = dict.fromkeys(SERIALS, 920 * MIB)
    extents = 229


class TestData(StripedVolume):
    vg = "good"
    lv = "data"
    size = 2 * 229 * 4 * MIB
    stripe = 64 * 1024
    starts = dict.fromkeys(SERIALS, 2 * MIB)
    label = "good-data"
    mount = "/srv/hostile/data"
    stride = 16
    width = 32
