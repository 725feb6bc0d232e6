# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run to the steady state is asked for, where it is kept, and what it may cost the drive. Pure.

A run has a directory of its own below DIRECTORY, named by the drive's identity: the request, the program, and one line for each round.
What its process says of itself is below /run, which a boot empties and which is there when /var is full.
"""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, NamedTuple, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stack_addresses import reserved_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import parse_share, parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, human, is_power_of_two, round_down
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS, MODES, PASSES, STEADY_STATE, Options
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import MOST_RESERVED, MOST_RUNS, USUAL_HIDDEN, reserve_for_amplification

DIRECTORY = "/var/lib/plumbline/steady"
STATUS_DIRECTORY = "/run/plumbline/steady"
MOST_OF_RATED = 0.005  # of the rated writes, for one run
LEAST_BYTES = 64 * MIB  # a round of 5 % is some hundred requests then
_MOST_READS = 95  # percent
_MOST_DEPTH = 1024
_MOST_FILLS = 20.0
_MOST_AMPLIFIED = 1000
_MOST_MILLISECONDS = 60_000
_GUESSED_AMPLIFICATION = 2.0  # where a search for a latency begins: half of what is programmed is the host's
_AMPLIFICATION_RUNS = 2  # at the guess of the theory, and at a half of it

ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "mode": {"type": "str", "choices": list(MODES), "default": STEADY_STATE},
    "reserve": {"type": "str", "default": "0%"},
    "target": {"type": "dict", "options": {"p99_write_ms": {"type": "float"}, "wa": {"type": "float"}, "hidden": {"type": "str"}}},
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


class ReserveTarget(NamedTuple):
    """The target of a search for a reserve. One of the two limits counts; *hidden*: physical space beyond what the drive sells, where it is known."""

    p99_write_ms: float = 0.0
    wa: float = 0.0
    hidden: Optional[float] = None

    @property
    def limit(self) -> float:
        return self.wa or self.p99_write_ms

    @property
    def figure(self) -> str:
        """The key of the figure in a run's result."""
        return "write_amplification" if self.wa else "p99_ms"

    @property
    def title(self) -> str:
        return "write amplification" if self.wa else "p99 (ms)"

    @property
    def words(self) -> str:
        return "%s of %g" % (self.title, self.limit)

    @property
    def asked(self) -> Dict[str, float]:
        """The target as it was asked for."""
        return {"wa": self.wa} if self.wa else {"p99_write_ms": self.p99_write_ms}

    @property
    def guess(self) -> float:
        """The reserve to begin with. Raises PlumblineError where none is sensible."""
        hidden = USUAL_HIDDEN if self.hidden is None else self.hidden
        return round(reserve_for_amplification(self.wa or _GUESSED_AMPLIFICATION, hidden).share, 4)

    @property
    def runs(self) -> int:
        """The largest number of runs."""
        return _AMPLIFICATION_RUNS if self.wa else MOST_RUNS


class Request(NamedTuple):
    """A run. *drive*: the key of its identity; *mark*: what each sector of its load ends with, in hexadecimal; *target*: of a search for a reserve."""

    path: str
    drive: str
    serial: str
    load: RandomLoad
    options: Options
    mark: str
    target: Optional[ReserveTarget] = None
    model: str = ""
    firmware: str = ""


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

    def earlier(self, number: int) -> str:
        """Where the runs of a search are kept that are over."""
        return os.path.join(self.home, "rounds-%d.jsonl" % number)

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
    base = DEFAULTS.with_reserve(read_share(params["reserve"], "reserve"))
    check_fills(params["max_fills"], base)
    if not 0.1 <= params["precision"] <= 50:
        raise PlumblineError("precision: %g; wanted 0.1 to 50 percent" % params["precision"])
    if params["mode"] != STEADY_STATE and (params["snia"] or params["read_percent"]):
        key = "snia" if params["snia"] else "read_percent"
        raise PlumblineError("%s: only mode steady knows it; mode %s writes alone, and is not judged" % (key, params["mode"]))
    latency = params["read_percent"] > 0  # of a mix the 99th percentile has to stand still as well
    more = {"latency": latency, "mode": params["mode"]}
    return base._replace(max_fills=params["max_fills"], precision=params["precision"] / 100, snia=params["snia"], **more)


def read_target(params: Mapping[str, Any]) -> Optional[ReserveTarget]:
    """The target of a search for a reserve; None where there is none. Raises PlumblineError."""
    given = {key: value for key, value in (params["target"] or {}).items() if value is not None}
    if params["target"] is None:
        return None
    if ("wa" in given) == ("p99_write_ms" in given):
        raise PlumblineError("target: wanted exactly one of 'p99_write_ms' and 'wa'")
    if params["mode"] != STEADY_STATE or params["reserve"] not in ("0", "0%"):
        raise PlumblineError("target: it looks for the reserve by runs to the steady state; leave out mode and reserve")
    for key, least, most in (("p99_write_ms", 0.0, _MOST_MILLISECONDS), ("wa", 1.0, _MOST_AMPLIFIED)):
        if key in given and not least < given[key] <= most:
            raise PlumblineError("target.%s: %g; wanted more than %g, and at most %g" % (key, given[key], least, most))
    hidden = read_share(given["hidden"], "target.hidden") if "hidden" in given else None
    target = ReserveTarget(given.get("p99_write_ms", 0.0), given.get("wa", 0.0), hidden)
    try:
        check_fills(params["max_fills"], DEFAULTS.with_reserve(MOST_RESERVED))
        target.guess  # pylint: disable=pointless-statement # noqa: B018 # some targets have none
    except PlumblineError as fault:
        raise PlumblineError("target: %s" % fault.msg) from fault
    return target


