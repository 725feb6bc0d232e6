# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import random
import struct
import uuid
import zlib

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import TYPE_LINUX, TYPE_LVM, bcache_data_start, gpt_head_bytes, parse_table
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, fixture

DISK_GUID = "0A1B2C3D-1111-4222-8333-444444444444"


def protective_mbr():
    entry = struct.pack("<B3sB3sII", 0, b"\0\2\0", 0xEE, b"\xff\xff\xff", 1, 0xFFFFFFFF)
    return b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa"


def gpt_entry(kind, guid, first, last, name):
    raw = uuid.UUID(kind).bytes_le + uuid.UUID(guid).bytes_le + struct.pack("<QQQ", first, last, 0)
    return raw + name.encode("utf-16-le").ljust(72, b"\0")


def build_gpt(logical, entries, count=128, length=128, at=2, header_size=92):
    """A GPT's head as the specification has it, built without the code under test."""
    body = b"".join(entry.ljust(length, b"\0") for entry in entries).ljust(count * length, b"\0")
    fields = struct.pack("<8sIIIIQQQQ", b"EFI PART", 0x10000, header_size, 0, 0, 1, 999, 34, 900)
    fields += uuid.UUID(DISK_GUID).bytes_le + struct.pack("<QIII", at, count, length, zlib.crc32(body))
    fields = fields.ljust(header_size, b"\0")
    fields = fields[:16] + struct.pack("<I", zlib.crc32(fields)) + fields[20:]
    head = bytearray(max(gpt_head_bytes(logical), at * logical + len(body)))
    head[:512] = protective_mbr()
    head[logical : logical + header_size] = fields
    head[at * logical : at * logical + len(body)] = body
    return bytes(head)


def build_mbr(*rows):
    raw = b"".join(struct.pack("<B3sB3sII", boot, b"\0" * 3, kind, b"\0" * 3, first, sectors) for boot, kind, first, sectors in rows)
    return b"\0" * 446 + raw.ljust(64, b"\0") + b"\x55\xaa"


def guid(number):
    return "AAAAAAAA-0000-4000-8000-%012d" % number


# --- what sfdisk wrote -----------------------------------------------------------------------------


def test_gpt_of_sfdisk_512():
    table = parse_table(fixture("gpt_512.bin"), 512)
    assert (table.kind, table.guid, table.fault) == ("gpt", "11111111-2222-4333-8444-555555555555", "")
    first, second = table.entries
    assert first == (1, MIB, 32 * MIB, TYPE_LVM, guid(1), "plumbline:pgdata:0")
    assert second[:5] == (2, 33 * MIB, MIB, TYPE_LINUX, guid(2))


def test_gpt_of_sfdisk_4096():
    table = parse_table(fixture("gpt_4096.bin"), 4096)
    assert (table.kind, table.guid, table.fault) == ("gpt", "11111111-2222-4333-8444-666666666666", "")
    assert table.entries == ((1, MIB, 32 * MIB, TYPE_LVM, guid(3), "plumbline:pgdata:1"),)


