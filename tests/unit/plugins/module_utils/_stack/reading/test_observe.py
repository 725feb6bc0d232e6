# SPDX-License-Identifier: GPL-3.0-or-later
"""What an observation reads of devices that are not ours, on files that stand for disks."""

from __future__ import annotations

import errno
import json
import os
import random
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, questions, read_device_users
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import UNFINISHED, Node
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import Ext4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import SHUT_DOWN
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.xfs import Xfs
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import observe, read_contents
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import read_host as observe_host
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, Host, fixture

SIZE = 24 * MIB


@pytest.fixture
def read(tmp_path, monkeypatch):
    """Reads a disk that is a file with these bytes; returns the observation."""

    def look(*data, prepare=lambda host, disk: None):
        path = str(tmp_path / "disk")
        with open(path, "wb") as handle:
            handle.truncate(SIZE)
            for at, raw in data:
                handle.seek(at)
                handle.write(raw)
        try:
            os.close(block_device.open_read(path))
        except OSError:
            pytest.skip("no O_DIRECT on %s" % tmp_path)
        monkeypatch.setattr(Node, "path", property(lambda _node: path))
        monkeypatch.setattr(read_device_users, "read_openers", lambda: {"259:0": ["dd (9)"]})
        monkeypatch.setattr(read_device_users, "read_backings", lambda nodes: {"259:0": ["loop device loop0"]})
        monkeypatch.setattr(read_device_users, "is_multipath_member", lambda number: True)
        monkeypatch.setattr(read_device_users, "PROBE_SECONDS", 0)
        host = Host()
        disk = host.disk(size=SIZE)
        prepare(host, disk)
        read_contents.read_claims(host.seen, [disk])
        return host.seen

    return look


def test_marks_ends_and_uses(read):
    seen = read((63 * 512, b"XFSB"), (SIZE - 512, b"EFI PART"))
    assert [(one.type, one.offset) for one in seen.marks["259:0"]] == [("xfs", 63 * 512), ("gpt backup", SIZE - 512)]
    assert [len(part) for part in seen.ends["259:0"][:2]] == [MIB, MIB] and seen.ends["259:0"].tail_at == SIZE - MIB
    assert seen.openers == {"259:0": ["dd (9)"]} and seen.backings == {"259:0": ["loop device loop0"]} and seen.multipath == ["259:0"]


def test_the_ends_tell_of_every_byte_in_them(read):
    generator = random.Random(3)
    blank = read().ends["259:0"]
    for at in [0, MIB - 1, SIZE - MIB, SIZE - 1] + [generator.randrange(MIB) for _try in range(10)]:
        assert read((at, b"x")).ends["259:0"] != blank
    assert read((MIB, b"x")).ends["259:0"] == blank == read((SIZE - MIB - 1, b"x")).ends["259:0"]


def test_what_is_ours_is_not_read(read):
    """Unless the kernel does not show the partition, in which case its table may have been cut off."""

    def ours(host, disk, shown):
        part = host.part(disk, MIB, name="plumbline:pgdata:0")
        host.pv(part, "pgdata")
        if not shown:
            del host.seen.nodes[part]

    seen = read((0, b"XFSB"), prepare=lambda host, disk: ours(host, disk, True))
    assert (seen.marks, seen.ends, seen.openers, seen.backings, seen.multipath) == ({}, {}, {}, {}, [])
    assert read((0, b"XFSB"), prepare=lambda host, disk: ours(host, disk, False)).ends["259:0"].head[:4] == b"XFSB"


def test_who_uses_a_partition_of_ours_that_looks_empty(read):
    """A database on the raw partition, or a target made of it, leaves no signature."""

    def ours(host, disk):
        host.part(disk, MIB, name="plumbline:pgdata:0")

    seen = read(prepare=ours)
    assert seen.marks == {"259:0": [], "259:1": []} and set(seen.ends) == {"259:0", "259:1"}  # an erase would name them
    assert seen.openers == {"259:0": ["dd (9)"]} and seen.backings == {"259:0": ["loop device loop0"]}

    def filled(host, disk):
        host.pv(host.part(disk, MIB, name="plumbline:pgdata:0"), "pgdata")

    assert read(prepare=filled).openers == {}


