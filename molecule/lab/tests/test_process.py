# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that ends says how, and is waited for."""

from __future__ import annotations

import fcntl
import signal
from pathlib import Path

import pytest
from plumblab import process
from plumblab.errors import LabError
from plumblab.paths import Paths
from plumblab.qmp import Qmp

# Opens a monitor that greets, then ends as a crash does when a command comes.
CRASHING = """
import os, socket, sys
with open(sys.argv[2], "w") as pid:
    pid.write(str(os.getpid()))
monitor = socket.socket(socket.AF_UNIX)
monitor.bind(sys.argv[1])
monitor.listen()
client = monitor.accept()[0]
client.sendall(b"{}\\n")
client.recv(100)
print("an assertion failed", file=sys.stderr, flush=True)
os.abort()
"""


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(tmp_path)
    found.run.mkdir()
    return found


def begin(paths: Paths, program: str) -> None:
    """Run a program of Python in place of QEMU; the lab knows its own machine by the name."""
    python = paths.run / "qemu-system-test"
    python.symlink_to("/usr/bin/python3")
    process.start(paths, [str(python), "-c", program, str(paths.qmp), str(paths.pid), str(paths.run / "locked")])


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["sh", "-c", "echo no such device >&2; exit 3"], "did not start: sh -c .*\nno such device\nQEMU ended with status 3"),
        (["plumbline-no-such-program"], "not found\nQEMU ended with status 127"),
    ],
)
def test_one_that_does_not_start(paths: Paths, words: list[str], wanted: str) -> None:
    with pytest.raises(LabError, match=f"(?s){wanted}"):
        process.start(paths, words)


def test_one_that_crashes(paths: Paths) -> None:
    begin(paths, CRASHING)
    with pytest.raises(LabError, match=r"(?s)closed its monitor: an assertion failed.*QEMU ended with status 134"):
        Qmp(paths)


# Locks a file. When asked to end, its first thread does, and with it the command line in /proc; another one keeps the lock for a second.
ENDING = """
import ctypes, fcntl, os, signal, sys, threading, time
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
lock = open(sys.argv[3], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
asked = threading.Event()
def keep():
    asked.wait()
    time.sleep(1)
    os._exit(0)
threading.Thread(target=keep).start()
with open(sys.argv[2], "w") as pid:
    pid.write(str(os.getpid()))
open(sys.argv[1], "w").close()
signal.sigtimedwait([signal.SIGTERM], 60)
asked.set()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_one_that_ends_has_let_go_of_its_files(paths: Paths) -> None:
    begin(paths, ENDING)
    process.end(paths, signal.SIGTERM)
    with (paths.run / "locked").open("r+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not paths.pid.exists()


def test_one_that_does_not_end(paths: Paths) -> None:
    begin(paths, ENDING)
    with pytest.raises(LabError, match=r"QEMU \(pid [0-9]+\) is still running after 0 s"):
        process.wait_gone(paths, 0.1)
    process.end(paths, signal.SIGKILL)
    assert process.running_pid(paths) is None
