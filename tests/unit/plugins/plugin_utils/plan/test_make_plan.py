# SPDX-License-Identifier: GPL-3.0-or-later
"""From (spec, observation) to steps or refusals. The hosts live in memory, see builder.py."""

from __future__ import annotations

import copy
import random
import re
from fractions import Fraction

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BlankProof, FstabEntry, Lv, Lvm, PathState, Segment, Signature, Table, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SATA, Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import overrides_for
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_path import Part
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import mounts, packages
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import volumes as plan_volumes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_reading import questions
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, SHOWN, VOLUMES, Host, as_kernel_shows, spec

FULL = ["partition", "volume_group", "logical_volume", "logical_volume", "filesystem", "filesystem", "mount"]


def actions(plan):
    return [step["action"] for step in plan.steps]


def refusals(stacks, host, through="filesystem"):
    """The refusals of a plan that must have some, and no step."""
    plan = make_plan(stacks, host.seen, through)
    assert plan.refusals and not plan.steps and plan.digest == make_plan(stacks, host.seen, through).digest
    assert all("\n" not in line for line in plan.refusals)
    return plan.refusals


@pytest.fixture
def host():
    one = Host()
    one.pair()
    return one


# --- bare devices and every state on the way ---------------------------------------------------------


def test_bare_pair(host):
    plan = make_plan(spec(host), host.seen)
    assert (plan.refusals, plan.warnings, plan.missing_packages) == ([], [], [])
    assert actions(plan) == FULL
    partition, group, data, wal, fs_data, fs_wal, mount = plan.steps
    usable = (100 * GIB * 9 // 10) // MIB * MIB - MIB
    for number, device in enumerate(partition["devices"]):
        assert device["device"] == "/dev/nvme%dn1" % number and device["identity"] == "wwid:eui.%016x" % (0xA000 + number)
        assert (device["start_bytes"], device["length_bytes"], device["end_bytes"]) == (MIB, usable, MIB + usable)
        assert device["name"] == "plumbline:pgdata:%d" % number and device["type_guid"] == "E6D6D379-F507-44C2-A23C-238F2A3DF928"
        assert device["written"] is False and device["full_proof"] is False
        assert device["probe_starts"][:2] == [MIB, 2 * MIB]
    assert group["pvs"] == ["/dev/disk/by-partuuid/" + device["guid"].lower() for device in partition["devices"]]
    assert (group["vg"], group["extent_bytes"], group["data_alignment_bytes"]) == ("pgdata", 64 * MIB, MIB)
    extents = (usable - MIB) // (64 * MIB)
    assert (data["size_bytes"], wal["size_bytes"]) == (extents * 7 // 10 * 128 * MIB, extents * 2 // 10 * 128 * MIB)
    assert all((lv["stripes"], lv["stripe_bytes"]) == (2, 64 * KIB) for lv in (data, wal))
    assert fs_data["device"] == "/dev/pgdata/data" and fs_data["fstype"] == "ext4"
    pattern = r"-b 4096 -m 0 -L pgdata-data -U [0-9a-f-]{36} -E stride=16,stripe_width=32,lazy_itable_init=0,lazy_journal_init=0,nodiscard"
    assert re.fullmatch(pattern, fs_data["options"]) and fs_data["uuid"] in fs_data["options"]
    assert [one["path"] for one in mount["mounts"]] == ["/data01", "/data02"]
    assert mount["mounts"][1]["uuid"] == fs_wal["uuid"] and mount["mounts"][1]["changes"] == ["fstab line", "mounted"]
    assert mount["mounts"][0]["options"] == "noatime,nofail,x-systemd.device-timeout=5min" and mount["mounts"][0]["passno"] == 2
    assert (mount["drop_ins"], mount["enable_fstrim_timer"]) == ({}, False)


@pytest.mark.parametrize("through, expected", [("partition", FULL[:1]), ("striped_lvm", FULL[:4]), ("filesystem", FULL)])
def test_through(host, through, expected):
    assert actions(make_plan(spec(host), host.seen, through)) == expected


@pytest.mark.parametrize("done", range(len(FULL) + 1))
def test_each_partial_state_carries_on(done):
    """After any number of steps exactly the others remain, and they are the same ones, to the byte; but mkfs discards where the partitions are there."""
    host = Host()
    host.pair()
    stacks = spec(host)
    whole = make_plan(stacks, host.seen)
    for step in whole.steps[:done]:
        host.carry_out(step)
    again = make_plan(stacks, host.seen)
    assert again.refusals == []
    assert again.steps == (whole.steps[done:] if done == 0 else [with_discard(step) for step in whole.steps[done:]])


def with_discard(step):
    """A step of a plan as it is where no device is partitioned any more under the plan."""
    return dict(step, options=step["options"].replace(",nodiscard", "")) if step["action"] == "filesystem" else step


STATES = [("striped", count) for count in (2, 3, 5, 8)] + [("separate", count) for count in (1, 2, 3)]


@pytest.mark.parametrize("layout, count", STATES)
def test_complete_means_no_steps(layout, count):
    host = Host()
    devnos = host.pair(count)
    more = {"layout": layout}
    if layout == "separate":
        more["volumes"] = [{"name": "v%d" % number, "mount": "/data%d" % number} for number in range(count)]
    stacks = spec(host, devnos, **more)
    first = host.build(stacks)
    plan = make_plan(stacks, host.seen)
    assert (plan.steps, plan.refusals, plan.warnings) == ([], [], [])
    assert first.digest != plan.digest
    for top in tops(host.seen):
        assert not [finding for finding in view(host.seen, top).findings if finding.level == "error"]


def test_partition_in_the_table_that_the_kernel_does_not_show_yet(host):
    stacks = spec(host)
    step = make_plan(stacks, host.seen).steps[0]
    host.carry_out(step)
    part = next(n.devno for n in host.seen.nodes.values() if n.kind == "part")
    del host.seen.nodes[part]
    (again,) = [one for one in make_plan(stacks, host.seen).steps if one["action"] == "partition"]
    (device,) = again["devices"]
    assert device["written"] is True and device["guid"] == step["devices"][0]["guid"] and device["probe_starts"] == []


def test_one_of_two_partitions(host):
    stacks = spec(host)
    step = make_plan(stacks, host.seen).steps[0]
    host.carry_out(dict(step, devices=step["devices"][1:]))
    again = make_plan(stacks, host.seen)
    assert actions(again) == FULL and again.steps[0]["devices"] == step["devices"][:1]
    assert again.steps[1] == make_plan(stacks, _fresh().seen).steps[1]


def _fresh():
    one = Host()
    one.pair()
    return one


@pytest.mark.parametrize("members", [(), (0,), (1,), (0, 1)])
def test_pvs_without_vg_carry_on(host, members):
    stacks = spec(host)
    host.build(stacks, limit=1)
    parts = [n.devno for n in host.seen.nodes.values() if n.kind == "part"]
    for number in members:
        host.pv(parts[number], "")
    assert actions(make_plan(stacks, host.seen)) == FULL[1:]


def test_legs_keep_their_index_when_the_spec_is_reordered(host):
    first, second = [n.devno for n in host.seen.nodes.values()]
    host.build(spec(host))
    plan = make_plan(spec(host, [second, first]), host.seen)
    assert (plan.steps, plan.refusals) == ([], [])


# --- determinism -----------------------------------------------------------------------------------


def test_the_same_question_gives_the_same_answer():
    one, two = _fresh(), _fresh()
    first, second = make_plan(spec(one), one.seen), make_plan(spec(two), two.seen)
    assert first.steps == second.steps and first.digest == second.digest and len(first.digest) == 64


def test_digest_changes_with_the_steps():
    digests = set()
    for more in ({}, {"reserve": "11%"}, {"stripe_size": "128KiB"}, {"name": "other"}, {"volumes": [{"name": "data", "mount": "/data01"}]}):
        host = _fresh()
        digests.add(make_plan(spec(host, **more), host.seen).digest)
    host = Host()
    host.pair(2, size=101 * GIB)
    digests.add(make_plan(spec(host), host.seen).digest)
    assert len(digests) == 6


def test_guids_are_made_of_identities():
    assert plan_volumes.partition_guid("pgdata", "wwid:eui.1", 0) == plan_volumes.partition_guid("pgdata", "wwid:eui.1", 0)
    several = {plan_volumes.partition_guid(stack, key, index) for stack in ("a", "b") for key in ("k", "l") for index in range(50)}
    assert len(several) == 200 and all(re.fullmatch(r"[0-9A-F]{8}-[0-9A-F]{4}-5[0-9A-F]{3}-[89AB][0-9A-F]{3}-[0-9A-F]{12}", guid) for guid in several)
    assert plan_volumes.filesystem_uuid("a", "data", ["k", "l"]) == plan_volumes.filesystem_uuid("a", "data", ["l", "k"])
    assert plan_volumes.filesystem_uuid("a", "data", ["k", "l"]) != plan_volumes.filesystem_uuid("a", "wal", ["k", "l"])


# --- extents ---------------------------------------------------------------------------------------


def test_extents_of_a_share():
    """floor(share × extents of the smallest leg) × legs, for thousands of shares, legs and sizes."""
    dice = random.Random(9)
    rows = 0
    for _row in range(700):
        count = dice.choice((2, 2, 3, 5, 7))
        sizes = [dice.randrange(2 * GIB // 512, 8000 * GIB // 512) * 512 for _leg in range(count)]
        host = Host()
        devnos = [host.disk(size=size) for size in sizes]
        tenths = [dice.randrange(5, 1000 // 4) for _volume in range(4)]
        volumes = [{"name": "v%d" % number, "size": "%d.%d%%" % divmod(part, 10)} for number, part in enumerate(tenths)]
        plan = make_plan(spec(host, devnos, volumes=volumes), host.seen, "striped_lvm")
        assert not plan.refusals
        partition, group = plan.steps[:2]
        smallest = min(device["length_bytes"] for device in partition["devices"])
        assert len({device["length_bytes"] for device in partition["devices"]}) == 1
        extents = (smallest - group["data_alignment_bytes"]) // group["extent_bytes"]
        for part, step in zip(tenths, plan.steps[2:]):
            wanted = int(Fraction(part, 1000) * extents) * count * group["extent_bytes"]
            assert step["size_bytes"] == wanted and step["stripes"] == count
            rows += 1
    assert rows == 2800


def test_whole_group_in_thirds():
    host = Host()
    devnos = host.pair(3)
    volumes = [{"name": "v%d" % number, "size": "%s%%" % share} for number, share in enumerate(("33.3", "33.3", "33.4"))]
    stacks = spec(host, devnos, volumes=volumes)
    host.build(stacks, "striped_lvm")
    assert make_plan(stacks, host.seen, "striped_lvm").steps == []


@pytest.mark.parametrize(
    "count, size, expected", [(2, "10GiB", 10 * GIB), (3, "10GiB", 10240 * MIB + 128 * MIB), (5, "1GiB", 4 * 5 * 64 * MIB), (2, "8MiB", 128 * MIB)]
)
def test_a_size_is_rounded_up_to_extents(count, size, expected):
    host = Host()
    plan = make_plan(spec(host, host.pair(count), volumes=[{"name": "data", "size": size}]), host.seen, "striped_lvm")
    assert plan.steps[-1]["size_bytes"] == expected


def test_sizes_that_exceed(host):
    volumes = [{"name": "data", "size": "100GiB"}, {"name": "wal", "size": "100GiB"}]
    assert refusals(spec(host, volumes=volumes), host) == ["pgdata: the volumes want more than there is: data 100 GiB, wal 100 GiB; the VG has 179.88 GiB"]


def test_size_and_share_that_exceed_together(host):
    volumes = [{"name": "data", "size": "90%"}, {"name": "wal", "size": "20GiB"}]
    assert "the volumes want more than there is" in refusals(spec(host, volumes=volumes), host)[0]


def test_share_below_an_extent(host):
    volumes = [{"name": "data", "size": "0.01%"}, {"name": "wal", "size": "20%"}]
    assert refusals(spec(host, volumes=volumes), host) == ["pgdata: volume 'data' would be smaller than one extent of 64 MiB on each leg"]


def test_a_share_in_which_no_journal_fits(host):
    """mke2fs makes a filesystem without one there, which the reading back would refuse."""
    volumes = [{"name": "data", "size": "0.002%"}, {"name": "wal", "size": "20%"}]
    line = "pgdata: volume 'data' would have 2 MiB, in which ext4 has no room for a journal; wanted at least 8 MiB"
    assert refusals(spec(host, volumes=volumes, extent_size="1MiB"), host) == [line]
    stacks = spec(host, volumes=[dict(volumes[0], size="0.005%"), volumes[1]], extent_size="1MiB")
    assert make_plan(stacks, host.seen).steps[2]["size_bytes"] == 8 * MIB


def test_probe_starts_are_where_the_volumes_will_begin(host):
    stacks = spec(host)
    plan = host.build(stacks)
    for device in plan.steps[0]["devices"]:
        disk = next(n.devno for n in host.seen.nodes.values() if n.path == device["device"])
        part = next(n.devno for n in host.seen.nodes.values() if n.parent == disk)
        lvs = [n for n in host.seen.nodes.values() if n.kind == "lvm"]
        begins = [device["start_bytes"] + first for lv in lvs for child, first in lv.segments[0].legs if child == part]
        assert device["probe_starts"] == [device["start_bytes"]] + begins


# --- geometry in the plan --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits, start, stripe, stride",
    [
        (Limits(512, 512, 512, 0, 0), MIB, 64 * KIB, 16),
        (Limits(4096, 4096, 4096, 0, 0), MIB, 64 * KIB, 16),
        (Limits(512, 4096, 4096, 33553920, 0), MIB, 64 * KIB, 16),
        (Limits(512, 4096, 131072, 0, 0), MIB, 128 * KIB, 32),
        (Limits(512, 4096, 1048576, 0, 0), MIB, 1024 * KIB, 256),
        (Limits(512, 4096, 4096, 0, 3584), MIB + 3584, 64 * KIB, 16),
    ],
)
def test_geometry_decides(limits, start, stripe, stride):
    host = Host()
    host.pair(2, limits=limits)
    stacks = spec(host)
    plan = host.build(stacks)
    assert {device["start_bytes"] for device in plan.steps[0]["devices"]} == {start}
    assert plan.steps[2]["stripe_bytes"] == stripe
    assert "stride=%d,stripe_width=%d," % (stride, 2 * stride) in plan.steps[4]["options"]
    assert make_plan(stacks, host.seen).steps == []
    for top in tops(host.seen):
        assert view(host.seen, top).findings == ()


def test_explicit_stripe_size():
    host = _fresh()
    plan = make_plan(spec(host, stripe_size="8KiB"), host.seen)
    assert plan.steps[2]["stripe_bytes"] == 8192 and "stride=2,stripe_width=4," in plan.steps[4]["options"]


@pytest.mark.parametrize(
    "grain, more, line",
    [
        (
            98304,
            {},
            "pgdata: no stripe size fits a grain of 96 KiB: LVM takes powers of two only, and none up to 1 MiB is a multiple of it; use layout 'separate'",
        ),
        (
            131072,
            {"stripe_size": "64KiB"},
            "pgdata: stripe_size 64 KiB does not fit: it is no multiple of the flash's grain of 128 KiB; wanted one of 128 KiB, 256 KiB, 512 KiB, 1 MiB",
        ),
    ],
)
def test_grains_that_no_stripe_fits(grain, more, line):
    host = Host()
    host.pair(2, limits=Limits(512, 4096, grain, 0, 0))
    assert refusals(spec(host, **more), host) == [line]


def test_separate_on_a_grain_of_96_kib():
    host = Host()
    host.pair(2, limits=Limits(512, 4096, 98304, 0, 0))
    stacks = spec(host, layout="separate", volumes=[{"name": "a", "mount": "/a"}, {"name": "b", "mount": "/b"}])
    plan = host.build(stacks)
    assert actions(plan) == ["partition", "filesystem", "filesystem", "mount"]
    assert all(device["start_bytes"] % 98304 == 0 and device["length_bytes"] % 98304 == 0 for device in plan.steps[0]["devices"])
    assert all(device["type_guid"] == "0FC63DAF-8483-4772-8E79-3D69D8477DE4" for device in plan.steps[0]["devices"])
    assert "stride=24,stripe_width=24," in plan.steps[1]["options"]
    assert plan.steps[1]["device"] == "/dev/disk/by-partuuid/" + plan.steps[0]["devices"][0]["guid"].lower()
    assert make_plan(stacks, host.seen).steps == []


def test_a_failed_drive_of_a_separate_stack_is_replaced():
    """guide_flow, "When a drive has failed": the other drives' volumes get no step."""
    host = Host()
    kept, failed = host.pair()
    volumes = [{"name": "a", "mount": "/a"}, {"name": "b", "mount": "/b"}]
    host.build(spec(host, [kept, failed], layout="separate", volumes=volumes))
    new = host.disk()
    for devno in [devno for devno, node in host.seen.nodes.items() if failed in (devno, node.parent)]:
        del host.seen.nodes[devno]
        host.seen.filesystems.pop(devno, None)
    host.seen.mounts = [one for one in host.seen.mounts if one.target != "/b"]
    del host.seen.directories["/b"]
    stacks = spec(host, [kept, new], layout="separate", volumes=volumes)
    assert "take that line out first" in "".join(make_plan(stacks, host.seen).refusals)
    host.seen.fstab = [one for one in host.seen.fstab if one.target != "/b"]
    plan = host.build(stacks)
    assert actions(plan) == ["partition", "filesystem", "mount"]
    assert [mount["path"] for mount in plan.steps[-1]["mounts"]] == ["/b"]
    assert make_plan(stacks, host.seen).steps == []


def test_operator_overrides(host):
    stacks = spec(
        host, geometry=[{"model": "Flash*", "grain": "16KiB"}, {"device": host.name("259:0").rsplit("/", 1)[-1], "grain": "32KiB", "alignment_offset": "4KiB"}]
    )
    links = {devno: [link for link, number in host.seen.links.items() if number == devno] for devno in host.seen.nodes}
    values = [overrides_for([one for stack in stacks for one in stack.overrides], node, links[devno]) for devno, node in host.seen.nodes.items()]
    assert values == [{"grain": 32768, "alignment_offset": 4096}, {"grain": 16384}]


def test_a_devices_own_words_count_before_any_pattern(host):
    """Also where the pattern stands in a later stack."""
    one = {"name": "one", "devices": ["a", "b"], "volumes": [{"name": "x"}], "geometry": [{"device": "nvme0n1", "grain": "8KiB"}]}
    two = {"name": "two", "devices": ["c", "d"], "volumes": [{"name": "y"}], "geometry": [{"model": "*", "grain": "16KiB"}]}
    node = host.seen.nodes["259:0"]
    for stacks in ([one, two], [two, one]):
        assert overrides_for([one for stack in read_stacks(stacks) for one in stack.overrides], node, [])["grain"] == 8192


def test_existing_stripes_that_fit_are_kept_under_auto(host):
    """Each volume is judged by its own LV's stripes, whatever the rule would choose today."""
    host.build(spec(host, stripe_size="128KiB"))
    assert make_plan(spec(host), host.seen).steps == []
    wanted = "pgdata: LV pgdata/data has stripes of 128 KiB; wanted 64 KiB; this can only be rebuilt, which is never done here"
    assert refusals(spec(host, stripe_size="64KiB"), host)[0] == wanted


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_new_volume_beside_one_with_other_stripes(order):
    host = _fresh()
    volumes = [dict(volume) for volume in VOLUMES]
    host.build(spec(host, stripe_size="128KiB", volumes=volumes[:1]))
    stacks = spec(host, volumes=[volumes[number] for number in order])
    plan = host.build(stacks)
    assert [(step["lv"], step["stripe_bytes"]) for step in plan.steps if step["action"] == "logical_volume"] == [("wal", 64 * KIB)]
    assert ["stride=16,stripe_width=32" in step["options"] for step in plan.steps if step["action"] == "filesystem"] == [True]
    assert make_plan(stacks, host.seen).steps == [] and make_plan(stacks, host.seen).refusals == []


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


# --- refusals: what stands and differs ---------------------------------------------------------------


def built(limit=99, **more):
    host = _fresh()
    host.build(spec(host, **more), limit=limit)
    return host


LEFT = "it is left alone; look at it, and wipe it by your own tools if nothing on it is needed"
REBUILT = "; this can only be rebuilt, which is never done here"


def test_other_reserve():
    found = refusals(spec(built(), reserve="20%"), built())
    wanted = "pgdata: partition 'plumbline:pgdata:0' on nvme0n1 has 89.99 GiB (%d bytes); wanted 79.99 GiB (%d bytes), by size and reserve"
    usable = (100 * GIB * 9 // 10) // MIB * MIB - MIB, (100 * GIB * 8 // 10) // MIB * MIB - MIB
    assert found[0].startswith(wanted[: wanted.index(" has")]) and str(usable[0]) in found[0] and str(usable[1]) in found[0]
    assert found[0].endswith("by size and reserve" + REBUILT)


@pytest.mark.parametrize("start", [63 * 512, 34 * 512, MIB + 512, MIB + 3584])
def test_wrong_start(start):
    host = _fresh()
    stacks = spec(host)
    host.build(stacks, limit=1)
    part = next(n for n in host.seen.nodes.values() if n.kind == "part")
    entry = host.seen.tables[part.parent].entries[0]
    host.seen.tables[part.parent] = Table("gpt", "G", (entry._replace(start=start),))
    host.edit(part.devno, start=start)
    line = "pgdata: partition 'plumbline:pgdata:0' on nvme0n1 has start %d (phase %d); wanted phase 0 of 4 KiB" % (start, start % 4096)
    assert refusals(stacks, host) == [line + REBUILT]


def test_start_63_is_right_where_the_flash_says_so():
    host = Host()
    host.pair(2, limits=Limits(512, 4096, 4096, 0, 3584))
    stacks = spec(host)
    host.build(stacks, limit=1)
    assert make_plan(stacks, host.seen).refusals == []
    for disk in ("259:0", "259:16"):
        table = host.seen.tables[disk]
        host.seen.tables[disk] = table._replace(entries=(table.entries[0]._replace(start=MIB),))
    assert "has start 1048576 (phase 0); wanted phase 3584 of 4 KiB" in refusals(stacks, host)[0]


def test_partition_names_twice():
    host = _fresh()
    stacks = spec(host)
    host.build(stacks, limit=1)
    entry = host.seen.tables["259:16"].entries[0]
    host.seen.tables["259:16"] = Table("gpt", "G", (entry._replace(name="plumbline:pgdata:0"),))
    assert refusals(stacks, host) == ["pgdata: two legs carry the same partition name; one is perhaps a copy of the other"]


@pytest.mark.parametrize(
    "change, line",
    [
        ({"stripes": 1, "stripe_bytes": 0, "kinds": ("linear",)}, "a layout of linear; wanted 2 stripes"),
        ({"stripes": 3}, "a layout of 3 stripes; wanted 2 stripes"),
        ({"kinds": ("linear", "striped"), "segments": 2}, "a layout of linear, striped; wanted 2 stripes"),
        ({"kinds": ("raid1",)}, "a layout of raid1; wanted 2 stripes"),
        ({"stripe_bytes": 2048}, "stripes of 2 KiB; wanted 64 KiB"),
        ({"size": GIB}, "1 GiB (1073741824 bytes); wanted %d GiB"),
    ],
)
def test_lv_differs(change, line):
    host = built()
    host.seen.lvm = host.seen.lvm._replace(lvs=tuple(lv._replace(**change) if lv.name == "data" else lv for lv in host.seen.lvm.lvs))
    found = refusals(spec(host), host)
    assert found[0].startswith("pgdata: LV pgdata/data has " + line.split("%")[0]) and found[0].endswith(REBUILT)


def test_other_stripe_size():
    host = built(stripe_size="32KiB")
    assert refusals(spec(host, stripe_size="64KiB"), host)[0] == "pgdata: LV pgdata/data has stripes of 32 KiB; wanted 64 KiB" + REBUILT


def test_an_inactive_lv_that_is_just_the_planned_one_is_activated():
    """What comes on it is planned when it can be seen: a filesystem may be there."""
    host = built()
    host.deactivate("pgdata", "data")
    plan = make_plan(spec(host), host.seen)
    assert plan.refusals == [] and [(step["action"], step["lv"], step["unfinished"]) for step in plan.steps] == [("logical_volume", "data", True)]
    assert plan.steps[0]["summary"] == "activate LV pgdata/data, which was left inactive; what is on it is planned then"
    host.carry_out(plan.steps[0])
    assert make_plan(spec(host), host.seen).steps == []


@pytest.mark.parametrize("change", [{"segments": 2}, {"stripe_bytes": 128 * KIB}, {"size": 99 * 2**20}, {"stripes": 3}, {"kinds": ("linear",)}])
def test_an_inactive_lv_that_is_anything_else_is_refused(change):
    host = built()
    host.deactivate("pgdata", "data")
    host.seen.lvm = host.seen.lvm._replace(lvs=tuple(lv._replace(**change) if lv.name == "data" else lv for lv in host.seen.lvm.lvs))
    (line,) = refusals(spec(host), host)
    assert line.startswith("pgdata: LV pgdata/data has ") or line == "pgdata: LV pgdata/data exists but is not active; run: lvchange -ay pgdata/data"


def test_an_inactive_lv_in_a_group_with_another_pv_is_refused():
    host = built()
    stacks = spec(host)
    host.deactivate("pgdata", "data")
    host.pv(host.part(host.disk(), MIB), "pgdata")
    assert any("VG 'pgdata' exists on other devices" in line for line in refusals(stacks, host))


def test_other_extent_size():
    host = built()
    assert refusals(spec(host, extent_size="4MiB"), host)[0] == "pgdata: VG 'pgdata' has extents of 64 MiB; wanted 4 MiB" + REBUILT


def test_existing_extent_size_counts():
    host = built(extent_size="4MiB")
    assert make_plan(spec(host, extent_size="4MiB"), host.seen).steps == []


def test_lvs_that_nobody_asked_for_are_left():
    host = built()
    host.seen.lvm = host.seen.lvm._replace(lvs=host.seen.lvm.lvs + (Lv("pgdata", "scratch", GIB, 1, 0, 1, ("linear",)),))
    plan = make_plan(spec(host), host.seen)
    assert plan.steps == [] and plan.warnings == ["pgdata: VG 'pgdata' holds LVs that are not in the spec and are left alone: scratch"]


def test_no_room_beside_what_the_spec_does_not_have():
    """A volume that was renamed in the spec, or somebody's snapshot: lvcreate would find no room."""
    host = built()
    volumes = [dict(VOLUMES[0]), dict(VOLUMES[1], name="wal2")]
    (line,) = refusals(spec(host, volumes=volumes), host)
    assert line.startswith("pgdata: what is to be made (wal2) wants 17.94 GiB on PV /dev/nvme0n1p1, which has ")
    assert line.endswith(" free; the VG holds what is not in the spec: wal; lvrename or remove that")
    volumes[1].update(size="9%", mount="/data03")
    assert make_plan(spec(host, volumes=volumes), host.seen).refusals == []


@pytest.mark.parametrize("kind", ["crypt", "lvm"])
def test_a_map_that_has_the_name_of_a_volume(host, kind):
    """cryptsetup took it, or a volume stayed whose disks were pulled."""
    other = host.disk(name="sdx", blank=False)
    host.mapped("pgdata-wal", [Segment(0, GIB, "linear", 0, ((other, 0),))], kind)
    (line,) = refusals(spec(host, ["259:0", "259:16"]), host)
    assert line.startswith("pgdata: device-mapper has a map pgdata-wal that is no volume of this stack [name]")


@pytest.mark.parametrize("limit", range(3))
def test_a_copy_of_our_partition_on_another_disk(limit):
    """As dd and sgdisk -R leave it: mkfs would be led to the copy, which may hold a database without any signature."""
    host = Host()
    devnos = host.pair(1)
    stacks = spec(host, devnos, layout="separate", volumes=[{"name": "data", "mount": "/data01"}])
    plan = host.build(stacks, limit=limit)
    copy_of = host.part(host.disk(name="sdx"), MIB, name="plumbline:pgdata:0")
    link = plan.steps[1]["device"]
    host.seen.led_to[link] = copy_of
    (line,) = refusals(stacks, host)
    assert line.startswith("pgdata: %s leads to sdx1, which is not on device nvme0n1 [identity]" % link)
    own = next((node.devno for node in host.seen.nodes.values() if node.parent == devnos[0]), "")
    host.seen.led_to[link] = own
    assert make_plan(stacks, host.seen).steps == [with_discard(step) if limit else step for step in plan.steps[limit:]]


@pytest.mark.parametrize("limit, mounted", [(0, False), (5, False), (6, False), (7, True)])
def test_a_copy_of_our_filesystem(host, limit, mounted):
    """A snapshot of a volume that is mounted is none of our business."""
    stacks = spec(host, ["259:0", "259:16"])
    plan = host.build(stacks, limit=limit)
    host.seen.led_to["/dev/disk/by-uuid/" + plan.steps[4]["uuid"]] = host.disk(name="sdx", blank=False)
    found = make_plan(stacks, host.seen).refusals
    assert len(found) == (not mounted) and all("pgdata: volume 'data': /dev/sdx has a filesystem with this volume's UUID " in line for line in found)


@pytest.mark.parametrize("through", ["partition", "striped_lvm", "filesystem"])
def test_what_lvm_would_not_take_is_told_before_the_tables_whatever_the_layer(through):
    """The role partition alone wrote a table on the disk by which the spec had grown, and on disks whose VG would be too small."""
    host = built()
    host.disk()
    assert "holds 2 of its 3 PVs" in refusals(spec(host), host, through)[0]
    host = Host()
    host.pair()
    assert "want more than there is" in refusals(spec(host, volumes=[{"name": "data", "size": "1TiB"}]), host, through)[0]


def test_volumes_that_lvm_does_not_know_any_more():
    """As vgcfgrestore of an older backup leaves them: to take them down would lose what they hold."""
    host = built()
    host.seen.lvm = host.seen.lvm._replace(lvs=())
    found = refusals(spec(host), host)
    assert [line.split(" is on ")[0] for line in found] == ["pgdata: /dev/mapper/pgdata-data", "pgdata: /dev/mapper/pgdata-wal"]
    assert all("LVM knows no such volume [damaged]; bring back what LVM knew of it" in line for line in found)


def test_a_kernel_that_shows_an_older_table(host):
    host.build(spec(host), limit=1)
    part = next(node for node in host.seen.nodes.values() if node.kind == "part")
    host.edit(part.devno, size=part.size - MIB)
    (line,) = refusals(spec(host), host)
    assert "shows partition nvme0n1p1 with %d bytes, and its table says %d [stale]" % (part.size - MIB, part.size) in line


def test_vg_of_that_name_elsewhere(host):
    third = host.disk(serial="T")
    host.pv(host.part(third, MIB), "pgdata")
    host.vg("pgdata")
    assert refusals(spec(host, ["259:0", "259:16"]), host) == ["pgdata: VG 'pgdata' exists on other devices: /dev/nvme2n1p1; rename the stack"]


def test_vg_holds_one_of_two():
    host = built(limit=2)
    pvs = host.seen.lvm.pvs
    host.seen.lvm = host.seen.lvm._replace(pvs=pvs[:1])
    assert refusals(spec(host), host) == ["pgdata: VG 'pgdata' holds 1 of its 2 PVs; it is never extended here"]


def test_pv_data_off_the_grain():
    host = built(limit=2)
    host.seen.lvm = host.seen.lvm._replace(pvs=tuple(pv._replace(data_start=65535 * 512) for pv in host.seen.lvm.pvs))
    assert refusals(spec(host), host)[0] == "pgdata: PV /dev/nvme0n1p1 has its data at phase 3584 (pe_start 33553920); wanted phase 0" + REBUILT


def part_of(host):
    return next(n.devno for n in host.seen.nodes.values() if n.kind == "part")


@pytest.mark.parametrize(
    "fill, line",
    [
        (lambda h, p: h.pv(p, "other"), "a PV of VG 'other'"),
        (lambda h, p: h.ext4(p, "old"), "an ext filesystem labelled 'old'"),
        (lambda h, p: h.seen.signatures.update({p: [Signature("xfs", "filesystem", 0)]}), "xfs filesystem at byte 0"),
        (
            lambda h, p: h.seen.faults.update({p: "the first sectors could not be read: Input/output error"}),
            "the first sectors could not be read: Input/output error",
        ),
        (lambda h, p: h.mapped("luks-x", [_segment(p)], kind="crypt"), "another layer (luks-x)"),
    ],
)
def test_our_partition_with_something_foreign_in_it(fill, line):
    host = built(limit=1)
    fill(host, part_of(host))
    assert refusals(spec(host), host)[0] == "pgdata: partition nvme0n1p1 carries %s [signature]; %s" % (line, LEFT)


def test_our_partition_is_mounted():
    host = built(limit=1)
    host.ext4(part_of(host), "old")
    host.mount(part_of(host), "/old")
    assert "pgdata: partition nvme0n1p1 is mounted on /old [mounted]; it is left alone; unmount it if it may be used" in refusals(spec(host), host)


@pytest.mark.parametrize(
    "change, found",
    [
        ({"stride": 0, "stripe_width": 0}, "blocks of 4096, stride 0, stripe_width 0"),
        ({"stride": 128, "stripe_width": 256}, "blocks of 4096, stride 128, stripe_width 256"),
        ({"stripe_width": 48}, "blocks of 4096, stride 16, stripe_width 48"),
        ({"block": 1024}, "blocks of 1024, stride 16, stripe_width 32"),
    ],
)
def test_wrong_stride(change, found):
    host = built()
    devno = host.seen.lv_node("pgdata", "wal").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(**change)
    line = "pgdata: the filesystem of volume 'wal' has %s; wanted blocks of 4096, stride 16, stripe_width 32" % found
    assert refusals(spec(host), host) == [line + REBUILT]


def test_other_label_is_a_warning():
    host = built()
    devno = host.seen.lv_node("pgdata", "wal").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(label="x")
    plan = make_plan(spec(host), host.seen)
    assert plan.steps == [] and plan.warnings == ["pgdata: the filesystem of volume 'wal' is labelled 'x', not 'pgdata-wal'; change it with tune2fs -L"]


@pytest.mark.parametrize(
    "fill, what",
    [
        (lambda h, d: h.seen.signatures.update({d: [Signature("xfs", "filesystem", 0)]}), "xfs filesystem at byte 0"),
        (
            lambda h, d: h.seen.faults.update({d: "the first sectors could not be read: Input/output error"}),
            "the first sectors could not be read: Input/output error",
        ),
        (lambda h, d: h.mapped("luks-x", [_segment(d)], kind="crypt"), "another layer (luks-x)"),
        (lambda h, d: h.pv(d, "inner"), "another layer ()"),
    ],
)
def test_our_volume_with_something_foreign_in_it(fill, what):
    host = built(limit=4)
    fill(host, host.seen.lv_node("pgdata", "data").devno)
    assert refusals(spec(host), host) == ["pgdata: volume 'data' (/dev/mapper/pgdata-data) carries %s [signature]; %s" % (what, LEFT)]


UNCLAIMED = {
    "open": (lambda h, d: h.seen.openers.update({d: ["mysqld (77)"]}), "is open in mysqld (77) [open]"),
    "backing": (lambda h, d: h.seen.backings.update({d: ["namespace 1 of NVMe target x"]}), "backs namespace 1 of NVMe target x [backing]"),
}


@pytest.mark.parametrize("use", UNCLAIMED)
@pytest.mark.parametrize("limit", [1, 4])
def test_a_use_without_a_mark_of_what_is_ours_and_looks_empty(use, limit):
    """A raw partition or volume that a database writes to, or that is exported: pvcreate and mkfs would overwrite it."""
    host = built(limit=limit)
    fill, words = UNCLAIMED[use]
    fill(host, part_of(host) if limit == 1 else host.seen.lv_node("pgdata", "data").devno)
    assert any(words in line for line in refusals(spec(host), host))


# --- mounts ----------------------------------------------------------------------------------------


def test_mount_point_of_somebody_else(host):
    other = host.disk(serial="T")
    stacks = spec(host, ["259:0", "259:16"])
    host.mount(other, "/data01")
    assert refusals(stacks, host) == ["pgdata: /data01 is the mount point of /dev/nvme2n1 [mounted]; name another for volume 'data'"]


def test_volume_is_mounted_elsewhere():
    host = built()
    host.seen.mounts = [mount._replace(target="/old") if mount.target == "/data02" else mount for mount in host.seen.mounts]
    assert refusals(spec(host), host)[0] == "pgdata: volume 'wal' is mounted on /old; wanted /data02; unmount it first"


@pytest.mark.parametrize("source", ["/dev/sdz1", "UUID=0000", "LABEL=x", "/dev/mapper/pgdata-data"])
def test_fstab_clash(host, source):
    stacks = spec(host)
    host.seen.fstab.append(FstabEntry(source, "/data01", "ext4", ("defaults",), 0, 0))
    (line,) = refusals(stacks, host)
    assert line.startswith("pgdata: fstab has %s for /data01 already; wanted UUID=" % source) and line.endswith("; take that line out first")


@pytest.mark.parametrize(
    "state, line",
    [
        (PathState(True, True, other=True), "pgdata: mount point /data01 is the root of another filesystem [mounted]; unmount it, or name another"),
        (PathState(True, True, 3), "pgdata: mount point /data01 holds 3 entries, which the mount would hide; empty it or name another"),
        (PathState(True, False, symlink="/mnt"), "pgdata: mount point /data01 is a symbolic link to /mnt; wanted an empty directory or nothing"),
        (PathState(True, False), "pgdata: mount point /data01 is no directory; wanted an empty directory or nothing"),
        (
            PathState(True, True, owner=1000, mode="0755", way=(Part("/", "directory", 0, 0o1777),)),
            (
                "pgdata: mount point /data01 is not safe: /data01 belongs to user 1000, who can put something else in its place, since / is not root's alone; "
                "wanted root as its owner: chown root /data01 [mount_point]"
            ),
        ),
        (
            PathState(True, True, fault="Input/output error"),
            "pgdata: mount point /data01 could not be read: Input/output error [unreadable]; look at the kernel's log and at what lies there, and run again",
        ),
    ],
)
def test_mount_point_refused(host, state, line):
    stacks = spec(host)
    host.seen.directories["/data01"] = state
    assert refusals(stacks, host) == [line]


@pytest.mark.parametrize("state", [PathState(), PathState(True, True, 0), PathState(True, True, 0, immutable=True)])
def test_mount_point_taken(host, state):
    stacks = spec(host)
    host.seen.directories["/data01"] = state
    assert actions(make_plan(stacks, host.seen)) == FULL


@pytest.mark.parametrize("key", ["owner", "group"])
def test_unknown_owner(host, key):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", key: "postgres"}])
    assert refusals(stacks, host) == ["pgdata: %s 'postgres' of volume 'data' is not known to this host; create it first" % key]


def test_owner_group_and_mode(host):
    host.seen.users, host.seen.groups = {"postgres": 105}, {"postgres": 110}
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "owner": "postgres", "group": "postgres", "mode": "0700"}])
    plan = host.build(stacks)
    (mount,) = plan.steps[-1]["mounts"]
    assert (mount["owner"], mount["group"], mount["mode"]) == (105, 110, "0700")
    assert make_plan(stacks, host.seen).steps == []
    host.seen.directories["/data01"] = host.seen.directories["/data01"]._replace(owner=0, mode="0755")
    (step,) = make_plan(stacks, host.seen).steps
    assert step["mounts"][0]["changes"] == ["owner 0 → 105", "mode 0755 → 0700"]


def test_selinux_context_only_where_there_is_selinux(host):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "selinux_context": "a:b:c:s0"}])
    assert make_plan(stacks, host.seen).steps[-1]["mounts"][0]["selinux_context"] == ""
    host.seen.selinux = True
    assert make_plan(stacks, host.seen).steps[-1]["mounts"][0]["selinux_context"] == "a:b:c:s0"


