# SPDX-License-Identifier: GPL-3.0-or-later
"""What a sweep reads: a device, a volume or a file, and where on it. I/O.

A file is not read through its filesystem. A direct read of a file first writes out what the page cache holds of that range (and so
writes), waits for the inode's lock, and may touch its time of access. So the block device is read instead, at the addresses of the file's extents and
nowhere else. Should the file move meanwhile, other bytes are read, timed and forgotten.
"""

from __future__ import annotations

import contextlib
import os
import random
import stat
from typing import Callable, Iterator, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, fiemap, mapping, read_sysfs, write_scratch_file
from ansible_collections.plumbline.ssd.plugins.module_utils._block import spans as model_spans
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import search

# So many places have to be there for reads of the largest size, or a cache answers instead of the flash.
PLACES = 256
TRIES = 10000  # of drawing a place, before it is believed that there is none
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
    spans: Optional[Tuple[model_spans.Span, ...]] = None  # where it may be read; None: everywhere
    disks: Tuple[str, ...] = ()  # the kernel's names of what lies at the bottom
    straight: Optional[Callable[[int], int]] = None  # bytes from there on that lie side by side; None: to the end of the chunk
    file: str = ""  # whose extents the spans are
    extents: int = 0  # how many

    @property
    def title(self) -> str:
        """The name of the target in reports."""
        return "%s (%s)" % (self.file, self.name) if self.file else self.name

    @property
    def reach(self) -> Sequence[model_spans.Span]:
        """Where it may be read."""
        return [model_spans.Span(0, self.size)] if self.spans is None else self.spans

    def left(self, place: int) -> int:
        """Bytes from *place* to where the next device, or the next chunk, begins."""
        if self.straight:
            return self.straight(place)
        return self.chunk - place % self.chunk if self.chunk else self.size - place


def look_at_target(path: str, seen: Observation) -> Target:
    """What is to be swept: a block device, or where a file's data lies on one. Raises PlumblineError where it is neither."""
    try:
        status = os.stat(path)
    except OSError as fault:
        raise PlumblineError("%s is not there: %s; %s" % (path, fault.strerror or fault, WHAT)) from fault
    if stat.S_ISREG(status.st_mode):
        return _look_at_file(path, status.st_dev, seen)
    if not stat.S_ISBLK(status.st_mode):
        raise PlumblineError("%s is neither a block device nor a regular file; %s" % (path, WHAT))
    node = seen.nodes.get(read_sysfs.devno(status.st_rdev))
    if node is None:
        raise PlumblineError("%s has no size; is there a medium in it?" % path)
    return target_of(seen, node, path)


def target_of(seen: Observation, node: Node, path: str = "", spans: Optional[Sequence[model_spans.Span]] = None) -> Target:
    """A block device as a target; *spans*: the part of it that may be read."""
    chunk, _legs, _striped = mapping.chunk_below(seen, node.devno)
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
        straight=(lambda place: mapping.straight(seen.nodes, node.devno, place)) if mixed and node.segments else None,
    )


@contextlib.contextmanager
def scratch_target(path: str, seen: Observation, grain: int) -> Iterator[Target]:
    """A scratch file without a name on the filesystem of a directory, large enough for this grain on each of its disks; gone at the end."""
    devno = read_sysfs.devno(os.stat(path).st_dev)
    node = seen.nodes.get(devno)
    disks = max(len(seen.disk_of(node.devno)), 1) if node else 1
    scratch = write_scratch_file.create(path, PLACES * 2 * grain * disks, devno)
    try:
        yield _look_at_file("a scratch file on %s" % path, os.fstat(scratch.fd).st_dev, seen, scratch.fd)
    finally:
        os.close(scratch.fd)


def _look_at_file(path: str, device: int, seen: Observation, opened: int = -1) -> Target:
    """Where the file's written data lies on the block device of its filesystem. *opened*: its descriptor, where it is open."""
    node = seen.nodes.get(read_sysfs.devno(device))
    kinds = {mount.fstype for mount in seen.mounts if mount.devno == read_sysfs.devno(device)}
    if node is None or not kinds or not kinds <= set(fiemap.PLAIN_FILESYSTEMS):
        kind = ", ".join(sorted(kinds)) or "no block device that is mounted here"
        raise PlumblineError(
            "%s lies on %s; wanted a file on %s, where its extents are bytes of one block device" % (path, kind, ", ".join(fiemap.PLAIN_FILESYSTEMS))
        )
    try:
        fd = opened if opened >= 0 else os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)  # a FIFO would wait
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_dev != device:
                raise PlumblineError("%s was exchanged while it was looked at; find out who did that, and run again" % path)
            extents, realtime = ask_file.read_extents(fd), ask_file.is_realtime(fd)
        finally:
            if opened < 0:
                os.close(fd)
    except OSError as fault:
        raise PlumblineError("%s: where it lies could not be asked: %s" % (path, fault.strerror or fault)) from fault
    if realtime:
        raise PlumblineError("%s lies on the realtime device of its XFS; wanted a file on the data device" % path)
    spans = fiemap.written(extents)
    inside = [span for span in spans if span.end <= node.size]
    return target_of(seen, node, "/dev/" + node.name, inside)._replace(file=path, extents=len(spans))


def last_grain(target: Target, largest: int) -> int:
    """The largest grain that can be looked for on this target. Raises PlumblineError where there is none."""
    grain = largest
    while target.chunk and 2 * grain > target.chunk:  # at every phase below it, a read of the grain has to fit into a chunk
        grain //= 2
    first = search.first_grain(target.logical)
    if grain < first:
        limit = "stripes of %s" % human(target.chunk) if target.chunk else "a largest grain of %s" % human(largest)
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


def places_in(target: Target, grain: int) -> model_spans.Places:
    """Where reads of up to *grain* bytes may fall."""
    return model_spans.Places(target.reach, 0 if target.spans is None else 2 * grain)


def pick(dice: random.Random, target: Target, places: model_spans.Places, grain: int, size: int, offset: int) -> int:
    """A random place for a read of *size* bytes that begins at *offset* modulo *grain*: within a span, and within one chunk."""
    for _try in range(TRIES):
        place = places.draw(dice, grain, size, offset)
        if target.left(place) >= size:
            return place
    raise PlumblineError("%s: no run of data has room for a read of %s within one chunk; wanted a smaller max_grain" % (target.title, human(size)))


def largest_grain(target: Target, largest: int) -> int:
    """Like last_grain(), but a smaller one where the room is too small: a leg has only its part of the volume."""
    while True:
        try:
            return last_grain(target, largest)
        except PlumblineError:
            if largest // 2 < search.first_grain(target.logical):
                raise
        largest //= 2
