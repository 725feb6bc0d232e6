# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.flush_honesty import (
    HONEST,
    IGNORES,
    PROTECTED,
    UNCLEAR,
    State,
    Time,
    Times,
    collapse,
    judge_flushes,
    report_flushes,
    time_of,
)

STEADY = 0.02  # the standard error of a mean, as a share of it


def times(way, programming, flushing, filesystem=50.0, error=STEADY):
    """What is measured of a drive, in microseconds: the way to it and back, what the missing cache and a flush add, and the filesystem's own work."""
    means = (way + filesystem + flushing, way + filesystem, way, way + programming)
    return Times(*(Time(mean, mean * error) for mean in means))


@pytest.mark.parametrize(
    "name, found, kind, ratio",
    [
        ("honest, emulated", times(737, 6066, 6000), HONEST, 1.01),
        ("ignores flushes, emulated", times(588, 6215, 126), IGNORES, None),
        ("the consumer drive of 2015", times(68, 1829, 4), IGNORES, None),
        ("the same, if it had waited", times(68, 1829, 1860), HONEST, 0.98),
        ("NVMe with capacitors", times(15, 1, 8), PROTECTED, None),
        ("SATA with capacitors", times(71, 3, 34), PROTECTED, None),
        ("capacitors, on an emulated machine", times(714, 26, 602), PROTECTED, None),
        ("consumer NVMe, honest", times(22, 747, 978), HONEST, 0.76),
        ("one bit a cell, honest", times(25, 240, 360), HONEST, 0.67),
        ("a disk that turns, honest", times(111, 8363, 16556), HONEST, 0.51),
        ("a disk that turns and lies", times(111, 8363, 32), IGNORES, None),
        ("ignores flushes, emulated, behind a way that is nearly as long as a flush", times(344, 30896, 275), IGNORES, None),
        # Capacitors for the cache only: switched off, it programs. The text says so.
        ("capacitors that are off with the cache", times(17, 892, 8), IGNORES, None),
        ("without effect", times(111, 1, 6556), UNCLEAR, None),
        ("a bit slower without", times(100, 150, 122), UNCLEAR, 1.23),
        ("far away", times(2500, 64, 2262), UNCLEAR, None),
        # What the ratio of two rates did not tell apart: where programming is no longer than the way, it is 2 at the most whatever a flush does.
        ("a liar that programs as long as its way", times(500, 500, 0), IGNORES, None),
        ("a liar below a slow filesystem", times(60, 600, 5, filesystem=300), IGNORES, None),
        # The cache is emptied into cells of one bit, and a write without it goes to cells of three.
        ("one bit a cell behind the cache only", times(30, 5000, 400), HONEST, 12.5),
        ("the same, far away", times(300, 5000, 400), UNCLEAR, 12.5),
    ],
)
def test_class(name, found, kind, ratio):
    honesty = judge_flushes(found)
    assert honesty.kind == kind, honesty.text
    assert honesty.ratio == (None if ratio is None else pytest.approx(ratio, rel=0.02)) or ratio is None, honesty.text
    assert honesty.as_dict()["class"] == kind


def test_the_figures_are_returned_with_their_limits():
    found = judge_flushes(times(68, 1829, 1860)).as_dict()
    value, low, high = found["flush_us"]
    assert value == pytest.approx(1860, abs=1) and low < value < high
    assert found["program_us"][0] == pytest.approx(1829, abs=1)
    assert found["ratio"] == pytest.approx(0.98, abs=0.01)


@pytest.mark.parametrize("missing", range(4))
def test_what_was_not_measured_is_unclear(missing):
    measured = list(times(68, 1829, 4))
    measured[missing] = None
    found = judge_flushes(Times(*measured))
    assert (found.kind, found.ratio, found.as_dict()["flush_us"]) == (UNCLEAR, None, None)


def test_without_a_known_error_less_is_told():
    assert judge_flushes(times(400, 1000, 100)).kind == IGNORES
    assert judge_flushes(Times(*(Time(time.mean) for time in times(400, 1000, 100)))).kind == UNCLEAR


def test_an_error_too_small_to_be_true_is_not_believed():
    assert judge_flushes(times(500, 1000, 280, error=0.0)).kind == UNCLEAR


@pytest.mark.parametrize("kind, wrong", [("liar", HONEST), ("honest", IGNORES), ("one bit a cell", IGNORES)])
def test_no_drive_is_put_into_the_opposite_class(kind, wrong):
    """Noise of 10 % in each of eight pieces; `./plumbline bench honesty` runs the whole grid."""
    dice = random.Random("classes " + kind)
    for _trial in range(3000):
        way, programming = dice.uniform(20, 2000), dice.uniform(200, 4000)
        flush_way = way * dice.uniform(0.2, 1)
        flushing = {"liar": flush_way * dice.randrange(2), "honest": flush_way + programming * dice.uniform(0.5, 1.2), "one bit a cell": flush_way + 200}[kind]
        found = judge_flushes(noisy(times(way, programming, flushing, dice.uniform(0, 500)), dice))
        assert found.kind != wrong, (way, programming, flushing, found.text)


def noisy(exact, dice):
    measured = []
    for time in exact:
        pieces = [time.mean * max(dice.gauss(1, 0.1), 0.1) for _piece in range(8)]
        mean = sum(pieces) / 8
        measured.append(Time(mean, (sum((piece - mean) ** 2 for piece in pieces) / 56) ** 0.5))
    return Times(*measured)


def test_no_class_claims_a_proof():
    for found in (times(68, 1829, 4), times(68, 1829, 1860), times(15, 1, 8)):
        assert "only lost data could" in judge_flushes(found).text


def test_the_word_of_the_drive_is_said():
    words = "the drive says that it has power-loss protection"
    assert judge_flushes(times(15, 1, 8), True).text.endswith(words)
    assert judge_flushes(times(68, 1829, 4), True).text.endswith(words)
    assert words not in judge_flushes(times(68, 1829, 4), None).text
    assert words not in judge_flushes(times(68, 1829, 1860), True).text


# The article of 2015: one 8 kB write, operations per second, cache on and off.
ARTICLE = {"open_datasync": (14641, 527, 27.78), "fdatasync": (13786, 519, 26.56), "fsync": (9385, 169, 55.53), "open_sync": (9606, 170, 56.51)}
ON = {row: State(1000, on) for row, (on, _off, _factor) in ARTICLE.items()}
OFF = {row: State(100, off) for row, (_on, off, _factor) in ARTICLE.items()}


def test_collapse():
    assert collapse(ON, OFF) == {row: factor for row, (_on, _off, factor) in ARTICLE.items()}
    assert collapse({"fsync": State(0, 0)}, OFF) == {"fsync": None}
    assert collapse({"fsync": State(10, 100), "other": State(10, 5)}, {"fsync": State(0, 0)}) == {"fsync": None, "other": None}


@pytest.mark.parametrize(
    "state, time",
    [(State(100, 500, 5), Time(2000, 20)), (State(100, 500), Time(2000, None)), (State(4, 527), None), (State(0, 0), None), (None, None)],
)
def test_time_of(state, time):
    assert time_of({"fsync": state} if state else {}, "fsync") == time


def test_report():
    lines = report_flushes(["open_datasync", "fsync", "open_sync_16x1k"], ON, OFF, judge_flushes(times(68, 1829, 4)))
    assert lines[2] == "        open_datasync                       14641.0        527.0      27.8"
    assert lines[4] == "        open_sync_16x1k                         n/a          n/a         -"
    assert lines[-1].startswith("flushes: ignores_flushes_perhaps: a write takes 68.0 us to the drive and back, without its cache 1829 us longer (")
