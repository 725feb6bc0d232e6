# SPDX-License-Identifier: GPL-3.0-or-later
"""stack_info on stacks that others made: it names the one layer that is off, and nothing where all is well.

Many stacks stand at once, on disks of their own, made with the ordinary tools; one call reads them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from labkit.audits import read_stacks
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import errors, said


@dataclass(frozen=True)
class Row:
    """A stack: how many disks it has, how it is made ({0}, {1}: the disks), and the guilty (layer, name), if any."""

    make: str
    guilty: tuple[tuple[str, str], ...] = ()
    disks: int = 1
    declaration: dict[str, Any] = field(default_factory=dict)


def part(start: int, disk: int = 0) -> str:
    """One partition from *start* (512-byte sectors) to the end."""
    return f"printf 'label: gpt\\nfirst-lba: 34\\nstart={start}\\n' | sfdisk -q {{{disk}}}; udevadm settle; "


def lvm(name: str, pvs: str, create: str = "-l 10", options: str = "") -> str:
    """A PV each, a VG, an LV named *name*-lv."""
    return f"pvcreate -q {options} {pvs}; vgcreate -q -s 4M {name} {pvs}; lvcreate -q -y -n lv {create} {name}; "


def mkfs(device: str, options: str = "") -> str:
    """ext4, quick and small."""
    return f"mkfs.ext4 -q -b 4096 {options} {device}"


LUKS = (
    "echo -n secret | cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {0}1 -; "
    "echo -n secret | cryptsetup -q open --key-file - {0}1 locked; "
)
# md marks a mirror clean in its superblock a while after the last write to it, but at once when it becomes read-only.
CLEAN = "; sync; udevadm settle; mdadm -q --readonly /dev/md/twin"
NO_DETECTION = "--config devices/data_alignment_offset_detection=0"
MISALIGNED = {
    "start-63": Row(part(63) + mkfs("{0}1"), (("partition", "{0}1"),)),
    "start-34": Row(part(34) + mkfs("{0}1"), (("partition", "{0}1"),)),
    "start-63-below-lvm": Row(part(63) + lvm("below", "{0}1", options=NO_DETECTION) + mkfs("/dev/below/lv"), (("partition", "{0}1"),)),
    # pvcreate adds the partition's own alignment_offset of 512 bytes, so that the data is on the grain again: no error, but a word.
    "start-63-that-lvm-makes-good": Row(part(63) + lvm("good", "{0}1") + mkfs("/dev/good/lv")),
    "pe-start-65535-sectors": Row(part(2048) + lvm("fill", "{0}1", options="--dataalignment 33553920b") + mkfs("/dev/fill/lv"), (("pv", "{0}1"),)),
    "data-alignment-offset": Row(
        part(2048) + lvm("shifted", "{0}1", options="--dataalignment 1m --dataalignmentoffset 512b") + mkfs("/dev/shifted/lv"), (("pv", "{0}1"),)
    ),
    "linear-plus-one-sector": Row(part(2048) + "dmsetup create skewed --table \"0 131072 linear {0}1 1\"; " + mkfs("/dev/mapper/skewed"), (("dm", "skewed"),)),
    "wrong-stride": Row(
        part(2048) + part(2048, 1) + lvm("strides", "{0}1 {1}1", "-l 10 -i 2 -I 64k") + mkfs("/dev/strides/lv", "-L strides -E stride=4,stripe_width=8"),
        (("filesystem", "strides"),), disks=2,
    ),
    "stripe-below-the-grain": Row(
        part(2048) + part(2048, 1) + lvm("thin", "{0}1 {1}1", "-l 10 -i 2 -I 4k") + mkfs("/dev/thin/lv", "-E stride=1,stripe_width=2"),
        (("lv", "thin-lv"),), disks=2, declaration={"min_io_size": 16384},
    ),
    "one-leg-at-63": Row(
        part(2048) + part(63, 1) + lvm("oneleg", "{0}1 {1}1", "-l 10 -i 2 -I 64k", NO_DETECTION) + mkfs("/dev/oneleg/lv", "-E stride=16,stripe_width=32"),
        (("partition", "{1}1"),), disks=2,
    ),
}  # fmt: skip
ALIGNED = {
    "ext4-on-partition": Row(part(2048) + mkfs("{0}1")),
    "xfs-on-partition": Row(part(2048) + "mkfs.xfs -q -K {0}1", declaration={"size": "512MiB"}),
    "ext4-on-the-disk": Row(mkfs("{0}")),
    "pv-on-the-disk": Row(lvm("whole", "{0}") + mkfs("/dev/whole/lv")),
    "striped-lvm": Row(
        part(2048) + part(2048, 1) + lvm("pair", "{0}1 {1}1", "-l 10 -i 2 -I 64k") + mkfs("/dev/pair/lv", "-E stride=16,stripe_width=32"), disks=2
    ),
    "luks-on-partition": Row(part(2048) + LUKS + mkfs("/dev/mapper/locked")),
    "md-raid0": Row(part(2048) + part(2048, 1) + "mdadm -q -C /dev/md/pair -l 0 -n 2 -c 64 -R {0}1 {1}1; " + mkfs("/dev/md/pair"), disks=2),
    "md-raid1": Row(
        part(2048) + part(2048, 1) + "mdadm -q -C /dev/md/twin -l 1 -n 2 --assume-clean -R {0}1 {1}1 < /dev/null; " + mkfs("/dev/md/twin") + CLEAN, disks=2
    ),
}  # fmt: skip
ROWS = {**MISALIGNED, **ALIGNED}
# What stands at once: the default rows, and the rest.
DAILY = ("start-63", "start-34", "start-63-below-lvm", "pe-start-65535-sectors", "linear-plus-one-sector", "wrong-stride", "one-leg-at-63", "striped-lvm")
BATCHES = {"daily": DAILY, "rest": tuple(row for row in ROWS if row not in DAILY)}


def disks_of(batch: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """The declarations of each row's disks: of the pool, unless the row wants a special kind."""
    pooled = iter(pool(map(str, range(sum(ROWS[row].disks for row in batch)))))
    declared = {}
    for row in batch:
        special = ROWS[row].declaration
        legs = [next(pooled) for _leg in range(ROWS[row].disks)]
        declared[row] = [{**one, "name": f"x{one['name']}", "serial": f"X{one['serial']}", **special} for one in legs] if special else legs
    return declared


