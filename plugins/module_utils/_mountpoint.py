# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The way to a mount point: walked one name at a time, through descriptors, and judged. I/O; way_fault() is pure.

mount(8) and systemd resolve a mount point again at every boot. Whoever can put a symbolic link on the way, or exchange a directory of it,
decides what is mounted over: /etc, for example. So the way must be directories that root alone can change, as sshd(8) wants it of the way to
authorized_keys (StrictModes; safe_path() in OpenSSH's misc.c). A link is refused whoever owns it: the kernel shows mounts by their real path.
"""

from __future__ import annotations

import os
import stat
from typing import Collection, Iterator, List, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Part(NamedTuple):
    """One name on the way to a mount point, as lstat() sees it. *target* is where a symbolic link leads."""

    path: str
    kind: str  # directory, link, other
    owner: int = 0
    mode: int = 0o755
    target: str = ""


def way_fault(way: Sequence[Part], mounted: Collection[str], trusted: Collection[int] = (0,)) -> str:
    """Why a mount point below these directories could be moved by somebody else; empty where nobody but *trusted* can.

    In a directory that others may write to, the sticky bit keeps them from moving what is not theirs, inode(7). The root of a mounted volume
    (*mounted*) may be anybody's where the mount point lies right in it: it is immutable, so that not even the directory's owner can move it.
    """
    for number, part in enumerate(way):
        if part.kind == "link":
            return "%s is a symbolic link to %s; name the mount point by where it really is" % (part.path, part.target)
        if part.kind != "directory":
            return "%s is no directory" % part.path
        if part.path in mounted and number == len(way) - 1:
            continue
        if part.owner not in trusted:
            return "%s belongs to user %d, who could put something else in its place; wanted root as its owner" % (part.path, part.owner)
        if part.mode & 0o022 and not part.mode & stat.S_ISVTX:
            return "%s can be written to by others than root (mode %04o); wanted that of root alone" % (part.path, part.mode)
    return ""


def _part(path: str, name: str, above: int) -> Part:
    found = os.stat(name, dir_fd=above, follow_symlinks=False)
    if stat.S_ISLNK(found.st_mode):
        return Part(path, "link", found.st_uid, stat.S_IMODE(found.st_mode), os.readlink(name, dir_fd=above))
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "other"
    return Part(path, kind, found.st_uid, stat.S_IMODE(found.st_mode))


def walk(path: str) -> Tuple[Part, ...]:
    """What there is of the way to a mount point, from the root on, without the mount point itself. Follows nothing."""
    root = os.stat("/")
    way = [Part("/", "directory", root.st_uid, stat.S_IMODE(root.st_mode))]
    fd = os.open("/", _DIRECTORY)
    try:
        for name, at in _names(os.path.dirname(path)):
            way.append(_part(at, name, fd))
            if way[-1].kind != "directory":
                break
            fd = _step(fd, name)
    except OSError:
        pass  # what is not there will be made
    finally:
        os.close(fd)
    return tuple(way)


def _names(path: str) -> Iterator[Tuple[str, str]]:
    """(name, path up to it) for each name of an absolute path."""
    at = ""
    for name in path.split("/"):
        if name:
            at += "/" + name
            yield name, at


def _step(above: int, name: str) -> int:
    """The descriptor of a directory in the one that *above* is of, which is closed."""
    fd = os.open(name, _DIRECTORY, dir_fd=above)
    os.close(above)
    return fd


def open_way(path: str, mounted: Collection[str]) -> int:
    """A descriptor of the directory that holds a mount point, made where it is not there. Raises PlumblineError, and OSError as it comes.

    Each name is looked at in the directory that is held open, and opened without following a link. What way_fault() has passed can be
    changed by root alone, so that nothing comes between one name and the next.
    """
    trusted = (0, os.geteuid())
    root = os.stat("/")
    way: List[Part] = [Part("/", "directory", root.st_uid, stat.S_IMODE(root.st_mode))]
    above = os.path.dirname(path)
    fd = os.open("/", _DIRECTORY)
    try:
        _check(path, way, mounted if above == "/" else (), trusted)
        for name, at in _names(above):
            try:
                way.append(_part(at, name, fd))
            except FileNotFoundError:
                os.mkdir(name, 0o755, dir_fd=fd)
                way.append(_part(at, name, fd))
            _check(path, way, mounted if at == above else (), trusted)
            fd = _step(fd, name)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _check(path: str, way: Sequence[Part], mounted: Collection[str], trusted: Collection[int]) -> None:
    fault = way_fault(way, mounted, trusted)
    if fault:
        raise PlumblineError("mount point %s is not safe: %s" % (path, fault))
