# SPDX-License-Identifier: GPL-3.0-or-later
"""Run stages side by side.

What needs no machine runs at low priority beside what does. Each machine of the lab serves one stage at a time. A stage that measures runs
alone: no other stage runs meanwhile, no other machine is up, and its own goes before whatever else this computer does.
"""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from counts import Counts, count
from priority import LOW, raised, set_priority
from stages import Command, Stage

# Without a machine's work there are two processors for the rest, beside it there are only the gaps that it leaves.
STATIC_AT_ONCE = 2
STATIC_BESIDE_MACHINES = 1


class StageFailed(Exception):
    """A command of a stage did not succeed; the text says which, and how."""


@dataclass(frozen=True)
class Result:
    """How a stage ended."""

    stage: Stage
    seconds: float
    error: str | None
    counts: Counts = Counts()  # noqa: RUF009 # it is frozen


@dataclass(frozen=True)
class Machine:
    """One machine of the lab: its cache directory, by which the lab's tools know it, the Debian release in it, and how to shut it down."""

    cache: Path
    suite: str
    stop: Callable[[], None]


@dataclass
class Run:
    """Results in the order in which stages ended."""

    results: list[Result] = field(default_factory=list)
    not_run: list[Stage] = field(default_factory=list)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it started: politely, then not."""
    for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return


class Runner:
    """Runs the commands of stages, each stage in a thread of its own, and ends them all when it is told to."""

    def __init__(self, env: Mapping[str, str], logs: Path, verbose: bool) -> None:
        self._env, self._logs, self._verbose = dict(env), logs, verbose
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def stop(self) -> None:
        """End what runs, and start nothing more."""
        with self._lock:
            self._stopped = True
            running = list(self._processes)
        for process in running:
            end_group(process)

    def log_of(self, stage: Stage) -> Path:
        """The file with the stage's output."""
        return self._logs / f"{stage.name}.log"

    def run(self, stage: Stage, machine_env: Mapping[str, str]) -> Result:
        """Run a stage's commands until one fails."""
        began = time.monotonic()
        error: str | None = None
        try:
            with self.log_of(stage).open("wb") as log:
                for command in stage.commands():
                    self._command(stage, command, machine_env, None if self._verbose else log, began + stage.minutes * 60)
        except (StageFailed, OSError) as failure:
            error = str(failure)
        counts = count(self.log_of(stage).read_text(encoding="utf-8", errors="replace"), error is None)
        return Result(stage, time.monotonic() - began, error, counts)

    def _command(self, stage: Stage, command: Command, machine_env: Mapping[str, str], log: IO[bytes] | None, deadline: float) -> None:
        """Run one command with its output in `log` (None: on the terminal)."""
        if command.call is not None:
            try:
                command.call()
            except Exception as error:
                raise StageFailed(f"{type(error).__name__}: {error}") from error
            return
        line = shlex.join(command.argv)
        if log is None:
            print(f"$ {line}", flush=True)
        else:
            log.write(f"$ {line}\n".encode())
            log.flush()
        process = self._start(command, {**self._env, **machine_env, **command.env}, log)
        if not stage.lab:
            set_priority(process.pid, LOW)
        try:
            process.wait(max(1.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            end_group(process)
            raise StageFailed(f"not done in time: {line}") from None
        except BaseException:
            end_group(process)
            raise
        finally:
            with self._lock:
                self._processes.discard(process)
        if process.returncode != 0:
            raise StageFailed(f"exit status {process.returncode}: {line}")

    def _start(self, command: Command, env: Mapping[str, str], log: IO[bytes] | None) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise StageFailed("interrupted")
            process = subprocess.Popen(
                command.argv,
                cwd=command.cwd,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT if log is not None else None,
                start_new_session=True,
            )
            self._processes.add(process)
            return process


def may_start(stage: Stage, running: Sequence[Stage]) -> bool:
    """Whether a stage may start now, beside what runs."""
    if any(other.alone for other in running):
        return False
    if stage.alone:
        return not running
    if stage.machine:
        return all(other.machine != stage.machine for other in running)
    static = sum(not other.machine for other in running)
    return static < (STATIC_BESIDE_MACHINES if len(running) > static else STATIC_AT_ONCE)


def next_stage(waiting: Sequence[Stage], running: Sequence[Stage]) -> Stage | None:
    """The first waiting stage that may start. None overtakes another that waits for the same machine."""
    queued: set[int] = set()
    for stage in waiting:
        if stage.machine and stage.machine in queued:
            continue
        if not stage.after.intersection(other.name for other in (*waiting, *running)) and may_start(stage, running):
            return stage
        queued.add(stage.machine)
    return None


def run_all(stages: Sequence[Stage], machines: Sequence[Machine], runner: Runner, tell: Callable[[Result], None], one_at_a_time: bool = False) -> Run:
    """Run all stages; *tell* is called as each has ended."""
    run, waiting, running = Run(), list(stages), list[Stage]()
    ended: queue.SimpleQueue[Result] = queue.SimpleQueue()
    failed: set[str] = set()

    def begin(stage: Stage) -> None:
        taken = machines[stage.machine - 1] if stage.machine else None
        for machine in machines if stage.alone else ():
            if machine is not taken:
                machine.stop()
        running.append(stage)
        threading.Thread(target=work, args=(stage, taken), daemon=True).start()

    def work(stage: Stage, taken: Machine | None) -> None:
        with raised([taken.cache] if taken else []) if stage.alone else nullcontext():
            result = runner.run(stage, environment_of(taken))
        ended.put(result)

    while waiting or running:
        while (blocked := next((stage for stage in waiting if stage.after & failed), None)) is not None:
            waiting.remove(blocked)
            run.not_run.append(blocked)
            failed.add(blocked.name)
        while not (one_at_a_time and running) and (chosen := next_stage(waiting, running)) is not None:
            waiting.remove(chosen)
            begin(chosen)
        if running:
            result = ended.get()
            running.remove(result.stage)
            if result.error is not None:
                failed.add(result.stage.name)
            run.results.append(result)
            tell(result)
    return run


def environment_of(machine: Machine | None) -> dict[str, str]:
    """What tells a stage which machine is its own."""
    return {"PLUMBLINE_CACHE": str(machine.cache), "PLUMBLINE_SUITE": machine.suite} if machine else {}
