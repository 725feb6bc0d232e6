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
from typing import Any, Iterator, NamedTuple, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.folders import OURSELVES, Folder, open_folder, user_name
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import step_down

HOME = "/var/lib/plumbline"  # what this collection keeps on a host


def make_private(directory: str) -> None:
    """Make a folder of ours, which root alone may enter (0700). Raises OSError.

    In HOME each level from HOME down is ours. The folder that holds HOME belongs to the system, and every other user needs it: its mode is never
    changed. Elsewhere, where an option names the place, only the folder itself is ours.
    """
    inside = (directory + "/").startswith(HOME + "/")
    above = os.path.dirname(HOME if inside else directory)
    os.makedirs(above, mode=0o755, exist_ok=True)
    holder = open_folder(above)
    fd = holder.fd
    try:
        if holder.user != OURSELVES:
            raise OSError(errno.EACCES, "%s belongs to user %s; wanted a folder of root's" % (above, user_name(holder.user)), above)
        for name in directory[len(above) :].split("/"):
            if name:
                fd = _own(fd, name, directory)
    finally:
        os.close(fd)


def _own(above: int, name: str, path: str) -> int:
    """The descriptor of a folder of ours in the one that *above* is of, which is closed."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
        os.fsync(above)
    fd = step_down(above, name)
    status = os.fstat(fd)
    if status.st_uid != os.geteuid():
        os.close(fd)
        raise OSError(errno.EACCES, "%s in the way to %s belongs to user %s; find out why, and remove it" % (name, path, user_name(status.st_uid)), path)
    if stat.S_IMODE(status.st_mode) != 0o700:
        os.fchmod(fd, 0o700)
    return fd


class FilePlace(NamedTuple):
    """Where a file is or will be: the folder, held open, and the name in it."""

    folder: Folder
    name: str


@contextlib.contextmanager
def find_place(path: str) -> Iterator[FilePlace]:
    """The folder of a file. A link in the file's own place is followed where root alone could have made it, and never elsewhere. Raises OSError."""
    for _link in range(40):
        folder = open_folder(os.path.dirname(path) or "/")
        name = os.path.basename(path)
        try:
            status = _entry(folder.fd, name)
            if not (folder.trusted and status and stat.S_ISLNK(status.st_mode)):
                yield FilePlace(folder, name)
                return
            path = os.path.join(os.path.dirname(path), os.readlink(name, dir_fd=folder.fd))
        finally:
            os.close(folder.fd)
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _entry(fd: int, name: str) -> Optional[os.stat_result]:
    try:
        return os.stat(name, dir_fd=fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def replace_file(path: str, text: str, mode: int = 0o644) -> None:
    """Replace a file in one step. Owner, mode and extended attributes of a regular file of root's that is there are kept. Raises OSError.

    In a folder that somebody else can change nothing is followed, and what is there is no model. A folder of another user's is written to as that user.
    """
    writer = os.getpid()
    with find_place(path) as place:
        fd, name = place.folder.fd, place.name
        status = _entry(fd, name) if place.folder.trusted else None
        model = status if status and stat.S_ISREG(status.st_mode) and status.st_uid in (0, os.geteuid()) else None
        place.folder.act(lambda: _replace_in(fd, name, text, mode, model, writer))


def _replace_in(folder: int, name: str, text: str, mode: int, model: Optional[os.stat_result], writer: int) -> None:
    _remove_leftovers(folder, name, writer)
    temporary = "%s.plumbline-%d" % (name, writer)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape", newline="") as handle:
            handle.write(text)
            handle.flush()
            os.fchmod(fd, stat.S_IMODE(model.st_mode) if model else mode)
            if model:
                os.fchown(fd, model.st_uid, model.st_gid)
                _copy_attributes(folder, name, fd)
            os.fsync(fd)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _remove_leftovers(folder: int, name: str, writer: int) -> None:
    """Remove what a run that was killed has left beside a file: a new text that nobody has seen. Of a run that lives it is left alone."""
    left = re.compile(re.escape(name) + r"\.plumbline-([0-9]+)")
    for entry in os.listdir(folder):
        match = left.fullmatch(entry)
        if match and (int(match.group(1)) == writer or not os.path.exists("/proc/" + match.group(1))):
            with contextlib.suppress(OSError):
                os.unlink(entry, dir_fd=folder)


def _copy_attributes(folder: int, name: str, target: int) -> None:
    """Give a new file the extended attributes of the one that it replaces: the ACL that its owner has set, and the label of SELinux."""
    with contextlib.suppress(OSError):  # a filesystem without any
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            for attribute in os.listxattr(source):
                with contextlib.suppress(OSError):  # one that the kernel gives a new file by itself, or that nobody may set
                    os.setxattr(target, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)


def remove_file(path: str) -> bool:
    """Remove a file, a link or a FIFO, whatever it is. Nothing is followed or opened. Returns whether there was one. Raises OSError."""
    try:
        folder = open_folder(os.path.dirname(path))
    except FileNotFoundError:
        return False
    name = os.path.basename(path)
    try:
        if _entry(folder.fd, name) is None:
            return False
        folder.act(lambda: os.unlink(name, dir_fd=folder.fd))
    finally:
        os.close(folder.fd)
    return True


def read_root_file(path: str) -> Optional[str]:
    """The text of a regular file in a folder that root alone can change; None where there is none. Raises OSError where it is anything else."""
    try:
        with find_place(path) as place:
            if not place.folder.trusted:
                raise OSError(errno.EACCES, "others than root can put something else in its place; it is not read", path)
            fd = os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place.folder.fd)
    except FileNotFoundError:
        return None
    with os.fdopen(fd, encoding="utf-8", errors="surrogateescape", newline="") as handle:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        return handle.read()


def read_own(path: str, most: int) -> bytes:
    """The bytes of a file that we alone may write, at most so many. Raises OSError that says what else it is; follows no link, waits for nobody."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as handle:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        if status.st_uid != os.geteuid():
            raise OSError(errno.EACCES, "it is owned by user %d" % status.st_uid, path)
        if status.st_mode & 0o022:
            raise OSError(errno.EACCES, "others may write to it", path)
        raw = handle.read(most + 1)
    if len(raw) > most:
        raise OSError(errno.EFBIG, "it is longer than %d bytes" % most, path)
    return raw


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
