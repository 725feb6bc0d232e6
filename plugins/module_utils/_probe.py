# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Timed reads for the offset sweep: of what, where they may fall, how fast they may follow. I/O, and only reads.

A file is not read through its filesystem. A direct read of a file first writes out what the page cache holds of that range (and so
writes), waits for the inode's lock, and may touch its time of access. So the block device is read instead, at the addresses of the file's extents and
nowhere else. Should the file move meanwhile, other bytes are read, timed and forgotten.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import random
import stat
import time
from typing import Any, Callable, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _devio, _localise, _scratch, _spans, _stack, _sweep, _sysfs, _vdbench
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._pace import Pace
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import human, is_power_of_two, parse_size

# So many places have to be there for reads of the largest size, or a cache answers instead of the flash.
PLACES = 256
CACHE_TIMES = 4  # as much as a cache may hold has to be read from, before its answers are too few to hide a penalty
FIO_SECONDS = 60  # for its start and its jobs' starts, beside twice what they read
TRIES = 10000  # of drawing a place, before it is believed that there is none
RANGES = (
    ("error", 1e-9, 0.05),
    ("min_ratio", 1.01, 10.0),
    ("max_seconds", 0.1, 3600.0),
    ("reads_per_second", 0, 10**6),
    ("max_share", 0.0001, 1.0),
    ("table_seconds", 1.0, 3600.0),
)
# What the module takes beside its target and what it does with it.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "max_grain": {"type": "str", "default": "64KiB"},
    "error": {"type": "float", "default": 0.0001},
    "min_ratio": {"type": "float", "default": 1.1},
    "max_bytes": {"type": "str", "default": "2GiB"},
    "max_seconds": {"type": "float", "default": 30},
    "reads_per_second": {"type": "int", "default": 2000},
    "cache_size": {"type": "str", "default": "2GiB"},
    "max_share": {"type": "float", "default": 0.02},
    "chunk_edges": {"type": "bool", "default": False},
    "table": {"type": "bool", "default": False},
    "table_seconds": {"type": "float", "default": 30},
}
# (argv) → (return code, standard output, standard error)
Runner = Callable[[Sequence[str]], Tuple[int, str, str]]
WHAT = "name a disk, a partition, a logical volume, a file, or the mount point of a filesystem"


class Target(NamedTuple):
    """What is swept, as the sweep sees it; bytes, in the address space of the block device."""

    path: str  # of the block device that is read
    name: str  # the kernel's
    size: int  # of the block device
    logical: int
    chunk: int  # of a stripe: a read stays within one; 0 where there is none
    expected: Optional[int]  # the first aligned byte as the kernel has worked it out; None where it does not know
    devno: str = ""
    spans: Optional[Tuple[_spans.Span, ...]] = None  # where it may be read; None: everywhere
    disks: Tuple[str, ...] = ()  # the kernel's names of what lies at the bottom
    straight: Optional[Callable[[int], int]] = None  # bytes from there on that lie side by side; None: to the end of the chunk
    file: str = ""  # whose extents the spans are
    extents: int = 0  # how many

    @property
    def title(self) -> str:
        """For people."""
        return "%s (%s)" % (self.file, self.name) if self.file else self.name

    @property
    def reach(self) -> Sequence[_spans.Span]:
        """Where it may be read."""
        return [(0, self.size)] if self.spans is None else self.spans

    def left(self, place: int) -> int:
        """Bytes from *place* to where the next device, or the next chunk, begins."""
        if self.straight:
            return self.straight(place)
        return self.chunk - place % self.chunk if self.chunk else self.size - place


class Limits(NamedTuple):
    """What a sweep may cost others, and how long it may take."""

    max_seconds: float = 30.0
    reads_per_second: int = 2000
    max_share: float = 0.02
    cache: int = 0  # bytes that a cache in front of the flash may hold


