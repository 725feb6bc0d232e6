# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings in sysfs that are changed for the time of a measurement, and put back whatever happens to us. I/O."""

from __future__ import annotations

import contextlib
import os
from typing import Dict, Iterator, List, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.guardian import Guardian


def _read(path: str) -> str:
    with open(path, "rb") as handle:
        return handle.read().decode("ascii", "replace").strip()


def write_setting(path: str, value: str) -> None:
    """Set one file, for good. Raises OSError."""
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
                write_setting(path, value)
        except FileNotFoundError:
            continue
        except OSError:
            failed.append(path)
    return failed


@contextlib.contextmanager
def changed(settings: Mapping[str, str]) -> Iterator[Dict[str, str]]:
    """Within, the files have the values of *settings*; afterwards the old ones, which are yielded.

    By the place of each device in /sys, since its name may be another device's by the time that they are put back.
    Raises PlumblineError where one cannot be read, set or put back. Must be entered by a process of one thread.
    """
    old = {}
    settings = {os.path.realpath(path): value for path, value in settings.items()}
    for path in settings:
        try:
            old[path] = _read(path)
        except OSError as fault:
            raise PlumblineError("%s could not be read: %s" % (path, fault.strerror or fault)) from fault
    differing = {path: value for path, value in settings.items() if old[path] != value}
    if not differing:
        yield old
        return
    guardian = Guardian(lambda: _put_back({path: old[path] for path in differing}), "settings")
    failed: List[str] = []
    try:
        for path, value in differing.items():
            try:
                write_setting(path, value)
            except OSError as fault:
                raise PlumblineError("%s could not be set to %s: %s" % (path, value, fault.strerror or fault)) from fault
        yield old
    finally:
        failed = guardian.end()
    if failed:
        raise PlumblineError("%s could not be put back to its value before the measurement" % ", ".join(failed))
