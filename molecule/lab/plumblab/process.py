# SPDX-License-Identifier: GPL-3.0-or-later
"""The QEMU process: finding it, and ending it and nothing else."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from .errors import LabError
from .paths import Paths


def is_ours(command_line: bytes, paths: Paths) -> bool:
    """Whether a /proc/PID/cmdline is QEMU started with this lab's own pid file."""
    words = command_line.split(b"\0")
    return b"qemu-system" in words[0] and str(paths.pid).encode() in words


def running_pid(paths: Paths) -> int | None:
    """The machine's pid; None where it is not running, whoever has that pid now."""
    try:
        pid = int(paths.pid.read_text(encoding="utf-8"))
        command_line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return None
    return pid if is_ours(command_line, paths) else None


def end(paths: Paths, how: signal.Signals, timeout_seconds: float = 20) -> None:
    """Send the machine a signal and wait until it is gone."""
    pid = running_pid(paths)
    if pid is None:
        return
    os.kill(pid, how)
    wait_gone(paths, timeout_seconds)


def wait_gone(paths: Paths, timeout_seconds: float) -> None:
    """Wait until the machine's process has ended."""
    limit = time.monotonic() + timeout_seconds
    while running_pid(paths) is not None:
        if time.monotonic() > limit:
            raise LabError(f"QEMU (pid {running_pid(paths)}) is still running after {timeout_seconds:.0f} s")
        time.sleep(0.05)
    paths.pid.unlink(missing_ok=True)
