# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import math
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import share as throughput_share
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.share import LEGS, VOLUMES, Block, Share, ShareOptions

MIB = 1 << 20


@pytest.mark.parametrize(
    "logs, share, half",
    [
        ([0.0, 0.0, 0.0], 1.0, 0.0),
        ([math.log(0.5)] * 4, 0.5, 0.0),
        ([-0.01, 0.0, 0.01], 1.0, 4.3027 * 0.01 / math.sqrt(3)),
    ],
)
def test_the_interval(logs, share, half):
    found = throughput_share.interval(logs, 0.05)
    assert found.share == pytest.approx(share)
    assert math.log(found.high / found.low) / 2 == pytest.approx(half, rel=1e-4, abs=1e-12)


def test_the_interval_to_a_stored_baseline():
    """Welch: for two samples alike the degrees of freedom are those of the pooled test."""
    found = throughput_share.interval_apart([-0.11, -0.1, -0.09], [-0.01, 0.0, 0.01], 0.05)
    assert found.share == pytest.approx(math.exp(-0.1))
    assert math.log(found.high / found.low) / 2 == pytest.approx(2.7764 * 0.01 * math.sqrt(2 / 3), rel=1e-4)


@pytest.mark.parametrize(
    "share, verdict",
    [
        (Share(0.95, 0.9, 1.0), PASS),
        (Share(0.95, 0.8999, 1.0), INCONCLUSIVE),
        (Share(0.85, 0.8, 0.9), INCONCLUSIVE),
        (Share(0.85, 0.8, 0.8999), FAIL),
        (Share(1.2, 1.1, 1.3), PASS),
        (Share(0.45, 0.0, float("inf")), INCONCLUSIVE),
    ],
)
def test_what_is_certain(share, verdict):
    assert throughput_share.judge_share(share, 0.9) == verdict


def machine(share, noise=0.01, seed=0, blocks=10**6, busy=0.2, busiest=0.1, drift=0.0):
    """A host with such a share: answers requests for blocks, and keeps what was asked for."""
    dice = random.Random(seed)
    asked = []

    def run(side):
        if len(asked) >= blocks:
            return None
        asked.append(side)
        rate = 100 * MIB * (share if side == VOLUMES else 1) * math.exp(dice.gauss(0, noise) + drift * len(asked))
        return Block(rate, rate / 8192, busy, busiest, (("a", rate / 2), ("b", rate / 2)) if side == LEGS else ())

    return asked, run


def measure(share, options=None, baseline=(), **host):
    asked, run = machine(share, **host)
    return asked, throughput_share.drive(throughput_share.measure_share(options or ShareOptions(), baseline, random.Random(host.get("seed", 0))), run)


@pytest.mark.parametrize("drift", [0.0, 0.003])
@pytest.mark.parametrize("share, verdict", [(1.0, PASS), (0.97, PASS), (0.5, FAIL), (0.8, FAIL)])
def test_a_measurement(share, verdict, drift):
    asked, found = measure(share, drift=drift)
    assert found.verdict == verdict
    assert len(asked) % 4 == 0 and found.blocks == len(asked) >= 12
    assert all({first, second} == {LEGS, VOLUMES} for first, second in zip(asked[::2], asked[1::2]))
    assert found.share.low < share < found.share.high and found.share.half <= 0.05
    assert found.stack / found.raw == pytest.approx(share, rel=0.03)
    assert [name for name, _rate in found.rates] == ["a", "b"]


@pytest.mark.parametrize(
    "host, words",
    [
        ({"blocks": 0}, "the budget was spent after 0 blocks; 12 are the fewest that give an interval"),
        ({"blocks": 11}, "the budget was spent after 11 blocks"),
        ({"blocks": 40, "share": 0.9}, "neither certainly above nor certainly below 0.90, and the budget was spent"),
        ({"blocks": 12, "noise": 0.5}, "neither certainly above nor certainly below 0.90"),
        ({"busy": 0.51}, "the CPUs were 51 % busy (more than 50 %)"),
        ({"busiest": 0.95}, "fio's busiest job took 95 % of a CPU"),
        ({"busy": 0.9, "share": 0.5}, "the CPUs were 90 % busy"),
    ],
)
def test_what_cannot_be_told(host, words):
    _asked, found = measure(host.pop("share", 1.0), **host)
    assert found.verdict == INCONCLUSIVE and words in found.why


def test_a_narrow_interval_that_is_undecided_is_measured_on():
    _asked, narrow = measure(0.92, ShareOptions(precision=0.5))
    assert narrow.verdict == PASS and narrow.share.low >= 0.9


