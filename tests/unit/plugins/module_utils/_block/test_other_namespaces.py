# SPDX-License-Identifier: GPL-3.0-or-later
"""Mount namespaces that any user can make are not read, and hide nothing that root has mounted."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_sysfs

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
    if not any(mount.devno == read_sysfs.devno(os.stat(str(tmp_path)).st_dev) for mount in read_sysfs.read_mounts()):
        pytest.skip("the folder for temporary files is on no block device")
    return str(tmp_path).encode()


@needs_root
@pytest.mark.parametrize("user", [0, STRANGER], ids=["root", "stranger"])
def test_a_namespace_of_root_is_one_mount_of_its_device_and_one_of_a_stranger_is_none(folder, user, monkeypatch):
    """Of this process alone: the machine has namespaces of its own, and other tests make some beside this one."""
    devno, listdir = read_sysfs.devno(os.stat(folder).st_dev), os.listdir
    with namespace(folder, 200, user) as process:
        monkeypatch.setattr(os, "listdir", lambda path=".": [process] if path == "/proc" else listdir(path))
        mounts = read_sysfs.read_mounts()
    assert [mount.devno for mount in mounts if not mount.here].count(devno) == (0 if user else 1)
    assert [mount for mount in mounts if mount.here] == [mount for mount in read_sysfs.read_mounts() if mount.here]


@needs_root
def test_a_copy_of_what_is_mounted_here_is_no_second_mount(folder, monkeypatch):
    """udev has a namespace of its own, with all mounts of the host. Each reason that names a mount would stand twice."""
    listdir = os.listdir
    with namespace(folder, 0, 0) as process:
        monkeypatch.setattr(os, "listdir", lambda path=".": [process] if path == "/proc" else listdir(path))
        assert read_sysfs.read_mounts() and all(mount.here for mount in read_sysfs.read_mounts())


def test_whose_it_is_is_asked_when_it_is_open(monkeypatch):
    """Or a process could enter a namespace of a stranger between the question and the reading."""
    path, order = "/proc/%d/mountinfo" % os.getpid(), []

    def asked(process, kind):
        opened = [os.readlink("/proc/self/fd/" + fd) for fd in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + fd)]
        order.append((process, kind, path in opened))
        return "ours"

    monkeypatch.setattr(read_sysfs, "_namespace", asked)
    assert " / / " in read_sysfs._read_mountinfo_of_root(str(os.getpid()))
    assert [one[1:] for one in order] == [("user", True)] * 2
    monkeypatch.setattr(read_sysfs, "_namespace", lambda process, kind: process)
    assert read_sysfs._read_mountinfo_of_root(str(os.getpid())) is None and read_sysfs._read_mountinfo_of_root("0") is None