def test_gpt_of_the_lab_is_what_sfdisk_dumps():
    """A table that this collection wrote, against what sfdisk says of it."""
    table = parse_table(fixture("gpt_lab.bin"), 512)
    dump = fixture("gpt_lab.sfdisk").decode()
    (entry,) = table.entries
    assert "label-id: " + table.guid in dump
    found = 'start=%12d, size=%12d, type=%s, uuid=%s, name="%s"' % (entry.start // 512, entry.size // 512, entry.type, entry.guid, entry.name)
    assert found in dump


def test_gpt_read_with_the_wrong_block_size_is_no_gpt():
    assert parse_table(fixture("gpt_4096.bin"), 512).kind == "protective"
    assert parse_table(fixture("gpt_512.bin"), 4096).kind == "protective"


def test_mbr_of_sfdisk():
    table = parse_table(fixture("mbr_512.bin"), 512)
    assert (table.kind, table.guid, table.fault) == ("mbr", "", "")
    assert [tuple(entry)[:4] for entry in table.entries] == [
        (1, 63 * 512, 2048 * 512, "07"),
        (2, 4096 * 512, 8192 * 512, "83"),
        (3, 16384 * 512, 32768 * 512, "extended"),
    ]


# --- what a small builder makes --------------------------------------------------------------------


@pytest.mark.parametrize("logical", [512, 1024, 2048, 4096])
def test_gpt_round_trip(logical):
    """Hundreds of tables with random entries at random places."""
    dice = random.Random(logical)
    for _row in range(300):
        numbers = sorted(dice.sample(range(128), dice.choice((0, 1, 2, 4, 40, 128))))
        raw = [b""] * 128
        wanted = []
        for number in numbers:
            first = dice.randrange(34, 1 << 33)
            last = first + dice.randrange(0, 1 << 30)
            name = dice.choice(("", "plumbline:pgdata:%d" % number, "Grüße 测试 😀", "x" * 36))
            kind = dice.choice((TYPE_LVM, TYPE_LINUX))
            raw[number] = gpt_entry(kind, guid(number), first, last, name)
            wanted.append((number + 1, first * logical, (last - first + 1) * logical, kind, guid(number), name))
        table = parse_table(build_gpt(logical, raw), logical)
        assert (table.kind, table.guid, table.fault) == ("gpt", DISK_GUID, "")
        assert [tuple(entry) for entry in table.entries] == wanted


def test_larger_header_and_fewer_entries():
    raw = build_gpt(512, [gpt_entry(TYPE_LVM, guid(1), 2048, 4095, "a")], count=4, length=256, header_size=512)
    assert parse_table(raw, 512).entries == ((1, MIB, MIB, TYPE_LVM, guid(1), "a"),)


SOUND = build_gpt(512, [gpt_entry(TYPE_LVM, guid(1), 2048, 4095, "plumbline:pgdata:0")])


def reseal(head):
    """Give a tampered header a right checksum."""
    head = bytearray(head)
    head[528:532] = b"\0" * 4
    head[528:532] = struct.pack("<I", zlib.crc32(bytes(head[512:604])))
    return bytes(head)


@pytest.mark.parametrize("at", list(range(512, 604)))
def test_every_byte_of_the_header_counts(at):
    broken = bytearray(SOUND)
    broken[at] ^= 0x01
    table = parse_table(bytes(broken), 512)
    if at < 520:
        assert table.kind == "protective"
    else:
        assert table.kind == "gpt" and table.fault and not table.entries


def test_every_byte_of_the_entries_counts():
    for at in range(1024, 1024 + 128 * 128, 7):
        broken = bytearray(SOUND)
        broken[at] ^= 0x80
        assert parse_table(bytes(broken), 512).fault == "the checksum of the GPT's entries is wrong"


@pytest.mark.parametrize(
    "at, layout, value, fault",
    [
        (524, "<I", 91, "the GPT header says that it is 91 bytes long"),
        (524, "<I", 513, "the GPT header says that it is 513 bytes long"),
        (584, "<Q", 1 << 40, "the GPT's 128 entries of 128 bytes at sector 1099511627776 lie outside what was read"),
        (584, "<Q", 3, "the GPT's 128 entries of 128 bytes at sector 3 lie outside what was read"),
        (592, "<I", 1 << 31, "the GPT's 2147483648 entries of 128 bytes at sector 2 lie outside what was read"),
        (592, "<I", 129, "the GPT's 129 entries of 128 bytes at sector 2 lie outside what was read"),
        (596, "<I", 64, "the GPT's 128 entries of 64 bytes at sector 2 lie outside what was read"),
        (596, "<I", 1 << 30, "the GPT's 128 entries of 1073741824 bytes at sector 2 lie outside what was read"),
    ],
)
def test_nonsense_in_a_sealed_header(at, layout, value, fault):
    head = bytearray(SOUND)
    struct.pack_into(layout, head, at, value)
    table = parse_table(reseal(head), 512)
    assert table.fault == fault and table.entries == ()


def test_a_faulty_table_is_a_table():
    """A disk whose GPT is damaged is never taken for one without."""
    dice = random.Random(4)
    for _row in range(500):
        broken = bytearray(SOUND)
        for _hit in range(dice.randrange(1, 6)):
            broken[dice.randrange(520, len(broken))] = dice.randrange(256)
        table = parse_table(bytes(broken), 512)
        assert table is not None and (table.fault or bytes(broken) == SOUND or table.entries)


# --- MBR -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "head, expected",
    [
        (b"\0" * 512, None),
        (build_mbr(), None),
        (build_mbr((0, 0x83, 2048, 0)), None),
        (build_mbr((0, 0, 2048, 100)), None),
        (build_mbr((0, 0x83, 63, 100)), ("mbr", [(1, 63, 100, "83")])),
        (build_mbr((0x80, 0x07, 2048, 100), (0, 0x05, 4096, 100)), ("mbr", [(1, 2048, 100, "07"), (2, 4096, 100, "extended")])),
        (build_mbr((0, 0x0F, 2048, 1), (0, 0x85, 4096, 1)), ("mbr", [(1, 2048, 1, "extended"), (2, 4096, 1, "extended")])),
        (build_mbr((0, 0, 0, 0), (0, 0x83, 0xFFFFFFFF, 0xFFFFFFFF)), ("mbr", [(2, 0xFFFFFFFF, 0xFFFFFFFF, "83")])),
        (build_mbr((0x33, 0x83, 63, 100)), None),
        (protective_mbr(), ("protective", [])),
        (build_mbr((0, 0xEE, 1, 100), (0, 0x83, 2048, 100)), ("protective", [(2, 2048, 100, "83")])),
    ],
)
@pytest.mark.parametrize("logical", [512, 4096])
def test_mbr(head, expected, logical):
    table = parse_table(head.ljust(gpt_head_bytes(logical), b"\0"), logical)
    if expected is None:
        assert table is None
    else:
        rows = [(number, first * logical, sectors * logical, kind, "", "") for number, first, sectors, kind in expected[1]]
        assert (table.kind, [tuple(entry) for entry in table.entries]) == (expected[0], rows)


