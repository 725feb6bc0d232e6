# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack of ours loses the bytes by which it is known. It is refused, nothing is written, and the guide "Getting your data back" brings it back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.everyday import everyday
from labkit.guides import follow
from labkit.harness import Harness, until_counted
from labkit.runs import next_plan
from labkit.specs import assert_error, said, stack

DISKS = pool(["lost", "other"], size="1536MiB")  # the first MiB of a smaller filesystem holds inodes, which have no second copy
GUIDE = "guide_data_back"
VG, MOUNT, VOLUME = "pgdata", "/pl/pgdata0", "/dev/mapper/pgdata-vol0"


def zeros(path: str, at: int, length: int) -> str:
    return f"dd if=/dev/zero of={path} bs=512 seek={at // 512} count={length // 512} conv=notrunc,fsync status=none"


# What is done to the volume {0} or to the partitions {1} and {2}.
DAMAGES = {
    "signature": "wipefs -q -a -f {0}",
    "first-mib": zeros("{0}", 0, 1 << 20),
    "superblock": zeros("{0}", 1024, 1024),
    "label": zeros("{1}", 512, 512),
    "labels": f"{zeros('{1}', 512, 512)}; {zeros('{2}', 512, 512)}",
    "metadata": f"{zeros('{1}', 4096, (1 << 20) - 4096)}; {zeros('{2}', 4096, (1 << 20) - 4096)}",
}
OF_FILESYSTEM = ("signature", "first-mib", "superblock")


def parts(disks: dict[str, Disk]) -> list[str]:
    return [disk.part() for disk in disks.values()]


def rescue(harness: Harness, damage: str, identifiers: dict[str, str]) -> None:
    """As the guide says."""
    if damage in OF_FILESYSTEM:
        follow(harness, "superblock", GUIDE, VOLUME=VOLUME)
        return
    follow(harness, "down", GUIDE, VG=VG)
    found = follow(harness, "which", GUIDE, VG=VG)
    for part, identifier in identifiers.items():
        assert identifier in found
        if damage != "label" or part == next(iter(identifiers)):
            follow(harness, "label", GUIDE, VG=VG, PV=part, ID=identifier)
    follow(harness, "group", GUIDE, VG=VG)


@pytest.mark.parametrize("damage", everyday(DAMAGES, "signature", minutes=1))
def test_it_is_refused_and_comes_back(bench: Bench, harness: Harness, disks: dict[str, Disk], damage: str) -> None:
    """Mounted and down; planned, checked and run."""
    spec: dict[str, Any] = {"stacks": [stack(disks.values())]}
    # The kernel reads all bitmaps at some time in the seconds behind a mount, and where it then finds no superblock it notes the error on the disk.
    spec["stacks"][0]["volumes"][0]["mount_options"] = ["noatime", "no_prefetch_block_bitmaps"]
    harness.build(spec["stacks"])
    harness.must(f"head -c 8388608 /dev/urandom > {MOUNT}/table; sync; sha256sum {MOUNT}/table > /run/pl-table")
    rows = [line.split() for line in harness.must("pvs --noheadings -o pv_name,pv_uuid").splitlines()]
    identifiers = dict(sorted((part, identifier) for part, identifier in rows))
    for mounted in (True, False):
        if not mounted:
            harness.must(f"umount {MOUNT}" + ("" if damage in OF_FILESYSTEM else f"; vgchange -q -an {VG}"))
        harness.must("sync; " + DAMAGES[damage].format(VOLUME, *identifiers) + "; udevadm settle")
        word = "[damaged]" if mounted or damage == "label" else "[data]"
        remedy = "e2fsck -b 32768 " + VOLUME if damage in OF_FILESYSTEM else "vgcfgrestore"
        with bench.untouched(*disks.values()):
            for more, check in (({}, False), ({}, True), ({"lease": {}}, False)):
                result = harness.module("stack_plan", {**spec, **more}, check=check)
                if damage == "metadata" and "lvm fullreport failed" in said(result):
                    assert_error(result, "vgcfgrestore")
                else:
                    assert_error(result, word, remedy, "guide on getting data back")
        rescue(harness, damage, identifiers)
        harness.must(f"mountpoint -q {MOUNT} || mount {MOUNT}; sha256sum --check --quiet /run/pl-table")
        assert harness.module("stack_plan", spec)["steps"] == []


