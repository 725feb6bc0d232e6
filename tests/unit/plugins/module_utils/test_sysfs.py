# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read below /sys."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils import _sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Segment
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB


@pytest.mark.parametrize("there, found", [(["nvme0n1", "cciss!c0d0"], ""), (["nvme0n1"], "cciss!c0d0"), ([], "nvme0n1")])
def test_a_disk_that_went_away(monkeypatch, there, found):
    monkeypatch.setattr(_sysfs.os.path, "exists", lambda path: path.rsplit("/", 1)[-1] in there)
    monkeypatch.setattr(_sysfs.time, "sleep", lambda seconds: None)
    assert _sysfs.first_gone(["nvme0n1", "cciss!c0d0"]) == found


def test_it_is_waited_for(monkeypatch):
    """Requests fail before the kernel forgets the disk."""
    left = [True] * 5
    monkeypatch.setattr(_sysfs.os.path, "exists", lambda path: bool(left and left.pop()))
    monkeypatch.setattr(_sysfs.time, "sleep", lambda seconds: None)
    assert _sysfs.first_gone(["sda"]) == "sda"


def array(monkeypatch, files):
    """What is read of an array below /sys: path behind it → text."""
    monkeypatch.setattr(_sysfs, "read_text", lambda path: files.get(path[len("/at/md/") :], ""))
    return _sysfs._md_segments("/at", 100 * MIB)


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


@pytest.mark.parametrize("level, more, chunk, legs", [
    ("raid0", {"chunk_size": "65536"}, 65536, 2),
    ("raid1", {"chunk_size": "0"}, 0, 2),
    ("raid10", {"chunk_size": "65536", "layout": "258"}, 65536, 2),
    ("raid10", {"chunk_size": "65536", "layout": "513"}, 65536, 0),
    ("raid10", {"chunk_size": "65536", "layout": "259"}, 65536, 0),
])
def test_arrays(monkeypatch, level, more, chunk, legs):
    (found,) = array(monkeypatch, members(2, level=level, **more))
    assert (found.kind, found.chunk, len(found.legs)) == (level, chunk, legs)
