# SPDX-License-Identifier: GPL-3.0-or-later
"""One row at least for each guard: with it the device is refused, by its name; without it, by nobody."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards
from ansible_collections.plumbline.ssd.plugins.module_utils._block import identity as model_identity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.hidden_pv import HiddenPv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, Signature, Table, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, spec

DISK = "259:0"
TUPLES = ("IDENTITY_GUARDS", "USE_GUARDS", "CONTENT_GUARDS", "VOLUME_GUARDS")
TAKEN = ("IDENTITY_GUARDS", "USE_GUARDS", "CONTENT_GUARDS")


def identity(**more):
    return lambda host: host.edit(DISK, identity=host.seen.nodes[DISK].identity._replace(**more))


def twin(**more):
    return lambda host: host.disk(wwid=host.seen.nodes[DISK].identity.wwid, **more)


def part(host, then=None):
    """A partition that the kernel shows and no table of ours tells of."""
    devno = host.part(DISK, MIB, GIB, listed=False)
    host.seen.proofs[DISK] = BlankProof(1, 1)
    if then:
        then(host, devno)


def put(where, value):
    return lambda host: getattr(host.seen, where).__setitem__(DISK, value)


def signature(kind="xfs", usage="filesystem", offset=0):
    return [Signature(kind, usage, offset)]


def inner(where, value):
    return lambda host: part(host, lambda one, devno: getattr(one.seen, where).__setitem__(devno, value))


# Guard → rows of (what makes it speak, the reason's name, words of its text).
ROWS = {
    "guard_test_identity": [(identity(test="lab"), "identity", "a test identity is set for a real disk")],
    "guard_loop": [(lambda h: h.edit(DISK, kind="loop", identity=Identity()), "identity", "a loop device has no stable identity")],
    "guard_no_identity": [
        (identity(wwid="", serial=""), "identity", "neither a WWID nor a serial"),
        (identity(wwid="eui.0000000000000000", serial=""), "identity", "'eui.0000000000000000' is a placeholder"),
        (identity(wwid="", serial="1234567890ABCDEF"), "identity", "is a placeholder"),
        (identity(wwid="nvme.1b36-30303030303030-51454d55-00000001", serial="0000000"), "identity", "is a placeholder"),
        (identity(wwid="nvme.1b36--51454d55-00000001", serial=""), "identity", "is a placeholder"),
        (identity(wwid="t10.ATA     FLASH                                   000000000000", serial=""), "identity", "is a placeholder"),
    ],
    "guard_paths": [(twin(serial="SER0000"), "multipath", "nvme1n1 are paths to one disk")],
    "guard_twins": [
        (twin(serial="OTHER"), "identity", "it shares its identity eui.000000000000a000 with nvme1n1"),
        (twin(serial="SER0000", size=99 * GIB), "identity", "it shares its identity"),
        (lambda h: (identity(wwid="")(h), h.disk(wwid="", serial="SER0000")), "identity", "it shares its identity SER0000"),
    ],
    "guard_one_ssd": [
        (lambda h: h.disk(serial="SER0000"), "twin", "it and nvme1n1 are namespace 1 of one SSD, serial SER0000, by two controllers"),
    ],
    "guard_mounted": [
        (lambda h: h.mount(DISK, "/x"), "mounted", "nvme0n1 is mounted on /x"),
        (lambda h: h.mount(DISK, "/x", here=False), "mounted", "in another mount namespace"),
        (lambda h: part(h, lambda one, devno: one.mount(devno, "/x")), "mounted", "nvme0n1p1 is mounted on /x"),
        (lambda h: h.seen.members.update({DISK: ("8:0", DISK)}), "mounted", "nvme0n1 is one of 2 devices of a filesystem that the kernel has in use"),
    ],
    "guard_swap": [
        (lambda h: h.seen.swaps.append(DISK), "swap", "nvme0n1 is in use as swap"),
        (lambda h: part(h, lambda one, devno: one.seen.swaps.append(devno)), "swap", "nvme0n1p1 is in use as swap"),
    ],
    "guard_held": [
        (lambda h: h.edit(DISK, holders=("253:9",)), "held", "nvme0n1 is held by 253:9 (unknown)"),
        (lambda h: part(h, lambda one, devno: one.edit(devno, holders=("253:9",))), "held", "nvme0n1p1 is held by 253:9"),
    ],
    "guard_backing": [
        (put("backings", ["loop device loop3"]), "backing", "nvme0n1 backs loop device loop3"),
        (inner("backings", ["namespace 1 of NVMe target x"]), "backing", "nvme0n1p1 backs namespace 1 of NVMe target x"),
    ],
    "guard_open": [
        (put("openers", ["postgres (71)"]), "open", "nvme0n1 is open in postgres (71)"),
        (put("openers", ["a (1)", "b (2)", "c (3)", "d (4)", "e (5)"]), "open", "a (1), b (2), c (3) and 2 more"),
        (inner("openers", ["dd (72)"]), "open", "nvme0n1p1 is open in dd (72)"),
    ],
    "guard_multipath_member": [(lambda h: h.seen.multipath.append(DISK), "multipath", "one path of a multipath map")],
    "guard_read_only": [(lambda h: h.edit(DISK, read_only=True), "read_only", "it is read-only")],
    "guard_zoned": [(lambda h: h.edit(DISK, zoned="host-managed"), "zoned", "it is zoned")],
    "guard_removable": [(lambda h: h.edit(DISK, removable=True), "removable", "it is removable")],
    "guard_not_a_disk": [(lambda h: h.edit(DISK, kind="md"), "not_a_disk", "nvme0n1 is an md array"),
                         (lambda h: h.edit(DISK, kind="zvol"), "not_a_disk", "nvme0n1 is a device of kind zvol"),
                         (lambda h: h.edit(DISK, kind="part", parent=h.disk(serial="WHOLE")), "not_a_disk", "nvme0n1 is a partition of nvme1n1")],
    "guard_busy": [(put("busy", "in use by the kernel or another program"), "busy", "it cannot be opened alone"),
                   (put("busy", "Permission denied"), "blocked", "it cannot be opened alone: Permission denied")],
    "guard_unreadable": [(put("faults", "the first sectors could not be read: Input/output error"), "unreadable", "Input/output error"),
                         (put("faults", "the first sectors could not be read: Operation not permitted"), "blocked", "Operation not permitted")],
    "guard_table": [
        (put("tables", Table("gpt", "G", ())), "table", "a GPT partition table, empty"),
        (put("tables", Table("mbr", "", (TableEntry(1, MIB, GIB, "83", "", ""),))), "table", "a MBR partition table; partitions: 1"),
        (put("tables", Table("protective")), "table", "a protective MBR partition table"),
        (put("tables", Table("gpt", "G", (), "the GPT header's checksum is wrong")), "table", "(the GPT header's checksum is wrong)"),
        (put("tables", Table("gpt", "G", (TableEntry(1, MIB, GIB, "T", "G", "plumbline:other:0"),))), "table", "1 'plumbline:other:0'"),
    ],
    "guard_unknown_table": [(part, "table", "of a kind not known here; the kernel shows partitions: nvme0n1p1")],
    "guard_pv": [(lambda h: h.pv(DISK, "vg"), "pv", "an LVM PV of VG 'vg'"), (lambda h: h.pv(DISK, ""), "pv", "an LVM PV of no VG")],
    "guard_hidden_pv": [
        (put("hidden", HiddenPv("vg", "U", ("a filter",))), "hidden", "nvme0n1 carries an LVM PV of VG 'vg' that LVM does not list, since a filter"),
        (inner("hidden", HiddenPv("", "U", ("the devices file",))), "hidden", "nvme0n1p1 carries an LVM PV of no VG that LVM does not list"),
    ],
    "guard_filesystem": [(lambda h: h.ext4(DISK, "ledger"), "signature", "an ext filesystem labelled 'ledger'")],
    "guard_inside": [
        (inner("signatures", signature()), "signature", "nvme0n1p1 carries xfs filesystem at byte 0"),
        (lambda h: part(h, lambda one, devno: one.pv(devno, "vg")), "signature", "nvme0n1p1 carries an LVM PV of VG 'vg'"),
        (lambda h: part(h, lambda one, devno: one.ext4(devno)), "signature", "nvme0n1p1 carries an ext filesystem"),
    ],
    "guard_signature": [(put("signatures", signature()), "signature", "it carries a signature: xfs filesystem at byte 0")],
    "guard_marks": [
        (put("marks", signature("oracleasm", "database", 32)), "signature", "it carries the mark of oracleasm database at byte 32"),
        (put("marks", signature("ext", "filesystem", MIB + 1080)), "signature", "the mark of ext filesystem at byte 1049656"),
        (put("marks", signature("gpt backup", "partition-table", 99)), "signature", "the mark of gpt backup partition-table"),
    ],
    "guard_inside_data": [(inner("proofs", BlankProof(1, 1, ("data, first at byte 0",))), "data", "nvme0n1p1 carries nothing that is known, and data")],
    "guard_unreadable_sample": [(put("proofs", BlankProof(1, 1, unread=("byte 0 could not be read: Input/output error",))), "unreadable", "byte 0")],
    "guard_data": [(put("proofs", BlankProof(1, 1, ("unrecognised data that is not zero, first at byte 4096",))), "data", "not zero")],
}
CASES = [pytest.param(guard, number, id="%s-%d" % (guard, number)) for guard, rows in ROWS.items() for number in range(len(rows))]


def spoilt(guard, number):
    host = Host()
    host.disk()
    ROWS[guard][number][0](host)
    return host


def drop(monkeypatch, name):
    """The guards without one of them."""
    for one in TUPLES:
        monkeypatch.setattr(guards, one, tuple(guard for guard in getattr(guards, one) if guard.__name__ != name))


@pytest.fixture(autouse=True)
def alone(request, monkeypatch):
    """A partition without a known table speaks by itself; the rows that put something into one are about that."""
    given = request.node.callspec.params.get("guard") if hasattr(request.node, "callspec") else None
    if given and given != "guard_unknown_table":
        drop(monkeypatch, "guard_unknown_table")


def test_every_guard_has_a_row():
    names = [guard.__name__ for one in TAKEN for guard in getattr(guards, one)]
    assert sorted(names) == sorted(ROWS) and len(set(names)) == len(names)
    assert {guard.__name__ for guard in guards.VOLUME_GUARDS} <= set(names)
    assert {name for name in dir(guards) if name.startswith("guard_")} == set(names)


@pytest.mark.parametrize("guard, number", CASES)
def test_each_guard_speaks_and_no_other_does(guard, number):
    _spoil, name, words = ROWS[guard][number]
    reasons = guards.take_reasons(spoilt(guard, number).seen, DISK)
    assert [reason.name for reason in reasons] == [name], reasons
    assert words in reasons[0].text
    assert reasons[0].remedy


@pytest.mark.parametrize("guard, number", CASES)
def test_without_the_guard_the_device_would_be_taken(monkeypatch, guard, number):
    """So nothing else stands in for it, and a test fails where one is left out."""
    drop(monkeypatch, guard)
    assert guards.take_reasons(spoilt(guard, number).seen, DISK) == []


@pytest.mark.parametrize("guard, number", CASES)
def test_plan_and_write_refuse_alike(guard, number):
    host = spoilt(guard, number)
    name = ROWS[guard][number][1]
    disk = host.seen.nodes[DISK]
    stacks = spec(host, [], devices=["/dev/nvme0n1"], layout="separate", volumes=[{"name": "a"}])
    plan = make_plan(stacks, host.seen)
    assert plan.steps == [] and any("[%s]" % name in line for line in plan.refusals), plan.refusals
    if guard not in ("guard_unreadable_sample", "guard_data", "guard_inside_data"):  # the proof is made anew at the write
        assert [reason.name for reason in guards.write_reasons(host.seen, disk)] == [name]


def test_what_is_told_is_not_told_twice():
    """A mark that libblkid knows by the same type, that of a table which is there, and one inside a partition."""
    host = Host()
    host.disk()
    part(host)
    host.seen.tables[DISK] = Table("gpt", "G", ())
    host.seen.signatures[DISK] = signature("zfs_member", "filesystem", 135168)
    host.seen.marks[DISK] = [
        Signature("zfs_member", "filesystem", 136192),
        Signature("gpt", "partition-table", 512),
        Signature("ext", "filesystem", MIB + 1080),
    ]
    assert guards.guard_marks(host.seen, host.seen.nodes[DISK]) == []
    host.seen.marks[DISK].append(Signature("ext", "filesystem", 1080))
    assert len(guards.guard_marks(host.seen, host.seen.nodes[DISK])) == 1
    host.ext4(DISK)
    assert guards.guard_marks(host.seen, host.seen.nodes[DISK]) == []


@pytest.mark.parametrize(
    "text",
    ["11111111", "AAAAAAAA", "xxxxxxxxxxxx", "123456789012", "1234567890ABCDEF", "0123456789ABCDEF0123", "abcdefgh", "98765432109", "Serial Number",
     "To be filled by O.E.M.", "Not Specified", "(null)", "NULL", "invalid", "No Serial", "S/N", "DEADBEEF", "naa.3333333333333333", "eui.1111111111111111"],
)  # fmt: skip
def test_placeholders(text):
    assert model_identity.is_placeholder(text)


@pytest.mark.parametrize(
    "text", ["111", "12345", "S1234567", "0025385391b15a3f", "2038E4B3AB11", "1234567X", "PLUMB0001", "AA000000000000000489", "vol0a1b2c3d4e5f60718"]
)
def test_serials_that_count(text):
    assert not model_identity.is_placeholder(text)


@pytest.mark.parametrize(
    "wwid, serial, stable",
    [
        ("eui.0025385391b15a3f", "", True),
        ("nvme.1b36-504c554d4230303031-51454d55204e564d65204374726c-00000001", "PLUMB0001", True),
        ("nvme.1b36-2020202020-51454d55-00000001", "", False),
        ("nvme.1b36-zz-51454d55-00000001", "", True),  # no form of the kernel's: taken as it is
        ("nvme.1b36", "", False),
        ("t10.ATA     QEMU HARDDISK                           QM00001", "QM00001", True),
        ("t10.ATA     SSD                                     AAAAAAAAAAAA", "S1", False),
        ("naa.5002538e40a1b2c3", "0000000000", True),
    ],
)
def test_identifiers_that_are_made_of_a_serial(wwid, serial, stable):
    assert bool(model_identity.stable_wwid(Identity(wwid=wwid, serial=serial, model="M"))) is stable
