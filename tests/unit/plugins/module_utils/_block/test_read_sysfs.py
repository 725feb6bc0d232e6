# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read below /sys."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_disk_activity, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import data_legs
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB


@pytest.mark.parametrize("there, found", [(["nvme0n1", "cciss!c0d0"], ""), (["nvme0n1"], "cciss!c0d0"), ([], "nvme0n1")])
def test_a_disk_that_went_away(monkeypatch, there, found):
    monkeypatch.setattr(read_disk_activity.os.path, "exists", lambda path: path.rsplit("/", 1)[-1] in there)
    monkeypatch.setattr(read_disk_activity.time, "sleep", lambda seconds: None)
    assert read_disk_activity.first_gone(["nvme0n1", "cciss!c0d0"]) == found


def test_it_is_waited_for(monkeypatch):
    """Requests fail before the kernel forgets the disk."""
    left = [True] * 5
    monkeypatch.setattr(read_disk_activity.os.path, "exists", lambda path: bool(left and left.pop()))
    monkeypatch.setattr(read_disk_activity.time, "sleep", lambda seconds: None)
    assert read_disk_activity.first_gone(["sda"]) == "sda"


def array(monkeypatch, files):
    """What is read of an array below /sys: path behind it → text."""
    monkeypatch.setattr(read_sysfs, "read_text", lambda path: files.get(path[len("/at/md/") :], ""))
    return read_sysfs._md_segments("/at", 100 * MIB)


def members(count, **more):
    found = {"rd%d/block/dev" % number: "8:%d" % number for number in range(count)}
    found.update({"rd%d/offset" % number: "2048" for number in range(count)})
    return {**found, "raid_disks": str(count), **more}


def test_a_linear_array_is_one_member_behind_the_other(monkeypatch):
    sizes = {"rd%d/size" % number: str(size * 1024) for number, size in enumerate((30, 50, 40))}
    found = array(monkeypatch, members(3, level="linear", chunk_size="0", **sizes))
    assert found == tuple(
        Segment(start * MIB, length * MIB, "linear", 0, (("8:%d" % number, MIB),)) for number, (start, length) in enumerate(((0, 30), (30, 50), (80, 20)))
    )


@pytest.mark.parametrize(
    "level, more, chunk, legs",
    [
        ("raid0", {"chunk_size": "65536"}, 65536, 2),
        ("raid1", {"chunk_size": "0"}, 0, 2),
        ("raid10", {"chunk_size": "65536", "layout": "258"}, 65536, 2),
        ("raid10", {"chunk_size": "65536", "layout": "513"}, 65536, 0),
        ("raid10", {"chunk_size": "65536", "layout": "259"}, 65536, 0),
    ],
)
def test_arrays(monkeypatch, level, more, chunk, legs):
    (found,) = array(monkeypatch, members(2, level=level, **more))
    assert (found.kind, found.chunk, len(found.legs)) == (level, chunk, legs)


@pytest.mark.parametrize(
    "level, count, gone, legs", [("raid5", 4, 2, 3), ("raid6", 6, 0, 4), ("raid10", 4, 3, 2), ("raid4", 3, 1, 2)]
)
def test_an_array_that_has_lost_a_member(monkeypatch, level, count, gone, legs):
    """Its rows are as long as before: the number of its members is the array's own word, not that of the links that are there (Linux, md.rst)."""
    files = members(count, level=level, chunk_size="524288", layout="258", degraded="1")
    files.pop("rd%d/block/dev" % gone)
    (found,) = array(monkeypatch, files)
    assert (len(found.legs), found.width, found.degraded, data_legs(found)) == (count - 1, count, 1, legs)


def test_serials_that_differ_in_bytes_that_are_no_text(tmp_path):
    said = []
    for raw in (b"AB\xff1\n", b"AB\xfe1\n", b"\xc3\xa9\n", b"  A B  \0\n"):
        (tmp_path / "serial").write_bytes(raw)
        said.append(read_sysfs._printable(str(tmp_path / "serial")))
    assert said == ["AB\\xff1", "AB\\xfe1", "é", "A B"]


def test_who_asks_udev_for_a_name(monkeypatch):
    records = {r"/run/udev/links/disk\x2fby-id\x2fnvme-A_B": ["b259:1", "b259:0", ".#tmp"], r"/run/udev/links/disk\x2fby-id\x2fodd\x5cx20": ["b8:0"]}

    def listdir(path):
        if path not in records:
            raise FileNotFoundError(path)
        return records[path]

    monkeypatch.setattr(read_sysfs.os, "listdir", listdir)
    assert read_sysfs.claims_of_link("/dev/disk/by-id/nvme-A_B") == ("259:0", "259:1")
    assert read_sysfs.claims_of_link("/dev/disk/by-id/odd\\x20") == ("8:0",)
    assert read_sysfs.claims_of_link("/dev/disk/by-id/none") == ()
    records = {r"/run/udev/links/\x2fdisk\x2fby-id\x2fold": ["b8:0", "b8:16"]}  # as systemd 247 writes it
    assert read_sysfs.claims_of_link("/dev/disk/by-id/old") == ("8:0", "8:16")


def test_the_devices_of_filesystems_in_use(monkeypatch, tmp_path):
    """Of Btrfs and bcachefs, as the kernel lays them out: links to the directories of block devices."""
    for link, device in {
        "btrfs/5a1b-77/devices/sdb": "sdb", "btrfs/5a1b-77/devices/sdc1": "sdc/sdc1", "btrfs/features/raid1c34": "",
        "bcachefs/9f-1/dev-0/block": "sdd", "bcachefs/9f-1/dev-1/block": "sde", "bcachefs/9f-1/internal/x": "", "bcachefs/9f-1/dev-2/label": "",
    }.items():  # fmt: skip
        path = tmp_path / link
        path.parent.mkdir(parents=True, exist_ok=True)
        if device:
            (tmp_path / "block" / device).mkdir(parents=True, exist_ok=True)
            path.symlink_to(tmp_path / "block" / device)
        else:
            path.touch()
    monkeypatch.setattr(read_sysfs, "_MEMBERS", tuple(pattern.replace("/sys/fs", str(tmp_path)) for pattern in read_sysfs._MEMBERS))
    names = {"sdb": "8:16", "sdc1": "8:33", "sdd": "8:48", "sde": "8:64"}
    assert sorted(read_sysfs.read_members(names)) == [("8:16", "8:33"), ("8:48", "8:64")]
    del names["sde"]
    assert ("8:48",) in read_sysfs.read_members(names)
