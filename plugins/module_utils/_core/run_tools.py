# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools of the host: found, run, and their failures reported. I/O."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Callable, Dict, Iterable, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

# (argv) → (return code, standard output, standard error); runs with LC_ALL=C and without a shell.
Runner = Callable[[Sequence[str]], Tuple[int, str, str]]
# The same with text for standard input: (argv, text) → …
FeedRunner = Callable[[Sequence[str], str], Tuple[int, str, str]]
# Begins a command and returns what waits for its end.
Starter = Callable[[Sequence[str]], Callable[[], Tuple[int, str, str]]]
# Tools speak English and read no user's settings; lvm warns of descriptors that it inherits unless told not to. No tool of root's looks for anything in
# /tmp, where every user may put it: fio takes a file fio-dump-status there for the order to print its report at once.
ENVIRONMENT = {"LC_ALL": "C", "LANGUAGE": "C", "LVM_SUPPRESS_FD_WARNINGS": "1", "TMPDIR": "/run"}


def must_succeed(result: Tuple[int, str, str], fault: str) -> None:
    code, out, err = result
    if code:
        raise PlumblineError("%s: %s" % (fault, " ".join((err or out).split()) or "return code %d" % code))


def runner(module: Any) -> Callable[[Sequence[str]], Tuple[int, str, str]]:
    """Runs an argv list without a shell, in the C locale."""

    def run(argv: Sequence[str]) -> Tuple[int, str, str]:
        code, out, err = module.run_command(list(argv), environ_update=ENVIRONMENT, handle_exceptions=False)
        return code, out, err

    return guarded(run)


def feed_runner(module: Any) -> Callable[[Sequence[str], str], Tuple[int, str, str]]:
    """Like runner(), with text for the tool's standard input."""

    def run(argv: Sequence[str], text: str) -> Tuple[int, str, str]:
        code, out, err = module.run_command(list(argv), data=text or None, environ_update=ENVIRONMENT, handle_exceptions=False)
        return code, out, err

    return guarded(run)


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


def guarded(run: Callable[..., Tuple[int, str, str]]) -> Callable[..., Tuple[int, str, str]]:
    """The same, with one line on a tool that could not be run."""

    def wrapped(argv: Sequence[str], *rest: str) -> Tuple[int, str, str]:
        try:
            return run(argv, *rest)
        except OSError as fault:
            raise PlumblineError("%s could not be run: %s" % (argv[0], fault.strerror or fault)) from fault

    return wrapped


TOOLS = ("lvm", "dmsetup", "wipefs", "sfdisk", "mount", "fio", "udevadm", "hdparm", "sdparm", "nvme", "smartctl", "mdadm")


def find_known_tools(more: Iterable[str] = ()) -> Dict[str, str]:
    """Tool → its path, of those that are there. *more*: beside those that any host may need."""
    paths = {}
    for tool in (*TOOLS, *more):
        for directory in ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"):
            path = os.path.join(directory, tool)
            if os.access(path, os.X_OK):
                paths[tool] = path
                break
    return paths
