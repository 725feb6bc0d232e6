# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes on XFS: planned, limited by what it can be made as, carried on where an mkfs was cut off, and never taken for blank."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import BACKUP, BACKUP_OF_WHOLE, UNFINISHED, BlankProof, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import view
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.make_plan import make_plan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.read_spec import read_stacks
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import GIB, MIB, Host


def stacks_of(host, count=2, more=None, **data):
    devices = [host.name(devno) for devno, node in host.seen.nodes.items() if node.kind == "disk"]
    volume = {"name": "data", "size": "40GiB", "mount": "/data", "filesystem": "xfs", **data}
    return read_stacks([{"name": "pg", "devices": devices, "volumes": [volume, {"name": "wal", "size": "1GiB", "mount": "/wal"}], **(more or {})}])


def host_of(count=2, **more):
    host = Host()
    host.pair(count, **more)
    return host


def begun(host, **more):
    """A host whose LVs stand, and what is made on the first."""
    host.build(stacks_of(host), limit=4)
    volume = host.seen.lv_node("pg", "data")
    step = next(step for step in make_plan(stacks_of(host), host.seen).steps if step["action"] == "filesystem" and step["fstype"] == "xfs")
    host.seen.signatures[volume.devno] = [Signature("xfs", UNFINISHED, 0, step["uuid"], "pg-data")._replace(**more)]
    host.seen.proofs.pop(volume.devno)
    return volume.devno, step


def test_it_is_planned_beside_ext4():
    host = host_of()
    plan = make_plan(stacks_of(host), host.seen)
    data, wal = [step for step in plan.steps if step["action"] == "filesystem"]
    assert (data["fstype"], wal["fstype"], data["force"]) == ("xfs", "ext4", False) and "su=65536,sw=2,agsize=" in data["options"] and not plan.refusals
    assert "-b size=4096 -s size=4096 -m uuid=%s -L pg-data " % data["uuid"] in data["options"] and data["options"].endswith("-l su=4096 -K")
    (mount,) = [step for step in plan.steps if step["action"] == "mount"]
    assert [(one["fstype"], one["passno"]) for one in mount["mounts"]] == [("xfs", 0), ("ext4", 2)]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"size": "512MiB"}, "volume 'data' would have 512 MiB, in which mkfs.xfs makes no log of 64 MiB; wanted at least 520.50 MiB"),
        ({"mount_options": ["logbsize=32k"]}, ""),
    ],
)
def test_what_is_too_small_is_refused(more, words):
    host = host_of()
    plan = make_plan(stacks_of(host, **more), host.seen)
    assert any(words in reason for reason in plan.refusals) if words else plan.refusals == []


def test_a_partition_that_is_too_small_is_refused():
    host = host_of(1, size=400 * MIB)
    (device,) = [host.name(devno) for devno in host.seen.nodes]
    stack = {"name": "pg", "devices": [device], "layout": "separate", "reserve": "40%", "volumes": [{"name": "data", "mount": "/data", "filesystem": "xfs"}]}
    assert any("in which mkfs.xfs makes no log of 64 MiB; wanted at least 300 MiB" in reason for reason in make_plan(read_stacks([stack]), host.seen).refusals)


def test_a_stripe_width_that_mkfs_does_not_make():
    host = host_of(16, size=4096 * GIB)
    devices = [host.name(devno) for devno in host.seen.nodes]
    stack = {"name": "pg", "devices": devices, "stripe_size": "128MiB", "extent_size": "128MiB"}
    plan = make_plan(read_stacks([{**stack, "volumes": [{"name": "data", "mount": "/data", "filesystem": "xfs"}]}]), host.seen)
    assert ["its stripe width would be 2 GiB" in reason for reason in plan.refusals] == [True]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"mount_profile": "benchmark_2016"}, "'benchmark_2016' is not known; wanted one of default"),
        ({"mount_options": ["nobarrier"]}, "'nobarrier' is not taken: the kernel does not mount so"),
        ({"mount_options": ["data=writeback"]}, "'data=writeback' is not taken"),
        ({"size": "299MiB"}, "299 MiB is too small; wanted at least 300 MiB"),
        ({"errors": "panic"}, "a filesystem of the kind xfs has no use for it"),
        ({"lazy_init": True}, "a filesystem of the kind xfs has no use for it"),
        ({"label": "thirteen-long"}, "(xfs keeps 12 bytes)"),
    ],
)
def test_what_it_does_not_take(more, words):
    with pytest.raises(PlumblineError) as refused:
        stacks_of(host_of(), **more)
    assert words in " ".join([refused.value.msg, *refused.value.reasons])


