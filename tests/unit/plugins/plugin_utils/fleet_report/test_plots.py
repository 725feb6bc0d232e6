# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots: axes, thinning, what is drawn of strange values, and that each picture is XML with a title and a description."""

from __future__ import annotations

import math
import random
import re
import shutil
import subprocess
import xml.etree.ElementTree as ET

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import lines
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Scale, duration, fit
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.charts import Bar, bar_chart, heat_map, sparkline, stacked_bars
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.environment import render_picture
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS, LEVELS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import number
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.fleet_report.page_reader import printed_by

NAN, INF = float("nan"), float("inf")
SCALES = (Scale("time", "s"), Scale("rate", "MB/s"))
STRANGE = [
    pytest.param([], id="nothing"),
    pytest.param([7.0], id="one-point"),
    pytest.param([NAN], id="nan-alone"),
    pytest.param([NAN, 1.0, NAN, 2.0, INF, -INF, None, "3", True], id="gaps"),
    pytest.param([5.0, 5.0, 5.0], id="constant"),
    pytest.param([0.0, 0.0], id="zero"),
    pytest.param([-1.0, -2.0], id="negative"),
    pytest.param([5e-324, 0.0], id="subnormal"),
    pytest.param([1e299, -1e299], id="huge"),
    pytest.param([1e308, -1e308], id="too-huge"),
    pytest.param([10**400, 1], id="no-float"),
    pytest.param([1e15, 1e15 + 1], id="far-from-zero"),
]


def read(plot):
    """A plot, read back as the page has it."""
    return ET.fromstring(printed_by("picture", plot))


def drawn(ys, xs=None, scales=SCALES, **more):
    """A line plot, read back."""
    xs = range(len(ys)) if xs is None else xs
    return read(lines.line_plot("p", "A title", "What it shows.", [lines.Series("a line", xs, ys)], scales, **more))


def numbers(picture):
    """All coordinates of a picture."""
    return [float(found) for one in picture.iter() for key in ("d", "x", "y", "width", "height") for found in re.findall(r"-?[0-9.]+", one.get(key, ""))]


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("ys", STRANGE)
def test_strange_values_are_drawn_or_left_out(ys, log):
    picture = drawn(ys, scales=(SCALES[0], SCALES[1]._replace(log=log)))
    assert all(math.isfinite(one) and -100 < one < 2000 for one in numbers(picture))
    assert picture.get("role") == "img" and [one.tag for one in picture][:2] == ["title", "desc"]
    assert picture.get("aria-labelledby").split() == ["p-t", "p-d"]


def test_no_point_says_so():
    for ys in ([], [NAN], [None, "x"]):
        assert "no data" in "".join(drawn(ys).itertext())
    assert "no data" not in "".join(drawn([1.0]).itertext())


def test_one_point_has_a_marker():
    for ys in ([3.0], [NAN, 3.0, NAN]):
        markers = [one for one in drawn(ys).iter("path") if one.get("class") == "marker"]
        assert len(markers) == 1 and markers[0].get("d")


def test_a_gap_parts_the_line():
    path = next(one for one in drawn([1.0, 2.0, NAN, 3.0, 4.0]).iter("path") if one.get("class") == "line").get("d")
    assert path.count("M") == 2


@pytest.mark.parametrize("at", [0, 654_321, 999_999])
def test_a_collapse_of_one_second_in_a_million_survives(at):
    ys = [1000.0 + second % 7 for second in range(10**6)]
    ys[at] = 3.0
    picture = drawn(ys, scales=(SCALES[0], SCALES[1]._replace(low=0.0)))
    path = next(one for one in picture.iter("path") if one.get("class") == "line").get("d")
    heights = [float(pair.split(" ")[1]) for pair in re.split("[ML]", path) if pair]
    bottom = max(float(one.get("y")) for one in picture.iter("text") if one.get("class") == "tick") - 18
    assert max(heights) > bottom - 3 and sorted(heights)[-2] < bottom - 100
    assert len(heights) <= 4 * 760 and len(ET.tostring(picture)) < 60_000


