# SPDX-License-Identifier: GPL-3.0-or-later
"""Timed synchronous writes to a file without a name: it is gone with the process, however that ends. I/O lives here."""

from __future__ import annotations

import array
import ctypes
import errno
import functools
import itertools
import mmap
import os
import stat
import time
from typing import Any, Callable, Iterator, List, NamedTuple, Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_file, read_disk_activity, read_sysfs, write_scratch_file
from ansible_collections.plumbline.ssd.plugins.module_utils._block.proc_files import parse_mountinfo
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.rows import FILE_BYTES, Row
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.samples import ROUNDS, Measured, Samples
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.verdict import wants_more

# What has to be free: the file, and as much again three times, since a database that runs beside it must not find the disk full.
FREE_BYTES = 4 * FILE_BYTES
# Where fsync treats a file without a name like any other. btrfs logs nothing of such a file (fs/btrfs/tree-log.c), f2fs
# writes a whole checkpoint for it (fs/f2fs/file.c): their figures would not be a database's.
FILESYSTEMS = ("ext4", "xfs")


class MountedVolume(NamedTuple):
    """The filesystem that a directory is on."""

    path: str
    mount: str
    device: str  # the kernel's name, or device-mapper's
    fstype: str
    options: Tuple[str, ...]
    logical: int  # bytes
    devno: str = ""
    disks: Tuple[str, ...] = ()  # the kernel's names of what lies at the bottom

    @property
    def title(self) -> str:
        where = self.path if self.path == self.mount else "%s (on the filesystem of %s)" % (self.path, self.mount)
        return "%s: %s on %s" % (where, self.fstype, self.device)


def look_at_volume(path: str) -> MountedVolume:
    """Read where a directory lies. Raises PlumblineError where synchronous writes cannot be measured there."""
    try:
        status = os.stat(path)
    except OSError as fault:
        raise PlumblineError("%s is not there: %s; name the directory that the volume is mounted on" % (path, fault.strerror or fault)) from fault
    if not stat.S_ISDIR(status.st_mode):
        raise PlumblineError("%s is no directory; name the directory that the volume is mounted on" % path)
    devno = read_sysfs.devno(status.st_dev)
    real = os.path.realpath(path)
    mounts = [mount for mount in parse_mountinfo(read_sysfs.read_text("/proc/self/mountinfo")) if mount.devno == devno and _below(real, mount.target)]
    if not mounts:
        raise PlumblineError("%s is on no filesystem of one block device (but on tmpfs, a network, an overlay, btrfs …); wanted is ext4 or XFS" % path)
    mount = max(reversed(mounts), key=lambda mount: len(mount.target))  # of several over each other, the last one
    if mount.fstype not in FILESYSTEMS:
        raise PlumblineError(
            "%s is on %s, where a file without a name may be synced unlike others, so that the figures could mislead; wanted is ext4 or XFS"
            % (path, mount.fstype)
        )
    if "ro" in mount.options:
        raise PlumblineError("%s is on %s, which is mounted read-only; nothing can be written there" % (path, mount.target))
    seen = read_sysfs.read_block_devices()
    node = seen.nodes.get(devno)
    name = (node.title or node.name) if node else devno
    disks = tuple(disk.name for disk in seen.disk_of(devno))
    return MountedVolume(real, mount.target, name, mount.fstype, mount.options, node.limits.logical if node else 512, devno, disks)


def _below(path: str, target: str) -> bool:
    return target == "/" or path == target or path.startswith(target + "/")


class WriterRun(NamedTuple):
    """All rows with what they cost."""

    rows: Measured
    seconds: float
    written: int  # bytes


def measure_rows(volume: MountedVolume, options: Options) -> WriterRun:
    """Measure the rows in turns. Raises PlumblineError where the file cannot be made, or a write or sync fails."""
    began = time.perf_counter_ns()
    until = began + int(options.max_seconds * 1e9)
    jobs: List[_Job] = []
    scratch = _make(volume.path)
    try:
        write_scratch_file.check_device(scratch, volume.path, volume.devno)
        ask_file.clear_sync(scratch)
        with mmap.mmap(-1, FILE_BYTES) as contents:
            try:
                _fill(scratch, contents, volume.path)
                for row in options.rows:
                    jobs.append(_Job(row, scratch, contents, volume))
                _take_turns(jobs, scratch, options, until, volume)
            finally:
                for job in jobs:
                    job.close()
    finally:
        os.close(scratch)
    return WriterRun([(job.row, job.samples) for job in jobs], (time.perf_counter_ns() - began) / 1e9, FILE_BYTES + sum(job.written for job in jobs))