@pytest.mark.parametrize("broken", range(3))
def test_a_place_that_cannot_be_read_is_a_fault(read, monkeypatch, broken):
    """Head, tail, or where a partition begins: whichever it is, the device has no marks, no digest, and a fault."""
    real, count = block_device.read_at, []

    def fail(fd, offset, length):
        count.append(offset)
        if len(count) == broken + 1:
            raise OSError(5, "Input/output error")
        return real(fd, offset, length)

    monkeypatch.setattr(block_device, "read_at", fail)
    seen = read()
    assert "could not be read: Input/output error" in seen.faults["259:0"]
    assert seen.marks == {} and seen.ends == {}


@pytest.mark.parametrize("call", ["lstat", "open", "listdir"])
def test_a_mount_point_that_answers_with_errors_is_told(tmp_path, monkeypatch, call):
    """A mounted filesystem whose disk fails: its root can be there for stat(2), and not be read."""
    true = getattr(os, call)

    def fail(path, *args, **more):
        if path == str(tmp_path) or isinstance(path, int):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return true(path, *args, **more)

    monkeypatch.setattr(os, call, fail)
    state = observe_host.read_path(str(tmp_path))
    monkeypatch.undo()
    assert (state.exists, state.entries, state.fault) == (True, 0, os.strerror(errno.EIO))
    assert (observe_host.read_path(str(tmp_path)).fault, observe_host.read_path(str(tmp_path / "no" / "thing")).exists) == ("", False)


def test_what_goes_away_while_the_host_is_read_is_told(monkeypatch):
    def gone():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "/sys/block/sdz/size")

    monkeypatch.setattr(observe.read_sysfs, "read_nodes", gone)
    with pytest.raises(PlumblineError, match="the host could not be read: /sys/block/sdz/size: No such file or directory; look"):
        observe.observe(lambda argv: pytest.fail("run"), questions.Questions(devices=()))


def test_a_part_of_ours_that_fails_when_its_marks_are_read(read, monkeypatch):
    """It is refused as unreadable, and so is one whose copies of a superblock could not be read."""
    real = block_device.read_pieces
    failing = []

    def pieces(path, windows):
        failing.append(path)
        if len(failing) > 1:  # the disk is read, its partition is not
            raise OSError(errno.EIO, "Input/output error")
        return real(path, windows)

    monkeypatch.setattr(block_device, "read_pieces", pieces)
    seen = read(prepare=lambda host, disk: host.part(disk, MIB, name="plumbline:pgdata:0"))
    assert seen.faults and all("could not be read: Input/output error" in fault for fault in seen.faults.values())


def test_the_copies_of_a_superblock_that_is_gone(read, monkeypatch):
    """Where the volume is large enough to have any."""
    block = bytearray(4096)
    struct.pack_into("<II", block, 0, 1000, 4096)
    struct.pack_into("<I", block, 0x18, 2)
    block[0x38:0x3A] = b"\x53\xef"
    block[0x78:0x80] = b"ledgers\0"
    monkeypatch.setattr(Ext4, "copies", lambda kind, size: [8 * MIB, 16 * MIB])
    seen = read((16 * MIB, bytes(block)), prepare=lambda host, disk: host.part(disk, MIB, name="plumbline:pgdata:0"))
    assert [(one.usage, one.offset, one.label) for one in seen.marks["259:1"]] == [("backup superblock", 16 * MIB, "ledgers")]


def xfs(name):
    row = json.loads(fixture("xfs.json"))["ours"][2]
    return bytes.fromhex(row[name]).ljust(4096, b"\0")