def test_thinning_keeps_the_extremes_of_each_column():
    dice = random.Random(5)
    points = [(float(at), dice.gauss(0, 1)) for at in range(20_000)]
    axis = fit(Scale("x"), [at for at, _value in points], 0.0, 100.0)
    (piece,) = lines.thinned(points, axis)
    assert len(piece) <= 404
    for column in range(100):
        inside = [value for at, value in points if int(axis.place(at)) == column]
        kept = [value for at, value in piece if int(at) == column]
        assert (min(inside), max(inside)) == (min(kept), max(kept))
    assert [at for at, _value in piece] == sorted(at for at, _value in piece)


def test_points_in_any_order_are_one_line():
    places = list(range(50))
    random.Random(2).shuffle(places)
    mixed, straight = drawn([float(at) for at in places], xs=places), drawn([float(at) for at in range(50)])
    assert ET.tostring(mixed) == ET.tostring(straight)


@pytest.mark.parametrize("log", [False, True])
def test_ticks_are_few_and_inside(log):
    dice = random.Random(3)
    for _row in range(3000):
        low = dice.uniform(-1, 1) * 10 ** dice.randrange(-12, 12)
        values = [low, low + dice.random() * 10 ** dice.randrange(-12, 12)]
        axis = fit(Scale("x", dice.choice(("s", "B")), log), values, 0.0, 600.0)
        ticks = axis.ticks()
        room = 1e-6 * (axis.high - axis.low)
        assert 1 <= len(ticks) <= 31 and axis.low < axis.high
        assert all(axis.low - room <= value <= axis.high + room for value, _text in ticks), axis
        places = [axis.place(value) for value, _text in ticks]
        assert places == sorted(places) and places[0] >= -0.5 and places[-1] <= 600.5


@pytest.mark.parametrize(
    ("low", "high", "unit", "log", "wanted"),
    [
        (0, 1, "", False, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 4321, "", False, ["0", "1,000", "2,000", "3,000", "4,000"]),
        (-3, 3, "", False, ["-2", "0", "2"]),
        (0, 3600, "s", False, ["0 s", "10 min", "20 min", "30 min", "40 min", "50 min", "1 h"]),
        (0, 90, "s", False, ["0 s", "15 s", "30 s", "45 s", "1 min", "1:15 min", "1:30 min"]),
        (1, 1e6, "", True, ["1", "10", "100", "1,000", "10,000", "100,000", "1,000,000"]),
        (30, 200, "", True, ["50", "100", "200"]),
    ],
)
def test_ticks_are_round_numbers(low, high, unit, log, wanted):
    assert [text for _value, text in fit(Scale("x", unit, log), [low, high], 0.0, 600.0).ticks()] == wanted


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (59, "59 s"), (90, "1:30 min"), (7500, "2:05 h"), (172800, "2 d"), (-90, "−1:30 min"), (0.25, "0.25 s")]
)
def test_durations(seconds, text):
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (-0.0, "0"), (1234567, "1,234,567"), (1234.5678, "1,235"), (0.98501, "0.985"), (9.999, "10"), (1e-9, "1.00e-09"), (1e20, "1.00e+20"),
        (NAN, "NaN"), (INF, "∞"), (-INF, "−∞"), (None, "–"), (10**400, "a number of more than 300 digits"), (True, "–"), (0.1 + 0.2, "0.3"),
    ],
)  # fmt: skip
def test_numbers_for_people(value, text):
    assert number(value) == text


def test_windows_marks_and_bands_are_named():
    picture = drawn(
        [1.0, 2.0, 3.0],
        windows=[lines.Window(0.5, 1.5, "two windows agree"), lines.Window(NAN, 2, "nowhere")],
        marks=[lines.Mark(1.0, "the first collapse"), lines.Mark(NAN, "nowhere")],
        bands=[lines.Band("interval", [0, 1, 2], [0.5, 1.5, 2.5], [1.5, 2.5, 3.5])],
    )
    text = " ".join(picture.itertext())
    assert "A: the first collapse" in text and "B: shaded, two windows agree" in text and "interval" in text and "nowhere" not in text
    assert sum(one.get("class") == "window" for one in picture.iter()) == 1 and sum(one.get("class") == "mark" for one in picture.iter()) == 1
    assert any("band" in one.get("class", "") for one in picture.iter())


