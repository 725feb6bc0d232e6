# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run to the steady state is asked for. Pure."""

from __future__ import annotations

from typing import NamedTuple, Optional

# Degrees Celsius from which a drive may slow itself down, where it names no limit of its own.
HOT = 70

# What a run shows. The last two write at random right behind the discard, and are pictures: no rule judges them.
STEADY_STATE, SATURATION, PASSES = "steady", "saturation", "passes"
MODES = (STEADY_STATE, SATURATION, PASSES)


class Options(NamedTuple):
    """Fills are capacities of the span that is loaded, and count the random load only.

    *min_fills* is half a fill for both windows behind the largest hidden space that is expected, half a fill as well: until the physical space
    has been written once, any drive is as flat as a steady one. With a mapped reserve the span is smaller and the spare space larger: pass more.
    """

    min_fills: float = 1.0
    max_fills: float = 4.0
    precision: float = 0.04  # the largest half of the interval of the rate, as a share of it
    snia: bool = False  # the letter of the standard alone
    latency: bool = False  # the 99th percentile has to stand still as well
    hot: Optional[int] = None  # the drive's own limit of temperature
    mode: str = STEADY_STATE

    @property
    def is_picture(self) -> bool:
        """Whether the run is looked at only."""
        return self.mode != STEADY_STATE

    @property
    def sequential_fills(self) -> int:
        """What is written in sequence before the random load."""
        return 0 if self.is_picture else 1


DEFAULTS = Options()
