# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Settings in sysfs that are changed for the time of a measurement, and put back whatever happens to us. I/O.

A guardian, a child in a session of its own, holds the reading end of a pipe of which we hold the only writing end. When we
are gone, in whatever way, the kernel closes ours, the guardian's read ends, and it puts the old values back.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import Dict, Iterator, List, Mapping, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError


def _read(path: str) -> str:
    with open(path, "rb") as handle:
        return handle.read().decode("ascii", "replace").strip()


def _write(path: str, value: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode("ascii"))
    finally:
        os.close(fd)


def _put_back(old: Mapping[str, str]) -> List[str]:
    """Write the old values. Returns the paths that could not be; one that is gone, with its device, needs none."""
    failed = []
    for path, value in old.items():
        try:
            if _read(path) != value:
                _write(path, value)
        except FileNotFoundError:
            continue
        except OSError:
            failed.append(path)
    return failed


@contextlib.contextmanager
def changed(wanted: Mapping[str, str]) -> Iterator[Dict[str, str]]:
    """Within, the files have the *wanted* values; afterwards the old ones, which are yielded.

    Raises PlumblineError where one cannot be read, set or put back. Must be entered by a process of one thread.
    """
    old = {}
    for path in wanted:
        try:
            old[path] = _read(path)
        except OSError as fault:
            raise PlumblineError("%s could not be read: %s" % (path, fault.strerror or fault)) from fault
    differing = {path: value for path, value in wanted.items() if old[path] != value}
    if not differing:
        yield old
        return
    guardian, pipe = _start_guardian({path: old[path] for path in differing})
    failed: List[str] = []
    try:
        for path, value in differing.items():
            try:
                _write(path, value)
            except OSError as fault:
                raise PlumblineError("%s could not be set to %s: %s" % (path, value, fault.strerror or fault)) from fault
        yield old
    finally:
        failed = _put_back({path: old[path] for path in differing})
        os.close(pipe)
        os.waitpid(guardian, 0)
    if failed:
        raise PlumblineError("%s could not be put back to its value before the measurement" % ", ".join(failed))


def _start_guardian(old: Mapping[str, str]) -> Tuple[int, int]:
    """Returns (its process, our end of the pipe), once it can no longer be hit by what is meant for us."""
    reading, writing = os.pipe()  # both are closed on exec, so that no tool that we run keeps the pipe open
    ready, tell = os.pipe()
    child = os.fork()
    if child == 0:
        _guard(reading, tell, old)
    os.close(reading)
    os.close(tell)
    with os.fdopen(ready, "rb") as handle:
        if handle.read() != b"x":
            raise PlumblineError("the process that puts settings back could not be started; nothing was changed")
    return child, writing


def _guard(pipe: int, tell: int, old: Mapping[str, str]) -> None:
    """The guardian's whole life. It never returns, and raises nothing."""
    try:
        os.setsid()  # what is sent to our group or terminal is not meant for it
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        os.dup2(pipe, 0)
        os.write(tell, b"x")
        for name in os.listdir("/proc/self/fd"):  # standard output too: Ansible waits until the last holder closes it
            if name != "0":
                with contextlib.suppress(OSError):
                    os.close(int(name))
        while os.read(0, 1):
            pass
        _put_back(old)
    finally:
        os._exit(0)