def test_noise_never_raises():
    dice = random.Random(5)
    for _row in range(300):
        head = bytearray(dice.randbytes(gpt_head_bytes(512)))
        head[510:512] = b"\x55\xaa"
        if dice.random() < 0.5:
            head[512:520] = b"EFI PART"
        parse_table(bytes(head), 512)


@pytest.mark.parametrize("logical, expected", [(512, 34 * 512), (4096, 6 * 4096)])
def test_gpt_head_bytes(logical, expected):
    assert gpt_head_bytes(logical) == expected


# --- ext4 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, expected",
    [
        (
            "ext4_striped.bin",
            {
                "uuid": "12345678-1234-5678-9abc-def012345678", "label": "pgdata-data", "block": 4096, "blocks": 524288, "stride": 16,
                "stripe_width": 32, "errors": "continue", "features": ("extent", "64bit", "flex_bg", "sparse_super", "large_file", "metadata_csum"),
            },
        ),
        (
            "ext4_1k.bin",
            {"uuid": "12345678-1234-5678-9abc-def012345679", "label": "tiny", "block": 1024, "blocks": 8192,
             "stride": 0, "stripe_width": 0, "errors": "remount-ro"},
        ),
        ("ext2.bin", {"label": "old", "block": 1024, "blocks": 8192, "stride": 0, "features": ("sparse_super", "large_file")}),
        ("ext4_lv.bin", {"uuid": "f5c6ed2e-4c6a-5448-978d-7b743ef3a3fe", "label": "pgdata-data", "block": 4096, "stride": 16, "stripe_width": 32}),
    ],
)  # fmt: skip
def test_ext4_of_mke2fs(name, expected):
    found = EXT4.parse(fixture(name))
    assert {key: getattr(found, key) for key in expected} == expected


def test_ext4_lv_fills_its_device():
    assert EXT4.parse(fixture("ext4_lv.bin")).blocks * 4096 == 10812915712


@pytest.mark.parametrize("raw", [b"", bytes(1024), fixture("ext4_striped.bin")[:1023], b"\xff" * 1024, fixture("ext4_striped.bin")[:0x38] + bytes(968)])
def test_no_ext4(raw):
    assert EXT4.parse(raw) is None


def test_ext4_birth_beyond_2106():
    raw = bytearray(fixture("ext4_striped.bin"))
    assert 1_700_000_000 < EXT4.parse(bytes(raw)).made < 1 << 32
    struct.pack_into("<IB", raw, 0x108, 5, 0)
    raw[0x276] = 1
    assert EXT4.parse(bytes(raw)).made == (1 << 32) + 5


def test_ext4_size_beyond_32_bits():
    raw = bytearray(fixture("ext4_striped.bin"))
    struct.pack_into("<I", raw, 0x150, 3)
    assert EXT4.parse(bytes(raw)).blocks == 524288 + (3 << 32)
    assert EXT4.superblock[0] == 1024


@pytest.mark.parametrize("version, sectors, start", [(1, 99, 8192), (4, 2048, 1 << 20), (6, 16, 8192), (3, 16, 0), (0, 16, 0)])
def test_where_the_data_of_a_bcache_begins(version, sectors, start):
    raw = bytearray(4096)
    raw[24:40] = bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")
    struct.pack_into("<Q", raw, 16, version)
    struct.pack_into("<Q", raw, 184, sectors)
    assert bcache_data_start(bytes(raw)) == start
    assert bcache_data_start(bytes(4096)) == bcache_data_start(b"") == 0
