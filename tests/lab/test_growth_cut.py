# SPDX-License-Identifier: GPL-3.0-or-later
"""Growth that is cut off at each of its boundaries, by a kill or by the power: the next run carries it on to the stack that is specified."""

from __future__ import annotations

import base64
import hashlib
import random
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.our_table import table_sectors
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import TYPE_LVM
from labkit.bench import MIB, Bench, Disk
from labkit.crash import DIRECTORY, files_of, repaired
from labkit.growth_cuts import Shown, at_work, cut_after, scanned, shown
from labkit.guides import follow
from labkit.harness import ROOT, Harness
from labkit.roles import tasks_for
from labkit.runs import bystander, changed, end_playbook, kill_playbook, start_playbook, wait_for_lease
from labkit.specs import assert_error, said
from labkit.standing import actions, contents, fill
from test_growth import built, check_by_others, spec_of

DISKS = [{"name": f"cut{number}", "bus": "scsi", "size": "160MiB", "serial": f"CUT{number}", "physical_block_size": 4096} for number in range(2)]
DISKS += [{"name": f"row{number}", "bus": "scsi", "size": "160MiB", "serial": f"FURTHER{number}", "physical_block_size": 4096} for number in range(2)]
DISKS += [{"name": f"big{number}", "bus": "scsi", "size": "160MiB", "serial": f"CUT4K{number}", "logical_block_size": 4096} for number in range(2)]
DISKS += [{"name": "other", "bus": "scsi", "size": "32MiB", "serial": "BYSTANDER", "physical_block_size": 4096}]
LEGS = {512: ["cut0", "cut1"], 4096: ["big0", "big1"]}
MORE = 16 * MIB  # that a disk gets for each round
MOUNT = "/pl/data"
FILE = 20 * MIB  # what fill() puts there
VOLUMES = [{"name": "data", "size": "90%", "mount": MOUNT}]
WRITES = 9  # of a table: grown_table.table_writes(); then the kernel is told
NEW_FROM = 5  # the write with which the first table becomes the new one


class Stack:
    """A mounted stack with a file on it, beside a disk that is somebody else's. Each of its disks can be made larger again and again."""

    def __init__(self, bench: Bench, harness: Harness, names: Sequence[str], figure: Callable[..., None]) -> None:
        self.bench, self.harness, self.names = bench, harness, names
        self.figure, self.open = figure, 0  # cuts after which it was not looked at
        self.spec = spec_of(self.disks, VOLUMES, grow=True)
        built(harness, self.spec)
        self.before = fill(harness, MOUNT)
        self.logical = int(harness.must(f"blockdev --getss {self.disks[0].path}"))

    @property
    def disks(self) -> list[Disk]:
        """As they are called now."""
        return [self.bench.disks[name] for name in self.names]

    def larger(self) -> list[dict[str, Any]]:
        """Each disk has some more. The steps by which it is taken in."""
        for disk in self.disks:
            self.bench.resize(disk, self.size(disk) + MORE)
        return self.steps()

    def size(self, disk: Disk) -> int:
        return int(self.harness.must(f"blockdev --getsize64 {disk.path}"))

    def steps(self) -> list[dict[str, Any]]:
        plan = self.harness.module("stack_plan", self.spec)
        assert not plan["failed"], said(plan)
        steps: list[dict[str, Any]] = plan["steps"]
        return steps

    def apply_through(self, steps: Sequence[dict[str, Any]], action: str) -> dict[str, Any]:
        """Carry out the steps before the one of this action, and return that one."""
        for step in steps:
            if step["action"] == action:
                return step
            self.harness.apply([step])
        raise AssertionError(f"no {action} in {[step['action'] for step in steps]}")

    def cut(self, count: int = 1) -> None:
        """It was cut off."""
        self.open += count
        self.figure("growth", cuts=count)

    def ended(self) -> list[str]:
        """The next run: it has steps, and none is left after it. All that was on the volume is there, and the filesystem is sound. The actions."""
        done = []
        for _turn in range(3):  # a step that lets the kernel catch up is followed by a new plan
            steps = self.steps()
            if not steps:
                break
            unfinished = [step for step in steps if step.get("unfinished")]
            for step in unfinished or steps:
                self.harness.apply([step])
                done.append(step["action"])
        assert done and actions(self.harness, self.spec) == []
        self.check()
        return done

    def check(self) -> None:
        lost = lost_bytes(self.harness, self.before)
        self.figure("growth", lost_bytes=lost)
        assert lost == 0
        self.harness.must(f"umount {MOUNT}; e2fsck -fn /dev/pgdata/data; mount {MOUNT}")
        check_by_others(self.harness, self.disks)
        self.figure("growth", healed=self.open)
        self.open = 0


