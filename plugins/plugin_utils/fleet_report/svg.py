# SPDX-License-Identifier: GPL-3.0-or-later
"""SVG of our own: elements, a picture with its title and description, and line plots. Pure.

Colours come from CSS variables, so that a page has a light and a dark theme. No colour stands alone: lines differ by their dashes and markers,
levels by their glyph. Whatever is written is escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Axis, Scale, fit
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_number, counted, escaped, words

LINES = 6  # lines that differ by dashes as well as by colour
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "12 4", "4 2 1 2")
_CHARACTER = 6.6  # pixels of a character at 12 px, for what has to fit
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
    """A stretch of the x axis that something is said of."""

    first: float
    last: float
    label: str


class Mark(NamedTuple):
    """A place on the x axis that something is said of."""

    at: float
    label: str


def tag(name: str, content: str = "", **attributes: object) -> str:
    """An element; *content* is markup. ``class_`` is class, other ``_`` are hyphens."""
    pairs = "".join(f' {key.rstrip("_").replace("_", "-")}="{escaped(_attribute(value))}"' for key, value in attributes.items() if value is not None)
    return f"<{name}{pairs}>{content}</{name}>" if content else f"<{name}{pairs}/>"


def _attribute(value: object) -> str:
    return px(value) if isinstance(value, float) else str(value)


def px(value: float) -> str:
    """A coordinate to a tenth of a pixel."""
    text = f"{value:.1f}"
    return "0" if text == "-0.0" else text.removesuffix(".0")


def text_at(x: float, y: float, text: str, **attributes: object) -> str:
    """A line of text; *text* is not markup yet."""
    return tag("text", escaped(words(text)), x=x, y=y, **attributes)


def shortened(text: str, pixels: float) -> str:
    """As much of a text as fits."""
    fits, shown = max(1, int(pixels / _CHARACTER)), words(text)
    return shown if len(shown) <= fits else shown[: fits - 1] + "…"


def picture(ident: str, title: str, description: str, width: float, height: float, content: Iterable[str], style: str = "") -> str:
    """A whole picture. *style*: CSS for a picture that stands alone; one within a page takes the page's."""
    alone = {"xmlns": "http://www.w3.org/2000/svg", "width": px(width), "height": px(height)} if style else {}
    head = [tag("title", escaped(words(title)), id=f"{ident}-t"), tag("desc", escaped(words(description)), id=f"{ident}-d")]
    css = [tag("style", escaped(style)), tag("rect", width=width, height=height, fill="var(--page)")] if style else []
    labels = {"aria-labelledby": f"{ident}-t {ident}-d"}
    body = "".join([*head, *css, *content])
    return tag("svg", body, **alone, class_="plot", role="img", viewBox=f"0 0 {px(width)} {px(height)}", **labels)


# --- line plots ----------------------------------------------------------------------------------------------------------------------


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
    style: str = "",
) -> str:
    """Lines over the x axis, with stretches and places on it that are named below. *scales*: of x and of y; *extent*: width and height in pixels."""
    width = extent[0]
    windows = [one for one in windows if _is_place(one.first) and _is_place(one.last)]
    marks = [one for one in marks if _is_place(one.at)]
    lines = [(one.name, _points(one.xs, one.ys)) for one in series]
    strips = [(one.name, _points(one.xs, one.lows), _points(one.xs, one.highs)) for one in bands]
    notes = _notes(windows, marks)
    names = [name for name, _points_of in lines] + [name for name, *_ends in strips]
    legend, legend_height = _legend(names if len(names) > 1 else [], width)  # one line alone is named by the axis
    height = extent[1] + legend_height + _LINE * len(notes)
    frame = (_LEFT, _TOP + legend_height, width - 3 * _EDGE, height - _BOTTOM - _LINE * len(notes))
    values = [point for _name, points in lines for point in points] + [point for _name, *ends in strips for points in ends for point in points]
    y = fit(scales[1], [value for _x, value in values if value is not None], frame[3], frame[1])
    ends = [place for one in windows for place in one[:2]] + [one.at for one in marks]
    x = fit(scales[0], [place for place, value in values if value is not None] + [float(end) for end in ends], frame[0], frame[2])
    drawn = [*_windows(windows, len(marks), x, frame), *_grid(x, y, frame)]
    drawn += [_strip(number, low, high, x, y) for number, (_name, low, high) in enumerate(strips, len(lines))]
    drawn += [_line(number, points, x, y) for number, (_name, points) in enumerate(lines)]
    drawn += _marks(marks, x, frame)
    if not any(value is not None for _x, value in values):
        drawn.append(text_at((frame[0] + frame[2]) / 2, (frame[1] + frame[3]) / 2, "no data", class_="none", text_anchor="middle"))
    drawn += legend
    drawn += [text_at(_LEFT, height - _LINE * (len(notes) - at) + 6, shortened(note, width - _LEFT), class_="note") for at, note in enumerate(notes)]
    hidden = sum(value is not None and value <= 0 for _x, value in values) if y.scale.log else 0
    said = f"{description} {counted(hidden, 'value')} of 0 or less have no place on a logarithmic axis." if hidden else description
    return picture(ident, title, said, width, height, drawn, style)


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