@pytest.mark.long(minutes=1)
def test_a_volume_that_was_removed(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    spec = {"stacks": [stack(disks.values(), volumes=2)]}
    harness.build(spec["stacks"])
    harness.must(f"head -c 268435456 /dev/urandom > {MOUNT}/table; sha256sum {MOUNT}/table > /run/pl-table; umount /pl/{VG}*; lvremove -q -y {VG}/vol0")
    with bench.untouched(*disks.values()):
        assert_error(harness.module("stack_plan", spec), "[data]", "an LV that was removed comes back with vgcfgrestore")
    listed = harness.must(f"vgcfgrestore --list {VG}")
    file = next("/etc/lvm/archive/" + re.findall(r"File:\s+\S*/(\S+)", one)[0] for one in listed.split("\n\n")[::-1] if "before" in one and "lvremove" in one)
    follow(harness, "removed", GUIDE, FILE=file, VG=VG)
    harness.must(f"mount {MOUNT}; sha256sum --check --quiet /run/pl-table")
    # What a later "vgcfgrestore VG" takes. Behind a restore LVM may keep the copy from behind the lvremove: both have one number.
    assert "vol0 {" in harness.must(f"cat /etc/lvm/backup/{VG}")


@pytest.mark.parametrize("layout", everyday(["striped", "separate"], "striped", minutes=1))
def test_what_may_be_lost_is_freed_by_the_word_for_it(bench: Bench, harness: Harness, disks: dict[str, Disk], layout: str) -> None:
    spec = stack(disks.values(), layout=layout)
    harness.build([spec])
    harness.must("umount " + " ".join(volume["mount"] for volume in spec["volumes"]))
    if layout == "striped":
        harness.must(f"vgremove -q -y {VG}; pvremove -q {' '.join(parts(disks))}")
    else:
        harness.must("; ".join(f"wipefs -q -a {part}" for part in parts(disks)))
    with bench.untouched(*disks.values()):
        refused = harness.module("stack_plan", {"stacks": [spec]})
        assert_error(refused, "[data]", "[erase]")
    words = re.findall(r"serial: '?(\w+)'?, signature: '?([0-9a-f]{32})'?\}", said(refused))
    assert sorted(serial for serial, _signature in words) == sorted(disk.serial for disk in disks.values())
    erase = [{"serial": serial, "signature": signature} for serial, signature in words]
    with bench.untouched(*disks.values()):
        assert_error(harness.module("stack_plan", {"stacks": [{**spec, "erase": [{**erase[0], "signature": "0" * 32}, erase[1]]}]}), "[erase]")
    harness.build([{**spec, "erase": erase}])
    assert harness.module("stack_plan", {"stacks": [spec]})["steps"] == []


@pytest.mark.long(minutes=1)
def test_a_load_of_ours_that_was_cut_off_is_carried_on(harness: Harness, disks: dict[str, Disk]) -> None:
    """And one page among it that is somebody's is enough to refuse it."""
    spec: dict[str, Any] = {"stacks": [stack(disks.values())]}
    plan = harness.module("stack_plan", {**spec, "through": "striped_lvm"})
    harness.apply(plan["steps"])
    load = {"volumes": [VOLUME], "write": True, "span": "512MiB", "jobs": ["rand_write", "seq_write"], "max_seconds": 600, "block_seconds": 2}
    harness.run("rm -f /var/lib/plumbline/loads.json")
    harness.cut_when(until_counted(VOLUME, 7, (16 << 20) // 512), "throughput", load)
    harness.must("until ! pgrep -x fio; do sleep 0.1; done")
    filled = harness.run(f"dd if={VOLUME} bs=1M count=64 iflag=direct status=none | tr -d '\\0' | wc -c")[1]
    assert int(filled) > 1 << 20, "nothing had been written when it was cut off"
    after = harness.module("stack_plan", spec)
    assert not after["failed"], said(after)
    assert [step["action"] for step in after["steps"]] == ["filesystem", "mount"]
    harness.must("mv /var/lib/plumbline/loads.json /run/loads.json")
    assert_error(harness.module("stack_plan", spec), "[data]")
    harness.must("mv /run/loads.json /var/lib/plumbline/loads.json")
    harness.must(f"head -c 512 /dev/urandom | dd of={VOLUME} bs=512 seek=80 conv=notrunc,fsync status=none")
    assert_error(harness.module("stack_plan", spec), "[data]", "first at byte 40960 ")
    harness.must(f"dd if=/dev/zero of={VOLUME} bs=512 seek=80 count=1 conv=notrunc,fsync status=none")
    harness.build(spec["stacks"])


@pytest.mark.long(minutes=1)
def test_data_that_was_put_where_a_filesystem_was_due(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """A run that ended before mkfs has noted the filesystem. What somebody writes to the bare volume then is no remains of ours."""
    spec: dict[str, Any] = {"stacks": [stack(disks.values())]}
    next_plan(harness, spec)  # as a run that means to carry it out
    harness.apply(harness.module("stack_plan", {**spec, "through": "striped_lvm"})["steps"])
    noted = [step["uuid"] for step in next_plan(harness, spec)["steps"] if step["action"] == "filesystem"]
    assert noted and all(uuid in harness.must("cat /var/lib/plumbline/making.json") for uuid in noted)
    harness.must(f"head -c 1M /dev/urandom | dd of={VOLUME} bs=64K conv=fsync status=none")
    with bench.untouched(*disks.values()):
        assert_error(harness.module("stack_plan", spec), "[data]", "first at byte 0 ")
    harness.must(f"dd if=/dev/zero of={VOLUME} bs=1M count=1 conv=fsync status=none")
    harness.build(spec["stacks"])
