# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine that ends says how."""

from __future__ import annotations

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
    program = paths.run / "qemu-system-test"  # by its name the lab knows its own machine
    program.symlink_to("/usr/bin/python3")
    process.start(paths, [str(program), "-c", CRASHING, str(paths.qmp), str(paths.pid)])
    with pytest.raises(LabError, match=r"(?s)closed its monitor: an assertion failed.*QEMU ended with status 134"):
        Qmp(paths)
