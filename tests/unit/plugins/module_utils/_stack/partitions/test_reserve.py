# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import (
    amplification_at,
    counted_amplification,
    ratio_for,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import (
    EVERYTHING_RANDOM,
    MOST_RUNS,
    Workload,
    expected_amplification,
    plan_runs,
    reserve_for_amplification,
    reserve_for_years,
)

GIB = 1 << 30


@pytest.mark.parametrize("op, finite, infinite", [(7.03, 6.98, 7.79), (12.5, 4.38, 4.68), (28, 2.40, 2.48), (50, 1.68, 1.72), (100, 1.24, 1.26)])
def test_formulas(op, finite, infinite):
    """The first column is that of bench ftl, which has the formula by itself."""
    assert amplification_at(1 + op / 100, 64) == pytest.approx(finite, abs=0.006)
    assert amplification_at(1 + op / 100) == pytest.approx(infinite, abs=0.01)
    assert ratio_for(amplification_at(1 + op / 100)) == pytest.approx(1 + op / 100)


@pytest.mark.parametrize("wa", [1.000001, 1.5, 3, 100, 1e6, 1e12])
def test_the_ratio_is_never_below_one(wa):
    assert 1 <= ratio_for(wa) < 20


@pytest.mark.parametrize("wa", [1, 0.5, 0, -1, math.inf, math.nan])
def test_no_ratio(wa):
    with pytest.raises(PlumblineError, match="above 1"):
        ratio_for(wa)


@pytest.mark.parametrize("ratio", [1, 0.9, 0, -1])
@pytest.mark.parametrize("pages", [None, 64])
def test_without_spare_space_amplification_has_no_bound(ratio, pages):
    assert amplification_at(ratio, pages) == math.inf


@pytest.mark.parametrize("ratio", [1 + 1e-9, 1.001, 2, 10, 1000])
@pytest.mark.parametrize("pages", [None, 1, 64, 65536])
def test_amplification_is_a_number_of_at_least_one(ratio, pages):
    assert 1 - 1e-9 <= amplification_at(ratio, pages) < math.inf


@pytest.mark.parametrize(
    "wa, hidden, share",
    [(1.5, 0.07, 35.1), (2, 0.07, 22.8), (3, 0.07, 12.0), (4, 0.07, 7.0), (1.5, 0.28, 22.3), (2, 0.28, 7.7), (3, 0.28, 0), (4, 0.28, 0), (2, 0.6, 0)],
)
def test_reserve(wa, hidden, share):
    found = reserve_for_amplification(wa, hidden)
    assert 100 * found.share == pytest.approx(share, abs=0.06)
    assert found.amplification <= wa * (1 + 1e-6)


@pytest.mark.parametrize("share, wa", [(0, 4.36), (0.125, 2.37), (0.25, 1.69), (0.5, 1.17)])
def test_four_terabytes_that_are_offered_as_less(share, wa):
    assert expected_amplification(share, 0.136, EVERYTHING_RANDOM) == pytest.approx(wa, abs=0.02)


def test_a_share_of_sequential_writes_makes_the_reserve_smaller():
    half = Workload(1.0, 0.5)
    found = reserve_for_amplification(2, 0.07, half)
    assert found.share == pytest.approx(reserve_for_amplification(3, 0.07).share)
    assert expected_amplification(found.share, 0.07, half) == pytest.approx(2, rel=1e-6)


def test_hardly_any_random_writes_need_no_reserve():
    assert reserve_for_amplification(2, 0.0, Workload(1.0, 1e-300)).share < 1e-8


@pytest.mark.parametrize("wa", [1, 1.5, 5])
def test_without_random_writes_no_reserve_is_needed(wa):
    assert reserve_for_amplification(wa, 0.0, Workload(1.0, 0.0)) == (0.0, 1.0)
    assert expected_amplification(0.0, 0.0, Workload(1.0, 0.0)) == 1.0


@pytest.mark.parametrize(
    "wa, hidden, random, word",
    [
        (1, 0.07, 1, "above 1"),
        (math.nan, 0.07, 1, "above 1"),
        (math.inf, 0.07, 1, "above 1"),
        (1.01, 0.07, 1, "larger drive"),
        (3, -0.1, 1, "hidden"),
        (3, math.nan, 1, "hidden"),
        (3, 0.07, 1.1, "random"),
        (3, 0.07, math.nan, "random"),
        (0.9, 0.07, 0, "above 1"),
    ],
)
def test_what_no_reserve_gives(wa, hidden, random, word):
    with pytest.raises(PlumblineError, match=word):
        reserve_for_amplification(wa, hidden, Workload(1.0, random))


