# SPDX-License-Identifier: GPL-3.0-or-later
"""Uses that claim nothing: read from trees of files that look as the kernel's do."""

from __future__ import annotations

import os
import signal
import stat
import types

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_device_users
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, Host

DISK = os.makedev(259, 16)


@pytest.fixture
def block(monkeypatch):
    """Paths that are block devices, by name; every other is what it is."""
    numbers = {}
    real = os.stat

    def fake(path, *args, **more):
        number = numbers.get(str(path))
        return types.SimpleNamespace(st_mode=stat.S_IFBLK, st_rdev=number) if number is not None else real(path, *args, **more)

    monkeypatch.setattr(read_device_users.os, "stat", fake)
    return numbers


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_open_descriptors_of_other_processes(tmp_path, monkeypatch, block):
    monkeypatch.setattr(read_device_users, "PROC", str(tmp_path))
    own = str(os.getpid())
    processes = {"71": ("postgres\n", "07"), "72": ("dd\n", "34"), own: ("python3\n", "9"), "self": ("x", "9"), "73": ("sh", "1")}
    for process, (name, fds) in processes.items():
        write(tmp_path / process / "comm", name)
        for fd in fds:
            write(tmp_path / process / "fd" / fd, "")
    for path in ("71/fd/7", "72/fd/3", "72/fd/4", "%s/fd/9" % own, "self/fd/9"):
        block[str(tmp_path / path)] = DISK
    (tmp_path / "74").mkdir()  # ended between one look and the next
    found = read_device_users.read_openers()
    assert {number: sorted(programs) for number, programs in found.items()} == {"259:16": ["dd (72)", "postgres (71)"]}


@pytest.mark.parametrize("flags, is_open", [("0100000", True), ("012100002", False), ("02", True), ("010000000", False)])
def test_a_descriptor_that_only_names_a_device(tmp_path, monkeypatch, block, flags, is_open):
    monkeypatch.setattr(read_device_users, "PROC", str(tmp_path))
    write(tmp_path / "71/comm", "sh\n")
    write(tmp_path / "71/fd/7", "")
    write(tmp_path / "71/fdinfo/7", "pos:\t0\nflags:\t%s\nmnt_id:\t24\nino:\t99\n" % flags)
    block[str(tmp_path / "71/fd/7")] = DISK
    assert read_device_users.read_openers() == ({"259:16": ["sh (71)"]} if is_open else {})


@pytest.mark.skipif(os.geteuid() != 0, reason="wants two users")
def test_no_user_can_pass_for_one_who_has_a_device_open():
    """What anybody may do with the node of any device: name it (O_PATH, open(2))."""
    node = "/tmp/plumbline-test-%d" % os.getpid()
    number = (240, os.getpid() % 1000)
    try:
        os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(*number))
    except PermissionError:
        pytest.skip("no device nodes here")
    ready, tell = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(61001)
            os.setuid(61001)
            os.open(node, os.O_PATH)
            os.write(tell, b"y")
            signal.pause()
        finally:
            os._exit(1)
    try:
        assert os.read(ready, 1) == b"y"
        assert "%d:%d" % number not in read_device_users.read_openers()
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(ready)
        os.close(tell)
        os.unlink(node)


def test_more_descriptors_than_can_be_looked_at(tmp_path, monkeypatch):
    """Any user can have a million, and processes that share them. The one to end is named, and nothing passes for unused."""
    monkeypatch.setattr(read_device_users, "PROC", str(tmp_path))
    clock = [0.0]
    monkeypatch.setattr(read_device_users.time, "monotonic", lambda: clock.__setitem__(0, clock[0] + 1) or clock[0])
    for process, count in (("71", 3), ("72", 80), ("73", 80)):
        write(tmp_path / process / "comm", "hog" if count > 3 else "sh")
        for fd in range(count):
            write(tmp_path / process / "fd" / str(fd), "")
    with pytest.raises(PlumblineError, match=r"most of them, 80, has hog \(7[23]\), and others may share them; end that program, and run again"):
        read_device_users.read_openers()


