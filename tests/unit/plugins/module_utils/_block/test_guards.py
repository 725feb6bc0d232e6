# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import itertools
import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards, identity, ownership
from ansible_collections.plumbline.ssd.plugins.module_utils._block import reasons as judge_reasons
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, Signature, Table, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, fixture

TRAPS = {record["id"]: record for record in json.loads(fixture("identity.json"))}


@pytest.mark.parametrize(
    "name, expected",
    [
        ("plumbline:pgdata:0", ("pgdata", 0)),
        ("plumbline:p:99", ("p", 99)),
        ("plumbline:" + "p" * 20 + ":1", ("p" * 20, 1)),
        ("plumbline:" + "p" * 21 + ":1", None),
        ("plumbline:pgdata:100", None),
        ("plumbline:pgdata:", None),
        ("plumbline:pgdata", None),
        ("plumbline:PgData:0", None),
        ("plumbline:pgdata:0 ", None),
        ("plumbline:pgdata:0\n", None),
        (" plumbline:pgdata:0", None),
        ("plumbline:pgdata:-1", None),
        ("Plumbline:pgdata:0", None),
        ("plumbline::0", None),
        ("", None),
    ],
)
def test_our_name(name, expected):
    assert ownership.our_name(name) == expected


def entry(name="plumbline:pgdata:0"):
    return TableEntry(1, MIB, GIB, "T", "G", name)


@pytest.mark.parametrize(
    "table, expected",
    [
        (None, False),
        (Table("gpt", "G", (entry(),)), True),
        (Table("gpt", "G", ()), False),
        (Table("gpt", "G", (entry(), entry())), False),
        (Table("gpt", "G", (entry("plumbline:mysql:0"),)), False),
        (Table("gpt", "G", (entry("data"),)), False),
        (Table("mbr", "", (entry(),)), False),
        (Table("protective", "", (entry(),)), False),
        (Table("gpt", "G", (entry(),), "the checksum of the GPT's entries is wrong"), False),
    ],
)
def test_is_ours(table, expected):
    assert ownership.is_ours(table, "pgdata") is expected


# --- identity --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "0", "0000000000000000", "eui.0000000000000000", "eui.00000000000000000000000000000000", "naa.0000000000000000", "nguid.0", "ffffffff",
        "FFFFFFFFFFFFFFFF", "eui.ffffffffffffffff", "None", "unknown", "N/A", "default", "serial", "0123456789ABCDEF", "123456789", "1234567890", "xxxxxxxx",
        "uuid.00000000-0000-0000-0000-000000000000", "0 0 0", "--", "t10.0000", "  000000  ",
    ],
)  # fmt: skip
def test_placeholders(text):
    assert identity.is_placeholder(text)


@pytest.mark.parametrize(
    "text",
    [
        "S4EVNF0M123456", "eui.0025385391b15a3f", "naa.5002538e40a1b2c3", "nvme.1b36-504c554d4230303031-51454d55204e564d65204374726c-00000001",
        "t10.ATA     QEMU HARDDISK   QM00001", "0000000000000001", "000000000F", "vol0123456789abcdef0", "AWS1234", "PLUMB0001", "1", "  S1 ", "serial1",
    ],
)  # fmt: skip
def test_no_placeholders(text):
    assert not identity.is_placeholder(text)


def test_traps_of_real_devices():
    """EUI-64 or WWN all zero (PM9D3, BX500): none. NGUID and serial of the same drives count."""
    assert TRAPS["samsung-pm9d3-3t84-fdp-4k-only"]["facts"]["eui64"] == 0 and identity.is_placeholder("eui.%016x" % 0)
    wwn = TRAPS["crucial-bx500-960gb-link3g"]["facts"]["wwn"]
    assert identity.is_placeholder("naa.%x%06x%09x" % (wwn["naa"], wwn["oui"], wwn["id"]))
    assert not identity.is_placeholder("%s0000000000000000000000000000" % TRAPS["samsung-pm9d3-3t84-fdp-4k-only"]["facts"]["nguid_oui"])


def identities(*pairs):
    """A host whose disks have these (wwid, serial, model)."""
    host = Host()
    for wwid, serial, model in pairs:
        devno = host.disk()
        host.edit(devno, identity=Identity(wwid=wwid, serial=serial, model=model))
    return host


@pytest.mark.parametrize(
    "first, second, refused",
    [
        (("eui.1", "S1", "M"), ("eui.2", "S2", "M"), False),
        (("eui.1", "S1", "M"), ("eui.1", "S1", "M"), True),  # two paths to one disk
        (("eui.1", "S1", "M"), ("eui.2", "S1", "M"), False),  # two namespaces share model and serial
        (("", "S1", "M"), ("", "S1", "M"), True),  # one serial for all disks of a controller
        (("", "S1", "M"), ("", "S1", "N"), False),
        (("", "S1", "M"), ("", "S2", "M"), False),
        (("eui.0000000000000000", "S1", "M"), ("eui.0000000000000000", "S2", "M"), False),  # EUI-64 all zero: the serials tell
        (("eui.0000000000000000", "S1", "M"), ("eui.0000000000000000", "S1", "M"), True),
        (("naa.0", "S1", "M"), ("eui.9", "S1", "M"), True),
        (("", "", "M"), ("eui.2", "S2", "M"), True),  # Azure: no WWN; and no serial either
        (("", "S1", "M"), ("eui.2", "S2", "M"), False),
        (("", "0000000000", "M"), ("eui.2", "S2", "M"), True),
        (("unknown", "none", "M"), ("eui.2", "S2", "M"), True),
    ],
)
def test_identity_table(first, second, refused):
    host = identities(first, second)
    reasons = guards.identity_reasons(host.seen, host.seen.nodes["259:0"])
    path = first == second and first[0] == "eui.1"
    assert [reason.name for reason in reasons] == (["multipath" if path else "identity"] if refused else [])


