# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays with redundancy, of md and of LVM (dm-raid), whoever made them. Pure. Source: Documentation/admin-guide/device-mapper/dm-raid.rst, md(4)."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import CHECKING, SYNCING, WAITING, RaidState, parse_count, parse_ratio
from ansible_collections.plumbline.ssd.plugins.module_utils._block.tool_output import lines_of_maps


class Group(NamedTuple):
    """Members that stand in for each other: so many of a group in turn (0: all are one), and how many of them may be lost (-1: all but one)."""

    members: int
    spared: int


# A kind of segment → its groups. A raid10 is followed in its usual layout alone, each two neighbours with the same data.
REDUNDANT: Mapping[str, Group] = {
    "raid1": Group(0, -1),
    "raid10": Group(2, 1),
    "raid4": Group(0, 1),
    "raid5": Group(0, 1),
    "raid6": Group(0, 2),
}


class Array(NamedTuple):
    """An array with redundancy as it runs."""

    node: Node
    segment: Segment
    state: RaidState

    @property
    def progress(self) -> Optional[float]:
        """The share that is done of the resync or check that is running; None where none is, or the array does not say."""
        known = self.state.total > 0 and self.state.action in (*SYNCING, *CHECKING)
        return min(self.state.done / self.state.total, 1.0) if known else None

    def groups(self) -> List[Tuple[Tuple[str, ...], int]]:
        """(members, how many of them may be lost) of each group whose members are all there and known."""
        legs = [leg for leg, _first in self.segment.legs]
        group = REDUNDANT[self.segment.kind]
        if len(legs) < max(self.segment.width, 1):
            return []  # which one is gone decides what is left of its group
        size = group.members or len(legs)
        spared = group.spared if group.spared >= 0 else size - 1
        return [(tuple(legs[at : at + size]), spared) for at in range(0, len(legs), size)]

    def as_dict(self) -> Dict[str, Any]:
        members = self.segment.width or len(self.segment.legs)
        return {
            "level": self.segment.kind,
            "members": members,
            "degraded": self.segment.degraded,
            "action": self.state.action,
            "progress": self.progress,
            "mismatch_sectors": self.state.mismatches,
        }


def array_of(seen: Observation, node: Node) -> Optional[Array]:
    """A device as an array; None for what has no redundancy."""
    segment = next((segment for segment in node.segments if segment.kind in REDUNDANT), None)
    return Array(node, segment, seen.raids.get(node.devno, RaidState())) if segment else None


def is_raid_map(node: Node) -> bool:
    """Whether a map is one of dm-raid that can lose a member."""
    return node.kind != "md" and any(segment.kind.startswith("raid") and segment.kind != "raid0" for segment in node.segments)


class MapStatus(NamedTuple):
    """What dm-raid says of a map: how many members it is made for, how many of them are dead or not in sync, and the rest."""

    width: int
    lost: int
    state: RaidState


def parse_raid_status(text: str, names: Sequence[str]) -> Dict[str, MapStatus]:
    """Read ``dmsetup status --target raid``: name of a map → what it says.

    A member that is not in sync (a) counts as lost where another one is in sync (A): it is being filled, or was held. Where none is, the array is in its
    first resync, and any one of them may be read.
    """
    statuses = {}
    for name, words in lines_of_maps(text, names):
        if len(words) < 8 or words[2] != "raid":
            continue
        health, (done, total), action, count = words[5], parse_ratio(words[6]), words[7], words[8] if len(words) > 8 else ""
        lost = health.count("D") + (health.count("a") if "A" in health else 0)
        if action == "idle" and "a" in health and "A" not in health:
            action = WAITING
        # 0 is also what it says where nothing was checked, so that only a count above it is known to be one.
        mismatches = parse_count(count) if action not in CHECKING else None
        statuses[name] = MapStatus(len(health), lost, RaidState(action, done, total, mismatches or None))
    return statuses
