# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab's disks that grow: SCSI by QEMU, NVMe over TCP on them, under a mounted filesystem, and over a power cut."""

from __future__ import annotations

import pytest
from labkit.bench import MIB, Bench, Disk
from labkit.harness import Harness
from labkit.nvme_tcp import HEAD, nvme_drives
from labkit.specs import stack
from plumblab.errors import LabError
from plumblab.qmp import Qmp

DISKS = [
    *({"name": f"grow{number}", "bus": "scsi", "size": "96MiB", "serial": f"GROW{number}", "physical_block_size": 4096} for number in range(2)),
    {"name": "growsim", "bus": "scsi", "size": "64MiB", "serial": "GROWSIM", "simulated": {}},
    {"name": "grownvme", "bus": "nvme", "size": "64MiB", "serial": "GROWNVME"},
]
MOUNT = "/pl/pgdata0"
SUM = f"sha256sum {MOUNT}/contents"
LARGER = 192 * MIB


def bytes_of(harness: Harness, disk: Disk) -> int:
    return int(harness.must(f"blockdev --getsize64 /dev/disk/by-id/{disk.by_id}"))


def fill(harness: Harness) -> str:
    """A file on the volume that is on the disks; its digest."""
    return harness.must(f"dd if=/dev/urandom of={MOUNT}/contents bs=1M count=20 conv=fsync status=none; {SUM}")


def again(harness: Harness) -> str:
    """The digest of the same, read from the disks."""
    return harness.must(f"mountpoint -q {MOUNT}; sync; echo 3 > /proc/sys/vm/drop_caches; {SUM}")


@pytest.mark.long(minutes=2)
def test_a_disk_grows_under_a_mounted_filesystem(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    disk = declared["grow0"]
    harness.build([stack([disk], "separate")])
    before, partition = fill(harness), harness.must(f"blockdev --getsize64 {disk.part()}")
    with bench.untouched(disk):
        grown = bench.resize(disk, LARGER)
    assert (grown, bytes_of(harness, grown)) == (disk, LARGER)
    assert (again(harness), harness.must(f"blockdev --getsize64 {disk.part()}")) == (before, partition)
    # The new room is zeros, takes writes, and has them after a power cut; so has the filesystem its file.
    last = LARGER - MIB
    harness.must(f"cmp --ignore-initial={last}:0 --bytes={MIB} {grown.path} /dev/zero")
    harness.must(f"dd if=/etc/services of={grown.path} bs=4096 seek={last // 4096} conv=notrunc,fsync status=none")
    bench.power_cut()
    disk = bench.disks["grow0"]
    bench.wait(f"mountpoint -q {MOUNT}")
    assert (bytes_of(harness, disk), again(harness)) == (LARGER, before)
    harness.must(f"cmp --ignore-initial={last}:0 --bytes=$(stat -c %s /etc/services) {disk.path} /etc/services")
    harness.must(f"umount {MOUNT}; udevadm settle")
    bench.pull(disk)
    disk = bench.plug(disk)["grow0"]
    bench.wait(f"mountpoint -q {MOUNT} || mount {MOUNT}")
    assert (bytes_of(harness, disk), again(harness)) == (LARGER, before)


@pytest.mark.long(minutes=2)
def test_nvme_over_tcp_grows_under_a_striped_volume(bench: Bench, harness: Harness, declared: dict[str, Disk]) -> None:
    with nvme_drives(bench, harness, [declared["grow0"], declared["grow1"]]) as drives:
        first, second = drives.disks
        assert [bytes_of(harness, disk) for disk in drives.disks] == [96 * MIB - HEAD] * 2
        wwids = [harness.must(f"cat /sys/block/{disk.kernel}/wwid").strip() for disk in drives.disks]
        assert len({first.by_id, second.by_id, *wwids}) == 4 and all(wwid.startswith("uuid.") for wwid in wwids)
        spec = {"stacks": [stack(drives.disks)]}
        harness.build(spec["stacks"])
        bench.counters(*drives.backing, reset=True)
        before = fill(harness)
        # The lab counts what the volume's file wrote, behind each of the two.
        assert all((counted["host_write_bytes"] or 0) >= 10 * MIB for counted in bench.counters(*drives.backing).values())
        plan = harness.module("stack_plan", spec)
        assert (plan["failed"], plan["steps"]) == (False, []), plan["report"]
        with bench.untouched(*drives.backing):
            drives.resize(first, LARGER)
        assert [bytes_of(harness, disk) for disk in drives.disks] == [LARGER, 96 * MIB - HEAD]
        drives.resize(second, "192MiB")
        assert [bytes_of(harness, disk) for disk in drives.disks] == [LARGER] * 2
        assert again(harness) == before
        bench.power_cut()
        assert [disk.by_id for disk in drives.serve()] == [first.by_id, second.by_id]
        bench.wait(f"mountpoint -q {MOUNT}")
        assert again(harness) == before
        assert sorted(harness.must("pvs --noheadings --options pv_name").split()) == sorted(disk.part() for disk in drives.disks)
        assert [bytes_of(harness, disk) for disk in drives.disks] == [LARGER] * 2
        assert [harness.must(f"cat /sys/block/{disk.kernel}/wwid").strip() for disk in drives.disks] == wwids


@pytest.mark.parametrize(("name", "size", "said"), [("grow0", 64 * MIB, "would be lost"), ("growsim", LARGER, "simulated SSD"), ("grownvme", LARGER, "NVMe")])
def test_refused_and_nothing_changes(bench: Bench, harness: Harness, declared: dict[str, Disk], name: str, size: int, said: str) -> None:
    disk = declared[name]
    before = bytes_of(harness, disk)
    with bench.untouched(disk), pytest.raises(LabError, match=said):
        bench.resize(disk, size)
    assert bytes_of(harness, disk) == before


def test_qemu_resizes_no_nvme_disk(bench: Bench, declared: dict[str, Disk]) -> None:
    """What the refusal says: a QEMU that can do it makes this test fail, and the refusal needless."""
    with Qmp(bench.paths) as qmp, pytest.raises(LabError, match="Permission conflict"):
        qmp.command("block_resize", {"node-name": f"node-{declared['grownvme'].name}", "size": LARGER})
