# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run shows that writes at random right behind the discard: the first collapse, the space behind it, and whether collapses come back. Pure.

Nothing of it is judged. A run that was taken up says less: what was written between its last window and the cut is not known, an idle drive may have
tidied up, and the random map of a pass that was cut off is lost. So a period is looked for behind the last cut only, where the passes are whole again.
"""

from __future__ import annotations

from typing import Any, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.cliff import (
    WINDOW_SHARE,
    Collapse,
    first_collapse,
    hidden_space,
    sawtooth,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import PASSES, Options

_WHOLE = 0.5  # of a window: a shorter one is the rest of a load that was cut off


class Picture(NamedTuple):
    """*collapse* and *period* in fills, *hidden* as a share of the capacity; None where nothing was seen. *doubts*: what makes them uncertain."""

    collapse: Optional[float] = None
    hidden: Optional[float] = None
    period: Optional[float] = None
    doubts: Tuple[str, ...] = ()


def look_at(records: Sequence[Mapping[str, Any]], capacity: int, options: Options) -> Picture:
    """*records*: those behind the head of the run."""
    if not options.is_picture:
        return Picture()
    rates: List[float] = []
    cuts: List[int] = []  # windows before each cut
    for record in records:
        if record["step"] == "resumed":
            cuts.append(len(rates))
        elif record["step"] == "load" and record["bytes"] >= _WHOLE * WINDOW_SHARE * capacity:
            rates.append(record["bytes"] / record["seconds"] if record["seconds"] > 0 else 0.0)
    collapse = first_collapse(rates)
    # A fill is that of the span; what is hidden is a share of the whole drive.
    hidden = hidden_space(collapse if collapse.fills is None else collapse._replace(fills=collapse.fills * (1 - options.reserve)))
    doubts = [hidden.doubt] if hidden.share is not None and hidden.doubt else []
    doubts += _doubts_on_collapse(collapse, cuts)
    period = None
    if options.mode == PASSES:
        period = sawtooth(rates[cuts[-1] if cuts else 0 :]).period
        if cuts:
            at = cuts[-1] * WINDOW_SHARE
            doubts.append("a pass was cut off after %.2f fills, and its random map is lost: the period is looked for behind that only" % at)
    return Picture(collapse.fills, None if hidden.share is None else round(hidden.share, 4), period, tuple(doubts))


def _doubts_on_collapse(collapse: Collapse, cuts: Sequence[int]) -> List[str]:
    doubts = []
    if collapse.caches:
        places = ", ".join("%.2f" % at for at in collapse.caches)
        doubts.append("the rate fell after %s fills as well, before the drive was full: the end of a cache" % places)
    before = sum(collapse.fills is None or cut * WINDOW_SHARE <= collapse.fills for cut in cuts)
    if before:
        text = "the run was cut off %d times before its first collapse: up to %.0f %% of a fill more was written, and an idle drive may have made room"
        doubts.append(text % (before, 100 * before * WINDOW_SHARE))
    return doubts
