# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run to the steady state is asked for. Pure."""

from __future__ import annotations

from typing import NamedTuple, Optional

# Degrees Celsius from which a drive may slow itself down, where it names no limit of its own.
HOT = 70

# What a run shows. The last two write at random right behind the discard, and are pictures: no rule judges them.
STEADY_STATE, SATURATION, PASSES = "steady", "saturation", "passes"
MODES = (STEADY_STATE, SATURATION, PASSES)


WINDOW_FILLS = 0.5  # that both windows of the verdict take at least
MOST_HIDDEN = 0.5  # of the capacity


class Options(NamedTuple):
    """Fills are capacities of the span that is loaded, and count the random load only.

    *min_fills* is half a fill for both windows behind the largest hidden space that is expected, half a fill as well: until the physical space
    has been written once, any drive is as flat as a steady one. With a reserve the span is smaller and the spare space larger: see with_reserve().
    """

    min_fills: float = WINDOW_FILLS + MOST_HIDDEN
    max_fills: float = 4.0
    precision: float = 0.04  # the largest half of the interval of the rate, as a share of it
    snia: bool = False  # the letter of the standard alone
    latency: bool = False  # the 99th percentile has to stand still as well
    hot: Optional[int] = None  # the drive's own limit of temperature
    mode: str = STEADY_STATE
    reserve: float = 0.0  # the share of the drive that is left discarded, at its end

    @property
    def is_picture(self) -> bool:
        """Whether the run is looked at only."""
        return self.mode != STEADY_STATE

    @property
    def sequential_fills(self) -> int:
        """What is written in sequence before the random load."""
        return 0 if self.is_picture else 1

    @property
    def tidied_fills(self) -> float:
        """For how many an idle drive may have made room: half of the largest space that is free."""
        return max(self.min_fills - WINDOW_FILLS, 0.0) / 2

    def with_reserve(self, share: float) -> Options:
        """The same run on the rest of the drive: what is hidden and what is left free are more of its fills."""
        return self._replace(reserve=share, min_fills=round(WINDOW_FILLS + (1 + MOST_HIDDEN) / (1 - share) - 1, 4))


DEFAULTS = Options()