def test_a_volume_without_mount(host):
    stacks = spec(host, volumes=[{"name": "data"}])
    assert actions(make_plan(stacks, host.seen)) == ["partition", "volume_group", "logical_volume", "filesystem"]


@pytest.mark.parametrize(
    "change, changes",
    [
        ({"options": ("noatime",)}, ["fstab options noatime → noatime,nofail,x-systemd.device-timeout=5min"]),
        ({"passno": 0}, ["fstab options noatime,nofail,x-systemd.device-timeout=5min → noatime,nofail,x-systemd.device-timeout=5min"]),
        ({"options": ("nofail", "x-systemd.device-timeout=5min", "noatime")}, None),
        ({"freq": 1}, None),
    ],
)
def test_fstab_drift(change, changes):
    host = built()
    host.seen.fstab = [entry._replace(**change) if entry.target == "/data01" else entry for entry in host.seen.fstab]
    plan = make_plan(spec(host), host.seen)
    assert [mount["changes"] for step in plan.steps for mount in step["mounts"]] == ([changes] if changes else [])


def test_fstab_line_gone_or_unmounted():
    host = built()
    host.seen.fstab = [entry for entry in host.seen.fstab if entry.target != "/data01"]
    host.seen.mounts = [mount for mount in host.seen.mounts if mount.target != "/data02"]
    host.seen.directories["/data02"] = PathState(True, True, 0, True)
    (step,) = make_plan(spec(host), host.seen).steps
    assert [(mount["path"], mount["changes"]) for mount in step["mounts"]] == [("/data01", ["fstab line"]), ("/data02", ["mounted"])]
    assert step["summary"] == "mount /data01: fstab line; /data02: mounted"


