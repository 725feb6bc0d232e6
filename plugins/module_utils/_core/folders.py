# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder of a file that root reads or writes: reached so that nobody but root decides where that is. I/O.

Whoever can write to a folder can exchange what lies in it, a folder for a symbolic link among other things. Root that resolves such a path by its
name reads and writes where somebody else wants it to. So a path is walked one name at a time, through descriptors, as sshd(8) looks at the way to
authorized_keys (StrictModes; safe_path() in OpenSSH's misc.c). A link is followed only where root alone could have made it.
"""

from __future__ import annotations

import errno
import os
import pwd
import select
import signal
import stat
import time
from typing import Callable, List, NamedTuple, Set

from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import DIRECTORY_FLAGS

_MOST_LINKS = 40  # as the kernel, path_resolution(7)
_WRITERS = stat.S_IWGRP | stat.S_IWOTH
OURSELVES = -1
SECONDS = 60  # that work as another user may take: that user can stop it at any time


class Folder(NamedTuple):
    """A folder that is held open.

    *trusted*: root alone decides what lies in it, and where it is itself. *user*: the number of the user as whom it has to be used.
    *fixed*: the last folder on the way to it that root alone can exchange, without links: the folder itself, or one above it.
    """

    fd: int
    path: str
    trusted: bool
    user: int = OURSELVES
    fixed: str = "/"

    def act(self, work: Callable[[], None]) -> None:
        """Do something with this folder, as the user that it has to be done as. Raises OSError."""
        if self.user == OURSELVES:
            work()
        else:
            act_as(self.user, work)


class _Way:
    """What has been passed on the way to a folder. *alone*: root alone could have put there what has been passed."""

    def __init__(self) -> None:
        self.owners = {0, os.geteuid()}
        self.fd = os.open("/", DIRECTORY_FLAGS)
        self.here = os.fstat(self.fd)
        self.alone = True
        self.strangers: Set[int] = set()  # owners of folders on the way
        self.fault = ""  # who else could have put something else there
        self.fixed = "/"

    @property
    def closed(self) -> bool:
        """Whether only root changes what lies in the folder that is held now."""
        return self.here.st_uid in self.owners and not self.here.st_mode & _WRITERS

    def pass_by(self, at: str, entry: os.stat_result) -> None:
        """Note who could exchange an entry of the folder that is held now. In a sticky one others cannot exchange what is root's, inode(7)."""
        sticky = self.here.st_uid in self.owners and self.here.st_mode & stat.S_ISVTX and entry.st_uid in self.owners
        if self.closed or sticky:
            return
        self.alone = False
        if self.here.st_uid not in self.owners:
            self.strangers.add(self.here.st_uid)
            self.fault = self.fault or "%s belongs to user %s" % (at or "/", user_name(self.here.st_uid))
        if self.here.st_mode & _WRITERS:
            self.strangers.add(OURSELVES)  # anybody: none of them can be used instead
            self.fault = "%s can be written to by others than root (mode %04o)" % (at or "/", stat.S_IMODE(self.here.st_mode))

    def step(self, name: str) -> None:
        """Go into a folder. On a part of the way that others can change nothing but the same filesystem is gone into: they may mount their own."""
        fd = os.open(name, DIRECTORY_FLAGS, dir_fd=self.fd)
        os.close(self.fd)
        self.fd, above = fd, self.here
        self.here = os.fstat(fd)
        if not self.alone and self.here.st_dev != above.st_dev:
            raise OSError(errno.EXDEV, "another filesystem is mounted there, and %s" % self.fault)

    def restart(self) -> None:
        os.close(self.fd)
        self.fd = os.open("/", DIRECTORY_FLAGS)
        self.here = os.fstat(self.fd)


def open_folder(path: str) -> Folder:
    """Walk to a folder and hold it open; whoever calls closes *fd*. Raises OSError, with the reason where somebody else decides what is there."""
    way = _Way()
    try:
        _go(way, path)
        return _judged(way, path)
    except BaseException:
        os.close(way.fd)
        raise


def _go(way: _Way, path: str) -> None:
    names, links, at = _names(path), 0, ""
    while names:
        name = names.pop(0)
        entry = os.stat(name, dir_fd=way.fd, follow_symlinks=False)
        way.pass_by(at, entry)
        if not stat.S_ISLNK(entry.st_mode):
            way.step(name)
            at += "/" + name
            way.fixed = at if way.alone else way.fixed
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if not way.alone:
            raise OSError(errno.EACCES, "%s/%s is a symbolic link, and %s, who could have made it; nothing was written or read there" % (at, name, way.fault))
        target = os.readlink(name, dir_fd=way.fd)
        names = _names(target) + names
        if target.startswith("/"):
            way.restart()
            at = ""


def _names(path: str) -> List[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


def _judged(way: _Way, path: str) -> Folder:
    owner = way.here.st_uid
    if owner in way.owners and (way.closed or way.alone):
        return Folder(way.fd, path, way.closed and way.alone, fixed=way.fixed)
    if owner in way.owners:
        raise OSError(errno.EACCES, "%s, who could put something else in the place of %s; give it to root alone, or name another folder" % (way.fault, path))
    if way.strangers - {owner} or way.here.st_mode & stat.S_IWOTH:
        everybody = "it can be written to by everybody (mode %04o)" % stat.S_IMODE(way.here.st_mode)
        whose = way.fault if way.strangers - {owner} else everybody
        text = "%s belongs to user %s, and %s; wanted a folder of root's, or a way that nobody but its owner can change"
        raise OSError(errno.EACCES, text % (path, user_name(owner), whose))
    return Folder(way.fd, path, False, owner, way.fixed)


def user_name(uid: int) -> str:
    """A user for messages."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def act_as(uid: int, work: Callable[[], None], seconds: float = SECONDS) -> None:
    """Do something as another user, in a process of its own that has none of root's rights. Raises OSError, also where it takes too long.

    The kernel lets that user neither trace the process nor read its memory (a process that has changed its user is not dumpable, prctl(2)), but stop it.
    """
    try:
        gid = pwd.getpwuid(uid).pw_gid
    except KeyError:
        gid = uid
    answer, tell = os.pipe()
    child = os.fork()
    if not child:
        _end(uid, gid, work, tell)
    os.close(tell)
    fault = b""
    deadline = time.monotonic() + seconds
    try:
        while True:
            if not select.select([answer], [], [], max(deadline - time.monotonic(), 0))[0]:
                os.kill(child, signal.SIGKILL)
                fault = b"0 user %s did not let it end within %d s" % (user_name(uid).encode(), seconds)
                break
            piece = os.read(answer, 4096)
            if not piece:
                break
            fault += piece
    finally:
        os.close(answer)
        _pid, status = os.waitpid(child, 0)
    if fault or status:
        number, _blank, text = fault.decode("utf-8", "replace").partition(" ")
        raise OSError(int(number or 0) or errno.EIO, "as user %s: %s" % (user_name(uid), text or "the process was ended (status %d)" % status))


def _end(uid: int, gid: int, work: Callable[[], None], tell: int) -> None:
    """The other process. It never returns."""
    code = 1
    try:
        os.setgroups([])
        os.setgid(gid)
        os.setuid(uid)
        work()
        code = 0
    except OSError as fault:
        os.write(tell, ("%d %s" % (fault.errno or 0, fault.strerror or fault)).encode("utf-8", "replace")[:4000])
    except BaseException as fault:  # pylint: disable=broad-except # reported to the process that waits
        os.write(tell, ("0 %r" % (fault,)).encode("utf-8", "replace")[:4000])
    finally:
        os._exit(code)  # pylint: disable=protected-access # nothing of the other process is to be run