def test_years():
    """3000 cycles, five years at one write a day: 1.64 may be programmed for each that the host writes."""
    found = reserve_for_years(5, 3000, 0.07, EVERYTHING_RANDOM)
    assert found.amplification == pytest.approx(3000 / (5 * 365.25), rel=1e-6)
    assert reserve_for_years(5, 3000, 0.07, Workload(0.1, 1.0)).share == 0
    assert reserve_for_years(5, 3000, 0.0, Workload(0.0, 1.0)).share == 0
    assert reserve_for_years(5, 3000, 0.0, Workload(1.5, 0.0)) == (0.0, 1.0)
    assert reserve_for_years(0.1, 1e300, 0.0, Workload(5e-324, 1.0)).share < 1e-8
    with pytest.raises(PlumblineError, match="5479 cycles even without"):
        reserve_for_years(5, 3000, 0.07, Workload(3.0, 1.0))
    with pytest.raises(PlumblineError, match=r"years: 5 with 1\.6 writes a day allow a write amplification of 1\.03, which needs a reserve of 71 %"):
        reserve_for_years(5, 3000, 0.07, Workload(1.6, 1.0))


@pytest.mark.parametrize("years, cycles", [(0, 3000), (-1, 3000), (math.nan, 3000), (5, 0), (5, math.inf)])
def test_years_of_nothing(years, cycles):
    with pytest.raises(PlumblineError, match="wanted"):
        reserve_for_years(years, cycles)


@pytest.mark.parametrize(
    "before, after, wa",
    [
        ({"host_bytes_written": 0, "flash_bytes_written": 0}, {"host_bytes_written": 100 * GIB, "flash_bytes_written": 250 * GIB}, 2.5),
        ({"host_bytes_written": 0, "flash_bytes_written": 0}, {"host_bytes_written": 100 * GIB, "flash_bytes_written": 60 * GIB}, 0.6),  # it compresses
        ({"host_pages": 10, "background_pages": 5}, {"host_pages": 1010, "background_pages": 1505}, 2.5),
        ({"host_bytes_written": 0, "flash_bytes_written": 0}, {"host_bytes_written": GIB, "flash_bytes_written": GIB}, None),  # the unit of the counter
        ({"host_bytes_written": 5 * GIB, "flash_bytes_written": 0}, {"host_bytes_written": 0, "flash_bytes_written": GIB}, None),
        ({"host_bytes_written": 0, "flash_bytes_written": 9 * GIB}, {"host_bytes_written": 9 * GIB, "flash_bytes_written": 0}, None),
        ({"host_bytes_written": 0}, {"host_bytes_written": 9 * GIB, "flash_bytes_written": 9 * GIB}, None),
        ({"host_pages": 7, "background_pages": 7}, {"host_pages": 7, "background_pages": 9}, None),
        ({}, {}, None),
    ],
)
def test_counted(before, after, wa):
    found = counted_amplification(before, after)
    assert (found.value if found else None) == (None if wa is None else pytest.approx(wa))
    assert found is None or found.low <= found.value <= found.high


def run_plan(wanted, p99_of, begin=0.2):
    """The planner with a drive: reserves that were measured, and the answer."""
    results = []
    while True:
        plan = plan_runs(wanted, results, begin)
        if plan.measure is None:
            return [share for share, _tail in results], plan
        assert plan.measure not in [share for share, _tail in results]
        results.append((plan.measure, p99_of(plan.measure)))
        assert len(results) <= MOST_RUNS


@pytest.mark.parametrize("needed", [0.0, 0.01, 0.03, 0.08, 0.1, 0.15, 0.2, 0.21, 0.3, 0.42, 0.5])
@pytest.mark.parametrize("begin", [0.0, 0.05, 0.2, 0.5])
def test_latency_by_bisection(needed, begin):
    runs, plan = run_plan(1000, lambda share: 900 if share >= needed else 1500, begin)
    assert runs[0] == begin
    assert plan.answer is None or plan.answer >= needed
    if needed <= 0.42:
        assert plan.answer is not None and plan.answer - needed <= 0.13


def test_the_second_run_is_at_a_half():
    assert plan_runs(1000, [(0.2, 900)]).measure == 0.1
    assert plan_runs(1000, [(0.2, 1100)]).measure == 0.35


@pytest.mark.parametrize("tail", [5000, math.nan, 0, -1, math.inf])
def test_nothing_is_enough(tail):
    runs, plan = run_plan(1000, lambda _share: tail)
    assert plan.answer is None and "not enough" in plan.why and len(runs) == MOST_RUNS


def test_a_larger_reserve_that_fails_outranks_a_smaller_one_that_holds():
    plan = plan_runs(1000, [(0.2, 900), (0.1, 900), (0.05, 900), (0.3, 1100)])
    assert plan.measure is None and plan.answer is None


@pytest.mark.parametrize("wanted, results", [(0, []), (-1, []), (math.nan, []), (math.inf, []), (1000, [(0.6, 900)]), (1000, [(math.nan, 900)])])
def test_hostile_wishes(wanted, results):
    with pytest.raises(PlumblineError, match="target: wanted a number above 0"):
        plan_runs(wanted, results)
