# SPDX-License-Identifier: GPL-3.0-or-later
"""Timed reads for the offset sweep, and how fast they may follow each other. I/O, and only reads."""

from __future__ import annotations

import errno
import mmap
import os
import random
import time
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, mapping, read_disk_activity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import evidence, guilty_layer, offset_table, search
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import Options, SweepLimits
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.pace import Pace
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.target import PLACES, TRIES, Target, largest_grain, pick, places_in, target_of

CACHE_TIMES = 4  # as much as a cache may hold has to be read from, before its answers are too few to hide a penalty
FIO_SECONDS = 60  # for its start and its jobs' starts, beside twice what they read


class Probe:
    """A target that is open for timed reads, at a pace that spares others. A context manager."""

    def __init__(self, target: Target, grain: int, limits: SweepLimits) -> None:
        self.target = target
        self.limits = limits
        self.dice = random.Random(int.from_bytes(os.urandom(16), "big"))
        self.places = places_in(target, grain)
        self.requests_each = 1  # that the disks count for one access, at most
        self.times_each = 1  # how often they count its time, at most
        self.buffer = mmap.mmap(-1, grain)
        try:
            self.fd = self.open()
        except OSError as fault:
            raise PlumblineError("%s could not be opened: %s" % (target.path, fault.strerror or fault)) from fault
        self.began = time.monotonic()
        self.pace = Pace(limits.reads_per_second, limits.max_share, self.began, read_disk_activity.read_load(target.disks))
        if limits.max_share < 1:
            time.sleep(Pace.WINDOW)  # to see the load before anything is added to it
            self.pace.look(time.monotonic(), read_disk_activity.read_load(target.disks))

    def open(self) -> int:
        return block_device.open_read(self.target.path)

    def transfer(self, view: memoryview, place: int) -> int:
        """The one access that is timed. Returns the bytes that it got."""
        return os.preadv(self.fd, [view], place)

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_what: object) -> None:
        os.close(self.fd)

    @property
    def seconds(self) -> float:
        """Seconds since it was opened."""
        return time.monotonic() - self.began

    def pick(self, grain: int, size: int, offset: int) -> int:
        return pick(self.dice, self.target, self.places, grain, size, offset)

    def round(self, places: Sequence[int], size: int) -> Optional[List[float]]:
        """Latencies in microseconds of accesses at these places, as soon as the pace allows; None where the time is up before."""
        while True:
            now = time.monotonic()
            if now - self.began >= self.limits.max_seconds:
                return None
            if now - self.pace.looked >= Pace.WINDOW:
                self.pace.look(now, read_disk_activity.read_load(self.target.disks))
            wait = self.pace.wait(now, len(places) * self.requests_each)
            if wait <= 0:
                break
            time.sleep(max(min(wait, self.began + self.limits.max_seconds - now), 0))
        latencies = self._time(places, size)
        self.pace.note(now, len(places), len(places) * self.requests_each, self.times_each * sum(latencies) / 1000)
        return latencies

    def _time(self, places: Sequence[int], size: int) -> List[float]:
        latencies = []
        view = memoryview(self.buffer)[:size]
        try:
            for place in places:
                try:
                    start = time.perf_counter_ns()
                    got = self.transfer(view, place)
                    latencies.append((time.perf_counter_ns() - start) / 1000)
                except OSError as fault:
                    raise PlumblineError(self.fault(place, size, fault)) from fault
                if got != size:  # a device that is taken away has no size from then on
                    raise PlumblineError(self.fault(place, size, OSError(errno.ENODEV, "the device ended early")))
        finally:
            view.release()
        return latencies

    def fault(self, place: int, size: int, fault: OSError) -> str:
        """What to say of an access that failed."""
        gone = read_disk_activity.first_gone(self.target.disks)
        if gone:
            return "%s: %s went away while it was measured (%s at byte %d); see the kernel's log" % (
                self.target.path, gone, fault.strerror or fault, place,
            )  # fmt: skip
        return "%s: the %d bytes at byte %d could not be read: %s; the sweep proves nothing on a device with read errors" % (
            self.target.path, size, place, fault.strerror or fault,
        )  # fmt: skip

    def share(self) -> float:
        """Its share of all requests that the disks have answered since it was opened."""
        return self.pace.made(read_disk_activity.read_load(self.target.disks))


class Measured(NamedTuple):
    """A verdict with what it cost. *share* of the disks' requests, 0 where nobody counts them; *held*: seconds that it waited for others."""

    verdict: search.Verdict
    seconds: float
    share: float = 0.0
    held: float = 0.0


