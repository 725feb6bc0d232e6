# SPDX-License-Identifier: GPL-3.0-or-later
"""Axes of plots: where a value lies, which values are written beside it, and what fits there. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import number, words

CHARACTER = 6.6  # pixels of a character at 12 px, for what has to fit
_LEAST = 1e-280  # nearer to 0, half of a number is 0
# Steps of a time axis in seconds, up to a week; days beyond it are counted like any number.
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800)


class Scale(NamedTuple):
    """What an axis measures. *low*, *high*: where it begins and ends, else where the data does. *log*: values up to 0 have no place on it."""

    label: str
    unit: str = ""
    log: bool = False
    low: float | None = None
    high: float | None = None

    @property
    def title(self) -> str:
        return f"{self.label} ({self.unit})" if self.unit else self.label


class Axis(NamedTuple):
    """A scale that has been fitted: from *low* at pixel *first* to *high* at pixel *last*, both ends finite and *low* < *high*."""

    scale: Scale
    low: float
    high: float
    first: float
    last: float

    def place(self, value: float) -> float:
        """The pixel of a value; the nearest end for one outside."""
        low, high = self.low, self.high
        if self.scale.log:
            low, high, value = math.log10(low), math.log10(high), math.log10(max(value, self.low))
        share = (value - low) / (high - low)
        return self.first + min(max(share, 0.0), 1.0) * (self.last - self.first)

    def ticks(self) -> list[tuple[float, str]]:
        """(value, its text), a readable number of them."""
        if self.scale.log:
            values = _log_ticks(self.low, self.high)
        elif self.scale.unit == "s" and self.high - self.low >= 60:
            return _time_ticks(self.low, self.high)
        else:
            values = _linear_ticks(self.low, self.high)
        return [(value, number(value, 6)) for value in values]


def fit(scale: Scale, values: Sequence[float], first: float, last: float) -> Axis:
    """An axis for finite values, wide enough that one value alone has a place in its middle."""
    shown = [value for value in values if value > _LEAST] if scale.log else values
    low = scale.low if scale.low is not None else min(shown, default=1.0 if scale.log else 0.0)
    high = scale.high if scale.high is not None else max(shown, default=10.0 if scale.log else 1.0)
    low, high = min(low, high), max(low, high)
    if scale.log:
        low = low if low > _LEAST else high / 1000 if high > 1000 * _LEAST else 1.0
        high = max(low, high)
        if high < low * 1.001:
            low, high = low / 2, low * 2
    elif high - low <= max(abs(low), abs(high)) * 1e-9 or high - low < 1e-290:
        room = max(abs(low) * 0.1, _LEAST) if low else 0.5
        low, high = low - room, high + room
    return Axis(scale, low, high, first, last)


def _linear_ticks(low: float, high: float) -> list[float]:
    raw = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * many for many in (1, 2, 5, 10) if power * many >= raw * 0.999999)
    return _multiples(low, high, step)


def _multiples(low: float, high: float, step: float) -> list[float]:
    begin, end = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Steps that are no sum of powers of two add up to 0.30000000000000004.
    return [float(f"{count * step:.12g}") for count in range(begin, end + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    begin, end = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((end - begin) / 8))
    many = (1, 2, 5) if end - begin <= 3 else (1,)
    values = [float(f"{digit}e{power}") for power in range(begin, end + 1, every) for digit in many]
    inside = [value for value in values if low * 0.999999 <= value <= high * 1.000001]
    return inside if len(inside) > 1 else [low, high]


def _time_ticks(low: float, high: float) -> list[tuple[float, str]]:
    step = next((seconds for seconds in _TIMES if (high - low) / seconds <= 7), 0)
    values = _multiples(low, high, step) if step else _linear_ticks(low, high)
    return [(value, duration(value)) for value in values]


def duration(seconds: float) -> str:
    """Seconds for people: ``45 s``, ``1:30 min``, ``2:05 h``, ``3 d``."""
    if abs(seconds) < 60:
        return f"{number(seconds)} s"
    sign, left = "−" if seconds < 0 else "", round(abs(seconds))
    if left < 3600:
        whole, rest, unit = left // 60, left % 60, "min"
    elif left < 172800:
        whole, rest, unit = left // 3600, left % 3600 // 60, "h"
    else:
        return f"{sign}{number(left / 86400)} d"
    return f"{sign}{whole}:{rest:02d} {unit}" if rest else f"{sign}{whole} {unit}"


def px(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def shortened(text: str, pixels: float) -> str:
    """As much of a text as fits."""
    fits, shown = max(1, int(pixels / CHARACTER)), words(text)
    return shown if len(shown) <= fits else shown[: fits - 1] + "…"
