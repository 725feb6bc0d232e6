# SPDX-License-Identifier: GPL-3.0-or-later
"""Run the stages of stages.py, a line for each as it has ended, then a summary. Called by ./plumbline test."""

from __future__ import annotations

import argparse
import difflib
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import IO

from affected import Affected, Uses, affected, changed_files
from counts import Counts
from schedule import Machine, Result, Run, Runner, run_all
from shares import Shares
from stages import ALL, FULL, LEVELS, QUICK, Chosen, Places, Stage, lab_stages, static_stages
from staging import stage as stage_files
from staging import tracked, untracked

LOG_LINES_SHOWN = 200
SET_UP = ("lab-image", "lab-up")  # without these the other lab stages are of no use
SUITES = ("bookworm", "trixie")
MACHINES = 2  # more of them than processors are no gain


def part(text: str) -> tuple[int, int]:
    """``2/4`` as numbers."""
    number, _slash, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"'{text}'; wanted a part and the number of parts, such as 2/4")
    return int(number), int(of)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the options of ./plumbline test."""
    parser = argparse.ArgumentParser(prog="./plumbline test", description="Run the test suite, one line per stage.")
    parser.add_argument("--full", action="store_true", help="what CI runs; without it, what a contributor waits for")
    parser.add_argument("--all", action="store_true", help="everything, the long tests as well, on both Debian releases")
    parser.add_argument("--part", type=part, metavar="K/N", help="with --all: the K-th of N pieces")
    parser.add_argument("--changed", nargs="?", const="HEAD", metavar="REVISION", help="of --full, what the change since a revision (HEAD) can affect")
    parser.add_argument("--only", default="", metavar="STAGE,…", help="these stages; lab stages bring the machine up first")
    parser.add_argument("--skip", default="", metavar="STAGE,…", help="all but these; 'lab' means everything that needs the machine")
    parser.add_argument("--machines", type=int, choices=range(1, MACHINES + 1), default=MACHINES, help=f"how many machines run side by side ({MACHINES})")
    parser.add_argument("--list", action="store_true", help="say what the stages are, and run none")
    parser.add_argument("--suite", choices=SUITES, help=f"the Debian release in all machines; without it {SUITES[0]}, with --full one of each")
    parser.add_argument("--verbose", action="store_true", help="show the output of every stage as it comes, one stage at a time")
    parser.add_argument("--keep", action="store_true", help="leave the machines up")
    asked = parser.parse_args(argv)
    if asked.part and not asked.all:
        parser.error("--part is for the pieces of --all")
    return asked


def level_of(asked: argparse.Namespace) -> str:
    """How much is run."""
    return ALL if asked.all else FULL if asked.full or asked.changed is not None else QUICK


def suites_of(asked: argparse.Namespace) -> list[str]:
    """The Debian release of each machine."""
    other = asked.suite or (SUITES[0] if level_of(asked) == QUICK else SUITES[1])
    return [asked.suite or SUITES[0], other][: asked.machines]


def choose(stages: Sequence[Stage], only: str, skip: str, level: str) -> list[Stage]:
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
            return stage.name in wanted or (stage.lab and "lab" in wanted and level in stage.levels)
        return level in stage.levels

    picked = [stage for stage in stages if chosen(stage)]
    if any(stage.lab for stage in picked):
        picked = [stage for stage in stages if stage in picked or stage.name in SET_UP]
    return picked


def environment(places: Places, asked: argparse.Namespace) -> dict[str, str]:
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
    env.pop("PLUMBLINE_SUITE", None)  # each machine says its own
    if asked.all:
        env["PLUMBLINE_ALL"] = "1"
    if asked.changed is not None:
        env["PLUMBLINE_CHANGED"] = "1"
    if asked.part:
        env["PLUMBLINE_PART"] = "{}/{}".format(*asked.part)
    return env


def show_log(path: Path) -> None:
    """Print the end of a failed stage's output."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    if len(lines) > LOG_LINES_SHOWN:
        print(f"    … {len(lines) - LOG_LINES_SHOWN} lines before these are in {path}")
    for line in lines[-LOG_LINES_SHOWN:]:
        print(f"    {line}")


class Teller:
    """Prints a line for each stage as it has ended."""

    def __init__(self, stages: int, runner: Runner, verbose: bool) -> None:
        self._stages, self._runner, self._verbose, self._ended = stages, runner, verbose, 0

    def __call__(self, result: Result) -> None:
        self._ended += 1
        outcome = "passed" if result.error is None else "FAILED"
        print(f"[{self._ended:2}/{self._stages}] {result.stage.name:<22} {outcome} {result.seconds:7.1f} s   {result.counts}", flush=True)
        if result.error is not None:
            if not self._verbose:
                show_log(self._runner.log_of(result.stage))
            print(f"    {result.error}", flush=True)


def summary(run: Run, seconds: float) -> int:
    """Print the summary; its last line stands alone. Return the exit status."""
    failed = [result for result in run.results if result.error is not None]
    counts = sum((result.counts for result in run.results), Counts())
    print()
    for result in failed:
        print(f"failed: {result.stage.name}: {result.error}")
    for stage in run.not_run:
        print(f"not run: {stage.name}: {' or '.join(sorted(stage.after))} did not pass")
    print(f"{len(run.results)} stages in {seconds / 60:.1f} min, {len(failed)} of them failed; a stage without tests of its own counts as one test")
    print(counts, flush=True)
    return 1 if failed or run.not_run or not run.results else 0


def cut(stages: Sequence[Stage], number: int, of: int) -> list[Stage]:
    """The stages of one of several parts: those that share their tests out are in each, what sets up too, and the others are dealt in turn."""
    dealt = [stage for stage in stages if not stage.shared_out and stage.name not in SET_UP]
    own = dealt[number - 1 :: of]
    return [stage for stage in stages if stage in own or stage not in dealt]