def test_mounts_of_all_stacks_are_one_step_and_the_last(host):
    host.disk()
    host.disk()
    one = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x", "mount": "/x/y", "required_by": ["a.service"]}]}
    outer = {"name": "y", "mount": "/x", "required_by": ["b.service"], "discard": "none"}
    two = {"name": "two", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [outer]}
    host.seen.timer_enabled = False
    steps = make_plan(read_stacks([one, two]), host.seen).steps
    assert [step["action"] for step in steps].count("mount") == 1
    last = steps[-1]
    assert [(mount["stack"], mount["path"]) for mount in last["mounts"]] == [("one", "/x/y"), ("two", "/x")]
    assert (len(last["drop_ins"]), last["enable_fstrim_timer"]) == (2, True)
    assert last["summary"].count("mount /") == 1 and "; /x: fstab line, mounted" in last["summary"]


def test_a_mount_in_another_namespace_is_not_ours():
    host = built()
    host.seen.mounts = [mount._replace(here=False) for mount in host.seen.mounts]
    for path in ("/data01", "/data02"):
        host.seen.directories[path] = PathState(True, True, 0)
    (step,) = make_plan(spec(host), host.seen).steps
    assert [mount["changes"] for mount in step["mounts"]] == [["mounted"], ["mounted"]]


