# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a device, on files that stand for disks."""

from __future__ import annotations

import json
import os
import stat
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils import _backup, _devio
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node, Table
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import KIB, MIB, Host

SIZE = 24 * MIB


def luks1(sectors=4096):
    return (b"LUKS\xba\xbe\0\1" + bytes(96) + struct.pack(">I", sectors)).ljust(MIB, b"\0")


def luks2(area=16 * MIB - 32 * KIB):
    text = json.dumps({"config": {"json_size": "12288", "keyslots_size": str(area)}}).encode()
    return ((b"LUKS\xba\xbe\0\2" + struct.pack(">Q", 16384)).ljust(4096, b"\0") + text).ljust(MIB, b"\0")


@pytest.mark.parametrize(
    "head, expected",
    [
        (bytes(MIB), 0),
        (b"LUKS\xba\xbe", 0),
        (luks1(), 2 * MIB),
        (luks1(0xFFFFFFFF), 64 * MIB),
        (luks2(), 16 * MIB),
        (luks2(4 * MIB), 4 * MIB + 32 * KIB),
        (luks2()[:4096] + b"{broken".ljust(MIB, b"\0"), 16 * MIB),
        (luks2()[:4096] + b"[]".ljust(MIB, b"\0"), 16 * MIB),
    ],
)
def test_length_of_a_luks_header(head, expected):
    assert _backup.luks_header_bytes(head) == expected


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Keeps a device that is a file with these bytes; returns (files by name, commands, directory)."""

    def keep(*data, serial="SER/../0", code=0, prepare=lambda host: None):
        path = str(tmp_path / "disk")
        with open(path, "wb") as handle:
            handle.truncate(SIZE)
            for at, raw in data:
                handle.seek(at)
                handle.write(raw)
        try:
            os.close(_devio.open_read(path))
        except OSError:
            pytest.skip("no O_DIRECT on %s" % tmp_path)
        state = tmp_path / "lib" / "backup"
        (tmp_path / "lib").mkdir(exist_ok=True)
        monkeypatch.setattr(_backup, "DIRECTORY", str(state))
        monkeypatch.setattr(Node, "path", property(lambda _node: path))
        host = Host()
        disk = host.disk(size=SIZE, serial=serial)
        prepare(host)
        commands = []

        def run(argv):
            commands.append(list(argv))
            if "vgcfgbackup" in argv and not code:
                with open(argv[argv.index("-f") + 1], "w", encoding="utf-8") as handle:
                    handle.write("contents")
            return code, "label: gpt\n", "broken"

        files = _backup.keep_device(run, host.seen, disk)
        found = {}
        for name in files:
            with open(name, "rb") as handle:
                found[os.path.basename(name)] = handle.read()
            assert stat.S_IMODE(os.stat(name).st_mode) & 0o077 == 0 or "vg-" in name
        assert stat.S_IMODE(os.stat(str(state)).st_mode) == 0o700
        assert os.path.dirname(os.path.dirname(files[0])) == str(state), "a serial is no path"
        return found, commands

    return keep


def test_head_and_tail(kept):
    found, commands = kept((100, b"head"), (SIZE - 10, b"tail"))
    assert set(found) == {"head", "tail-%d" % (SIZE - MIB)} and commands == []
    assert found["head"][100:104] == b"head" and len(found["head"]) == MIB
    assert found["tail-%d" % (SIZE - MIB)][-10:-6] == b"tail"


def test_table_and_lvm(kept):
    def prepare(host):
        host.seen.tables["259:0"] = Table("gpt", "G", ())
        host.pv("259:0", "old")

    found, commands = kept(prepare=prepare)
    assert found["table.sfdisk"] == b"label: gpt\n" and found["vg-old.conf"] == b"contents"
    assert commands[0][:2] == ["/usr/sbin/sfdisk", "-d"] and commands[1][:3] == ["/usr/sbin/lvm", "vgcfgbackup", "-f"] and commands[1][-1] == "old"


def test_a_luks_header_is_kept_whole(kept):
    found, _commands = kept((0, luks2()), (16 * MIB - 3, b"end"))
    assert len(found["luks-header"]) == 16 * MIB and found["luks-header"][-3:] == b"end"


def test_lvm_that_does_not_answer_stops_the_write(kept):
    with pytest.raises(PlumblineError, match="the metadata of VG 'old' could not be kept: broken"):
        kept(code=5, prepare=lambda host: host.pv("259:0", "old"))


def test_a_directory_that_cannot_be_made_stops_the_write(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(_backup, "DIRECTORY", str(tmp_path / "file" / "backup"))
    host = Host()
    with pytest.raises(PlumblineError, match=r"nothing was written to /dev/nvme0n1: its contents could not be kept in "):
        _backup.keep_device(lambda argv: (0, "", ""), host.seen, host.disk())
