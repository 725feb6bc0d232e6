# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._honesty import (
    HONEST,
    IGNORES,
    PROTECTED,
    UNCLEAR,
    Rates,
    State,
    collapse,
    judge,
    rate_of,
    report,
)


@pytest.mark.parametrize(
    "name, rates, kind, ratio",
    [
        # fdatasync on, O_DSYNC on, direct on, direct off
        ("honest, measured", Rates(144, 150, 1357, 147), HONEST, 0.98),
        ("ignores flushes, measured", Rates(1357, 1400, 1700, 147), IGNORES, 9.23),
        # Its un-flushed direct writes are not in the article; they cannot be slower than those with a flush.
        ("the consumer drive of 2015", Rates(13786, 14641, 14641, 527), IGNORES, 26.16),
        ("the same, if it had waited", Rates(519, 527, 14641, 527), HONEST, 0.98),
        ("NVMe with capacitors", Rates(28000, 42000, 65000, 62000), PROTECTED, 0.45),
        ("SATA with capacitors", Rates(8500, 9500, 14000, 13500), PROTECTED, 0.63),
        ("capacitors, on an emulated machine", Rates(420, 760, 1400, 1350), PROTECTED, 0.31),
        ("consumer NVMe, honest", Rates(900, 1000, 45000, 1300), HONEST, 0.69),
        ("one bit a cell, honest", Rates(1500, 2600, 40000, 4200), HONEST, 0.36),
        ("a disk that turns, honest", Rates(58, 60, 9000, 118), HONEST, 0.49),
        ("a disk that turns and lies", Rates(6800, 7000, 9000, 118), IGNORES, 57.6),
        # Capacitors for the cache only: switched off, it programs. The text says so.
        ("capacitors that are off with the cache", Rates(30000, 40000, 60000, 1100), IGNORES, 27.3),
        ("without effect", Rates(140, 150, 9000, 8900), UNCLEAR, 0.02),
        ("between", Rates(1500, 1700, 9000, 500), UNCLEAR, 3.0),
        ("programs twice without its cache", Rates(1000, 1100, 20000, 500), HONEST, 2.0),
        ("four times", Rates(2000, 2100, 20000, 500), IGNORES, 4.0),
        ("a bit slower without", Rates(3000, 4500, 10000, 4000), UNCLEAR, 0.75),
        ("far away", Rates(200, 210, 400, 390), UNCLEAR, 0.51),
    ],
)
def test_class(name, rates, kind, ratio):
    found = judge(rates)
    assert (found.kind, found.ratio) == (kind, pytest.approx(ratio, rel=0.01, abs=0.01)), found.text
    assert found.as_dict()["class"] == kind and "ratio" in found.text


@pytest.mark.parametrize("missing", range(4))
def test_what_was_not_measured_is_unclear(missing):
    rates = list(Rates(144, 150, 1357, 147))
    for nothing in (None, 0.0):
        rates[missing] = nothing
        found = judge(Rates(*rates))
        assert (found.kind, found.ratio, found.as_dict()["ratio"]) == (UNCLEAR, None, None)


def test_no_class_claims_a_proof():
    for rates in (Rates(144, 150, 1357, 147), Rates(1357, 1400, 1700, 147), Rates(28000, 42000, 65000, 62000)):
        assert "only lost data could" in judge(rates).text


def test_the_word_of_the_drive_is_said():
    words = "the drive says that it has power-loss protection"
    assert judge(Rates(28000, 42000, 65000, 62000), True).text.endswith(words)
    assert judge(Rates(1357, 1400, 1700, 147), True).text.endswith(words)
    assert words not in judge(Rates(1357, 1400, 1700, 147), None).text
    assert words not in judge(Rates(144, 150, 1357, 147), True).text


# The article of 2015: one 8 kB write, operations per second, cache on and off.
ARTICLE = {"open_datasync": (14641, 527, 27.78), "fdatasync": (13786, 519, 26.56), "fsync": (9385, 169, 55.53), "open_sync": (9606, 170, 56.51)}
ON = {row: State(1000, on) for row, (on, _off, _factor) in ARTICLE.items()}
OFF = {row: State(100, off) for row, (_on, off, _factor) in ARTICLE.items()}


def test_collapse():
    assert collapse(ON, OFF) == {row: factor for row, (_on, _off, factor) in ARTICLE.items()}
    assert collapse({"fsync": State(0, 0)}, OFF) == {"fsync": None}
    assert collapse({"fsync": State(10, 100), "other": State(10, 5)}, {"fsync": State(0, 0)}) == {"fsync": None, "other": None}


@pytest.mark.parametrize("state, rate", [(State(100, 527), 527), (State(4, 527), None), (State(0, 0), None), (None, None)])
def test_rate_of(state, rate):
    assert rate_of({"fsync": state} if state else {}, "fsync") == rate


def test_report():
    lines = report(["open_datasync", "fsync", "open_sync_16x1k"], ON, OFF, judge(Rates(13786, 14641, 14641, 527)))
    assert lines[2] == "        open_datasync                       14641.0        527.0      27.8"
    assert lines[4] == "        open_sync_16x1k                         n/a          n/a         -"
    figures = "fdatasync with the cache 13786/s, direct writes with it 14641/s and without 527/s, ratio 26.2: "
    assert lines[-1].startswith("flushes: ignores_flushes_perhaps: " + figures)
