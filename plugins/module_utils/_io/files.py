# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the host, locked, and replaced in one step. I/O."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import stat
import time
from typing import Any, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError

HOME = "/var/lib/plumbline"  # what this collection keeps on a host


def make_private(directory: str) -> None:
    """Make a folder of ours, which root alone may enter (0700). Raises OSError.

    In HOME each level from HOME down is ours. The folder that holds HOME belongs to the system, and every other user needs it: its mode is never
    changed. Elsewhere, where an option names the place, only the folder itself is ours.
    """
    inside = (directory + "/").startswith(HOME + "/")
    levels = [HOME]
    for name in directory[len(HOME) :].split("/") if inside else ():
        levels += [os.path.join(levels[-1], name)] if name else []
    for level in levels if inside else [directory]:
        os.makedirs(level, mode=0o700, exist_ok=True)
        found = os.lstat(level)
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "%s is no directory of root's own; find out who made it, and remove it" % level, level)
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.chmod(level, 0o700)


def replace_file(path: str, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step, keeping owner, mode and SELinux label of the one that is there."""
    path = os.path.realpath(path)
    temporary = "%s.plumbline-%d" % (path, os.getpid())
    try:
        found: Optional[os.stat_result] = os.stat(path)
    except FileNotFoundError:
        found = None
    _remove_leftovers(path)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape", newline="") as handle:
            handle.write(text)
            handle.flush()
            os.fchmod(fd, stat.S_IMODE(found.st_mode) if found else mode)
            if found:
                os.fchown(fd, found.st_uid, found.st_gid)
                _copy_label(path, temporary)
            os.fsync(fd)
        os.rename(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # what went wrong first is what is told
            os.unlink(temporary)
        raise
    directory = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _remove_leftovers(path: str) -> None:
    """Remove what a run that was killed has left beside a file: a new text that nobody has seen. Of a run that lives it is left alone."""
    home, name = os.path.split(path)
    left = re.compile(re.escape(name) + r"\.plumbline-([0-9]+)")
    for entry in os.listdir(home):
        found = left.fullmatch(entry)
        if found and (int(found.group(1)) == os.getpid() or not os.path.exists("/proc/" + found.group(1))):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(home, entry))


def _copy_label(source: str, target: str) -> None:
    with contextlib.suppress(OSError):  # no SELinux here
        os.setxattr(target, "security.selinux", os.getxattr(source, "security.selinux"))


def read_json(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as handle:
            return json.load(handle)
    except (OSError, ValueError):
        return None


def write_json(path: str, content: Any, what: str) -> None:
    try:
        make_private(os.path.dirname(path))
        replace_file(path, json.dumps(content, indent=1, sort_keys=True) + "\n", mode=0o600)
    except OSError as fault:
        raise PlumblineError("%s could not be kept in %s: %s" % (what, path, fault.strerror or fault)) from fault


def lock(fd: int, seconds: float) -> None:
    """Lock an open file or device for us alone, waiting for others so long (udev holds a device while it probes it). Raises OSError after that."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)
