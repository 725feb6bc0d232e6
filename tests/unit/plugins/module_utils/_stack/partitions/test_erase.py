# SPDX-License-Identifier: GPL-3.0-or-later
"""Erase: only the device, only its contents as they were seen, and only where nothing uses it."""

from __future__ import annotations

import copy
import re

import pytest
import yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards, read_blank_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, Ends, Node, Signature, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv, Pv
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase, write_tables
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.drawing import diff, steps_report
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host, spec

DISK, OTHER = "259:0", "259:16"


@pytest.fixture(autouse=True)
def held(monkeypatch):
    """Whatever is open is the device that was looked at: these tests have no devices."""
    monkeypatch.setattr(write_tables, "check_held", lambda fd, node: None)


def ends(head):
    """Ends of a disk of 100 GiB that begins with these bytes."""
    return Ends(head.ljust(MIB, b"\0"), bytes(MIB), 100 * GIB - MIB)


def foreign(content="xfs"):
    """Two disks: the first carries something, the second is blank."""
    host = Host()
    host.pair()
    host.seen.ends.update({DISK: ends(b"a"), OTHER: ends(b"")})
    del host.seen.proofs[DISK]
    CONTENT[content](host)
    return host


def in_a_vg(host, name="old"):
    part = host.part(DISK, MIB, 10 * GIB, name="data")
    host.pv(part, name)
    host.vg(name)
    host.seen.lvm = host.seen.lvm._replace(lvs=(Lv(name, "lv", GIB, 1, 0, 1, ("linear",), False),))


CONTENT = {
    "xfs": lambda h: h.seen.signatures.update({DISK: [Signature("xfs", "filesystem", 0, "U", "L")]}),
    "ext4": lambda h: h.ext4(DISK, "ledger"),
    "table": lambda h: h.seen.tables.update({DISK: Table("mbr")}),
    "partitions": lambda h: h.seen.signatures.update({h.part(DISK, MIB, name="Windows"): [Signature("ntfs", "filesystem", 3)]}),
    "pv": lambda h: h.pv(DISK, ""),
    "vg": in_a_vg,
    "vg of our name": lambda h: in_a_vg(h, "pgdata"),
    "mark": lambda h: h.seen.marks.update({DISK: [Signature("oracleasm", "database", 32)]}),
    "data": lambda h: h.seen.proofs.update({DISK: BlankProof(1, 1, ("unrecognised data that is not zero, first at byte 0",))}),
    "another stack of ours": lambda h: h.part(DISK, MIB, name="plumbline:mysql:0"),
}


def wish(host, serial="SER0000", signature=""):
    return [{"serial": serial, "signature": signature or erase.digest(host.seen, DISK)}]


def planned(host, **more):
    return make_plan(spec(host, **more), host.seen)


@pytest.mark.parametrize("content", CONTENT)
def test_the_refusal_prints_what_the_spec_wants_and_the_plan_takes_it(content):
    host = foreign(content)
    refused = planned(host)
    (line,) = [line for line in refused.refusals if line.endswith("[erase]")]
    entry = re.search(r"erase: (\[.*\]) \[erase\]", line)[1]
    assert yaml.safe_load(entry) == wish(host)
    assert "'" not in entry, "Ansible would print each quote twice, and nobody could copy it"
    assert refused.steps == []
    plan = planned(host, erase=wish(host))
    assert plan.refusals == []
    first, second = plan.steps[0]["devices"]
    assert (first["erase"], second["erase"]) == (erase.digest(host.seen, DISK), "")
    assert first["removes"] and second["removes"] == []
    assert plan.steps[0]["summary"] == "erase nvme0n1, then partition nvme0n1, nvme1n1"
    assert [step["action"] for step in plan.steps][:2] == ["partition", "volume_group"]
    before = diff(plan, host.seen)["before"]
    report = "\n".join(steps_report(plan))
    for what in first["removes"]:
        assert "to be erased: %s" % what in before
        assert "erases of /dev/nvme0n1 (SER0000): %s" % what in report


def test_everything_that_goes_is_named():
    host = foreign("partitions")
    host.seen.marks[DISK] = [Signature("gpt backup", "partition-table", 99), Signature("luks", "crypto", 512 * 63)]
    assert erase.contents(host.seen, DISK) == [
        "it carries a GPT partition table; partitions: 1 'Windows'",
        "nvme0n1p1 carries ntfs filesystem at byte 3",
        "it carries the mark of luks crypto at byte 32256",
    ]