def test_a_certain_share_is_measured_on_until_it_is_precise():
    asked, found = measure(0.5, ShareOptions(precision=0.01), noise=0.03)
    assert found.verdict == FAIL and found.share.half <= 0.01 and len(asked) > 12


def test_a_stored_baseline_is_not_loaded_again():
    asked, found = measure(0.95, baseline=[100 * MIB * factor for factor in (0.99, 1.0, 1.01, 1.0, 0.995, 1.005)], noise=0.005)
    assert set(asked) == {VOLUMES} and found.verdict == PASS
    assert found.raw == pytest.approx(100 * MIB) and found.raw_blocks == () and found.raw_iops == 0


def test_the_order_of_each_pair_is_drawn_anew():
    orders = set()
    for seed in range(20):
        asked, _found = measure(1.0, seed=seed)
        orders.add(tuple(asked[::2][:6]))
    assert len(orders) > 10


def test_a_block_in_which_nothing_was_done_is_no_verdict_and_no_traceback():
    for silent in (LEGS, VOLUMES):
        found = throughput_share.drive(throughput_share.measure_share(ShareOptions()), lambda side, silent=silent: Block(0.0 if side == silent else 1e8))
        assert (found.verdict, found.share) == (INCONCLUSIVE, None)
        assert "nothing was completed in a block of the %s" % silent in found.why


@pytest.mark.parametrize("baseline", [[1e8], [1e8, 0.0]])
def test_a_baseline_that_says_too_little_is_no_verdict(baseline):
    asked, found = measure(1.0, baseline=baseline)
    assert found.verdict == INCONCLUSIVE and "no two blocks with a rate" in found.why and not asked


def test_a_stored_baseline_needs_fewer_blocks():
    _asked, found = measure(1.0, baseline=[1e8, 1e8], blocks=5)
    assert "after 5 blocks; 6 are the fewest" in found.why


def disturbance(kind, dice):
    """The log of a factor on a block's rate: well-behaved, heavy-tailed (Student's t of 3), or with pauses now and then."""
    if kind == "heavy":
        return 0.02 * dice.gauss(0, 1) / math.sqrt(sum(dice.gauss(0, 1) ** 2 for _part in range(3)) / 3)
    return dice.gauss(0, 0.02) if kind == "normal" else dice.gauss(0, 0.01) - (0.3 if dice.random() < 0.05 else 0)


@pytest.mark.parametrize("kind", ["normal", "heavy", "pauses"])
@pytest.mark.parametrize("share", [1.0, 0.85, 0.5])
def test_the_interval_holds_what_it_promises(kind, share):
    """With a look after every quadruple and a stop when it suits it misses in at most 5 %; here of 300, up to the 99.9 % quantile of that."""
    missed = 0
    for seed in range(300):
        dice, asked = random.Random("%s/%s/%d" % (kind, share, seed)), itertools.count(1)

        def run(side, dice=dice, asked=asked):
            return Block(1e8 * (share if side == VOLUMES else 1) * math.exp(disturbance(kind, dice))) if next(asked) <= 96 else None

        found = throughput_share.drive(throughput_share.measure_share(ShareOptions()), run)
        missed += not found.share.low <= share <= found.share.high
        assert found.verdict != (FAIL if share >= 0.9 else PASS)
    assert missed <= 28


@pytest.mark.parametrize(
    "rates, lines",
    [
        ((), 0),
        ((("a", 100.0), ("b", 81.0)), 0),
        ((("a", 100.0), ("b", 79.0), ("c", 10.0)), 2),
    ],
)
def test_slow_legs_are_named(rates, lines):
    assert len(throughput_share.slow_legs(rates)) == lines


def test_the_report():
    _asked, found = measure(0.5)
    _asked, none = measure(1.0, blocks=4)
    lines = throughput_share.report_throughput("bench-lv", [("rand_read", found), ("seq_read", none)], ["a note"], {})
    assert lines[0] == "bench-lv against its legs, burst rates, not steady state"
    assert lines[1].split() == ["job", "stack", "MiB/s", "raw", "MiB/s", "share", "interval", "blocks", "verdict"]
    assert lines[2].split()[0] == "rand_read" and lines[2].split()[-1] == "fail"
    assert lines[3].split()[-4:] == ["-", "-", "4", "inconclusive"]
    assert lines[-1] == "  a note" and all("\n" not in line for line in lines)


def test_as_a_module_returns_it():
    _asked, found = measure(1.0, blocks=4)
    row = throughput_share.throughput_as_dict("rand_read", found, {})
    assert (row["share"], row["low"], row["high"], row["blocks"], row["verdict"]) == (None, None, None, 4, INCONCLUSIVE)
    assert [leg["device"] for leg in row["legs"]] == ["a", "b"]
