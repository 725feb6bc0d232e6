# SPDX-License-Identifier: GPL-3.0-or-later
"""A filter of LVM's that would reject a new PV is found in the plan, before a table is written."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.lvm_filters import LvmFilter, names_of_partition
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Leg
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host, spec

NAMES = ["/dev/sdb1", "/dev/disk/by-id/ata-Flash_S1-part1", "/dev/disk/by-partlabel/plumbline:pgdata:0"]
ALL, NONE = ("a|.*|",), ("r|.*|",)
LINEAR = {"layout": "linear", "volumes": [{"name": "data", "mount": "/data01"}]}
ROWS = {
    # name: (patterns, those that reject a device with NAMES)
    "none": ((), []),
    "default": (ALL, []),
    "reject-all": (NONE, ["r|.*|"]),
    "nothing-matches": (("a|^/dev/sda|", "r|^/dev/mapper/|"), []),
    "only-others": (("a|^/dev/sda[0-9]*$|", "r|.*|"), ["r|.*|"]),
    "one-name-is-rejected-the-others-match-nothing": (("r|^/dev/sdb1$|",), ["r|^/dev/sdb1$|"]),
    "one-name-is-rejected-another-accepted": (("r|^/dev/sdb|", "a|by-id|"), []),
    "accept-then-reject": (("a|^/dev/sdb|", "r|.*|"), []),
    "reject-then-accept": (("r|/dev/|", "a|.*|"), ["r|/dev/|"]),
    "each-name-by-its-own": (("r|^/dev/sd|", "r|by-id|", "r|by-partlabel|"), ["r|^/dev/sd|", "r|by-id|", "r|by-partlabel|"]),
    "by-id-of-the-disk": (("a|^/dev/disk/by-id/ata-Flash_S1|", "r|.*|"), []),
    "by-id-of-the-disk-alone": (("a|^/dev/disk/by-id/ata-Flash_S1$|", "r|.*|"), ["r|.*|"]),
    "by-partlabel": (("a|^/dev/disk/by-partlabel/plumbline:pgdata:|", "r|.*|"), []),
    "class": (("a|^/dev/sd[bc]1$|", "r|.*|"), []),
    "inverted-class": (("r|^/dev/sd[^a]|", "r|disk|"), ["r|^/dev/sd[^a]|", "r|disk|"]),
    "alternatives": (("a/loop|sd[a-c]/", "r/.*/"), []),
    "slash": (("r/sdb/", "r!disk!"), ["r/sdb/", "r!disk!"]),
    "brackets": (("a(sdb1)", "r{.*}"), []),
    "square-brackets": (("r[.*]",), ["r[.*]"]),
}


@pytest.mark.parametrize("name", ROWS)
def test_which_patterns_reject(name):
    patterns, rejecting = ROWS[name]
    assert LvmFilter(patterns).rejecting(NAMES) == rejecting


def test_a_long_filter_of_a_large_host_is_judged():
    """A hundred patterns, and 64 disks with twelve names each."""
    judge = LvmFilter(["a|^/dev/disk/by-id/scsi-3%030d|" % number for number in range(100)] + ["r|.*|"])
    for disk in range(64):
        assert judge.rejecting(["/dev/disk/by-path/pci-0000:%02x:00.0-sas-phy%d-lun-0-part1-%050d" % (disk, number, number) for number in range(12)])


@pytest.mark.parametrize("pattern", ["", "a", "a|", "x|a|", "a|b", "a(b(", "a||", "/dev/sda"])
def test_what_is_no_pattern(pattern):
    with pytest.raises(ValueError, match=r"\w"):
        LvmFilter([pattern])


@pytest.mark.parametrize(("disk", "part"), [("sdb", "/dev/sdb1"), ("nvme0n1", "/dev/nvme0n1p1"), ("loop3", "/dev/loop3p1")])
def test_what_the_partition_will_be_called(disk, part):
    host = Host()
    devno, other = host.disk(name=disk), host.disk()
    host.seen.disk_links = {"/dev/disk/by-id/ata-x": devno, "/dev/disk/by-path/pci-1": devno, "/dev/disk/by-id/ata-y": other}
    names = list(names_of_partition(host.seen, Leg(devno, 0, host.seen.geometries[devno]), "pgdata"))
    assert names[0] == part and names[2:] == [
        "/dev/disk/by-partlabel/plumbline:pgdata:0", "/dev/disk/by-id/ata-x-part1", "/dev/disk/by-path/pci-1-part1",
    ]  # fmt: skip
    guid = make_plan(spec(host, [devno], **LINEAR), host.seen).steps[0]["devices"][0]["guid"]
    assert names[1] == "/dev/disk/by-partuuid/" + guid.lower()


@pytest.mark.parametrize("setting", ["filter", "global_filter"])
@pytest.mark.parametrize("through", ["partition", "striped_lvm", "filesystem"])
def test_a_new_device_that_lvm_would_reject_is_refused(host, setting, through):
    """Both have to accept: the other one does."""
    host.seen.lvm_filters = {"global_filter": ALL, "filter": ALL, setting: ("a|^/dev/sda|", "r|.*|")}
    plan = make_plan(spec(host), host.seen, through)
    assert plan.steps == [] and plan.refusals == [
        "pgdata: device nvme0n1 (SER0000), device nvme1n1 (SER0001): LVM would make no PV there: '%s' of its configuration rejects the partition "
        'to be, by "r|.*|" [hidden]; let LVM see it (in /etc/lvm/lvm.conf or lvmlocal.conf, put "a|^/dev/disk/by-partlabel/plumbline:pgdata:|" '
        "first in %s), and run again" % (setting, setting)
    ]
    assert not [word for word in ("wipe", "erase", "pvremove", "pvcreate") if word in plan.refusals[0]]


def test_it_is_told_beside_what_else_speaks_against_a_device(host):
    """As in an audit, which proves no device blank."""
    host.seen.lvm_filters = {"filter": NONE}
    host.seen.proofs.clear()
    words = "\n".join(make_plan(spec(host), host.seen).refusals)
    assert "[unproven]" in words and "[hidden]" in words


def test_the_advice_is_enough(host):
    host.seen.lvm_filters = {"global_filter": ALL, "filter": ("a|^/dev/disk/by-partlabel/plumbline:pgdata:|", "r|.*|")}
    plan = make_plan(spec(host), host.seen)
    assert not plan.refusals and [step["action"] for step in plan.steps][:2] == ["partition", "volume_group"]


def test_only_the_rejected_device_is_named(host):
    host.seen.lvm_filters = {"filter": ("r|nvme1n1|",)}
    assert "pgdata: device nvme1n1 (SER0001): LVM would" in make_plan(spec(host), host.seen).refusals[0]


def test_one_that_stands_is_not_judged(host):
    """LVM lists its PVs; whether it would let them in today is nobody's question."""
    host.build(spec(host))
    host.seen.lvm_filters = {"filter": NONE}
    plan = make_plan(spec(host), host.seen)
    assert not plan.refusals and not plan.steps


def test_a_partition_without_a_pv_is_judged(host):
    """The first run wrote the tables, and was cut off."""
    host.build(spec(host), limit=1)
    host.seen.lvm_filters = {"filter": NONE}
    assert "[hidden]" in make_plan(spec(host), host.seen).refusals[0]


def test_a_layout_without_lvm_has_no_use_for_it(host):
    host.seen.lvm_filters = {"filter": NONE}
    volumes = [{"name": "data", "mount": "/data01"}, {"name": "wal", "mount": "/data02"}]
    assert make_plan(spec(host, layout="separate", volumes=volumes), host.seen).steps


def test_write_caches_alone_are_planned(host):
    host.seen.lvm_filters = {"filter": NONE}
    assert not make_plan(spec(host), host.seen, "write_cache").refusals


def test_a_filter_that_cannot_be_judged_is_told_and_no_reason_to_refuse(host):
    host.seen.lvm_filters = {"filter": ("a|)|",)}
    plan = make_plan(spec(host), host.seen)
    assert plan.steps and not plan.refusals and "whether 'filter' of LVM's configuration lets it use the new partitions is not known" in str(plan.warnings)
