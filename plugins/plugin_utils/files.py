# SPDX-License-Identifier: GPL-3.0-or-later
"""Files on the controller, written whole or not at all."""

from __future__ import annotations

import os
import tempfile


def write_whole(path: str, content: bytes, mode: int | None = None) -> None:
    """Replace a file in one step. Missing directories are made. *mode*: as the umask has it where none is given. Raises OSError."""
    if mode is None:
        umask = os.umask(0)
        os.umask(umask)
        mode = 0o666 & ~umask
    os.makedirs(os.path.dirname(path), exist_ok=True)
    number, scratch = tempfile.mkstemp(prefix=".plumbline-", dir=os.path.dirname(path))
    try:
        with os.fdopen(number, "wb") as handle:
            handle.write(content)
        os.chmod(scratch, mode)
        os.replace(scratch, path)
    except OSError:
        os.unlink(scratch)
        raise