CHANGES = {
    "the first MiB": lambda h: h.seen.ends.update({DISK: ends(b"c")}),
    "another signature": lambda h: h.seen.signatures.setdefault(DISK, []).append(Signature("swap", "other", 4086)),
    "an erase before": lambda h: h.seen.erasures.update({DISK: 1}),
    "a label": lambda h: h.seen.signatures.update({DISK: [Signature("xfs", "filesystem", 0, "U", "M")]}),
    "a mark": lambda h: h.seen.marks.update({DISK: [Signature("zfs_member", "filesystem", 1)]}),
    "a partition": lambda h: h.part(DISK, MIB),
    "a PV": lambda h: h.pv(DISK, "vg"),
    "a filesystem": lambda h: h.ext4(DISK),
    "the table": lambda h: h.seen.tables.update({DISK: Table("gpt", "G", ())}),
    "the serial": lambda h: h.edit(DISK, identity=h.seen.nodes[DISK].identity._replace(serial="SER0001")),
    "the WWID": lambda h: h.edit(DISK, identity=h.seen.nodes[DISK].identity._replace(wwid="eui.9")),
    "the model": lambda h: h.edit(DISK, identity=h.seen.nodes[DISK].identity._replace(model="Flash 1")),
    "the size": lambda h: h.edit(DISK, size=99 * GIB),
}


@pytest.mark.parametrize("change", CHANGES)
def test_another_digest_for_anything_else(change):
    host = foreign()
    before = erase.digest(host.seen, DISK)
    CHANGES[change](host)
    assert erase.digest(host.seen, DISK) != before


def test_the_same_digest_after_a_reboot():
    """Kernel names, device numbers' order, diskseq and controllers are others then."""
    host = foreign("partitions")
    before = erase.digest(host.seen, DISK)
    host.edit(DISK, name="nvme7n1", diskseq=99, identity=host.seen.nodes[DISK].identity._replace(controller="nvme7", firmware="2.0"))
    assert erase.digest(host.seen, DISK) == before


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("the serial",)])
def test_a_signature_that_fits_no_longer_is_refused(change):
    host = foreign()
    old = wish(host)
    CHANGES[change](host)
    plan = planned(host, erase=old)
    assert plan.steps == []
    again = " (it was erased on this host before, and is not blank)" if change == "an erase before" else ""
    assert any("and it carries %s now%s [erase]" % (erase.digest(host.seen, DISK), again) in line for line in plan.refusals), plan.refusals


@pytest.mark.parametrize("known", [True, False])
def test_a_pv_that_lvm_does_not_report_is_not_erased(known):
    """No lvm2, or a filter that hides the device: nobody knows what else the group has, and its metadata cannot be kept."""
    host = foreign()
    host.seen.signatures[DISK] = []
    part = host.part(DISK, MIB, 10 * GIB, name="data")
    host.seen.signatures[part] = [Signature("LVM2_member", "raid", 536)]
    if known:
        host.pv(part, "")
    plan = planned(host, erase=wish(host))
    assert any("LVM does not say of which volume group" in line for line in plan.refusals) is not known, plan.refusals
    assert any(line.endswith("[erase]") for line in planned(host).refusals) is known


USES = {
    "mounted": lambda h: h.mount(DISK, "/x"),
    "swap": lambda h: h.seen.swaps.append(DISK),
    "held": lambda h: h.edit(DISK, holders=("9:9",)),
    "backing": lambda h: h.seen.backings.update({DISK: ["loop device loop0"]}),
    "open": lambda h: h.seen.openers.update({DISK: ["dd (1)"]}),
    "busy": lambda h: h.seen.busy.update({DISK: "in use"}),
    "read_only": lambda h: h.edit(DISK, read_only=True),
    "removable": lambda h: h.edit(DISK, removable=True),
    "unreadable": lambda h: h.seen.faults.update({DISK: "it could not be read"}),
    "multipath": lambda h: h.seen.multipath.append(DISK),
    "identity": lambda h: h.disk(wwid="eui.000000000000a000", serial="SERX"),
    "unproven": lambda h: h.seen.ends.pop(DISK),
}


@pytest.mark.parametrize("use", USES)
def test_never_a_device_in_use(use):
    host = foreign()
    USES[use](host)
    assert not any("[erase]" in line for line in planned(host, devices=[host.name(DISK), host.name(OTHER)]).refusals), "offered"
    plan = planned(host, devices=[host.name(DISK), host.name(OTHER)], erase=wish(host))
    assert plan.steps == [] and any("[%s]" % use in line for line in plan.refusals), plan.refusals


