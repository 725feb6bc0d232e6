# SPDX-License-Identifier: GPL-3.0-or-later
"""All hosts of a report, the worst first, and the verdict on all of them. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import ERROR, LEVELS, MISSING, NONE, UNKNOWN, WARNING, rank, worst_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.peers import compare_drives
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import HostFinding, HostReport, is_past, missing_host, read_record
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import counted, words

RAW_CHARACTERS = 200_000  # of a host's record that is shown as such
_TOLD = ("error", "missing", "warning", "unknown")


class Fleet(NamedTuple):
    """What a report is of. *time*: the latest reading, or when the report was made; *oldest*: the oldest. *checks*: those that it has, by their keys."""

    title: str
    time: str
    oldest: str
    hosts: tuple[HostReport, ...]
    checks: tuple[str, ...]

    @property
    def level(self) -> str:
        return worst_of(host.level for host in self.hosts)

    @property
    def dated(self) -> str:
        """The date of the report: its time, and the oldest reading as well where that is of another day."""
        return f"{self.oldest} to {self.time}" if self.oldest and self.oldest[:10] != self.time[:10] else self.time

    def counts(self) -> dict[str, int]:
        """Level → the number of hosts whose worst it is, from the worst."""
        numbers = Counter(host.level for host in self.hosts)
        return {level: numbers[level] for level in LEVELS if numbers[level]}

    def verdict(self) -> str:
        """The whole in one sentence."""
        counts, total = self.counts(), len(self.hosts)
        if not total:
            return "There is no record of any host."
        parts = {
            ERROR: ("has errors", "have errors"),
            MISSING: ("did not answer", "did not answer"),
            WARNING: ("has warnings", "have warnings"),
            UNKNOWN: ("cannot be told", "cannot be told"),
        }
        parts_of = [f"{counts[level]:,} {words_of[0 if counts[level] == 1 else 1]}" for level, words_of in parts.items() if level in counts]
        rest = total - sum(counts.get(level, 0) for level in parts)
        parts_of += [f"{rest:,} {'is' if rest == 1 else 'are'} as wanted"] if rest else []
        return f"Of {counted(total, 'host')}, {', '.join(parts_of)}."


class Group(NamedTuple):
    """Findings of several hosts that want the same: the first of them stands for all."""

    check: str
    level: str
    example: HostFinding
    hosts: tuple[str, ...]
    total: int

    @property
    def others(self) -> str:
        """How many findings of the kind the first host has beside the one that is shown, where it is the only host."""
        return f" (and {self.total - 1:,} more such)" if len(self.hosts) == 1 and self.total > 1 else ""


def make_fleet(records: Iterable[Mapping[str, Any]], expected: Sequence[str] = (), title: str = "", time: str = "", now: str = "") -> Fleet:
    """The fleet of these records, each of another host; *expected* hosts without a record are missing. They are read one by one, so may come from files.

    *time*: when the report was made; without it, the latest time that a record has. *now*: a time after it has not come yet, and dates nothing.
    """
    hosts = {host.host: host for host in (read_record(record, RAW_CHARACTERS, now) for record in records)}
    for name in map(words, expected):
        if name not in hosts:
            hosts[name] = missing_host(name)
    ordered = sorted(compare_drives(hosts.values()), key=_badness)
    columns = tuple(check for check in CHECKS if any(host.levels.get(check, NONE) not in (NONE, MISSING) for host in ordered) or check == "answer")
    dates = [host.time for host in ordered if is_past(host.time, now)]
    made, oldest = (words(time), "") if time else (max(dates, default=""), min(dates, default=""))
    return Fleet(words(title) if title else "State of the drives", made, oldest, tuple(ordered), columns)


def _badness(host: HostReport) -> tuple[Any, ...]:
    """Orders hosts: the worst level, then how many findings of each level, then the name, its numbers by their value."""
    numbers = Counter(finding.level for finding in host.findings)
    counts = [-numbers[level] for level in LEVELS]
    return (rank(host.level), counts, [(part.isdecimal(), part.zfill(20)) for part in re.split(r"([0-9]+)", host.host)], host.host)


def grouped(fleet: Fleet, checks: Sequence[str]) -> list[Group]:
    """The findings of some checks over all hosts, by what they want; the worst and most frequent first."""
    groups: dict[tuple[str, str, str, str], list[tuple[str, HostFinding]]] = {}
    for host in fleet.hosts:
        for finding in host.findings:
            if finding.check in checks:
                groups.setdefault((finding.level, finding.check, finding.kind, finding.wanted), []).append((host.host, finding))
    listed = [
        Group(check, level, members[0][1], tuple(dict.fromkeys(name for name, _finding in members)), len(members))
        for (level, check, *_rest), members in groups.items()
    ]
    return sorted(listed, key=lambda group: (rank(group.level), -len(group.hosts), list(CHECKS).index(group.check), group.example.wanted))


def host_words(host: HostReport) -> str:
    """How many findings a host has, by level."""
    numbers = Counter(finding.level for finding in host.findings)
    return ", ".join(counted(numbers[level], level if level != MISSING else "missing answer") for level in _TOLD if numbers[level]) or "no finding"