def _make(path: str) -> int:
    """A file without a name, and that cannot be given one, on the filesystem of this directory."""
    try:
        fd = os.open(path, os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except OSError as fault:
        raise PlumblineError(_cannot_make(path, fault)) from fault
    space = os.fstatvfs(fd)
    free = space.f_bavail * space.f_frsize
    if free < FREE_BYTES:
        os.close(fd)
        raise PlumblineError(
            "%s: its filesystem has %s free; wanted at least %s: %s for the file, the rest so that nothing beside it runs out of space"
            % (path, human(free), human(FREE_BYTES), human(FILE_BYTES))
        )
    return fd


def _cannot_make(path: str, fault: OSError) -> str:
    said = fault.strerror or str(fault)
    if fault.errno in (errno.ENOSPC, errno.EDQUOT):
        return "%s: no file can be made there: %s; its filesystem has no free inode or block, or a quota is used up" % (path, said)
    if fault.errno in (errno.EOPNOTSUPP, errno.EISDIR):
        return "%s: its filesystem has no files without a name (O_TMPFILE): %s; wanted is ext4 or XFS" % (path, said)
    if fault.errno in (errno.EPERM, errno.EACCES):
        return "%s: no file can be made there: %s; if it is immutable, the volume that belongs there is not mounted" % (path, said)
    return "%s: no file can be made there: %s" % (path, said)


def _fill(fd: int, contents: mmap.mmap, path: str) -> None:
    """Random contents, written and on the drive: what follows only overwrites."""
    contents.write(os.urandom(FILE_BYTES))
    view = memoryview(contents)
    done = 0
    try:
        while done < FILE_BYTES:
            with view[done : done + MIB] as piece:
                done += os.pwrite(fd, piece, done)
        os.fsync(fd)
    except OSError as fault:
        raise PlumblineError("%s: a file of %s could not be written: %s, after %s" % (path, human(FILE_BYTES), fault.strerror or fault, human(done))) from fault
    finally:
        view.release()


# Wait for what is being written, write the rest, wait for that: linux/fs.h, SYNC_FILE_RANGE_WRITE_AND_WAIT.
_WRITE_AND_WAIT = 7


def _write_out(fd: int) -> None:
    """What fdatasync does to a file's data before it has the drive flush its cache, sync_file_range(2)."""
    if _libc().sync_file_range(fd, 0, 0, _WRITE_AND_WAIT):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


@functools.lru_cache(maxsize=None)
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
    return libc


class _Calls(NamedTuple):
    """The system calls of an operation."""

    pwrite: Callable[..., int]
    sync: Callable[[int], object]
    fsync: Callable[[int], object]
    close: Callable[[int], object]
    reopen: Callable[..., Any]


class _Operation(NamedTuple):
    """The calls of an operation, one after the other, and what each of them returns."""

    steps: Tuple[Callable[[], object], ...]
    results: Tuple[Optional[int], ...]

    def __call__(self) -> None:
        self.check(tuple(step() for step in self.steps))

    def check(self, results: Tuple[object, ...]) -> None:
        if results != self.results:
            raise OSError(errno.EIO, "a write ended early")


_NEVER = -1  # neither a clock nor a step returns it


def _calls(*steps: Callable[[], object]) -> Iterator[Tuple[Any, ...]]:
    """These calls, one after the other, again and again: what they returned. No line of Python is carried out in between."""
    return zip(*(iter(step, _NEVER) for step in steps))


_BATCH = 128  # operations at most between two looks at what they returned
_BATCH_NS = 50_000_000  # nanoseconds that they take together, by the batch before
_OWN_BATCHES = 16
_OWN_OPERATIONS = 64  # in each
_OWN_NS = 50_000_000  # nanoseconds, after which fewer operations of a slow drive are enough
_OWN_LEAST = 3  # but so many


class _Job:
    """One row: its descriptor, its operation, its samples."""

    def __init__(self, row: Row, scratch: int, contents: mmap.mmap, volume: MountedVolume) -> None:
        self.row = row
        self.fd = -1
        self.written = 0
        self.samples = Samples()
        # The kernel opens the same file anew by this name, with flags of its own (proc(5)).
        self.again = "/proc/self/fd/%d" % scratch
        self.views = [memoryview(contents)[: row.write] for _turn in range(row.times)]
        try:
            if row.sync not in ("fsync_close", "close_fsync"):
                self.fd = os.open(self.again, os.O_RDWR | os.O_CLOEXEC | (row.flag | os.O_DIRECT if row.flag else 0))
            sync = {"fdatasync": os.fdatasync, "sync_file_range": _write_out}.get(row.sync, os.fsync)
            self.operation = self._operation(self.fd, _Calls(os.pwrite, sync, os.fsync, os.close, os.open), row.times)
            self.operation()
            self.samples.own = self._own()
            self.written += row.write * row.times
        except OSError as fault:
            if not (row.flag and fault.errno == errno.EINVAL):
                self.close()
                raise PlumblineError(_failed(volume, row, 0, fault)) from fault
            # What O_DIRECT does not take; pg_test_fsync says n/a, or ends.
            small = row.write % volume.logical
            self.samples = Samples("%d B is no whole block of %d B" % (row.write, volume.logical) if small else "no such direct writes on this filesystem")

    def _own(self) -> int:
        """Nanoseconds of an operation that are this program's: the same steps on a device that takes nothing, with syncs that do nothing.

        Of a row that waits for the drive it is the median, each behind an operation of the row: while that waits, the processor's caches lose the
        program. Of a row that does not wait it is the quickest batch. Where each write waits, one write is measured.
        """
        fd = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        nothing: Callable[[object], None] = set().discard
        waits = self.row.times if self.row.flag else 1
        try:
            operation = self._operation(fd, _Calls(os.pwrite, nothing, nothing, nothing, {self.again: fd}.get), self.row.times // waits)
            if not (self.row.sync or self.row.flag):
                return min(sum(self._time(operation, 0, _OWN_OPERATIONS)) // _OWN_OPERATIONS for _batch in range(_OWN_BATCHES))
            own: List[int] = []
            clock = time.perf_counter_ns
            until = clock() + _OWN_NS
            before = len(self.operation.steps)
            for returned in _calls(*self.operation.steps, clock, *operation.steps, clock):
                self.operation.check(returned[:before])
                self.written += self.row.write * self.row.times
                own.append(returned[-1] - returned[before])
                if len(own) >= (_OWN_LEAST if returned[-1] >= until else _OWN_OPERATIONS):
                    break
            return sorted(own)[len(own) // 2] * waits
        finally:
            os.close(fd)

    def _operation(self, fd: int, calls: _Calls, writes: int) -> _Operation:
        """One operation of the row, with so many writes. All that can be made ready is made ready here."""
        again, size = self.again, self.row.write
        view = self.views[0]
        pwrite, sync, fsync, close, reopen = calls
        flags = os.O_RDWR | os.O_CLOEXEC
        first = self.row.sync == "fsync_close"

        def write_and_reopen() -> int:
            writer = reopen(again, flags)
            try:
                written = pwrite(writer, view, 0)
                if first:
                    fsync(writer)
            finally:
                close(writer)
            other = reopen(again, flags)  # in either case, so that both rows open and close the same number of times
            try:
                if not first:
                    fsync(other)
            finally:
                close(other)
            return written

        if self.row.sync in ("fsync_close", "close_fsync"):
            return _Operation((write_and_reopen,), (size,))
        steps = [functools.partial(pwrite, fd, piece, number * size) for number, piece in enumerate(self.views[:writes])]
        if not self.row.sync:
            return _Operation(tuple(steps), (size,) * writes)
        return _Operation((*steps, functools.partial(sync, fd)), (*(size,) * writes, None))

    @staticmethod
    def _time(operation: _Operation, until: int, least: int = 1, latencies: Optional["array.array[int]"] = None) -> "array.array[int]":
        """Operations until this moment (perf_counter_ns), and at least so many: nanoseconds of each. What was done stays in *latencies*.

        They are carried out in batches. The interpreter's work between two operations drives the kernel's part of the next one out of the processor's
        caches: on an emulated machine it cost a sync of 600 µs some 30 µs, which are in no time that could be taken out.
        """
        clock = time.perf_counter_ns
        latencies = array.array("q") if latencies is None else latencies
        calls = _calls(clock, *operation.steps, clock)
        count = 1
        while True:
            done: List[Tuple[Any, ...]] = []
            try:
                done.extend(itertools.islice(calls, count))
            finally:
                latencies.extend(ended - began for began, *_results, ended in done)
            for _began, *results, _ended in done:
                operation.check(tuple(results))
            began, ended = done[0][0], done[-1][-1]
            if ended >= until and len(latencies) >= least:
                return latencies
            able = min(_BATCH_NS, until - ended) * count // max(ended - began, 1)
            count = max(min(able, 2 * count, _BATCH), 1)

    def run(self, until: int) -> None:
        """Operations until this moment (perf_counter_ns), one at least. The first is not counted: what ran before may have left it work."""
        latencies = array.array("q")
        self.operation()
        try:
            self._time(self.operation, until, 1, latencies)
        finally:
            if latencies:
                self.samples.add(latencies, sum(latencies))
            self.written += (len(latencies) + 1) * self.row.write * self.row.times

    def close(self) -> None:
        for view in self.views:
            view.release()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _take_turns(jobs: List[_Job], scratch: int, options: Options, until: int, volume: MountedVolume) -> None:
    """Every row once a round, forwards and backwards by turns, so that neither a trend nor a neighbour favours one of them."""
    able = [job for job in jobs if not job.samples.unable]
    piece = int(options.seconds * 1e9 / ROUNDS)
    turn = 0
    while True:
        if turn >= ROUNDS:  # only for a row whose threshold needs more operations than that
            able = [job for job in able if wants_more(job.samples, job.row, options)]
        if not able:
            return
        for job in able if turn % 2 == 0 else reversed(able):
            now = time.perf_counter_ns()
            if now >= until:
                return
            try:
                os.fsync(scratch)  # what the row before left in the page cache
                job.run(min(time.perf_counter_ns() + piece, until))
            except OSError as fault:
                raise PlumblineError(_failed(volume, job.row, job.samples.ops, fault)) from fault
        turn += 1


def _failed(volume: MountedVolume, row: Row, ops: int, fault: OSError) -> str:
    said = "%s: %s failed after %d operations: %s; " % (volume.path, row.name, ops, fault.strerror or fault)
    gone = read_disk_activity.first_gone(volume.disks)
    if gone:
        return said + "%s went away while it was measured; see the kernel's log" % gone
    return said + "a volume that does not take every write and sync proves nothing"
