# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays of md: superblocks as mdadm 4.2 wrote them, and what the kernel says below /sys."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, read_raids, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import (
    FAULTY,
    NEAR_2,
    SPARE,
    MdArray,
    MdMember,
    md_uuid,
    parse_md_superblock,
    was_run_apart,
)
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host

# The superblock of the first member of a RAID 10 of four, as it was on Debian 12; behind the roles it is 0xff, and zeros behind those.
HEAD = bytes.fromhex(
    "fc4e2ba901000000010000000000000011112222333344445555666677778888616e793a70676461746100000000000000000000000000000000000000000000"
    "747a0b6b000000000a00000002010000003806000000000080000000040000000800000000000000000000000000000000000000000000000000000000000000"
    "00080000000000000038060000000000080000000000000000000000000000000000000000000000036e5bdfff578acef34437929e5cf3e10000080010000000"
    "7a7a0b6b000000001300000000000000ffffffffffffffff1f6e9e92800000000000000000000000000000000000000000000000000000000000000000000000"
    "0000010002000300"
)
RAW = HEAD + b"\xff" * 248 + bytes(4096 - len(HEAD) - 248)


def test_a_superblock():
    found = parse_md_superblock(RAW)
    assert (found.uuid, found.name) == ("11112222:33334444:55556666:77778888", "any:pgdata")
    assert (found.level, found.layout, found.chunk, found.disks) == (10, NEAR_2, 64 << 10, 4)
    assert (found.size, found.data_offset, found.events) == (199 * MIB, MIB, 19)
    assert (found.role, found.roles[:5], found.resync, found.absent) == (0, (0, 1, 2, 3, SPARE), -1, ())
    assert found.made < found.written and len(found.roles) == 128


@pytest.mark.parametrize("at", [0, 4, 0x10, 0x48, 0xC8, 0xD8, 0xDC, 0x100, 0x1FF])
def test_one_that_is_damaged_is_none(at):
    damaged = bytearray(RAW)
    damaged[at] ^= 1
    assert parse_md_superblock(bytes(damaged)) is None


@pytest.mark.parametrize("raw", [b"", bytes(4096), RAW[:100], RAW[:300]])
def test_no_superblock(raw):
    assert parse_md_superblock(raw) is None


def test_a_uuid():
    assert md_uuid("11112222-3333-4444-5555-666677778888") == "11112222:33334444:55556666:77778888"


def array(*slots, disks=4):
    return MdArray("md127", "9:127", "clean", "raid10", NEAR_2, 65536, disks, GIB, tuple(MdMember("8:%d" % slot, slot, ("in_sync",)) for slot in slots))


def test_which_places_are_missing():
    assert array(0, 1, 2, 3).missing == () and array(0, 3).missing == (1, 2)
    filled = array(0, 2, 3)._replace(members=(*array(0, 2, 3).members, MdMember("8:9", 1, ("spare",))))
    assert filled.missing == (1,)
    failed = array(0, 2, 3)._replace(members=(*array(0, 2, 3).members, MdMember("8:9", 1, ("faulty",))))
    assert failed.missing == (1,) and failed.members[-1].faulty
    replacing = array(0, 1, 2)._replace(members=(*array(0, 1, 2).members, MdMember("8:9", 3, ("replacement", "in_sync"))))
    assert replacing.missing == (3,)
    assert not array()._replace(state="inactive").runs and array().runs


def test_which_places_nobody_holds():
    assert array(0, 3).lost == () and not array(0, 3).failed
    assert array(0, 1).lost == (2, 3) and array(0, 1).failed
    replaced = array(0, 1)._replace(members=(*array(0, 1).members, MdMember("8:9", 3, ("replacement", "in_sync"))))
    assert replaced.lost == ()
    assert array(0, 1)._replace(level="raid1").lost == () and array(0, 1, 2, 3)._replace(state="broken").failed


@pytest.mark.parametrize(
    ("roles", "events", "slots", "apart"),
    [
        ((0, 1, 2, 3), 18, (0, 2, 3), False),
        ((0, 1, 2, 3), 40, (0, 2, 3), True),
        ((0, 1, 2, 3), 41, (0, 2, 3), True),
        ((FAULTY, 1, 2, 3), 18, (0, 2, 3), True),
        ((0, 1, 2, FAULTY), 18, (0, 2), False),  # the place was empty already, and is still
        ((0, 1, 2, SPARE), 18, (0, 2, 3), True),
    ],
)
def test_a_member_that_was_run_apart(roles, events, slots, apart):
    found = parse_md_superblock(RAW)._replace(roles=roles, events=events)
    assert was_run_apart(found, array(*slots), 40) is apart


