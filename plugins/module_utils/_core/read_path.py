# SPDX-License-Identifier: GPL-3.0-or-later
"""The way to a mount point: walked one name at a time, through descriptors. I/O.

mount(8) and systemd resolve a mount point again at every boot. Whoever can put a symbolic link on the way, or exchange a directory of it,
decides what is mounted over: /etc, for example. So the way must be directories that root alone can change, as sshd(8) wants it of the way to
authorized_keys (StrictModes; safe_path() in OpenSSH's misc.c). A link is refused whoever owns it: the kernel shows mounts by their real path.
"""

from __future__ import annotations

import os
import stat
from typing import Iterator, NamedTuple, Tuple

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Part(NamedTuple):
    """One name on the way to a mount point, as lstat() sees it. *target* is where a symbolic link leads."""

    path: str
    kind: str  # directory, link, other
    owner: int = 0
    mode: int = 0o755
    target: str = ""


def read_part(path: str, name: str, above: int) -> Part:
    status = os.stat(name, dir_fd=above, follow_symlinks=False)
    if stat.S_ISLNK(status.st_mode):
        return Part(path, "link", status.st_uid, stat.S_IMODE(status.st_mode), os.readlink(name, dir_fd=above))
    kind = "directory" if stat.S_ISDIR(status.st_mode) else "other"
    return Part(path, kind, status.st_uid, stat.S_IMODE(status.st_mode))


def walk(path: str) -> Tuple[Part, ...]:
    """What there is of the way to a mount point, from the root on, without the mount point itself. Follows nothing."""
    root = os.stat("/")
    way = [Part("/", "directory", root.st_uid, stat.S_IMODE(root.st_mode))]
    fd = os.open("/", DIRECTORY_FLAGS)
    try:
        for name, at in names_on_way(os.path.dirname(path)):
            way.append(read_part(at, name, fd))
            if way[-1].kind != "directory":
                break
            fd = step_down(fd, name)
    except OSError:
        pass  # what is not there will be made
    finally:
        os.close(fd)
    return tuple(way)


def names_on_way(path: str) -> Iterator[Tuple[str, str]]:
    """(name, path up to it) for each name of an absolute path."""
    at = ""
    for name in path.split("/"):
        if name:
            at += "/" + name
            yield name, at


def step_down(above: int, name: str) -> int:
    """The descriptor of a directory in the one that *above* is of, which is closed."""
    fd = os.open(name, DIRECTORY_FLAGS, dir_fd=above)
    os.close(above)
    return fd
