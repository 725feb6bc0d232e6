# SPDX-License-Identifier: GPL-3.0-or-later
"""What single roles built, as the system's own tools see it."""

from proofs import MIB, CacheOff, StripedLegs, StripedVolume, reading

__all__ = ["reading"]

SERIALS = ("PLUMBSHOP1", "PLUMBSHOP2")


class TestLegs(StripedLegs):
    stack = "shop"
    sizes = dict.fromkeys(SERIALS, 2048 * MIB)
    reserves = dict.fromkeys(SERIALS, 214748365)
    lengths = dict.fromkeys(SERIALS, 1842 * MIB)
    extents = 460


class TestCache(CacheOff):
    sizes = TestLegs.sizes
    ask = "nvme get-feature {0} --namespace-id=0xffffffff --feature-id=6 | grep -c ':0*x*0*1$' || true"


class TestData(StripedVolume):
    vg = "shop"
    lv = "data"
    size = 2 * 230 * 4 * MIB
    stripe = 64 * 1024
    starts = dict.fromkeys(SERIALS, 2 * MIB)
    label = "shop-data"
    mount = "/srv/consumer/data"
    stride = 16
    width = 32
