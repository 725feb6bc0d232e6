# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of equal bytes, from a counter that is looked at now and then."""

from __future__ import annotations

import math
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.windows import ByteWindows


def looks(rate_of, end, least, most, seed="looks"):
    """(seconds, bytes) of a counter, looked at after pauses that are drawn; *rate_of* seconds is in bytes per second."""
    dice, now, counted, step = random.Random(seed), 0.0, 0.0, 0.001
    found, due = [(0.0, 0)], 0.0
    while counted < end:
        now += step
        counted = min(counted + rate_of(now) * step, end)
        if now >= due or counted >= end:
            found.append((now, int(counted)))
            due = now + dice.uniform(least, most)
    return found


@pytest.mark.parametrize("pauses", [(0.001, 0.002), (0.05, 0.2), (0.5, 1.0)])
def test_the_windows_add_up(pauses):
    seen = looks(lambda at: 1000 if at < 10 else 250, 20_000, *pauses)
    windows = ByteWindows(200.4)
    found = [one for look in seen for one in windows.add(*look)]
    size, seconds = windows.rest()
    assert sum(one[0] for one in found) + size == 20_000 and len(found) == 99 and {one[0] for one in found} == {200, 201}
    assert math.fsum(one[1] for one in found) + seconds == pytest.approx(seen[-1][0], abs=0.01)
    rates = [one[0] / one[1] for one in found]
    assert rates[20] == pytest.approx(1000, rel=0.02) and rates[80] == pytest.approx(250, rel=0.02)


def test_what_comes_before_the_first_byte_and_after_the_last_is_no_time():
    windows = ByteWindows(100)
    found = [one for look in [(0, 0), (60, 0), (61, 100), (62, 200), (99, 200)] for one in windows.add(*look)]
    assert found == [(100, 1.0), (100, 1.0)] and windows.rest() == (0, 0.0)


def test_a_stall_is_in_the_window_that_it_hit():
    windows = ByteWindows(100)
    found = [one for look in [(0, 0), (1, 100), (2, 150), (12, 150), (12.5, 200), (13.5, 300)] for one in windows.add(*look)]
    assert found == [(100, 1.0), (100, 11.5), (100, 1.0)]


def test_it_looks_often_enough_and_not_too_often():
    windows = ByteWindows(100)
    assert 0 < windows.pause <= 0.1
    windows.add(0, 0), windows.add(4, 100)
    assert windows.pause == 0.5
    windows.add(400, 200)
    assert windows.pause == 1.0
