# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim.verdict import (
    BLANK,
    CHANGED,
    KEPT,
    NOT_REACHED,
    REACHED,
    UNKNOWN,
    DriveSeen,
    Timing,
    judge_drive,
    trim_result,
    wants_timing,
)
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB

ASKED = 64 * MIB


def seen(**more):
    return DriveSeen("nvme0n1", ASKED, **more)


# What was seen, the verdict, a word of why, and whether reads have to be timed first. The first evidence that says something counts.
ROWS = [
    ({}, UNKNOWN, "neither its counters", True),
    ({"counted": 0, "contents": BLANK}, NOT_REACHED, "the kernel sent it discards of 0 B", False),
    ({"counted": int(0.98 * ASKED), "contents": BLANK}, NOT_REACHED, "the kernel sent it", False),
    ({"counted": int(0.995 * ASKED), "contents": BLANK}, REACHED, "read as blank", False),
    ({"counted": 3 * ASKED, "contents": BLANK}, REACHED, "read as blank", False),  # of others as well
    ({"counted": ASKED}, UNKNOWN, "neither", True),  # that it was sent says nothing of what the drive did
    ({"used": (GIB, GIB + ASKED, GIB), "contents": KEPT, "promised": True}, REACHED, "(NUSE) fell by 64 MiB", False),
    ({"used": (GIB, GIB + ASKED, GIB + ASKED), "contents": BLANK}, NOT_REACHED, "(NUSE) rose by 64 MiB", False),
    ({"used": (GIB, GIB, GIB), "contents": BLANK}, REACHED, "read as blank", False),  # fixed, as on many drives
    ({"used": (GIB, GIB, GIB), "contents": KEPT, "promised": True}, NOT_REACHED, "the data are still there", False),
    ({"contents": BLANK}, REACHED, "read as blank", False),
    ({"contents": KEPT, "promised": True, "faster": True}, NOT_REACHED, "by its own word", False),
    ({"contents": KEPT, "faster": True, "ratio": 3.0}, REACHED, "read 3.00 times as fast", True),
    ({"contents": KEPT, "faster": False, "ratio": 1.02}, NOT_REACHED, "no faster than those beside them (1.02 times)", True),
    ({"contents": KEPT}, UNKNOWN, "neither", True),
    ({"contents": CHANGED, "promised": True, "faster": True, "ratio": 2.0}, REACHED, "read 2.00 times as fast", True),
    ({"contents": CHANGED, "promised": True, "faster": False}, UNKNOWN, "neither", True),  # somebody else's data by now
]


@pytest.mark.parametrize("what, verdict, words, timed", ROWS, ids=[str(number) for number in range(len(ROWS))])
def test_a_drive(what, verdict, words, timed):
    found, why = judge_drive(seen(**what))
    assert found == verdict and words in why
    assert wants_timing(seen(**what)) is timed


@pytest.mark.parametrize(
    "drives, why, offered, trim, verdict",
    [
        ([BLANK, BLANK], [], True, REACHED, "pass"),
        ([BLANK, KEPT], [], True, NOT_REACHED, "fail"),
        ([BLANK, CHANGED], [], True, UNKNOWN, "inconclusive"),
        ([KEPT, CHANGED], [], True, NOT_REACHED, "fail"),
        ([BLANK], ["its bytes cannot be followed"], True, UNKNOWN, "inconclusive"),
        ([], [], True, UNKNOWN, "inconclusive"),
        ([], ["the filesystem takes no trim"], False, NOT_REACHED, "fail"),
    ],
)
def test_all_drives_together(drives, why, offered, trim, verdict):
    found = trim_result("/data01", [seen(contents=one, promised=True) for one in drives], ASKED, 1.0, why, offered)
    assert (found["trim"], found["verdict"], found["offered"]) == (trim, verdict, offered)
    assert len(found["reasons"]) == len(why) + sum(one != BLANK for one in drives)
    assert found["report"][0].startswith("/data01: trim %s" % trim.replace("_", " "))


@pytest.mark.parametrize("ratio, faster", [(1.0, False), (1.1, False), (2.5, True), (10.0, True)])
def test_timing_is_certain_and_right_ten_times_of_ten(ratio, faster):
    """Latencies as a busy drive has them: lognormal, with a tail of stalls."""
    for seed in range(10):
        dice, timing = random.Random(seed), Timing(1.5)
        for _pair in range(5000):
            written, trimmed = (dice.lognormvariate(4, 0.4) * (20 if dice.random() < 0.02 else 1) for _one in range(2))
            timing.add(trimmed / ratio, written)
            if timing.faster is not None:
                break
        assert timing.faster is faster
        assert len(timing.pairs) < 500


def test_timing_that_nothing_was_read_for():
    assert (Timing(1.5).faster, Timing(1.5).ratio) == (None, 0.0)
