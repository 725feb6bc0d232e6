# SPDX-License-Identifier: GPL-3.0-or-later
"""The rounds of runs as they are kept: of the one that is under way, and of those of a search that are over. I/O."""

from __future__ import annotations

import errno
import os
from typing import List, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import Paths
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.rounds import Rounds, parse_records
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import MOST_RUNS

# For the rounds of the longest search, a line of some hundred bytes each, and for what is said of the run below /run.
_ROOM, _STATUS_ROOM = 2 * MIB, 64 * KIB


def check_places(paths: Paths) -> None:
    """Raise PlumblineError where something could not be kept that the run writes later, or at its end: found out before the load, and not after hours.

    Nothing is written. What begins a run writes to the same folders first, which shows the rest.
    """
    for path in (paths.request, paths.rounds, paths.program, paths.status, stopped_path(paths), *(paths.earlier(number) for number in range(1, MOST_RUNS + 1))):
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isfile(path)):
            raise PlumblineError("%s is no regular file; a run keeps its own there, and nothing was written: look who made it, and remove it" % path)
    for directory, room in ((paths.home, _ROOM), (os.path.dirname(paths.status), _STATUS_ROOM)):
        there = directory
        while not os.path.lexists(there):
            there = os.path.dirname(there)
        if not os.path.isdir(there):
            raise PlumblineError("%s is no folder; a run is kept below it, and nothing was written: look who made it, and remove it" % there)
        if not os.access(there, os.W_OK | os.X_OK):
            raise PlumblineError("%s cannot be written to; a run is kept there, and nothing was written: mount it read-write" % there)
        filesystem = os.statvfs(there)
        free = filesystem.f_bavail * filesystem.f_frsize
        if free < room or (filesystem.f_files and not filesystem.f_favail):
            what = "%s" % human(free) if free < room else "no inode"
            text = "%s: %s: %s free, and a run keeps up to %s there; nothing was written: make room"
            raise PlumblineError(text % (there, os.strerror(errno.ENOSPC), what, human(room)))


def stopped_path(paths: Paths) -> str:
    """Where the rounds of a run go that was ended, so that none goes on with it."""
    return paths.rounds + ".stopped"


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
    earlier = [paths.earlier(number) for number in range(1, MOST_RUNS + 1)]
    return [path for path in earlier if os.path.exists(path)]


def read_runs(paths: Paths, options: Options) -> Tuple[Optional[Rounds], Tuple[Rounds, ...]]:
    """(the last run, all that are over). Raises PlumblineError for a file that is damaged."""
    last = read_rounds(paths.rounds, options)
    over = [run for run in (read_rounds(path, options) for path in earlier_paths(paths)) if run is not None]
    if last is None and over:  # cut off between two runs
        return over[-1], tuple(over)
    return last, (*over, last) if last is not None and last.freed else tuple(over)
