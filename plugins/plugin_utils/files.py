# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller: where they are, for whom, and written whole or not at all.

They hold names, serial numbers and figures of hosts: a file is its owner's alone, and so is a folder that is made for it.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Sequence
from urllib.parse import quote, unquote

MODE, FOLDER_MODE = 0o600, 0o700
_SCRATCH = ".plumbline-"


def absolute(path: str) -> str:
    """Where a path of a task is. A relative one begins where Ansible was started, in a role of a collection as well."""
    return os.path.abspath(os.path.expanduser(path))


def file_name(parts: Sequence[str]) -> str:
    """The name of a record of these: a host of the inventory, or what it is about, and beside it what else names it. Any text is a name of a file.

    A hyphen in the first part stays and in the others does not: the last hyphen is where the name of the host ends.
    """
    first, *rest = [quote(part, safe="()[]@,+=") for part in parts]
    return "-".join([first, *(part.replace("-", "%2D") for part in rest)]) + ".json"


def hosts_of(name: str) -> tuple[str, ...]:
    """The hosts that a record of this name (without its suffix) may be of, in the order in which they are to be thought of."""
    before, hyphen, _rest = name.rpartition("-")
    return (unquote(name), unquote(before)) if hyphen and before else (unquote(name),)


def make_folder(path: str) -> None:
    """Make a folder and those above it that are missing. Raises OSError."""
    if os.path.isdir(path):
        return
    make_folder(os.path.dirname(path))
    try:
        os.mkdir(path, FOLDER_MODE)
    except FileExistsError:
        if not os.path.isdir(path):  # if it is one, a task of another host was here
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None


def prove_folder(path: str, check_mode: bool = False) -> None:
    """Make a folder, and show that a file can be written there; in check mode look whether it could be made. Raises OSError."""
    if check_mode:
        while not os.path.lexists(path) and os.path.dirname(path) != path:
            path = os.path.dirname(path)
        os.listdir(path)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return
    make_folder(path)
    number, scratch = tempfile.mkstemp(prefix=_SCRATCH, dir=path)
    os.close(number)
    os.unlink(scratch)


def write_whole(path: str, content: bytes) -> None:
    """Replace a file in one step. Missing folders are made. Raises OSError."""
    make_folder(os.path.dirname(path))
    number, scratch = tempfile.mkstemp(prefix=_SCRATCH, dir=os.path.dirname(path))
    try:
        with os.fdopen(number, "wb") as handle:
            handle.write(content)
        os.chmod(scratch, MODE)
        os.replace(scratch, path)
    except OSError:
        os.unlink(scratch)
        raise