def test_the_order_of_volumes_changes_no_drop_in(host):
    volumes = [dict(volume, required_by=["db.service", "db.service"]) for volume in VOLUMES]
    host.build(spec(host, volumes=volumes))
    plan = make_plan(spec(host, volumes=volumes[::-1]), host.seen)
    assert (plan.steps, plan.refusals) == ([], [])


def test_drop_ins(host):
    volumes = [dict(VOLUMES[0], required_by=["postgresql.service", "x.socket"]), dict(VOLUMES[1], required_by=["postgresql.service"])]
    stacks = spec(host, volumes=volumes)
    name = "/etc/systemd/system/postgresql.service.d/50-plumbline-pgdata.conf"
    assert mounts.drop_in_files(stacks) == [name, "/etc/systemd/system/x.socket.d/50-plumbline-pgdata.conf"]
    plan = host.build(stacks)
    text = "# Written by plumbline.ssd: this unit does not start without its volumes.\n[Unit]\nRequiresMountsFor=/data01 /data02\n"
    assert plan.steps[-1]["drop_ins"][name] == text
    assert make_plan(stacks, host.seen).steps == []
    host.seen.drop_ins[name] = text.strip()  # as it is read
    assert make_plan(stacks, host.seen).steps == []
    host.seen.drop_ins[name] = "changed"
    (step,) = make_plan(stacks, host.seen).steps
    assert (list(step["drop_ins"]), step["mounts"]) == ([name], [])