def test_an_mkfs_that_was_cut_off_and_its_copies(read, monkeypatch):
    """Its own superblock says more than wipefs; who uses the device and which copies there are is looked at, as of what is empty."""
    listed = {"signatures": [{"device": "disk", "offset": "0x0", "type": "xfs", "usage": "filesystem", "uuid": "u", "label": "pl-data"}]}
    listed["signatures"].append({"device": "disk", "offset": "0x218", "type": "LVM2_member", "usage": "raid", "uuid": "v", "label": None})

    def prepare(host, disk):
        host.part(disk, MIB, name="plumbline:pgdata:0")
        read_contents.read_filesystems(host.seen, [disk])
        host.seen.tools["wipefs"] = "/usr/sbin/wipefs"
        read_contents.read_signatures(lambda argv: (0, json.dumps(listed), ""), host.seen, [disk])

    monkeypatch.setattr(Xfs, "copies", lambda kind, size: [8 * MIB])
    seen = read((0, xfs("copy")), (8 * MIB, xfs("copy")), prepare=prepare)
    assert [(one.type, one.usage, one.label) for one in seen.signatures["259:1"]] == [("xfs", UNFINISHED, "pl-data"), ("LVM2_member", "raid", "")]
    assert ("backup superblock", 8 * MIB) in [(one.usage, one.offset) for one in seen.marks["259:1"]]
    assert "259:1" not in seen.filesystems and seen.openers.get("259:0") == ["dd (9)"]


def test_an_xfs_that_stands(read):
    def prepare(host, disk):
        host.part(disk, MIB, name="plumbline:pgdata:0")
        read_contents.read_filesystems(host.seen, [disk])

    seen = read((0, xfs("superblock")), (64 * 1024, bytes.fromhex(json.loads(fixture("xfs.json"))["root"])), prepare=prepare)
    found = seen.filesystems["259:1"]
    assert (found.kind, found.label, found.made) == ("xfs", "pl-data", 1795886467) and not seen.signatures.get("259:1")
    assert read((0, xfs("superblock")), prepare=prepare).filesystems["259:1"].made == 0, "its root directory is not where it should be"


@pytest.mark.parametrize(("number", "told"), [(errno.EIO, True), (errno.EACCES, False), (0, False)])
def test_a_mount_that_the_kernel_has_shut_down(read, monkeypatch, number, told):
    real = os.stat

    def stat(path, *more, **words):
        if path == "/data" and number:
            raise OSError(number, os.strerror(number), path)
        return real("/" if path == "/data" else path, *more, **words)

    def prepare(host, disk):
        host.part(disk, MIB, name="plumbline:pgdata:0")
        host.mount("259:1", "/data")
        monkeypatch.setattr(os, "stat", stat)
        read_contents.read_filesystems(host.seen, [disk])
        monkeypatch.setattr(os, "stat", real)

    seen = read((0, xfs("superblock")), prepare=prepare)
    assert (SHUT_DOWN in seen.in_force.get("259:1", ())) is told


def test_why_the_timer_could_not_be_enabled(tmp_path, monkeypatch):
    homes = [tmp_path / "etc", tmp_path / "lib"]
    for home in homes:
        home.mkdir()
    monkeypatch.setattr(observe_host, "_UNITS", tuple(map(str, homes)))
    monkeypatch.setattr(os.path, "isdir", lambda path: path == "/run/systemd/system")
    assert observe_host._timer_fault() == "this host has no such unit"
    (homes[1] / "fstrim.timer").write_text("[Timer]")
    assert observe_host._timer_fault() == ""
    (homes[0] / "fstrim.timer").symlink_to("/dev/null")
    assert observe_host._timer_fault() == "it is masked (systemctl unmask fstrim.timer)"
    monkeypatch.setattr(os.path, "isdir", lambda path: False)
    assert observe_host._timer_fault() == "systemd does not run here"


def test_contexts_that_the_policy_does_not_know(tmp_path, monkeypatch):
    monkeypatch.setattr(observe_host, "_CONTEXT_CHECK", str(tmp_path / "context"))
    assert observe_host._strange_contexts(["a:b:c"]) == (), "no SELinux"
    (tmp_path / "context").write_text("")

    def write(_fd, raw):
        if raw == b"a:b:strange\0":
            raise OSError(errno.EINVAL, "Invalid argument")
        if raw == b"a:b:hidden\0":
            raise OSError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "write", write)
    assert observe_host._strange_contexts(["a:b:c", "a:b:strange", "a:b:hidden", "a:b:strange"]) == ("a:b:strange",)
