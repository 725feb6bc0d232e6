# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of runs as they are kept: of the one that is under way, and of those of a search that are over. I/O."""

from __future__ import annotations

import os
from typing import List, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.reserve import MOST_RUNS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import Paths
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.rounds import Rounds, parse_records


def read_rounds(path: str, options: Options) -> Optional[Rounds]:
    """None where nothing was begun. *options*: those of a run that has not kept its own. Raises PlumblineError for a file that is damaged."""
    try:
        with open(path, "rb") as handle:
            text = handle.read()
    except FileNotFoundError:
        return None
    lines = parse_records(text[: text.rfind(b"\n") + 1], path)
    if not lines:
        return None
    try:
        options = Options(**lines[0]["options"]) if "options" in lines[0] else options
        return Rounds(lines[1:], int(lines[0].get("capacity", 0)) or 1, options)
    except (TypeError, ValueError) as fault:
        raise PlumblineError("%s: it is no record of a run, or damaged; remove it to begin anew" % path) from fault


def earlier_paths(paths: Paths) -> List[str]:
    """Where the runs of a search are that are over, but for the last one."""
    found = [paths.earlier(number) for number in range(1, MOST_RUNS + 1)]
    return [path for path in found if os.path.exists(path)]


def read_runs(paths: Paths, options: Options) -> Tuple[Optional[Rounds], Tuple[Rounds, ...]]:
    """(the last run, all that are over). Raises PlumblineError for a file that is damaged."""
    last = read_rounds(paths.rounds, options)
    over = [found for found in (read_rounds(path, options) for path in earlier_paths(paths)) if found is not None]
    if last is None and over:  # cut off between two runs
        return over[-1], tuple(over)
    return last, (*over, last) if last is not None and last.freed else tuple(over)