def lost_bytes(harness: Harness, before: str) -> int:
    """Of the file on the volume, whose digest was *before*: all of it where the digest is another."""
    return 0 if contents(harness, MOUNT) == before else int(harness.must(f"stat -c %s {MOUNT}/contents || echo {FILE}").split()[0]) or FILE


@contextmanager
def standing(bench: Bench, harness: Harness, names: Sequence[str], figure: Callable[..., None]) -> Iterator[Stack]:
    other = bench.disks["other"]
    with bystander(bench, other):
        yield Stack(bench, harness, names, figure)
    bench.clean()


# --- the table -------------------------------------------------------------------------------------


def check_table(harness: Harness, disk: Disk, step: dict[str, Any], at: int) -> None:
    """Both copies, and all between them and the partition, are byte for byte what sfdisk makes for a disk of this size."""
    one = step["disks"][at]
    device = {**one, "type_guid": TYPE_LVM, "name": f"plumbline:pgdata:{at}"}
    size, logical, wanted = one["size_bytes"], one["logical_bytes"], table_sectors(device)
    for begin in (0, size - MIB):
        raw = bytes.fromhex(
            harness.must(
                f"blockdev --flushbufs {disk.path}; "
                f"dd if={disk.path} bs=1M iflag=skip_bytes,count_bytes skip={begin} count={MIB} status=none | od -An -v -tx1 -w4096 | tr -d ' '"
            )
        )
        assert len(raw) == MIB
        found = {begin + place: raw[place : place + logical] for place in range(0, MIB, logical) if raw[place : place + logical].strip(b"\0")}
        assert found == {place: data for place, data in wanted.items() if begin <= place < begin + MIB}, disk


def lengths(step: dict[str, Any], at: int, before: Sequence[int], writes: int) -> int:
    """The length that the table says after so many of a disk's writes."""
    return int(step["disks"][at]["length_bytes"]) if writes >= NEW_FROM else before[at]


def cut_table(one: Stack, event: int, power: bool = False) -> None:
    """One round: the disks grow, the module ends after *event* changes of both, and is looked at and carried on."""
    bench, harness = one.bench, one.harness
    step = one.larger()[0]
    assert step["action"] == "grow_partition"
    start = step["disks"][0]["start_bytes"]
    before = [shown(harness, disk, one.logical).size for disk in one.disks]
    changes = cut_after(bench, harness, step, event)
    one.cut()
    names = [change.what for change in changes]
    assert names == (["write_at"] * WRITES + ["resize_partition"] * 1 + ["write_at"] * WRITES + ["resize_partition"])[:event]
    made = [min(event, WRITES), max(event - WRITES - 1, 0)]
    if power:
        bench.power_cut()
        bench.wait(f"mountpoint -q {MOUNT}")
    for at, disk in enumerate(one.disks):
        length = lengths(step, at, before, made[at])
        wanted = Shown(start, length, (start, length))
        assert (shown if power else scanned)(harness, disk, one.logical) == wanted, (event, disk)
    if not power:  # what the running kernel shows is what it was told, and no more
        known = [event > WRITES, event > 2 * WRITES + 1]
        for at, disk in enumerate(one.disks):
            assert shown(harness, disk, one.logical).size == (step["disks"][at]["length_bytes"] if known[at] else before[at])
    done = one.ended()
    if event < 2 * WRITES + 2:
        assert done[0] == "grow_partition"
    assert done[-4:] == ["grow_partition", "grow_pv", "grow_lv", "grow_filesystem"][-len(done) :]
    for at, disk in enumerate(one.disks):
        check_table(harness, disk, step, at)


def test_a_table_is_cut_off(bench: Bench, harness: Harness, declared: dict[str, Disk], figure: Callable[..., None]) -> None:
    """The first disk is done, and the first header of the second is not written."""
    with standing(bench, harness, LEGS[512], figure) as one:
        cut_table(one, WRITES + NEW_FROM)


