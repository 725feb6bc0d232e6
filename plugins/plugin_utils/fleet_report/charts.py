# SPDX-License-Identifier: GPL-3.0-or-later
"""Bars, a map of levels, and a line of text in the place of a plot. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Axis, Scale, fit, shortened
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS
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


class Box(NamedTuple):
    """A rectangle in the colour of its level, and what is written in its middle."""

    left: float
    width: float
    level: str
    text: str = ""


class Row(NamedTuple):
    """One row of a chart, placed. *whisker*: the ends of an interval; *note*: where it stands, and what is written behind the row."""

    top: float
    label: str
    boxes: Sequence[Box]
    whisker: tuple[float, float] | None = None
    note: tuple[float, str] | None = None


class Bars(NamedTuple):
    """Rows of boxes, placed. *labels*: where their names end; *inset*: from the edge of a row to its boxes; what has a place and a text is a pair."""

    ident: str
    title: str
    description: str
    width: float
    height: float
    shape: str
    labels: float
    row: float
    inset: float
    rows: Sequence[Row]
    columns: Sequence[tuple[float, str]] = ()
    ticks: Sequence[tuple[float, str]] = ()
    top: float = 0.0
    bottom: float = 0.0
    axis: tuple[float, str] | None = None
    reference: tuple[float, str] | None = None


def bar_chart(
    ident: str, title: str, description: str, bars: Sequence[Bar], scale: Scale, reference: tuple[float, str] | None = None, width: float = 760.0
) -> Bars:
    """Bars that lie, one below the other; *reference*: a value that is drawn across them all, with its name."""
    known = [value for chart_bar in bars for value in map(as_number, (chart_bar.value, chart_bar.low, chart_bar.high)) if value is not None]
    known += [reference[0]] if reference else []
    axis = fit(scale if scale.log else scale._replace(low=min([0.0, *known])), known or [0.0, 1.0], _LABELS, width - _VALUES)
    top = 28.0
    bottom = top + _ROW * max(1, len(bars))
    return Bars(
        ident=ident,
        title=title,
        description=description,
        width=width,
        height=bottom + 40,
        shape="bar",
        labels=_LABELS - 8,
        row=_ROW,
        inset=4.0,
        rows=[_bar(chart_bar, top + _ROW * number, axis) for number, chart_bar in enumerate(bars)],
        ticks=[(axis.place(value), text) for value, text in axis.ticks()],
        top=top,
        bottom=bottom,
        axis=((_LABELS + width - _VALUES) / 2, scale.title),
        reference=(axis.place(reference[0]), reference[1]) if reference else None,
    )


def _bar(chart_bar: Bar, top: float, axis: Axis) -> Row:
    value, low, high = map(as_number, (chart_bar.value, chart_bar.low, chart_bar.high))
    zero = axis.place(axis.low if axis.scale.log else 0.0)
    left, end = sorted((zero, zero if value is None else axis.place(value)))
    boxes = [] if value is None else [Box(left, max(end - left, 1.0), chart_bar.level)]
    whisker = (axis.place(low), axis.place(high)) if low is not None and high is not None else None
    glyph = f"{GLYPHS[chart_bar.level]} " if chart_bar.level in GLYPHS and chart_bar.level != "none" else ""
    note = (max(end, whisker[1] if whisker else end) + 6, shortened(glyph + chart_bar.text, _VALUES + 60))
    return Row(top, shortened(chart_bar.label, _LABELS - 16), boxes, whisker, note)


def stacked_bars(ident: str, title: str, description: str, rows: Sequence[tuple[str, Sequence[tuple[str, int]]]], width: float = 760.0) -> Bars:
    """For each row the share of each level, with glyph and number where there is room."""
    drawn = []
    left = 130.0
    room = width - left - 16
    for at, (label, counts) in enumerate(rows):
        total, begin, boxes = sum(count for _level, count in counts) or 1, left, []
        for level, count in counts:
            if count:
                wide, text = room * count / total, f"{GLYPHS[level]} {count}"
                boxes.append(Box(begin, wide, level, text if wide > 8.0 * len(text) else ""))
                begin += wide
        drawn.append(Row(6 + _ROW * at, shortened(label, left - 16), boxes))
    return Bars(ident, title, description, width, 12 + _ROW * max(1, len(rows)), "cell", left - 8, _ROW, 2.0, drawn)


def heat_map(ident: str, title: str, description: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[str]]], width: float = 760.0) -> Bars:
    """A level for each row and column, shown by a glyph as well as by its colour. The names of the columns stand above them."""
    wide = (width - _LABELS) / max(1, len(columns))
    drawn = []
    for line, (label, levels) in enumerate(rows):
        boxes = [Box(_LABELS + wide * at + 1, wide - 2, level, GLYPHS[level]) for at, level in enumerate(levels)]
        drawn.append(Row(22 + _ROW * line, shortened(label, _LABELS - 16), boxes))
    heads = [(_LABELS + wide * (at + 0.5), shortened(name, wide)) for at, name in enumerate(columns)]
    return Bars(ident, title, description, width, 28 + _ROW * max(1, len(rows)), "cell", _LABELS - 8, _ROW, 1.0, drawn, heads)


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
