# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python that root runs later is one that nobody else can exchange."""

from __future__ import annotations

import os
import sys

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import interpreter
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

STRANGER = 61001
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="wants two users")


@pytest.fixture
def python(tmp_path, monkeypatch):
    """A Python of root's in a folder of root's, with a link to it as Debian has it."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin/python3.11").write_text("")
    os.chmod(str(tmp_path / "bin/python3.11"), 0o755)
    os.symlink("python3.11", str(tmp_path / "bin/python3"))
    monkeypatch.setattr(sys, "_base_executable", str(tmp_path / "bin/python3"), raising=False)
    monkeypatch.setattr(os, "__file__", str(tmp_path / "lib/os.py"))
    return tmp_path


def test_one_of_root_is_taken_without_the_hosts_packages(python):
    assert interpreter.root_interpreter("it") == (str(python / "bin/python3"), "-I", "-S")


def test_of_a_virtual_environment_the_python_behind_it_is_taken(python, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/home/deploy/venv/bin/python3")
    assert interpreter.root_interpreter("it")[0] == str(python / "bin/python3")


@pytest.mark.parametrize(
    ("path", "owner", "mode", "told"),
    [
        ("bin", STRANGER, 0o755, "bin/python3 is in no folder of root's alone"),
        ("bin", 0, 0o775, "bin/python3 is in no folder of root's alone"),
        ("bin/python3.11", STRANGER, 0o755, "bin/python3 belongs to user 61001"),
        ("bin/python3.11", 0, 0o775, "bin/python3 has the mode 0775"),
        ("lib", STRANGER, 0o755, "lib is no folder of root's alone"),
        ("lib", 0, 0o775, "lib is no folder of root's alone"),
        (".", STRANGER, 0o755, ""),
        (".", 0, 0o777, ""),
    ],
)
def test_one_that_others_can_exchange_is_refused(python, path, owner, mode, told):
    os.chown(str(python / path), owner, owner)
    os.chmod(str(python / path), mode)
    with pytest.raises(PlumblineError, match=r"the Python for the monitor, which root runs, can be exchanged by others: .*%s.*; nothing was written\." % told):
        interpreter.root_interpreter("the monitor")


def test_one_that_is_gone_is_refused(python):
    (python / "bin/python3.11").unlink()
    with pytest.raises(PlumblineError, match="No such file"):
        interpreter.root_interpreter("it")
