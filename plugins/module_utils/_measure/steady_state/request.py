# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run to the steady state is asked for, where it is kept, and what it may cost the drive. Pure.

A run has a directory of its own below DIRECTORY, named by the drive's identity: the request, the program, and one line for each round.
What its process says of itself is below /run, which a boot empties and which is there when /var is full.
"""

from __future__ import annotations

import os
from typing import Any, Mapping, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._common.read_sizes import parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._common.sizes import KIB, MIB, human, is_power_of_two
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS, Options

DIRECTORY = "/var/lib/plumbline/steady"
STATUS_DIRECTORY = "/run/plumbline/steady"
MOST_OF_RATED = 0.005  # of the rated writes, for one run
LEAST_BYTES = 64 * MIB  # a round of 5 % is some hundred requests then
_MOST_READS = 95  # percent
_MOST_DEPTH = 1024
_MOST_FILLS = 20.0

ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "block_size": {"type": "str", "default": "4KiB"},
    "depth": {"type": "int", "default": 32},
    "read_percent": {"type": "int", "default": 0},
    "max_fills": {"type": "float", "default": DEFAULTS.max_fills},
    "precision": {"type": "float", "default": 100 * DEFAULTS.precision},
    "snia": {"type": "bool", "default": False},
    "terabytes_written": {"type": "int", "default": 0},
    "accept_wear": {"type": "bool", "default": False},
}


class RandomLoad(NamedTuple):
    """The random load that follows the fill."""

    block: int  # bytes
    depth: int
    read_percent: int


class Request(NamedTuple):
    """A run. *drive*: the key of its identity; *mark*: what each sector of its load ends with, in hexadecimal."""

    path: str
    drive: str
    serial: str
    load: RandomLoad
    options: Options
    mark: str


class Paths(NamedTuple):
    """Where a run is kept."""

    home: str
    status: str

    @property
    def request(self) -> str:
        return os.path.join(self.home, "request.json")

    @property
    def rounds(self) -> str:
        return os.path.join(self.home, "rounds.jsonl")

    @property
    def program(self) -> str:
        return os.path.join(self.home, "steady.pyz")


def paths_of(run: str) -> Paths:
    """*run*: the name of the run."""
    return Paths(os.path.join(DIRECTORY, run), os.path.join(STATUS_DIRECTORY, run + ".json"))


def read_random_load(params: Mapping[str, Any]) -> RandomLoad:
    """Raises PlumblineError for a load that nobody could run."""
    block = parse_size(params["block_size"], "block_size")
    if not 4 * KIB <= block <= MIB or not is_power_of_two(block):
        raise PlumblineError("block_size: %s; wanted a power of two from 4KiB to 1MiB" % params["block_size"])
    if not 1 <= params["depth"] <= _MOST_DEPTH:
        raise PlumblineError("depth: %d; wanted 1 to %d requests" % (params["depth"], _MOST_DEPTH))
    if not 0 <= params["read_percent"] <= _MOST_READS:
        raise PlumblineError("read_percent: %d; wanted 0 to %d, since without writes no drive has a steady state" % (params["read_percent"], _MOST_READS))
    return RandomLoad(block, params["depth"], params["read_percent"])


def read_run_options(params: Mapping[str, Any]) -> Options:
    """Raises PlumblineError for bounds that no run could keep."""
    if not DEFAULTS.min_fills <= params["max_fills"] <= _MOST_FILLS:
        raise PlumblineError("max_fills: %g; wanted %g to %g" % (params["max_fills"], DEFAULTS.min_fills, _MOST_FILLS))
    if not 0.1 <= params["precision"] <= 50:
        raise PlumblineError("precision: %g; wanted 0.1 to 50 percent" % params["precision"])
    latency = params["read_percent"] > 0  # of a mix the 99th percentile has to stand still as well
    return DEFAULTS._replace(max_fills=params["max_fills"], precision=params["precision"] / 100, snia=params["snia"], latency=latency)


def most_written(capacity: int, options: Options) -> int:
    """Bytes that a run writes at most: the fill, and the random load up to its end."""
    return round(capacity * (1 + options.max_fills))


def check_wear(capacity: int, options: Options, params: Mapping[str, Any]) -> str:
    """What the run may cost, in one line. Raises PlumblineError where that is more than a share of the rated writes, and nobody has accepted it."""
    most = most_written(capacity, options)
    parts = "one fill of %s in sequence, and up to %g at random" % (human(capacity), options.max_fills)
    return accept_cost(most, parts, params)


def accept_cost(most: int, parts: str, params: Mapping[str, Any]) -> str:
    """What writing *most* bytes costs the drive, in one line with its *parts*. Raises PlumblineError as check_wear() does."""
    told = "it writes %s at most (%s)" % (human(most), parts)
    rated = params["terabytes_written"] * 10**12
    if rated < 0:
        raise PlumblineError("terabytes_written: %d; wanted the drive's rated endurance (TBW)" % params["terabytes_written"])
    if rated:
        told += ", %.2f %% of the %d TB that the drive is rated for" % (100 * most / rated, params["terabytes_written"])
    if params["accept_wear"] or (rated and most <= MOST_OF_RATED * rated):
        return told
    if not rated:
        raise PlumblineError("refused: nothing was written. %s; say what the drive is rated for (terabytes_written, its TBW), or accept_wear: true" % told)
    raise PlumblineError("refused: nothing was written. %s; more than %g %% needs accept_wear: true" % (told, 100 * MOST_OF_RATED))


def as_record(request: Request) -> Mapping[str, Any]:
    """The request as it is kept."""
    return {**request._asdict(), "load": request.load._asdict(), "options": request.options._asdict()}


def read_record(record: Any, where: str) -> Request:
    """A request that was kept. Raises PlumblineError for anything else."""
    try:
        found = Request(**{**record, "load": RandomLoad(**record["load"]), "options": Options(**record["options"])})
        if len(bytes.fromhex(found.mark)) and all(isinstance(word, str) and word for word in (found.path, found.drive, found.serial)):
            return found
    except (TypeError, KeyError, ValueError):
        pass
    raise PlumblineError("%s: it is no request of a run, or damaged; remove its directory, and free the device by your own tools" % where)
