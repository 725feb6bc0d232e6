# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools of the host: found, run, and their failures told. I/O."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError

# (argv) → (return code, standard output, standard error); runs with LC_ALL=C and without a shell.
Runner = Callable[[Sequence[str]], Tuple[int, str, str]]
# The same with text for standard input: (argv, text) → …
FeedRunner = Callable[[Sequence[str], str], Tuple[int, str, str]]
# Begins a command and returns what waits for its end.
Starter = Callable[[Sequence[str]], Callable[[], Tuple[int, str, str]]]
PR_SET_PDEATHSIG = 1  # prctl(2)
_NOT_RUN = 127
# Tools speak English and read no user's settings; lvm warns of descriptors that it inherits unless told not to.
ENVIRONMENT = {"LC_ALL": "C", "LANGUAGE": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"}


def must_succeed(result: Tuple[int, str, str], fault: str) -> None:
    code, out, err = result
    if code:
        raise PlumblineError("%s: %s" % (fault, " ".join((err or out).split()) or "return code %d" % code))


def runner(module: Any) -> Callable[[Sequence[str]], Tuple[int, str, str]]:
    """Runs an argv list without a shell, in the C locale."""

    def run(argv: Sequence[str]) -> Tuple[int, str, str]:
        code, out, err = module.run_command(list(argv), environ_update=ENVIRONMENT, handle_exceptions=False)
        return code, out, err

    return _guarded(run)


def feed_runner(module: Any) -> Callable[[Sequence[str], str], Tuple[int, str, str]]:
    """Like runner(), with text for the tool's standard input."""

    def run(argv: Sequence[str], text: str) -> Tuple[int, str, str]:
        code, out, err = module.run_command(list(argv), data=text or None, environ_update=ENVIRONMENT, handle_exceptions=False)
        return code, out, err

    return _guarded(run)


def starter(module: Any) -> Callable[[Sequence[str]], Callable[[], Tuple[int, str, str]]]:
    """Like runner(), but the tool runs on while the module goes about something else; what is returned waits for it."""

    def start(argv: Sequence[str]) -> Callable[[], Tuple[int, str, str]]:
        environment = dict(os.environ, **ENVIRONMENT)
        command = [module.get_bin_path(argv[0], required=True)] + list(argv[1:])
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, universal_newlines=True)

        def wait() -> Tuple[int, str, str]:
            out, err = process.communicate()
            return process.returncode, out, err

        return wait

    return start


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
            return process.returncode, out, err

    return _guarded(run)


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
    waiting = [threading.Thread(target=wait, args=one, daemon=True) for one in started.items()]
    for thread in waiting:
        thread.start()
    for thread in waiting:
        thread.join(max(late - time.monotonic(), 0))
    told = list(answers)
    for number, process in started.items():
        if told[number] is None:
            process.kill()
    for thread in waiting:  # their pipes close now
        thread.join(max(late + 1 - time.monotonic(), 0))
    return told


def _guarded(run: Callable[..., Tuple[int, str, str]]) -> Callable[..., Tuple[int, str, str]]:
    def guarded(argv: Sequence[str], *rest: str) -> Tuple[int, str, str]:
        try:
            return run(argv, *rest)
        except OSError as fault:
            raise PlumblineError("%s could not be run: %s" % (argv[0], fault.strerror or fault)) from fault

    return guarded


TOOLS = ("lvm", "dmsetup", "wipefs", "sfdisk", "mkfs.ext4", "mount", "fio", "udevadm", "hdparm", "sdparm", "nvme", "smartctl")


def find_known_tools() -> Dict[str, str]:
    found = {}
    for tool in TOOLS:
        for directory in ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"):
            path = os.path.join(directory, tool)
            if os.access(path, os.X_OK):
                found[tool] = path
                break
    return found
