# SPDX-License-Identifier: GPL-3.0-or-later
"""What an acceptance is asked for, and what its drive is compared with. Pure."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import kind
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import Faults, PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import (
    AS_FOUND,
    BY_NAME,
    CELLS,
    FILLED,
    READ_CELLS,
    STEADY_CELL,
    Cell,
    cell_for_reads,
    in_state_filled,
)

# What the module takes beside its devices and what it does with it.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "cells": {"type": "list", "elements": "str", "default": []},
    "record": {"type": "dict", "default": {}},
    "floors": {"type": "dict", "default": {}},
    "workload": {
        "type": "dict",
        "options": {"read_iops": {"type": "float"}, "write_iops": {"type": "float"}, "kib": {"type": "float", "required": True}},
        "required_one_of": [["read_iops", "write_iops"]],
    },
    "required": {"type": "list", "elements": "str", "default": []},
    "blocks": {"type": "int", "default": 5},
    "block_seconds": {"type": "float", "default": 2},
    "max_cpu": {"type": "float", "default": 0.5},
    "writes": {"type": "bool", "default": False},
    "serial": {"type": "str", "default": ""},
    "terabytes_written": {"type": "int", "default": 0},
    "accept_wear": {"type": "bool", "default": False},
    "steady": {"type": "dict", "default": {}},
}
# A share of blank blocks above which reads say nothing of the flash.
MOST = 0.5
_FEWEST_RATES = 2


class Demand(NamedTuple):
    """What a workload asks of a cell: requests per second of the cell's own size."""

    cell: str
    floor: float
    text: str


class Former(NamedTuple):
    """A former result: whose it is, and the rates of its blocks by cell."""

    of: str
    rates: Mapping[str, Tuple[float, ...]]


class Options(NamedTuple):
    """The options of a measurement. Times in seconds."""

    cells: Tuple[Cell, ...] = READ_CELLS
    former: Former = Former("", {})
    floors: Mapping[str, float] = {}
    demands: Tuple[Demand, ...] = ()
    required: Tuple[str, ...] = ()  # none: those that are compared with something
    blocks: int = 5
    block_seconds: float = 2.0
    max_cpu: float = 0.5
    serial: str = ""  # of the drive that may be written to; empty: only read
    steady: Tuple[float, ...] = ()  # writes per second in rounds of its steady state


