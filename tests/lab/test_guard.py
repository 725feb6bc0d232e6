# SPDX-License-Identifier: GPL-3.0-or-later
"""The harness runs nothing on a machine that is not marked as the lab's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

KIT = Path(__file__).resolve().parent / "labkit"
UNMARKED = not Path("/etc/plumbline-lab").exists()


@pytest.mark.skipif(not UNMARKED, reason="this machine is a lab itself")
@pytest.mark.parametrize("argv", [(sys.executable, KIT / "guest_server.py"), ("bash", KIT / "clean.sh", "all", "/dev/null")], ids=["server", "clean"])
def test_it_refuses_a_machine_without_the_mark(argv: tuple[str | Path, ...]) -> None:
    done = subprocess.run(argv, input='{"command": "true"}\n', capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 3
    assert "/etc/plumbline-lab is missing" in done.stderr
    assert done.stdout == ""
