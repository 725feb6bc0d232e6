# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the stages of stages.py: one line each, then a summary. Called by ./plumbline test."""

from __future__ import annotations

import argparse
import difflib
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from stages import Command, Places, Stage, lab_stages, static_stages
from staging import stage as stage_files
from staging import untracked

LOG_LINES_SHOWN = 200


class StageFailed(Exception):
    """A command of a stage did not succeed; the text says which, and how."""


@dataclass(frozen=True)
class Result:
    """How a stage ended."""

    stage: Stage
    seconds: float
    error: str | None


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options of ./plumbline test."""
    parser = argparse.ArgumentParser(prog="./plumbline test", description="Run the test suite, one line per stage.")
    parser.add_argument("--all", action="store_true", help="with the long stages, and PLUMBLINE_ALL=1 for the others")
    parser.add_argument("--only", default="", metavar="STAGE,…", help="these stages; lab stages bring the machine up first")
    parser.add_argument("--skip", default="", metavar="STAGE,…", help="all but these; 'lab' means everything that needs the machine")
    parser.add_argument("--list", action="store_true", help="say what the stages are, and run none")
    parser.add_argument("--verbose", action="store_true", help="show the output of every stage as it comes")
    parser.add_argument("--keep", action="store_true", help="leave the machine up")
    return parser.parse_args(argv)


def choose(stages: Sequence[Stage], only: str, skip: str, everything: bool) -> list[Stage]:
    """The stages to run, in their own order; ValueError names a stage that does not exist and its nearest."""
    known = [stage.name for stage in stages]

    def names(text: str, *more: str) -> set[str]:
        asked = {name.strip() for name in text.split(",") if name.strip()}
        for name in sorted(asked.difference(known, more)):
            near = difflib.get_close_matches(name, [*known, *more], 3) or known
            raise ValueError(f"no stage '{name}'; nearest: {', '.join(near)}")
        return asked

    wanted, unwanted = names(only, "lab"), names(skip, "lab")

    def chosen(stage: Stage) -> bool:
        if stage.name in unwanted or (stage.lab and "lab" in unwanted):
            return False
        if wanted:
            return stage.name in wanted or (stage.lab and "lab" in wanted and (everything or not stage.long))
        return everything or not stage.long

    picked = [stage for stage in stages if chosen(stage)]
    if any(stage.lab for stage in picked):
        # The others are of no use without these two.
        picked = [stage for stage in stages if stage in picked or stage.name in ("lab-image", "lab-up")]
    return picked


def environment(places: Places, everything: bool) -> dict[str, str]:
    """What every command of every stage gets."""
    env = dict(os.environ)
    for name in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "ANSIBLE_CONFIG"):
        env.pop(name, None)
    env["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), env.get("PATH", os.defpath)))
    env["PLUMBLINE_CACHE"] = str(places.cache)
    env["ANSIBLE_COLLECTIONS_PATH"] = str(places.root / "playbooks" / "collections")
    env["ANSIBLE_NOCOLOR"] = env["NO_COLOR"] = "1"
    env["PY_COLORS"] = "0"
    env["LC_ALL"] = "C.UTF-8"
    if everything:
        env["PLUMBLINE_ALL"] = "1"
    return env


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it started: politely, then not."""
    for number, patience in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            return


