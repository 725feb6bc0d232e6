# SPDX-License-Identifier: GPL-3.0-or-later
"""Starts, watches and stops simulated SSDs: one nbdkit process each, with a socket for NBD and one for control."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

SOURCES = Path(__file__).resolve().parent
# As many requests as are under way at once; more of them wait inside nbdkit.
THREADS = 64
SOCKET_PATH_BYTES = 107
START_SECONDS = 10.0
STOP_SECONDS = 10.0

Value = str | int | float


class SimSSDError(Exception):
    """Says what was found, what was wanted, and what to do."""


@dataclass(frozen=True)
class SimSSD:
    """One simulated SSD. All its files are run_dir/name.*; the object holds no process, so any number of them may be open."""

    run_dir: Path
    name: str
    size_bytes: int
    parameters: Mapping[str, Value]

    @classmethod
    def start(cls, run_dir: Path, name: str, size_bytes: int, parameters: Mapping[str, Value] | None = None, *, fresh: bool = False) -> SimSSD:
        """Starts nbdkit in the background. What an earlier run left in the backing file is kept, unless `fresh`."""
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise SimSSDError(f"{name!r}: a name is made of letters, digits, dot, dash and underscore")
        own = {"size", "control"} & set(parameters or {})
        if own:
            raise SimSSDError(f"{', '.join(sorted(own))}: not a parameter here; size_bytes and the name settle it")
        ssd = cls(run_dir.resolve(), name, size_bytes, dict(parameters or {}))
        ssd._launch(fresh)
        return ssd

    @classmethod
    def open(cls, run_dir: Path, name: str) -> SimSSD:
        """An SSD that was started before, running or not."""
        record = run_dir.resolve() / f"{name}.json"
        try:
            known = json.loads(record.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise SimSSDError(f"{record} does not exist: no simulated SSD {name!r} was started there") from error
        return cls(run_dir.resolve(), name, known["size_bytes"], known["parameters"])

    @property
    def socket(self) -> Path:
        """For nbd:unix:PATH, or QEMU's server.type=unix,server.path=PATH."""
        return self.run_dir / f"{self.name}.nbd"

    @property
    def control(self) -> Path:
        return self.run_dir / f"{self.name}.ctl"

    @property
    def file(self) -> Path:
        """The backing file: what the medium holds."""
        return Path(str(self.parameters.get("file", self.run_dir / f"{self.name}.img")))

    @property
    def side_file(self) -> Path:
        """With `op`: the state of the flash translation layer."""
        return self.file.with_name(f"{self.file.name}.ftl")

    @property
    def pid_file(self) -> Path:
        return self.run_dir / f"{self.name}.pid"

    @property
    def log(self) -> Path:
        return self.run_dir / f"{self.name}.log"

    @property
    def pid(self) -> int | None:
        """The running process, or None. A pid that now belongs to another process is not ours."""
        try:
            pid = int(self.pid_file.read_text(encoding="utf-8"))
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, ValueError):
            return None
        return pid if os.fsencode(self.socket) in words else None

    def counters(self, window: bool = True) -> dict[str, int]:
        """Since the last reset(), or since the start."""
        return cast(dict[str, int], self.command("counters")["counters"]["window" if window else "total"])

    def smart(self) -> dict[str, int | float]:
        """What the flash translation layer went through since the drive was new; only with `op`."""
        return cast(dict[str, int | float], self.command("smart")["smart"])

    def reset(self) -> None:
        self.command("reset")

    def settings(self) -> dict[str, Value]:
        return cast(dict[str, Value], self.command("settings")["settings"])

    def set(self, key: str, value: Value) -> None:
        """Changes a parameter of the running device; page_phase and write_cache=0 write the cache out first."""
        self.command(f"set {key} {value}")

    def copy(self, path: Path) -> dict[str, int]:
        """What a power cut at this instant would leave, into a new sparse file; the device goes on. Whatever it had answered before is in it.

        Returns the `bytes` that are not holes, and for how many nanoseconds requests were held up (`held_ns`).
        """
        answer = self.command(f"copy {path.absolute()}")
        return {key: int(answer[key]) for key in ("bytes", "held_ns")}

    def power_cut(self) -> dict[str, int]:
        """Loses the volatile cache, then the process. Returns the last counters, totals."""
        self.command("power_cut")
        last = self.counters(window=False)
        self._kill()
        return last

    def power_on(self) -> None:
        """Starts again, with what the medium held."""
        self._launch(fresh=False)

    def stop(self) -> None:
        """An orderly end: the cache is written out first. Nothing happens if it does not run."""
        if self.pid is not None:
            self.command("power_off")
        # nbdkit heeds SIGTERM only when its last client has gone, and QEMU stays. Nothing is left to lose here.
        self._kill()

    def command(self, line: str) -> dict[str, Any]:
        """One line to the control socket; its answer, which is `ok`."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(60)
                client.connect(str(self.control))
                client.sendall(line.encode() + b"\n")
                with client.makefile("r", encoding="utf-8") as answers:
                    answer = json.loads(answers.readline() or "{}")
        except OSError as error:
            raise SimSSDError(f"{self.name}: no answer on {self.control} ({error}); is it running?") from error
        if not answer.get("ok"):
            raise SimSSDError(f"{self.name}: {line}: {answer.get('error', 'the connection was closed')}")
        return cast(dict[str, Any], answer)

    def _launch(self, fresh: bool) -> None:
        for path in (self.socket, self.control):
            if len(os.fsencode(path)) > SOCKET_PATH_BYTES:
                raise SimSSDError(f"{path} is longer than a unix socket's path can be ({SOCKET_PATH_BYTES} bytes): use a shorter run_dir")
        if (pid := self.pid) is not None:
            raise SimSSDError(f"{self.name} is running in {self.run_dir} (pid {pid}): stop it first")
        self.run_dir.mkdir(parents=True, exist_ok=True)
        # Sockets are left by a process that was killed; nbdkit does not bind over them.
        for stale in (self.socket, self.pid_file, *([self.file, self.side_file] if fresh else [])):
            stale.unlink(missing_ok=True)
        record = {"size_bytes": self.size_bytes, "parameters": dict(self.parameters)}
        self._run_nbdkit(build())
        (self.run_dir / f"{self.name}.json").write_text(json.dumps(record), encoding="utf-8")
        self._await_answer()

    def _run_nbdkit(self, plugin: Path) -> None:
        words = {"file": self.file, **self.parameters, "size": self.size_bytes, "control": self.control}
        argv = ["nbdkit", "--unix", str(self.socket), "--pidfile", str(self.pid_file), "--threads", str(THREADS), str(plugin)]
        argv += [f"{key}={value}" for key, value in words.items()]
        try:
            # To a file, not a pipe: the process in the background would hold the pipe open. In a session of its own, or it
            # would end with the terminal. Without --foreground nbdkit goes to the background by itself.
            with self.log.open("w", encoding="utf-8") as log:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, timeout=60, check=False)
        except FileNotFoundError as error:
            raise SimSSDError("nbdkit is not installed; it is in the package nbdkit") from error
        if done.returncode != 0:
            said = self.log.read_text(encoding="utf-8").strip().splitlines()
            raise SimSSDError(f"{self.name} did not start: {said[-1] if said else f'nbdkit ended with {done.returncode}'}")

    def _await_answer(self) -> None:
        """nbdkit's first process ends before the second has written its pid."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if self.pid is not None and self.command("counters"):
                    return
            except SimSSDError:
                pass
            if time.monotonic() > deadline:
                raise SimSSDError(f"{self.name} did not answer on {self.control} within {START_SECONDS:.0f} s; see {self.log}")
            time.sleep(0.005)

    def _kill(self) -> None:
        """Returns when the process has let go of its files, which is later than when /proc has forgotten its command line."""
        if (pid := self.pid) is not None:
            process = os.pidfd_open(pid)
            try:
                if self.pid == pid:  # and not another that got its number before it was held
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                if not select.select([process], [], [], STOP_SECONDS)[0]:
                    raise SimSSDError(f"{self.name} (pid {pid}) did not end within {STOP_SECONDS:.0f} s of SIGKILL")
            finally:
                os.close(process)
        for left in (self.socket, self.control, self.pid_file):
            left.unlink(missing_ok=True)


