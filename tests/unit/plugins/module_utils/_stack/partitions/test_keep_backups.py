# SPDX-License-Identifier: GPL-3.0-or-later
"""What is kept of a device before it is written to; and the commands of the guide, as they stand there, put it back."""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import subprocess

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import slug
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import keep_backups
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_erasures
from ansible_collections.plumbline.ssd.tests.unit.hang import HANG
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, Host

SIZE = 24 * MIB + 4096
GUIDE = os.path.join(os.path.dirname(__file__), *[".."] * 6, "docs", "docsite", "rst", "guide_table_back.rst")


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A file with something at both ends, as a disk of a host; returns (host, its device number, the file)."""
    monkeypatch.setattr(keep_erasures, "DIRECTORY", str(tmp_path / "plumbline" / "backup"))
    path = tmp_path / "disk.img"
    with open(path, "wb") as handle:
        handle.write(os.urandom(2 * MIB) + bytes(20 * MIB) + os.urandom(2 * MIB + 4096))
        handle.flush()
        os.fsync(handle.fileno())
    try:
        os.close(block_device.open_read(str(path)))
    except OSError:
        pytest.skip("no O_DIRECT on %s" % tmp_path)
    host = Host()
    devno = host.disk(size=SIZE)
    monkeypatch.setattr(block_device, "open_read", lambda _path, exclusive=False: os.open(str(path), os.O_RDONLY | os.O_DIRECT))
    return host, devno, path


def about_of(kept):
    """What a backup says of itself."""
    with open(os.path.join(kept, "about.json"), encoding="utf-8") as handle:
        return json.load(handle)


def no_tool(argv):
    """Fails where a tool is run."""
    raise AssertionError(argv)


def test_both_ends(disk):
    host, devno, path = disk
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    raw = path.read_bytes()
    assert sorted(os.listdir(kept)) == ["about.json", "head.img", "tail.img"]
    with open(os.path.join(kept, "head.img"), "rb") as head, open(os.path.join(kept, "tail.img"), "rb") as tail:
        assert head.read() == raw[:MIB] and tail.read() == raw[-MIB:]
    about = about_of(kept)
    assert about["files"] == {"head.img": hashlib.sha256(raw[:MIB]).hexdigest(), "tail.img": hashlib.sha256(raw[-MIB:]).hexdigest()}
    assert (about["identity"], about["serial"], about["size_bytes"]) == ("wwid:eui.000000000000a000", "SER0000", SIZE)
    for directory, names, files in os.walk(keep_erasures.DIRECTORY):
        assert os.stat(directory).st_mode & 0o777 == 0o700 and ".unfinished" not in names
        assert all(os.stat(os.path.join(directory, name)).st_mode & 0o777 == 0o600 for name in files)


def test_a_blank_device_takes_no_room(disk):
    host, devno, path = disk
    path.write_bytes(bytes(SIZE))
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    for name in ("head.img", "tail.img"):
        found = os.stat(os.path.join(kept, name))
        assert (found.st_size, found.st_blocks) == (MIB, 0)


def test_table_and_volume_group(disk):
    host, devno, _path = disk
    part = host.part(devno, MIB, 20 * MIB)
    host.pv(part, "vgold")
    calls = []

    def run(argv):
        calls.append(list(argv))
        if argv[0] == "vgcfgbackup":
            with open(argv[2], "w") as handle:
                handle.write("metadata")
        return 0, "label: gpt\n", ""

    (kept,) = keep_backups.keep_device(run, host.seen, devno)
    assert [argv[0] for argv in calls] == ["sfdisk", "vgcfgbackup"] and calls[1][-1] == "vgold"
    assert sorted(os.listdir(kept)) == ["about.json", "head.img", "table.sfdisk", "tail.img", "vg-vgold.vgcfg"]
    assert about_of(kept)["notes"] == []


@pytest.mark.parametrize("name", ["../../etc/x", "-rf", "a b", "", ".", "x" * 200])
def test_a_group_name_never_becomes_a_path_or_an_option(disk, name):
    host, devno, _path = disk
    host.pv(devno, name)
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    assert sorted(os.listdir(kept)) == ["about.json", "head.img", "tail.img"]
    assert len(about_of(kept)["notes"]) == bool(name)


def test_tools_that_fail_leave_a_note(disk):
    host, devno, _path = disk
    host.pv(host.part(devno, MIB, 20 * MIB), "vgold")
    (kept,) = keep_backups.keep_device(lambda argv: (5, "", "no\nway\n"), host.seen, devno)
    assert [note.split(";")[0] for note in about_of(kept)["notes"]] == ["sfdisk --dump: no way", "vgcfgbackup vgold: no way"]


def test_an_erase_wants_the_metadata_of_every_group(disk):
    host, devno, _path = disk
    host.pv(devno, "vgold")
    with pytest.raises(PlumblineError, match="is not erased, and nothing was written: vgcfgbackup vgold: no way; mend the VG"):
        keep_backups.keep_device(lambda argv: (5, "", "no\nway\n"), host.seen, devno, True)
    assert all(keep_backups.backups_of(os.path.join(keep_erasures.DIRECTORY, place)) == [] for place in os.listdir(keep_erasures.DIRECTORY))


def luks2(area, offset, keyslots=1 << 20, kind="crypt"):
    """The first MiB of a LUKS2 device."""
    found = {"segments": {"0": {"type": kind, "offset": offset}}, "config": {"keyslots_size": str(keyslots)}}
    return (b"LUKS\xba\xbe" + struct.pack(">HQ", 2, area)).ljust(4096, b"\0") + json.dumps(found).encode().ljust(area, b"\0")


@pytest.mark.parametrize(
    "head, length",
    [
        (bytes(MIB), 0),
        (b"LUKS\xba\xbe" + struct.pack(">H", 1).ljust(98, b"\0") + struct.pack(">I", 4096), 2 * MIB),
        (b"LUKS\xba\xbe" + struct.pack(">H", 1).ljust(200, b"\0"), 2 * MIB),
        (luks2(16384, "16777216"), 16 * MIB),
        (luks2(16384, "4194304", keyslots=8 * MIB), 8 * MIB + 32768),
        (luks2(16384, "1099511627776"), 256 * MIB),
        (luks2(16384, "-5", keyslots=-1 << 60), 16 * MIB),
        (luks2(16384, "many"), 16 * MIB),
        (luks2(16384, []), 16 * MIB),
        (b"LUKS\xba\xbe" + struct.pack(">HQ", 2, 1 << 63), 16 * MIB),
        (b"LUKS\xba\xbe" + struct.pack(">HQ", 2, 16384).ljust(4090, b"\0") + b"[" * 20000, 16 * MIB),
    ],
)
def test_length_of_a_luks_header(head, length):
    assert keep_backups.luks_bytes(head) == length


@pytest.mark.parametrize("at", [0x4000, 0x8000, 0x80000])
def test_the_second_header_of_luks2_is_enough(at):
    head = bytearray(MIB)
    head[at : at + 6] = b"SKUL\xba\xbe"
    assert keep_backups.luks_bytes(bytes(head)) == 16 * MIB
    assert keep_backups.luks_bytes(bytes(MIB)) == 0


def test_a_luks_header_is_kept_whole(disk):
    host, devno, path = disk
    raw = bytearray(path.read_bytes())
    raw[:MIB] = luks2(16384, str(16 * MIB)).ljust(MIB, b"k")
    path.write_bytes(raw)
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    with open(os.path.join(kept, "luks-nvme0n1.img"), "rb") as handle:
        assert handle.read() == raw[: 16 * MIB]


def test_first_and_newest_are_kept(disk):
    host, devno, _path = disk
    made = [keep_backups.keep_device(no_tool, host.seen, devno)[0] for _turn in range(keep_backups.KEPT_OF_A_DEVICE + 5)]
    place = os.path.dirname(made[0])
    assert keep_backups.backups_of(place) == [os.path.basename(path) for path in [made[0], *made[-keep_backups.KEPT_OF_A_DEVICE + 1 :]]]


def test_how_often_a_device_was_erased(disk):
    """What a killed module left is no count, and pruning leaves it alone."""
    host, devno, _path = disk
    key = host.seen.nodes[devno].identity.key
    assert keep_erasures.erasures_of(key) == 0
    keep_backups.keep_device(no_tool, host.seen, devno)
    place = os.path.join(keep_erasures.DIRECTORY, slug(key))
    for turn in (1, 2, 3):
        with open(os.path.join(place, ".erased"), "w", encoding="utf-8") as handle:
            handle.write("half")
        keep_backups.note_erasure(key, "0" * 32)
        assert keep_erasures.erasures_of(key) == turn
    keep_backups.prune(place)
    assert (keep_erasures.erasures_of(key), keep_erasures.erasures_of("wwid:other")) == (3, 0)
    assert oct(os.stat(os.path.join(place, keep_erasures.ERASURES)).st_mode & 0o777) == "0o600"
    assert sorted(os.listdir(place))[-1] == keep_erasures.ERASURES and len(os.listdir(place)) == 2


def test_names_sort_whatever_the_clock_does(disk, monkeypatch):
    host, devno, _path = disk
    (first,) = keep_backups.keep_device(no_tool, host.seen, devno)
    monkeypatch.setattr(keep_backups.time, "gmtime", lambda: __import__("time").struct_time((1999, 1, 1, 0, 0, 0, 0, 1, 0)))
    (second,) = keep_backups.keep_device(no_tool, host.seen, devno)
    assert keep_backups.backups_of(os.path.dirname(first)) == [os.path.basename(first), os.path.basename(second)]
    assert os.path.basename(second) == "19990101T000000Z-2"


@pytest.mark.parametrize("at", ["_write", "_sync", "_copy"])
def test_half_a_backup_is_none(disk, monkeypatch, at):
    host, devno, _path = disk
    place = os.path.dirname(keep_backups.keep_device(no_tool, host.seen, devno)[0])
    real, calls = getattr(keep_backups, at), []

    def fail(*args):
        calls.append(1)
        if len(calls) > 1 and ".unfinished" in str(args[-1]) + str(args[0]):
            raise OSError(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(keep_backups, at, fail)
    with pytest.raises(PlumblineError, match=r"could not be kept in .*: No space left on device; nothing was written to it"):
        keep_backups.keep_device(no_tool, host.seen, devno)
    assert len(os.listdir(place)) == 1


def test_what_a_killed_module_left_is_taken_away(disk):
    host, devno, _path = disk
    place = os.path.dirname(keep_backups.keep_device(no_tool, host.seen, devno)[0])
    os.mkdir(os.path.join(place, ".unfinished"))
    open(os.path.join(place, ".unfinished", "head.img"), "w").close()
    keep_backups.keep_device(no_tool, host.seen, devno)
    assert len(keep_backups.backups_of(place)) == 2 and len(os.listdir(place)) == 2


@pytest.mark.parametrize("key, other", [("wwid:eui.1", "wwid/eui.1"), ("a" * 100, "a" * 101), ("../../x", "x"), ("", "-"), ("ä", "ö")])
def test_names_of_devices(key, other):
    assert re.fullmatch(r"[A-Za-z0-9-]+", slug(key)) and slug(key) != slug(other)


def test_a_device_that_cannot_be_read_is_not_written_to(disk, monkeypatch):
    host, devno, _path = disk

    def broken(_fd, _at, _length):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(block_device, "read_at", broken)
    with pytest.raises(PlumblineError, match="Input/output error; nothing was written to it"):
        keep_backups.keep_device(no_tool, host.seen, devno)


# --- the guide -------------------------------------------------------------------------------------


def guide(label):
    """The commands below a label of the guide, as a reader would copy them."""
    with open(GUIDE, encoding="utf-8") as handle:
        text = handle.read()
    found = re.search(r"\.\. commands: %s\n.*?\.\. code-block:: shell\n\n(.*?)\n(?=\S)" % label, text + "\n.", re.DOTALL)
    return re.sub(r"^    ", "", found.group(1), flags=re.MULTILINE)


def shell(script, bin_path, **variables):
    """Run commands with *blockdev* and what else is in *bin_path* in front."""
    env = {**os.environ, "PATH": "%s:%s" % (bin_path, os.environ["PATH"]), **{key: str(value) for key, value in variables.items()}}
    return subprocess.run(["bash", "-euc", script], env=env, capture_output=True, text=True, timeout=HANG, check=False)


@pytest.fixture
def tools(tmp_path):
    """blockdev that takes a file for a device, and udevadm, which need not be where unit tests run."""
    path = tmp_path / "bin"
    path.mkdir()
    for name, script in (("blockdev", '[ "$1" = --rereadpt ] || stat -c %s "$2"'), ("udevadm", '[ "$1" = settle ]')):
        (path / name).write_text("#!/bin/sh\n%s\n" % script)
        (path / name).chmod(0o755)
    return path


def test_the_commands_of_the_guide_put_the_ends_back(disk, tools):
    host, devno, path = disk
    before = path.read_bytes()
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    raw = bytearray(before)
    raw[:MIB] = raw[-MIB:] = bytes(MIB)
    path.write_bytes(raw)
    check = shell(guide("check"), tools, DEVICE=path, BACKUP=kept)
    assert check.returncode == 0, check.stderr
    assert "SER0000" in check.stdout and "head.img: OK" in check.stdout and "tail.img: OK" in check.stdout
    done = shell(guide("ends"), tools, DEVICE=path, BACKUP=kept)
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == before


def test_the_commands_of_the_guide_see_a_damaged_backup_and_another_size(disk, tools):
    host, devno, path = disk
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    with open(os.path.join(kept, "head.img"), "r+b") as handle:
        handle.write(b"damaged")
    assert shell(guide("check"), tools, DEVICE=path, BACKUP=kept).returncode != 0
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    with open(path, "ab") as handle:
        handle.write(bytes(512))
    assert shell(guide("check"), tools, DEVICE=path, BACKUP=kept).returncode != 0


def test_the_commands_of_the_guide_put_a_luks_header_back(disk, tools):
    host, devno, path = disk
    raw = bytearray(path.read_bytes())
    raw[:MIB] = luks2(16384, str(16 * MIB)).ljust(MIB, b"k")
    path.write_bytes(raw)
    (kept,) = keep_backups.keep_device(no_tool, host.seen, devno)
    path.write_bytes(bytes(16 * MIB) + raw[16 * MIB :])
    done = shell(guide("luks"), tools, DEVICE=path, BACKUP=kept, HEADER="luks-nvme0n1.img")
    assert done.returncode == 0, done.stderr
    assert path.read_bytes() == raw
