# SPDX-License-Identifier: GPL-3.0-or-later
"""The Debian packages that the host needs."""

from __future__ import annotations

import subprocess

from .commands import run
from .image import read_list
from .paths import LAB


def missing() -> list[str]:
    """Packages of host-packages.txt that dpkg does not know as installed."""
    wanted = read_list(LAB / "host-packages.txt")
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\\n", *wanted],
        capture_output=True, text=True, check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    installed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("installed ")}
    return [name for name in wanted if name not in installed]


def install(packages: list[str]) -> None:
    """Install packages with the host's own apt."""
    if packages:
        run(["apt-get", "update", "-qq"], timeout_seconds=300)
        run(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages], timeout_seconds=900)
