# SPDX-License-Identifier: GPL-3.0-or-later
"""Reaching the guest: the SSH configuration, commands, and waiting for it to answer."""

from __future__ import annotations

import socket
import subprocess
import time

from .errors import LabError
from .paths import ALIAS, Paths
from .process import last_words, running_pid

_HOPELESS = ("Kernel panic", "You are in emergency mode", "Cannot open root device", "Gave up waiting for root")


def ssh_config_text(paths: Paths, port: int) -> str:
    """An ssh_config(5) that reaches the guest by its alias."""
    return "\n".join(
        (
            f"Host {ALIAS}",
            "  HostName 127.0.0.1",
            f"  Port {port}",
            "  User root",
            f"  IdentityFile {paths.key}",
            "  IdentitiesOnly yes",
            "  StrictHostKeyChecking accept-new",
            f"  UserKnownHostsFile {paths.known_hosts}",
            "  GlobalKnownHostsFile /dev/null",
            "  LogLevel ERROR",
            "  ConnectTimeout 20",
            "  ServerAliveInterval 10",
            "  ServerAliveCountMax 6",
            "  ControlMaster auto",
            f"  ControlPath {paths.ssh_control}",
            "  ControlPersist 30m",
            "",
        )
    )


def free_port() -> int:
    """A loopback TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def ssh_words(paths: Paths) -> list[str]:
    """The beginning of every ssh command line."""
    return ["ssh", "-F", str(paths.ssh_config), ALIAS]


def execute(paths: Paths, command: str, stdin: str = "", timeout_seconds: float = 180) -> str:
    """Standard output of a shell command in the guest that has to succeed."""
    try:
        done = subprocess.run([*ssh_words(paths), command], input=stdin, capture_output=True, text=True, timeout=timeout_seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"the guest did not finish within {timeout_seconds:.0f} s: {command[:200]}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()
        raise LabError(f"in the guest, {command[:200]!r} ended with {done.returncode}: {said[-2000:]}")
    return done.stdout


def script(paths: Paths, text: str, *arguments: str, timeout_seconds: float = 180) -> str:
    """The output of a shell script that is handed to the guest; one round trip."""
    quoted = " ".join("'" + argument.replace("'", "'\\''") + "'" for argument in arguments)
    return execute(paths, f"sh -s -- {quoted}", stdin=text, timeout_seconds=timeout_seconds)


def forget_connection(paths: Paths) -> None:
    """End the shared connection; it points at a machine that is gone."""
    if paths.ssh_control.exists():
        subprocess.run(
            ["ssh", "-F", str(paths.ssh_config), "-O", "exit", ALIAS],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, timeout=20,
        )  # fmt: skip
        paths.ssh_control.unlink(missing_ok=True)


def answers(port: int, timeout_seconds: float = 2.0) -> bool:
    """Whether an SSH server speaks there; QEMU accepts the connection long before."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_seconds) as connection:
            connection.settimeout(timeout_seconds)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def console_tail(paths: Paths, lines: int = 40) -> str:
    """The console's last lines."""
    try:
        text = paths.console.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return "(no console output)"
    return "\n".join(text.replace("\r", "").splitlines()[-lines:]) or "(no console output)"


def wait_up(paths: Paths, port: int, timeout_seconds: float) -> float:
    """Wait until the guest lets us in; the seconds it took. LabError says why not, with the console."""
    begin = time.monotonic()
    while True:
        if answers(port):
            execute(paths, "test -e /etc/plumbline-lab", timeout_seconds=180)
            return time.monotonic() - begin
        if running_pid(paths) is None:
            raise LabError(f"QEMU ended while the guest booted: {last_words(paths)}\nits console:\n{console_tail(paths)}")
        tail = console_tail(paths)
        for sign in _HOPELESS:
            if sign in tail:
                raise LabError(f"the guest does not boot ({sign}); its console:\n{tail}")
        if time.monotonic() - begin > timeout_seconds:
            raise LabError(f"the guest does not answer on SSH after {timeout_seconds:.0f} s; its console:\n{tail}")
        time.sleep(0.3)
