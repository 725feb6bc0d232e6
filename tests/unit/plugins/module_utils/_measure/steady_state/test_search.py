# SPDX-License-Identifier: GPL-3.0-or-later
"""A reserve by measurement: which run is next, and what the runs come to."""

from __future__ import annotations

import json
import math

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import search
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad, Request, ReserveTarget
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.rounds import Rounds
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_reserve import read_reserve

LOAD = RandomLoad(4096, 32, 0)
TAIL, WA = ReserveTarget(p99_write_ms=2.0), ReserveTarget(wa=3.0, hidden=0.07)
REQUEST = Request("/dev/x", "wwid:1", "S1", LOAD, DEFAULTS._replace(latency=True), "ab" * 16, TAIL, "MODEL A", "1.2")


def run_at(share, p99_ms=None, wa=None, rounds=50):
    """A finished run; of fewer rounds, one without a steady state."""

    def counters(number):
        return {"host_pages": 100 * number, "background_pages": round(100 * number * (wa - 1))} if wa else {}

    one = {"bytes": 50, "seconds": 1.0, "p99_us": p99_ms and 1000 * p99_ms, "temperature": None}
    records = [{"step": "discard"}, *({"step": "fill", **one} for _fill in range(20))]
    records += [{"step": "load", **one, "counters": counters(number)} for number in range(rounds)]
    options = DEFAULTS.with_reserve(share)._replace(latency=p99_ms is not None, max_fills=rounds * 0.05)
    return Rounds([*records, {"step": "freed"}], 1000, options)


def searched(target, figure_of):
    """The whole search of a drive whose figure depends on the reserve."""
    key = "wa" if target.wa else "p99_ms"
    finished = []
    while True:
        found = search.Search(target, LOAD, finished)
        if found.is_over:
            return found
        share = found.plan.measure
        figure = figure_of(share)
        finished.append(run_at(share, **{key: figure}) if figure is not None else run_at(share, rounds=12, **{key: 1.5}))
        assert len(finished) <= target.runs


@pytest.mark.parametrize(
    "target, figure_of, shares, answer",
    [
        (TAIL, lambda share: 8 * (0.3 - share) + 1.2, [0.2282, 0.1141, 0.1712, 0.1997], 0.2282),
        (TAIL, lambda share: 1.5, [0.2282, 0.1141, 0.0571, 0.0285], 0.0285),
        (TAIL, lambda share: 1.5 if share >= 0.1 else None, [0.2282, 0.1141, 0.0571, 0.0856], 0.1141),  # without a steady state it is not enough
        (TAIL, lambda share: 9.0, [0.2282, 0.3641, 0.4321, 0.466], None),
        (WA, lambda share: 5 - 20 * share, [0.1204, 0.0602], 0.1204),
        (WA, lambda share: 2.0, [0.1204, 0.0602], 0.0602),
        (WA, lambda share: 4 if share < 0.2 else 2.0, [0.1204, 0.3102], 0.3102),
    ],
)
def test_a_search(target, figure_of, shares, answer):
    found = searched(target, figure_of)
    assert [one["share"] for one in found.points] == pytest.approx(shares, abs=0.0002)
    result = search.search_result(found, REQUEST._replace(target=target))
    lines = search.search_lines(found)
    assert len(lines) == len(shares) + 1 and lines[-1].startswith(target.words)
    json.dumps(result, allow_nan=False)
    if answer is None:
        assert (result["verdict"], result["measured"]) == ("fail", None) and "not enough" in result["reasons"][0]
        return
    assert (result["verdict"], result["reasons"]) == ("pass", [])
    measured = result["measured"]
    assert (measured["model"], measured["firmware"], measured["target"]) == ("MODEL A", "1.2", target.asked)
    assert measured["share"] == pytest.approx(answer, abs=0.0002) and len(measured["points"]) == len(shares)
    # A spec takes it as it is.
    _none, goal = read_reserve({"measured": json.loads(json.dumps(measured))}, None, "pgdata")
    assert (goal.measured.model, goal.measured.share, goal.hidden_is_known) == ("MODEL A", measured["share"], target.hidden is not None)
    assert goal.measured.wa == (pytest.approx(figure_of(measured["share"]), abs=0.02) if target.wa else 0.0)


def test_a_search_that_goes_on():
    found = search.Search(TAIL, LOAD, [run_at(0.2282, p99_ms=1.5)])
    result = search.search_result(found, REQUEST)
    assert (result["verdict"], result["measured"]) == ("inconclusive", None) and len(result["points"]) == 1
    assert search.search_lines(found) == [
        "reserve 22.8 %: p99 (ms) 1.5, 0.0 MiB/s; pass",
        "p99 (ms) of 2: run 2 of at most 4, with a reserve of 11.4 % (between 0.0 and 22.8 %)",
    ]


def test_a_drive_that_does_not_count_what_it_programs():
    with pytest.raises(PlumblineError, match=r"does not count what it programs \(media bytes\).*reserve: \{target: \{wa: 3\}\}"):
        search.check_target(WA, False, "/dev/x")
    search.check_target(WA, True, "/dev/x")
    search.check_target(TAIL, False, "/dev/x")
    assert not math.isnan(TAIL.guess)
