# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may write to a host: the decision as a table, and a lease's file with anything in it."""

from __future__ import annotations

import json
import random

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.lease import (
    GRACE_SECONDS,
    REFUSE,
    RENEW,
    TAKE,
    TAKE_OVER,
    Lease,
    decide,
    dump,
    name_of,
    parse_lease,
    still_ours,
)

MINE, THEIRS = "a" * 32, "b" * 32
BOOT, OLD_BOOT = "11111111-2222-4333-8444-555555555555", "99999999-2222-4333-8444-555555555555"
PATH = "/run/plumbline/lease.json"


def lease(**more):
    """The lease of another run, taken at 1000 and last seen at 2000."""
    given = {"run": THEIRS, "controller": "eve@control", "boot": BOOT, "pid": 77, "started": 5, "taken": 1000.0, "renewed": 2000.0}
    return Lease(**{**given, "since": "2026-03-01T12:00:00Z", "digest": "d" * 64, **more})


@pytest.mark.parametrize(
    "found, run, now, alive, act, words",
    [
        (None, "", 2010, False, TAKE, ""),
        (None, MINE, 2010, False, TAKE, ""),
        (lease(free=True), "", 2010, False, TAKE, ""),
        (lease(free=True), "", 2010, True, TAKE, ""),
        (lease(run=MINE), MINE, 2010, True, RENEW, ""),
        (lease(run=MINE), MINE, 2010, False, RENEW, ""),
        (lease(run=MINE), MINE, 2000 + 10 * GRACE_SECONDS, False, RENEW, ""),  # nobody else took it meanwhile
        (lease(run=MINE, boot=OLD_BOOT), MINE, 2010, False, REFUSE, "the host was started anew"),
        (lease(), "", 2010, True, REFUSE, "eve@control (since 2026-03-01T12:00:00Z, last seen 10 s ago); it is at work"),
        (lease(), "", 2000 + 10 * GRACE_SECONDS, True, REFUSE, "it is at work"),  # one tool that takes hours
        (lease(), "", 2010, False, REFUSE, "it counts as gone in 590 s"),
        (lease(), MINE, 2010, False, REFUSE, "remove /run/plumbline/lease.json"),
        (lease(), "", 2000 + GRACE_SECONDS - 1, False, REFUSE, "it counts as gone in 1 s"),
        (lease(), "", 2000 + GRACE_SECONDS, False, TAKE_OVER, "its connection is closed, and nothing was heard of it for 600 s"),
        (lease(pid=0), "", 2000 + GRACE_SECONDS, False, TAKE_OVER, "taken over: nothing was heard of it for 600 s"),
        (lease(grace=0), "", 2000, False, TAKE_OVER, "nothing was heard of it for 0 s"),  # a module alone, and gone
        (lease(grace=0), "", 2000, True, REFUSE, "it is at work"),
        (lease(boot=OLD_BOOT), "", 2010, True, TAKE_OVER, "the host was started anew since"),
        (lease(boot=OLD_BOOT), "", 10, False, TAKE_OVER, "the host was started anew since"),
        (lease(), "", 1999, True, TAKE_OVER, "a time that has not come yet"),
    ],
)
def test_decision(found, run, now, alive, act, words):
    decision = decide(found, run, BOOT, now, alive, PATH)
    assert decision.act == act
    assert words in decision.text
    assert bool(decision.text) == (act in (REFUSE, TAKE_OVER))
    if act == TAKE_OVER:
        assert "bbbbbbbb of eve@control" in decision.text


def test_the_controllers_word_that_a_run_is_gone_counts_for_that_run_only():
    assert decide(lease(), "", BOOT, 2010, True, PATH, gone=THEIRS).act == TAKE_OVER
    assert decide(lease(), "", BOOT, 2010, True, PATH, gone="c" * 32).act == REFUSE
    assert decide(lease(run=MINE), MINE, BOOT, 2010, True, PATH, gone=MINE).act == RENEW


@pytest.mark.parametrize(
    "found, words",
    [
        (lease(run=MINE), ""),
        (None, "the lease of this run is gone"),
        (lease(), "is now that of run bbbbbbbb of eve@control"),
        (lease(run=MINE, free=True), "was given back"),
        (lease(run=MINE, boot=OLD_BOOT), "started anew"),
        (lease(run=MINE, digest="e" * 64), "the lease is for the plan eeeeeeeeeeee, and this step is of the plan dddddddddddd"),
    ],
)
def test_a_writer_compares(found, words):
    text = still_ours(found, {"run": MINE, "digest": "d" * 64}, BOOT, 2010)
    assert bool(text) == bool(words) and words in text


def test_round_trip():
    assert parse_lease(dump(lease())) == lease()
    assert parse_lease(dump(lease(controller="ä" * 40))).controller == "ä" * 40


@pytest.mark.parametrize("text", ["a\nb", "\x1b[31mred", "x" * 500, "\u202e", "{{ lookup('pipe', 'id') }}"])
def test_a_name_of_somebody_elses_is_one_line(text):
    shown = name_of(text)
    assert shown.isprintable() and len(shown) <= 80


def test_fuzz_of_the_file():
    """Whatever stands in the file: a lease as dump() writes it, or ValueError, and no other end."""
    dice = random.Random(7)
    good = dump(lease())
    values = [None, True, -1, 0, 1.5, float("inf"), float("nan"), 10**400, "", "x", "b" * 32, [], {}, [[]], "\ud800", "\x1b[2J"]
    kept = 0
    for turn in range(20000):
        kind = turn % 4
        if kind == 0:
            text = good[: dice.randrange(len(good))]
        elif kind == 1:
            letters = list(good)
            for _change in range(dice.randrange(1, 4)):
                letters[dice.randrange(len(letters))] = chr(dice.choice([dice.randrange(128), dice.randrange(0xD800)]))
            text = "".join(letters)
        elif kind == 2:
            found = json.loads(good)
            found[dice.choice(list(found))] = dice.choice(values)
            text = json.dumps(found)
        else:
            text = dice.choice(["[" * 3000, "{" * 3000, "1", "null", '"x"', "[]", "{}", "", "\0" * 10, "NaN", "1" * 4000])
        try:
            one = parse_lease(text)
        except ValueError:
            continue
        kept += 1
        assert decide(one, "", BOOT, 2010, False, PATH).act in (TAKE, TAKE_OVER, REFUSE)
        assert "\n" not in decide(one, "", BOOT, 2010, False, PATH).text
    assert kept
