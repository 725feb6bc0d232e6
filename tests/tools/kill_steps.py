# SPDX-License-Identifier: GPL-3.0-or-later
"""Kill a piece of work at every system call that it makes, ptrace(2): before the kernel does it, and after. Standard library only; runs in the guest, too."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

PTRACE_TRACEME, PTRACE_SYSCALL, PTRACE_SETOPTIONS = 0, 24, 0x4200
PTRACE_O_EXITKILL = 0x100000

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, process: int, data: int = 0) -> None:
    if _libc.ptrace(request, process, None, data) == -1:
        number = ctypes.get_errno()
        raise OSError(number, "ptrace: " + os.strerror(number))


def killed_at(step: int, work: Callable[[], object]) -> bool:
    """Do the work in a child, and kill that at its *step*-th stop (from 1). Returns whether it got so far; False: it ended before, well.

    A system call has two stops. At the first the kernel has not begun with it, and never does; at the second it has done it.
    """
    child = os.fork()
    if child == 0:
        try:
            _ptrace(PTRACE_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _pid, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        raise OSError(f"the child could not be traced: status {status}")
    _ptrace(PTRACE_SETOPTIONS, child, PTRACE_O_EXITKILL)
    for _number in range(step):
        _ptrace(PTRACE_SYSCALL, child)
        _pid, status = os.waitpid(child, 0)
        if not os.WIFSTOPPED(status):
            if os.waitstatus_to_exitcode(status):
                raise AssertionError(f"the work itself failed: status {status}")
            return False
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return True


def at_every_step(work: Callable[[], object], check: Callable[[int], None], most: int = 2000) -> int:
    """Kill the work at its first stop, its second, and so on until it comes to its end; *check* looks after each. Returns how many kills there were."""
    for step in range(1, most):
        alive = not killed_at(step, work)
        check(step)
        if alive:
            return step - 1
    raise AssertionError(f"no end after {most} steps")