def test_what_stands_is_left_as_it_is():
    host = host_of()
    host.build(stacks_of(host))
    assert make_plan(stacks_of(host), host.seen).steps == []


def test_it_grows():
    host = host_of()
    host.build(stacks_of(host))
    (lv, grow) = make_plan(stacks_of(host, size="60GiB"), host.seen).steps
    assert (lv["action"], grow["action"], grow["fstype"], grow["size_bytes"]) == ("grow_lv", "grow_filesystem", "xfs", 60 * GIB)


def test_an_mkfs_of_ours_that_was_cut_off_is_made_anew():
    host = host_of()
    devno, step = begun(host)
    host.seen.making = [step["uuid"]]
    steps = make_plan(stacks_of(host), host.seen).steps
    assert [(one["action"], one.get("force")) for one in steps] == [("filesystem", True), ("filesystem", False), ("mount", None)]
    host.build(stacks_of(host))
    assert make_plan(stacks_of(host), host.seen).steps == [] and host.seen.filesystems[devno].kind == "xfs"


def not_recorded(host, devno, step):
    host.seen.making = []


def recorded_for_another(host, devno, step):
    host.seen.making = ["11111111-2222-4333-8444-555555555555"]


def with_another_superblock(host, devno, step):
    host.seen.signatures[devno] = [host.seen.signatures[devno][0]._replace(uuid="11111111-2222-4333-8444-555555555555")]


def with_a_root_directory(host, devno, step):
    """Late in mkfs; or a copy of the superblock of one that was made to the end, in the first place."""
    host.seen.signatures[devno] = [host.seen.signatures[devno][0]._replace(uuid="")]


def with_copies_of_another(host, devno, step):
    host.seen.marks[devno] = [Signature("xfs", "backup superblock", 65 * MIB, "11111111-2222-4333-8444-555555555555", "old")]


def mounted(host, devno, step):
    host.mount(devno, "/data")


def with_another_signature(host, devno, step):
    host.seen.signatures[devno].append(Signature("LVM2_member", "raid", 536))


@pytest.mark.parametrize("change", [not_recorded, recorded_for_another, with_another_superblock, with_a_root_directory, with_copies_of_another, mounted])
def test_one_that_may_be_somebody_elses_is_damaged(change):
    host = host_of()
    devno, step = begun(host)
    host.seen.making = [step["uuid"]]
    change(host, devno, step)
    plan = make_plan(stacks_of(host), host.seen)
    assert any("[damaged]" in reason and "xfs_repair -n /dev/mapper/pg-data" in reason for reason in plan.refusals), plan.refusals


def test_another_signature_beside_it_is_left_alone():
    host = host_of()
    devno, step = begun(host)
    host.seen.making = [step["uuid"]]
    with_another_signature(host, devno, step)
    assert any("[signature]" in reason for reason in make_plan(stacks_of(host), host.seen).refusals)


@pytest.mark.parametrize("wanted", ["xfs", "ext4"])
def test_the_advice_is_that_of_what_was_there(wanted):
    """An XFS of which only copies are left, on a volume that is to get another kind."""
    host = host_of()
    host.build(stacks_of(host), limit=4)
    volume = host.seen.lv_node("pg", "data")
    host.seen.marks[volume.devno] = [Signature("xfs", "backup superblock", 65 * MIB, "u", "pg-data")]
    (refusal,) = make_plan(stacks_of(host, filesystem=wanted), host.seen).refusals
    assert "[data]" in refusal and "xfs_repair -n /dev/mapper/pg-data" in refusal and "e2fsck" not in refusal
    host.seen.signatures[volume.devno] = [Signature("xfs", "filesystem", 0, "u", "pg-data")]
    (refusal,) = make_plan(stacks_of(host, filesystem=wanted), host.seen).refusals
    assert "[damaged]" in refusal and "no superblock that is sound" in refusal and "xfs_repair" in refusal


def standing(host, **more):
    """The stack stands; its XFS with other fields."""
    host.build(stacks_of(host))
    devno = host.seen.lv_node("pg", "data").devno
    host.seen.filesystems[devno] = host.seen.filesystems[devno]._replace(**more)
    return devno


@pytest.mark.parametrize(("option", "words"), [("logbsize=32k", "'logbsize=32k' is below the stripe unit of its log, 64 KiB"), ("logbsize=64k", "")])
def test_options_that_the_kernel_would_not_mount_it_with(option, words):
    """Somebody may have made its log otherwise; a remount says 0 to the option, and the next boot would not mount it."""
    host = host_of()
    standing(host, log_unit=65536)
    refusals = make_plan(stacks_of(host, mount_options=["noatime", option]), host.seen).refusals
    assert any(words in reason for reason in refusals) if words else not any("stripe unit" in reason for reason in refusals)


