# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Sweeps that write: only on what this collection has made and nothing has been put on yet. I/O lives here.

The device is opened alone before it is looked at, and stays so until the last byte is discarded, so that nothing can come between.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from typing import Callable, List

from ansible_collections.plumbline.ssd.plugins.module_utils import _devio, _guards, _probe
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._nvme import deallocated_reads_ones

LOCK_SECONDS = 10  # udev holds a shared lock while it probes; nobody else should


def reasons(seen: Observation, devno: str) -> List[str]:
    """Why a device may not be written to; empty where it may. Pure.

    It has to be a partition that aligned_partition has made, or a logical volume on nothing but such, in use by nobody, with nothing on it.
    """
    node = seen.nodes[devno]
    found: List[str] = []
    if node.kind == "part":
        found += _foreign(seen, node)
    elif node.kind == "lvm":
        legs = list(dict.fromkeys(leg for segment in node.segments for leg, _first in segment.legs))
        if not legs:
            found.append("on what it lies is not known")
        for leg in legs:
            below = seen.nodes.get(leg)
            found += _foreign(seen, below) if below and below.kind == "part" else ["it lies on %s, which is no partition" % (below.name if below else leg)]
    else:
        found.append("it is neither a partition nor a logical volume")
    found += [reason.text for reason in _guards.use_reasons(seen, node) if reason.name in ("mounted", "swap", "held", "read_only")]
    if seen.pv(devno):
        found.append("it is a PV")
    if devno in seen.filesystems:
        found.append("it holds an ext filesystem")
    found += ["it holds %s" % signature.text for signature in seen.signatures.get(devno, [])]
    if devno in seen.faults:
        found.append(seen.faults[devno])
    elif devno not in seen.signatures and not found:
        found.append("that nothing is on it could not be shown")
    return found


def _foreign(seen: Observation, node: Node) -> List[str]:
    """Why a partition is none of ours."""
    table = seen.tables.get(node.parent)
    entry = next((one for one in table.entries if one.number == node.number), None) if table and table.kind == "gpt" and not table.fault else None
    if entry is None or not _guards.our_name(entry.name):
        return ["%s is named '%s', and not plumbline:STACK:NUMBER" % (node.name, entry.name if entry else "")]
    return []


def maker(look: Callable[[], Observation]) -> Callable[..., "WriteProbe"]:
    """What measure() makes instead of a Probe. *look* observes the host, with the disks below the target."""

    def make(target: _probe.Target, grain: int, limits: _probe.Limits) -> "WriteProbe":
        return WriteProbe(look, target, grain, limits)

    return make


def check(target: _probe.Target, look: Callable[[], Observation]) -> int:
    """Open the target alone and refuse it where it may not be written to. Returns the descriptor that holds it. Raises PlumblineError.

    A signature is looked for by libblkid; what that does not know (a raw volume of some database) shows in the proof that all is blank.
    """
    try:
        held = os.open(target.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    except OSError as fault:
        why = "it is in use (mounted, or held by another device)" if fault.errno == errno.EBUSY else fault.strerror or str(fault)
        raise PlumblineError("%s is not written to: %s" % (target.path, why)) from fault
    try:
        _lock(held)
        seen = look()
        found = reasons(seen, target.devno)
        if not found:
            found = list(_devio.prove_blank(target.path, target.size, ones_are_blank=_ones_are_blank(seen, target.devno)).faults)
        if found:
            raise PlumblineError("%s is not written to: %s" % (target.path, found[0]), found)
    except OSError as fault:
        os.close(held)
        busy = fault.errno in (errno.EAGAIN, errno.EACCES)
        why = "another program has locked it; run again" if busy else fault.strerror or str(fault)
        raise PlumblineError("%s is not written to: %s" % (target.path, why)) from fault
    except PlumblineError:
        os.close(held)
        raise
    return held


def _ones_are_blank(seen: Observation, devno: str) -> bool:
    """Whether all drives below say that what is deallocated reads as ones."""
    return all(deallocated_reads_ones(int(seen.namespaces.get(disk.devno, {}).get("dlfeat", 0))) for disk in seen.disk_of(devno))


def _lock(fd: int) -> None:
    """Lock the open device, so that udev, which honours that, does not probe it meanwhile. Raises OSError where others do not let go."""
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


class WriteProbe(_probe.Probe):
    """Timed writes of random bytes. Each is durable when it returns (O_DSYNC), or a volatile cache would be measured."""

    def __init__(self, look: Callable[[], Observation], target: _probe.Target, grain: int, limits: _probe.Limits) -> None:
        self.held = check(target, look)
        try:
            super().__init__(target, grain, limits)
        except BaseException:
            os.close(self.held)
            raise
        self.buffer.write(os.urandom(grain))  # zeros may be kept as a note in the map

    def open(self) -> int:
        return os.open(self.target.path, os.O_RDWR | os.O_DIRECT | os.O_DSYNC | os.O_CLOEXEC)

    def transfer(self, view: memoryview, place: int) -> int:
        return os.pwritev(self.fd, [view], place)

    def __exit__(self, *what: object) -> None:
        try:
            _devio.discard(self.fd, 0, self.target.size)
        except OSError as fault:
            if fault.errno not in (errno.EOPNOTSUPP, errno.ENXIO, errno.ENODEV, errno.EIO):
                raise PlumblineError("%s could not be discarded: %s" % (self.target.path, fault.strerror or fault)) from fault
        finally:
            super().__exit__(*what)
            os.close(self.held)

    def fault(self, place: int, size: int, fault: OSError) -> str:
        return super().fault(place, size, fault).replace("could not be read", "could not be written").replace("read errors", "write errors")
