# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import SATA, Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import view
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.trim_path import NONE, judge_trim_path
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, KIB, MIB, Host, spec


def built(layout_of=lambda host: None):
    """Two disks, partitions and a striped volume with a mounted filesystem on it; *layout_of* changes the disks first."""
    host = Host()
    disks = host.pair()
    layout_of(host)
    host.build(spec(host))
    return host, disks, host.seen.lv_node("pgdata", "data").devno


def found(host, devno):
    mounts = host.seen.mounted(devno)
    return [(one.layer, one.name, one.found, one.wanted) for one in judge_trim_path(host.seen, devno, mounts[0] if mounts else None)]


def test_a_path_that_is_open():
    host, _disks, devno = built()
    assert found(host, devno) == []


DRIVES = {
    "raid": ({"transport": "scsi"}, "a drive that is no volume of a RAID controller: most of these pass on no trim"),
    "sata behind sas": ({"transport": "sas", "ata": True}, "a drive that reports deterministic zeros after trim"),
    "sas": ({"transport": "sas"}, "a drive and a controller that take them"),
    "sata": ({"transport": "sata", "ata": True}, "a drive and a controller that take them"),
    "virtual": ({"transport": "virtio"}, "a virtual disk that the hypervisor gives discards"),
    "bridge": ({"transport": "usb"}, "a drive without a USB bridge"),
}


@pytest.mark.parametrize("row", DRIVES)
def test_a_drive_that_takes_none(row):
    identity, wanted = DRIVES[row]

    def change(host):
        host.edit("259:0", discard_max=0, identity=host.seen.nodes["259:0"].identity._replace(**identity))

    host, _disks, devno = built(change)
    ((layer, name, what, words),) = found(host, devno)
    assert (layer, name, what) == ("trim", "nvme0n1", NONE) and words.startswith(wanted)
    assert all(one.level == "warning" for one in view(host.seen, devno).findings if one.layer == "trim")


@pytest.mark.parametrize("mode, told", [("forced_unqueued", 1), ("queued", 0), ("unqueued", 0), ("", 0)])
def test_a_model_that_the_kernel_trims_without_queueing(mode, told):
    host, disks, devno = built()
    host.seen.drive_links[disks[0]] = (Link(SATA, LinkEnd("ata1"), LinkEnd(""), trim=mode),)
    rows = judge_trim_path(host.seen, devno)
    assert [(one.level, one.name) for one in rows] == [("info", "nvme0n1")] * told


def test_a_disk_without_flash_wants_none():
    host, _disks, devno = built(lambda host: host.edit("259:0", discard_max=0, rotational=True))
    assert found(host, devno) == []


@pytest.mark.parametrize(
    "kind, segment, wanted",
    [
        ("crypt", "crypt", "allow_discards (discard in /etc/crypttab)"),
        ("lvm", "raid5", "raid456's parameter devices_handle_discard_safely=Y"),
        ("md", "raid6", "raid456's parameter devices_handle_discard_safely=Y"),
        ("dm", "integrity", "a mapping that passes discards on"),
    ],
)
def test_the_layer_that_stops_them_is_named_alone(kind, segment, wanted):
    host = Host()
    parts = [host.part(disk, MIB) for disk in host.pair(3)]
    lower = host.mapped("lower", [Segment(0, GIB, segment, 64 * KIB, tuple((part, MIB) for part in parts))], kind)
    upper = host.mapped("upper", [Segment(0, GIB, "linear", 0, ((lower, 0),))])
    for devno in (lower, upper):
        host.edit(devno, discard_max=0)
    ((layer, name, what, words),) = found(host, upper)
    assert (layer, name, what) == ("trim", "lower", NONE + ", and all devices below it do") and words.startswith(wanted)


@pytest.mark.parametrize(
    "granule, most, stripe, words",
    [
        (4096, 2 << 40, "64KiB", []),
        (64 * KIB, 2 << 40, "64KiB", []),
        (128 * KIB, 2 << 40, "64KiB", ["stripe size 64 KiB is no multiple of the 128 KiB that nvme0n1 frees at once"]),
        (3 * 512, 2 << 40, "64KiB", ["stripe size 64 KiB is no multiple of the 1536 B that nvme0n1 frees at once"]),
        (MIB, 2 << 40, "1MiB", []),
        (64 * KIB, 32 * KIB, "64KiB", ["it takes discards of at most 32 KiB, and frees granules of 64 KiB: no discard frees one"] * 2),
    ],
)
def test_granules(granule, most, stripe, words):
    host = Host()
    host.pair(2, limits=Limits(512, 512, 512, 0, 0, discard_granularity=granule), discard_max=most)
    host.build(spec(host, stripe_size=stripe))
    assert [what for _layer, _name, what, _wanted in found(host, host.seen.lv_node("pgdata", "data").devno)] == words


def test_a_mount_that_discards_at_every_delete():
    host, _disks, devno = built()
    host.seen.mounts = [one._replace(options=(*one.options, "discard")) for one in host.seen.mounts]
    ((layer, name, what, wanted),) = found(host, devno)
    assert (layer, name, wanted) == ("mount", "/data01", "'nodiscard', and fstrim.timer once a week") and what.startswith("'discard': ")


@pytest.mark.parametrize("more, told", [({}, 1), ({"discard": False}, 0)])
def test_a_plan_says_it_before_it_is_built(more, told):
    host = Host()
    host.pair()
    host.edit("259:16", discard_max=0)
    plan = make_plan(spec(host, **more), host.seen)
    assert len(plan.warnings) == told and not plan.refusals
    assert plan.warnings == ["pgdata: the stack is built, and trim nvme1n1: %s; wanted a drive and a controller that take them" % NONE] * told
