# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder in which LVM locks: looked at before LVM waits there. I/O.

LVM locks by flock(2) on files in a folder below /run/lock, in which every user may make one on Debian. Until LVM is installed nobody else has. Whoever
made the folder, or a file in it, can hold a lock for ever, whatever owner and mode it has got since, and each call of LVM waits for that.
"""

from __future__ import annotations

import os

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.folders import open_folder, user_name

FOLDER = "/run/lock/lvm"  # lvm.conf(5), global/locking_dir


def check_locks() -> None:
    """Raise PlumblineError where somebody else than root could hold a lock of LVM. Without the folder there is nothing that could be held."""
    try:
        folder = open_folder(FOLDER)
    except FileNotFoundError:
        return
    except OSError as fault:
        raise PlumblineError(_fault("%s is no folder of root's alone: %s" % (FOLDER, fault.strerror or fault))) from fault
    try:
        if not folder.trusted:
            raise PlumblineError(_fault("%s is no folder of root's alone" % FOLDER))
        for name in sorted(os.listdir(folder.fd)):
            owner = _owner(folder.fd, name)
            if owner not in (0, os.geteuid()):
                raise PlumblineError(_fault("%s/%s belongs to user %s" % (FOLDER, name, user_name(owner))))
    finally:
        os.close(folder.fd)


def _owner(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    except FileNotFoundError:
        return 0  # LVM removes the locks that it gives back


def _fault(what: str) -> str:
    text = "%s, so that others can keep each call of LVM waiting for ever [locks]; wanted root's alone; nothing was written."
    return (text + " Find out who made it, and remove it: rm -r %s; LVM makes it anew") % (what, FOLDER)
