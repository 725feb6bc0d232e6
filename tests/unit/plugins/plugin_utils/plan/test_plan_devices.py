# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices a plan takes, and which it refuses: identity, use, contents, selectors, links."""

from __future__ import annotations

import re

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, Segment, Signature, Table, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SATA, Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, VOLUMES, Host, spec
from ansible_collections.plumbline.ssd.tests.unit.plugins.plugin_utils.plan.test_make_plan import FULL, actions, refusals

# --- refusals: devices -----------------------------------------------------------------------------


def foreign_table(host):
    host.seen.tables["259:0"] = Table("gpt", "G", (TableEntry(1, MIB, GIB, "T", "G1", "Windows"),))


def other_stack(host):
    host.seen.tables["259:0"] = Table("gpt", "G", (TableEntry(1, MIB, GIB, "T", "G1", "plumbline:mysql:0"),))


def two_partitions(host):
    entries = (TableEntry(1, MIB, GIB, "T", "G1", "plumbline:pgdata:0"), TableEntry(2, 2 * GIB, GIB, "T", "G2", ""))
    host.seen.tables["259:0"] = Table("gpt", "G", entries)


def damaged_gpt(host):
    host.seen.tables["259:0"] = Table("gpt", "G", (), "the GPT header's checksum is wrong")


def protective(host):
    host.seen.tables["259:0"] = Table("protective")


def mounted_disk(host):
    host.mount("259:0", "/old")


def mounted_elsewhere(host):
    host.mount("259:0", "/old", here=False)


def swap(host):
    host.seen.swaps.append("259:0")


def held(host):
    host.mapped("secret", [], kind="crypt")
    host.edit("259:0", holders=("253:0",))


def busy(host):
    host.seen.busy["259:0"] = "in use by the kernel or another program"
    del host.seen.proofs["259:0"]


def read_only(host):
    host.edit("259:0", read_only=True)


def removable(host):
    host.edit("259:0", removable=True)


def pv(host):
    host.pv("259:0", "oldvg")


def orphan_pv(host):
    host.pv("259:0", "")


def xfs(host):
    host.seen.signatures["259:0"] = [Signature("xfs", "filesystem", 0, "u", "old")]


def ext4(host):
    host.ext4("259:0", "old")


def unreadable(host):
    host.seen.faults["259:0"] = "the first sectors could not be read: Input/output error"


def data(host):
    host.seen.proofs["259:0"] = BlankProof(1, 1, ("unrecognised data that is not zero, first at byte 123456512 (117.74 MiB from the start)",))


def unreadable_sample(host):
    host.seen.proofs["259:0"] = BlankProof(1, 1, unread=("byte 4096 could not be read: Input/output error",))


def unproven(host):
    del host.seen.proofs["259:0"]


def no_identity(host):
    host.edit("259:0", identity=host.seen.nodes["259:0"].identity._replace(wwid="", serial=""))


def placeholder(host):
    host.edit("259:0", identity=host.seen.nodes["259:0"].identity._replace(wwid="eui.0000000000000000", serial="000000000000"))


def twins(host):
    host.edit("259:0", identity=host.seen.nodes["259:16"].identity._replace(controller="nvme0"))


def serial_twins(host):
    for devno in ("259:0", "259:16"):
        host.edit(devno, identity=host.seen.nodes[devno].identity._replace(wwid="", serial="SAME"))


def contradiction(host):
    host.limits("259:0", alignment_offset=-1)


def other_blocks(host):
    host.limits("259:0", logical=4096, physical=4096, min_io=4096)


def one_controller(host):
    host.edit("259:0", identity=host.seen.nodes["259:0"].identity._replace(controller="nvme1"))


def tiny(host):
    host.edit("259:0", size=16 * MIB)


ERASE = "; if nothing on it is needed, free the device, by erase or by your own tools, and run again"
REPLACE = "; replace the device: what cannot be read is never taken for blank"
NAME = "pgdata: device nvme0n1 (SER0000): "


