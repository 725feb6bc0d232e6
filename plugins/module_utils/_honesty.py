# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What a drive's speed with its write cache on and off suggests about its flushes. Pure.

Without its cache a drive acknowledges a write when it is on the flash. With the cache a flush has to bring about the same, and
so cannot be much quicker, unless capacitors make it needless, or nobody waits for the flash at all. All of this is about time:
it suggests. That a drive lies is proven only by data that it loses.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

HONEST = "honest"
IGNORES = "ignores_flushes_perhaps"
PROTECTED = "protected_perhaps"
UNCLEAR = "unclear"

# The ratio up to which a flush waits for the flash like a write without the cache, and from which on it does not. An honest drive
# was measured at 1, one that ignores flushes at 9, the consumer drive of 2015 at 26. An honest one has to program at least once for a
# flush, and without its cache at most twice for a write (the data, and the map or the rest of a page): so up to 2. Twice that is far
# enough from it; between the two lies no answer.
RATIO_HONEST = 2.0
RATIO_IGNORES = 4.0
# What switching the cache off adds to a write, in microseconds. Programming a page takes 200 us in the quickest flash (one bit a cell)
# and a millisecond or two in the densest: below the half of that nothing was programmed. A share of the way to the drive and back is
# allowed for as well, since no two measurements are alike; where that way is long, a longer time has to be added before it counts.
QUICK_US = 100.0
SLOW_US = 200.0
QUICK_SHARE = 0.25
SLOW_SHARE = 0.5
# A way as long as this hides the flash behind it: a network, a host bus adapter's own queue.
WAY_US = 2000.0
# What a flush may add to a write where it is needless: another way to the drive and back, and as much again for the kernel.
NEEDLESS_SHARE = 2.0
# Operations below which a rate is no rate.
LEAST_OPS = 5


class Rates(NamedTuple):
    """Operations per second, of 8 KiB each, one after the other; None where they could not be measured."""

    fdatasync_on: Optional[float]  # through the page cache
    datasync_on: Optional[float]  # past it, a flush behind each (O_DSYNC)
    direct_on: Optional[float]  # past it, and no flush: into the cache
    direct_off: Optional[float]  # without the cache: onto the flash


class Honesty(NamedTuple):
    """The class, the ratio that led to it, and what it means."""

    ratio: Optional[float]
    kind: str
    text: str

    def as_dict(self) -> Dict[str, Any]:
        return {"ratio": None if self.ratio is None else round(self.ratio, 2), "class": self.kind, "text": self.text}


def judge(rates: Rates, protected: Optional[bool] = None) -> Honesty:
    """The class of a drive. *protected*: what the drive itself says of power-loss protection."""
    known = (rates.fdatasync_on, rates.datasync_on, rates.direct_on, rates.direct_off)
    if not all(known):
        return Honesty(None, UNCLEAR, "too little could be measured to compare flushes with programming")
    fdatasync, datasync, direct, uncached = (rate or 0.0 for rate in known)
    ratio = fdatasync / uncached
    way = 1e6 / direct
    programming = 1e6 / uncached - way
    flushing = 1e6 / datasync - way
    figures = "fdatasync with the cache %s/s, direct writes with it %s/s and without %s/s, ratio %s" % tuple(
        _number(value) for value in (fdatasync, direct, uncached, ratio)
    )
    kind, means = _class(ratio, way, programming, flushing)
    if protected and kind != HONEST:
        means += "; the drive says that it has power-loss protection"
    return Honesty(ratio, kind, "%s: %s" % (figures, means))


def _class(ratio: float, way: float, programming: float, flushing: float) -> Tuple[str, str]:
    """Class and meaning. *way*, *programming*, *flushing*: microseconds of a write, and what the missing cache and a flush add to it."""
    if way > WAY_US:
        return UNCLEAR, "a write takes %s us to the drive and back, behind which the flash cannot be seen" % _number(way)
    if programming <= max(QUICK_US, QUICK_SHARE * way):
        if flushing > max(SLOW_US, NEEDLESS_SHARE * way):
            return UNCLEAR, (
                "switching the cache off does not slow writes, and yet a flush costs %s us: the setting may be without effect, and then "
                "nothing can be told" % _number(flushing)
            )
        return PROTECTED, (
            "fast with the cache and without. Capacitors make a drive so; a drive that takes the setting, keeps its cache and ignores "
            "flushes looks the same, and only lost data could tell: look for power-loss protection in its data sheet"
        )
    if programming < max(SLOW_US, SLOW_SHARE * way):
        return UNCLEAR, "without the cache a write takes %s us longer, which is neither surely programming nor surely none" % _number(programming)
    if ratio <= RATIO_HONEST:
        return HONEST, "a flush takes about as long as programming does, so it seems to wait for the flash; only lost data could prove the contrary"
    if ratio >= RATIO_IGNORES:
        return IGNORES, (
            "a flush is %s times as quick as programming, so it does not wait for the flash. A drive that ignores flushes does so, and loses "
            "acknowledged data when the power goes; one whose capacitors protect a cache that is on does so rightly. Unless the data sheet "
            "promises power-loss protection, switch the cache off; only lost data could prove that it lies" % _number(ratio)
        )
    return UNCLEAR, "a flush is %s times as quick as programming: too quick to wait for it surely, too slow to ignore it surely" % _number(ratio)


def _number(value: float) -> str:
    return "%.0f" % value if value >= 100 else "%.2g" % value if value < 10 else "%.1f" % value


class State(NamedTuple):
    """A row in one of the two states: operations, and operations per second."""

    ops: int
    rate: float


def rate_of(states: Mapping[str, State], row: str) -> Optional[float]:
    """A rate that can be compared; None where there is none, or where it stands on too little."""
    found = states.get(row)
    return found.rate if found and found.ops >= LEAST_OPS and found.rate > 0 else None


def collapse(on: Mapping[str, State], off: Mapping[str, State]) -> Dict[str, Optional[float]]:
    """By row, how many times slower it is without the cache; None where it could not be measured."""
    factors: Dict[str, Optional[float]] = {}
    for row in on:
        with_cache = on[row].rate
        without = off[row].rate if row in off else 0.0
        factors[row] = round(with_cache / without, 2) if with_cache and without else None
    return factors


def report(rows: Sequence[str], on: Mapping[str, State], off: Mapping[str, State], found: Honesty) -> List[str]:
    """The two states side by side, for these rows."""
    lines = ["The same with the drives' write cache on and off, in ops/sec:", "%38s%13s%13s%10s" % ("", "on", "off", "factor")]
    factors = collapse(on, off)
    for row in rows:
        rates = ["%13.1f" % states[row].rate if row in states and states[row].rate else "%13s" % "n/a" for states in (on, off)]
        factor = factors.get(row)
        lines.append("        %-30s%s%10s" % (row, "".join(rates), "-" if factor is None else "%.1f" % factor))
    return lines + ["flushes: %s: %s" % (found.kind, found.text)]