def read_options(params: Mapping[str, Any]) -> _sweep.Options:
    """The options of a sweep from a module's parameters. Raises PlumblineError for one that is out of range."""
    grain = parse_size(params["max_grain"], "max_grain")
    if not (is_power_of_two(grain) and _sweep.FIRST_GRAIN <= grain <= _sweep.LAST_GRAIN):
        raise PlumblineError("max_grain: %s; wanted a power of two from 4KiB to 64KiB" % params["max_grain"])
    _cache_size(params)
    for word, low, high in RANGES:
        if not low <= params[word] <= high:
            raise PlumblineError("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    return _sweep.Options(last_grain=grain, error=params["error"], min_ratio=params["min_ratio"], max_bytes=parse_size(params["max_bytes"], "max_bytes"))


def read_limits(params: Mapping[str, Any]) -> Limits:
    """The limits from a module's parameters, which read_options() has checked."""
    return Limits(params["max_seconds"], params["reads_per_second"], params["max_share"], _cache_size(params))


def _cache_size(params: Mapping[str, Any]) -> int:
    return 0 if params["cache_size"] == "0" else parse_size(params["cache_size"], "cache_size")


def look_at(path: str, seen: Observation) -> Target:
    """What is to be swept: a block device, or where a file's data lies on one. Raises PlumblineError where it is neither."""
    try:
        found = os.stat(path)
    except OSError as fault:
        raise PlumblineError("%s is not there: %s; %s" % (path, fault.strerror or fault, WHAT)) from fault
    if stat.S_ISREG(found.st_mode):
        return _look_at_file(path, found.st_dev, seen)
    if not stat.S_ISBLK(found.st_mode):
        raise PlumblineError("%s is neither a block device nor a regular file; %s" % (path, WHAT))
    node = seen.nodes.get(_sysfs.devno(found.st_rdev))
    if node is None:
        raise PlumblineError("%s has no size; is there a medium in it?" % path)
    return target_of(seen, node, path)


def target_of(seen: Observation, node: Node, path: str = "", spans: Optional[Sequence[_spans.Span]] = None) -> Target:
    """A block device as a target; *spans*: the part of it that may be read."""
    chunk, _legs, _striped = _stack.chunk_below(seen, node.devno)
    mapped = node.kind in ("lvm", "dm", "md") and len(node.slaves) > 1
    if not chunk and mapped and not node.segments:  # no dmsetup: the kernel gives a stripe's chunk as its least efficient size
        chunk = node.limits.min_io or 0
    offset = node.limits.alignment_offset
    mixed = bool(chunk) or (bool(node.segments) and node.kind != "part")
    return Target(
        path=path or "/dev/" + node.name,
        name=node.title or node.name,
        size=node.size,
        logical=node.limits.logical,
        chunk=chunk,
        expected=offset if offset is not None and offset >= 0 else None,
        devno=node.devno,
        spans=None if spans is None else tuple(spans),
        disks=tuple(disk.name for disk in seen.disk_of(node.devno)),
        straight=(lambda place: _spans.straight(seen.nodes, node.devno, place)) if mixed and node.segments else None,
    )


@contextlib.contextmanager
def scratch_target(path: str, seen: Observation, grain: int) -> Iterator[Target]:
    """A scratch file without a name on the filesystem of a directory, large enough for this grain on each of its disks; gone at the end."""
    node = seen.nodes.get(_sysfs.devno(os.stat(path).st_dev))
    disks = max(len(seen.disk_of(node.devno)), 1) if node else 1
    scratch = _scratch.create(path, PLACES * 2 * grain * disks)
    try:
        yield _look_at_file("a scratch file on %s" % path, os.fstat(scratch.fd).st_dev, seen, scratch.fd)
    finally:
        os.close(scratch.fd)


def _look_at_file(path: str, device: int, seen: Observation, opened: int = -1) -> Target:
    """Where the file's written data lies on the block device of its filesystem. *opened*: its descriptor, where it is open."""
    node = seen.nodes.get(_sysfs.devno(device))
    kinds = {mount.fstype for mount in seen.mounts if mount.devno == _sysfs.devno(device)}
    if node is None or not kinds or not kinds <= set(_spans.PLAIN_FILESYSTEMS):
        kind = ", ".join(sorted(kinds)) or "no block device that is mounted here"
        raise PlumblineError(
            "%s lies on %s; wanted a file on %s, where its extents are bytes of one block device" % (path, kind, ", ".join(_spans.PLAIN_FILESYSTEMS))
        )
    try:
        fd = opened if opened >= 0 else os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            extents, realtime = _devio.read_extents(fd), _devio.is_realtime(fd)
        finally:
            if opened < 0:
                os.close(fd)
    except OSError as fault:
        raise PlumblineError("%s: where it lies could not be asked: %s" % (path, fault.strerror or fault)) from fault
    if realtime:
        raise PlumblineError("%s lies on the realtime device of its XFS; wanted a file on the data device" % path)
    spans = _spans.written(extents)
    inside = [(start, length) for start, length in spans if start + length <= node.size]
    return target_of(seen, node, "/dev/" + node.name, inside)._replace(file=path, extents=len(spans))


def last_grain(target: Target, wanted: int) -> int:
    """The largest grain that can be looked for on this target. Raises PlumblineError where there is none."""
    grain = wanted
    while target.chunk and 2 * grain > target.chunk:  # at every phase below it, a read of the grain has to fit into a chunk
        grain //= 2
    first = _sweep.first_grain(target.logical)
    if grain < first:
        limit = "stripes of %s" % human(target.chunk) if target.chunk else "a largest grain of %s" % human(wanted)
        raise PlumblineError(
            "%s: %s with blocks of %d leave no two offsets to compare; wanted room for a grain of %s" % (target.path, limit, target.logical, human(first))
        )
    room = places_in(target, grain).total
    if room < PLACES * 2 * grain:
        what = "its %s are" % human(room)
        if target.file:
            what = "the %s of %s that are written, in runs of %s and more, are" % (human(room), target.file, human(2 * grain))
        raise PlumblineError(
            "%s: %s too few for reads of up to %s: caches would answer them; wanted at least %s, or a smaller max_grain"
            % (target.file or target.path, what, human(grain), human(PLACES * 2 * grain))
        )
    return grain


def places_in(target: Target, grain: int) -> _spans.Places:
    """Where reads of up to *grain* bytes may fall."""
    return _spans.Places(target.reach, 0 if target.spans is None else 2 * grain)


def pick(dice: random.Random, target: Target, places: _spans.Places, grain: int, size: int, offset: int) -> int:
    """A random place for a read of *size* bytes that begins at *offset* modulo *grain*: within a span, and within one chunk."""
    for _try in range(TRIES):
        place = places.draw(dice, grain, size, offset)
        if target.left(place) >= size:
            return place
    raise PlumblineError("%s: no run of data has room for a read of %s within one chunk; wanted a smaller max_grain" % (target.title, human(size)))


class Probe:
    """A target that is open for timed reads, at a pace that spares others. A context manager."""

    def __init__(self, target: Target, grain: int, limits: Limits) -> None:
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
        self.pace = Pace(limits.reads_per_second, limits.max_share, self.began, _sysfs.read_load(target.disks))
        if limits.max_share < 1:
            time.sleep(Pace.WINDOW)  # to see the load before anything is added to it
            self.pace.look(time.monotonic(), _sysfs.read_load(target.disks))

    def open(self) -> int:
        return _devio.open_read(self.target.path)

    def transfer(self, view: memoryview, place: int) -> int:
        """The one access that is timed. Returns the bytes that it got."""
        return os.preadv(self.fd, [view], place)

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_what: object) -> None:
        os.close(self.fd)

    @property
    def seconds(self) -> float:
        """Since it was opened."""
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
                self.pace.look(now, _sysfs.read_load(self.target.disks))
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
        gone = _sysfs.first_gone(self.target.disks)
        if gone:
            return "%s: %s went away while it was measured (%s at byte %d); see the kernel's log" % (
                self.target.path, gone, fault.strerror or fault, place,
            )  # fmt: skip
        return "%s: the %d bytes at byte %d could not be read: %s; the sweep proves nothing on a device with read errors" % (
            self.target.path, size, place, fault.strerror or fault,
        )  # fmt: skip

    def share(self) -> float:
        """Its share of all requests that the disks have answered since it was opened."""
        return self.pace.made(_sysfs.read_load(self.target.disks))