@pytest.mark.long(minutes=9)
@pytest.mark.parametrize("logical", LEGS)
def test_a_table_is_cut_off_after_each_write(bench: Bench, harness: Harness, declared: dict[str, Disk], logical: int, figure: Callable[..., None]) -> None:
    """Each of the writes of a disk, and what the kernel is told; in turns of the first disk and of the second."""
    events = [event if event % 2 else event + WRITES + 1 for event in range(1, WRITES + 2)]
    with standing(bench, harness, LEGS[logical], figure) as one:
        for event in events:
            cut_table(one, event)


@pytest.mark.long(minutes=5)
@pytest.mark.parametrize("logical", LEGS)
def test_the_power_is_cut_between_two_writes(bench: Bench, harness: Harness, declared: dict[str, Disk], logical: int, figure: Callable[..., None]) -> None:
    """After the backup, before and after the first header, between table and kernel: the kernel's own boot shows the partition, and mounts the volume."""
    events = [2, NEW_FROM - 1, NEW_FROM, WRITES]
    with standing(bench, harness, LEGS[logical], figure) as one:
        for event in events:
            cut_table(one, event, power=True)


# As libfdisk writes a table, which has no spare place: bytes from the end of the disk where negative, in sectors, and how many bytes.
LIBFDISK = {512: ((-33, 16384), (-1, 512), (2, 16384)), 4096: ((-5, 16384), (-1, 4096), (2, 16384))}


@pytest.mark.long(minutes=3)
@pytest.mark.parametrize("logical", LEGS)
@pytest.mark.parametrize("by_hand", [False, True], ids=["by the next run", "by the guide"])
def test_a_cut_within_another_tool(bench: Bench, harness: Harness, declared: dict[str, Disk], logical: int, by_hand: bool, figure: Callable[..., None]) -> None:
    """sfdisk, after its third write: the first entries are new, their header is not, and the kernel's boot shows no partition."""
    with standing(bench, harness, LEGS[logical], figure) as one:
        step = one.larger()[0]
        disk, planned = one.disks[0], step["disks"][0]
        wanted = table_sectors({**planned, "type_guid": TYPE_LVM, "name": "plumbline:pgdata:0"})
        for sector, length in LIBFDISK[logical]:
            at = sector * logical % planned["size_bytes"]
            data = b"".join(wanted.get(place, bytes(logical)) for place in range(at, at + length, logical))
            text = base64.b64encode(data).decode()
            harness.must(f"base64 -d <<< {text} | dd of={disk.path} bs={length} oflag=seek_bytes seek={at} conv=notrunc,fsync status=none")
        bench.power_cut()
        one.cut()
        disk = one.disks[0]
        assert harness.run(f"test -e {disk.part()}")[0], "the kernel shows the partition"
        with bench.untouched():
            findings = harness.module("stack_info", {"devices": [disk.by_id]})["findings"]
            (text,) = (finding["text"] for finding in findings if finding["rule"] == "table_damaged")
            assert f"sfdisk --relocate gpt-bak-std {disk.path}" in text
            audit = str(harness.module("audit", {}))
            assert "sfdisk --relocate gpt-bak-std" in audit
            foreign = harness.module("stack_plan", {"stacks": [{**one.spec["stacks"][0], "name": "another"}]})
            assert_error(foreign, f"sfdisk --relocate gpt-bak-std {disk.path}")
            for line in said(foreign).splitlines():
                assert disk.serial not in line or not [word for word in ("erase", "wipe", "free the device") if word in line], line
        if by_hand:
            follow(harness, "first", DEVICE=f"/dev/disk/by-id/{disk.by_id}")
            # The partition is there again: LVM makes the volume of it, and systemd mounts it.
            bench.wait('test -z "$(systemctl list-jobs --no-legend)" && mountpoint -q ' + MOUNT)
        done = one.ended()
        assert ("restore_table" in done) is not by_hand and done[-1] == "grow_filesystem", done
        check_table(harness, disk, step, 0)


# --- the volume group, the map, the filesystem -----------------------------------------------------


def told_kernel(one: Stack) -> str:
    """The partitions are longer, and their PVs are not."""
    one.apply_through(one.larger(), "grow_pv")
    return "grow_pv"


def first_pv(one: Stack) -> str:
    """One PV of two is longer."""
    step = one.apply_through(one.larger(), "grow_pv")
    one.harness.must(f"pvresize {step['pvs'][0]}")
    return "grow_pv"


def both_pvs(one: Stack) -> str:
    one.apply_through(one.larger(), "grow_lv")
    return "grow_lv"


