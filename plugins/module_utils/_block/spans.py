# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs of bytes of a block device, and random places within them. Pure."""

from __future__ import annotations

import bisect
import itertools
import random
from typing import Iterable, List, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import round_down


class Span(NamedTuple):
    """A run of bytes of one block device."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length


def join(spans: Iterable[Tuple[int, int]]) -> List[Span]:
    """The same bytes in order of address, neighbours and overlaps joined."""
    joined: List[Span] = []
    for start, length in sorted(span for span in spans if span[1] > 0):
        if joined and start <= joined[-1][0] + joined[-1][1]:
            first, had = joined[-1]
            joined[-1] = Span(first, max(had, start + length - first))
        else:
            joined.append(Span(start, length))
    return joined


class Places:
    """Random places within spans. A read of *size* bytes never leaves the span that it begins in."""

    def __init__(self, spans: Sequence[Span], room: int) -> None:
        """*room*: the bytes that the largest read needs to be found a place in a span; shorter spans are left out."""
        self.spans = [span for span in spans if span[1] >= room]
        self.starts = [start for start, _length in self.spans]
        self.ends = list(itertools.accumulate(length for _start, length in self.spans))

    @property
    def total(self) -> int:
        """Bytes that can be read."""
        return self.ends[-1] if self.ends else 0

    def holds(self, place: int, size: int) -> bool:
        """Whether a read lies within one span."""
        number = bisect.bisect_right(self.starts, place) - 1
        return number >= 0 and place + size <= sum(self.spans[number])

    def draw(self, dice: random.Random, grain: int, size: int, offset: int) -> int:
        """A place ≡ *offset* (mod *grain*) for *size* bytes; each is as likely as the others of its offset."""
        while True:
            byte = dice.randrange(self.ends[-1])
            number = bisect.bisect_right(self.ends, byte)
            start, length = self.spans[number]
            byte -= self.ends[number] - length
            place = round_down(start + byte - offset, grain) + offset
            if place >= start and place + size <= start + length:
                return place
