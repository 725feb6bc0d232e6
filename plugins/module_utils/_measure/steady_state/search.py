# SPDX-License-Identifier: GPL-3.0-or-later
"""Which reserve is enough for a target: the steady state at one reserve after the other, and the results of these runs. Pure.

Nothing is kept of a search but its runs: which reserve is next follows from those that are finished.
"""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL, INCONCLUSIVE, PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad, Request, ReserveTarget
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.rounds import Rounds, steady_result
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import ReservePlan, plan_runs

_OF_POINT = ("verdict", "why", "mib_s", "iops", "p99_ms", "write_amplification", "fills", "seconds")


class Search(NamedTuple):
    """*finished*: the runs that have their verdict, in their order; all of *load*."""

    target: ReserveTarget
    load: RandomLoad
    finished: Sequence[Rounds]

    @property
    def points(self) -> List[Dict[str, Any]]:
        """The result of each run."""
        points = []
        for run in self.finished:
            result = steady_result(run, self.load, "")
            points.append({"share": run.options.reserve, **{key: result[key] for key in _OF_POINT}})
        return points

    @property
    def plan(self) -> ReservePlan:
        """What to do next. A run without a steady state shows nothing, and counts as not enough."""
        key = self.target.figure
        results = []
        for point in self.points:
            value = point[key] if point["verdict"] == PASS and point[key] is not None else math.nan
            results.append((point["share"], value))
        return plan_runs(self.target.limit, results, self.target.guess, self.target.runs)

    @property
    def is_over(self) -> bool:
        return self.plan.measure is None


def search_of(request: Optional[Request], finished: Sequence[Rounds]) -> Optional[Search]:
    """None where there is no run, or it belongs to no search."""
    return Search(request.target, request.load, finished) if request is not None and request.target is not None else None


def search_result(search: Search, request: Request) -> Dict[str, Any]:
    """The result of the search so far. *measured* is what ``reserve: {measured: …}`` of a spec takes."""
    plan, points = search.plan, search.points
    over = plan.measure is None
    result: Dict[str, Any] = {
        "verdict": INCONCLUSIVE if not over else PASS if plan.answer is not None else FAIL,
        "reasons": [] if over and plan.answer is not None else ["%s: %s" % (search.target.words, plan.why)],
        "points": points,
        "measured": None,
    }
    if over and plan.answer is not None:
        result["measured"] = _measured(search, request, points, plan.answer)
    return result


def _measured(search: Search, request: Request, points: Sequence[Mapping[str, Any]], answer: float) -> Dict[str, Any]:
    (point,) = [point for point in points if point["share"] == answer]
    measured: Dict[str, Any] = {"model": request.model, "firmware": request.firmware, "share": answer, "target": search.target.asked, "points": list(points)}
    if search.target.hidden is not None:
        measured["hidden"] = search.target.hidden
    if point["write_amplification"] is not None:
        measured["wa"] = point["write_amplification"]
    return measured


def search_lines(search: Search) -> List[str]:
    """The search for people."""
    plan, lines = search.plan, []
    for point in search.points:
        value = point[search.target.figure]
        figure = "unknown" if value is None else "%.4g" % value
        lines.append("reserve %.1f %%: %s %s, %.1f MiB/s; %s" % (100 * point["share"], search.target.title, figure, point["mib_s"], point["verdict"]))
    if plan.measure is None:
        return [*lines, "%s: %s" % (search.target.words, plan.why)]
    return [*lines, "%s: run %d of at most %d, with a reserve of %.1f %% (%s)" % (
        search.target.words, len(lines) + 1, search.target.runs, 100 * plan.measure, plan.why)]  # fmt: skip


def check_target(target: ReserveTarget, counts_both: bool, path: str) -> None:
    """Raises PlumblineError for a target that needs what the drive does not count."""
    if target.wa and not counts_both:
        raise PlumblineError(
            "target.wa: %s does not count what it programs (media bytes), so its write amplification cannot be measured; a spec can compute it: "
            "reserve: {target: {wa: %g}}" % (path, target.wa)
        )
