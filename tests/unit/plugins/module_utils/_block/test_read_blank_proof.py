# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sampled proof promises, and that it keeps it."""

from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.blank_proof_odds import detection, seen_for_sure
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_blank_proof import PROOF_END, PROOF_SAMPLE, PROOF_SAMPLES, proof_spans
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB

LIMIT = 2 * PROOF_END + PROOF_SAMPLES * PROOF_SAMPLE
ODD = 10 * GIB + 512 * 3


def dice_of(seed):
    generator = random.Random(seed)
    return lambda count: generator.getrandbits(8 * count).to_bytes(count, "little")


@pytest.mark.parametrize(
    "size, data, full, expected",
    [
        (100 * GIB, 0, False, 0.0),
        (100 * GIB, 1, True, 1.0),
        (LIMIT, 1, False, 1.0),  # so small that all of it is read
        (MIB, 1, False, 1.0),
        (LIMIT + MIB, 4 * MIB, False, 1.0),  # strata of two pages at most: half of them is all but sure
        (100 * GIB, 4096, False, 0.0000391),  # one page of a hundred gigabytes
        (100 * GIB, 100 * MIB, False, 0.6325),
        (100 * GIB, GIB, False, 0.99996),
        (100 * GIB, 100 * GIB, False, 1.0),
        (4 << 40, GIB, False, 0.2212),
        (4 << 40, 16 * GIB, False, 0.9821),
    ],
)
def test_detection(size, data, full, expected):
    assert detection(size, data, full) == pytest.approx(expected, rel=2e-3)


def test_detection_grows_with_the_data_and_falls_with_the_device():
    odds = [detection(100 * GIB, data) for data in range(0, 4 * GIB, 64 * MIB)]
    assert odds == sorted(odds)
    odds = [detection(size * GIB, 64 * MIB) for size in range(1, 100)]
    assert odds == sorted(odds, reverse=True)


def strata(size):
    pages = -(-(size - 2 * PROOF_END) // PROOF_SAMPLE)
    return [stratum * pages // PROOF_SAMPLES for stratum in range(PROOF_SAMPLES + 1)]


def evenly(size, pages, generator):
    """The worst arrangement: as many pages of data in each stratum, at places of its own."""
    edges = strata(size)
    each, rest = divmod(pages, PROOF_SAMPLES)
    places = set()
    for number in range(PROOF_SAMPLES):
        places.update(generator.sample(range(edges[number], edges[number + 1]), each + (number < rest)))
    return places


def one_run(size, pages, generator):
    last = strata(size)[-1]
    first = generator.randrange(last - pages)
    return set(range(first, first + pages))


def anywhere(size, pages, generator):
    return set(generator.sample(range(strata(size)[-1]), pages))


@pytest.mark.parametrize("arrange", [evenly, one_run, anywhere])
@pytest.mark.parametrize("size, megabytes", [(2 * GIB, 1), (2 * GIB, 4), (ODD, 4), (ODD, 16), (ODD, 40)])
def test_the_stated_probability_holds(arrange, size, megabytes, figure):
    """Seeded. What is stated is what the worst arrangement comes to; no arrangement does worse, but for chance (4 sigma)."""
    generator = random.Random("%s %d %d" % (arrange.__name__, size, megabytes))
    pages, tries = megabytes * MIB // PROOF_SAMPLE, 300
    stated = detection(size, megabytes * MIB)
    hits = 0
    for attempt in range(tries):
        data = arrange(size, pages, generator)
        _spans, samples = proof_spans(size, False, [], dice_of(generator.random() + attempt))
        hits += any((sample - PROOF_END) // PROOF_SAMPLE in data for sample in samples)
    slack = 4 * (stated * (1 - stated) / tries) ** 0.5
    assert hits / tries >= stated - slack
    if arrange is evenly:
        assert hits / tries <= stated + slack + 0.02  # strata differ by a page
    figure("detection", proofs=tries, arrangements_found_less_often_than_stated=0)


def test_a_run_of_two_strata_is_never_missed():
    generator = random.Random(7)
    for size in (GIB, ODD):
        for attempt in range(200):
            first = generator.randrange(PROOF_END, size - PROOF_END - seen_for_sure(size))
            _spans, samples = proof_spans(size, False, [], dice_of(attempt))
            assert any(first <= sample < first + seen_for_sure(size) for sample in samples)
    assert seen_for_sure(MIB) == 1


def test_every_page_can_be_drawn():
    """The last page of a stratum too, where the dice fall on their highest."""
    size = LIMIT + 3 * PROOF_SAMPLES * PROOF_SAMPLE
    edges = strata(size)
    for place in range(4):
        _spans, samples = proof_spans(size, False, [], lambda count, place=place: place.to_bytes(8, "little") * (count // 8))
        assert [(sample - PROOF_END) // PROOF_SAMPLE for sample in samples] == [low + place for low in edges[:-1]]
    # A device that is no whole number of pages: the last page laps over the tail, and none is left out.
    _spans, samples = proof_spans(ODD, False, [], lambda count: b"".join(number.to_bytes(8, "little") for number in range(count // 8)))
    assert max(samples) + PROOF_SAMPLE <= ODD
    assert PROOF_END + strata(ODD)[-1] * PROOF_SAMPLE >= ODD - PROOF_END