def test_our_own_kernel_is_read_without_a_fault():
    assert isinstance(read_device_users.read_openers(), dict)
    assert isinstance(read_device_users.read_backings({}), dict)


def test_udev_is_waited_for_and_nobody_else(monkeypatch):
    monkeypatch.setattr(read_device_users.time, "sleep", lambda _seconds: None)
    answers = [{"1:1": ["(udev-worker) (5)"]}, {"1:1": ["systemd-udevd (5)", "dd (6)"]}, {"1:1": ["dd (6)"]}, {"3:3": ["dd (6)"]}]
    reads = iter(answers)
    assert read_device_users.settled_openers(["1:1"], lambda: next(reads)) == answers[3]
    reads = iter(answers)
    assert read_device_users.settled_openers(["2:2"], lambda: next(reads)) == answers[0]


@pytest.mark.parametrize("who, seconds", [("(udev-worker) (5)", 10), ("postgres (6)", 5)])
def test_nobody_is_waited_for_forever(monkeypatch, who, seconds):
    clock = [100.0]
    monkeypatch.setattr(read_device_users.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(read_device_users.time, "sleep", lambda wait: clock.__setitem__(0, clock[0] + wait))
    assert read_device_users.settled_openers(["1:1"], lambda: {"1:1": [who]}) == {"1:1": [who]}
    assert seconds < clock[0] - 100 < seconds + 0.3


def test_backings(tmp_path, monkeypatch, block):
    config = tmp_path / "config"
    monkeypatch.setattr(read_device_users, "CONFIG", str(config))
    block["/dev/used"] = DISK
    block["/dev/file"] = os.makedev(8, 1)
    write(config / "target/core/iblock_0/store/udev_path", "/dev/used\n")
    write(config / "target/core/iblock_0/store/info", "Status: ACTIVATED\n        iBlock device: sdb  UDEV PATH: /dev/used  readonly: 0\n")
    write(config / "target/core/fileio_1/raw/udev_path", "\n")
    write(config / "target/core/fileio_1/raw/info", "TCM FILEIO ID: 0        File: /dev/file  Size: 100663296  Mode: O_DSYNC\n")
    write(config / "target/core/fileio_2/plain/info", "TCM FILEIO ID: 0        File: /srv/disk.img  Size: 1  Mode: O_DSYNC\n")
    write(config / "nvmet/subsystems/nqn.x/namespaces/3/device_path", "/dev/used\n")
    host = Host()
    host.disk(name="loop0", kind="loop", size=GIB, backing_file="/dev/used")
    host.disk(name="loop1", kind="loop", size=GIB, backing_file="/srv/gone.img (deleted)")
    host.disk(name="loop2", kind="loop", size=GIB, backing_file="/srv/nul\0")
    assert read_device_users.read_backings(host.seen.nodes) == {
        "259:16": ["loop device loop0", "SCSI target iblock_0/store", "namespace 3 of NVMe target nqn.x"],
        "8:1": ["SCSI target fileio_1/raw"],
    }


@pytest.mark.parametrize(
    "text, expected",
    [
        ("E:DM_MULTIPATH_DEVICE_PATH=1\n", True),
        ("S:disk/by-id/x\nE:ID_FS_TYPE=mpath_member\n", True),
        ("E:DM_MULTIPATH_DEVICE_PATH=0\n", False),
        ("E:ID_FS_TYPE=ext4\nE:X_DM_MULTIPATH_DEVICE_PATH=1\n", False),
        ("", False),
    ],
)
def test_multipath_members(tmp_path, monkeypatch, text, expected):
    monkeypatch.setattr(read_device_users, "UDEV", str(tmp_path))
    write(tmp_path / "b8:16", text)
    assert read_device_users.is_multipath_member("8:16") is expected
    assert read_device_users.is_multipath_member("8:32") is False
