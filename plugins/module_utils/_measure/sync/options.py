# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sync latency measurement is asked for. Pure."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import DIRECT, ROWS, WRITTEN, Row

_COMPARED = ("fdatasync",)
# What the module takes beside its target.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "rows": {"type": "list", "elements": "str"},
    "seconds": {"type": "float", "default": 1},
    "max_seconds": {"type": "float", "default": 120},
    "min_ops": {"type": "dict", "default": {}},
    "max_p99_ms": {"type": "dict", "default": {}},
    "cache_states": {"type": "bool", "default": False},
}


class Options(NamedTuple):
    """What is asked. *seconds* per row, *max_seconds* for all; thresholds by the name of a row."""

    rows: Tuple[Row, ...] = ROWS
    seconds: float = 1.0
    max_seconds: float = 120.0
    min_ops: Mapping[str, float] = {}
    max_p99_ms: Mapping[str, float] = {}


def read_options(params: Mapping[str, Any]) -> Options:
    """The options from a module's parameters. Raises PlumblineError for one that makes no sense."""
    for word, low, high in (("seconds", 0.1, 60.0), ("max_seconds", 1.0, 3600.0)):
        if not low <= params[word] <= high:
            raise PlumblineError("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    known = {row.name: row for row in ROWS}
    asked = list(known) if params["rows"] is None else params["rows"]
    for name in asked:
        if name not in known:
            raise PlumblineError("rows: there is no row '%s'%s; the rows are %s" % (name, nearest(name, known), ", ".join(known)))
    if not asked:
        raise PlumblineError("rows: the list is empty; wanted at least one of %s" % ", ".join(known))
    rows = tuple(row for row in ROWS if row.name in asked)
    if len(rows) * params["seconds"] > params["max_seconds"]:
        raise PlumblineError(
            "max_seconds: %g; wanted at least %g, which %d rows of %g s take; ask for fewer rows, or for less time each"
            % (params["max_seconds"], len(rows) * params["seconds"], len(rows), params["seconds"])
        )
    names = [row.name for row in rows]
    options = Options(rows, params["seconds"], params["max_seconds"], _limits(params, "min_ops", names), _limits(params, "max_p99_ms", names))
    if params["cache_states"]:
        for_states(options, True)  # whether the time is enough for the rows that are measured besides
    return options


def for_states(options: Options, original: bool) -> Options:
    """The options for one of the write cache's two states: with the rows that the comparison needs. Thresholds are for the original one.

    Raises PlumblineError where the time for all of them is not enough.
    """
    names = [row.name for row in options.rows]
    rows = (*(row for row in ROWS if row.name in (*names, *_COMPARED)), DIRECT, WRITTEN)
    if len(rows) * options.seconds > options.max_seconds:
        raise PlumblineError(
            "max_seconds: %g; wanted at least %g for each state of the write cache, which %d rows of %g s take: cache_states measures %s as well; "
            "ask for fewer rows, or for less time each"
            % (options.max_seconds, len(rows) * options.seconds, len(rows), options.seconds, ", ".join((*_COMPARED, DIRECT.name, WRITTEN.name)))
        )
    return options._replace(rows=rows) if original else options._replace(rows=rows, min_ops={}, max_p99_ms={})


def _limits(params: Mapping[str, Any], option: str, names: Sequence[str]) -> Dict[str, float]:
    """The thresholds of one option, by row."""
    limits: Dict[str, float] = {}
    for name, value in params[option].items():
        if name not in names:
            raise PlumblineError("%s: the row '%s' is not measured%s; measured are %s" % (option, name, nearest(str(name), names), ", ".join(names)))
        try:
            limits[name] = float("nan") if isinstance(value, bool) else float(value)
        except (TypeError, ValueError):
            limits[name] = float("nan")
        if not 0 < limits[name] < float("inf"):
            raise PlumblineError("%s: %s: '%s' is no threshold; wanted a number above 0" % (option, name, value))
    return limits