class Measured(NamedTuple):
    """A verdict with what it cost. *share* of the disks' requests, 0 where nobody counts them; *held*: seconds that it waited for others."""

    found: _sweep.Verdict
    seconds: float
    share: float = 0.0
    held: float = 0.0


def measure(target: Target, options: _sweep.Options, limits: Limits, make: Callable[[Target, int, Limits], Probe] = Probe) -> Measured:
    """Sweep the target. Raises PlumblineError where a place cannot be read, or the device goes away."""
    with make(target, options.last_grain, limits) as probe:
        asking = _sweep.search(options, probe.dice.shuffle)
        try:
            wanted = next(asking)
            while True:
                places = [probe.pick(wanted.grain, wanted.size, offset) for offset in wanted.offsets]
                wanted = asking.send(probe.round(places, wanted.size))
        except StopIteration as done:
            return Measured(_behind_cache(done.value, probe.places.total, limits.cache), probe.seconds, probe.share(), probe.pace.held)


def _behind_cache(found: _sweep.Verdict, room: int, cache: int) -> _sweep.Verdict:
    """No phase shows where a cache answers, such as a RAID controller's: it has no pages. Reads spread over several times its size are mostly not from it."""
    if found.verdict != _sweep.NO_PREFERENCE or room >= CACHE_TIMES * cache:
        return found
    why = "a cache of up to %s could have answered for the %s that were read from" % (human(cache), human(room))
    return found._replace(verdict=_sweep.CANNOT_TELL, why=why, excluded=0.0)


