# SPDX-License-Identifier: GPL-3.0-or-later
"""A run to the steady state that outlives its process: discard, one sequential fill, random load until there is a verdict. I/O.

Each round is one line of a file, and on the disk before the next round begins. Whoever takes the run up again loses the round that was under way
and no other: the fill goes on behind its last round. The windows of the load begin anew, since a drive that was left alone has tidied up; what
was written before still counts for the fills. Who writes to the drive is a backend, so the run knows neither fio nor devices.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import math
import os
from typing import Any, Dict, List, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._common.verdict import INCONCLUSIVE
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import (
    ROUND_SHARE,
    RUNNING,
    STEADY,
    WINDOW,
    LoadRound,
    Steady,
    judge_steady,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.options import DEFAULTS, Options

FORMAT = 1
_TIDIED = 0.25  # fills that an idle drive may have made room for: half of the largest hidden space
_FOREIGN = 0.02  # of the capacity: what the drive may count beyond our rounds, by the units of its counter


class Backend:
    """What writes to the drive. Lengths and offsets are bytes; a round returns when all of it is written."""

    def discard(self) -> None:
        """Discard the whole device."""
        raise NotImplementedError

    def fill(self, offset: int, length: int) -> LoadRound:
        """Write these bytes in sequence."""
        raise NotImplementedError

    def load(self, length: int) -> LoadRound:
        """Write so many bytes at uniform random places, or what else the load is."""
        raise NotImplementedError

    def written(self) -> Optional[int]:
        """The drive's own count of the bytes that hosts ever wrote, if it has one."""
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
        self._fd = _open_locked(path)
        try:
            self._take_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        os.close(self._fd)

    @property
    def filled(self) -> int:
        """Bytes of the sequential fill that are done."""
        return sum(one["bytes"] for one in self.records if one["step"] == "fill")

    @property
    def verdict(self) -> Steady:
        """What the rounds of the load say. Those before the run was last taken up count as written and for nothing else."""
        resumed = max((number for number, one in enumerate(self.records) if one["step"] == "resumed"), default=-1)
        before = sum(one["bytes"] for one in self.records[: resumed + 1] if one["step"] == "load") / self.capacity
        rounds = [_round_of(one) for one in self.records[resumed + 1 :] if one["step"] == "load"]
        options = self.options
        if before:
            least = max(options.min_fills - before, _TIDIED + 2 * WINDOW * ROUND_SHARE)
            options = options._replace(min_fills=least, max_fills=max(options.max_fills - before, 0.0))
        found = judge_steady(rounds, self.capacity, options)
        if before and found.verdict == INCONCLUSIVE:
            found = found._replace(why="%s; it was interrupted after %.1f fills" % (found.why, before))
        return found._replace(fills=before + found.fills)

    @property
    def share(self) -> float:
        """How much of the run is done, 0 to 1, if it is as long as it may be."""
        verdict = self.verdict
        return 1.0 if verdict.verdict != RUNNING else (self.filled / self.capacity + verdict.fills) / (1 + self.options.max_fills)

    def advance(self) -> Steady:
        """Do the next round and keep it; nothing happens behind the verdict."""
        steps = {one["step"] for one in self.records}
        length = math.ceil(ROUND_SHARE * self.capacity)
        if "discard" not in steps:
            self.backend.discard()
            self._keep({"step": "discard", "written": self.backend.written()})
        elif self.filled < self.capacity:
            self._keep_round("fill", self.backend.fill(self.filled, min(length, self.capacity - self.filled)))
        elif self.verdict.verdict == RUNNING:
            self._keep_round("load", self.backend.load(length))
        return self.verdict

    def run(self) -> Steady:
        """All rounds that are left."""
        while self.advance().verdict == RUNNING:
            pass
        return self.verdict

    def _keep_round(self, step: str, one: LoadRound) -> None:
        if one.bytes <= 0:
            raise PlumblineError("%s: a round wrote nothing; has the drive gone?" % self.path)
        self._keep({"step": step, **one._asdict(), "written": self.backend.written()})

    def _keep(self, record: Dict[str, Any]) -> None:
        """One line, on the disk. What could be written of it in part only is taken back."""
        end = os.lseek(self._fd, 0, os.SEEK_END)
        line = (json.dumps(record, sort_keys=True, allow_nan=False) + "\n").encode()
        try:
            if os.write(self._fd, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._fd)
        except OSError as fault:
            with contextlib.suppress(OSError):  # a part of a line is left out by whoever reads it
                os.ftruncate(self._fd, end)
            raise PlumblineError("%s: a round could not be kept: %s; make room, and take the run up again" % (self.path, fault.strerror or fault)) from fault
        if record["step"] != "head":
            self.records.append(record)

    def _take_up(self) -> None:
        text = _read_all(self._fd)
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):  # the line that a killed process was writing
            os.ftruncate(self._fd, len(whole))
        try:
            lines = [json.loads(line) for line in whole.decode("ascii").splitlines()]
            if not all(isinstance(line, dict) and "step" in line for line in lines):
                raise ValueError
            for line in lines:
                if line["step"] in ("fill", "load"):
                    _round_of(line)
        except (ValueError, KeyError, TypeError) as fault:
            raise PlumblineError("%s: it is no record of a run, or damaged; remove it to begin anew" % self.path) from fault
        if not lines:
            self._keep({"step": "head", **self._head})
            return
        head = {key: value for key, value in lines[0].items() if key != "step"}
        differ = sorted(key for key in {*head, *self._head} if head.get(key) != self._head.get(key))
        if lines[0]["step"] != "head" or differ:
            raise PlumblineError("%s: a run with another %s was begun there; remove the file to begin anew" % (self.path, ", ".join(differ) or "beginning"))
        self.records = lines[1:]
        if self.records and self.verdict.verdict not in (STEADY, INCONCLUSIVE):
            self._check_foreign_writes()
            self._keep({"step": "resumed", "written": self.backend.written()})

    def _check_foreign_writes(self) -> None:
        """The drive's own counter has to be where the last round left it, but for the round that was under way."""
        last, now = self.records[-1].get("written"), self.backend.written()
        if last is None or now is None:
            return
        beyond = now - last
        if beyond < 0:
            raise PlumblineError(
                "%s: the drive has counted fewer bytes (%d) than when the run was interrupted (%d): is it another one?" % (self.path, now, last)
            )
        if beyond > (ROUND_SHARE + _FOREIGN) * self.capacity:
            raise PlumblineError("%s: %d bytes were written to the drive since the run was interrupted; remove the file to begin anew" % (self.path, beyond))


def _round_of(record: Dict[str, Any]) -> LoadRound:
    found = LoadRound(int(record["bytes"]), float(record["seconds"]), record["p99_us"], record["temperature"])
    if found.bytes <= 0:
        raise ValueError(found)
    return found


def _open_locked(path: str) -> int:
    try:
        os.makedirs(os.path.dirname(path) or ".", mode=0o700, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as fault:
        raise PlumblineError("%s: the run cannot be kept there: %s" % (path, fault.strerror or fault)) from fault
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as fault:
        os.close(fd)
        raise PlumblineError("%s: another process has this run; wait for it" % path) from fault
    return fd


def _read_all(fd: int) -> bytes:
    os.lseek(fd, 0, os.SEEK_SET)
    found = b""
    while True:
        piece = os.read(fd, 1 << 20)
        if not piece:
            return found
        found += piece
