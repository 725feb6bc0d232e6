# SPDX-License-Identifier: GPL-3.0-or-later
"""What an acceptance is asked for, and what its drive is compared with. Pure."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.checks import kind
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import Faults, PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._common.sizes import KIB
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import AS_FOUND, BY_NAME, CELLS, Cell, cell_for_reads

# What the module takes beside its devices and what it does with it.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "cells": {"type": "list", "elements": "str", "default": []},
    "record": {"type": "dict", "default": {}},
    "floors": {"type": "dict", "default": {}},
    "workload": {"type": "dict", "options": {"read_iops": {"type": "float", "required": True}, "kib": {"type": "float", "required": True}}},
    "required": {"type": "list", "elements": "str", "default": []},
    "blocks": {"type": "int", "default": 5},
    "block_seconds": {"type": "float", "default": 2},
    "max_cpu": {"type": "float", "default": 0.5},
}
# A share of blank blocks above which reads say nothing of the flash.
MOST = 0.5
_FEWEST_RATES = 2


class Demand(NamedTuple):
    """What a workload asks of a cell: reads per second of the cell's own size."""

    cell: str
    floor: float
    text: str


class Former(NamedTuple):
    """A former result: whose it is, and the rates of its blocks by cell."""

    of: str
    rates: Mapping[str, Tuple[float, ...]]


class Options(NamedTuple):
    """The options of a measurement. Times in seconds."""

    cells: Tuple[Cell, ...] = CELLS
    former: Former = Former("", {})
    floors: Mapping[str, float] = {}
    demand: Demand = Demand("", 0.0, "")  # without a workload: of no cell
    required: Tuple[str, ...] = ()  # none: those that are compared with something
    blocks: int = 5
    block_seconds: float = 2.0
    max_cpu: float = 0.5


def read_options(params: Mapping[str, Any]) -> Options:
    """The options from a module's parameters. Raises PlumblineError with all that is wrong with them."""
    faults = Faults()
    none: List[str] = []
    no_floors: Dict[str, float] = {}
    cells = [BY_NAME[name] for name in faults.take(none, _names, params["cells"], "cells", list(BY_NAME))] or list(CELLS)
    measured = [cell.name for cell in cells]
    floors = faults.take(no_floors, _floors, params["floors"], measured)
    demand = faults.take(Options().demand, _demand, params["workload"] or {}, measured)
    required = faults.take(none, _names, params["required"], "required", measured)
    former = faults.take(Options().former, _former, params["record"], measured)
    for word, low, high in (("blocks", 3, 1000), ("block_seconds", 0.2, 600.0), ("max_cpu", 0.05, 1.0)):
        if not low <= params[word] <= high:
            faults.lines.append("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    if params["record"] and params.get("incumbent"):
        faults.lines.append("record, incumbent: wanted one of them: a drive in this host, or what was measured of one before")
    faults.tell()
    return Options(tuple(cells), former, floors, demand, tuple(required), params["blocks"], params["block_seconds"], params["max_cpu"])


def _names(names: Sequence[str], where: str, valid: Sequence[str]) -> List[str]:
    faults = Faults()
    for name in names:
        if name not in valid:
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
    found = {name: faults.take(1.0, _positive, given[name], "floors: " + name) for name in names if name in given}
    faults.tell()
    return found


def _demand(workload: Mapping[str, Any], measured: Sequence[str]) -> Demand:
    """A read that is larger than the cell's counts as as many of those as hold its bytes; one that is smaller as a whole one."""
    if not workload:
        return Options().demand
    reads = _positive(workload["read_iops"], "workload: read_iops")
    kib = workload["kib"]
    if not 0.5 <= kib <= 64:
        raise PlumblineError("workload: kib: %g; wanted 0.5 to 64, the size of a random read" % kib)
    cell = cell_for_reads(round(kib * KIB))
    if cell.name not in measured:
        raise PlumblineError("workload: it is judged by the cell %s, which is not among cells; add it there" % cell.name)
    return Demand(cell.name, reads * max(1.0, kib * KIB / cell.block), "%g random reads/s of %g KiB" % (reads, kib))


def _former(record: Mapping[str, Any], measured: Sequence[str]) -> Former:
    """What a former result has of these cells. Raises PlumblineError where it is none, or was measured on something else than data."""
    if not record:
        return Options().former
    cells = record.get("cells")
    if not isinstance(cells, list) or not all(isinstance(one, dict) for one in cells):
        raise PlumblineError("record: its cells are %s; wanted what this module returned, with its list of cells" % kind(cells))
    drive = record.get("drive")
    drive = drive if isinstance(drive, dict) else {}
    blank = drive.get("blank")
    if isinstance(blank, (int, float)) and not blank <= MOST:
        raise PlumblineError("record: the drive held nothing when it was measured; reads of trimmed blocks say nothing of the flash")
    rates: Dict[str, Tuple[float, ...]] = {}
    for one in cells:
        name = one.get("name")
        if not isinstance(name, str) or name not in measured:
            continue
        if one.get("state") != AS_FOUND:
            raise PlumblineError("record: %s was measured in the state '%s'; reads are compared in the state %s" % (name, one.get("state"), AS_FOUND))
        blocks = one.get("rates")
        if not isinstance(blocks, list) or len(blocks) < _FEWEST_RATES:
            raise PlumblineError("record: the rates of %s are %s; wanted a list of %d numbers or more" % (name, kind(blocks), _FEWEST_RATES))
        rates[name] = tuple(_positive(rate, "record: a rate of " + name) for rate in blocks)
    if not rates:
        raise PlumblineError("record: it has none of the cells that are measured; wanted some of %s" % ", ".join(measured))
    named = [str(drive[key]) for key in ("model", "serial") if drive.get(key)]
    return Former("record of " + (" ".join(named) or "a drive without a name"), rates)
