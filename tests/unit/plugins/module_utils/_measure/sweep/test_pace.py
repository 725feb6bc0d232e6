# SPDX-License-Identifier: GPL-3.0-or-later
"""The pace of a probe, in simulated time: others load the device or do not, the probe reads in rounds."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import DiskLoad
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.pace import Pace


def run(others, seconds=10.0, rate=500, share=0.02, reads=8, latency_ms=0.2, each_ms=1.0, account=True, flushes=0):
    """Read for so many simulated seconds beside *others*(time) → requests per second. Returns (pace, load, requests, the others' requests).

    *flushes*: each access ends with so many, one to each of so many disks, which take as long as the rest.
    """
    now, foreign, own = 100.0, 0.0, 0
    end = now + seconds

    def load():
        return DiskLoad(int(foreign) + own, foreign * each_ms + own * latency_ms) if account else None

    def pass_time(step):
        nonlocal now, foreign
        foreign += others(now - 100) * step
        now += step

    each = 1 + flushes
    pace = Pace(rate, share, now, load())
    pass_time(Pace.WINDOW)
    pace.look(now, load())
    while now < end:
        pace.look(now, load())
        wait = pace.wait(now, reads * each)
        if wait > 0:
            pass_time(max(wait, 1e-6))  # a float's last digit would not move the clock
            continue
        began = now
        pass_time(reads * latency_ms / 1000)
        pass_time(reads * latency_ms / 1000 if flushes else 0)
        own += reads * each
        pace.note(began, reads, reads * each, max(flushes, 1) * (2 if flushes else 1) * reads * latency_ms)
    return pace, load(), own, foreign


@pytest.mark.parametrize("rate", [100, 500])
def test_an_idle_device_is_limited_by_the_rate_alone(rate):
    pace, load, own, _foreign = run(lambda _time: 0, rate=rate)
    assert 0.95 * 10 * rate <= own <= 10 * rate + 8
    assert pace.made(load) == 1.0 and pace.held == 0


@pytest.mark.parametrize("others", [500, 3000, 20000])
@pytest.mark.parametrize("share", [0.005, 0.02, 0.2])
@pytest.mark.parametrize("reads", [8, 32, 128])
def test_a_loaded_device_gives_the_share_and_no_more(others, share, reads):
    pace, load, own, foreign = run(lambda _time: others, share=share, reads=reads, seconds=60)
    assert own / (own + foreign) <= share
    assert pace.made(load) == pytest.approx(own / (own + foreign), rel=0.01)
    # What may be had is had, but for the first round, and the rate holds as well.
    assert own >= 0.8 * min(share / (1 - share) * others * 60, 500 * 60) - 2 * reads


def test_a_device_with_quick_requests_is_idle_still():
    """100 requests of 0.2 ms a second keep a device busy for 2 % of the time: nobody waits for the probe."""
    pace, _load, own, _foreign = run(lambda _time: 100, each_ms=0.2)
    assert own > 4500 and pace.held == 0


def test_load_that_comes_and_goes():
    _pace, _load, own, foreign = run(lambda time: 2000 if time > 5 else 0, seconds=10)
    assert own <= 500 * 5.2 + 0.03 * foreign
    _pace, _load, own, foreign = run(lambda time: 2000 if time < 5 else 0, seconds=10)
    assert 500 * 3.5 <= own <= 500 * 5 + 0.03 * foreign


def test_own_slow_reads_are_no_load_of_others():
    pace, load, own, _foreign = run(lambda _time: 0, latency_ms=20.0, reads=8)
    assert pace.held == 0 and own >= 10 / 0.020 * 0.9 and pace.made(load) == 1.0


@pytest.mark.parametrize("disks", [1, 2, 5])
def test_own_flushes_are_no_load_of_others(disks):
    """A write that is made durable flushes every disk below the volume."""
    pace, load, own, _foreign = run(lambda _time: 0, latency_ms=2.0, flushes=disks)
    assert pace.held == 0 and own >= 0.9 * (1 + disks) * 10 / 0.004 and pace.made(load) == 1.0


@pytest.mark.parametrize("disks", [1, 3])
def test_flushes_count_against_the_share(disks):
    _pace, _load, own, foreign = run(lambda _time: 3000, latency_ms=1.0, flushes=disks, seconds=60)
    assert own / (own + foreign) <= 0.02


@pytest.mark.parametrize("options", [{"account": False}, {"share": 1.0}])
def test_no_account_or_no_limit(options):
    pace, load, own, _foreign = run(lambda _time: 5000, **options)
    assert own > 4500 and pace.held == 0
    assert (pace.made(load) == 0.0) == (load is None)


def test_no_rate():
    _pace, _load, own, _foreign = run(lambda _time: 0, rate=0, seconds=1)
    assert own > 4000
