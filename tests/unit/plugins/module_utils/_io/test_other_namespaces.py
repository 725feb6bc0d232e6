# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount namespaces that any user can make: they cost root a bounded time, and hide nothing that root has mounted."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import time

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._io import sysfs

STRANGER = 61001
CLONE_NEWNS, CLONE_NEWUSER, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x10000000, 0x1000, 0x4000, 0x40000
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="wants two users")


@contextlib.contextmanager
def namespace(folder, mounts, user=STRANGER):
    """A process in a mount namespace of its own, with a folder mounted over itself so many times. Of a stranger it is in a user namespace as well."""
    libc = ctypes.CDLL(None, use_errno=True)
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            if user:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            made = libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user else 0)) == 0
            made = made and libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None) == 0
            made = made and all(libc.mount(folder, folder, None, MS_BIND, None) == 0 for _mount in range(mounts))
            os.write(tell, b"y" if made else b"n")
            signal.pause()
        finally:
            os._exit(1)
    try:
        if os.read(ready, 1) != b"y":
            pytest.skip("no mount namespaces for this user here")
        yield str(child)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)


@pytest.fixture
def folder(tmp_path):
    """A folder on a block device that everybody can enter."""
    above = tmp_path
    while str(above) not in ("/", "/tmp"):
        os.chmod(str(above), 0o755)
        above = above.parent
    if not any(mount.devno == sysfs.devno(os.stat(str(tmp_path)).st_dev) for mount in sysfs.read_mounts()):
        pytest.skip("the folder for temporary files is on no block device")
    return str(tmp_path).encode()


@needs_root
@pytest.mark.parametrize("user", [0, STRANGER], ids=["root", "stranger"])
def test_a_namespace_with_many_mounts_is_one_mount_of_its_device(folder, user):
    devno = sysfs.devno(os.stat(folder).st_dev)
    with namespace(folder, 200, user):
        mounts = sysfs.read_mounts()
    assert [mount.devno for mount in mounts if not mount.here].count(devno) == 1
    assert [mount for mount in mounts if mount.here] == [mount for mount in sysfs.read_mounts() if mount.here]


@needs_root
@pytest.mark.parametrize("user", [0, STRANGER], ids=["root", "stranger"])
def test_what_only_strangers_can_make_gets_so_much_time(folder, user, monkeypatch):
    """What root has made is read whole all the same: no user takes the time of it."""
    monkeypatch.setattr(sysfs, "STRANGERS_SECONDS", 0)
    opened = []
    real = sysfs.read_text
    monkeypatch.setattr(sysfs, "read_text", lambda path: opened.append(path) or real(path))
    with namespace(folder, 1, user) as process:
        sysfs.read_mounts()
    assert ("/proc/%s/mountinfo" % process in opened) == (user == 0)


def test_what_is_read_in_time_is_whole_lines(tmp_path, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock.__setitem__(0, clock[0] + 1) or clock[0])
    (tmp_path / "mountinfo").write_bytes(b"a line\n" * 20000)
    text, taken = sysfs._read_until(str(tmp_path / "mountinfo"), 2.5, 1 << 30)
    assert text and text == "a line\n" * (2 * 65536 // 7) and taken == 2 * 65536
    assert sysfs._read_until(str(tmp_path / "mountinfo"), 0, 1) == sysfs._read_until(str(tmp_path / "gone"), 9e9, 1) == ("", 0)


def test_no_line_of_a_stranger_is_long_and_all_are_so_many_bytes(tmp_path):
    """A path may be of any length; the kernel writes each blank in it as four bytes."""
    path = str(tmp_path / "mountinfo")
    (tmp_path / "mountinfo").write_bytes(b"first\n" + b"x" * (3 << 20) + b"\nsecond\n" + b"y" * (16 << 10) + b"\nno end")
    assert sysfs._read_until(path, 9e9, 1 << 30)[0] == "first\nsecond\n" + "y" * (16 << 10) + "\n"
    text, taken = sysfs._read_until(path, 9e9, 1 << 20)
    assert text == "first\n" and taken == 1 << 20


def test_strangers_share_the_bytes_and_their_paths_are_cut(monkeypatch):
    """Two of them, and the first has taken it all: the second is not read."""
    left = []
    line = "36 35 8:1 /%s /%s rw - ext4 /dev/sda1 rw\n" % ("r" * 500, "t" * 500)
    monkeypatch.setattr(sysfs.os, "listdir", lambda path: ["7", "8"])
    monkeypatch.setattr(sysfs, "read_text", lambda path: "")
    monkeypatch.setattr(sysfs, "_namespace", lambda process, kind: process + kind)
    monkeypatch.setattr(sysfs, "_read_until", lambda path, late, most: left.append(most) or (line, most))
    (mount,) = sysfs.read_mounts()
    assert left == [sysfs.STRANGERS_BYTES, 0]
    assert mount.target == "/" + "t" * 199 + "…" and mount.root == "/" + "r" * 199 + "…" and not mount.here