def committed(one: Stack) -> str:
    """LVM's metadata is written, and the kernel has the former map: as where lvextend is killed between the two."""
    step = one.apply_through(one.larger(), "grow_lv")
    one.harness.must(f"dmsetup table pgdata-data > /run/table; lvextend -q -l {step['size_bytes'] // step['extent_bytes']} pgdata/data")
    one.harness.must("dmsetup load pgdata-data < /run/table; dmsetup resume pgdata-data; udevadm settle")
    return "refresh_lv"


def suspended(one: Stack) -> str:
    """The map takes no request, and nothing else is to be done: as where a tool is killed before it resumes it."""
    one.harness.must("sync; dmsetup suspend pgdata-data")
    return "refresh_lv"


def committed_and_suspended(one: Stack) -> str:
    """The metadata is written, a map is loaded, and the former one is suspended."""
    committed(one)
    one.harness.must("sync; dmsetup table pgdata-data > /run/table; dmsetup load pgdata-data < /run/table; dmsetup suspend pgdata-data")
    return "refresh_lv"


def volume_alone(one: Stack) -> str:
    one.apply_through(one.larger(), "grow_filesystem")
    return "grow_filesystem"


STATES = {
    "between the kernel and pvresize": told_kernel,
    "one PV of two": first_pv,
    "between pvresize and lvextend": both_pvs,
    "between metadata and map": committed,
    "suspended": suspended,
    "metadata and suspended": committed_and_suspended,
    "between lvextend and resize2fs": volume_alone,
}


@pytest.mark.parametrize(
    "names",
    [pytest.param(["metadata and suspended"], id="everyday"), pytest.param(list(STATES), id="all", marks=pytest.mark.long(minutes=5))],
)
def test_it_ends_between_two_layers(bench: Bench, harness: Harness, declared: dict[str, Disk], names: list[str], figure: Callable[..., None]) -> None:
    with standing(bench, harness, LEGS[512], figure) as one:
        for name in names:
            first = STATES[name](one)
            one.cut()
            assert one.ended()[0] == first, name


@pytest.mark.long(minutes=6)
def test_a_step_is_killed_at_random_times(bench: Bench, harness: Harness, declared: dict[str, Disk], figure: Callable[..., None]) -> None:
    """Each step of LVM and of the filesystem, with its tools; what it finished meanwhile is as good as any other state."""
    dice, kills = random.Random("growth"), 0
    with standing(bench, harness, LEGS[512], figure) as one:
        for _round in range(3):
            one.larger()
            for _step in range(12):
                steps = one.steps()
                if not steps:
                    break
                (task, *_more) = tasks_for(ROOT, steps[:1])
                if harness.cut(task.module, task.args, dice.uniform(0.3, 3), task.env):
                    one.cut()
                    kills += 1
                harness.run("udevadm settle --timeout=30")
                if dice.random() < 0.5 and (rest := one.steps()):
                    harness.apply(rest[:1])
            one.bench.wait("udevadm settle")
            if one.steps():
                one.ended()
            else:
                one.check()
    assert kills >= 6


def joined(one: Stack, between: Callable[[list[str], dict[str, Any]], None]) -> list[str]:
    """A further row, whose PVs are in a state between none and both in the group; the actions of the next run."""
    one.names = [*one.names, "row0", "row1"]
    one.spec = spec_of(one.disks, VOLUMES, grow=True, stripes=2)
    step = one.apply_through(one.steps(), "extend_vg")
    between(step["pvs"], step)
    one.cut()
    return one.ended()


@pytest.mark.long(minutes=2)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_further_row_half_joined(bench: Bench, harness: Harness, declared: dict[str, Disk], count: int, figure: Callable[..., None]) -> None:
    """PVs that are made and in no group; one of the two in it; both in it, and no volume on them."""

    def between(pvs: list[str], step: dict[str, Any]) -> None:
        harness.must(f"pvcreate -q --dataalignment {step['data_alignment_bytes']}b {' '.join(pvs)}")
        if count:
            harness.must(f"vgextend -q pgdata {' '.join(pvs[:count])}")

    with standing(bench, harness, LEGS[512], figure) as one:
        done = joined(one, between)
        # The room that the first row has left is used first, where there is some.
        assert list(dict.fromkeys(done)) == ["extend_vg"] * (count < 2) + ["grow_lv", "grow_filesystem"], done


# --- within resize2fs ------------------------------------------------------------------------------