def build() -> Path:
    """The plugin for exactly these sources, compiled once per machine."""
    cache = Path(os.environ.get("PLUMBLINE_CACHE") or Path.home() / ".cache" / "plumbline").resolve() / "simssd"
    plugin = cache / _sources_digest() / "simssd.so"
    if plugin.exists():
        return plugin
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / "lock"):
        if not plugin.exists():
            _compile(plugin)
    return plugin


def _sources_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted([*SOURCES.glob("*.c"), *SOURCES.glob("*.h"), SOURCES / "Makefile"]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _compile(plugin: Path) -> None:
    """Aside first, so that a build that was interrupted is never found."""
    aside = Path(tempfile.mkdtemp(prefix="build-", dir=plugin.parent.parent))
    try:
        done = subprocess.run(["make", "--directory", str(SOURCES), f"BUILD={aside}"], capture_output=True, text=True, timeout=300, check=False)
        if done.returncode != 0:
            raise SimSSDError(f"the plugin did not build (packages gcc, make, libc6-dev, nbdkit-plugin-dev):\n{done.stderr[-3000:]}")
        shutil.rmtree(plugin.parent, ignore_errors=True)
        aside.rename(plugin.parent)
    except FileNotFoundError as error:
        raise SimSSDError("make is not installed; it is in the package make") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