def measure_target(target: Target, options: Options, limits: SweepLimits, make: Callable[[Target, int, SweepLimits], Probe] = Probe) -> Measured:
    """Sweep the target. Raises PlumblineError where a place cannot be read, or the device goes away."""
    with make(target, options.last_grain, limits) as probe:
        asking = search.search(options, probe.dice.shuffle)
        try:
            asked = next(asking)
            while True:
                places = [probe.pick(asked.grain, asked.size, offset) for offset in asked.offsets]
                asked = asking.send(probe.round(places, asked.size))
        except StopIteration as done:
            return Measured(_behind_cache(done.value, probe.places.total, limits.cache), probe.seconds, probe.share(), probe.pace.held)


def _behind_cache(verdict: search.Verdict, room: int, cache: int) -> search.Verdict:
    """No phase shows where a cache answers, such as a RAID controller's: it has no pages. Reads spread over several times its size are mostly not from it."""
    if verdict.verdict != search.NO_PREFERENCE or room >= CACHE_TIMES * cache:
        return verdict
    why = "a cache of up to %s could have answered for the %s that were read from" % (human(cache), human(room))
    return verdict._replace(verdict=search.CANNOT_TELL, why=why, excluded=0.0)


EDGE_ROUNDS = 32
EDGE_READS = 4  # of each kind in a round


class Edges(NamedTuple):
    """What a read costs that crosses from one chunk of a stripe into the next, by one that does not; medians."""

    ratio: float
    reads: int
    bytes: int
    seconds: float


def measure_edges(target: Target, grain: int, phase: int, limits: SweepLimits) -> Edges:
    """Reads of *grain* bytes half in one chunk and half in the next, against reads at the *phase*, in shuffled rounds.

    The target has chunks. Raises PlumblineError where a place cannot be read.
    """
    crossing: List[float] = []
    inside: List[float] = []
    with Probe(target, grain, limits) as probe:
        for _round in range(EDGE_ROUNDS):
            kinds = [True] * EDGE_READS + [False] * EDGE_READS
            probe.dice.shuffle(kinds)
            places = [_at_edge(probe, grain) if crosses else probe.pick(grain, grain, phase) for crosses in kinds]
            latencies = probe.round(places, grain)
            if latencies is None:
                break
            for crosses, latency in zip(kinds, latencies):
                (crossing if crosses else inside).append(latency)
        reads = len(crossing) + len(inside)
        ratio = evidence.median(crossing) / evidence.median(inside) if reads else 0.0
        return Edges(ratio, reads, reads * grain, probe.seconds)


def _at_edge(probe: Probe, grain: int) -> int:
    """A place from which half of a read lies in the next chunk."""
    for _try in range(TRIES):
        place = probe.pick(grain, grain // 2, 0)
        edge = place + probe.target.left(place)
        if probe.places.holds(edge - grain // 2, grain):
            return edge - grain // 2
    raise PlumblineError("%s: no run of data crosses from one chunk into the next" % probe.target.title)


def measure_table(run_fio: Callable[[float], Runner], target: Target, verdict: search.Verdict, seconds: float) -> Tuple[int, List[offset_table.TableRow]]:
    """Reads at every offset, many at a time, by fio: (bytes of a read, rows).

    Raises PlumblineError where fio is missing or fails, or there is too little room.
    """
    grain = verdict.grain if verdict.verdict == search.PHASE else search.first_grain(target.logical)
    span = max(target.reach, key=lambda run: run[1])
    if span[1] < PLACES * 2 * grain:
        raise PlumblineError(
            "%s: its longest run of %s is too short for a table of reads of %s; wanted %s"
            % (target.title, human(span[1]), human(grain), human(PLACES * 2 * grain))
        )
    dice = random.Random(int.from_bytes(os.urandom(16), "big"))
    table = offset_table.plan(grain, target.logical, verdict.phase, seconds, dice.shuffle)
    code, out, err = run_fio(2 * seconds + FIO_SECONDS)(offset_table.arguments(table, os.path.realpath(target.path), span))
    if code:
        raise PlumblineError("fio failed on %s: %s" % (target.path, " ".join(err.split())[-300:] or "return code %d" % code))
    return grain, offset_table.rows(table, out)


def measure_layers(
    seen: Observation, target: Target, top: Measured, options: Options, limits: SweepLimits
) -> List[Tuple[guilty_layer.Swept, Optional[Measured]]]:
    """Sweep every layer below the target, each where the target's bytes lie on it, from the disks up; *top* is the target's own sweep."""
    spans = mapping.spread(seen.nodes, target.devno, target.reach)
    layers: List[Tuple[guilty_layer.Swept, Optional[Measured]]] = []
    for devno, layer in guilty_layer.stack_layers(seen, target.devno):
        measured = top if devno == target.devno else None
        if measured is None and devno in spans:
            layer_target = target_of(seen, seen.nodes[devno], spans=spans[devno])
            grain = largest_grain(layer_target, options.last_grain)
            measured = measure_target(layer_target, options._replace(logical=layer_target.logical, last_grain=grain), limits)
        layers.append((layer._replace(verdict=measured.verdict if measured else None), measured))
    return layers
