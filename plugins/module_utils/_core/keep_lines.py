# SPDX-License-Identifier: GPL-3.0-or-later
"""A file of JSON, one record a line, of work that may be cut off: each line is on the disk before the next piece of work begins. I/O.

It is root's alone, and locked as long as it is open. The line that a killed process was writing is left out.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
from typing import Any, List, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import make_private


class LineFile:
    """One file. Raises PlumblineError where it cannot be opened, or another process has it, and with *damaged* where it holds something else."""

    def __init__(self, path: str, busy: str) -> None:
        """*busy*: the message where another process has it."""
        self.path = path
        try:
            make_private(os.path.dirname(path))
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as fault:
            raise PlumblineError("%s: records cannot be kept there: %s" % (path, fault.strerror or fault)) from fault
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as fault:
            self.close()
            raise PlumblineError("%s: %s" % (path, busy)) from fault

    def close(self) -> None:
        os.close(self._fd)

    def read(self) -> List[Mapping[str, Any]]:
        """The records of all whole lines. Raises ValueError where they are none."""
        records = [json.loads(line) for line in self.whole_lines().decode("ascii").splitlines()]
        if not all(isinstance(record, dict) for record in records):
            raise ValueError("a line is no mapping")
        return records

    def whole_lines(self) -> bytes:
        """The text of all whole lines."""
        os.lseek(self._fd, 0, os.SEEK_SET)
        text = b""
        while True:
            piece = os.read(self._fd, 1 << 20)
            if not piece:
                break
            text += piece
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            os.ftruncate(self._fd, len(whole))
        return whole

    def empty(self) -> None:
        os.ftruncate(self._fd, 0)

    def append(self, record: Mapping[str, Any]) -> None:
        """One line, on the disk. What could be written of it in part only is taken back. Raises OSError."""
        end = os.lseek(self._fd, 0, os.SEEK_END)
        line = (json.dumps(record, sort_keys=True, allow_nan=False) + "\n").encode()
        try:
            if os.write(self._fd, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._fd)
        except OSError:
            with contextlib.suppress(OSError):  # a part of a line is left out by whoever reads it
                os.ftruncate(self._fd, end)
            raise

    def remove(self) -> None:
        """The work is done."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
