# SPDX-License-Identifier: GPL-3.0-or-later
"""Line plots: where each thing lies, and the paths of the lines. Pure.

Colours come from CSS variables, so that a page has a light and a dark theme. No colour stands alone: lines differ by their dashes and markers,
levels by their glyph.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import CHARACTER, Axis, Scale, fit, px, shortened
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_number, counted, words

LINES = 6  # lines that differ by dashes as well as by colour
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2")
_EDGE = 8.0
_LEFT, _TOP, _BOTTOM, _LINE = 76.0, 22.0, 42.0, 17.0


class Series(NamedTuple):
    """One line: places and values. A value that is no number leaves a gap."""

    name: str
    xs: Sequence[object]
    ys: Sequence[object]


class Band(NamedTuple):
    """What lies between two lines, such as an interval."""

    name: str
    xs: Sequence[object]
    lows: Sequence[object]
    highs: Sequence[object]


class Window(NamedTuple):
    """A stretch of the x axis with a label."""

    first: float
    last: float
    label: str


class Mark(NamedTuple):
    """A place on the x axis with a label."""

    at: float
    label: str


class Frame(NamedTuple):
    """The rectangle between the axes, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


class Drawn(NamedTuple):
    """A line as it is drawn. *style*: its class; *path*: through its points; *markers*: the path of its markers."""

    style: str
    dashes: str
    path: str
    markers: str


class Key(NamedTuple):
    """A line of the legend, its sample at *left*, *top*."""

    line: Drawn
    left: float
    top: float
    name: str


class Lines(NamedTuple):
    """A line plot, placed. Ticks, marks and notes are (place, text), windows (left, width, middle, letter), bands (class, path)."""

    ident: str
    title: str
    description: str
    width: float
    height: float
    frame: Frame
    x_title: str
    y_title: str
    x_ticks: Sequence[tuple[float, str]]
    y_ticks: Sequence[tuple[float, str]]
    windows: Sequence[tuple[float, float, float, str]]
    marks: Sequence[tuple[float, str]]
    bands: Sequence[tuple[str, str]]
    lines: Sequence[Drawn]
    legend: Sequence[Key]
    notes: Sequence[tuple[float, str]]
    empty: bool


def line_plot(
    ident: str,
    title: str,
    description: str,
    series: Sequence[Series],
    scales: tuple[Scale, Scale],
    windows: Sequence[Window] = (),
    marks: Sequence[Mark] = (),
    bands: Sequence[Band] = (),
    extent: tuple[float, float] = (760.0, 320.0),
) -> Lines:
    """Lines over the x axis, with stretches and places on it that are named below. *scales*: of x and of y; *extent*: width and height in pixels."""
    width = extent[0]
    windows = [window for window in windows if _is_place(window.first) and _is_place(window.last)]
    marks = [mark for mark in marks if _is_place(mark.at)]
    lines = [_points(line.xs, line.ys) for line in series]
    strips = [(_points(band.xs, band.lows), _points(band.xs, band.highs)) for band in bands]
    notes = _notes(windows, marks)
    names = [line.name for line in series] + [band.name for band in bands]
    legend, legend_height = _legend(names if len(names) > 1 else [], width)  # one line alone is named by the axis
    height = extent[1] + legend_height + _LINE * len(notes)
    frame = Frame(_LEFT, _TOP + legend_height, width - 3 * _EDGE, height - _BOTTOM - _LINE * len(notes))
    values = [point for points in (*lines, *(end for ends in strips for end in ends)) for point in points]
    y = fit(scales[1], [value for _x, value in values if value is not None], frame.bottom, frame.top)
    ends = [place for window in windows for place in window[:2]] + [mark.at for mark in marks]
    x = fit(scales[0], [place for place, value in values if value is not None] + [float(end) for end in ends], frame.left, frame.right)
    hidden = sum(value is not None and value <= 0 for _x, value in values) if y.scale.log else 0
    return Lines(
        ident=ident,
        title=title,
        description=f"{description} {counted(hidden, 'value')} of 0 or less have no place on a logarithmic axis." if hidden else description,
        width=width,
        height=height,
        frame=frame,
        x_title=x.scale.title,
        y_title=y.scale.title,
        x_ticks=_apart(x),
        y_ticks=[(y.place(value), text) for value, text in y.ticks()],
        windows=[_window(window, _letter(number), x) for number, window in enumerate(windows, len(marks))],
        marks=[(x.place(mark.at), _letter(number)) for number, mark in enumerate(marks)],
        bands=[(_style(number), path) for number, ends_of in enumerate(strips, len(lines)) for path in [_strip(*ends_of, x, y)] if path],
        lines=[line for line in (_line(number, points, x, y) for number, points in enumerate(lines)) if line.path or line.markers],
        legend=legend,
        notes=[(height - _LINE * (len(notes) - at) + 6, shortened(note, width - _LEFT)) for at, note in enumerate(notes)],
        empty=all(value is None for _x, value in values),
    )


def _is_place(value: object) -> bool:
    return as_number(value) is not None


def _points(xs: Sequence[object], ys: Sequence[object]) -> list[tuple[float, float | None]]:
    """The points in the order of their places. None: a gap. A point whose place is no number has none."""
    points = [(place, as_number(y)) for place, y in ((as_number(x), y) for x, y in zip(xs, ys, strict=False)) if place is not None]
    if any(later[0] < earlier[0] for earlier, later in pairwise(points)):
        points.sort(key=lambda point: point[0])
    return points


