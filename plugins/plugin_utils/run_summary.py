# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run over many hosts came to, in a few lines. Pure.

What comes from a host may be anything. A value that is not as it should be is told as text, or not at all, and costs no other host its line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, WARNING
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import one_line
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import counted, dicts, words

# Worst first.
UNREACHABLE, FAILED, TO_DO, CHANGED, AS_SPECIFIED = "unreachable", "failed", "with steps that remain", "changed", "as specified"
_OUTCOMES = (UNREACHABLE, FAILED, TO_DO, CHANGED, AS_SPECIFIED)
_LEVELS = (ERROR, WARNING)
_WORDS = (*_OUTCOMES, *_LEVELS)  # by the rank of what is wrong
_OF_A_FINDING = ("level", "layer", "wanted", "text")
_MOST_LINES = 10
_MOST_FINDINGS = 1000  # of a host
_MOST_TEXT = 200  # characters of a message


class HostRun(NamedTuple):
    """One host: how it ended, why it failed, and of the last plan that was made of it what kept_of_plan() keeps."""

    host: str
    outcome: str
    fault: str
    plan: Mapping[str, Any]


def outcome_of(counts: Mapping[str, int], plan: Mapping[str, Any]) -> str:
    """How a host ended, by Ansible's own counts of its tasks."""
    if counts.get("unreachable"):
        return UNREACHABLE
    if counts.get("failures"):
        return FAILED
    if counts.get("changed"):
        return CHANGED
    return TO_DO if plan.get("steps") else AS_SPECIFIED


def summary_lines(runs: Iterable[HostRun]) -> list[str]:
    """At most ten lines: how many hosts ended how, then what is wrong, worst first, alike of several hosts once."""
    runs = sorted(runs, key=lambda run: run.host)
    if not runs:
        return []
    ended = [(outcome, sum(one.outcome == outcome for one in runs)) for outcome in reversed(_OUTCOMES)]
    lines = [f"{counted(len(runs), 'host')}: " + ", ".join(f"{number:,} {outcome}" for outcome, number in ended if number)]
    wrong = _grouped(_wrong(runs))
    left = _MOST_LINES - len(lines)
    lines += wrong if len(wrong) <= left else [*wrong[: left - 1], f"and {len(wrong) - left + 1:,} more kinds of what is wrong"]
    return lines


def kept_of_plan(plan: Any) -> dict[str, Any]:
    """What is kept of a plan until the end: whether a step is left, and each finding as what it is, what it wants, and its text."""
    found = plan if isinstance(plan, Mapping) else {}
    findings = [{key: words(one.get(key)) for key in _OF_A_FINDING} for one in dicts(found.get("findings"))[:_MOST_FINDINGS]]
    return {"steps": bool(found.get("steps")), "findings": findings}


def _wrong(runs: Sequence[HostRun]) -> Iterable[tuple[int, str, str, str]]:
    """(rank, what counts as alike, host, text) of all that is wrong."""
    for one in runs:
        fault = words(one.fault) if one.fault else ""
        if fault:
            yield _OUTCOMES.index(one.outcome) if one.outcome in _OUTCOMES else 0, fault, one.host, f": {fault}"
        for finding in kept_of_plan(one.plan)["findings"]:
            level = finding["level"]
            if level in _LEVELS:
                yield len(_OUTCOMES) + _LEVELS.index(level), str((finding["layer"], finding["wanted"])), one.host, f": {finding['text']}"


def _grouped(wrong: Iterable[tuple[int, str, str, str]]) -> list[str]:
    groups: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for rank, alike, host, text in wrong:
        groups.setdefault((rank, alike), []).append((host, text))
    lines = []
    for (rank, _alike), members in sorted(groups.items(), key=lambda group: (group[0][0], -len(group[1]))):
        hosts = sorted({host for host, _text in members})
        names = hosts[0] + (f" and {len(hosts) - 1:,} more" if len(hosts) > 1 else "")
        lines.append(one_line(f"{_WORDS[rank]}: {names}{members[0][1]}")[:_MOST_TEXT])
    return lines
