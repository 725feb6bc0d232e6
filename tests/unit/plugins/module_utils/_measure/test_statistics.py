# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import statistics


@pytest.mark.parametrize(
    "tail, freedom, t",
    [
        # NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2; the ends by the closed forms for 1 and 2 degrees of freedom
        (0.1, 1, 3.078),
        (0.025, 1, 12.706),
        (0.001, 1, 318.313),
        (0.025, 2, 4.303),
        (0.005, 3, 5.841),
        (0.025, 4, 2.776),
        (0.05, 7, 1.895),
        (0.01, 10, 2.764),
        (0.025, 30, 2.042),
        (0.001, 60, 3.232),
        (0.025, 100, 1.984),
        (1e-6, 2, math.sqrt(2) * (1 - 2e-6) / math.sqrt(1 - (1 - 2e-6) ** 2)),
    ],
)
def test_quantiles_of_student(tail, freedom, t):
    assert statistics.t_quantile(tail, freedom) == pytest.approx(t, rel=5e-4)


def test_the_error_over_all_looks():
    assert statistics.spent(0.05, 1) == pytest.approx(0.025)
    assert math.fsum(statistics.spent(0.05, look) for look in range(1, 10**5)) == pytest.approx(0.05, rel=1e-4)


@pytest.mark.parametrize(
    "events, tail, low, high",
    [
        # Garwood 1936, table; with no event the upper bound is -ln(tail)
        (0, 0.005, 0.0, 5.298),
        (1, 0.005, 0.00501, 7.430),
        (5, 0.025, 1.623, 11.668),
        (10, 0.025, 4.795, 18.390),
        (30, 0.005, 17.767, 47.207),
        (500, 0.025, 457.1, 545.8),
    ],
)
def test_bounds_of_poisson(events, tail, low, high):
    found = statistics.poisson_bounds(events, tail)
    assert found == (pytest.approx(low, rel=1e-3, abs=1e-4), pytest.approx(high, rel=1e-3))


def test_the_bounds_hold_the_mean_as_often_as_they_promise():
    dice = random.Random("poisson")
    for mean in (0.3, 2.0, 9.0):
        missed = 0
        for _turn in range(2000):
            events, left = 0, dice.expovariate(1)
            while left < mean:
                events, left = events + 1, left + dice.expovariate(1)
            low, high = statistics.poisson_bounds(events, 0.05)
            missed += not low <= mean <= high
        assert missed <= 0.1 * 2000
