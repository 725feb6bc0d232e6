# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a user writes to the reserve of a stack: a size, a share, or what it is to be enough for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import check_keys, kind
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import is_percent, parse_share, parse_size, parse_written
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import one_line
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import (
    EVERYTHING_RANDOM,
    MOST_RESERVED,
    USUAL_HIDDEN,
    Workload,
    reserve_for_amplification,
)
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import MeasuredReserve, ReserveGoal

_KINDS = ("target", "measured")
_GOALS = ("wa", "years", "p99_write_ms")
_TARGET_KEYS = (*_GOALS, "tbw", "hidden")
# The last four say how, where and when it was found.
_MEASURED_KEYS = ("model", "firmware", "share", "hidden", "wa", "target", "points", "host", "time")
_WORKLOAD_KEYS = ("writes_per_day", "random")
_MOST_AMPLIFIED = 1000
_MOST_WRITES = 1000
_YEARS = (0.1, 100)


def read_reserve(raw: Any, workload: Any, stack: str) -> tuple[Mapping[str, float], ReserveGoal | None]:
    """``reserve`` and ``workload`` of a stack. Exactly one of the two results is not empty."""
    where = stack + ".reserve"
    if not isinstance(raw, dict):
        if workload is not None:
            raise PlumblineError("%s.workload: only a reserve with 'target' or 'measured' depends on it; leave it out" % stack)
        return _size_or_share(raw, where), None
    entry = check_keys(raw, _KINDS, where)
    if len(entry) != 1:
        raise PlumblineError("%s: wanted exactly one of 'target' and 'measured'" % where)
    load = EVERYTHING_RANDOM if workload is None else _workload(workload, stack + ".workload")
    if "measured" in entry:
        return {}, _measured(entry["measured"], load, where + ".measured")
    daily = isinstance(workload, dict) and "writes_per_day" in workload
    return {}, _target(entry["target"], load, daily, where + ".target", stack)


def _size_or_share(raw: Any, where: str) -> Mapping[str, float]:
    if raw in (0, "0", "0%") and not isinstance(raw, bool):
        return {"percent": 0.0}
    if is_percent(raw):
        share = parse_share(raw, where)
        if share > 90:
            raise PlumblineError("%s: %s leaves too little of the device; wanted at most 90%%" % (where, raw))
        return {"percent": share}
    return {"bytes": parse_size(raw, where, share=True)}


def _target(raw: Any, load: Workload, daily: bool, where: str, stack: str) -> ReserveGoal:
    entry = check_keys(raw, _TARGET_KEYS, where)
    if "p99_write_ms" in entry:
        text = "%s.p99_write_ms: a latency has no model, it needs a measurement: give it to the role plumbline.ssd.steady_state as its target, %s"
        raise PlumblineError(text % (where, "and what that measured to the stack: reserve: {measured: …}"))
    if len([key for key in _GOALS if key in entry]) != 1:
        raise PlumblineError("%s: wanted exactly one of 'wa' and 'years'" % where)
    goal = ReserveGoal(hidden=_share(entry.get("hidden", "7%"), where + ".hidden"), hidden_is_known="hidden" in entry, workload=load)
    if "wa" in entry:
        if "tbw" in entry:
            raise PlumblineError("%s.tbw: only 'years' depends on it; leave it out" % where)
        goal = goal._replace(wa=_number(entry["wa"], 0, _MOST_AMPLIFIED, where + ".wa"))
        try:
            reserve_for_amplification(goal.wa, goal.hidden, load)  # that is the same for drives of all sizes
        except PlumblineError as fault:
            raise PlumblineError("%s.%s" % (where, fault.msg)) from fault
        return goal
    if "tbw" not in entry:
        raise PlumblineError("%s: 'years' needs 'tbw': no drive says what it is rated for; wanted the TBW of the data sheet, for example tbw: 1.2PB" % where)
    if not daily:
        raise PlumblineError("%s: 'years' needs the writes of a day, in capacities of the drives; wanted %s.workload: {writes_per_day: 1.5}" % (where, stack))
    return goal._replace(years=_number(entry["years"], *_YEARS, where + ".years"), rated=parse_written(entry["tbw"], where + ".tbw"))


def _workload(raw: Any, where: str) -> Workload:
    entry = check_keys(raw, _WORKLOAD_KEYS, where)
    writes = _number(entry.get("writes_per_day", EVERYTHING_RANDOM.writes_per_day), 0, _MOST_WRITES, where + ".writes_per_day")
    return Workload(writes, _share(entry.get("random", "100%"), where + ".random"))


def _measured(raw: Any, load: Workload, where: str) -> ReserveGoal:
    if not isinstance(raw, dict):
        text = "%s: found %s; wanted what a file of measurements holds, for example \"{{ lookup('file', inventory_dir ~ '/reserve.json') | from_json }}\""
        raise PlumblineError(text % (where, kind(raw)))
    entry = check_keys(raw, _MEASURED_KEYS, where)
    for key in ("model", "firmware", "share"):
        if key not in entry:
            raise PlumblineError("%s: '%s' is missing" % (where, key))
    for key in ("model", "firmware"):
        if not isinstance(entry[key], str) or not entry[key].strip():
            raise PlumblineError("%s.%s: '%s' does not fit; wanted the word of the drive, as device_info shows it" % (where, key, entry[key]))
    for key in ("host", "time"):
        if not isinstance(entry.get(key, ""), str):
            raise PlumblineError("%s.%s: '%s' does not fit; wanted a text, as the role steady_state keeps it" % (where, key, entry[key]))
    measured = MeasuredReserve(
        model=entry["model"].strip(),
        firmware=entry["firmware"].strip(),
        share=_number(entry["share"], 0, MOST_RESERVED, where + ".share"),
        wa=_number(entry["wa"], 0.01, _MOST_AMPLIFIED, where + ".wa") if "wa" in entry else 0.0,
        host=one_line(entry.get("host", "")),
        day=one_line(entry.get("time", "")[:10]),
    )
    hidden = _number(entry.get("hidden", USUAL_HIDDEN), 0, 1, where + ".hidden")
    return ReserveGoal(measured=measured, hidden=hidden, hidden_is_known="hidden" in entry, workload=load)


def _share(raw: Any, where: str) -> float:
    return 0.0 if raw in (0, "0", "0%") and not isinstance(raw, bool) else parse_share(raw, where) / 100


def _number(raw: Any, low: float, high: float, where: str) -> float:
    if isinstance(raw, bool) or not isinstance(raw, (int, float)) or not low <= raw <= high:
        raise PlumblineError("%s: '%s' does not fit; wanted a number from %g to %g" % (where, raw, low, high))
    return float(raw)