def test_a_vg_that_reaches_beyond_the_erased_devices():
    host = foreign("vg")
    third = host.disk()
    host.pv(third, "old")
    devices = [host.name(DISK), host.name(OTHER)]
    plan = planned(host, devices=devices, erase=wish(host))
    assert plan.steps == [] and any("its VG 'old' has a PV on nvme2n1 as well [held]" in line for line in plan.refusals)
    host.seen.lvm = host.seen.lvm._replace(pvs=host.seen.lvm.pvs[:1] + (Pv("-1:-1", "[unknown]", "U", "old", MIB, 9),))
    assert planned(host, devices=devices, erase=wish(host)).refusals == []  # a PV that is not there loses nothing


def test_both_devices_of_a_vg():
    host = foreign("vg")
    del host.seen.proofs[OTHER]
    host.pv(OTHER, "old")
    both = wish(host) + [{"serial": "SER0001", "signature": erase.digest(host.seen, OTHER)}]
    assert planned(host, erase=wish(host)).steps == []
    assert [device["erase"] != "" for device in planned(host, erase=both).steps[0]["devices"]] == [True, True]


def test_both_devices_of_a_vg_are_offered():
    """As the refusal prints them they work, and only together: one alone would tear the group."""
    host = foreign("vg")
    del host.seen.proofs[OTHER]
    host.pv(OTHER, "old")
    refusals = planned(host).refusals
    offers = [re.search(r"erase: (\[.*\]) \[erase\]", line) for line in refusals if line.endswith("[erase]")]
    wishes = [wish for found in offers if found for wish in yaml.safe_load(found[1])]
    assert [one["serial"] for one in wishes] == ["SER0000", "SER0001"], refusals
    assert [device["erase"] != "" for device in planned(host, erase=wishes).steps[0]["devices"]] == [True, True]
    for one in wishes:
        plan = planned(host, erase=[one])
        assert plan.steps == [] and any("has a PV on" in line for line in plan.refusals), plan.refusals


def test_a_vg_that_reaches_beyond_the_stack_is_not_offered():
    host = foreign("vg")
    host.pv(OTHER, "old")
    refusals = planned(host, devices=["/dev/nvme0n1"], layout="separate", volumes=[{"name": "v"}]).refusals
    assert refusals and not any(line.endswith("[erase]") for line in refusals), refusals


def test_an_erase_that_is_done_is_no_fault():
    """The spec still has the line on the next run: the device is blank by then, or ours."""
    host = foreign()
    old = wish(host)
    host.seen.signatures[DISK] = []
    host.seen.proofs[DISK] = BlankProof(1, 1)
    plan = planned(host, erase=old)
    assert plan.refusals == [] and plan.steps[0]["devices"][0]["erase"] == ""
    assert "needs no erase" in plan.warnings[0]
    host.build(spec(host))
    plan = planned(host, erase=old)
    assert (plan.steps, plan.refusals) == ([], []) and "needs no erase" in plan.warnings[0]


def test_namespaces_that_share_a_serial():
    """The signature tells which of them is meant; the other stays refused."""
    host = foreign()
    host.edit(OTHER, identity=host.seen.nodes[OTHER].identity._replace(serial="SER0000", nsid=2))
    host.ext4(OTHER)
    plan = planned(host, devices=["/dev/nvme0n1", "/dev/nvme1n1"], accept=["shared_controller"], erase=wish(host))
    assert plan.steps == [] and [leg.erase != "" for leg in plan.stacks[0].legs] == [True, False]
    both = wish(host) + [{"serial": "SER0000", "signature": erase.digest(host.seen, OTHER)}]
    plan = planned(host, devices=["/dev/nvme0n1", "/dev/nvme1n1"], accept=["shared_controller"], erase=both)
    assert plan.refusals == [] and [leg.erase != "" for leg in plan.stacks[0].legs] == [True, True]


def test_a_serial_that_no_device_has():
    host = foreign()
    plan = planned(host, erase=wish(host, serial="SER0009"))
    assert plan.steps == [] and "erase names serial 'SER0009', which no device of the stack has (did you mean" in plan.refusals[0]


def test_a_device_without_a_serial_is_not_offered():
    host = foreign()
    host.edit(DISK, identity=host.seen.nodes[DISK].identity._replace(serial="00000000"))
    assert erase.offer(host.seen, DISK, [DISK]) is None
    assert "it has no serial" in erase.obstacles(host.seen, [DISK])[0][0].text


