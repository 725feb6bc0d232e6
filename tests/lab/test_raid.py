# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays of md and of LVM that others built: what stack_info, the audit and the metrics tell of their members, their sync, their last check, their drives."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.audits import read_stacks
from labkit.bench import Bench, Disk, pool
from labkit.everyday import everyday
from labkit.harness import Harness
from labkit.specs import said

DISKS = pool(map(str, range(4)))


@dataclass(frozen=True)
class Row:
    """How an array is made of the disks {0} to {3} and their partitions {0}1 and so on, and taken apart again; what is told of it, as (level, rule).

    *words*: what the texts have as well; *moves*: it writes to its disks meanwhile.
    """

    make: str
    undo: str
    told: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    moves: bool = False


def parts(*sizes: tuple[int, ...]) -> str:
    """Partitions on each disk, of these MiB."""
    lines = ["".join(f"size={size}M\\n" for size in disk) for disk in sizes]
    return "".join(f"printf 'label: gpt\\n{line}' | sfdisk -q {{{number}}}; " for number, line in enumerate(lines)) + "udevadm settle; "


def md(level: int, members: str, more: str = "--assume-clean") -> str:
    made = f"mdadm -q -C /dev/md/a -l {level} -n {len(members.split())} -R --data-offset=1M {more} {members}; udevadm settle; "
    return made + "mkfs.ext4 -q -b 4096 -E nodiscard /dev/md/a; sync; udevadm settle; "


def lv(more: str) -> str:
    return f"pvcreate -q {{0}}1 {{1}}1; vgcreate -q -s 4M v {{0}}1 {{1}}1; lvcreate -q -y -n lv -W n --type raid1 -m 1 -l 8 {more} v; udevadm settle; "


AT = "cd /sys/block/$(basename $(readlink -f /dev/md/a))/md; "
IDLE = "until grep -q idle sync_action; do sleep 0.1; done; "
SLOW, FAST = "echo 500 > /proc/sys/dev/raid/speed_limit_max; ", "; echo 200000 > /proc/sys/dev/raid/speed_limit_max"
STOP = "mdadm -q --stop /dev/md/a; udevadm settle"
GONE = "vgremove -q -f -y v; udevadm settle"
ONE = parts((80,), (80,))
# 4 KiB on one member, 40 MiB behind the start of its data, by the disk: the array has the partition for itself.
OTHERWISE = "dd if=/dev/urandom of={1} bs=4k count=1 seek=$((42 * 256)) oflag=direct conv=notrunc status=none; "
MKFS = "mkfs.ext4 -q -b 4096 -E nodiscard /dev/v/lv; sync; udevadm settle; "
CHECK_LV = (
    "dd if=/dev/urandom of=/dev/mapper/v-lv_rimage_1 bs=4k count=1 seek=5000 oflag=direct conv=notrunc status=none; lvchange -q --syncaction check v/lv; "
    "until dmsetup status v-lv | grep -q idle; do sleep 0.1; done"
)
ROWS = {
    "md, all well": Row(ONE + md(1, "{0}1 {1}1"), STOP),
    "md without a member": Row(ONE + md(1, "{0}1 missing", ""), STOP, (("error", "degraded"),), ("1 of its 2 members", "mdadm --detail /dev/md")),
    "md that runs without a member that is there": Row(
        ONE + md(1, "{0}1 {1}1") + "mdadm -q /dev/md/a --fail {1}1; mdadm -q /dev/md/a --remove {1}1; udevadm settle", STOP,
        (("error", "degraded"), ("warning", "left_out_member")), ("runs without it",),
    ),
    "md whose member is filled": Row(
        ONE + md(1, "{0}1 missing", "") + SLOW + "mdadm -q /dev/md/a --add {1}1; " + AT + "until grep -q recover sync_action; do sleep 0.1; done",
        STOP + FAST, (("error", "degraded"), ("info", "syncing")), ("% done",), moves=True,
    ),
    "md whose member is replaced": Row(
        parts((80,), (80,), (80,)) + md(1, "{0}1 {1}1") + SLOW + "mdadm -q /dev/md/a --add-spare {2}1; mdadm -q /dev/md/a --replace {0}1 --with {2}1; "
        + AT + "until grep -q recover sync_action; do sleep 0.1; done",
        STOP + FAST, (("info", "syncing"),), ("a member is being filled",), moves=True,
    ),
    "md in its first resync": Row(
        ONE + SLOW + md(1, "{0}1 {1}1", "") + AT + "grep -q resync sync_action", STOP + FAST, (("warning", "syncing"),), ("made equal (resync, ",), moves=True
    ),
    "md that waits for its first write": Row(
        ONE + SLOW + md(1, "{0}1 {1}1", "--bitmap=none") + "mdadm -q --stop /dev/md/a; udevadm settle; echo 1 > /sys/module/md_mod/parameters/start_ro; "
        "mdadm -q -A /dev/md/a {0}1 {1}1; udevadm settle; echo 0 > /sys/module/md_mod/parameters/start_ro",
        STOP + FAST, (("warning", "syncing"),), ("that has not begun",),
    ),
    "md that differs": Row(
        ONE + md(1, "{0}1 {1}1") + OTHERWISE + AT + "echo check > sync_action; sleep 0.5; " + IDLE, STOP,
        (("warning", "mismatch"),), ("128 sectors differed", "md(4)"),
    ),
    "md that was repaired": Row(ONE + md(1, "{0}1 {1}1") + OTHERWISE + AT + "echo repair > sync_action; sleep 0.5; " + IDLE, STOP),
    "md raid5 that differs": Row(
        parts((80,), (80,), (80,)) + md(5, "{0}1 {1}1 {2}1") + AT + "echo repair > sync_action; sleep 0.5; " + IDLE + OTHERWISE
        + "echo check > sync_action; sleep 0.5; " + IDLE,
        STOP, (("warning", "mismatch"),), ("parity that fits",),
    ),
    "both members on one disk": Row(parts((40, 40)) + md(1, "{0}1 {0}2"), STOP, (("error", "one_ssd"),), ("lie on one drive, POOL0",)),
    "raid10 with two neighbours on a disk": Row(parts((40, 40), (40, 40)) + md(10, "{0}1 {0}2 {1}1 {1}2"), STOP, (("error", "one_ssd"),)),
    "raid10 in turns": Row(parts((40, 40), (40, 40)) + md(10, "{0}1 {1}1 {0}2 {1}2"), STOP),
    "LVM, all well": Row(ONE + lv("--nosync") + MKFS + "vgchange -q -an v; vgchange -q -ay v; udevadm settle", GONE, (("info", "boots_degraded"),)),
    "LVM in its first resync": Row(
        ONE + lv("--maxrecoveryrate 100k") + MKFS, GONE, (("warning", "syncing"), ("info", "boots_degraded")), ("made equal (resync, ",), moves=True
    ),
    "LVM whose member fails": Row(
        ONE + lv("--nosync") + MKFS + "dmsetup wipe_table v-lv_rimage_1; dd if=/dev/zero of=/dev/v/lv bs=4k count=1 seek=5000 oflag=direct status=none; "
        "until dmsetup status v-lv | grep -q D; do sleep 0.1; done",
        GONE, (("error", "degraded"), ("warning", "boots_degraded")), ("1 of its 2 members", "lvs -a -o +devices", "vgchange -ay v "), moves=True,
    ),
    "LVM that differs": Row(
        ONE + lv("--nosync") + MKFS + CHECK_LV, GONE, (("warning", "mismatch"), ("info", "boots_degraded")), ("128 sectors differed",), moves=True
    ),
}  # fmt: skip