@dataclass(frozen=True)
class Read:
    """What was read of all stacks of a batch, and the disks of each."""

    found: dict[str, Any]
    disks: dict[str, list[Disk]]


@pytest.fixture(scope="module")
def reader(bench: Bench, harness: Harness) -> Iterator[Callable[[str], Read]]:
    """One reading of all stacks of a row's batch, while the host counts what it writes."""
    done: dict[str, Read] = {}

    def read(row: str) -> Read:
        (name,) = (name for name, batch in BATCHES.items() if row in batch)
        if name not in done:
            declared = disks_of(BATCHES[name])
            plugged = bench.replace([one for legs in declared.values() for one in legs])
            disks = {one: [plugged[leg["name"]] for leg in legs] for one, legs in declared.items()}
            for one, legs in disks.items():
                harness.must(ROWS[one].make.format(*(disk.path for disk in legs)))
            done[name] = Read(read_stacks(bench, harness, [disk.path for legs in disks.values() for disk in legs]), disks)
        return done[name]

    yield read
    bench.clean()


def daily(rows: Iterable[str]) -> list[Any]:
    """The rows, of which those outside the default batch are long."""
    return [pytest.param(row, marks=[] if row in DAILY else pytest.mark.long) for row in rows]


def stacks_on(read: Read, disks: list[Disk]) -> list[dict[str, Any]]:
    """The stacks that stand on these disks."""
    wanted = {disk.kernel for disk in disks}
    assert not read.found["failed"], said(read.found)
    return [one for one in read.found["stacks"] if wanted & {name for layer in one["layers"] if layer["layer"] == "device" for name in layer["names"]}]


@pytest.mark.parametrize("row", daily(MISALIGNED))
def test_it_names_the_guilty_layer_and_only_it(reader: Callable[[str], Read], row: str) -> None:
    read = reader(row)
    disks = read.disks[row]
    (found,) = stacks_on(read, disks)
    wanted = [(layer, name.format(*(disk.kernel for disk in disks))) for layer, name in ROWS[row].guilty]
    assert errors({"failed": False, "findings": found["findings"]}) == wanted
    if not wanted:
        assert [(finding["level"], finding["layer"]) for finding in found["findings"]] == [("warning", "partition")]


@pytest.mark.parametrize("row", daily(ALIGNED))
def test_a_sound_stack_gives_no_error(reader: Callable[[str], Read], row: str) -> None:
    read = reader(row)
    (found,) = stacks_on(read, read.disks[row])
    assert errors({"failed": False, "findings": found["findings"]}) == []
    legs = [leg for layer in found["layers"] for leg in layer["legs"]]
    assert legs and all(leg["aligned"] for leg in legs), found


def test_where_the_flash_begins_at_3584_sector_63_is_right_and_2048_wrong(bench: Bench, harness: Harness) -> None:
    with bench.scsi_debug(2, physblk_exp=3, lowest_aligned=7) as disks:
        for disk, start in zip(disks, (63, 2048), strict=True):
            harness.must((part(start) + mkfs("{0}1")).format(disk.path))
        result = harness.module("stack_info", {"devices": [disk.path for disk in disks]})
        assert errors(result) == [("partition", f"{disks[1].kernel}1")]