EDGE_ROUNDS = 32
EDGE_READS = 4  # of each kind in a round


class Edges(NamedTuple):
    """What a read costs that crosses from one chunk of a stripe into the next, by one that does not; medians."""

    ratio: float
    reads: int
    bytes: int
    seconds: float


def measure_edges(target: Target, grain: int, phase: int, limits: Limits) -> Edges:
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
        ratio = _sweep.median(crossing) / _sweep.median(inside) if reads else 0.0
        return Edges(ratio, reads, reads * grain, probe.seconds)


def _at_edge(probe: Probe, grain: int) -> int:
    """A place from which half of a read lies in the next chunk."""
    for _try in range(TRIES):
        place = probe.pick(grain, grain // 2, 0)
        edge = place + probe.target.left(place)
        if probe.places.holds(edge - grain // 2, grain):
            return edge - grain // 2
    raise PlumblineError("%s: no run of data crosses from one chunk into the next" % probe.target.title)


def measure_table(run_fio: Callable[[float], Runner], target: Target, found: _sweep.Verdict, seconds: float) -> Tuple[int, List[_vdbench.Row]]:
    """Reads at every offset, many at a time, by fio: (bytes of a read, rows).

    Raises PlumblineError where fio is missing or fails, or there is too little room.
    """
    grain = found.grain if found.verdict == _sweep.PHASE else _sweep.first_grain(target.logical)
    span = max(target.reach, key=lambda one: one[1])
    if span[1] < PLACES * 2 * grain:
        raise PlumblineError(
            "%s: its longest run of %s is too short for a table of reads of %s; wanted %s"
            % (target.title, human(span[1]), human(grain), human(PLACES * 2 * grain))
        )
    dice = random.Random(int.from_bytes(os.urandom(16), "big"))
    wanted = _vdbench.plan(grain, target.logical, found.phase, seconds, dice.shuffle)
    code, out, err = run_fio(2 * seconds + FIO_SECONDS)(_vdbench.arguments(wanted, os.path.realpath(target.path), span))
    if code:
        raise PlumblineError("fio failed on %s: %s" % (target.path, " ".join(err.split())[-300:] or "return code %d" % code))
    return grain, _vdbench.rows(wanted, out)


def measure_layers(
    seen: Observation, target: Target, top: Measured, options: _sweep.Options, limits: Limits
) -> List[Tuple[_localise.Swept, Optional[Measured]]]:
    """Sweep every layer below the target, each where the target's bytes lie on it, from the disks up; *top* is the target's own sweep."""
    spans = _spans.spread(seen.nodes, target.devno, target.reach)
    layers: List[Tuple[_localise.Swept, Optional[Measured]]] = []
    for devno, layer in _localise.stack_layers(seen, target.devno):
        measured = top if devno == target.devno else None
        if measured is None and devno in spans:
            one = target_of(seen, seen.nodes[devno], spans=spans[devno])
            measured = measure(one, options._replace(logical=one.logical, last_grain=largest_grain(one, options.last_grain)), limits)
        layers.append((layer._replace(found=measured.found if measured else None), measured))
    return layers


def largest_grain(target: Target, wanted: int) -> int:
    """Like last_grain(), but a smaller one where the room is too small: a leg has only its part of the volume."""
    while True:
        try:
            return last_grain(target, wanted)
        except PlumblineError:
            if wanted // 2 < _sweep.first_grain(target.logical):
                raise
        wanted //= 2
