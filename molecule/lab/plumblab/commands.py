# SPDX-License-Identifier: GPL-3.0-or-later
"""Running host programs: argument lists, no shell, and an error that says what failed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from .errors import LabError


def run(argv: Sequence[str | Path], stdin: str | None = None, timeout_seconds: float = 600, cwd: Path | None = None) -> str:
    """Standard output of a program that has to succeed."""
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
            cwd=cwd,
        )
    except FileNotFoundError as error:
        raise LabError(f"{words[0]} is not installed; run: lab.py packages --install") from error
    except subprocess.TimeoutExpired as error:
        raise LabError(f"{words[0]} did not end within {timeout_seconds:.0f} s: {' '.join(words)}") from error
    if done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-25:])
        raise LabError(f"{words[0]} ended with {done.returncode}: {' '.join(words)}\n{tail}")
    return done.stdout
