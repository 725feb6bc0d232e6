# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools that must not outlive the module, and that get only so much time. I/O."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from typing import Any, Callable, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import ENVIRONMENT, guarded

PR_SET_PDEATHSIG = 1  # prctl(2)
_NOT_RUN = 127


def death_tie() -> Callable[[], None]:
    """What ties a child's life to ours, also when we are killed: to be called in it between fork and exec."""
    libc = ctypes.CDLL(None, use_errno=True)  # loaded here, since little may be done between fork and exec

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)

    return tie


def bound_runner(module: Any, seconds: float) -> Callable[[Sequence[str]], Tuple[int, str, str]]:
    """Like runner(), for a tool that must not outlive the module (it dies with it, also of SIGKILL) and gets so many seconds."""
    tie = death_tie()

    def run(argv: Sequence[str]) -> Tuple[int, str, str]:
        path = module.get_bin_path(argv[0])
        if path is None:
            raise PlumblineError("%s is not on this host; install the package %s" % (argv[0], argv[0]))
        with subprocess.Popen(
            [path] + list(argv[1:]), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=dict(os.environ, **ENVIRONMENT), universal_newlines=True, preexec_fn=tie, cwd="/",  # noqa: PLW1509 # pylint: disable=subprocess-popen-preexec-fn # this process has one thread
        ) as process:  # fmt: skip
            try:
                out, err = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired as late:
                process.kill()
                raise PlumblineError("%s did not end within %d s and was ended; does the device answer?" % (argv[0], seconds)) from late
            except BaseException:
                process.kill()  # or leaving the block would wait for it
                raise
            return process.returncode, out, err

    return guarded(run)


def run_together(commands: Sequence[Sequence[str]], seconds: float) -> List[Optional[Tuple[int, str, str]]]:
    """Run tools by their paths at the same time, each bound to the module's life. Of each what it printed, or None where it did not end in time.

    All of them together get *seconds*, and at most one more. One in an uninterruptible sleep, which no signal ends, is left behind. One that cannot
    be started ends with 127, as in a shell, and says why.
    """
    tie, late = death_tie(), time.monotonic() + seconds
    answers: List[Optional[Tuple[int, str, str]]] = [None] * len(commands)

    def wait(number: int, process: "subprocess.Popen[str]") -> None:
        out, err = process.communicate()
        answers[number] = process.returncode, out, err

    started = {}
    for number, argv in enumerate(commands):  # all before the first thread: what runs between fork and exec wants a process of one
        try:
            started[number] = subprocess.Popen(
                list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=dict(os.environ, **ENVIRONMENT),
                encoding="utf-8", errors="replace", preexec_fn=tie, cwd="/",  # noqa: PLW1509 # pylint: disable=subprocess-popen-preexec-fn
            )  # fmt: skip
        except OSError as fault:
            answers[number] = _NOT_RUN, "", "%s could not be run: %s" % (argv[0], fault.strerror or fault)
    waiting = [threading.Thread(target=wait, args=item, daemon=True) for item in started.items()]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join(max(late - time.monotonic(), 0))
    results = list(answers)
    for number, process in started.items():
        if results[number] is None:
            process.kill()
    for thread in waiting:  # their pipes close now
        thread.join(max(late + 1 - time.monotonic(), 0))
    return results