def hold_the_lab(cache: Path) -> IO[str]:
    """There is one machine per cache directory; two suites in it would replace each other's disks."""
    lock = (cache / "suite.lock").open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        print(f"waiting for another run that uses the machine of {cache} …", flush=True)
        fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def caches_of(cache: Path, machines: int) -> list[Path]:
    """The cache directory of each machine. A further machine has one of its own for its disks, and shares image, key and compiled parts by links."""
    found = [cache]
    for number in range(2, machines + 1):
        own = cache / f"machine-{number}"
        own.mkdir(exist_ok=True)
        for name in ("image", "ssh", "simssd", "qemu"):
            (cache / name).mkdir(exist_ok=True, mode=0o700 if name == "ssh" else 0o755)
            if not (own / name).is_symlink():
                (own / name).symlink_to(Path("..") / name)
        found.append(own)
    return found


def lab_down(root: Path, cache: Path, env: dict[str, str]) -> None:
    """Stop a machine whatever happened before."""
    words = [sys.executable, str(root / "molecule/lab/lab.py"), "down"]
    own = {**env, "PLUMBLINE_CACHE": str(cache)}
    done = subprocess.run(words, env=own, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode != 0:
        print(f"lab down ended with {done.returncode}: {done.stderr.strip()[-500:]}", flush=True)


KEPT_LOGS = 10  # of the newest runs, those that passed as well: their times are in them


def _terminated(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def effect_of_change(root: Path, revision: str) -> Affected:
    """What can be affected since a revision; ValueError where git does not know it."""
    changed = changed_files(root, revision)
    uses = Uses(root, [name for name in tracked(root) + untracked(root) if (root / name).is_file()])
    return affected(uses, changed)


def stages_of(places: Places, asked: argparse.Namespace) -> list[Stage]:
    """The stages that are asked for; ValueError where something asked for is not there."""
    chosen, effect = Chosen(), None
    if asked.changed is not None:
        effect = effect_of_change(places.root, asked.changed)
        print("\n".join(effect.why) or f"nothing has changed since {asked.changed}", flush=True)
        if not effect.everything:
            chosen = Chosen(effect.unit_tests(), effect.lab_tests(), [name for name in effect.changed if (places.root / name).is_file()])
    stages = [*static_stages(places, chosen), *lab_stages(places, suites_of(asked), chosen, Shares.read(), level_of(asked))]
    stages.sort(key=lambda stage: stage.name not in SET_UP)  # what takes longest waits for them
    if effect is not None:
        stages = [stage for stage in stages if stage.name in SET_UP or effect.wants(stage.name, stage.lab)]
        if not any(stage.lab for stage in stages if stage.name not in SET_UP):
            stages = [stage for stage in stages if not stage.lab]
    if not asked.list or asked.only or asked.skip:
        stages = choose(stages, asked.only, asked.skip, level_of(asked))
    return cut(stages, *asked.part) if asked.part else stages


def run_stages(places: Places, asked: argparse.Namespace, stages: Sequence[Stage], logs: Path) -> int:
    """Run them, and put away what they used."""
    logs.mkdir(parents=True, exist_ok=True)
    stage_files(places.root, places.collections)
    left_out = untracked(places.root)
    if left_out:
        print(f"note: {len(left_out)} files are not known to git and not tested, {left_out[0]} among them")
    env = environment(places, asked)
    uses_lab = any(stage.lab for stage in stages)
    lock = hold_the_lab(places.cache) if uses_lab else None
    suites = suites_of(asked) if uses_lab else []
    caches = caches_of(places.cache, len(suites)) if suites else []
    machines = [Machine(cache, suite, partial(lab_down, places.root, cache, env)) for cache, suite in zip(caches, suites, strict=True)]
    runner = Runner(env, logs, asked.verbose)
    began = time.monotonic()
    try:
        run = run_all(stages, machines, runner, Teller(len(stages), runner, asked.verbose), one_at_a_time=asked.verbose)
    except KeyboardInterrupt:
        runner.stop()
        print("\ninterrupted", flush=True)
        return 130
    finally:
        if not asked.keep:
            for machine in machines:
                machine.stop()
        if lock is not None:
            lock.close()
    return summary(run, time.monotonic() - began)


def main(argv: Sequence[str]) -> int:
    """Exit status 0 where every stage passed, 1 where one did not, 2 for a wrong option, 130 if interrupted."""
    asked = arguments(argv)
    root = Path(__file__).resolve().parents[2]
    cache = Path(os.environ.get("PLUMBLINE_CACHE") or Path.home() / ".cache" / "plumbline").resolve()
    logs = cache / "logs" / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"
    signal.signal(signal.SIGTERM, _terminated)
    with tempfile.TemporaryDirectory(prefix="plumbline-test-") as name:
        scratch = Path(name)
        collections = scratch / "collections"
        places = Places(root, collections, collections / "ansible_collections" / "plumbline" / "ssd", scratch, cache)
        try:
            stages = stages_of(places, asked)
        except ValueError as error:
            print(f"plumbline: test: {error}", file=sys.stderr)
            return 2
        if asked.list:
            print(f"{'stage':<22} {'from':<6} what it does")
            for stage in stages:
                level = next(level for level in LEVELS if level in stage.levels)
                print(f"{stage.name:<22} {level:<6} {stage.does}{', alone' if stage.alone else ''}")
            return 0
        status = run_stages(places, asked, stages, logs)
    for old in sorted(logs.parent.iterdir())[:-KEPT_LOGS]:
        shutil.rmtree(old, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
