# SPDX-License-Identifier: GPL-3.0-or-later
"""Tools that must not outlive the module that runs them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core import run_bound_tools
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError


class Module:
    """What a runner asks of AnsibleModule."""

    def get_bin_path(self, name):
        return shutil.which(name)


def test_what_a_tool_says():
    assert run_bound_tools.bound_runner(Module(), 10)(["sh", "-c", "echo $LC_ALL; echo no >&2; exit 3"]) == (3, "C\n", "no\n")


def test_a_tool_that_is_missing():
    with pytest.raises(PlumblineError, match="no-such-tool is not on this host; install the package no-such-tool"):
        run_bound_tools.bound_runner(Module(), 10)(["no-such-tool"])


def test_a_tool_that_takes_too_long():
    began = time.monotonic()
    with pytest.raises(PlumblineError, match="sleep did not end within 0 s"):
        run_bound_tools.bound_runner(Module(), 0.3)(["sleep", "60"])
    assert time.monotonic() - began < 20


def test_tools_that_run_together_do_not_outlive_their_time(tmp_path):
    said = tmp_path / "pid"
    late, (code, out, _err) = run_bound_tools.run_together([["sh", "-c", "echo $$ > %s; exec sleep 90" % said], ["sh", "-c", "echo $LC_ALL; exit 3"]], 10)
    assert late is None and (code, out) == (3, "C\n")
    assert not _alive(int(said.read_text()))


def test_tools_together_of_which_one_is_missing():
    """The others are run."""
    found = run_bound_tools.run_together([["/no/such/tool"], ["sh", "-c", "echo a"]], 10)
    assert found == [(127, "", "/no/such/tool could not be run: No such file or directory"), (0, "a\n", "")]


PARENT = """
import shutil, sys
from ansible_collections.plumbline.ssd.plugins.module_utils._core import run_bound_tools
class Module:
    get_bin_path = staticmethod(shutil.which)
run_bound_tools.bound_runner(Module(), 100)(["sh", "-c", "echo $$ > %s; exec sleep 90"])
"""


def test_a_tool_dies_with_its_module(tmp_path):
    said = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-c", PARENT % said], env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))) as parent:
        deadline = time.monotonic() + 30
        while not (said.exists() and said.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        child = int(said.read_text())
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and _alive(child):
        time.sleep(0.02)
    assert not _alive(child)


def _alive(pid):
    """Whether a process runs; a zombie that nobody has waited for does not."""
    try:
        with open("/proc/%d/stat" % pid, encoding="ascii") as handle:
            return handle.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