@pytest.mark.parametrize("discard, enabled, wanted", [("timer", False, True), ("timer", True, False), ("none", False, False)])
def test_fstrim_timer(host, discard, enabled, wanted):
    host.seen.timer_enabled = enabled
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "discard": discard}])
    assert make_plan(stacks, host.seen).steps[-1]["enable_fstrim_timer"] is wanted


def not_shown(host):
    """The tables are written, and the kernel does not show the partitions."""
    host.build(spec(host), "partition")
    for devno in [devno for devno, node in host.seen.nodes.items() if node.kind == "part"]:
        del host.seen.nodes[devno], host.seen.proofs[devno]


@pytest.mark.parametrize(
    "more, prepare, wanted",
    [
        ({}, lambda host: None, True),
        ({}, not_shown, False),
        ({"discard": False}, lambda host: None, False),
        ({}, lambda host: host.edit("259:0", discard_max=0), False),  # one leg that takes none
        ({}, lambda host: host.build(spec(host), "partition"), False),  # who knows what was written to them since
        ({}, lambda host: host.carry_out({"action": "partition", "devices": make_plan(spec(host), host.seen).steps[0]["devices"][:1]}), False),
    ],
)
def test_mkfs_discards_what_this_plan_did_not(host, more, prepare, wanted):
    prepare(host)
    plan = make_plan(spec(host, **more), host.seen)
    assert [step["options"].count("nodiscard") for step in plan.steps if step["action"] == "filesystem"] == [int(wanted)] * 2
    devices = [device for step in plan.steps if step["action"] == "partition" for device in step["devices"]]
    assert all(device["discard"] is not (more.get("discard") is False) for device in devices)


