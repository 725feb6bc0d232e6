# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run over many hosts came to, in a few lines. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.text import one_line
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.findings import ERROR, WARNING
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import counted

# Worst first.
UNREACHABLE, FAILED, TO_DO, CHANGED, AS_ASKED = "unreachable", "failed", "with steps that remain", "changed", "as asked"
_OUTCOMES = (UNREACHABLE, FAILED, TO_DO, CHANGED, AS_ASKED)
_LEVELS = (ERROR, WARNING)
_MOST_LINES = 10
_MOST_TEXT = 200  # characters of a message


class HostRun(NamedTuple):
    """One host: how it ended, why it failed, and the last plan that was made of it, as stack_plan returned it."""

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
    return TO_DO if plan.get("steps") else AS_ASKED


def summary_lines(runs: Iterable[HostRun]) -> list[str]:
    """At most ten lines: how many hosts ended how, then what is wrong, worst first, alike of several hosts once."""
    runs = sorted(runs)
    if not runs:
        return []
    ended = [(outcome, sum(one.outcome == outcome for one in runs)) for outcome in reversed(_OUTCOMES)]
    lines = [f"{counted(len(runs), 'host')}: " + ", ".join(f"{number:,} {outcome}" for outcome, number in ended if number)]
    wrong = _grouped(_wrong(runs))
    left = _MOST_LINES - len(lines)
    lines += wrong if len(wrong) <= left else [*wrong[: left - 1], f"and {len(wrong) - left + 1:,} more kinds of what is wrong"]
    return lines


def _wrong(runs: Sequence[HostRun]) -> Iterable[tuple[int, str, str, str]]:
    """(rank, what counts as alike, host, text) of all that is wrong."""
    for one in runs:
        if one.fault:
            yield _OUTCOMES.index(one.outcome) if one.outcome in _OUTCOMES else 0, one.fault, one.host, f"{one.outcome}: {{}}: {one.fault}"
        found = one.plan.get("findings")
        for finding in found if isinstance(found, list) else []:
            level = finding.get("level")
            if level in _LEVELS:
                alike = (level, finding.get("layer"), finding.get("wanted"))
                yield len(_OUTCOMES) + _LEVELS.index(level), str(alike), one.host, f"{level}: {{}}: {finding.get('text')}"


def _grouped(wrong: Iterable[tuple[int, str, str, str]]) -> list[str]:
    groups: dict[tuple[int, str], list[tuple[str, str]]] = {}
    for rank, alike, host, text in wrong:
        groups.setdefault((rank, alike), []).append((host, text))
    lines = []
    for _key, members in sorted(groups.items(), key=lambda group: (group[0][0], -len(group[1]))):
        hosts = sorted({host for host, _text in members})
        names = hosts[0] + (f" and {len(hosts) - 1:,} more" if len(hosts) > 1 else "")
        label, _hole, text = members[0][1].partition("{}")
        lines.append((label + names + one_line(text))[:_MOST_TEXT])
    return lines
