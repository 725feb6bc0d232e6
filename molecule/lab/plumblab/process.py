# SPDX-License-Identifier: GPL-3.0-or-later
"""The QEMU process: starting it, finding it, and ending it and nothing else."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from .errors import LabError
from .paths import Paths

_START_SECONDS = 60
_ENDED = "QEMU ended with status"
# The shell waits beside QEMU, so that a crash leaves its status: 128 and the number of the signal.
_RUN = f'"$@"; echo "{_ENDED} $?"'


def start(paths: Paths, words: Sequence[str]) -> None:
    """Run QEMU in the background, in a session of its own. Returns when it has opened its monitor; LabError with its words where it ends before."""
    for old in (paths.pid, paths.qmp, paths.log):  # a new log: the shell of the machine before may still write to the old one
        old.unlink(missing_ok=True)
    with paths.log.open("w", encoding="utf-8") as log:
        subprocess.run(["setsid", "--fork", "sh", "-c", _RUN, "sh", *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=True)
    limit = time.monotonic() + _START_SECONDS
    while not (paths.qmp.exists() and running_pid(paths)):
        if _ENDED in (said := _said(paths)):
            raise LabError(f"QEMU did not start: {' '.join(words)}\n{said}")
        if time.monotonic() > limit:
            raise LabError(f"QEMU did not open its monitor within {_START_SECONDS} s: {' '.join(words)}\n{said}")
        time.sleep(0.02)


def last_words(paths: Paths) -> str:
    """The end of what QEMU itself has written; of one that has just ended with its status, for which a moment is waited."""
    limit = time.monotonic() + 1
    while running_pid(paths) is None and _ENDED not in _said(paths) and time.monotonic() < limit:
        time.sleep(0.02)
    return _said(paths)


def _said(paths: Paths) -> str:
    try:
        return "\n".join(paths.log.read_text(encoding="utf-8", errors="replace").splitlines()[-25:])
    except FileNotFoundError:
        return ""


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
    wait_gone(paths, timeout_seconds, how)


def wait_gone(paths: Paths, timeout_seconds: float, how: signal.Signals | None = None) -> None:
    """Wait until the machine's process has ended, after a signal where one is given.

    Returns when the process has let go of its files and their locks, which is later than when /proc has forgotten its command line.
    """
    pid = running_pid(paths)
    if pid is None:
        return
    with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
        process = os.pidfd_open(pid)
        try:
            if how is not None and running_pid(paths) == pid:  # and not another that got its number before it was held
                signal.pidfd_send_signal(process, how)
            if not select.select([process], [], [], timeout_seconds)[0]:
                raise LabError(f"QEMU (pid {pid}) is still running after {timeout_seconds:.0f} s")
        finally:
            os.close(process)
    paths.pid.unlink(missing_ok=True)