def test_mkfs_options(host):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "bytes_per_inode": "64KiB", "lazy_init": True, "label": "pg"}])
    options = make_plan(stacks, host.seen).steps[3]["options"]
    assert options.startswith("-b 4096 -m 0 -L pg -U ") and options.endswith(
        "-E stride=16,stripe_width=32,lazy_itable_init=1,lazy_journal_init=1,nodiscard -i 65536"
    )


# --- option drift: against what Linux showed ---------------------------------------------------------


@pytest.mark.parametrize("asked", sorted(SHOWN))
def test_no_drift_right_after_a_mount(asked):
    """Whatever Linux shows for an option that was just mounted is what was asked."""
    assert EXT4.options.drift(asked.split(","), SHOWN[asked]) == ([], [])


@pytest.mark.parametrize("asked", sorted(SHOWN))
def test_drift_is_seen_where_linux_shows_one(asked):
    """An option that Linux shows is missing from a plain mount; one that it does not show never is."""
    plain = SHOWN["defaults"]
    missing, extra = EXT4.options.drift(asked.split(","), plain)
    visible = set(SHOWN[asked]) - set(plain) - {"quota"}
    if asked in ("data=ordered", "noatime,nodiratime"):
        assert set(missing) <= visible
    elif asked == "data=journal":
        assert missing == ["data=journal"]
    else:
        assert set(missing) == visible
    assert extra == (["relatime"] if asked == "strictatime" else [])


DRIFTING = (
    "noatime", "nodiratime", "lazytime", "nodelalloc", "nobarrier", "noauto_da_alloc", "sync",
    "data=writeback", "data=journal", "discard", "nosuid", "nodev", "noexec",
)  # fmt: skip


@pytest.mark.parametrize("live", DRIFTING)
def test_unasked_options_are_extra(live):
    wanted = [live] if live != "data=journal" else ["nodelalloc", "data=journal"]
    assert set(EXT4.options.drift([], SHOWN[live])[1]) == set(wanted)


def test_pairs_of_options():
    """Every pair of options that Linux shows apart: right after the mount there is no drift, and dropping one of them is one."""
    words = [word for word in DRIFTING if not word.startswith("data=")]
    rows = 0
    for first in words:
        for second in words:
            if first != second:
                live = as_kernel_shows((first, second))
                assert EXT4.options.drift((first, second), live) == ([], [])
                assert EXT4.options.drift((first,), live) == ([], [second])
                rows += 1
    assert rows == len(words) * (len(words) - 1)


def test_option_drift_is_a_step():
    host = built()
    host.seen.mounts = [mount._replace(options=("rw", "relatime", "nobarrier")) if mount.target == "/data01" else mount for mount in host.seen.mounts]
    (step,) = make_plan(spec(host), host.seen).steps
    assert [(mount["path"], mount["changes"]) for mount in step["mounts"]] == [("/data01", ["remounted: +noatime, -nobarrier"])]


@pytest.mark.parametrize(
    "live, changes",
    [
        (("ro", "noatime"), "remounted: -ro"),  # remount,ro
        (("rw", "noatime", "ro"), "remounted: -ro"),  # errors=remount-ro, which leaves the mount's own flag
        (("rw", "noatime", "errors=remount-ro", "data_err=abort"), "remounted: -errors=remount-ro, -data_err=abort"),
    ],
)
def test_a_volume_that_became_read_only_is_a_step(live, changes):
    host = built()
    host.seen.mounts = [mount._replace(options=live) if mount.target == "/data01" else mount for mount in host.seen.mounts]
    (step,) = make_plan(spec(host), host.seen).steps
    assert [(mount["path"], mount["changes"]) for mount in step["mounts"]] == [("/data01", [changes])]


@pytest.mark.parametrize(
    "change, refusal",
    [
        ({"journal": False}, "it has no journal: a crash can damage it; wanted a journal, which tune2fs -O has_journal makes"),
        ({"faulty": True}, "the kernel has found errors in it; wanted a check, by e2fsck -f"),
        ({"blocks": 1 << 40}, "larger than what it stands on: its end is cut off"),
    ],
)
def test_a_filesystem_that_is_not_well_is_refused(change, refusal):
    host = built()
    host.seen.filesystems = {devno: found._replace(**change) for devno, found in host.seen.filesystems.items()}
    plan = make_plan(spec(host), host.seen)
    assert not plan.steps and any(refusal in one and "the filesystem of volume" in one for one in plan.refusals), plan.refusals


def test_a_filesystem_that_is_smaller_than_its_volume_is_told():
    host = built()
    host.seen.filesystems = {devno: found._replace(blocks=found.blocks - 1024) for devno, found in host.seen.filesystems.items()}
    plan = make_plan(spec(host), host.seen)
    assert plan.steps == [] and any("it is 4 MiB smaller than what it stands on; wanted all of it, by resize2fs" in one for one in plan.warnings)


def test_a_volume_that_is_read_only_is_refused():
    host = built()
    devno = next(iter(host.seen.filesystems))
    host.edit(devno, read_only=True)
    plan = make_plan(spec(host), host.seen)
    assert not plan.steps and any("is read-only; wanted one that can be written to; lvchange --permission rw" in one for one in plan.refusals)


@pytest.mark.parametrize("options", [["strictatime"], ["noatime", "nodiscard"], ["relatime", "data=ordered"], [], ["noatime", "lazytime", "commit=30"]])
def test_options_converge(host, options):
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "mount_options": options}])
    host.build(stacks)
    assert make_plan(stacks, host.seen).steps == []


# --- what would fail late, or is asked in vain ----------------------------------------------------


def test_a_name_that_something_has_below_dev_is_refused_before_the_tables(host):
    host.seen.taken_names = {"pgdata": "a directory that holds 2 entries"}
    assert refusals(spec(host), host, "partition") == [
        "pgdata: /dev/pgdata is a directory that holds 2 entries, so that LVM makes no volume group of that name [name]; rename the stack, or remove that"
    ]


def test_the_name_of_our_own_group_is_ours(host):
    host.build(spec(host))
    host.seen.taken_names = {"pgdata": "there already"}
    assert make_plan(spec(host), host.seen).refusals == []


@pytest.mark.parametrize(
    "geometry, words",
    [
        ({"model": "Flsh 9*"}, "model 'Flsh 9*', which no disk of this host has (did you mean 'Flash 9000'?)"),
        ({"device": "nvme-Flash-9000_SER0000"}, "device 'nvme-Flash-9000_SER0000', which no disk of this host has (did you mean 'nvme-Flash_9000_SER0000'?)"),
        ({"device": "/dev/disk/by-id/nothing"}, "device '/dev/disk/by-id/nothing', which no disk of this host has; correct it, or take it out"),
    ],
)
def test_a_geometry_for_nobody_is_refused(host, geometry, words):
    (line,) = refusals(spec(host, geometry=[{"model": "Flash*", "grain": "8KiB"}, dict(geometry, grain="16KiB")]), host)
    assert line.startswith("pgdata: geometry[1] is for " + words)


def test_a_geometry_for_other_hosts_is_told_where_no_grain_is_assumed(host):
    for devno in ("259:0", "259:16"):
        host.limits(devno, physical=4096, min_io=16 * KIB)
    plan = make_plan(spec(host, geometry=[{"model": "Other*", "grain": "16KiB"}]), host.seen)
    assert plan.refusals == [] and any("geometry[0] is for model 'Other*', which no disk of this host has" in line for line in plan.warnings)