@pytest.fixture
def found(request: pytest.FixtureRequest, bench: Bench, harness: Harness, disks: dict[str, Disk]) -> Iterator[tuple[Row, list[dict[str, Any]]]]:
    """A row, and what stack_info says of it in the layer raid; of an array that does not move the audit says the same, and nothing is written."""
    row, paths = ROWS[request.param], [disk.path for disk in disks.values()]
    try:
        harness.must(row.make.format(*paths))
        info = harness.module("stack_info", {"devices": paths}) if row.moves else read_stacks(bench, harness, paths)
        assert not info["failed"], said(info)
        yield row, [one for one in info["findings"] if one["layer"] == "raid"]
    finally:
        harness.run(row.undo.format(*paths))


EVERYDAY = ("md whose member is filled", "md that differs", "both members on one disk", "LVM whose member fails")


@pytest.mark.parametrize("found", everyday(ROWS, *EVERYDAY), indirect=True)
def test_what_is_told_of_an_array(found: tuple[Row, list[dict[str, Any]]]) -> None:
    row, told = found
    assert [(one["level"], one["rule"]) for one in told] == list(row.told), told
    text = "\n".join(one["text"] for one in told)
    assert all(words in text for words in row.words), text


@pytest.mark.long(minutes=1)
def test_the_metrics_of_arrays(harness: Harness, disks: dict[str, Disk]) -> None:
    """By the program in its sandbox."""
    paths = [disk.path for disk in disks.values()]
    second = "pvcreate -q {2}1 {3}1; vgcreate -q -s 4M v {2}1 {3}1; lvcreate -q -y -n lv -W n --type raid1 -m 1 -l 8 --nosync v; udevadm settle; "
    make = parts((80,), (80,), (80,), (80,)) + md(1, "{0}1 missing", "") + second + CHECK_LV
    try:
        harness.must(make.format(*paths))
        result = harness.module("monitor", {"smartd": False})
        assert not result["failed"], said(result)
        text = harness.must("promtool check metrics < /var/lib/prometheus/node-exporter/plumbline.prom; cat /var/lib/prometheus/node-exporter/plumbline.prom")
        (name,) = re.findall(r'plumbline_raid_info\{array="(md-uuid-[0-9a-f:]+)",level="raid1",maker="md"\} 1\n', text)
        for sample in (
            f'degraded_members{{array="{name}"}} 1', f'syncing{{array="{name}"}} 0', 'degraded_members{array="v-lv"} 0', 'mismatch_sectors{array="v-lv"} 128',
        ):  # fmt: skip
            assert f"plumbline_raid_{sample}\n" in text, text
        assert f'mismatch_sectors{{array="{name}"}}' not in text, "it was never checked"
    finally:
        harness.module("monitor", {"state": "absent"})
        harness.run("; ".join((STOP, GONE)).format(*paths))