def read_options(params: Mapping[str, Any]) -> Options:
    """The options from a module's parameters. Raises PlumblineError with all that is wrong with them."""
    faults = Faults()
    none: List[str] = []
    no_floors: Dict[str, float] = {}
    valid = CELLS if params["writes"] else READ_CELLS
    if params["writes"] and not params["serial"]:
        faults.lines.append("writes: they destroy what is on the drive; wanted its serial too (serial), as device_info shows it")
    cells = [BY_NAME[name] for name in faults.take(none, _names, params["cells"], "cells", [cell.name for cell in valid])] or list(valid)
    cells = [in_state_filled(cell) for cell in cells] if params["writes"] else cells
    steady: Tuple[float, ...] = faults.take((), _steady, params["steady"])
    judged = [*cells, STEADY_CELL] if steady else cells
    measured = [cell.name for cell in judged]
    floors = faults.take(no_floors, _floors, params["floors"], measured)
    demands: Tuple[Demand, ...] = faults.take((), _demands, params["workload"] or {}, measured)
    required = faults.take(none, _names, params["required"], "required", measured)
    former = faults.take(Options().former, _former, params["record"], judged)
    for word, low, high in (("blocks", 3, 1000), ("block_seconds", 0.2, 600.0), ("max_cpu", 0.05, 1.0)):
        if not low <= params[word] <= high:
            faults.lines.append("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    if params["record"] and params.get("incumbent"):
        faults.lines.append("record, incumbent: wanted one of them: a drive in this host, or what was measured of one before")
    if params["writes"] and params.get("incumbent"):
        faults.lines.append("writes, incumbent: wanted one of them: measure the other drive by itself, and give its result as record")
    faults.tell()
    serial = params["serial"] if params["writes"] else ""
    numbers = (params["blocks"], params["block_seconds"], params["max_cpu"])
    return Options(tuple(cells), former, floors, demands, tuple(required), *numbers, serial=serial, steady=steady)


def _names(names: Sequence[str], where: str, valid: Sequence[str]) -> List[str]:
    faults = Faults()
    for name in names:
        if name in BY_NAME and BY_NAME[name].writes and name not in valid and len(valid) == len(READ_CELLS) and where == "cells":
            faults.lines.append("cells: %s writes to the drive; wanted writes: true as well, or another cell" % name)
        elif name not in valid:
            faults.lines.append("%s: there is no cell '%s'%s; wanted some of %s" % (where, str(name)[:60], nearest(name, valid), ", ".join(valid)))
    faults.tell()
    return list(dict.fromkeys(names))


def _positive(value: Any, where: str) -> float:
    """A number above 0 that is finite. YAML reads 1e5 as text, so text with a number in it is one."""
    try:
        number = math.nan if isinstance(value, bool) or not isinstance(value, (str, int, float)) else float(value)
    except (ValueError, OverflowError):
        number = math.nan
    if not 0 < number < math.inf:
        raise PlumblineError("%s: '%s' does not fit; wanted a number above 0" % (where, str(value)[:60]))
    return number


def _floors(given: Mapping[str, Any], measured: Sequence[str]) -> Dict[str, float]:
    faults = Faults()
    names: List[str] = faults.take([], _names, [str(name) for name in given], "floors", measured)
    floors = {name: faults.take(1.0, _positive, given[name], "floors: " + name) for name in names if name in given}
    faults.tell()
    return floors


def _demands(workload: Mapping[str, Any], measured: Sequence[str]) -> Tuple[Demand, ...]:
    """A request that is larger than the cell's counts as as many of those as hold its bytes; one that is smaller as a whole one."""
    if not workload:
        return ()
    kib = workload["kib"]
    if not 0.5 <= kib <= 64:
        raise PlumblineError("workload: kib: %g; wanted 0.5 to 64, the size of a random request" % kib)
    demands = []
    # The rate of writes is what is left of it in the steady state, where that was measured.
    writes = STEADY_CELL if STEADY_CELL.name in measured else BY_NAME["rand_write_4k_qd64"]
    for key, cell, what in (("read_iops", cell_for_reads(round(kib * KIB)), "reads"), ("write_iops", writes, "writes")):
        if workload.get(key) is None:
            continue
        rate = _positive(workload[key], "workload: " + key)
        if cell.name not in measured:
            remedy = "give steady, or writes: true" if cell.writes else "add it there"
            raise PlumblineError("workload: it is judged by the cell %s, which is not among cells; %s" % (cell.name, remedy))
        demands.append(Demand(cell.name, rate * max(1.0, kib * KIB / cell.block), "%g random %s/s of %g KiB" % (rate, what, kib)))
    return tuple(demands)


def _steady(result: Mapping[str, Any]) -> Tuple[float, ...]:
    """Writes per second in each round of the windows of a run to the steady state. Raises PlumblineError for a result without its verdict."""
    if not result:
        return ()
    if result.get("verdict") != PASS:
        raise PlumblineError("steady: its verdict is %s; wanted what steady_state returned for a drive that came to its steady state" % result.get("verdict"))
    if not str(result.get("pattern", "")).startswith("4 KiB, random writes"):
        raise PlumblineError("steady: its load is '%s'; wanted random writes of 4 KiB" % str(result.get("pattern"))[:60])
    try:
        (window,) = result["windows"]
        first, last = window["first_fills"], window["last_fills"]
        pairs = zip(result["series"]["fills"], result["series"]["iops"])
        rates = [iops for fills, iops in pairs if iops is not None and first < fills <= last]
    except (KeyError, TypeError, ValueError) as fault:
        raise PlumblineError("steady: it lacks its series or its windows (%r); wanted what steady_state returned" % fault) from fault
    if len(rates) < _FEWEST_RATES:
        raise PlumblineError("steady: %d rounds are in its windows; wanted %d or more" % (len(rates), _FEWEST_RATES))
    return tuple(_positive(rate, "steady: a rate") for rate in rates)


def _former(record: Mapping[str, Any], judged: Sequence[Cell]) -> Former:
    """What a former result has of these cells. Raises PlumblineError where it is none, or was measured on something else than data."""
    if not record:
        return Options().former
    cells = record.get("cells")
    if not isinstance(cells, list) or not all(isinstance(entry, dict) for entry in cells):
        raise PlumblineError("record: its cells are %s; wanted what this module returned, with its list of cells" % kind(cells))
    drive = record.get("drive")
    drive = drive if isinstance(drive, dict) else {}
    blank = drive.get("blank")
    if isinstance(blank, (int, float)) and not blank <= MOST:
        raise PlumblineError("record: the drive held nothing when it was measured; reads of trimmed blocks say nothing of the flash")
    rates: Dict[str, Tuple[float, ...]] = {}
    by_name = {cell.name: cell for cell in judged}
    for entry in cells:
        name = entry.get("name")
        if not isinstance(name, str) or name not in by_name:
            continue
        alike = (by_name[name].state,) if by_name[name].writes else (AS_FOUND, FILLED)
        if entry.get("state") not in alike:
            raise PlumblineError("record: %s was measured in the state '%s'; it is compared in the state %s" % (name, entry.get("state"), " or ".join(alike)))
        blocks = entry.get("rates")
        if not isinstance(blocks, list) or len(blocks) < _FEWEST_RATES:
            raise PlumblineError("record: the rates of %s are %s; wanted a list of %d numbers or more" % (name, kind(blocks), _FEWEST_RATES))
        rates[name] = tuple(_positive(rate, "record: a rate of " + name) for rate in blocks)
    if not rates:
        raise PlumblineError("record: it has none of the cells that are measured; wanted some of %s" % ", ".join(by_name))
    named = [str(drive[key]) for key in ("model", "serial") if drive.get(key)]
    return Former("record of " + (" ".join(named) or "a drive without a name"), rates)
