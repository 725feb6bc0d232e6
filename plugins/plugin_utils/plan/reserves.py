# SPDX-License-Identifier: GPL-3.0-or-later
"""The reserve that a goal needs on each device, and whether the reserve of what stands is enough. Pure.

Nothing that stands is ever partitioned again for it: there the goal is a finding.
"""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import INFO, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stack_addresses import reserved_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import (
    Reserve,
    expected_amplification,
    reserve_for_amplification,
    reserve_for_years,
)
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Leg, StackPlan, WantedReserve
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import name_device
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import ReserveGoal


def wanted_reserve(goal: ReserveGoal, node: Node) -> WantedReserve:
    """The reserve that a goal needs on a device. Raises PlumblineError where no reserve gives it, or where it was measured on other drives."""
    hidden = "hidden space %s%.3g %%" % ("" if goal.hidden_is_known else "taken as ", 100 * goal.hidden)
    if goal.workload.random < 1:
        hidden = "%.3g %% of the writes at random places; %s" % (100 * goal.workload.random, hidden)
    if goal.measured:
        own = (node.identity.model, node.identity.firmware)
        if own != goal.measured[:2]:
            text = "it is model '%s' with firmware '%s', and the reserve was measured on '%s' with firmware '%s'; measure this drive, or state a reserve"
            raise PlumblineError(text % (*own, *goal.measured[:2]))
        share, counted = goal.measured.share, goal.measured.wa
        words = "%.1f measured" % counted if counted else _words(expected_amplification(share, goal.hidden, goal.workload))
        return _wanted(node, Reserve(share, counted), "as measured%s on this model and firmware; %s" % (goal.measured.by, hidden), words)
    if goal.years:
        reserve = reserve_for_years(goal.years, goal.rated / node.size, goal.hidden, goal.workload)
        text = "for %g years of %g drive writes a day, and %.4g TB rated; %s"
        return _wanted(node, reserve, text % (goal.years, goal.workload.writes_per_day, goal.rated / 1e12, hidden), _words(reserve.amplification))
    reserve = reserve_for_amplification(goal.wa, goal.hidden, goal.workload)
    return _wanted(node, reserve, "for a write amplification of %s; %s" % (_figure(goal.wa), hidden), _words(reserve.amplification))


def _wanted(node: Node, reserve: Reserve, why: str, amplification: str) -> WantedReserve:
    return WantedReserve(reserve.share, reserved_bytes(node.size, {"percent": 100 * reserve.share}), why, amplification)


def _figure(amplification: float) -> str:
    """With one digit behind the point at least: 3.0, 1.25."""
    return "%.1f" % amplification if round(amplification, 1) == amplification else "%.4g" % amplification


def _words(amplification: float) -> str:
    return "%.1f expected" % amplification if amplification < 1000 else "without bound expected"


def choose_reserves(plan: StackPlan, seen: Observation) -> None:
    """Set the reserve that the goal needs on each leg. Raises PlumblineError with all that speaks against it on devices that are still to be built on."""
    if plan.spec.goal is None:
        return
    faults = []
    for leg in plan.legs:
        try:
            leg.wanted = wanted_reserve(plan.spec.goal, seen.nodes[leg.devno])
        except PlumblineError as fault:
            if _stands(plan, leg):
                leg.fault = fault.msg
            else:
                faults.append("reserve of %s: %s" % (name_device(seen, leg.devno), fault.msg))
    if faults:
        raise PlumblineError(faults[0], ["%s: %s" % (plan.spec.name, fault) for fault in faults[1:]])


def _stands(plan: StackPlan, leg: Leg) -> bool:
    """Whether its length is no longer free: it has our partition, or has to be as long as that of another leg of its stripe."""
    return leg.entry is not None or (plan.spec.laid.striped and any(other.entry for row in plan.rows if leg in row for other in row))


def keep_standing(plan: StackPlan, seen: Observation) -> None:
    """What stands keeps its length, unless the stack grows, and a further leg of its row gets the same. Raises PlumblineError where it is too small.

    A reserve that is stated and would be larger than the one that stands stays wanted: that is reported with the partition.
    """
    for row in plan.rows:
        lengths = [leg.entry.size for leg in row if leg.entry]
        for leg in row:
            if leg.entry:
                leg.spare = 0 if leg.fault else max(leg.size - leg.entry.size, 0)  # without a reserve that is known nothing is taken in
                if leg.spare and plan.spec.grow:
                    continue
                shrank = _shrank(plan, seen, leg)
                leg.size = leg.entry.size if leg.spare or plan.spec.goal or shrank else leg.size
            elif lengths and plan.spec.laid.striped and (plan.spec.goal or min(lengths) < leg.size) and not plan.spec.grow:
                leg.size = min(lengths)
            node = seen.nodes[leg.devno]
            if not leg.entry and leg.start + leg.size > node.size - MIB:
                text = "device %s of %s is too small for the partition of %s that the other legs have"
                raise PlumblineError(text % (node.name, human(node.size), human(leg.size)))


def _shrank(plan: StackPlan, seen: Observation, leg: Leg) -> bool:
    """Whether a disk is smaller than the one that its table was made for. Where its partition is whole, it is the reserve that is smaller."""
    table, node = seen.tables.get(leg.devno), seen.nodes[leg.devno]
    if not table or not leg.entry or table.made_for <= node.size or leg.entry.start + leg.entry.size > node.size:
        return False
    left = human(node.size - leg.entry.start - leg.entry.size)
    plan.warn("%s shrank from %s to %s, and its reserve to %s; find out why", name_device(seen, leg.devno), human(table.made_for), human(node.size), left)
    return True


def judge_reserves(plan: StackPlan, seen: Observation) -> None:
    """A note of the reserve that the goal needs, and a finding on each reserve that stands; equal devices share one."""
    goal = plan.spec.goal
    if goal is None:
        return
    notes: dict[str, list[str]] = {}
    standing: dict[tuple[str, str, str], list[str]] = {}
    for leg in plan.legs:
        node = seen.nodes[leg.devno]
        if not _stands(plan, leg):
            leg.reserve_words = leg.wanted.text if leg.wanted else ""
            notes.setdefault(leg.reserve_words, []).append(node.name)
            continue
        left = node.size - (leg.entry.start if leg.entry else leg.start) - leg.size
        share = max(left, 0) / node.size
        has = "%.1f %%, write amplification %s" % (100 * share, _words(expected_amplification(share, goal.hidden, goal.workload)))
        if leg.wanted:
            level = INFO if left >= leg.wanted.kept else WARNING
            expected = "%s, write amplification %s" % (leg.wanted.text, leg.wanted.amplification)
            leg.reserve_words = "%.1f %%; wanted %s" % (100 * share, leg.wanted.text)
        else:
            level, has, expected = WARNING, "%s; %s" % (has, leg.fault), "a goal that fits this drive"
            leg.reserve_words = "%.1f %%" % (100 * share)
        standing.setdefault((level, has, expected), []).append(node.name)
    plan.notes += ["%s: reserve %s on %s" % (plan.spec.name, words, ", ".join(names)) for words, names in notes.items()]
    for (level, has, expected), names in standing.items():
        left_alone = "; what stands is left as it is" if level == WARNING else ""
        finding = Finding(level, "reserve", ", ".join(names), has, expected + left_alone, "reserve")
        plan.findings.append(finding)
        plan.notes.append("%s: %s" % (plan.spec.name, finding.text))
        if level == WARNING:
            plan.warn("%s", finding.text)
