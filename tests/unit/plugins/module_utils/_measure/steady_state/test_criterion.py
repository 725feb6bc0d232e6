# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random
import re

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import (
    RUNNING,
    STEADY,
    LoadRound,
    correlation,
    judge_steady,
    line_slope,
    rate_interval,
    snia_holds,
    windows_agree,
    without_stalls,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS

CAPACITY = 1000 * 1000
ROUND = CAPACITY // 20


def rounds_of(rates, **more):
    return [LoadRound(ROUND, ROUND / rate, **more) for rate in rates]


def quiet(count, rate=100.0, scatter=0.002):
    """Rates that scatter by as much above as below."""
    return [rate * (1 + scatter * (-1) ** number) for number in range(count)]


@pytest.mark.parametrize(
    "values, slope",
    [([], 0), ([5], 0), ([1, 2], 1), ([1, 2, 3, 4, 5], 1), ([5, 5, 5], 0), ([9, 6, 3], -3), ([0, 0, 1, 0, 0], 0), ([1, 1, 1, 1, 2], 0.2)],
)
def test_slope(values, slope):
    assert line_slope(values) == pytest.approx(slope)


@pytest.mark.parametrize(
    "values, holds",
    [
        ([100, 100, 100, 100, 100], True),
        ([90, 110, 90, 110, 100], True),  # 0.20 apart, exactly
        ([89.9, 110, 90, 110, 100.1], False),
        ([110, 105, 100, 95, 90], False),  # 0.20 apart, and the line falls by 0.20
        ([105, 102.5, 100, 97.5, 95], True),  # by 0.10
        ([105.1, 102.5, 100, 97.5, 94.9], False),
        ([100, 100, 100, 100], False),
        ([100] * 6, False),
        ([100], False),
        ([], False),
        ([0, 0, 0, 0, 0], False),
        ([0, 0, 100, 0, 0], False),
        ([100, 100, 100, 100, math.nan], False),
        ([100, 100, 100, 100, math.inf], False),
        ([-100] * 5, False),
    ],
)
def test_the_letter_of_the_standard(values, holds):
    assert snia_holds(values) is holds


@pytest.mark.parametrize(
    "values, agree",
    [
        ([100] * 10, True),
        ([101.4] * 5 + [98.6] * 5, True),
        ([101.6] * 5 + [98.4] * 5, False),  # 3.2 % between the means
        ([100 + 0.5 * number for number in range(10)], True),  # 4.4 % over the ten
        ([100 + 0.6 * number for number in range(10)], False),  # 5.3 %
        ([100] * 9 + [80], False),
        ([100] * 9, False),
        ([0] * 10, False),
    ],
)
def test_two_windows(values, agree):
    assert windows_agree(values) is agree


@pytest.mark.parametrize(
    "values, low, high",
    [
        ([1.0] * 20, 0.75, 0.9),  # no scatter: what twenty values leave room for
        ([1, -1] * 10, 0.75, 0.85),
        ([1, -1] * 50, 0.0, 0.0),
        (list(range(100)), 0.9, 0.9),
        ([1, 2, 3], 0.9, 0.9),
    ],
)
def test_correlation(values, low, high):
    assert low <= correlation(values) <= high


def test_the_interval_is_wider_for_rates_that_are_alike():
    dice = random.Random(1)
    alone = [dice.gauss(100, 2) for _turn in range(60)]
    assert rate_interval(sorted(alone)) > 2 * rate_interval(alone)
    assert rate_interval(alone) < rate_interval(alone[:30]) < rate_interval(alone[:10])


@pytest.mark.parametrize("rates", [[], [1.0], [1.0, 2.0], [0.0] * 10])
def test_no_interval(rates):
    assert rate_interval(rates) == math.inf


@pytest.mark.parametrize(
    "one, rate",
    [((100, 2.0), 50), ((0, 2.0), 0), ((100, 0.0), 0), ((100, -1.0), 0), ((-1, 1.0), 0), ((100, math.nan), 0), ((100, math.inf), 0), ((1 << 80, 5e-324), 0)],
)
def test_the_rate_of_a_round_is_always_a_number(one, rate):
    assert LoadRound(*one).rate == rate


def test_stalled_rounds_are_left_out_and_counted():
    rates = quiet(40)
    rates[35] = 40.0
    found = judge_steady(rounds_of(rates), CAPACITY)
    assert (found.verdict, found.stalled) == (STEADY, 1)
    assert found.rate == pytest.approx(100, rel=0.002)
    assert len(without_stalls(rounds_of(rates))) == 39
    rates[30:40:2] = [40.0] * 5
    rates[31:40:3] = [40.0] * 3
    assert judge_steady(rounds_of(rates), CAPACITY).verdict == RUNNING


def first_steady(rates, **options):
    """The rounds after which a run ends, and its verdict."""
    for count in range(len(rates) + 1):
        found = judge_steady(rounds_of(rates[:count]), CAPACITY, DEFAULTS._replace(**options))
        if found.verdict != RUNNING:
            return count, found
    return None, found


def test_a_flat_drive_is_steady_no_sooner_than_its_physical_space_was_written():
    count, found = first_steady(quiet(80))
    assert 1.0 <= found.fills <= 1.5 and count == round(found.fills * 20)
    assert found.verdict == STEADY and found.low < 100 < found.high
    assert first_steady(quiet(80), min_fills=2.0)[1].fills >= 2.0


@pytest.mark.parametrize("hidden", [0.07, 0.2, 0.28, 0.4, 0.5])
@pytest.mark.parametrize("cache", [0, 2, 6])
def test_neither_fresh_space_nor_a_cache_is_steady(hidden, cache):
    """The rate falls to a half when the physical space is full, and is three times as high in the cache."""
    fresh = round(hidden * 20)
    rates = [(300.0 if number < cache else 100.0) if number < max(fresh, cache) else 50.0 for number in range(80)]
    rates = [rate * factor / 100 for rate, factor in zip(rates, quiet(80))]
    found = first_steady(rates)[1]
    assert found.verdict == STEADY and found.rate == pytest.approx(50, rel=0.01)
    letter = first_steady(rates, snia=True)[1]
    if fresh >= cache + 5:
        assert letter.verdict == STEADY and letter.rate > 99  # why the letter alone will not do


@pytest.mark.parametrize(
    "rates, why",
    [
        ([100 * 0.97**number for number in range(80)], "stalled|agree"),
        ([100, 60] * 40, "stalled|agree"),
        ([0.0] * 80, "stalled|agree"),
        ([100 + 12 * math.sin(number / 4) for number in range(80)], "agree|known"),
    ],
)
def test_inconclusive_after_four_fills(rates, why):
    found = judge_steady([LoadRound(ROUND, ROUND / rate if rate else 0.0) for rate in rates], CAPACITY)
    assert found.verdict == INCONCLUSIVE and found.fills == pytest.approx(4)
    assert re.search(why, found.why) and found.low is None and math.isfinite(found.rate)


@pytest.mark.parametrize("capacity", [0, -1])
def test_a_capacity_of_nothing_is_never_steady(capacity):
    found = judge_steady(rounds_of(quiet(80)), capacity)
    assert found.verdict == RUNNING and found.fills == 0


@pytest.mark.parametrize("count", [0, 1, 2, 9, 19])
def test_too_few_rounds(count):
    found = judge_steady(rounds_of(quiet(count)), CAPACITY)
    assert found.verdict == RUNNING and "that are the least" in found.why
    assert judge_steady(rounds_of(quiet(count)), CAPACITY, DEFAULTS._replace(snia=True)).verdict == (STEADY if count >= 5 else RUNNING)


@pytest.mark.parametrize(
    "temperatures, hot, verdict, word",
    [
        ([40] * 80, None, STEADY, ""),
        ([69] * 80, None, STEADY, ""),
        ([70] * 80, None, INCONCLUSIVE, "slow itself down"),
        ([75] * 80, 80, STEADY, ""),
        ([80] * 80, 80, INCONCLUSIVE, "slow itself down"),
        ([20 + number // 2 for number in range(80)], None, INCONCLUSIVE, "warming up"),
        ([None] * 80, None, STEADY, ""),
    ],
)
def test_temperature(temperatures, hot, verdict, word):
    rounds = [one._replace(temperature=degrees) for one, degrees in zip(rounds_of(quiet(80)), temperatures)]
    found = judge_steady(rounds, CAPACITY, DEFAULTS._replace(hot=hot))
    assert found.verdict == verdict and word in found.why


@pytest.mark.parametrize(
    "tails, verdict",
    [
        ([900.0] * 80, STEADY),
        ([900.0, 1000.0] * 40, STEADY),
        ([900.0] * 55 + [1300.0] * 25, INCONCLUSIVE),
        ([500.0 + 10 * number for number in range(80)], INCONCLUSIVE),
        ([None] * 80, INCONCLUSIVE),
        ([900.0] * 79 + [0.0], STEADY),  # the worst of a group counts
    ],
)
def test_the_tail_has_to_stand_still_where_that_is_asked_for(tails, verdict):
    rounds = [one._replace(p99_us=tail) for one, tail in zip(rounds_of(quiet(80)), tails)]
    assert judge_steady(rounds, CAPACITY).verdict == STEADY
    assert judge_steady(rounds, CAPACITY, DEFAULTS._replace(latency=True)).verdict == verdict


def test_noise_makes_a_run_longer_and_no_worse():
    fills = []
    for noise in (0.002, 0.02, 0.05):
        dice = random.Random("noise/%g" % noise)
        found = first_steady([100 * max(dice.gauss(1, noise), 0.1) for _round in range(80)])[1]
        assert found.verdict == STEADY and found.rate == pytest.approx(100, rel=0.03) and found.low < 100 < found.high
        fills.append(found.fills)
    assert fills == sorted(fills) and fills[0] < fills[-1]
