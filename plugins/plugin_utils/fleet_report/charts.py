# SPDX-License-Identifier: GPL-3.0-or-later
"""Bars, a map of levels, and a line of text in the place of a plot. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Scale, fit
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.svg import picture, px, shortened, tag, text_at
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_number

_ROW = 24.0
_LABELS = 210.0  # pixels for the names of rows
_VALUES = 150.0  # pixels for the values behind the bars
_SPARKS = "▁▂▃▄▅▆▇█"


class Bar(NamedTuple):
    """One bar: its name, its value, what is written behind it, its level, and the interval in which the true value lies."""

    label: str
    value: object
    text: str
    level: str = "none"
    low: object = None
    high: object = None


def bar_chart(
    ident: str,
    title: str,
    description: str,
    bars: Sequence[Bar],
    scale: Scale,
    reference: tuple[float, str] | None = None,
    width: float = 760.0,
    style: str = "",
) -> str:
    """Bars that lie, one below the other; *reference*: a value that is drawn across them all, with its name."""
    known = [found for one in bars for found in map(as_number, (one.value, one.low, one.high)) if found is not None]
    known += [reference[0]] if reference else []
    axis = fit(scale if scale.log else scale._replace(low=min([0.0, *known])), known or [0.0, 1.0], _LABELS, width - _VALUES)
    top = 28.0
    bottom = top + _ROW * max(1, len(bars))
    drawn = [tag("path", d="".join(f"M{px(axis.place(value))} {px(top)}V{px(bottom)}" for value, _text in axis.ticks()), class_="grid")]
    drawn += [text_at(axis.place(value), bottom + 15, text, class_="tick", text_anchor="middle") for value, text in axis.ticks()]
    drawn.append(text_at((_LABELS + width - _VALUES) / 2, bottom + 32, scale.title, class_="label", text_anchor="middle"))
    for number, one in enumerate(bars):
        drawn += _bar(one, top + _ROW * number, axis.place, axis.place(axis.low if scale.log else 0.0))
    if reference:
        place = axis.place(reference[0])
        drawn.append(tag("path", d=f"M{px(place)} {px(top - 4)}V{px(bottom)}", class_="mark"))
        drawn.append(text_at(place, top - 9, reference[1], class_="key", text_anchor="middle"))
    if not bars:
        drawn.append(text_at(width / 2, top + 16, "no data", class_="none", text_anchor="middle"))
    return picture(ident, title, description, width, bottom + 40, drawn, style)


def _bar(one: Bar, top: float, place: Callable[[float], float], zero: float) -> list[str]:
    drawn = [text_at(_LABELS - 8, top + 16, shortened(one.label, _LABELS - 16), class_="key", text_anchor="end")]
    value, low, high = map(as_number, (one.value, one.low, one.high))
    end = zero
    if value is not None:
        left, right = sorted((zero, place(value)))
        end = right
        drawn.append(tag("rect", x=left, y=top + 4, width=max(right - left, 1.0), height=_ROW - 8, class_=f"bar {one.level}"))
    if low is not None and high is not None:
        first, last, middle = place(low), place(high), top + _ROW / 2
        drawn.append(tag("path", d=f"M{px(first)} {px(middle)}H{px(last)}M{px(first)} {px(middle - 5)}v10M{px(last)} {px(middle - 5)}v10", class_="whisker"))
        end = max(end, last)
    glyph = f"{GLYPHS[one.level]} " if one.level in GLYPHS and one.level != "none" else ""
    drawn.append(text_at(end + 6, top + 16, shortened(glyph + one.text, _VALUES + 60), class_="key"))
    return drawn


def stacked_bars(ident: str, title: str, description: str, rows: Sequence[tuple[str, Sequence[tuple[str, int]]]], width: float = 760.0, style: str = "") -> str:
    """For each row the share of each level, with glyph and number where there is room."""
    drawn = []
    left = 130.0
    room = width - left - 16
    for at, (label, counts) in enumerate(rows):
        total, top, begin = sum(count for _level, count in counts) or 1, 6 + _ROW * at, left
        drawn.append(text_at(left - 8, top + 16, shortened(label, left - 16), class_="key", text_anchor="end"))
        for level, count in counts:
            if not count:
                continue
            wide = room * count / total
            drawn.append(tag("rect", x=begin, y=top + 2, width=wide, height=_ROW - 4, class_=f"cell {level}"))
            text = f"{GLYPHS[level]} {count}"
            if wide > 8.0 * len(text):
                drawn.append(text_at(begin + wide / 2, top + 16, text, class_=f"glyph {level}", text_anchor="middle"))
            begin += wide
    return picture(ident, title, description, width, 12 + _ROW * max(1, len(rows)), drawn, style)


def heat_map(
    ident: str, title: str, description: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: float = 760.0, style: str = ""
) -> str:
    """A level for each row and column, told by a glyph as well as by its colour. The names of the columns stand above them."""
    wide = (width - _LABELS) / max(1, len(columns))
    drawn = [text_at(_LABELS + wide * (at + 0.5), 15, shortened(name, wide), class_="key", text_anchor="middle") for at, name in enumerate(columns)]
    for line, (label, levels) in enumerate(rows):
        top = 22 + _ROW * line
        drawn.append(text_at(_LABELS - 8, top + 16, shortened(label, _LABELS - 16), class_="key", text_anchor="end"))
        for at, level in enumerate(levels):
            left = _LABELS + wide * at
            drawn.append(tag("rect", x=left + 1, y=top + 1, width=wide - 2, height=_ROW - 2, class_=f"cell {level}"))
            drawn.append(text_at(left + wide / 2, top + 16, GLYPHS[level], class_=f"glyph {level}", text_anchor="middle"))
    if not rows:
        drawn.append(text_at(width / 2, 38, "no data", class_="none", text_anchor="middle"))
    return picture(ident, title, description, width, 28 + _ROW * max(1, len(rows)), drawn, style)


def sparkline(values: Sequence[object], columns: int = 60) -> str:
    """Values as one line of text. Of the values that share a column, the one farthest from the median of all is shown; one that is no number is blank."""
    numbers = [as_number(value) for value in values]
    known = [value for value in numbers if value is not None]
    if not known:
        return ""
    middle, low, high = median(known), min(known), max(known)
    columns = max(1, min(columns, len(numbers)))
    line = ""
    for column in range(columns):
        part = [value for value in numbers[column * len(numbers) // columns : (column + 1) * len(numbers) // columns] if value is not None]
        shown = max(part, key=lambda value: abs(value - middle), default=None)
        line += " " if shown is None else _SPARKS[3] if high <= low else _SPARKS[min(7, int((shown - low) / (high - low) * 8))]
    return line