def test_as_erased_leaves_the_rest_alone():
    host = foreign("vg")
    before = copy.deepcopy(host.seen)
    host.seen.signatures[OTHER] = [Signature("xfs", "filesystem", 0)]
    after = erase.as_erased(host.seen, [DISK])
    assert set(after.nodes) == {DISK, OTHER} and after.tables[DISK] is None
    assert (after.lvm.pvs, after.lvm.vgs, after.lvm.lvs) == ((), (), ())
    assert after.signatures == {OTHER: host.seen.signatures[OTHER]}
    assert host.seen.nodes.keys() == before.nodes.keys() and host.seen.lvm == before.lvm


@pytest.mark.parametrize(
    "entry, words",
    [
        ("x", ".erase: found a string; wanted a list of mappings with serial, signature"),
        (["x"], ".erase[0]: found a string; wanted a mapping with serial, signature"),
        ([{"serial": "S"}], ".erase[0]: 'signature' is missing; a refusal prints both"),
        ([{"signature": "0" * 32}], ".erase[0]: 'serial' is missing"),
        ([{"serial": "S", "signature": "0" * 31}], ".erase[0].signature: '0000000000000000000000000000000' does not fit"),
        ([{"serial": "S", "signature": "0" * 31 + "G"}], "does not fit; wanted the 32 characters 0 to f"),
        ([{"serial": "S", "signature": True}], ".erase[0].signature: 'True' does not fit"),
        ([{"serial": "S", "signature": "0" * 32, "force": True}], ".erase[0]: unknown key 'force'"),
        ([{"serial": " ", "signature": "0" * 32}], ".erase[0].serial: found a list; wanted"),
        ([{"serial": "S", "signature": "0" * 32}] * 2, ".erase: signature '00000000000000000000000000000000' is named twice"),
        ({"serial": "S", "signature": "0" * 32}, ".erase: found a mapping; wanted a list"),
    ],
)
def test_mistakes_in_the_spec(entry, words):
    stack = {"name": "pgdata", "devices": ["a", "b"], "volumes": [{"name": "v"}], "erase": entry}
    with pytest.raises(PlumblineError) as caught:
        read_stacks([stack])
    assert words in caught.value.msg


def test_a_selector_takes_nothing_that_has_to_be_erased():
    stack = {"name": "pgdata", "devices": {"model": "*", "count": 2}, "volumes": [{"name": "v"}], "erase": [{"serial": "S", "signature": "0" * 32}]}
    with pytest.raises(PlumblineError, match="a selector takes unused devices only"):
        read_stacks([stack])


# --- at the write ----------------------------------------------------------------------------------


def proven(monkeypatch, host, change=lambda host: None):
    devices = make_plan(spec(host, devices=[host.name(DISK), host.name(OTHER)], erase=wish(host)), host.seen).steps[0]["devices"]
    change(host)
    monkeypatch.setattr(write_tables, "observe", lambda _run, ask: host.seen)
    jobs = []
    monkeypatch.setattr(read_blank_proof, "prove_all", lambda asked: jobs.extend(asked) or [BlankProof(1, 1) for _job in asked])
    return write_tables._prove(lambda argv, text: (0, "", ""), devices, [-1] * len(devices)), jobs


def test_the_other_devices_are_proven_blank_all_the_same(monkeypatch):
    found, jobs = proven(monkeypatch, foreign())
    assert [device["device"] for device in found.todo] == ["/dev/nvme0n1", "/dev/nvme1n1"]
    assert [job["path"] for job in jobs] == ["/dev/nvme1n1"]


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in ("the serial", "the WWID", "the model", "the size")])
def test_contents_that_changed_since_the_plan(monkeypatch, change):
    with pytest.raises(PlumblineError) as caught:
        proven(monkeypatch, foreign(), CHANGES[change])
    assert any("what it carries changed since the plan" in line and "[erase]" in line for line in caught.value.reasons)


@pytest.mark.parametrize("use", USES)
def test_a_use_that_began_since_the_plan(monkeypatch, use):
    with pytest.raises(PlumblineError) as caught:
        proven(monkeypatch, foreign(), USES[use])
    assert any("[%s]" % use in line for line in caught.value.reasons), caught.value.reasons