def read_share(text: str, where: str) -> float:
    """A reserve, 0 to 0.5."""
    share = 0.0 if text in ("0", "0%") else parse_share(text, where) / 100
    if share > MOST_RESERVED:
        raise PlumblineError("%s: %s; wanted at most %g%%" % (where, text, 100 * MOST_RESERVED))
    return share


def check_fills(max_fills: float, options: Options) -> None:
    """Raises PlumblineError for a longest load with which there would be no verdict."""
    if not options.min_fills <= max_fills <= _MOST_FILLS:
        reserved = " with a reserve of %g%%" % (100 * options.reserve) if options.reserve else ""
        raise PlumblineError("max_fills: %g; wanted %g to %g%s" % (max_fills, options.min_fills, _MOST_FILLS, reserved))


def loaded_span(size: int, reserve: float) -> Span:
    """What is loaded of a device of *size* bytes: as much as a partition has that leaves such a reserve, and what a stack owns without one.

    Raises PlumblineError where that is too little for a round of the load.
    """
    kept = max(reserved_bytes(size, {"percent": 100 * reserve}), MIB)
    span = Span(MIB, max(round_down(size - kept, MIB) - MIB, 0))
    if reserve and span.length < LEAST_BYTES:
        text = "reserve: %g%% of %s leave %s; a round of the load needs %s at least"
        raise PlumblineError(text % (100 * reserve, human(size), human(span.length), human(LEAST_BYTES)))
    return span


def most_written(capacity: int, options: Options) -> int:
    """Bytes that a run writes at most: the fill, and the random load up to its end."""
    return round(capacity * (options.sequential_fills + options.max_fills))


def load_words(load: RandomLoad, options: Options) -> str:
    """The random load for people."""
    kind = "%d %% reads" % load.read_percent if load.read_percent else "random writes"
    each = ", each block once per pass" if options.mode == PASSES else ""
    return "%d KiB, %s, %d outstanding%s" % (load.block // KIB, kind, load.depth, each)


def check_wear(capacity: int, options: Options, params: Mapping[str, Any], runs: int = 1) -> str:
    """What the run may cost, or so many, in one line. Raises PlumblineError where that is more than a share of the rated writes, and nobody has accepted it."""
    most = most_written(capacity, options)
    parts = "one fill of %s in sequence, and up to %g at random" % (human(capacity), options.max_fills)
    if options.is_picture:
        parts = "%g fills of %s at random" % (options.max_fills, human(capacity))
    return accept_cost(runs * most, parts if runs == 1 else "%d runs, each with %s" % (runs, parts), params)


def accept_cost(most: int, parts: str, params: Mapping[str, Any]) -> str:
    """What writing *most* bytes costs the drive, in one line with its *parts*. Raises PlumblineError as check_wear() does."""
    text = "it writes %s at most (%s)" % (human(most), parts)
    rated = params["terabytes_written"] * 10**12
    if rated < 0:
        raise PlumblineError("terabytes_written: %d; wanted the drive's rated endurance (TBW)" % params["terabytes_written"])
    if rated:
        text += ", %.2f %% of the %d TB that the drive is rated for" % (100 * most / rated, params["terabytes_written"])
    if params["accept_wear"] or (rated and most <= MOST_OF_RATED * rated):
        return text
    if not rated:
        raise PlumblineError("refused: nothing was written. %s; say what the drive is rated for (terabytes_written, its TBW), or accept_wear: true" % text)
    raise PlumblineError("refused: nothing was written. %s; more than %g %% needs accept_wear: true" % (text, 100 * MOST_OF_RATED))


def as_record(request: Request) -> Mapping[str, Any]:
    """The request as it is kept."""
    target = request.target._asdict() if request.target else None
    return {**request._asdict(), "load": request.load._asdict(), "options": request.options._asdict(), "target": target}


def read_record(record: Any, where: str) -> Request:
    """A request that was kept. Raises PlumblineError for anything else."""
    try:
        target = ReserveTarget(**record["target"]) if record.get("target") else None
        request = Request(**{**record, "load": RandomLoad(**record["load"]), "options": Options(**record["options"]), "target": target})
        if len(bytes.fromhex(request.mark)) and all(isinstance(word, str) and word for word in (request.path, request.drive, request.serial)):
            return request
    except (AttributeError, TypeError, KeyError, ValueError):
        pass
    raise PlumblineError("%s: it is no request of a run, or damaged; remove its directory, and free the device by your own tools" % where)