# One disk, whose cache keeps what is not flushed. The kernel grows an ext4 by 16 groups a transaction (fs/ext4/resize.c, ext4_resize_fs()), so that the
# filesystem gets many of them; a file that is synchronised again and again commits each by itself, and a slow disk lets a cut fall between two.
FLASH = {"page_size": 4096, "channels": 1, "program_us": 300, "flush_us": 500, "transfer_us": 20, "write_cache": 1, "cache_size": "256MiB", "plp": 0}
DISKS.append({"name": "flash", "bus": "scsi", "size": "36GiB", "serial": "CUTFLASH", "simulated": {**FLASH, "writeback_ms": 3_600_000}})
SMALL, LARGE = 256 * MIB, 32768 * MIB
SLOW_US = 20_000
IMAGES = 25
SYNCING = f"while :; do echo more >> {MOUNT}/synced; sync {MOUNT}/synced; done"


@dataclass
class AboutToGrow:
    """A mounted ext4 of 256 MiB in a volume of 32 GiB on a slow disk: the spec, the one step that is left, and the digest of the file on it."""

    bench: Bench
    harness: Harness
    spec: dict[str, Any]
    step: dict[str, Any]
    before: str

    def begun(self, groups: int = 16) -> str:
        """Shell that ends when the filesystem has got so many groups of 128 MiB, as statfs(2) has them without its own tables."""
        return f"until [ $(stat --file-system --format %b {MOUNT}) -gt $(({groups} * 32768 * 9 / 10)) ]; do :; done"

    def fast(self) -> None:
        """The disk is no longer slow."""
        self.bench.change(self.bench.disks["flash"], program_us=FLASH["program_us"])

    def ended(self) -> int:
        """The next run: the bytes of the filesystem that it found. Then it is as large as was specified, sound, and the file is there."""
        left = blocks(self.harness)
        for one in self.harness.module("stack_plan", self.spec)["steps"]:
            self.harness.apply([one])
        assert actions(self.harness, self.spec) == [] and blocks(self.harness) == self.step["size_bytes"]
        self.harness.must(f"umount {MOUNT}; e2fsck -fn /dev/pgdata/data; mount {MOUNT}", 590)
        assert lost_bytes(self.harness, self.before) == 0
        return left


@contextmanager
def about_to_grow(bench: Bench, harness: Harness) -> Iterator[AboutToGrow]:
    disk = bench.disks["flash"]
    small = [{"name": "data", "size": f"{SMALL // MIB}MiB", "mount": MOUNT}]
    spec = spec_of([disk], [{**small[0], "size": f"{LARGE // MIB}MiB"}], layout="linear")
    with bystander(bench, bench.disks["other"]):
        built(harness, spec_of([disk], small, layout="linear"))
        harness.must(f"mkdir {MOUNT}/{DIRECTORY}; dd if=/dev/urandom of={MOUNT}/{DIRECTORY}/contents bs=1M count=20 conv=fsync status=none")
        harness.must(f"cp {MOUNT}/{DIRECTORY}/contents {MOUNT}/contents; sync; sync {disk.path}")
        plan = harness.module("stack_plan", spec)
        assert [step["action"] for step in plan["steps"]] == ["grow_lv", "grow_filesystem"], said(plan)
        harness.apply(plan["steps"][:1])
        (step,) = harness.module("stack_plan", spec)["steps"]
        harness.must("sync")
        one = AboutToGrow(bench, harness, spec, step, contents(harness, MOUNT))
        bench.change(disk, program_us=SLOW_US)
        harness.must(f"systemd-run --quiet --unit=lab-syncing sh -c '{SYNCING}'")
        try:
            yield one
        finally:
            harness.run("systemctl stop lab-syncing")
            one.fast()
    bench.clean()


def blocks(harness: Harness) -> int:
    found = re.search(r"Block count: *(\d+)", harness.must("dumpe2fs -h /dev/pgdata/data 2>/dev/null"))
    assert found
    return int(found.group(1)) * 4096


def size_of(volume: Path) -> int:
    """Of an ext4, by its superblock."""
    raw = volume.open("rb").read(2048)
    (low,), (high,) = struct.unpack_from("<I", raw, 1024 + 4), struct.unpack_from("<I", raw, 1024 + 0x150)
    return int(low + (high << 32)) * 4096