@pytest.mark.parametrize(("unit", "told"), [(0, False), (4096, False), (65536, True), (262144, True)])
def test_a_log_that_rounds_each_commit_up_is_told(unit, told):
    host = host_of()
    devno = standing(host, log_unit=unit)
    findings = [one for one in view(host.seen, devno).findings if one.rule == "xfs_log_unit"]
    assert bool(findings) is told and all("each commit" in one.found and "4 KiB" in one.wanted and one.level == "warning" for one in findings)


def test_the_option_discard_over_what_takes_none():
    """XFS drops it by itself, and each later run would ask for an unmount that changes nothing."""
    host = host_of()
    first = next(devno for devno, node in host.seen.nodes.items() if node.kind == "disk")
    asked = {"mount_options": ["noatime", "discard"]}
    assert make_plan(stacks_of(host, **asked), host.seen).refusals == []
    host.edit(first, discard_max=0)
    (refusal,) = make_plan(stacks_of(host, **asked), host.seen).refusals
    assert "xfs drops the mount option 'discard'" in refusal and "nvme0n1 takes none" in refusal
    assert make_plan(stacks_of(host, filesystem="ext4", **asked), host.seen).refusals == []


@pytest.mark.parametrize("unfinished", [True, False], ids=["by its own superblock", "its head not written yet"])
def test_what_a_cut_mkfs_left_is_no_empty_volume_to_measure_writes_on(unfinished):
    host = host_of()
    devno, step = begun(host)
    host.seen.making = [step["uuid"]]
    if not unfinished:
        host.seen.signatures.pop(devno)
        host.seen.proofs[devno] = BlankProof(1, 1, ("data at byte 1048576",), 1048576)
    plan = make_plan(stacks_of(host), host.seen)
    assert plan.refusals == [] and plan.stacks[0].carries_on
    host.seen.making = []
    assert not make_plan(stacks_of(host), host.seen).stacks[0].carries_on


def test_a_copy_of_a_whole_filesystem_is_data_whatever_the_record_says():
    """A record that stayed, and a copy that somebody put in the first place: the last copies say that mkfs had ended."""
    host = host_of()
    devno, step = begun(host)
    host.seen.making = [step["uuid"]]
    host.seen.marks[devno] = [Signature("xfs", BACKUP, 65 * MIB, step["uuid"], "pg-data")]
    assert make_plan(stacks_of(host), host.seen).refusals == []
    host.seen.marks[devno].append(Signature("xfs", BACKUP_OF_WHOLE, 455 * MIB, step["uuid"], "pg-data"))
    assert "[damaged]" in make_plan(stacks_of(host), host.seen).refusals[0]
    host.seen.signatures.pop(devno)
    host.seen.proofs[devno] = BlankProof(1, 1, ("data at byte 1048576",), 1048576)
    assert "[data]" in make_plan(stacks_of(host), host.seen).refusals[0]


def test_what_nobody_recognised_is_not_repaired():
    """xfs_repair looks for a superblock on the whole device, and writes what it finds over what is there."""
    host = host_of()
    host.build(stacks_of(host), limit=4)
    devno = host.seen.lv_node("pg", "data").devno
    host.seen.proofs[devno] = BlankProof(1, 1, ("data at byte 0",), 0)
    (refusal,) = make_plan(stacks_of(host), host.seen).refusals
    assert "[data]" in refusal and "xfs_repair" not in refusal and "make a copy of /dev/mapper/pg-data" in refusal


def test_one_that_is_mounted_and_lost_its_superblock_is_known_by_its_mount():
    host = host_of()
    host.build(stacks_of(host), limit=4)
    devno = host.seen.lv_node("pg", "data").devno
    host.mount(devno, "/data")
    host.seen.mounts = [mount._replace(fstype="xfs") if mount.devno == devno else mount for mount in host.seen.mounts]
    refusals = make_plan(stacks_of(host), host.seen).refusals
    words = ("[damaged]", "xfs_repair -n /dev/mapper/pg-data", "unmount it, and look again")
    assert any(all(word in reason for word in words) for reason in refusals), refusals


def test_one_that_is_not_made_to_the_end_is_told():
    host = host_of()
    devno, _step = begun(host)
    assert [one.level for one in view(host.seen, devno).findings if one.rule == "unfinished"] == ["error"]