class Drive:
    """A drive in memory that takes discards and zeros; *keeps*: its discard is only a hint."""

    def __init__(self, monkeypatch, data, keeps=(), stuck=False):
        self.data, self.keeps, self.stuck, self.calls = set(data), set(keeps), stuck, []
        monkeypatch.setattr(write_tables.block_device, "discard", self.discard)
        monkeypatch.setattr(write_tables.block_device, "write_zeros", self.zero)
        monkeypatch.setattr(read_blank_proof, "prove_all", self.prove)
        monkeypatch.setattr(write_tables.os, "fsync", lambda fd: self.calls.append(("fsync",)))

    def discard(self, _fd, offset, length):
        self.calls.append(("discard", offset, length))
        self.data = {at for at in self.data if not offset <= at < offset + length or at in self.keeps}

    def zero(self, _fd, offset, length):
        self.calls.append(("zero", offset, length))
        self.data = {at for at in self.data if self.stuck or not offset <= at < offset + length}

    def prove(self, _jobs):
        return [BlankProof(1, 1, ("unrecognised data",) if self.data else ())]


REQUEST = {"device": "/dev/x", "size_bytes": 10 * GIB, "discard": True, "probe_starts": [MIB, 5 * GIB + 512]}
NODE = Node("8:0", "x", "disk", 10 * GIB, Limits(512), discard_max=2 << 40)


def test_a_discard_that_zeroes_is_enough(monkeypatch):
    drive = Drive(monkeypatch, {0, GIB, 10 * GIB - 1})
    write_tables._clear(REQUEST, NODE, 3, {})
    assert drive.data == set()
    zeroed = [call for call in drive.calls if call[0] == "zero"]
    assert zeroed == [("zero", 0, 64 * MIB), ("zero", 10 * GIB - 64 * MIB, 64 * MIB), ("zero", MIB, 2 * MIB), ("zero", 5 * GIB, 2 * MIB)]
    assert drive.calls[0] == ("discard", 0, 10 * GIB) and drive.calls[-1] == ("fsync",)


def test_an_erase_without_discards(monkeypatch):
    drive = Drive(monkeypatch, {0, GIB, 10 * GIB - 1})
    write_tables._clear(dict(REQUEST, discard=False), NODE, 3, {})
    assert drive.data == set() and "discard" not in [call[0] for call in drive.calls]


def test_a_discard_that_is_a_hint_is_followed_by_zeros_everywhere(monkeypatch):
    drive = Drive(monkeypatch, {0, GIB, 10 * GIB - 1}, keeps={GIB, 0})
    write_tables._clear(REQUEST, NODE, 3, {})
    assert drive.data == set()
    assert sum(call[2] for call in drive.calls if call[0] == "zero") == 10 * GIB + 132 * MIB


def test_a_device_that_does_not_come_blank_gets_no_table(monkeypatch):
    Drive(monkeypatch, {GIB}, keeps={GIB}, stuck=True)
    with pytest.raises(PlumblineError, match="was erased, and does not read as blank: unrecognised data; no table was written"):
        write_tables._clear(REQUEST, NODE, 3, {})


def test_nothing_is_erased_before_all_is_kept(monkeypatch):
    """Backups of every device first; where one fails, no device is touched."""
    host = foreign()
    devices = make_plan(spec(host, erase=wish(host)), host.seen).steps[0]["devices"]
    calls = []
    monkeypatch.setattr(write_tables.block_device, "open_alone", lambda path, check: write_tables.os.open("/dev/null", write_tables.os.O_RDONLY))
    monkeypatch.setattr(write_tables, "_prove", lambda *_args: write_tables.Proven(devices, host.seen))

    def keep(_run, _seen, devno, erasing):
        assert erasing is (devno == DISK)
        calls.append("keep " + devno)
        if devno == OTHER:
            raise PlumblineError("nothing was written to it")
        return ["/var/lib/plumbline/backup/x"]

    monkeypatch.setattr(write_tables.keep_backups, "keep_device", keep)
    monkeypatch.setattr(write_tables, "_clear", lambda *_args: calls.append("erase"))
    monkeypatch.setattr(write_tables, "_write", lambda *_args: calls.append("write"))
    with pytest.raises(PlumblineError, match="nothing was written to it"):
        write_tables.partition_all(lambda argv, text: (0, "", ""), devices, False)
    assert calls == ["keep " + DISK, "keep " + OTHER]


def test_what_an_erase_answers_is_no_use_of_a_device():
    reasons = {"table", "pv", "signature", "data"}
    assert set(guards.FOREIGN) == reasons
    assert not reasons & {reason.name for use in USES for reason in guards.use_reasons(_used(use), _used(use).nodes[DISK])}


def _used(use):
    host = foreign()
    USES[use](host)
    return host.seen