def test_geometries_that_contradict_each_other(host):
    """Neither the order of the stacks nor that of the list decides."""
    host.pair()
    wide, narrow = {"model": "Flash*", "grain": "32KiB"}, {"model": "*9000", "grain": "16KiB"}
    one = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x"}], "geometry": [wide]}
    two = {"name": "two", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y"}], "geometry": [narrow]}
    found = both_orders(host, [one, two]).refusals
    words = "two: the geometry of device nvme2n1 contradicts itself: grain 16 KiB of two.geometry[0] and 32 KiB of one.geometry[0]; "
    assert len(found) == 4 and found[2].startswith(words)
    own = [{"device": "nvme%dn1" % number, "grain": "64KiB"} for number in range(4)]
    assert both_orders(host, [one, dict(two, geometry=[narrow, *own])]).refusals == []
    assert both_orders(host, [one, dict(two, geometry=[wide, {"model": "*", "alignment_offset": "0B"}])]).refusals == []


@pytest.mark.parametrize("wwid", ["naa.0000000000000000", "eui.ffffffffffffffff"])
def test_drives_with_a_placeholder_for_a_wwid_are_known_by_their_serials(wwid):
    """Backups, erases and kept write caches are filed by that, and what is made has identifiers of it."""
    host = Host()
    devnos = host.pair(4, wwid=wwid)
    assert [host.seen.nodes[devno].identity.key for devno in devnos] == ["serial:Flash 9000/SER000%d" % number for number in range(4)]
    off = {"name": "one", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "write_cache": "off", "volumes": [{"name": "x"}]}
    keep = {"name": "two", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y"}]}
    stacks = read_stacks([off, keep])
    host.build(stacks)
    plan = make_plan(stacks, host.seen)
    assert (plan.steps, plan.refusals) == ([], [])


def test_links_of_volumes_that_are_gone_are_in_the_way(host):
    """Unless they are of our own volumes, which is told otherwise."""
    host.build(spec(host), limit=3)
    host.seen.taken_names = {"pgdata": "a directory that holds 1 entries"}
    host.seen.lvm = Lvm()
    assert not any("[name]" in line for line in refusals(spec(host), host))


def test_more_extents_than_lvm_counts():
    host = Host()
    host.pair(size=6 << 50)
    (line,) = refusals(spec(host, extent_size="1MiB"), host)
    assert line.startswith("pgdata: extent_size: 1 MiB makes 57") and "LVM counts them in 32 bits" in line


def test_one_ssd_by_two_controllers_is_no_pair():
    host = Host()
    host.pair(serial="SAME")
    found = refusals(spec(host, [], devices=["/dev/nvme0n1", "/dev/nvme1n1"], accept=["shared_controller"]), host)
    assert [line for line in found if "[twin]" in line], found


def test_two_targets_with_one_serial_are_two():
    """Over a network: other subsystems, whatever they say of their serial."""
    host = Host()
    for number, devno in enumerate(host.pair(serial="SAME")):
        host.edit(devno, identity=host.seen.nodes[devno].identity._replace(subsystem="nqn.2026-01.org.example:%d" % number))
    assert make_plan(spec(host, [], devices=["/dev/nvme0n1", "/dev/nvme1n1"]), host.seen).refusals == []


def test_two_namespaces_by_two_controllers_share_an_ssd():
    host = Host()
    host.pair(serial="SAME")
    host.edit("259:16", identity=host.seen.nodes["259:16"].identity._replace(nsid=2))
    (line,) = refusals(spec(host, [], devices=["/dev/nvme0n1", "/dev/nvme1n1"]), host)
    assert line.startswith("pgdata: nvme0n1 and nvme1n1 are namespaces of one SSD (nvme0, nvme1)")


def test_a_name_that_several_devices_ask_for(host):
    stacks = spec(host)
    host.seen.twice_named = {host.name("259:0"): ("259:0", "259:16")}
    (line,) = refusals(stacks, host)
    assert "is the name of several devices, nvme0n1 (SER0000), nvme1n1 (SER0001): udev gives it to one of them" in line


def test_a_bind_mount_of_a_part_is_no_other_place():
    host = built()
    data = next(mount for mount in host.seen.mounts if mount.target == "/data01")
    host.seen.mounts.append(data._replace(target="/elsewhere", root="/sub"))
    host.seen.mounts.append(data._replace(target="/again"))
    plan = make_plan(spec(host), host.seen)
    assert (plan.steps, plan.refusals) == ([], [])
    host.seen.mounts.remove(data)
    assert "pgdata: volume 'data''s directory /sub is mounted on /elsewhere; wanted /data01; unmount it first" in refusals(spec(host), host)
    host.seen.mounts = [data._replace(root="/sub")]
    assert refusals(spec(host), host)[0] == "pgdata: volume 'data''s directory /sub is mounted on /data01; wanted /data01; unmount it first"


def both_orders(host, stacks):
    """The same answer in any order of the stacks."""
    plans = [make_plan(read_stacks(some), host.seen) for some in (stacks, stacks[::-1])]
    assert sorted(plans[0].refusals) == sorted(plans[1].refusals)
    assert sorted(step["summary"] for step in plans[0].steps if step["action"] != "mount") == sorted(
        step["summary"] for step in plans[1].steps if step["action"] != "mount"
    )
    return plans[0]


def test_a_selector_takes_none_that_another_stack_names():
    host = Host()
    host.pair(4)
    named = {"name": "named", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x"}]}
    chosen = {"name": "chosen", "devices": {"model": "Flash*", "count": 2}, "volumes": [{"name": "y"}]}
    plan = both_orders(host, [chosen, named])
    assert plan.refusals == [] and plan.steps


def test_of_two_selectors_that_overlap_the_one_that_fits_comes_first():
    host = Host()
    host.pair(2)
    host.pair(2, model="Other")
    one = {"name": "one", "devices": {"model": "Flash*", "count": 2}, "volumes": [{"name": "x"}]}
    rest = {"name": "rest", "devices": {"model": "*", "count": 2}, "volumes": [{"name": "y"}]}
    plan = both_orders(host, [rest, one])
    legs = {stack.spec.name: [leg.devno for leg in stack.legs] for stack in plan.stacks}
    assert (plan.refusals, legs) == ([], {"one": ["259:0", "259:16"], "rest": ["259:32", "259:48"]})


def test_two_selectors_for_the_same_devices_are_refused_in_any_order():
    host = Host()
    host.pair(2)
    one = {"name": "one", "devices": {"model": "Flash*", "count": 2}, "volumes": [{"name": "x"}]}
    for stacks in ([one, dict(one, name="two")], [dict(one, name="two"), one]):
        stacks[1] = dict(stacks[1], volumes=[{"name": "y"}])
        plan = make_plan(read_stacks(stacks), host.seen)
        assert not plan.steps and len([line for line in plan.refusals if "is already a leg of" in line]) == 2


def test_a_mount_inside_another_stacks_volume():
    """Its directory may belong to anybody: the outer mount will cover it."""
    host = Host()
    host.pair(4)
    outer = {"name": "outer", "devices": ["/dev/nvme0n1", "/dev/nvme1n1"], "volumes": [{"name": "x", "mount": "/outer"}]}
    inner = {"name": "inner", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y", "mount": "/outer/inner"}]}
    way = (Part("/", "directory"), Part("/outer", "directory", 999))
    host.seen.directories = {"/outer/inner": PathState(way=way)}
    plan = both_orders(host, [inner, outer])
    assert plan.refusals == []


def nested(where, **outer):
    """A volume inside another one, whose root directory belongs to somebody."""
    volumes = [dict({"name": "x", "size": "50%", "mount": "/outer"}, **outer), {"name": "y", "size": "50%", "mount": where}]
    host = Host()
    host.pair()
    host.seen.users = {"postgres": 999}
    host.seen.directories = {where: PathState(way=(Part("/", "directory"),))}
    return host, spec(host, volumes=volumes)


@pytest.mark.parametrize("outer", [{"owner": "postgres"}, {"mode": "0770"}])
def test_a_mount_deep_inside_a_volume_of_somebody_else_is_told_before_the_tables(outer):
    """mount_points would refuse its way when the outer volume is mounted and given away."""
    host, stacks = nested("/outer/a/b", **outer)
    (line,) = refusals(stacks, host)
    assert line.startswith("pgdata: mount point /outer/a/b is not safe: /outer ")
    assert line.endswith("; or name it right in that volume's root, such as /outer/b [mount_point]")
    host, stacks = nested("/outer/b", **outer)
    assert make_plan(stacks, host.seen).refusals == []


def test_a_mount_deep_inside_a_volume_that_stands():
    """Directories that are still to be made come between its root and the mount point."""
    for where, found in (("/data01/a/b", 1), ("/data01/b", 0)):
        host = built()
        host.disk(), host.disk()
        inner = {"name": "inner", "devices": ["/dev/nvme2n1", "/dev/nvme3n1"], "volumes": [{"name": "y", "mount": where}]}
        host.seen.directories[where] = PathState(way=(Part("/", "directory"), Part("/data01", "directory", 999)))
        assert len(make_plan(spec(host, ["259:0", "259:16"]) + read_stacks([inner]), host.seen).refusals) == found


def test_what_a_mount_will_cover_is_not_on_the_way():
    host, stacks = nested("/outer/a/b")
    host.seen.directories["/outer/a/b"] = PathState(way=(Part("/", "directory"), Part("/outer", "directory", 999)))
    assert make_plan(stacks, host.seen).refusals == []


@pytest.mark.parametrize(
    "change, words",
    [
        ({"fstab_fault": "/etc is mounted read-only"}, "/etc/fstab could not be written: /etc is mounted read-only; mend that first"),
        ({"kernel_lacks": ("device-mapper",)}, "the running kernel has not loaded device-mapper, and its modules are gone"),
        ({"kernel_lacks": ("ext4",)}, "the running kernel has not loaded ext4, and its modules are gone"),
        ({"directories": {"/data01": PathState(read_only="/")}}, "mount point /data01 could not be made: / is on a filesystem that is mounted read-only"),
    ],
)
def test_what_the_last_step_would_fail_by_is_told_before_the_first(host, change, words):
    for name, value in change.items():
        setattr(host.seen, name, value)
    (line,) = refusals(spec(host), host)
    assert line.startswith("pgdata: " + words)


@pytest.mark.parametrize(
    "option, selinux, strange, words",
    [
        ("context=a:b:c:s0", False, (), "mount option 'context=a:b:c:s0' wants SELinux, which this host does not run; take it out, or set selinux_context"),
        ("context=a:b:c:s0", True, ("a:b:c:s0",), "the SELinux policy of this host knows no context a:b:c:s0; correct context, or install the policy"),
        ("selinux_context", True, ("a:b:c:s0",), "the SELinux policy of this host knows no context a:b:c:s0; correct selinux_context, or install the policy"),
        ("context=a:b:c:s0", True, (), ""),
        ("selinux_context", False, (), ""),
    ],
)
def test_contexts_that_a_host_does_not_have(host, option, selinux, strange, words):
    keys = {"selinux_context": "a:b:c:s0"} if option == "selinux_context" else {"mount_options": [option]}
    stacks = spec(host, volumes=[dict(keys, name="data", mount="/data01")])
    host.seen.selinux, host.seen.strange_contexts = selinux, strange
    found = make_plan(stacks, host.seen).refusals
    assert len(found) == bool(words) and all(line.startswith(("pgdata: volume 'data': " + words, "pgdata: " + words)) for line in found)
    assert "a:b:c:s0" in questions(stacks).contexts


@pytest.mark.parametrize("discard, enabled, found", [("timer", False, 1), ("timer", True, 0), ("none", False, 0)])
def test_a_timer_that_cannot_be_enabled_is_told_before_the_tables(host, discard, enabled, found):
    host.seen.timer_enabled, host.seen.timer_fault = enabled, "it is masked (systemctl unmask fstrim.timer)"
    stacks = spec(host, volumes=[{"name": "data", "mount": "/data01", "discard": discard}])
    line = "pgdata: fstrim.timer could not be enabled: it is masked (systemctl unmask fstrim.timer); mend that, or set discard: none on the volumes"
    assert make_plan(stacks, host.seen).refusals == [line] * found


def test_what_nothing_needs_is_no_obstacle():
    host = built()
    host.seen.fstab_fault, host.seen.kernel_lacks = "/etc/fstab is immutable", ("device-mapper", "ext4")
    assert (make_plan(spec(host), host.seen).steps, make_plan(spec(host), host.seen).refusals) == ([], [])


# --- one device with several volumes ----------------------------------------------------------------


def alone(**more):
    host = Host()
    host.disk(**more)
    return host, spec(host, layout="linear")


def test_a_linear_stack(monkeypatch):
    host, stacks = alone()
    plan = make_plan(stacks, host.seen)
    assert plan.refusals == [] and actions(plan) == FULL
    data = plan.steps[2]
    assert (data["stripes"], data["stripe_bytes"]) == (1, 0) and data["summary"].endswith(" in one piece")
    assert "stride=1,stripe_width=1" in plan.steps[4]["options"], "the grain of 4 KiB"
    assert plan.steps[0]["devices"][0]["type_guid"] == "E6D6D379-F507-44C2-A23C-238F2A3DF928"
    host.build(stacks)
    assert make_plan(stacks, host.seen).steps == []


@pytest.mark.parametrize("limit", range(1, 7))
def test_a_linear_stack_carries_on(limit):
    host, stacks = alone()
    host.build(stacks, limit=limit)
    left = actions(make_plan(stacks, host.seen))
    assert left == FULL[limit:]


def test_a_linear_stack_on_a_grain_that_no_extent_fits():
    host, stacks = alone(limits=Limits(4096, 4096, 96 * KIB, 0, 0))
    assert "no multiple of the grain 96 KiB" in refusals(stacks, host)[0]


def test_a_striped_volume_is_no_linear_one():
    host, stacks = alone()
    host.build(stacks)
    host.seen.lvm = host.seen.lvm._replace(lvs=tuple(lv._replace(kinds=("striped",), stripes=2, stripe_bytes=65536) for lv in host.seen.lvm.lvs))
    assert "LV pgdata/data has a layout of 2 stripes; wanted linear" in refusals(stacks, host)[0]


# --- packages --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "distribution, through, gone, expected",
    [
        (("debian",), "filesystem", ("lvm", "sfdisk", "mkfs.ext4"), ["e2fsprogs", "fdisk", "lvm2"]),
        (("ubuntu", "debian"), "filesystem", ("sfdisk",), ["fdisk"]),
        (("rocky", "rhel", "fedora"), "filesystem", ("sfdisk", "wipefs", "mount", "lvm"), ["lvm2", "util-linux"]),
        (("opensuse-leap", "suse"), "filesystem", ("lvm",), ["lvm2"]),
        (("debian",), "partition", ("lvm", "mkfs.ext4"), []),
        (("debian",), "striped_lvm", ("lvm", "mkfs.ext4"), ["lvm2"]),
        (("arch",), "filesystem", ("sfdisk",), ["fdisk"]),
        (("debian",), "filesystem", (), []),
    ],
)
def test_missing_packages(host, distribution, through, gone, expected):
    host.seen.distribution = distribution
    host.seen.tools = {name: path for name, path in host.seen.tools.items() if name not in gone}
    assert packages.missing_packages(host.seen, spec(host), through) == expected


def test_planning_changes_nothing(host):
    stacks = spec(host)
    before = copy.deepcopy(host.seen)
    make_plan(stacks, host.seen)
    assert host.seen == before


# --- what somebody changed since ------------------------------------------------------------------


def warned(host, **more):
    plan = make_plan(spec(host, **more), host.seen)
    assert not plan.refusals and not plan.steps, (plan.refusals, plan.steps)
    return plan.warnings


def test_something_is_mounted_over_a_volume():
    host = built()
    host.seen.covers = {"/data01": "tmpfs (none)", "/elsewhere": "tmpfs (none)"}
    (line,) = refusals(spec(host), host)
    assert line.startswith("pgdata: volume 'data' is mounted on /data01, and tmpfs (none) is mounted over it [covered]")


@pytest.mark.parametrize(
    "change, words",
    [
        ({"reserved": 1 << 18}, "it keeps 1 GiB for root alone; wanted none, by tune2fs -m 0"),
        ({"errors": "panic"}, "by its superblock the answer to an error is 'panic'; wanted 'continue'"),
    ],
)
def test_settings_of_the_filesystem(change, words):
    host = built()
    devno = host.seen.lv_node("pgdata", "data").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(**change)
    (line,) = warned(host)
    assert words in line


def test_another_stripe_in_force():
    host = built()
    devno = host.seen.lv_node("pgdata", "data").devno
    host.seen.in_force[devno] = ("rw", "stripe=16")
    (line,) = warned(host)
    assert "it is mounted with stripe=16, and its superblock says 32; wanted one stripe for both, by mount -o remount,stripe=32" in line


def test_another_type_of_partition():
    host = built()
    table = host.seen.tables["259:0"]
    host.seen.tables["259:0"] = table._replace(entries=(table.entries[0]._replace(type="0FC63DAF-8483-4772-8E79-3D69D8477DE4"),))
    (line,) = warned(host)
    assert "has the type 0FC63DAF-8483-4772-8E79-3D69D8477DE4; wanted E6D6D379" in line and "sfdisk --part-type /dev/nvme0n1 1 E6D6D379" in line


def test_a_line_of_fstab_for_where_a_volume_was_before():
    """The spec has another mount point, and somebody unmounted the volume as the refusal said."""
    host = built()
    volumes = [dict(VOLUMES[0], mount="/moved"), dict(VOLUMES[1])]
    host.seen.mounts = [mount for mount in host.seen.mounts if mount.target != "/data01"]
    plan = make_plan(spec(host, volumes=volumes), host.seen)
    (line,) = plan.warnings
    assert plan.refusals == [] and line.startswith("pgdata: fstab mounts volume 'data' on /data01 as well, and the spec has /moved")
    host.build(spec(host, volumes=volumes))
    assert len(make_plan(spec(host, volumes=volumes), host.seen).warnings) == 1


def test_a_mount_that_the_spec_has_no_more():
    host = built()
    volumes = [{"name": "data", "size": "70%"}, {"name": "wal", "size": "20%", "mount": "/data02"}]
    (line,) = warned(host, volumes=volumes)
    assert "volume 'data' has no mount in the spec, and it is mounted on /data01, fstab mounts it on /data01; that is left alone" in line


def test_a_volume_of_ours_in_pieces_of_different_stripes():
    """Made longer by hand, with another stripe: nothing is made on it, mounted or not."""
    host = built()
    lvs = host.seen.lvm.lvs
    host.seen.lvm = host.seen.lvm._replace(lvs=(lvs[0]._replace(segments=2, layouts=((2, 64 * KIB), (2, 4 * KIB))), *lvs[1:]))
    (line,) = refusals(spec(host), host)
    assert line == "pgdata: LV pgdata/data has segments of 2 stripes of 64 KiB, then 2 stripes of 4 KiB; wanted 2 stripes of 64 KiB in all of it" + REBUILT

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
