# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import math
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.cliff import (
    Collapse,
    cliff,
    first_collapse,
    hidden_space,
    sawtooth,
)


def series(*parts):
    """(fills, rate) → windows of 1 %."""
    return [rate for fills, rate in parts for _window in range(round(100 * fills))]


def noisy(rates, share, seed="cliff"):
    dice = random.Random(seed)
    return [rate * dice.gauss(1, share) for rate in rates]


@pytest.mark.parametrize(
    "rates, found",
    [
        (series((1.07, 100), (0.5, 30)), 107),
        (series((0.5, 100), (0.01, 30), (0.5, 100)), None),  # one window alone is a stall
        (series((0.5, 100), (0.02, 30), (0.5, 100)), 50),
        (series((0.5, 100), (0.5, 96)), None),
        (series((0.5, 100), (0.5, 94)), 50),
        (series((2, 100)), None),
        (series((2, 0)), None),
        ([], None),
        ([100.0], None),
        ([100.0, 1.0], None),
        ([100.0] * 50 + [math.nan] * 2, 50),
        ([math.nan] * 50, None),
        ([math.inf] * 50 + [1.0] * 2, None),
    ],
)
def test_cliff(rates, found):
    assert cliff(rates) == found


@pytest.mark.parametrize("hidden", [0.0, 0.07, 0.125, 0.28, 0.4, 1.0])
@pytest.mark.parametrize("noise", [0.0, 0.02, 0.05])
def test_hidden_space(hidden, noise):
    collapse = first_collapse(noisy(series((1 + hidden, 100), (0.6, 40)), noise))
    assert collapse.fills == pytest.approx(1 + hidden, abs=0.021) and not (collapse.caches and noise <= 0.02)
    found = hidden_space(collapse)
    assert found.share == pytest.approx(hidden, abs=0.021)
    assert bool(found.doubt) is (hidden > 0.4)


@pytest.mark.parametrize("ends", [0.02, 0.1, 0.29, 0.45, 0.8, 0.95])
def test_the_end_of_a_cache_is_no_first_collapse(ends):
    collapse = first_collapse(series((ends, 300), (1.12 - ends, 100), (0.5, 40)))
    assert collapse.fills == pytest.approx(1.12, abs=0.02)
    assert all(one <= 0.98 for one in collapse.caches)
    if ends >= 0.29:  # a shorter one is not half of the base
        assert any(one == pytest.approx(ends, abs=0.011) for one in collapse.caches)


@pytest.mark.parametrize("rates", [series((3, 100)), series((3, 0)), [], [1.0], [math.nan] * 300])
def test_without_a_collapse_nothing_is_known(rates):
    assert first_collapse(rates) == Collapse(None)
    assert hidden_space(Collapse(None)).share is None


def saw(period, fills, low=25.0, share=0.3):
    """The rate falls for a share of each period."""
    return [low if number / 100 % period < share else 100.0 for number in range(round(100 * fills))]


@pytest.mark.parametrize(
    "rates, period, passes",
    [
        (saw(1.0, 4), 1.0, True),
        (noisy(saw(1.0, 4), 0.1), 1.0, True),
        (saw(0.98, 4), 0.98, True),
        (saw(1.1, 4), 1.1, False),
        (series((4, 100)), None, False),
        (series((1.12, 100), (2.88, 25)), None, False),  # one collapse
        ([100.0] * 112 + [25 + 10 * math.exp(-number / 60) for number in range(288)], None, False),  # and what settles behind it
        ([100 - number / 5 for number in range(400)], None, False),
        (noisy(series((4, 100)), 0.05), None, False),
        (saw(1.0, 2.9), None, False),
        ([], None, False),
        ([0.0] * 400, None, False),
        ([math.nan] * 400, None, False),
    ],
)
def test_sawtooth(rates, period, passes):
    found = sawtooth(rates)
    assert found.passes is passes
    assert found.period == (None if period is None else pytest.approx(period, abs=0.011))
    assert -1.0001 <= found.likeness <= 1.0001
