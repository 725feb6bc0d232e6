# SPDX-License-Identifier: GPL-3.0-or-later
"""The statistics of the offset sweep. That its errors are as rare as it says is shown by `./plumbline bench sweep`."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import evidence
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import search as sweep_search
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.evidence import AtLeast, Level, RankSum, Screen, Wealth
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.search import NO_PREFERENCE, PHASE, search

KIB = 1024


class Device:
    """Pages of *page* bytes from *phase*; a read that touches one more than it must takes *ratio* times as long."""

    def __init__(self, page, phase, ratio=1.5, noise=0.05, seed=0):
        self.page, self.phase, self.ratio, self.noise = page, phase, ratio, noise
        self.dice = random.Random("%d/%d/%s/%s" % (page, phase, ratio, seed))
        self.rounds = []

    def __call__(self, wanted):
        self.rounds.append(wanted)
        return [self.read(wanted.grain, wanted.size, offset) for offset in wanted.offsets]

    def read(self, grain, size, offset):
        start = self.dice.randrange(1 << 20) * grain + offset - self.phase
        pages = (start + size - 1) // self.page - start // self.page + 1
        return (100 + 100 * (self.ratio - 1) * (pages - -(-size // self.page))) * self.dice.gauss(1, self.noise)


def sweep(device, options=None, stop_after=None):
    asking = search(options or Options(), device.dice.shuffle)
    try:
        wanted = next(asking)
        for number in itertools.count():
            wanted = asking.send(None if number == stop_after else device(wanted))
    except StopIteration as done:
        return done.value


@pytest.mark.parametrize("page", [4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB])
@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("ratio", [1.3, 2])
def test_it_finds_the_phase_and_the_grain(page, part, ratio):
    phase = (page // 8 * part + 512 * (part % 2)) % page
    found = sweep(Device(page, phase, ratio), Options(max_bytes=512 << 20))
    assert (found.verdict, found.grain, found.phase) == (PHASE, page, phase)
    assert found.bytes < 16 << 20 or page > 16 * KIB
    assert abs(found.ratio - ratio) < 0.3 * (ratio - 1) + 0.05


@pytest.mark.parametrize("page, phase", [(2 * KIB, 512), (KIB, 512), (2 * KIB, 0)])
def test_a_page_below_the_first_grain(page, phase):
    found = sweep(Device(page, phase, 2))
    assert (found.verdict, found.grain, found.phase) == (PHASE, page, phase)


@pytest.mark.parametrize("last", [4 * KIB, 16 * KIB, 64 * KIB])
def test_no_penalty(last):
    device = Device(4 * KIB, 0, 1)
    found = sweep(device, Options(last_grain=last))
    assert (found.verdict, found.grain, found.ratio) == (NO_PREFERENCE, last, 1.0)
    assert max(wanted.grain for wanted in device.rounds) == last


def test_a_penalty_that_does_not_matter():
    assert sweep(Device(4 * KIB, 512, 1.01)).verdict == NO_PREFERENCE


@pytest.mark.parametrize("page, verdict", [(4 * KIB, NO_PREFERENCE), (8 * KIB, PHASE), (16 * KIB, PHASE)])
def test_4kn(page, verdict):
    device = Device(page, page // 2 // 4096 * 4096, 1.5)
    found = sweep(device, Options(logical=4096))
    assert found.verdict == verdict
    assert all(offset % 4096 == 0 and wanted.size % 4096 == 0 for wanted in device.rounds for offset in wanted.offsets)
    assert verdict != PHASE or (found.grain, found.phase) == (page, device.phase)


def test_a_round_visits_every_offset_in_a_new_order():
    device = Device(4 * KIB, 0, 1.05, noise=0.2)
    sweep(device, Options(last_grain=4 * KIB, max_bytes=1 << 20))
    orders = [tuple(wanted.offsets) for wanted in device.rounds]
    assert all(sorted(order) == list(range(0, 4096, 512)) for order in orders)
    assert len(set(orders)) > len(orders) // 2


@pytest.mark.parametrize("most", [0, 32 * KIB, 100 * KIB, 1 << 20])
def test_the_byte_budget_is_kept(most):
    device = Device(4 * KIB, 0, 1.05, noise=1)
    found = sweep(device, Options(max_bytes=most))
    assert found.verdict == INCONCLUSIVE and found.bytes <= most and "byte budget of %d" % most in found.why
    assert found.bytes == sum(wanted.size * len(wanted.offsets) for wanted in device.rounds[: len(device.rounds)])
    assert found.reads == sum(len(wanted.offsets) for wanted in device.rounds)


def test_the_time_is_up():
    found = sweep(Device(4 * KIB, 0, 1.05, noise=1), stop_after=3)
    assert (found.verdict, found.reads) == (INCONCLUSIVE, 24) and "time budget" in found.why


@pytest.mark.parametrize("first, second", [(1, 1), (2, 1), (4, 4), (3, 5), (5, 3)])
def test_counts_of_u(first, second):
    counts = [0] * (first * second + 1)
    for chosen in itertools.combinations(range(first + second), first):
        rest = [rank for rank in range(first + second) if rank not in chosen]
        counts[sum(a > b for a in chosen for b in rest)] += 1
    assert evidence._u_counts(first, second) == counts


@pytest.mark.parametrize("first, second", [(4, 4), (5, 3)])
def test_the_rank_sum_gains_nothing_by_chance(first, second):
    """Over all ways to deal the ranks, each purse keeps its mean exactly; with ties it gains nothing."""
    for latencies in (list(range(8)), [0, 0, 1, 1, 2, 2, 3, 3], [5] * 8):
        dealt = list(itertools.combinations(range(8), first))
        sums = [0.0] * len(RankSum.TILTS)
        for chosen in dealt:
            whole = [latencies[at] for at in chosen]
            split = sorted(latencies[at] for at in range(8) if at not in chosen)
            wealth = RankSum()
            wealth.add(evidence._pairs_below(whole, split, 0.0), first, second)
            sums = [total + purse for total, purse in zip(sums, wealth.purses)]
        means = [total / len(dealt) for total in sums]
        assert all(mean <= 1 + 1e-9 for mean in means)
        if len(set(latencies)) == 8:
            assert all(math.isclose(mean, 1) for mean in means)


@pytest.mark.parametrize("latencies", [[1, 2, 3, 4], [1, 1, 2, 3], [1, 1, 1, 1], [1, 2, 2, 2]])
def test_a_bet_gains_nothing_by_chance(latencies):
    """Over all orders of the latencies, each purse of each phase keeps its mean."""
    orders = list(itertools.permutations(latencies))
    for phase in range(4):
        sums = [0.0] * 5
        for order in orders:
            level = Level(4, 1e-4, 0.1)
            level.add(order)
            sums = [total + purse for total, purse in zip(sums, level.faster[phase].purses)]
        assert all(math.isclose(total / len(orders), 1) for total in sums)


def test_a_bet_is_never_lost_altogether():
    wealth = Wealth(1 / 128)
    for _turn in range(20):
        wealth.add(-0.5, 0)
    assert wealth.value > 0


def test_against_a_faster_phase_nothing_is_won():
    """While one phase is faster by just the gap, the evidence that it is not stays small (Ville): here the largest of 300 runs."""
    dice = random.Random(5)
    largest = 0.0
    for _turn in range(300):
        level = Level(8, 1e-4, 0.08)
        for _round in range(60):
            level.add([100 * dice.gauss(1, 0.05) + (10 if phase else 0) for phase in range(8)])
            largest = max(largest, level.alike[0].value)
    assert largest < 300 / 0.01


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("hoped, low, high", [(0.05, 0.05, 0.05), (0.2, 0.05, 0.1)])
def test_a_penalty_that_is_certain(count, hoped, low, high):
    """The penalty is 0.1 of the base: what is certain is below, and what is hoped for too much comes down to it."""
    dice = random.Random(3)
    bound = AtLeast(count, hoped, 1e-6)
    while not bound.enough():
        bound.add([100 * dice.gauss(1, 0.03) + (10 if phase else 0) for phase in range(count)])
    assert low <= bound.value <= high
    assert bound.rounds < 500


@pytest.mark.parametrize("penalty", [0, -5])
def test_no_penalty_is_never_certain(penalty):
    dice = random.Random(4)
    bound = AtLeast(2, 0.05, 1e-6)
    for _round in range(2000):
        bound.add([100 * dice.gauss(1, 0.03), 100 * dice.gauss(1, 0.03) + penalty])
    assert bound.value == 0 and not bound.enough()


@pytest.mark.parametrize("page, phase", [(2 * KIB, 512), (4 * KIB, 1024), (8 * KIB, 1024), (16 * KIB, 5120)])
@pytest.mark.parametrize("estimate", [-0.5, 0.01, 0.3, 2.0])
def test_a_penalty_that_is_misjudged(monkeypatch, page, phase, estimate):
    """A burst makes the estimate far too large; where that was taken for the penalty, a pair that differs passed for alike."""
    monkeypatch.setattr(Level, "penalty", lambda self, winner: estimate)
    found = sweep(Device(page, phase, 1.15), Options(max_bytes=512 << 20))
    assert (found.verdict, found.grain, found.phase) == (PHASE, page, phase)


def test_the_screen_sees_half_a_page():
    screen = Screen(8 * KIB, 512, 1e-4, 0.08)
    device = Device(8 * KIB, 1536, 2)
    for _turn in range(30):
        offsets = [device.dice.randrange(2) * 512 + part * 1024 for part in range(8)]
        screen.add(offsets, [device.read(8 * KIB, 4 * KIB, offset) for offset in offsets])
    assert screen.found() and not screen.none()
    best = max(range(16), key=lambda phase: screen.exists[phase].value)
    assert abs(best * 512 - 1536) <= 512


COST = "(200 reads, 1 MiB, 1.2 s)"
FASTEST = "sda: fastest at offset 512 of 4 KiB; elsewhere a read takes 1.50 times as long " + COST
NONE = "sda: no offset is faster by a ratio of 1.1 or more, up to a grain of 64 KiB " + COST
CONTRADICTION = "sda: by the kernel it is offset 0: a layer below is misaligned, or the device lies about its alignment; compare stack_info"


@pytest.mark.parametrize(
    "found, expected, lines",
    [
        (sweep_search.Verdict(PHASE, 512, 4096, 1.5, 200, 1 << 20), 512, [FASTEST]),
        (sweep_search.Verdict(PHASE, 512, 4096, 1.5, 200, 1 << 20), -1, [FASTEST]),
        (sweep_search.Verdict(PHASE, 512, 4096, 1.5, 200, 1 << 20), 0, [FASTEST, CONTRADICTION]),
        (sweep_search.Verdict(NO_PREFERENCE, 0, 65536, 1.0, 200, 1 << 20), 0, [NONE]),
        (
            sweep_search.Verdict(INCONCLUSIVE, why="it rained"),
            -1,
            ["sda: inconclusive, it rained (0 reads, 0 B, 1.2 s); allow more, or measure when it is quieter"],
        ),
    ],
)
def test_report(found, expected, lines):
    assert sweep_search.report_sweep("sda", found, 1.1, expected, 1.23) == lines


def test_what_is_excluded_when_the_budget_ends():
    """The coarse penalty is excluded first, on every grain; the search for the fine one may end without a verdict."""
    whole = sweep(Device(4 * KIB, 0, 1.0), Options())
    assert (whole.verdict, whole.excluded) == (NO_PREFERENCE, 1.1)
    found = [sweep(Device(4 * KIB, 0, 1.0), Options(max_bytes=share * whole.bytes // 100)) for share in range(5, 100, 5)]
    cut = [one for one in found if one.verdict == INCONCLUSIVE]
    assert {one.excluded for one in cut} == {0.0, 1.25} and not any(one.verdict == PHASE for one in found)
    words = sweep_search.report_sweep("dm-0", next(one for one in cut if one.excluded), 1.1, 0, 1.0)[0]
    assert "a penalty of 1.25 or more is excluded" in words


@pytest.mark.parametrize("ratio", [1.3, 2.0])
def test_a_least_penalty_above_the_coarse_one_is_looked_for_once(ratio):
    found = sweep(Device(4 * KIB, 0, 1.0), Options(min_ratio=ratio))
    assert (found.verdict, found.excluded) == (NO_PREFERENCE, ratio)