def files_of(base, name, **files):
    for path, text in files.items():
        place = base / name / path.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def test_what_the_kernel_says(monkeypatch, tmp_path):
    shape = {"md__level": "raid10\n", "md__layout": "258\n", "md__chunk_size": "65536\n", "md__raid_disks": "2\n", "md__component_size": "203776\n"}
    files_of(tmp_path, "md127", dev="9:127\n", md__array_state="clean\n", **shape)
    files_of(tmp_path, "md127", **{"md__dev-sda1__block__dev": "8:1", "md__dev-sda1__slot": "0", "md__dev-sda1__state": "in_sync"})
    files_of(tmp_path, "md127", **{"md__dev-sdb1__block__dev": "8:17", "md__dev-sdb1__slot": "none", "md__dev-sdb1__state": "faulty,want_replacement"})
    files_of(tmp_path, "md127", **{"md__dev-sda1__bad_blocks": "2048 8\n4096 16\n", "md__dev-sda1__unacknowledged_bad_blocks": "9000 8\n"})
    files_of(tmp_path, "md127", **{"md__dev-sdb1__bad_blocks": "\n", "md__bitmap__location": "+8\n", "md__sync_max": "1920\n"})
    files_of(tmp_path, "md127", **{"md__dev-sda1__errors": "8\n"})
    files_of(tmp_path, "md127", **{"md__dev-sdd1__slot": "1", "md__dev-sdd1__state": "in_sync"})  # its device has gone, and md does not know it
    files_of(tmp_path, "md126", dev="9:126", md__array_state="inactive", **{"md__dev-sdc1__block__dev": "8:33", "md__dev-sdc1__slot": "1"})
    files_of(tmp_path, "md125", dev="9:125", md__array_state="clear")
    files_of(tmp_path, "mdx", dev="9:1")
    monkeypatch.setattr(read_raids, "_BASE", str(tmp_path))
    stopped, running = read_raids.read_md_arrays()
    assert (stopped.name, stopped.runs, stopped.members) == ("md126", False, (MdMember("8:33", 1),))
    members = (MdMember("8:1", 0, ("in_sync",), 3, 8), MdMember("8:17", -1, ("faulty", "want_replacement")), MdMember("", 1, ("in_sync",)))
    assert running == MdArray("md127", "9:127", "clean", "raid10", NEAR_2, 65536, 2, 199 * MIB, members, "+8", 1920)
    assert (running.missing, running.lost) == ((1,), ())


def mirror_of(base, states, **files):
    """An array of four, its members by their places, as below /sys; *states*: of each member its slot and its state."""
    shape = {"md__level": "raid10", "md__layout": "258", "md__chunk_size": "65536", "md__raid_disks": "4", "md__component_size": "1024"}
    files_of(base / "block", "md127", dev="9:127", **{**shape, "md__array_state": "clean", **files})
    (base / "dev").mkdir()
    for number, (slot, state) in enumerate(states):
        disk = "sd" + "abcd"[number]
        member = {"block__dev": "8:%d" % number, "slot": slot, "state": state}
        files_of(base / "block", "md127", **{"md__dev-%s1__%s" % (disk, name): text for name, text in member.items()})
        files_of(base / "devices" / disk, disk + "1", uevent="DEVTYPE=partition\nPARTN=1\nPARTNAME=plumbline:pgdata:%d\n" % number)
        (base / "dev" / ("8:%d" % number)).symlink_to(base / "devices" / disk / (disk + "1"))


GOOD = [("0", "in_sync"), ("1", "in_sync"), ("2", "in_sync"), ("3", "in_sync")]


@pytest.mark.parametrize(
    ("states", "files", "disks"),
    [
        (GOOD, {}, "abcd"),
        ([*GOOD[:3], ("3", "spare")], {}, "abd"),  # the third is the only one that has its part; the fourth has nothing of its own
        ([*GOOD[:3], ("none", "faulty")], {}, "abd"),
        (GOOD[:3], {}, "ab"),
        (GOOD[:2], {}, ""),
        (GOOD, {"md__dev-sda1__bad_blocks": "2048 8"}, "acd"),
        (GOOD, {"md__level": "raid1"}, ""),
        (GOOD, {"md__array_state": "inactive"}, ""),
        ([], {}, ""),
    ],
    ids=["whole", "one is filled", "one has failed", "one is gone", "a pair is gone", "bad blocks", "another level", "stopped", "none"],
)
def test_which_disks_have_a_second_copy(monkeypatch, tmp_path, states, files, disks):
    mirror_of(tmp_path, states, **files)
    monkeypatch.setattr(read_raids, "_BASE", str(tmp_path / "block"))
    monkeypatch.setattr(read_raids, "_NUMBERS", str(tmp_path / "dev"))
    assert read_raids.read_mirrored_disks() == {"sd" + disk: "pgdata" for disk in disks}


def test_an_array_of_somebody_else_is_no_mirrored_stack(monkeypatch, tmp_path):
    mirror_of(tmp_path, GOOD)
    (tmp_path / "devices/sda/sda1/uevent").write_text("PARTNAME=their data\n")
    monkeypatch.setattr(read_raids, "_BASE", str(tmp_path / "block"))
    monkeypatch.setattr(read_raids, "_NUMBERS", str(tmp_path / "dev"))
    assert list(read_raids.read_mirrored_disks()) == ["sdb", "sdc", "sdd"]
    monkeypatch.setattr(read_raids, "_BASE", str(tmp_path / "none"))
    assert read_raids.read_mirrored_disks() == {}


def test_which_superblocks_are_read(monkeypatch):
    host = Host()
    parts = [host.part(disk, MIB, GIB) for disk in host.pair(4)]
    host.seen.md_arrays = [array()._replace(members=(MdMember(parts[0], 0, ("in_sync",)), MdMember("8:99", 1)))]
    host.seen.signatures[parts[1]] = [Signature("linux_raid_member", "raid", 4096)]
    host.seen.signatures[parts[2]] = [Signature("xfs", "filesystem", 0)]
    asked = []

    def read(path, windows):
        asked.append((path, windows))
        if len(asked) > 1:
            raise OSError(5, "no")
        return [(4096, RAW)]

    monkeypatch.setattr(block_device, "read_pieces", read)
    read_raids.read_md_superblocks(host.seen)
    assert [path for path, _windows in asked] == [host.seen.nodes[part].path for part in parts[:2]] and asked[0][1] == [(4096, 4096)]
    assert list(host.seen.md_superblocks) == parts[:1]


def test_a_size(tmp_path):
    (tmp_path / "size").write_text("-5\n")
    assert read_sysfs.read_size(str(tmp_path / "size")) == 0 and read_sysfs.read_size(str(tmp_path / "none")) == 0
