# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python for a program of ours that root runs later, when Ansible is gone. I/O.

Ansible's may be another user's: a virtual environment in a home. Whoever can exchange it, or a file of its library, would be root at the next run.
A program of ours needs nothing but the standard library, so that the Python behind a virtual environment does.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import find_place
from ansible_collections.plumbline.ssd.plugins.module_utils._core.folders import open_folder, user_name

# Neither the environment nor a user's own packages (-I), nor the packages of the host (-S), into which a group may write.
OPTIONS = ("-I", "-S")


def root_interpreter(what: str) -> Tuple[str, ...]:
    """The words that begin a command. Raises PlumblineError where others than root can exchange what would run; *what* it is for, in a message."""
    path = getattr(sys, "_base_executable", "") or sys.executable
    try:
        fault = _file_fault(path) or _folder_fault(os.path.dirname(os.__file__))
    except OSError as wrong:
        fault = "%s: %s" % (wrong.filename or path, wrong.strerror or wrong)
    if fault:
        text = "the Python for %s, which root runs, can be exchanged by others: %s; nothing was written. "
        raise PlumblineError((text + "Set ansible_python_interpreter to one of root's alone, such as /usr/bin/python3") % (what, fault))
    return (path, *OPTIONS)


def _file_fault(path: str) -> str:
    with find_place(path) as place:
        if not place.folder.trusted:
            return "%s is in no folder of root's alone" % path
        status = os.stat(place.name, dir_fd=place.folder.fd, follow_symlinks=False)
    if status.st_uid not in (0, os.geteuid()):
        return "%s belongs to user %s" % (path, user_name(status.st_uid))
    return "%s has the mode %04o" % (path, stat.S_IMODE(status.st_mode)) if status.st_mode & 0o022 else ""


def _folder_fault(path: str) -> str:
    folder = open_folder(path)
    os.close(folder.fd)
    return "" if folder.trusted else "%s is no folder of root's alone" % path
