# SPDX-License-Identifier: GPL-3.0-or-later
"""Whoever can hold a lock of LVM is found before LVM waits for it."""

from __future__ import annotations

import os

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_disks, read_lvm_locks
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host

STRANGER = 61001
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="wants two users")


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """/run/lock as on Debian, and root's folder in it with one lock."""
    above = tmp_path / "lock"
    above.mkdir()
    os.chmod(str(above), 0o1777)
    (above / "lvm").mkdir(mode=0o700)
    (above / "lvm/V_data").write_text("")
    monkeypatch.setattr(read_lvm_locks, "FOLDER", str(above / "lvm"))
    return above / "lvm"


def never_called(argv):
    raise AssertionError("LVM would wait for ever: %s" % argv)


def read(locks, **tools):
    host = Host()
    host.seen.tools = tools
    read_disks.read_lvm(never_called, host.seen)


def test_locks_of_root_are_taken(locks):
    read(locks)
    (locks / "V_data").unlink()
    locks.rmdir()
    read(locks)


def test_a_lock_that_goes_meanwhile_is_none(locks, monkeypatch):
    monkeypatch.setattr(read_lvm_locks.os, "listdir", lambda _fd: ["V_data", "V_gone"])
    read(locks)


@pytest.mark.parametrize("tools", [{"lvm": "/sbin/lvm"}, {}], ids=["installed", "before"])
@pytest.mark.parametrize("what", ["lock", "link", "folder", "mode", "file"])
def test_what_another_user_made_is_refused(locks, what, tools):
    if what == "lock":  # made in a folder that systemd-tmpfiles gave to root behind it
        (locks / "P_global").write_text("")
        os.chown(str(locks / "P_global"), STRANGER, STRANGER)
    elif what == "link":
        os.symlink("/etc/passwd", str(locks / "P_global"))
        os.chown(str(locks / "P_global"), STRANGER, STRANGER, follow_symlinks=False)
    elif what == "folder":
        os.chown(str(locks), STRANGER, STRANGER)
    elif what == "mode":
        os.chmod(str(locks), 0o777)
    else:
        (locks / "V_data").unlink()
        locks.rmdir()
        locks.write_text("")
    with pytest.raises(PlumblineError, match=r"\[locks\]; wanted root's alone; nothing was written. Find out who made it, and remove it: rm -r "):
        read(locks, **tools)
