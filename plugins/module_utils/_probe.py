# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Timed reads of a block device for the offset sweep: where they may fall, how fast they may follow. I/O, and only reads."""

from __future__ import annotations

import mmap
import os
import random
import stat
import time
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils import _devio, _sweep, _sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import human, is_power_of_two, parse_size

# So many places have to be there for reads of the largest size, or a cache answers instead of the flash.
PLACES = 256


class Target(NamedTuple):
    """A block device as the sweep sees it; bytes."""

    path: str
    name: str  # the kernel's
    size: int
    logical: int
    chunk: int  # of a stripe: a read stays within one; 0 where there is none
    expected: Optional[int]  # the first aligned byte as the kernel has worked it out; None where it does not know


def read_options(params: Mapping[str, Any]) -> _sweep.Options:
    """The options of a sweep from a module's parameters. Raises PlumblineError for one that is out of range."""
    grain = parse_size(params["max_grain"], "max_grain")
    if not (is_power_of_two(grain) and _sweep.FIRST_GRAIN <= grain <= _sweep.LAST_GRAIN):
        raise PlumblineError("max_grain: %s; wanted a power of two from 4KiB to 64KiB" % params["max_grain"])
    for word, low, high in (("error", 1e-9, 0.05), ("min_ratio", 1.01, 10.0), ("max_seconds", 0.1, 3600.0), ("reads_per_second", 0, 10**6)):
        if not low <= params[word] <= high:
            raise PlumblineError("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    return _sweep.Options(last_grain=grain, error=params["error"], min_ratio=params["min_ratio"], max_bytes=parse_size(params["max_bytes"], "max_bytes"))


def look_at(path: str) -> Target:
    """Read what the kernel says of a block device. Raises PlumblineError where it is none."""
    try:
        found = os.stat(path)
    except OSError as fault:
        raise PlumblineError("%s is not there: %s; name a disk, a partition or a logical volume" % (path, fault.strerror or fault)) from fault
    if not stat.S_ISBLK(found.st_mode):
        raise PlumblineError("%s is no block device; name a disk, a partition or a logical volume" % path)
    devno = "%d:%d" % (os.major(found.st_rdev), os.minor(found.st_rdev))
    node = _sysfs.read_nodes().get(devno)
    if node is None or not node.size:
        raise PlumblineError("%s has no size; is there a medium in it?" % path)
    striped = node.kind in ("lvm", "dm", "md") and len(node.slaves) > 1
    offset = node.limits.alignment_offset
    known = offset is not None and offset >= 0
    return Target(path, node.name, node.size, node.limits.logical, (node.limits.min_io or 0) if striped else 0, offset if known else None)


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
    if target.size < PLACES * 2 * grain:
        raise PlumblineError(
            "%s: its %s are too few for reads of up to %s: caches would answer them; wanted at least %s, or a smaller max_grain"
            % (target.path, human(target.size), human(grain), human(PLACES * 2 * grain))
        )
    return grain


def pick(dice: random.Random, target: Target, grain: int, size: int, offset: int) -> int:
    """A random place for a read of *size* bytes that begins at *offset* modulo *grain*, within the device and one chunk."""
    while True:
        place = dice.randrange((target.size - size - offset) // grain + 1) * grain + offset
        if not target.chunk or place % target.chunk + size <= target.chunk:
            return place


class Measured(NamedTuple):
    """A verdict with what it cost."""

    found: _sweep.Verdict
    seconds: float


def measure(target: Target, options: _sweep.Options, max_seconds: float, reads_per_second: int) -> Measured:
    """Sweep the target. Raises PlumblineError where a place cannot be read, or the device goes away."""
    dice = random.Random(int.from_bytes(os.urandom(16), "big"))
    try:
        fd = _devio.open_read(target.path)
    except OSError as fault:
        raise PlumblineError("%s could not be opened: %s" % (target.path, fault.strerror or fault)) from fault
    asking = _sweep.search(options, dice.shuffle)
    began = time.monotonic()
    reads = 0
    try:
        with mmap.mmap(-1, options.last_grain) as buffer:
            wanted = next(asking)
            while True:
                answers = _round(fd, buffer, target, wanted, dice)
                reads += len(answers)
                now = time.monotonic() - began
                if reads_per_second:
                    pause = min(reads / reads_per_second, max_seconds) - now
                    if pause > 0:
                        time.sleep(pause)
                        now += pause
                wanted = asking.send(answers)
                if now >= max_seconds:
                    wanted = asking.send(None)  # which ends it
    except StopIteration as done:
        return Measured(done.value, time.monotonic() - began)
    finally:
        os.close(fd)


def _round(fd: int, buffer: mmap.mmap, target: Target, wanted: _sweep.Round, dice: random.Random) -> List[float]:
    """Latencies in microseconds."""
    places: Sequence[int] = [pick(dice, target, wanted.grain, wanted.size, offset) for offset in wanted.offsets]
    latencies = []
    view = memoryview(buffer)[: wanted.size]
    try:
        for place in places:
            try:
                start = time.perf_counter_ns()
                got = os.preadv(fd, [view], place)
                latencies.append((time.perf_counter_ns() - start) / 1000)
            except OSError as fault:
                raise PlumblineError(
                    "%s: the %d bytes at byte %d could not be read: %s; the sweep proves nothing on a device with read errors"
                    % (target.path, wanted.size, place, fault.strerror or fault)
                ) from fault
            if got != wanted.size:
                raise PlumblineError("%s: the device ended early, at byte %d" % (target.path, place + got))
    finally:
        view.release()
    return latencies
