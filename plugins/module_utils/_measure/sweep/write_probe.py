# SPDX-License-Identifier: GPL-3.0-or-later
"""Timed writes for the offset sweep, on a volume that is ours, empty and held. I/O."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Callable

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, load_mark
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio, held_volumes
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep import options, probe
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.target import Target
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun


def maker(run: Runner, seen: Observation) -> Callable[..., "WriteProbe"]:
    """What measure() makes instead of a Probe."""

    def make(target: Target, grain: int, limits: options.SweepLimits) -> "WriteProbe":
        return WriteProbe(run, seen, target, grain, limits)

    return make


def check_write_target(run: Runner, seen: Observation, target: Target) -> None:
    """Raise PlumblineError where the target may not be written to."""
    with held_volumes.held_alone(seen, [target.devno]) as held:
        held_volumes.prove(run, seen, held)


class WriteProbe(probe.Probe):
    """Timed writes of random bytes. Each is durable when it returns (O_DSYNC), or a volatile cache would be measured."""

    def __init__(self, run: Runner, seen: Observation, target: Target, grain: int, limits: options.SweepLimits) -> None:
        with contextlib.ExitStack() as held:
            fds = held.enter_context(held_volumes.held_alone(seen, [target.devno]))
            self.own = fds[target.devno]
            held_volumes.prove(run, seen, fds)
            super().__init__(target, grain, limits)
            self.held = held.pop_all()
        # O_DSYNC flushes every disk below the volume after the write (blkdev_write_iter in block/fops.c), and the kernel counts
        # each flush twice, as one and as an empty write (blk_account_io_flush and blk_account_io_done in block/blk-mq.c).
        flushes = 2 * max(len(target.disks), 1)
        self.requests_each, self.times_each = 1 + flushes, flushes
        mark = os.urandom(load_mark.MARK_BYTES)
        keep_begun.add_mark(mark)
        self.buffer.write(fio.marked(mark, grain))  # no zeros, which may be kept as a note in the map

    def open(self) -> int:
        return os.open("/proc/self/fd/%d" % self.own, os.O_RDWR | os.O_DIRECT | os.O_DSYNC | os.O_CLOEXEC)

    def transfer(self, view: memoryview, place: int) -> int:
        return os.pwritev(self.fd, [view], place)

    def __exit__(self, *what: object) -> None:
        try:
            block_device.discard(self.fd, 0, self.target.size)
        except OSError as fault:
            if fault.errno not in (errno.EOPNOTSUPP, errno.ENXIO, errno.ENODEV, errno.EIO):
                raise PlumblineError("%s could not be discarded: %s" % (self.target.path, fault.strerror or fault)) from fault
        finally:
            super().__exit__(*what)
            self.held.close()

    def fault(self, place: int, size: int, fault: OSError) -> str:
        return super().fault(place, size, fault).replace("could not be read", "could not be written").replace("read errors", "write errors")
