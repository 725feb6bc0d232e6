# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links a sequential read filled: such a leg is held up by its link, whatever lies where. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import Link
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB

LINK_BOUND = 0.85  # of what a link carries: what drives leave of it that it holds up
NOT_TRUE = 1.5  # no link carries so much: it is not as fast as it says, as that of an emulated drive
JOB = "seq_read"  # only here the link is what a sound drive fills


class LinkLoad(NamedTuple):
    """A link, the legs behind it, and what they read together, in bytes per second."""

    link: Link
    legs: Tuple[str, ...]
    rate: float
    payload: int  # what the link carries

    @property
    def share(self) -> float:
        return self.rate / self.payload

    @property
    def bound(self) -> bool:
        return LINK_BOUND <= self.share < NOT_TRUE

    @property
    def text(self) -> str:
        """A line for people; empty where there is nothing to report."""
        shown = (", ".join(self.legs), self.rate / MIB, 100 * self.share, self.payload / MIB, self.link.text)
        if self.bound:
            return "link-bound: %s read %.1f MiB/s, %.0f %% of the %.1f that its link carries (%s); look at the link before the alignment" % shown
        if self.share >= NOT_TRUE:
            return "%s read %.1f MiB/s, %.0f %% of the %.1f that its link would carry (%s): the link is not what it says, as of an emulated drive" % shown
        return ""

    def as_dict(self) -> Dict[str, Any]:
        return {
            "kind": self.link.kind,
            "host": self.link.host.name,
            "drive": self.link.drive.name,
            "negotiated": self.link.text,
            "legs": list(self.legs),
            "read_mib_s": round(self.rate / MIB, 2),
            "payload_mib_s": round(self.payload / MIB, 2),
            "share": round(self.share, 4),
            "link_bound": self.bound,
        }


def link_loads(job: str, rates: Sequence[Tuple[str, float]], links: Mapping[str, Sequence[Link]]) -> List[LinkLoad]:
    """The links of a job's legs with what went over each; none for a job that is no sequential read, and none of which the speed is not known.

    *rates*: of the legs, by name. Legs share the links above a controller or an expander: their rates are added up.
    """
    legs: Dict[Link, List[Tuple[str, float]]] = {}
    for name, rate in rates if job == JOB else ():
        for link in links.get(name, ()):
            legs.setdefault(link, []).append((name, rate))
    loads = [(link, pairs, link.payload) for link, pairs in legs.items()]
    return [LinkLoad(link, tuple(name for name, _rate in pairs), sum(rate for _name, rate in pairs), payload) for link, pairs, payload in loads if payload]


def is_link_bound(loads: Sequence[LinkLoad]) -> Optional[bool]:
    """Whether any of these links was filled; None where no link is known."""
    return any(load.bound for load in loads) if loads else None
