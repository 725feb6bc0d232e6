# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose priority is raised, until when, and what is left as it is."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import priority
import pytest

Start = Callable[[str, str], int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a process in a session of its own, with the name and the last word that are given."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(program: str, word: str) -> int:
        process = subprocess.Popen([program, "-c", "read -r line", word], executable="/bin/sh", stdin=subprocess.PIPE, start_new_session=True)
        started.append(process)
        return process.pid

    yield begin
    for process in started:
        process.communicate(b"\n")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The (pid, nice value) that were set, of which none is."""
    calls: list[tuple[int, int]] = []
    monkeypatch.setattr(priority, "set_priority", lambda pid, nice: calls.append((pid, nice)))
    monkeypatch.setattr(priority, "LOOK_SECONDS", 0.01)
    return calls


def test_a_priority_is_set(start: Start) -> None:
    pid, other = start("nbdkit", "a"), start("nbdkit", "b")
    before = os.getpriority(os.PRIO_PROCESS, other)
    priority.set_priority(pid, before + 3)
    assert os.getpriority(os.PRIO_PROCESS, pid) == before + 3
    assert os.getpriority(os.PRIO_PROCESS, other) == before
    group = Path(f"/proc/{pid}/autogroup")
    assert not group.exists() or group.read_text(encoding="ascii").endswith(f"nice {before + 3}\n")


def test_one_that_has_ended() -> None:
    priority.set_priority(2**22 + 1, 3)  # above PID_MAX_LIMIT, proc(5)


def test_the_processes_of_a_machine(start: Start, tmp_path: Path) -> None:
    """Not those of another machine whose cache lies within, and not who only speaks to the machine."""
    own = {start("/opt/qemu-system-x86_64", f"{tmp_path}/run/pid"), start("nbdkit", f"file={tmp_path}/run/disks/a.img")}
    start("nbdkit", f"file={tmp_path}/machine-2/run/disks/a.img")
    start("ssh", f"-F{tmp_path}/run/ssh_config")
    assert set(priority.processes_of(tmp_path)) == own


def test_raised_until_the_end_also_what_is_started_meanwhile(start: Start, told: list[tuple[int, int]], tmp_path: Path) -> None:
    def wait_for(pid: int) -> None:
        deadline = time.monotonic() + 30
        while (pid, priority.HIGH) not in told:
            assert time.monotonic() < deadline
            time.sleep(0.01)

    first = start("qemu-system-x86_64", f"{tmp_path}/run/pid")
    with priority.raised([tmp_path]):
        wait_for(first)
        later = start("nbdkit", f"file={tmp_path}/run/a")
        wait_for(later)
    assert sorted(told[-2:]) == sorted([(first, priority.USUAL), (later, priority.USUAL)])
    assert told.count((first, priority.USUAL)) == 1


def test_an_error_puts_it_back_too(start: Start, told: list[tuple[int, int]], tmp_path: Path) -> None:
    pid = start("nbdkit", f"file={tmp_path}/run/a")
    with pytest.raises(RuntimeError), priority.raised([tmp_path]):
        raise RuntimeError
    assert told[-1] == (pid, priority.USUAL)