def run_command(command: Command, env: dict[str, str], log: IO[bytes] | None, deadline: float) -> None:
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
    process = subprocess.Popen(
        command.argv,
        cwd=command.cwd,
        env={**env, **command.env},
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT if log is not None else None,
        start_new_session=True,
    )
    try:
        process.wait(max(1.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        end_group(process)
        raise StageFailed(f"not done in time: {line}") from None
    except BaseException:
        end_group(process)
        raise
    if process.returncode != 0:
        raise StageFailed(f"exit status {process.returncode}: {line}")


def run_stage(stage: Stage, env: dict[str, str], log_path: Path, verbose: bool) -> Result:
    """Run a stage's commands until one fails."""
    began = time.monotonic()
    error: str | None = None
    try:
        with log_path.open("wb") as log:
            for command in stage.commands():
                run_command(command, env, None if verbose else log, began + stage.minutes * 60)
    except (StageFailed, OSError) as failure:
        error = str(failure)
    return Result(stage, time.monotonic() - began, error)


def show_log(path: Path) -> None:
    """Print the end of a failed stage's output."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) > LOG_LINES_SHOWN:
        print(f"    … {len(lines) - LOG_LINES_SHOWN} lines before these are in {path}")
    for line in lines[-LOG_LINES_SHOWN:]:
        print(f"    {line}")


def run_all(stages: Sequence[Stage], env: dict[str, str], logs: Path, verbose: bool) -> tuple[list[Result], list[Stage]]:
    """All results, and the stages that could not be tried because the machine is not there."""
    results: list[Result] = []
    not_run: list[Stage] = []
    machine = True
    for number, stage in enumerate(stages, 1):
        if stage.lab and not machine:
            not_run.append(stage)
            continue
        label = f"[{number:2}/{len(stages)}] {stage.name:<22}"
        print(f"{label} {stage.does}" if verbose else label, end="\n" if verbose else " ", flush=True)
        log_path = logs / f"{stage.name}.log"
        result = run_stage(stage, env, log_path, verbose)
        results.append(result)
        outcome = "passed" if result.error is None else "FAILED"
        print(f"{label if verbose else ''}{' ' if verbose else ''}{outcome} {result.seconds:7.1f} s", flush=True)
        if result.error is not None:
            if not verbose:
                show_log(log_path)
            print(f"    {result.error}", flush=True)
            if stage.name in ("lab-image", "lab-up"):
                machine = False
    return results, not_run


def summary(results: Sequence[Result], not_run: Sequence[Stage], seconds: float) -> int:
    """Print the summary; its last line stands alone. Return the exit status."""
    failed = [result for result in results if result.error is not None]
    print()
    for result in failed:
        print(f"failed: {result.stage.name}: {result.error}")
    for stage in not_run:
        print(f"not run: {stage.name}: there is no machine")
    print(f"{len(results)} stages in {seconds / 60:.1f} min")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed", flush=True)
    return 1 if failed or not_run or not results else 0


def hold_the_lab(cache: Path) -> IO[str]:
    """There is one machine per cache directory; two suites in it would replace each other's disks."""
    lock = (cache / "suite.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"waiting for another run that uses the machine of {cache} …", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def lab_down(places: Places, env: dict[str, str]) -> None:
    """Stop the machine whatever happened before."""
    lab = places.root / "molecule/lab/lab.py"
    done = subprocess.run([sys.executable, str(lab), "down"], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        print(f"lab down ended with {done.returncode}: {done.stderr.strip()[-500:]}", flush=True)


KEPT_LOGS = 10  # of the newest runs, those that passed as well: their times are in them


def _terminated(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def main(argv: Sequence[str]) -> int:
    """Exit status 0 where every stage passed, 1 where one did not, 2 for a wrong option, 130 if interrupted."""
    asked = arguments(argv)
    root = Path(__file__).resolve().parents[2]
    cache = Path(os.environ.get("PLUMBLINE_CACHE") or Path.home() / ".cache" / "plumbline").resolve()
    logs = cache / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    signal.signal(signal.SIGTERM, _terminated)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="plumbline-test-") as name:
        scratch = Path(name)
        collections = scratch / "collections"
        places = Places(root, collections, collections / "ansible_collections" / "plumbline" / "ssd", scratch, cache)
        stages = [*static_stages(places), *lab_stages(places)]
        try:
            chosen = choose(stages, asked.only, asked.skip, asked.all)
        except ValueError as error:
            print(f"plumbline: test: {error}", file=sys.stderr)
            return 2
        if asked.list:
            for stage in chosen:
                print(f"{stage.name:<22} {stage.does}{' (long)' if stage.long else ''}")
            return 0
        logs.mkdir(parents=True, exist_ok=True)
        stage_files(root, collections)
        left_out = untracked(root)
        if left_out:
            print(f"note: {len(left_out)} files are not known to git and not tested, {left_out[0]} among them")
        env = environment(places, asked.all)
        uses_lab = any(stage.lab for stage in chosen)
        lock = hold_the_lab(cache) if uses_lab else None
        try:
            results, not_run = run_all(chosen, env, logs, asked.verbose)
        except KeyboardInterrupt:
            print("\ninterrupted", flush=True)
            return 130
        finally:
            if uses_lab and not asked.keep:
                lab_down(places, env)
            if lock is not None:
                lock.close()
    for old in sorted(logs.parent.iterdir())[:-KEPT_LOGS]:
        shutil.rmtree(old, ignore_errors=True)
    return summary(results, not_run, time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