@pytest.mark.long(minutes=5)
def test_images_of_a_filesystem_that_grows(bench: Bench, harness: Harness, declared: dict[str, Disk], tmp_path: Path, figure: Callable[..., None]) -> None:
    """What a power cut would leave, copied again and again while resize2fs is at work: each is a sound filesystem with all that was on it."""
    images: list[Path] = []
    sizes = set()
    with about_to_grow(bench, harness) as one:
        disk, drive = bench.disks["flash"], bench.simulated(bench.disks["flash"])
        offset = int(harness.must("dmsetup table pgdata-data").split()[4]) * 512
        offset += 512 * int(harness.must(f"cat /sys/class/block/{disk.part().rsplit('/', 1)[-1]}/start"))
        with at_work(harness, one.step) as working:
            harness.must(one.begun())
            while len(images) < IMAGES and harness.run(working)[0] == 0:
                images.append(tmp_path / f"image{len(images)}")
                drive.copy(images[-1])
                figure("growth", cuts=1)
            one.fast()
        for image in images:
            with repaired(image, offset) as volume:
                assert volume, image
                sizes.add(size_of(volume))
                (content,) = files_of(volume).values()
            lost = 0 if hashlib.sha256(content).hexdigest() == one.before.split()[0] else len(content) or FILE
            figure("growth", lost_bytes=lost, healed=int(lost == 0))
            assert lost == 0
        harness.run("systemctl stop lab-syncing")
        one.ended()
    print(f"growth: {len(images)} images within resize2fs, with filesystems of {sorted(sizes)} bytes")
    assert len(sizes - {SMALL, one.step["size_bytes"]}) > 1


@pytest.mark.long(minutes=3)
@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
def test_it_ends_within_resize2fs(bench: Bench, harness: Harness, declared: dict[str, Disk], power: bool, figure: Callable[..., None]) -> None:
    with about_to_grow(bench, harness) as one:
        (task,) = tasks_for(ROOT, [one.step])
        if power:
            with at_work(harness, one.step):
                harness.must(one.begun(48))
                bench.power_cut()
            bench.wait(f"mountpoint -q {MOUNT}")
        else:
            harness.cut_when(one.begun(48), task.module, task.args)
            harness.run("systemctl stop lab-syncing")
            one.fast()
            bench.wait("! pgrep -x resize2fs > /dev/null")  # until the kernel has done what it was told, a killed tool stays
        figure("growth", cuts=1)
        if power and blocks(harness) < one.step["size_bytes"]:
            (again,) = tasks_for(ROOT, harness.module("stack_plan", one.spec)["steps"])
            refused = harness.module("stack_growth", again.args)
            assert_error(refused, "counts other groups", "[stale]", "and mount it again")
            follow(harness, "mount-again", "guide_growth", MOUNT=MOUNT)
        left = one.ended()
        figure("growth", healed=1, lost_bytes=0)
    print(f"growth: {'power cut' if power else 'kill'} within resize2fs left {left} of {one.step['size_bytes']} bytes")
    # The kernel ends what it was told, also where the tool is killed (fs/ext4/ioctl.c); a power cut leaves what was committed.
    assert left == one.step["size_bytes"] if not power else SMALL < left < one.step["size_bytes"]


# --- whole playbooks -------------------------------------------------------------------------------


@pytest.mark.long(minutes=6)
@pytest.mark.parametrize("moment", ["partitions", "volume"])
def test_the_controller_is_killed_while_a_stack_grows(
    bench: Bench, harness: Harness, declared: dict[str, Disk], moment: str, figure: Callable[..., None]
) -> None:
    with standing(bench, harness, LEGS[512], figure) as one:
        at = {"partitions": one.disks[1].part(), "volume": "/dev/pgdata/data"}[moment]
        before = int(harness.must(f"blockdev --getsize64 {at}"))
        one.larger()
        process = start_playbook(one.spec)
        wait_for_lease(harness, process)
        bench.wait(f"test $(blockdev --getsize64 {at}) -gt {before}", seconds=200)
        assert process.poll() is None, end_playbook(process)
        kill_playbook(process)
        one.cut()
        end = time.monotonic() + 90  # what it had begun on the host runs to its end, and is busy until then
        while True:
            code, text = end_playbook(start_playbook(one.spec))
            if code == 0 or time.monotonic() > end:
                break
        assert code == 0, text[-3000:]
        assert changed(text) > 0
        code, text = end_playbook(start_playbook(one.spec))
        assert (code, changed(text)) == (0, 0), text[-3000:]
        one.check()
