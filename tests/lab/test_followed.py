# SPDX-License-Identifier: GPL-3.0-or-later
"""stack_info and the audit on mappings of every kind: each segment, each level and each leg is judged, and what cannot be followed is never called aligned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.audits import read_stacks
from labkit.bench import Bench, Disk, pool
from labkit.everyday import everyday
from labkit.harness import Harness

DISKS = pool(map(str, range(4)), min_io_size=16384, size="160MiB")  # flash with pages of 16 KiB


@dataclass(frozen=True)
class Row:
    """How a stack is made of the disks {0} to {3} and their partitions {0}1 and so on, and taken apart again; the errors (layer, name) that are told.

    *begin*: where the filesystem begins on its disks, by their number; *blind*: the mappings that are not followed.
    """

    make: str
    undo: str
    errors: tuple[tuple[str, str], ...] = ()
    begin: tuple[tuple[int, int], ...] = ()
    blind: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    mount: str = ""
    module: str = ""  # what the kernel must have for it


def parts(*starts: int) -> str:
    """A partition on each disk, from these sectors on."""
    made = [f"printf 'label: gpt\\nfirst-lba: 34\\nstart={start}\\n' | sfdisk -q {{{number}}}; " for number, start in enumerate(starts)]
    return "".join(made) + "udevadm settle; "


def group(count: int) -> str:
    pvs = " ".join(f"{{{number}}}1" for number in range(count))
    # The kernel's alignment_offset of a partition would move the data area, and make good what is to be seen.
    return f"pvcreate -q --config devices/data_alignment_offset_detection=0 --dataalignment 1m {pvs}; vgcreate -q -s 4M v {pvs}; "


# dm-raid writes the clean mark and the bitmap of its members some time after the last write (dm-raid.rst, daemon_sleep), and shows neither. Both are
# written when the LV is stopped, and an LV that nobody writes to has nothing to mark.
CLEAN = "; sync; vgchange -q -an v; vgchange -q -ay v; udevadm settle"


def mkfs(device: str, stride: int = 0, width: int = 0) -> str:
    options = f"-E stride={stride},stripe_width={width}" if stride else ""
    return f"mkfs.ext4 -q -b 4096 -E nodiscard {options} {device}; udevadm settle"


GONE = "vgremove -q -y v; udevadm settle"
STOP = "for md in /dev/md/*; do mdadm -q --stop $md; done; udevadm settle"
TWO, FOUR = parts(2048, 2048), parts(2048, 2048, 2048, 2048)
LV = "/dev/v/lv"
NEW = "lvcreate -q -y -n lv -W n "
AT = 2 << 20  # where the data of a PV begins on its disk
ROWS = {
    "64 KiB, then 4 KiB": Row(TWO + group(2) + NEW + "-l 4 -i 2 -I 64k v; lvextend -q -l +4 -i 2 -I 4k v/lv; " + mkfs(LV, 16, 32), GONE, (("lv", "v-lv"),)),
    "linear, then 4 KiB": Row(TWO + group(2) + NEW + "-l 2 v {0}1; lvextend -q -l +4 -i 2 -I 4k v/lv; " + mkfs(LV, 1, 2), GONE, (("lv", "v-lv"),)),
    "a wrong stride on two kinds": Row(
        TWO + group(2) + NEW + "-l 4 -i 2 -I 64k v; lvextend -q -l +4 -i 2 -I 32k v/lv; " + mkfs(LV, 4, 8), GONE, (("filesystem", "v-lv"),)
    ),
    "LVM over arrays of 4 KiB": Row(
        FOUR + "mdadm -q -C /dev/md/a -l 0 -n 2 -c 4 -R {0}1 {1}1; mdadm -q -C /dev/md/b -l 0 -n 2 -c 4 -R {2}1 {3}1; "
        "pvcreate -q --dataalignment 1m /dev/md/a /dev/md/b; vgcreate -q -s 4M v /dev/md/a /dev/md/b; " + NEW + "-l 8 -i 2 -I 64k v; " + mkfs(LV, 16, 32),
        GONE + "; pvremove -q /dev/md/a /dev/md/b; " + STOP, (("md", "md126"), ("md", "md127")),
    ),
    "LV raid10": Row(
        FOUR + group(4) + NEW + "--type raid10 -i 2 -m 1 -l 8 -I 64k --nosync v; " + mkfs(LV, 16, 32) + CLEAN, GONE,
        begin=tuple((number, AT + (4 << 20)) for number in range(4)),
    ),
    "LV raid10 of 4 KiB": Row(FOUR + group(4) + NEW + "--type raid10 -i 2 -m 1 -l 8 -I 4k --nosync v; " + mkfs(LV, 1, 2) + CLEAN, GONE, (("lv", "v-lv"),)),
    "LV raid0": Row(TWO + group(2) + NEW + "--type raid0 -i 2 -l 8 -I 64k v; " + mkfs(LV, 16, 32), GONE, begin=((0, AT), (1, AT))),
    "LV raid1 over a partition that is off": Row(
        parts(63, 2048) + group(2) + NEW + "--type raid1 -m 1 -l 8 --nosync v; " + mkfs(LV) + CLEAN, GONE, (("partition", "{0}1"),)
    ),
    "a snapshot over a partition that is off": Row(
        parts(63) + group(1) + NEW + "-l 8 v; " + mkfs(LV) + "; lvcreate -q -s -n snap -l 4 v/lv", GONE, (("partition", "{0}1"),) * 2, blind=("v-lv", "v-snap")
    ),
    "a linear array": Row(
        TWO + "mdadm -q -C /dev/md/a -l linear -n 2 -R {0}1 {1}1; " + mkfs("/dev/md/a"), STOP, begin=((0, 2 << 20),),
        module="md-linear",
    ),
    "an empty GPT": Row("printf 'label: gpt\\n' | sfdisk -q {0}; udevadm settle", "wipefs -q -a {0}"),
    "a GPT for blocks of 4096": Row(
        "l=$(losetup --sector-size 4096 -f --show {0}); printf 'label: gpt\\nsize=8M\\n' | sfdisk -q $l; losetup -d $l; udevadm settle", "wipefs -q -a {0}",
        notes=("no GPT in blocks of 512 bytes",),
    ),
    "a disk that was cut short": Row(
        "truncate -s 1G /run/pl-long; printf 'label: dos\\nstart=2048,size=1000000\\n' | sfdisk -q /run/pl-long; "
        "dd if=/run/pl-long of={0} bs=512 count=1 conv=notrunc,fsync status=none; flock {0} blockdev --rereadpt {0}; udevadm settle; mkfs.ext4 -q -b 4096 {0}1",
        "wipefs -q -a {0}; rm /run/pl-long; flock {0} blockdev --rereadpt {0}", (("device", "{0}"),),
    ),
    "Btrfs over two disks": Row(
        "mkfs.btrfs -q -f -m raid1 -d raid0 {0} {1}; udevadm settle; mkdir -p /run/pl-btrfs; mount {0} /run/pl-btrfs; sync",
        "umount /run/pl-btrfs; wipefs -q -a {0} {1}",
        begin=((0, 0), (1, 0)), mount="/run/pl-btrfs",
    ),
    "a multipath map": Row(
        "n=$(blockdev --getsz {0}); dmsetup create mpatha --uuid mpath-3600 --table \"0 $n multipath 0 0 1 1 service-time 0 1 2 {0} 1 1\"; "
        + mkfs("/dev/mapper/mpatha"),
        "dmsetup remove mpatha",
    ),
    "bcache": Row(
        parts(2048) + "modprobe bcache; make-bcache -B {0}1 > /dev/null; udevadm settle; "
        "test -b /dev/bcache0 || echo {0}1 > /sys/fs/bcache/register; "
        "for i in $(seq 50); do test -b /dev/bcache0 && break; sleep 0.1; done; " + mkfs("/dev/bcache0"),
        "echo 1 > /sys/block/bcache0/bcache/stop; for i in $(seq 100); do test -b /dev/bcache0 || break; sleep 0.1; done; udevadm settle",
        (("bcache", "bcache0"),), begin=((0, (1 << 20) + 8192),),
    ),
}  # fmt: skip


@pytest.fixture
def found(request: pytest.FixtureRequest, bench: Bench, harness: Harness, disks: dict[str, Disk]) -> Iterator[tuple[Row, dict[str, Any]]]:
    """A row, and what stack_info and the audit say of its disks."""
    row, paths = ROWS[request.param], [disk.path for disk in disks.values()]
    if row.module and harness.run(f"modprobe {row.module}")[0]:
        pytest.skip(f"the guest's kernel has no {row.module}")
    harness.must(row.make.format(*paths))
    try:
        yield row, read_stacks(bench, harness, paths)
    finally:
        harness.must(row.undo.format(*paths))


EVERYDAY = (
    "64 KiB, then 4 KiB", "LV raid10", "LV raid1 over a partition that is off", "an empty GPT", "a disk that was cut short", "Btrfs over two disks",
    "a multipath map",
)  # fmt: skip


@pytest.mark.parametrize("found", everyday(ROWS, *EVERYDAY), indirect=True)
def test_what_is_told(found: tuple[Row, dict[str, Any]], disks: dict[str, Disk]) -> None:
    row, info = found
    names = [disk.kernel for disk in disks.values()]
    report = "\n".join(info["report"])
    told = [(one["layer"], one["name"]) for one in info["findings"] if one["level"] == "error"]
    assert sorted(told) == sorted((layer, name.format(*names)) for layer, name in row.errors), report
    assert tuple(sorted({name for one in info["stacks"] for name in one["not_followed"]})) == row.blind, report
    assert ("not followed above" in report) == bool(row.blind) and all(words in report for words in row.notes), report
    if row.errors or row.blind:
        assert "aligned: every layer" not in report
    layers = [layer for one in info["stacks"] for layer in one["layers"] if layer["layer"] == "filesystem"]
    if row.begin:
        assert [(leg["device"], leg["start"]) for leg in layers[0]["legs"]] == [(names[disk], start) for disk, start in row.begin], report
    if row.mount:
        assert [one["mount"] for one in info["stacks"]] == [row.mount]


def test_a_table_is_no_filesystem(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["p0"]
    harness.must(f"printf 'label: gpt\\n' | sfdisk -q {disk.path}; udevadm settle")
    (one,) = harness.module("stack_info", {"devices": [disk.path]})["stacks"]
    assert [layer["layer"] for layer in one["layers"]] == ["device", "table"]
