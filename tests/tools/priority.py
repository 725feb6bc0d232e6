# SPDX-License-Identifier: GPL-3.0-or-later
"""Whom the kernel of this computer lets run first.

Where the kernel groups the scheduling of sessions (sched(7), "The autogroup feature"), nice values count only within a session; the session's
own then has to be set. Raising takes root. Where a priority cannot be set it stays as it is.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

LOW = 5  # about a third of a share: lower, and tests that wait for something would wait in vain
USUAL = 0
HIGH = -10  # nine times the share of another session: what else runs on this computer takes a tenth of a processor
LOOK_SECONDS = 1.0


def set_priority(pid: int, nice: int) -> None:
    """Set the nice value of a process with all its group, and of its session."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PGRP, os.getpgid(pid), nice)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(nice), encoding="ascii")


def processes_of(cache: Path) -> list[int]:
    """The processes of a machine of the lab: QEMU and its simulated SSDs. All are started with files of the machine's run directory."""
    run = f"{cache.resolve()}/run/".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            program, *words = entry.read_bytes().split(b"\0")
            if os.path.basename(program).startswith((b"qemu-system", b"nbdkit")) and any(run in word for word in words):
                found.append(int(entry.parent.name))
    return found


@contextmanager
def raised(caches: Sequence[Path]) -> Iterator[None]:
    """Let machines go before everything else, also what is started meanwhile."""
    over = threading.Event()

    def everywhere(nice: int) -> None:
        for cache in caches:
            for pid in processes_of(cache):
                set_priority(pid, nice)

    def keep() -> None:
        while not over.is_set():
            everywhere(HIGH)
            over.wait(LOOK_SECONDS)

    keeper = threading.Thread(target=keep, daemon=True)
    keeper.start()
    try:
        yield
    finally:
        over.set()
        keeper.join()
        everywhere(USUAL)