@pytest.mark.parametrize(
    "spoil, line",
    [
        (foreign_table, NAME + "it carries a GPT partition table; partitions: 1 'Windows' [table]" + ERASE),
        (other_stack, NAME + "it carries a GPT partition table; partitions: 1 'plumbline:mysql:0' [table]" + ERASE),
        (two_partitions, NAME + "it carries a GPT partition table; partitions: 1 'plumbline:pgdata:0', 2 [table]" + ERASE),
        (damaged_gpt, NAME + "it carries a GPT partition table, empty (the GPT header's checksum is wrong) [table]" + ERASE),
        (protective, NAME + "it carries a protective MBR partition table, empty [table]" + ERASE),
        (mounted_disk, NAME + "nvme0n1 is mounted on /old [mounted]; unmount it if it may be used"),
        (lambda host: host.mount("259:0", "/"), NAME + "nvme0n1 is mounted on / [mounted]; the running system is on it; name another device"),
        (mounted_elsewhere, NAME + "nvme0n1 is mounted on /old in another mount namespace [mounted]; unmount it if it may be used"),
        (swap, NAME + "nvme0n1 is in use as swap [swap]; swapoff it if it may be used"),
        (busy, NAME + "it cannot be opened alone: in use by the kernel or another program [busy]; find the program that has it open, for example with lsof"),
        (read_only, NAME + "it is read-only [read_only]; name another device"),
        (removable, NAME + "it is removable [removable]; name a device that is built in"),
        (pv, NAME + "it is an LVM PV of VG 'oldvg' [pv]" + ERASE),
        (orphan_pv, NAME + "it is an LVM PV of no VG [pv]" + ERASE),
        (xfs, NAME + "it carries a signature: xfs filesystem at byte 0 (label 'old') [signature]" + ERASE),
        (ext4, NAME + "it carries an ext filesystem labelled 'old' [signature]" + ERASE),
        (unreadable, NAME + "the first sectors could not be read: Input/output error [unreadable]" + REPLACE),
        (data, NAME + "unrecognised data that is not zero, first at byte 123456512 (117.74 MiB from the start) [data]" + ERASE),
        (unreadable_sample, NAME + "byte 4096 could not be read: Input/output error [unreadable]" + REPLACE),
        (unproven, NAME + "it was not shown to be blank [unproven]; run again; report this if it stays"),
        (
            no_identity,
            "pgdata: device nvme0n1: it has neither a WWID nor a serial [identity]; a device that cannot be told from another is never written to",
        ),
        (
            placeholder,
            (
                "pgdata: device nvme0n1 (000000000000): its identity 'eui.0000000000000000' is a placeholder [identity]; "
                "a device that cannot be told from another is never written to"
            ),
        ),
        (
            twins,
            (
                "pgdata: device nvme0n1 (SER0001): it and nvme1n1 are paths to one disk, eui.000000000000a001 [multipath]; "
                "let multipath join them; a map of several paths is no device for a stack"
            ),
        ),
        (
            serial_twins,
            (
                "pgdata: device nvme0n1 (SAME): it shares its identity SAME with nvme1n1 [identity]; "
                "two disks with one identity cannot be told apart; take one of them away, or give it another where it can have one"
            ),
        ),
        (contradiction, "pgdata: device nvme0n1 has alignment_offset -1: the layers below it contradict each other; a geometry override can state it"),
        (other_blocks, "pgdata: the legs differ in logical block size, and a stripe wants one:"),
        (
            one_controller,
            "pgdata: nvme0n1 and nvme1n1 are namespaces of one SSD (nvme1): striping them doubles nothing; name two SSDs, or set accept: [shared_controller]",
        ),
        (tiny, "pgdata: device nvme0n1 of 16 MiB leaves 13 MiB after the reserve; wanted at least 16 MiB"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_device_refused(host, spoil, line):
    stacks = spec(host)
    spoil(host)
    assert refusals(stacks, host)[0] == line


def test_device_held(host):
    stacks = spec(host)
    host.mapped("luks-x", [_segment("259:0")], kind="crypt")
    assert NAME + "nvme0n1 is held by luks-x (crypt) [held]; take that apart first if it may go" in refusals(stacks, host)


def _segment(devno):
    return Segment(0, GIB, "crypt", 0, ((devno, 0),))


def test_every_reason_is_given_at_once(host):
    stacks = spec(host)
    for spoil in (foreign_table, mounted_disk, read_only, one_controller):
        spoil(host)
    names = [name for line in refusals(stacks, host) for name in re.findall(r"\[(\w+)\]", line)]
    assert names == ["mounted", "read_only", "table", "shared_controller"]


def test_different_blocks_come_with_a_table_of_the_devices(host):
    stacks = spec(host)
    other_blocks(host)
    assert refusals(stacks, host)[1:] == ["  nvme0n1: 4096 bytes (Flash 9000)", "  nvme1n1: 512 bytes (Flash 9000)"]


@pytest.mark.parametrize("layout, count", [("striped", 2), ("linear", 1), ("separate", 1)])
def test_blocks_larger_than_those_of_the_filesystem(layout, count):
    """Linux 6.15 takes drives whose blocks are larger than a page."""
    host = Host()
    devnos = host.pair(count, limits=Limits(16 * KIB, 16 * KIB, 16 * KIB, 0, 0))
    found = refusals(spec(host, devnos, layout=layout, volumes=[{"name": "data"}]), host)
    assert len(found) == count and found[0].startswith("pgdata: device nvme0n1 has blocks of 16384 bytes, and filesystems are made with 4096 here")


def test_shared_controller_accepted(host):
    stacks = spec(host, accept=["shared_controller"])
    one_controller(host)
    plan = make_plan(stacks, host.seen)
    assert plan.refusals == [] and actions(plan) == FULL
    assert plan.warnings == ["pgdata: nvme0n1 and nvme1n1 are namespaces of one SSD (nvme1): striping them doubles nothing [accepted: shared_controller]"]


def test_a_name_of_the_kernel_is_told_with_the_one_that_lasts():
    """The name with model and serial, of all that udev gives."""
    host = Host()
    host.pair(2)
    host.seen.links.update({"nvme-eui.000000000000a000": "259:0", "wwn-0x5000": "259:0", "nvme-Flash_9000_SER0000_1": "259:0"})
    plan = make_plan(spec(host, [], devices=["/dev/nvme0n1", "nvme-Flash_9000_SER0001"]), host.seen)
    text = "pgdata: device /dev/nvme0n1 is the kernel's name, which another disk may have after the next boot; name it nvme-Flash_9000_SER0000"
    assert plan.refusals == [] and plan.warnings == [text]


@pytest.mark.parametrize("model", ["MSFT NVMe Accelerator v1.0", "nvme_card-pd", "VMware Virtual NVMe Disk", "ORCL-VBOX-NVME-VER12"])
def test_disks_of_a_virtual_controller_are_no_namespaces_of_one_ssd(model):
    """All data disks of an Azure machine hang on one controller, which is no medium."""
    host = Host()
    devnos = [host.disk(model=model, controller="nvme1", nsid=number) for number in (2, 3)]
    plan = make_plan(spec(host, devnos), host.seen)
    assert plan.refusals == [] and actions(plan) == FULL and not any("one SSD" in warning for warning in plan.warnings)


def test_unequal_legs_are_a_warning():
    host = Host()
    host.disk(model="A", firmware="1", size=100 * GIB)
    host.disk(model="B", firmware="2", size=120 * GIB)
    plan = make_plan(spec(host), host.seen)
    assert plan.warnings == [
        "pgdata: the legs differ in model: A, B",
        "pgdata: the legs differ in firmware: 1, 2",
        "pgdata: the legs differ in size: 100 GiB, 120 GiB",
    ]
    assert len({device["length_bytes"] for device in plan.steps[0]["devices"]}) == 1


def test_loop_wants_a_test_identity():
    host = Host()
    for _number in range(2):
        host.disk(kind="loop", name="loop%d" % len(host.seen.nodes), wwid="", serial="", transport="")
    names = ["/dev/" + node.name for node in host.seen.nodes.values()]
    stacks = read_stacks([{"name": "pgdata", "devices": names, "volumes": list(VOLUMES)}])
    text = "a loop device has no stable identity [identity]; it is accepted only with an explicit test_identity"
    assert all(line.endswith(text) for line in refusals(stacks, host))
    for number, devno in enumerate(host.seen.nodes):
        host.edit(devno, identity=host.seen.nodes[devno].identity._replace(test="t%d" % number))
    assert actions(make_plan(stacks, host.seen)) == FULL


def test_test_identity_on_a_real_disk(host):
    stacks = spec(host)
    host.edit("259:0", identity=host.seen.nodes["259:0"].identity._replace(test="x"))
    assert refusals(stacks, host) == [NAME + "a test identity is set for a real disk [identity]; test_identity is for loop devices only; leave it out"]


def test_missing_device_with_a_near_name(host):
    stacks = read_stacks([{"name": "pgdata", "devices": ["nvme-Flash_9000_SER0000", "nvme-Flash_9000_SER00O1"], "volumes": list(VOLUMES)}])
    assert refusals(stacks, host) == [
        "pgdata: device /dev/disk/by-id/nvme-Flash_9000_SER00O1 is not there (did you mean 'nvme-Flash_9000_SER0001'?); names are those below /dev/disk/by-id"
    ]


def test_one_disk_by_two_names(host):
    stacks = read_stacks([{"name": "pgdata", "devices": ["nvme-Flash_9000_SER0000", "/dev/nvme0n1"], "volumes": list(VOLUMES)}])
    assert refusals(stacks, host) == ["pgdata: device nvme0n1 is already a leg of pgdata"]


def test_one_disk_in_two_stacks():
    host = Host()
    host.pair(3)
    one = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x"}]}
    two = {"name": "two", "devices": ["nvme-Flash_9000_SER0001", "/dev/nvme2n1"], "volumes": [{"name": "y"}]}
    assert refusals(read_stacks([one, two]), host) == ["two: device nvme1n1 is already a leg of one"]


def test_two_stacks_side_by_side():
    host = Host()
    host.pair(4)
    one = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x", "mount": "/x"}]}
    two = {"name": "two", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y", "mount": "/y"}]}
    stacks = read_stacks([one, two])
    plan = host.build(stacks)
    assert [step.get("stack", "all") for step in plan.steps] == ["one"] * 4 + ["two"] * 4 + ["all"]
    assert make_plan(stacks, host.seen).steps == []
    foreign = Host()
    foreign.pair(4)
    foreign.seen.tables["259:48"] = Table("mbr")
    assert refusals(stacks, foreign)[0].startswith("two: device nvme3n1")


# --- selectors -------------------------------------------------------------------------------------


def selected(host, count=2, **more):
    return read_stacks([{"name": "pgdata", "devices": dict({"model": "Flash*", "count": count}, **more), "volumes": list(VOLUMES)}])


def test_selector_takes_exactly_the_unused(host):
    host.disk(model="Other", serial="X")
    plan = make_plan(selected(host), host.seen)
    assert [device["device"] for device in plan.steps[0]["devices"]] == ["/dev/nvme0n1", "/dev/nvme1n1"]


@pytest.mark.parametrize(
    "count, more, line",
    [
        (3, {}, "pgdata: the selector (model 'Flash*') wants exactly 3 unused devices and found 2 of 2 that match"),
        (2, {"min_size": "200GiB"}, "pgdata: the selector (model 'Flash*', at least 200 GiB) wants exactly 2 unused devices and found 0 of 0 that match"),
        (2, {"max_size": "1GiB"}, "pgdata: the selector (model 'Flash*', at most 1 GiB) wants exactly 2 unused devices and found 0 of 0 that match"),
        (2, {"model": "flash*"}, "pgdata: the selector (model 'flash*') wants exactly 2 unused devices and found 0 of 0 that match"),
    ],
)
def test_selector_finds_too_few(host, count, more, line):
    assert refusals(selected(host, count, **more), host)[0] == line


def test_selector_finds_too_many(host):
    host.disk()
    found = refusals(selected(host), host)
    assert found[0] == "pgdata: the selector (model 'Flash*') wants exactly 2 unused devices and found 3 of 3 that match"
    assert found[1:] == ["  nvme%dn1  Flash 9000  SER%04d  100 GiB  blank" % (number, number) for number in range(3)]


def test_selector_passes_over_used_devices(host):
    used = host.disk()
    host.seen.tables[used] = Table("gpt", "G", (TableEntry(1, MIB, GIB, "T", "G", "x"),))
    assert len(make_plan(selected(host), host.seen).steps[0]["devices"]) == 2
    host.seen.tables["259:0"] = Table("gpt", "G", (TableEntry(1, MIB, GIB, "T", "G", "x"),))
    found = refusals(selected(host), host)
    assert found[0].endswith("wants exactly 2 unused devices and found 1 of 3 that match")
    assert "  nvme2n1  Flash 9000  SER0002  100 GiB  gpt, 1 partition" in found


def test_selector_keeps_what_is_ours(host):
    stacks = selected(host)
    host.build(stacks)
    host.disk()  # a new disk of the same model does not confuse a stack that stands
    plan = make_plan(stacks, host.seen)
    assert (plan.steps, plan.refusals) == ([], [])


def test_selector_carries_on_after_one_of_two(host):
    stacks = selected(host)
    step = make_plan(stacks, host.seen).steps[0]
    host.carry_out(dict(step, devices=step["devices"][:1]))
    assert make_plan(stacks, host.seen).steps[0]["devices"] == step["devices"][1:]

# --- links ------------------------------------------------------------------------------------------


def linked(host, speed, drive=6000, port=6000):
    """The second leg's link as this."""
    ends = LinkEnd("ata2", port), LinkEnd("", drive)
    host.seen.drive_links[list(host.seen.nodes)[1]] = (Link(SATA, *ends, speed, 1),)


SLOW = "pgdata: link nvme1n1: SATA 3.0 Gb/s at ata2: both ends can do more; wanted 6.0 Gb/s: another cable, bay or port "
SLOW += "(some controllers have ports of 3.0 Gb/s beside those of 6.0)"


def test_half_of_a_link_is_not_built_on(host):
    stacks = spec(host)
    linked(host, 3000)
    assert refusals(stacks, host) == [SLOW + "; mend the link, or set accept: [slow_link]"]
    assert refusals(stacks, host, "write_cache") == [SLOW + "; mend the link, or set accept: [slow_link]"]


def test_half_of_a_link_is_built_on_where_that_is_accepted(host):
    stacks = spec(host, accept=["slow_link"])
    linked(host, 3000)
    plan = make_plan(stacks, host.seen)
    assert plan.refusals == [] and actions(plan) == FULL
    assert plan.warnings == [SLOW + " [accepted: slow_link]"]
    assert [(finding.level, finding.layer, finding.name) for finding in plan.findings] == [("warning", "link", "nvme1n1")]


def test_a_link_that_is_less_wrong_is_a_finding(host):
    stacks = spec(host)
    host.seen.drive_links[list(host.seen.nodes)[1]] = (Link(PCIE, LinkEnd("0000:00:1d.0", 16000, 4), LinkEnd("0000:01:00.0", 8000, 4), 5000, 4),)
    plan = make_plan(stacks, host.seen)
    assert plan.refusals == [] and actions(plan) == FULL
    assert [finding.level for finding in plan.findings] == ["warning"]
    assert plan.warnings == ["pgdata: " + plan.findings[0].text]


@pytest.mark.parametrize("speed, drive, port, levels", [(3000, 6000, 3000, ["info"]), (6000, 6000, 6000, []), (3000, None, 6000, []), (None, 6000, 6000, [])])
def test_a_port_that_is_slower_than_its_drive_is_no_warning(host, speed, drive, port, levels):
    stacks = spec(host)
    linked(host, speed, drive, port)
    plan = make_plan(stacks, host.seen)
    assert actions(plan) == FULL and plan.warnings == []
    assert [finding.level for finding in plan.findings] == levels


def test_what_stands_on_a_slow_link_is_warned_of_and_not_refused(host):
    stacks = spec(host)
    host.build(stacks)
    linked(host, 3000)
    plan = make_plan(stacks, host.seen)
    assert (plan.refusals, plan.steps, plan.warnings, plan.findings) == ([], [], [], [])
    found = [finding for devno in tops(host.seen) for finding in view(host.seen, devno).findings]
    assert {(finding.level, "pgdata: " + finding.text) for finding in found} == {("warning", SLOW)}