def test_key_of_an_identity():
    assert Identity(wwid="eui.1", serial="S", model="M").key == "wwid:eui.1"
    assert Identity(serial="S", model="M").key == "serial:M/S"
    assert Identity(wwid="eui.1", test="t").key == "test:t"
    assert Identity(model="M").key == ""


# --- use and content -------------------------------------------------------------------------------


def test_every_combination_of_uses():
    """Each thing that speaks against a device is named, whatever else does: 2^7 devices."""
    marks = ("mounted", "swap", "read_only", "removable", "busy", "unreadable", "pv")
    for chosen in itertools.product((False, True), repeat=len(marks)):
        wanted = {mark for mark, on in zip(marks, chosen) if on}
        host = Host()
        disk = host.disk(read_only="read_only" in wanted, removable="removable" in wanted)
        if "mounted" in wanted:
            host.mount(disk, "/x")
        if "swap" in wanted:
            host.seen.swaps.append(disk)
        if "busy" in wanted:
            host.seen.busy[disk] = "in use by the kernel or another program"
        if "unreadable" in wanted:
            host.seen.faults[disk] = "the first sectors could not be read: Input/output error"
        if "pv" in wanted:
            host.pv(disk, "v")
        assert {reason.name for reason in guards.take_reasons(host.seen, disk)} == wanted


def test_what_lies_on_a_partition_counts():
    host = Host()
    disk = host.disk()
    part = host.part(disk, MIB, name="Windows")
    host.seen.signatures[part] = [Signature("ntfs", "filesystem", 3, "u", "C")]
    lv = host.part(disk, 2 * GIB)
    host.pv(lv, "v")
    host.mount(part, "/win")
    lines = [reason.line("sdx") for reason in guards.take_reasons(host.seen, disk)]
    assert [line.split("; ")[0] for line in lines] == [
        "sdx: nvme0n1p1 is mounted on /win [mounted]",
        "sdx: it carries a GPT partition table",
        "sdx: nvme0n1p1 carries ntfs filesystem at byte 3 (label 'C') [signature]",
        "sdx: nvme0n1p2 carries an LVM PV of VG 'v' [signature]",
    ]
    assert "; partitions: 1 'Windows', 2 [table]; " in lines[1]


def test_holders_anywhere_in_the_tree():
    host = Host()
    disk = host.disk()
    part = host.part(disk, MIB)
    host.edit(part, holders=("253:77",))
    assert "nvme0n1p1 is held by 253:77 (unknown)" in [reason.text for reason in guards.use_reasons(host.seen, host.seen.nodes[disk])]


def test_a_partition_is_no_disk():
    host = Host()
    part = host.part(host.disk(serial="ONE"), MIB)
    (reason,) = guards.take_reasons(host.seen, part)
    assert reason == ("not_a_disk", "nvme0n1p1 is a partition of nvme0n1", "name the whole disk, nvme-Flash_9000_ONE")


@pytest.mark.parametrize(
    "data, unread, names",
    [
        ((), (), []),
        (("unrecognised data that is not zero, first at byte 4096 (4 KiB from the start)",), (), ["data"]),
        (("the label says 'could not'",), (), ["data"]),
        ((), ("byte 0 could not be read: Input/output error",), ["unreadable"]),
        ((), ("the device vanished",), ["unreadable"]),
    ],
)
def test_proof_faults(data, unread, names):
    host = Host()
    disk = host.disk()
    host.seen.proofs[disk] = BlankProof(1, 1, data, unread=unread)
    assert [reason.name for reason in guards.take_reasons(host.seen, disk)] == names


@pytest.mark.parametrize("usage, refused", [("partition-table", False), ("filesystem", True), ("raid", True), ("crypto", True), ("", True)])
def test_signatures_of_the_table_itself_are_not_told_twice(usage, refused):
    host = Host()
    disk = host.disk()
    host.seen.tables[disk] = Table("gpt", "G", (entry(),))
    host.seen.signatures[disk] = [Signature("x", usage, 0)]
    names = [reason.name for reason in guards.content_reasons(host.seen, host.seen.nodes[disk])]
    assert names == (["table", "signature"] if refused else ["table"])


def test_reason_in_both_forms():
    reason = judge_reasons.Reason("busy", "it is open", "close it")
    assert reason.line("device sda") == "device sda: it is open [busy]; close it"
    assert reason.as_dict("sda") == {"device": "sda", "name": "busy", "found": "it is open", "remedy": "close it"}


def test_describe():
    host = Host()
    blank, foreign, unknown, mounted = host.pair(4)
    host.seen.tables[foreign] = Table("mbr", "", (entry(""), entry("")))
    del host.seen.proofs[unknown]
    del host.seen.proofs[mounted]
    host.mount(mounted, "/x")
    lines = [guards.describe_disk(host.seen, devno) for devno in (blank, foreign, unknown, mounted)]
    assert [line.split("  ")[-1] for line in lines] == ["blank", "mbr, 2 partitions", "not examined", "in use"]
    assert lines[0] == "nvme0n1  Flash 9000  SER0000  100 GiB  blank"
    host.edit(blank, identity=Identity())
    assert guards.describe_disk(host.seen, blank) == "nvme0n1  disk  -  100 GiB  blank"
