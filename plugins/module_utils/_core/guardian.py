# SPDX-License-Identifier: GPL-3.0-or-later
"""A second process that restores what we changed, and does so as well when we are killed. I/O.

It lives in a session of its own, so that neither a signal to our group nor the end of our connection reaches it, and holds the
reading end of a pipe of which we hold the only writing end. When we are gone, in whatever way, the kernel closes ours.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from typing import Callable, List, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

_ANSWER_SECONDS = 120.0
_READY = b"\n"


class Guardian:
    """The second process, from our side. It is to be started by a process of one thread, with all code loaded that *restore* needs."""

    def __init__(self, restore: Callable[[], List[str]], what: str, seconds: Optional[float] = None) -> None:
        """*restore* returns what could not be restored, a sentence each; *what* is for a message; *seconds*: after which it is restored in any case."""
        self.restore = restore
        end_read, self.end_write = os.pipe()
        self.answer_read, answer_write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            _live_on(end_read, answer_write, restore, seconds)
        os.close(end_read)
        os.close(answer_write)
        # Until it has its own session, what ends us ends it: nothing is switched before.
        if os.read(self.answer_read, len(_READY)) != _READY:
            raise PlumblineError("the process that would put %s back did not start; nothing was changed; run again" % what)

    def end(self) -> List[str]:
        """Have all restored, and wait for it. Where the second process is gone, we do it."""
        with contextlib.suppress(OSError):
            os.write(self.end_write, b"\n")
        os.close(self.end_write)
        said = self._answer()
        os.close(self.answer_read)
        if not said.endswith("\n"):
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGKILL)  # or two would write the same
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        if not said.endswith("\n"):
            return self.restore()
        return said.splitlines()[:-1]

    def _answer(self) -> str:
        """Faults, a line each, and a last line when all is done."""
        said = b""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while select.select([self.answer_read], [], [], max(deadline - time.monotonic(), 0))[0]:
            piece = os.read(self.answer_read, 4096)
            if not piece:
                return said.decode("utf-8", "replace")
            said += piece
        return ""


def _live_on(end: int, answer: int, restore: Callable[[], List[str]], seconds: Optional[float]) -> None:
    """The second process: wait for the module's word or end, restore, say what could not be. Does not return."""
    try:
        os.setsid()
        os.chdir("/")
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        # Neither the module's output, for whose end the controller waits, nor its files, nor our own end of the pipe.
        nothing = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(nothing, fd)
        for fd in [int(name) for name in os.listdir("/proc/self/fd")]:
            if fd > 2 and fd not in (end, answer):
                with contextlib.suppress(OSError):
                    os.close(fd)
        os.write(answer, _READY)
        select.select([end], [], [], seconds)
        faults = restore()
        with contextlib.suppress(OSError):  # nobody listens where the module is gone
            os.write(answer, ("".join(fault.replace("\n", " ") + "\n" for fault in faults) + ".\n").encode("utf-8", "replace"))
    finally:
        os._exit(0)
