# SPDX-License-Identifier: GPL-3.0-or-later
"""The thresholds for synchronous writes against what was measured: the checks and the verdict. Pure."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import number_text
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import Row
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.samples import (
    UNSEEN_SECONDS,
    Interval,
    Measured,
    Samples,
    look_of,
    samples_for,
)


def asked(measured: Measured, options: Options) -> Measured:
    """The measured rows that were asked for."""
    return [(row, samples) for row, samples in measured if row in options.rows]


class Check(NamedTuple):
    """One threshold against what was measured, with the sentence for it."""

    row: str
    option: str
    limit: float
    interval: Optional[Interval]
    verdict: str
    text: str


def wants_more(samples: Samples, row: Row, options: Options) -> bool:
    """Whether the row has a threshold that its samples do not carry yet. For a percentile their number decides, never what they are; a rate is
    looked at whenever there is twice as much of it, and each look has its part of the error.
    """
    if samples.unable:
        return False
    if row.name in options.max_p99_ms and samples.ops < samples_for(0.99):
        return True
    if row.name not in options.min_ops:
        return False
    rounds = len(samples.pieces)
    if look_of(rounds) == look_of(rounds + 1):
        return True  # between two looks
    return _compare(row, samples, "min_ops", options.min_ops[row.name], samples.rate_interval()).verdict == INCONCLUSIVE


def compare(measured: Measured, options: Options) -> List[Check]:
    """Every threshold, in the order of the rows."""
    checks = []
    for row, samples in measured:
        if row.name in options.min_ops:
            checks.append(_compare(row, samples, "min_ops", options.min_ops[row.name], samples.rate_interval()))
        if row.name in options.max_p99_ms:
            interval = samples.percentile_interval(0.99)
            interval = Interval(*(value / 1000 for value in interval)) if interval else None
            checks.append(_compare(row, samples, "max_p99_ms", options.max_p99_ms[row.name], interval))
    return checks


def _compare(row: Row, samples: Samples, option: str, limit: float, interval: Optional[Interval]) -> Check:
    least = option == "min_ops"
    limit_text = "wanted at least %s" % number_text(limit) if least else "wanted at most %s ms" % number_text(limit)
    if samples.unable:
        return Check(row.name, option, limit, None, INCONCLUSIVE, "%s cannot run here: %s; %s" % (row.name, samples.unable, limit_text))
    if interval is None:
        lack = "two rounds" if least else "%d operations" % samples_for(0.99)
        text = "%s: %d operations in %d rounds are too few to tell; %s, and for that %s; raise max_seconds" % (
            row.name, samples.ops, len(samples.pieces), limit_text, lack
        )  # fmt: skip
        return Check(row.name, option, limit, None, INCONCLUSIVE, text)
    figures = tuple(number_text(value) for value in (interval.value, interval.low, interval.high))
    said = "%s: " % row.name + ("%s ops/sec (%s to %s); %s" if least else "p99 is %s ms (%s to %s), closed loop%s; %s") % (
        figures + ((limit_text,) if least else (stalled_text(samples, ", "), limit_text))
    )
    good, bad = (interval.low >= limit, interval.high < limit) if least else (interval.high <= limit, interval.low > limit)
    if good:
        return Check(row.name, option, limit, interval, PASS, said)
    if bad:
        return Check(row.name, option, limit, interval, FAIL, said + "; look at the write cache of the drives, and at what else loads them")
    rare = "; stalls of %g s that are too rare to be seen in %.0f s could take as much" % (UNSEEN_SECONDS, samples.seconds) if least else ""
    return Check(row.name, option, limit, interval, INCONCLUSIVE, said + ", which lies within that%s; measure for longer, or when it is quieter" % rare)


def judge_checks(checks: Sequence[Check]) -> Tuple[str, List[str]]:
    """The verdict, and the sentences that led to it."""
    for verdict in (FAIL, INCONCLUSIVE):
        if any(check.verdict == verdict for check in checks):
            return verdict, [check.text for check in checks if check.verdict in (FAIL, INCONCLUSIVE)]
    return PASS, [check.text for check in checks] or ["no threshold is set"]


def stalled_text(samples: Samples, before: str) -> str:
    """What an open loop would see of the stalls; nothing where there are none."""
    share = samples.stalled_share()
    return "%sstalled %.1f %% of the time, %.0f ms the longest" % (before, 100 * share, samples.longest() / 1000) if share else ""