def test_lines_differ_without_colour():
    series = [lines.Series(f"line {at}", [0, 1], [at, at + 1]) for at in range(lines.LINES)]
    picture = read(lines.line_plot("p", "t", "d", series, SCALES))
    keys = [(one[0].get("stroke-dasharray"), re.sub("[0-9. -]", "", one[1].get("d"))) for one in picture.iter("g")][: lines.LINES]
    assert len(set(keys)) == lines.LINES and len({dashes for dashes, _shape in keys}) == lines.LINES


def test_values_that_have_no_place_on_a_log_axis_are_counted():
    picture = drawn([1.0, 0.0, -3.0, 10.0], scales=(SCALES[0], SCALES[1]._replace(log=True)))
    assert "2 values of 0 or less" in picture.find("desc").text


def test_bars_and_whiskers():
    bars = [Bar("one", 0.5, "0.5", "error", 0.4, 0.6), Bar("two", NAN, "not measured"), Bar("three", None, "–", "warning", 1, 2), Bar("four", -1, "-1")]
    picture = read(bar_chart("b", "t", "d", bars, Scale("share"), (1.0, "raw")))
    text = " ".join(picture.itertext())
    assert "✕ 0.5" in text and "not measured" in text and "raw" in text
    assert sum(one.get("class", "").startswith("bar") for one in picture.iter("rect")) == 2
    assert sum(one.get("class") == "whisker" for one in picture.iter()) == 2
    assert "no data" in " ".join(read(bar_chart("b", "t", "d", [], Scale("share"))).itertext())
    read(bar_chart("b", "t", "d", [Bar("x", -5, "?"), Bar("y", 1e9, "!")], Scale("days", log=True)))


def test_a_level_is_told_by_a_glyph_as_well():
    assert len(set(GLYPHS.values())) == len(LEVELS) == len(GLYPHS)
    picture = read(heat_map("m", "t", "d", ["a", "b"], [("host", ["error", "ok"]), ("other", ["none", "missing"])]))
    assert [one.text for one in picture.iter("text") if "glyph" in one.get("class")] == ["✕", "✓", "–", "∅"]
    assert len(list(picture.iter("rect"))) == 4
    picture = read(stacked_bars("m", "t", "d", [("check", [("error", 3), ("ok", 97), ("none", 0)])]))
    assert [one.text for one in picture.iter("text")][1:] == ["✓ 97"]  # where there is no room, the table has it


@pytest.mark.parametrize(
    ("values", "columns", "line"),
    [
        ([], 10, ""), ([NAN, None], 10, ""), ([5], 10, "▄"), ([1, 1, 1], 10, "▄▄▄"), ([0, 7], 10, "▁█"), ([0, NAN, 7], 10, "▁ █"),
        ([100] * 500 + [1] + [100] * 499, 10, "█████▁████"), (list(range(8)), 8, "▁▂▃▄▅▆▇█"),
    ],
)  # fmt: skip
def test_a_line_of_blocks(values, columns, line):
    assert sparkline(values, columns) == line


HOSTILE = [
    "<script>alert(1)</script>",
    '"><svg onload=x>',
    "]]>",
    "&lt;b&gt;",
    "\x1b[2J\x00",
    "\u202egpj",
    "\ud800",
    "A" * 5000,
    "{{ 7 * 7 }}",
    "</text>",
    "'--><!--",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_are_escaped(text):
    """In every place of every picture; one that stands alone has its style and nothing from outside."""
    pictures = [
        lines.line_plot(
            "p",
            text,
            text,
            [lines.Series(text, [0, 1], [1, 2])],
            (Scale(text, text), Scale(text, text)),
            [lines.Window(0, 1, text)],
            [lines.Mark(1, text)],
        ),
        bar_chart("p", text, text, [Bar(text, 1, text)], Scale(text, text), (1, text)),
        heat_map("p", text, text, [text], [(text, ["ok"])]),
        stacked_bars("p", text, text, [(text, [("ok", 1)])]),
    ]
    for one in map(render_picture, pictures):
        picture = ET.fromstring(one)
        assert {each.tag.rpartition("}")[2] for each in picture.iter()} <= {"svg", "title", "desc", "style", "rect", "path", "text", "g"}
        assert not any(key.startswith("on") or key in ("href", "src") for each in picture.iter() for key in each.attrib)
        assert all(char.isprintable() or char == "\n" for char in one) and "url(" not in one
        if shutil.which("xmllint"):
            subprocess.run(["xmllint", "--noout", "--nonet", "-"], input=one.encode(), check=True)
