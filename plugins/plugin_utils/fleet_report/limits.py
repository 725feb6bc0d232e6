# SPDX-License-Identifier: GPL-3.0-or-later
"""What one host may take of a report: so much of its record is read, and in what is shown of all hosts each has its place. Pure.

A host may say anything, and very much of it. What is left out is counted, and reported as a finding of that host.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import FAIL
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import ERROR, rank

MOST = 1000  # members of a list or a mapping, and findings of a host: as many as no host has drives
MOST_ALL = 100_000  # lists, mappings and texts of lists in a record: that of 1,000 disks has some 40,000
_DEEPEST = 32  # levels of lists and mappings in each other; a record has some ten
_KINDS = 20  # of what is left out that are counted separately
T = TypeVar("T")


def bound(record: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """As much of a record as is read, and what is left out: key → the number of its members. Series of numbers stay whole: they are thinned later."""
    reader = _Reader()
    return reader.mapping(record, "keys", 0), reader.left


class _Reader:
    """Goes through one record. *room*: how much may still be read."""

    def __init__(self) -> None:
        self.left: dict[str, int] = {}
        self.room = MOST_ALL

    def value(self, value: Any, key: str, level: int) -> Any:
        self.room -= 1
        if level > _DEEPEST:
            self._leave(key, 1)
            return None
        return self.mapping(value, key, level) if isinstance(value, Mapping) else self.members(value, key, level)

    def mapping(self, value: Mapping[Any, Any], key: str, level: int) -> dict[Any, Any]:
        kept: dict[Any, Any] = {}
        for name, member in value.items():
            if len(kept) >= MOST or self.room <= 0:
                self._leave(key, len(value) - len(kept))
                break
            kept[name] = self.value(member, str(name), level + 1) if isinstance(member, (Mapping, list, tuple)) else member
        return kept

    def members(self, value: Sequence[Any], key: str, level: int) -> list[Any]:
        if all(member is None or isinstance(member, (int, float)) for member in value):
            return list(value)
        most = max(0, min(MOST, self.room))
        if len(value) > most:
            self._leave(key, len(value) - most)
            value = sorted(value, key=_badness)[:most]
        self.room -= sum(isinstance(member, str) for member in value)
        return [self.value(member, key, level + 1) if isinstance(member, (Mapping, list, tuple)) else member for member in value]

    def _leave(self, key: str, count: int) -> None:
        name = key if key in self.left or len(self.left) < _KINDS else "other values"
        self.left[name] = self.left.get(name, 0) + count


def _badness(member: Any) -> int:
    """Orders members of a list where not all are read: the worst first, else as they are."""
    if not isinstance(member, Mapping):
        return rank("")
    return rank(ERROR if member.get("verdict") == FAIL else str(member.get("level")))


def fair(ordered: Sequence[T], hosts_of: Callable[[T], Collection[Hashable]], most: int) -> list[T]:
    """At most *most* of what is ordered from the worst, in that order: the first of each host before the second of any.

    *hosts_of*: the hosts of an entry. What several hosts share comes as early as for any of them, or one of them could take the others' place.
    """
    turns: Counter[Hashable] = Counter()
    ranked = []
    for at, entry in enumerate(ordered):
        hosts = hosts_of(entry)
        ranked.append((min(turns[host] for host in hosts), at))
        turns.update(hosts)
    return [ordered[at] for at in sorted(at for _turn, at in sorted(ranked)[:most])]
