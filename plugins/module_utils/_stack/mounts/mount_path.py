# SPDX-License-Identifier: GPL-3.0-or-later
"""Which paths may be mount points at all, and who could move one. Pure."""

from __future__ import annotations

import posixpath
import re
import stat
from typing import Collection, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part

# Mounting over one of these would hide the running system.
SYSTEM_DIRECTORIES = frozenset(
    "/ /bin /boot /boot/efi /dev /etc /home /lib /lib32 /lib64 /libx32 /lost+found /media /mnt /opt /proc /root /run /sbin /srv /sys /tmp /usr /var "
    "/usr/bin /usr/include /usr/lib /usr/lib32 /usr/lib64 /usr/libexec /usr/libx32 /usr/local /usr/sbin /usr/share "
    "/var/cache /var/lib /var/local /var/lock /var/log /var/mail /var/run /var/spool /var/tmp".split()
)
# And nothing belongs below these: the host's software, its settings, its package databases, what systemd and this collection keep.
_SYSTEM_TREES = tuple(
    "/proc/ /sys/ /dev/ /run/ /boot/ /etc/ /bin/ /sbin/ /lib/ /lib32/ /lib64/ /libx32/ /lost+found/ "
    "/usr/bin/ /usr/include/ /usr/lib/ /usr/lib32/ /usr/lib64/ /usr/libexec/ /usr/libx32/ /usr/sbin/ /usr/share/ "
    "/var/lib/apt/ /var/lib/dpkg/ /var/lib/plumbline/ /var/lib/rpm/ /var/lib/systemd/ /var/lock/ /var/run/".split()
)


def check_mount_point(raw: object, where: str) -> str:
    """A path that may be a mount point: absolute, normalised, of plain characters, none of the system's. Raises PlumblineError naming *where*."""
    if not isinstance(raw, str) or not raw.startswith("/"):
        raise PlumblineError("%s: '%s' does not fit; wanted an absolute path such as /data01" % (where, raw))
    if posixpath.normpath(raw) != raw or raw.startswith("//"):
        raise PlumblineError("%s: '%s' is not normalised; wanted %s" % (where, raw, posixpath.normpath("/" + raw.lstrip("/"))))
    if not re.fullmatch(r"[A-Za-z0-9/._+:@-]+", raw) or len(raw) > 255:
        raise PlumblineError("%s: '%s' holds a character that does not belong in a mount point; wanted letters, digits and / . _ + : @ -" % (where, raw))
    if raw in SYSTEM_DIRECTORIES or (raw + "/").startswith(_SYSTEM_TREES):
        raise PlumblineError("%s: '%s' belongs to the system; mounting over it would hide what is there" % (where, raw))
    return raw


def owner_fault(path: str, owner: int, above: Part, trusted: Collection[int] = (0,)) -> str:
    """Why a mount point that is there could be moved by its own owner; empty where it could not.

    A sticky directory, and one of somebody else's, keeps nobody from moving what is his own, inode(7). In a directory of root's alone nobody moves anything.
    """
    if owner in trusted or (above.owner in trusted and not above.mode & 0o022):
        return ""
    text = "%s belongs to user %d, who can put something else in its place, since %s is not root's alone; wanted root as its owner: chown root %s"
    return text % (path, owner, above.path, path)


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
