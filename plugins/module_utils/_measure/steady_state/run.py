# SPDX-License-Identifier: GPL-3.0-or-later
"""A run to the steady state that outlives its process: discard, one sequential fill, random load until there is a verdict. I/O.

Each round is one line of a file, and on the disk before the next round begins. Whoever takes the run up again loses the round that was under way
and no other: the fill goes on behind its last round. The windows of the load begin anew, since a drive that was left alone has tidied up; what
was written before still counts for the fills. Who writes to the drive is a backend, so the run knows neither fio nor devices.

A picture has no sequential fill, and its load is one process for each fill, since idle moments and a new random map would show in it. There a line
is a window of 1 %, kept while the process goes on.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lines import LineFile
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import COUNTERS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.cliff import WINDOW_SHARE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import ROUND_SHARE, RUNNING, LoadRound, Steady
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS, PASSES, Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.rounds import Rounds, parse_records

FORMAT = 1
_TRIES = 3  # of a round whose load was ended from outside
_FOREIGN = 0.02  # of the capacity: what the drive may count beyond our rounds, by the units of its counter


class LoadKilled(PlumblineError):
    """A load was ended from outside."""


class Backend:
    """What writes to the drive. Lengths and offsets are bytes; a round returns when all of it is written.

    fill, load and draw raise LoadKilled where they were ended from outside."""

    def discard(self) -> None:
        """Discard the whole device."""
        raise NotImplementedError

    def fill(self, offset: int, length: int) -> LoadRound:
        """Write these bytes in sequence."""
        raise NotImplementedError

    def load(self, length: int) -> LoadRound:
        """Write so many bytes at uniform random places, or what else the load is."""
        raise NotImplementedError

    def draw(self, length: int, window: float, passes: bool, keep: Callable[[LoadRound], None]) -> LoadRound:
        """Write so many bytes at random in one go, and hand over each *window* of them. *passes*: write no block twice. Returns all of it as one."""
        raise NotImplementedError

    def counters(self) -> Mapping[str, int]:
        """What the drive has counted ever since: ``host_bytes_written``, and what else tells its write amplification; without what it does not count."""
        raise NotImplementedError


class SteadyRun:
    """One run, kept in a file. *drive*: by what the drive is known from run to run. It holds the file's lock until it is closed."""

    def __init__(self, path: str, drive: str, capacity: int, backend: Backend, options: Options = DEFAULTS) -> None:
        """Begin a run, or take one up. Raises PlumblineError where another process has it, where it is of another drive, or somebody else wrote."""
        if capacity < 1 / ROUND_SHARE:
            raise PlumblineError("%s: a capacity of %d bytes; there is nothing to load" % (path, capacity))
        self.path, self.capacity, self.backend, self.options = path, capacity, backend, options
        self._head = {"format": FORMAT, "drive": drive, "capacity": capacity, "options": dict(options._asdict())}
        self.records: List[Dict[str, Any]] = []
        self._file = LineFile(path, "another process has this run; wait for it")
        try:
            self._take_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._file.close()

    @property
    def rounds(self) -> Rounds:
        """What was kept so far."""
        return Rounds(self.records, self.capacity, self.options)

    @property
    def verdict(self) -> Steady:
        """What the rounds of the load say."""
        return self.rounds.verdict

    def finish(self) -> None:
        """Keep that the device was left blank again: whatever it carries from now on is none of this run's."""
        self._keep({"step": "freed"})

    def advance(self) -> Steady:
        """Do the next round and keep it; nothing happens behind the verdict."""
        steps = {record["step"] for record in self.records}
        length = math.ceil(ROUND_SHARE * self.capacity)
        if "discard" not in steps:
            self.backend.discard()
            self._keep({"step": "discard", **self._counted()})
        elif self.rounds.to_fill > 0:
            self._keep_round("fill", lambda: self.backend.fill(self.rounds.filled, min(length, self.rounds.to_fill)))
        elif self.verdict.verdict == RUNNING:
            if self.options.is_picture:
                self._draw()
            else:
                self._keep_round("load", lambda: self.backend.load(length))
        return self.verdict

    def _draw(self) -> None:
        """One fill at random, or what is left of it. Where it is killed the next one goes on, unless it came to nothing."""
        left = math.ceil(self.capacity * (self.options.max_fills - self.verdict.fills))
        before = len(self.records)
        try:
            whole = self.backend.draw(min(left, self.capacity), WINDOW_SHARE * self.capacity, self.options.mode == PASSES, self._keep_window)
        except LoadKilled:
            if len(self.records) == before:
                raise
            self._keep({"step": "resumed", **self._counted()})
            return
        if len(self.records) == before:
            raise PlumblineError("%s: a load wrote nothing; has the drive gone?" % self.path)
        self._keep({"step": "drawn", **whole._asdict(), **self._counted()})

    def _keep_window(self, load_round: LoadRound) -> None:
        """The drive is not asked for its own count: a command to it would show in the rate."""
        self._keep({"step": "load", **load_round._asdict()})

    def run(self) -> Steady:
        """All rounds that are left."""
        while self.advance().verdict == RUNNING:
            pass
        return self.verdict

    def _keep_round(self, step: str, write: Callable[[], LoadRound]) -> None:
        """One round. It is begun again where its load was killed, and what that one wrote is kept first: it is ours as well."""
        for left in reversed(range(_TRIES)):
            try:
                load_round = write()
                break
            except LoadKilled:
                self._keep({"step": "killed", **self._counted()})
                if not left:
                    raise
        if load_round.bytes <= 0:
            raise PlumblineError("%s: a round wrote nothing; has the drive gone?" % self.path)
        self._keep({"step": step, **load_round._asdict(), **self._counted()})

    def _counted(self) -> Dict[str, Any]:
        counters = self.backend.counters()
        return {"written": counters.get("host_bytes_written"), "counters": {name: counters[name] for name in COUNTERS if name in counters}}

    def _keep(self, record: Dict[str, Any]) -> None:
        try:
            self._file.append(record)
        except OSError as fault:
            raise PlumblineError("%s: a round could not be kept: %s; make room, and take the run up again" % (self.path, fault.strerror or fault)) from fault
        if record["step"] != "head":
            self.records.append(record)

    def _take_up(self) -> None:
        lines = parse_records(self._file.whole_lines(), self.path)
        if not lines:
            self._keep({"step": "head", **self._head})
            return
        head = {key: value for key, value in lines[0].items() if key != "step"}
        differ = sorted(key for key in {*head, *self._head} if head.get(key) != self._head.get(key))
        if lines[0]["step"] != "head" or differ:
            raise PlumblineError("%s: a run with another %s was begun there; remove the file to begin anew" % (self.path, ", ".join(differ) or "beginning"))
        self.records = lines[1:]
        if self.records and self.verdict.verdict == RUNNING:
            self._check_foreign_writes()
            self._keep({"step": "resumed", **self._counted()})

    def _check_foreign_writes(self) -> None:
        """The drive's own counter has to be where the last record left it, but for the round that was under way.

        A counter that is lower says nothing: emulated drives count from each start anew. The drive's identity and the marks of the load are proven besides.
        """
        known = max((number for number, record in enumerate(self.records) if record.get("written") is not None), default=None)
        now = self._counted()["written"]
        if known is None or now is None:
            return
        ours = sum(record["bytes"] for record in self.records[known + 1 :] if record["step"] == "load")
        beyond = now - self.records[known]["written"] - ours
        if beyond > (ROUND_SHARE + _FOREIGN) * self.capacity:
            raise PlumblineError("%s: %d bytes were written to the drive since the run was interrupted; remove the file to begin anew" % (self.path, beyond))
