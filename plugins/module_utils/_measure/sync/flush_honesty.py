# SPDX-License-Identifier: GPL-3.0-or-later
"""What a drive's speed with its write cache on and off suggests about its flushes. Pure.

Two times are compared. *Programming*: what a write takes longer without the cache, which is what the flash takes. *Flushing*: what
fdatasync takes longer than the same write without a flush. An honest flush programs, so it takes about as long. One that is ignored
takes a command's way to the drive and back. All of this is about time: it suggests. That a drive lies is proven only by data that it loses.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

HONEST = "honest"
IGNORES = "ignores_flushes_perhaps"
PROTECTED = "protected_perhaps"
UNCLEAR = "unclear"

# What switching the cache off adds to a write, in microseconds. Programming a page takes 200 us in the quickest flash (one bit a cell)
# and a millisecond or two in the densest: below the half of that nothing was programmed. A share of the way to the drive and back is
# allowed for as well, since no two measurements are alike; where that way is long, a longer time has to be added before it counts.
QUICK_US = 100.0
SLOW_US = 200.0
QUICK_SHARE = 0.25
SLOW_SHARE = 0.5
# A way as long as this hides the flash behind it: a network, a host bus adapter's own queue.
WAY_US = 2000.0
# The least that a flush takes which works, beside its way: one programming, where a write without the cache may take two (the data, and the
# map or the rest of a page). Where the cache is emptied into cells of one bit, it takes SLOW_US, or a fiftieth of that write: cells of four
# bits take some ten times as long to program, a page of them may be programmed in three passes, and again there are two programmings.
PROGRAMMINGS = 2.0
ONE_BIT = 50.0
# The way of a flush, as a share of a write's: it carries no data, so at least a fifth of it (0.21 was measured on an emulated drive that
# ignores flushes). One that is needless takes at most all of it, and half as much again for the kernel (0.84 was measured).
FLUSH_SHARE = 0.2
NEEDLESS_SHARE = 1.5
# Operations below which a mean is no mean.
LEAST_OPS = 5
# The standard error of a mean is taken to be at least this share of it, since rows are measured one after the other; and this share
# where it is not known. Limits lie SIGMAS of them away: over seeded drives with noise of 10 %, none is then put into the opposite class.
LEAST_ERROR = 0.03
UNKNOWN_ERROR = 0.1
SIGMAS = 3.3


class Time(NamedTuple):
    """How long one operation of a row takes, in microseconds: the mean, and its standard error (None: not known)."""

    mean: float
    error: Optional[float] = None


class Times(NamedTuple):
    """Writes of 8 KiB, one after the other; None where they could not be measured."""

    fdatasync_on: Optional[Time]  # through the page cache, and fdatasync
    written_on: Optional[Time]  # the same without the flush: through the page cache, and sync_file_range
    direct_on: Optional[Time]  # past the page cache, into the drive's
    direct_off: Optional[Time]  # without the drive's cache: onto the flash


class TimeSpan(NamedTuple):
    """A time in microseconds, and the limits between which it lies."""

    value: float
    low: float
    high: float

    def as_list(self) -> List[float]:
        return [round(value, 1) for value in self]


class Honesty(NamedTuple):
    """The class, the figures that led to it, and what it means."""

    kind: str
    text: str
    ratio: Optional[float] = None  # programming by flushing; None where no flush can be told from none
    flushing: Optional[TimeSpan] = None
    programming: Optional[TimeSpan] = None

    def as_dict(self) -> Dict[str, Any]:
        return {
            "class": self.kind,
            "text": self.text,
            "ratio": None if self.ratio is None else round(self.ratio, 2),
            "flush_us": self.flushing.as_list() if self.flushing else None,
            "program_us": self.programming.as_list() if self.programming else None,
        }


def judge_flushes(times: Times, protected: Optional[bool] = None) -> Honesty:
    """The class of a drive. *protected*: what the drive itself says of power-loss protection."""
    fdatasync, written, direct, uncached = times
    if not (fdatasync and written and direct and uncached):
        return Honesty(UNCLEAR, "too little could be measured to compare flushes with programming")
    way = _longer(direct, Time(0.0, 0.0))
    flushing, programming = _longer(fdatasync, written), _longer(uncached, direct)
    ratio = programming.value / flushing.value if flushing.low > 0 else None
    figures = "a write takes %s us to the drive and back, without its cache %s us longer (%s to %s), and a flush %s us (%s to %s)" % (
        *map(_number, (way.value, *programming, *flushing)),
    )
    kind, means = _class(way, programming, flushing)
    if protected and kind != HONEST:
        means += "; the drive says that it has power-loss protection"
    return Honesty(kind, "%s: %s" % (figures, means), ratio, flushing, programming)


def _longer(first: Time, other: Time) -> TimeSpan:
    """How much longer the first takes than the other."""
    value = first.mean - other.mean
    half = SIGMAS * math.hypot(_error(first), _error(other))
    return TimeSpan(value, value - half, value + half)


def _error(time: Time) -> float:
    return time.mean * UNKNOWN_ERROR if time.error is None else max(time.error, time.mean * LEAST_ERROR)


def _class(way: TimeSpan, programming: TimeSpan, flushing: TimeSpan) -> Tuple[str, str]:
    """Class and meaning."""
    if way.value > WAY_US:
        return UNCLEAR, "behind a way that long the flash cannot be seen"
    needless = NEEDLESS_SHARE * way.high
    if programming.high <= max(QUICK_US, QUICK_SHARE * way.value):
        if flushing.low > max(SLOW_US, needless):
            return UNCLEAR, "switching the cache off slows no writes, but flushes take time: the setting may be without effect, and then nothing can be told"
        return PROTECTED, (
            "fast with the cache and without. Capacitors make a drive so; a drive that takes the setting, keeps its cache and ignores "
            "flushes looks the same, and only lost data could tell: look for power-loss protection in its data sheet"
        )
    if programming.low < max(SLOW_US, SLOW_SHARE * way.value):
        return UNCLEAR, "what the missing cache adds is neither surely programming nor surely none"
    if flushing.low > needless + QUICK_US:
        return HONEST, "a flush takes longer than one that is needless could, so it seems to wait for the flash; only lost data could prove the contrary"
    least = min(programming.low / PROGRAMMINGS, max(programming.low / ONE_BIT, SLOW_US))
    if flushing.high < FLUSH_SHARE * way.low + least:
        return IGNORES, (
            "a flush is too quick to program anything, so it does not wait for the flash. A drive that ignores flushes does so, and loses "
            "acknowledged data when the power goes; one whose capacitors protect a cache that is on does so rightly. Unless the data sheet "
            "promises power-loss protection, switch the cache off; only lost data could prove that it lies"
        )
    return UNCLEAR, "a flush is too quick to wait for the flash surely, and too slow to ignore it surely; measure for longer, or when the host is quieter"


def _number(value: float) -> str:
    return "%.0f" % value if value >= 100 else "%.2g" % value if value < 10 else "%.1f" % value


class State(NamedTuple):
    """A row in one of the two states: operations, operations per second, and the standard error of that."""

    ops: int
    rate: float
    error: Optional[float] = None


def time_of(states: Mapping[str, State], row: str) -> Optional[Time]:
    """A time that can be compared; None where there is none, or where it stands on too little."""
    state = states.get(row)
    if not state or state.ops < LEAST_OPS or state.rate <= 0:
        return None
    return Time(1e6 / state.rate, None if state.error is None else 1e6 / state.rate * state.error / state.rate)


def collapse(on: Mapping[str, State], off: Mapping[str, State]) -> Dict[str, Optional[float]]:
    """By row, how many times slower it is without the cache; None where it could not be measured."""
    factors: Dict[str, Optional[float]] = {}
    for row in on:
        with_cache = on[row].rate
        without = off[row].rate if row in off else 0.0
        factors[row] = round(with_cache / without, 2) if with_cache and without else None
    return factors


def report_flushes(rows: Sequence[str], on: Mapping[str, State], off: Mapping[str, State], honesty: Honesty) -> List[str]:
    """The two states side by side, for these rows."""
    lines = ["The same with the drives' write cache on and off, in ops/sec:", "%38s%13s%13s%10s" % ("", "on", "off", "factor")]
    factors = collapse(on, off)
    for row in rows:
        rates = ["%13.1f" % states[row].rate if row in states and states[row].rate else "%13s" % "n/a" for states in (on, off)]
        factor = factors.get(row)
        lines.append("        %-30s%s%10s" % (row, "".join(rates), "-" if factor is None else "%.1f" % factor))
    return lines + ["flushes: %s: %s" % (honesty.kind, honesty.text)]
