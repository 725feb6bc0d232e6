# SPDX-License-Identifier: GPL-3.0-or-later
"""The load of a run by fio, one process for each round, and what the drive says of itself meanwhile. I/O.

The first and the last MiB of the device stay untouched, so that no byte of the load stands where a table or a superblock would be looked for.
"""

from __future__ import annotations

import shutil
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import write_discard
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disk_activity import read_account
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans, read_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.latency import percentile_us, read_bins
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.raw_device import RawDevice
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.run_fio import find_fio, run_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.criterion import LoadRound
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import RandomLoad, loaded_span
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.run import Backend, LoadKilled
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.windows import ByteWindows

FILL = RandomLoad(MIB, 8, 0)
_SLOWEST = 10**6  # bytes per second: a round that is slower has a drive that does not answer
_ASK_SECONDS = 30
_KILLED = "killed by signal"
_COUNTED = 0.9  # of what fio wrote


def round_argv(path: str, place: fio.Place, load: RandomLoad, length: int, mark: bytes, sequential: bool, passes: bool = False) -> List[str]:
    """The command that moves *length* bytes on *place* of the device at *path*, and says what its latencies were. *passes*: it writes no block twice."""
    pattern = "write" if sequential else ("randrw" if load.read_percent else "randwrite")
    words = ["--rw=" + pattern, "--bs=%d" % load.block, "--iodepth=%d" % load.depth, "--io_size=%d" % length]
    if load.read_percent:
        words.append("--rwmixread=%d" % load.read_percent)
    if passes:
        words.append("--norandommap=0")
    return fio.common(path, False, "json+") + words + fio.load_contents(mark, False) + fio.place_words([place])


def read_round(text: str, temperature: Optional[int]) -> LoadRound:
    """What fio reports of a round. The bytes are those that were written, and the latency is that of the writes. Raises PlumblineError."""
    (row,) = _rows(text)
    try:
        if row.get("error"):
            raise PlumblineError("fio: its job ended with error %s" % row["error"])
        written, milliseconds = int(row["write"]["io_bytes"]), float(row["write"]["runtime"])
    except (KeyError, TypeError, ValueError) as fault:
        raise PlumblineError("fio's report lacks what was expected in it: %r; version 3.0 or newer is wanted" % fault) from fault
    median, tail, longest = (percentile_us(read_bins(text, "write"), share) for share in (0.5, 0.99, 0.999))
    return LoadRound(written, milliseconds / 1000, tail, temperature, median, longest)


def _rows(text: str) -> Sequence[Dict[str, Any]]:
    rows = fio.report_rows(text)
    if len(rows) != 1:
        raise PlumblineError("fio reported %d jobs; one was started" % len(rows))
    return rows


def ask_drive(node: Node) -> Tuple[Mapping[str, int], Optional[int]]:
    """(its counters, degrees Celsius), as the drive reports them; None for a temperature that it does not report."""
    drives = read_drives(DriveMeans(shutil.which, _ASK_SECONDS), [node], [], False)
    health = drives[0][1] if drives else None
    return (health.counters, health.temperature) if health else ({}, None)


def _run(argv: List[str], length: int, what: str, look: Optional[Callable[[], float]] = None) -> str:
    """What fio reports of writing *length* bytes. Raises LoadKilled where it was ended from outside."""
    try:
        return run_fio(argv, 0.0, length / _SLOWEST, what, look)[0]
    except PlumblineError as fault:
        raise (LoadKilled(fault.msg) if _KILLED in fault.msg else fault) from fault


class FioDrive(Backend):
    """fio on a device that is held. Until hold() was called it only answers what the drive has counted."""

    def __init__(self, node: Node, load: RandomLoad, mark: bytes, reserve: float = 0.0) -> None:
        self._node, self._load, self._mark = node, load, mark
        self._fio = find_fio()
        self._device: Optional[RawDevice] = None
        self._said: Optional[Tuple[Mapping[str, int], Optional[int]]] = None  # by the drive, right behind the last round
        self.span = loaded_span(node.size, reserve)

    def hold(self, device: RawDevice) -> None:
        """From now on the device that is held is all that counts. Raises PlumblineError where the one that was looked at before is another."""
        before, now = self._node, device.node
        if (now.identity.key, now.size) != (before.identity.key, before.size):
            text = "%s was looked at, and %s is held; nothing was written; names have moved: run again"
            raise PlumblineError(text % (device_label(before), device_label(now)))
        self._node, self._device = now, device

    def _held(self) -> RawDevice:
        if self._device is None:
            raise PlumblineError("%s: it is not held" % self._node.path)
        return self._device

    def discard(self) -> None:
        held = self._held()
        held.place(0, held.node.size)
        write_discard.discard_span(held.node, held.fd, Span(0, held.node.size))

    def fill(self, offset: int, length: int) -> LoadRound:
        length = min(round_up(length, MIB), self.span.length - offset)
        return self._round(self._held().place(self.span.start + offset, length), FILL, length, True)

    def load(self, length: int) -> LoadRound:
        moved = round_up(round(length * 100 / (100 - self._load.read_percent)), self._load.block)
        return self._round(self._held().place(self.span.start, self.span.length), self._load, moved, False)

    def draw(self, length: int, window: float, passes: bool, keep: Callable[[LoadRound], None]) -> LoadRound:
        length = round_up(length, self._load.block)
        place = self._held().place(self.span.start, self.span.length)
        argv = round_argv(self._fio, place, self._load, length, self._mark, False, passes)
        windows, before = ByteWindows(window), self._account()

        def look() -> float:
            for size, seconds in windows.add(time.monotonic(), self._account() - before):
                keep(LoadRound(size, seconds))
            return windows.pause

        text = _run(argv, length, "a fill of %d bytes on %s" % (length, place.path), look)
        look()
        counted = self._account() - before
        if counted < _COUNTED * length:
            raise PlumblineError("%s: fio wrote %d bytes, and the kernel counts %d; name the disk and not a path to it" % (place.path, length, counted))
        size, seconds = windows.rest()
        if size > 0:
            keep(LoadRound(size, seconds))
        return read_round(text, self._ask()[1])

    def _account(self) -> int:
        """Bytes written to the disk, as the kernel counts them."""
        account = read_account(self._node.name)
        if account is None:
            raise PlumblineError("%s: the kernel keeps no account of it, or it has gone; look at its queue/iostats" % self._node.path)
        return account.written

    def counters(self) -> Mapping[str, int]:
        said, self._said = self._said or ask_drive(self._node), None
        return said[0]

    def _ask(self) -> Tuple[Mapping[str, int], Optional[int]]:
        """One question for a round: its temperature, and the counters that are kept with it."""
        self._said = ask_drive(self._node)
        return self._said

    def _round(self, place: fio.Place, load: RandomLoad, length: int, sequential: bool) -> LoadRound:
        argv = round_argv(self._fio, place, load, length, self._mark, sequential)
        return read_round(_run(argv, length, "a round of %d bytes on %s" % (length, place.path)), self._ask()[1])
