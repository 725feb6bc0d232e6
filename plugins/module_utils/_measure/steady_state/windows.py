# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows of equal bytes, from what a counter of bytes said at some times. Pure."""

from __future__ import annotations

from typing import List, Tuple

_LOOKS = 8  # at the counter, in a window
_SHORTEST, _LONGEST = 0.02, 1.0  # seconds between two looks


class ByteWindows:
    """The ends of windows lie between two looks at the counter; within these the rate is taken to be even. *length*: bytes of a window.

    They begin with the last look at which nothing was counted, and end with the first at which all was.
    """

    def __init__(self, length: float) -> None:
        self._length = length
        self._last = (0.0, 0)
        self._moved = 0.0  # when the counter was last seen to have moved
        self._number = 0  # whole windows
        self._ended = 0.0  # when the last of them did
        self._took = 0.0

    def add(self, seconds: float, counted: int) -> List[Tuple[int, float]]:
        """(bytes, seconds) of the windows that have ended since the last look. *counted*: bytes so far."""
        ended = []
        (early, before), self._last = self._last, (seconds, counted)
        if counted <= 0:
            self._ended = self._moved = seconds
        elif counted > before:
            self._moved = seconds
            while counted >= self._edge(1) - 0.5:
                at = early + (seconds - early) * (self._edge(1) - before) / (counted - before)
                ended.append((round(self._edge(1)) - round(self._edge(0)), at - self._ended))
                self._number, self._took, self._ended = self._number + 1, at - self._ended, at
        return ended

    def _edge(self, more: int) -> float:
        return (self._number + more) * self._length

    def rest(self) -> Tuple[int, float]:
        """(bytes, seconds) behind the last whole window."""
        return max(self._last[1] - round(self._edge(0)), 0), self._moved - self._ended

    @property
    def pause(self) -> float:
        """Seconds until it is worth looking again."""
        return min(max(self._took / _LOOKS, _SHORTEST), _LONGEST)
