# SPDX-License-Identifier: GPL-3.0-or-later
"""From (spec, observation) to steps or refusals. The hosts live in memory, see builder.py."""

from __future__ import annotations

import copy
import random
import re
from fractions import Fraction

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import overrides_for
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import packages
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan import volumes as plan_volumes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, VOLUMES, Host, spec

FULL = ["partition", "volume_group", "logical_volume", "logical_volume", "filesystem", "filesystem", "mount"]


def actions(plan):
    return [step["action"] for step in plan.steps]


def refusals(stacks, host, through="filesystem"):
    """The refusals of a plan that must have some, and no step."""
    plan = make_plan(stacks, host.seen, through)
    assert plan.refusals and not plan.steps and plan.digest == make_plan(stacks, host.seen, through).digest
    assert all("\n" not in line for line in plan.refusals)
    return plan.refusals


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