def thinned(points: Iterable[tuple[float, float | None]], x: Axis) -> list[list[tuple[float, float]]]:
    """The pieces of a line between its gaps, each with at most four points in a pixel column: first, least, largest and last.

    So one value among a million that stands out is drawn. A gap narrower than a column is not.
    """
    pieces: list[list[tuple[float, float]]] = []
    held: list[tuple[float, float]] = []
    column, gap, log = -1, True, x.scale.log
    for at, value in points:
        if value is None or (log and at <= 0):
            gap = True
            continue
        place = x.place(at)
        if int(place) == column and held:
            gap = False
            if value < held[1][1]:
                held[1] = (place, value)
            if value > held[2][1]:
                held[2] = (place, value)
            held[3] = (place, value)
            continue
        _keep(pieces, held)
        if gap or not pieces:
            pieces.append([])
        column, held, gap = int(place), [(place, value)] * 4, False
    _keep(pieces, held)
    return [piece for piece in pieces if piece]


def _keep(pieces: list[list[tuple[float, float]]], held: list[tuple[float, float]]) -> None:
    if held:
        pieces[-1] += sorted(dict.fromkeys(held), key=lambda point: point[0])


def _drawable(points: list[tuple[float, float | None]], y: Axis) -> list[tuple[float, float | None]]:
    return [(at, None if value is not None and value <= 0 else value) for at, value in points] if y.scale.log else points


def _style(number: int) -> str:
    return f"s{number % LINES + 1}"


def _line(number: int, points: list[tuple[float, float | None]], x: Axis, y: Axis) -> Drawn:
    """A line with its dashes, and its marker here and there and at points that stand alone."""
    pieces = [[(at, y.place(value)) for at, value in piece] for piece in thinned(_drawable(points, y), x)]
    path = "".join("M" + "L".join(f"{px(at)} {px(value)}" for at, value in piece) for piece in pieces if len(piece) > 1)
    all_points = [point for piece in pieces for point in piece]
    every = max(1, len(all_points) // 6)
    alone = [piece[0] for piece in pieces if len(piece) == 1]
    markers = "".join(marker(number, *point) for point in dict.fromkeys(all_points[every // 2 :: every] + alone[:1000]))
    return Drawn(_style(number), _DASHES[number % LINES], path, markers)


def marker(number: int, at: float, value: float) -> str:
    """A path round a point, another one for each of the first six lines."""
    a, v = px(at), px(value)
    shapes = (
        f"M{a} {px(value - 3)}a3 3 0 1 0 .01 0z",
        f"M{px(at - 3)} {px(value - 3)}h6v6h-6z",
        f"M{a} {px(value - 4)}l4 7h-8z",
        f"M{a} {px(value - 4)}l4 4l-4 4l-4-4z",
        f"M{px(at - 4)} {v}h8M{a} {px(value - 4)}v8",
        f"M{px(at - 3)} {px(value - 3)}l6 6m0-6l-6 6",
    )
    return shapes[number % LINES]


def _strip(low: list[tuple[float, float | None]], high: list[tuple[float, float | None]], x: Axis, y: Axis) -> str:
    """A path round the area between two lines, thinned to its widest in each column."""
    lows, highs = ([point for piece in thinned(_drawable(points, y), x) for point in piece] for points in (low, high))
    if not lows or not highs:
        return ""
    return "M" + "L".join(f"{px(at)} {px(y.place(value))}" for at, value in lows + highs[::-1]) + "z"


def _apart(x: Axis) -> list[tuple[float, str]]:
    """The ticks of the x axis whose texts do not touch."""
    apart, until = [], -math.inf
    for value, text in x.ticks():
        place, half = x.place(value), len(text) * CHARACTER / 2
        if place - half > until:
            apart.append((place, text))
            until = place + half + 4
    return apart


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number - 25)


def _notes(windows: Sequence[Window], marks: Sequence[Mark]) -> list[str]:
    """What the letters in a plot mean, one line each."""
    labels = [mark.label for mark in marks] + [f"shaded, {window.label}" for window in windows]
    return [f"{_letter(at)}: {words(label)}" for at, label in enumerate(labels)]


def _window(window: Window, letter: str, x: Axis) -> tuple[float, float, float, str]:
    left, right = sorted((x.place(window.first), x.place(window.last)))
    return (left, max(right - left, 1.0), (left + right) / 2, letter)


def _legend(names: Sequence[str], width: float) -> tuple[list[Key], float]:
    """The names of the lines with their dashes and markers, in as many rows as they need; and the height of these."""
    keys, left, top = [], _LEFT, _EDGE + 6
    for number, name in enumerate(names):
        shown = shortened(name, 300)
        needed = 40 + len(shown) * CHARACTER
        if left > _LEFT and left + needed > width:
            left, top = _LEFT, top + _LINE
        sample = Drawn(_style(number), _DASHES[number % LINES], f"M{px(left)} {px(top - 4)}h26", marker(number, left + 13, top - 4))
        keys.append(Key(sample, left + 31, top, shown))
        left += needed + 12
    return keys, top - _EDGE + 10 if keys else 0.0