def _line(number: int, points: list[tuple[float, float | None]], x: Axis, y: Axis) -> str:
    """A line with its dashes, and its marker here and there and at points that stand alone."""
    pieces = [[(at, y.place(value)) for at, value in piece] for piece in thinned(_drawable(points, y), x)]
    path = "".join("M" + "L".join(f"{px(at)} {px(value)}" for at, value in piece) for piece in pieces if len(piece) > 1)
    all_points = [point for piece in pieces for point in piece]
    every = max(1, len(all_points) // 6)
    alone = [piece[0] for piece in pieces if len(piece) == 1]
    shapes = "".join(marker(number, *point) for point in dict.fromkeys(all_points[every // 2 :: every] + alone[:1000]))
    name = f"s{number % LINES + 1}"
    dashes = _DASHES[number % LINES] or None
    line = tag("path", d=path, class_="line", stroke_dasharray=dashes) if path else ""
    return tag("g", line + (tag("path", d=shapes, class_="marker") if shapes else ""), class_=name) if path or shapes else ""


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


def _strip(number: int, low: list[tuple[float, float | None]], high: list[tuple[float, float | None]], x: Axis, y: Axis) -> str:
    """The area between two lines, thinned to its widest in each column."""
    lows, highs = ([point for piece in thinned(_drawable(points, y), x) for point in piece] for points in (low, high))
    if not lows or not highs:
        return ""
    way = [f"{px(at)} {px(y.place(value))}" for at, value in lows + highs[::-1]]
    return tag("path", d="M" + "L".join(way) + "z", class_=f"band s{number % LINES + 1}")


def _grid(x: Axis, y: Axis, frame: tuple[float, float, float, float]) -> list[str]:
    left, top, right, bottom = frame
    drawn = [tag("path", d=f"M{px(left)} {px(top)}V{px(bottom)}H{px(right)}", class_="axis")]
    lines = "".join(f"M{px(left)} {px(y.place(value))}H{px(right)}" for value, _text in y.ticks())
    drawn.append(tag("path", d=lines, class_="grid") if lines else "")
    drawn += [text_at(left - 6, y.place(value) + 4, text, class_="tick", text_anchor="end") for value, text in y.ticks()]
    until = -math.inf
    for value, text in x.ticks():
        place, half = x.place(value), len(text) * _CHARACTER / 2
        if place - half > until:
            drawn.append(tag("path", d=f"M{px(place)} {px(bottom)}v5", class_="axis"))
            drawn.append(text_at(place, bottom + 18, text, class_="tick", text_anchor="middle"))
            until = place + half + 4
    drawn.append(text_at((left + right) / 2, bottom + 34, x.scale.title, class_="label", text_anchor="middle"))
    drawn.append(text_at(_EDGE, top - 9, y.scale.title, class_="label"))
    return drawn


def _letter(number: int) -> str:
    return chr(ord("A") + number) if number < 26 else str(number - 25)


def _notes(windows: Sequence[Window], marks: Sequence[Mark]) -> list[str]:
    """What the letters in a plot mean, one line each."""
    labels = [one.label for one in marks] + [f"shaded, {one.label}" for one in windows]
    return [f"{_letter(at)}: {words(label)}" for at, label in enumerate(labels)]


def _windows(windows: Sequence[Window], before: int, x: Axis, frame: tuple[float, float, float, float]) -> list[str]:
    drawn = []
    for number, one in enumerate(windows, before):
        left, right = sorted((x.place(one.first), x.place(one.last)))
        drawn.append(tag("rect", x=left, y=frame[1], width=max(right - left, 1.0), height=frame[3] - frame[1], class_="window"))
        drawn.append(text_at((left + right) / 2, frame[3] - 6, _letter(number), class_="letter", text_anchor="middle"))
    return drawn


def _marks(marks: Sequence[Mark], x: Axis, frame: tuple[float, float, float, float]) -> list[str]:
    drawn = []
    for number, one in enumerate(marks):
        place = x.place(one.at)
        drawn.append(tag("path", d=f"M{px(place)} {px(frame[1])}V{px(frame[3])}", class_="mark"))
        drawn.append(text_at(place + 3, frame[1] + 11, _letter(number), class_="letter"))
    return drawn


def _legend(names: Sequence[str], width: float) -> tuple[list[str], float]:
    """The names of the lines with their dashes and markers, in as many rows as they need; and the height of these."""
    if not names:
        return [], 0.0
    drawn, left, top = [], _LEFT, _EDGE + 6
    for number, name in enumerate(names):
        shown = shortened(name, 300)
        needed = 40 + len(shown) * _CHARACTER
        if left > _LEFT and left + needed > width:
            left, top = _LEFT, top + _LINE
        sample = tag("path", d=f"M{px(left)} {px(top - 4)}h26", class_="line", stroke_dasharray=_DASHES[number % LINES] or None)
        shape = tag("path", d=marker(number, left + 13, top - 4), class_="marker")
        drawn.append(tag("g", sample + shape, class_=f"s{number % LINES + 1}") + text_at(left + 31, top, shown, class_="key"))
        left += needed + 12
    return drawn, top - _EDGE + 10
