# SPDX-License-Identifier: GPL-3.0-or-later
"""Five legs on loop devices, as the system's own tools see them."""

from proofs import MIB, StripedLegs, StripedVolume, reading

__all__ = ["reading"]

FILES = tuple(f"/var/tmp/plumbline-leg{number}" for number in range(5))


class TestLegs(StripedLegs):
    stack = "loops"
    sizes = dict.fromkeys(FILES, 256 * MIB)
    reserves = dict.fromkeys(FILES, 26843546)
    lengths = dict.fromkeys(FILES, 229 * MIB)
    extents = 57


class TestData(StripedVolume):
    vg = "loops"
    lv = "data"
    size = 5 * 57 * 4 * MIB
    stripe = 64 * 1024
    starts = dict.fromkeys(FILES, 2 * MIB)
    label = "loops-data"
    mount = "/srv/loop/data"
    stride = 16
    width = 80
