# SPDX-License-Identifier: GPL-3.0-or-later
"""What a device may not be taken for: each condition is refused by its name, and not one byte is written.

All conditions stand at once, each on a disk of its own, and one plan with one stack per disk refuses them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import assert_error, said, stack


@dataclass(frozen=True)
class Row:
    """A disk that is not free: how it came to that ({d}: the disk), and what the refusal says."""

    prepare: str
    reason: str
    words: tuple[str, ...] = ()
    size: str = ""


PARTITION = "printf 'label: gpt\\nstart=2048\\n' | sfdisk -q {d}; udevadm settle"
OPENER = (
    'systemd-run -q --unit=plumbline-opener python3 -c \'import os,time; os.open("{d}", os.O_RDONLY|os.O_EXCL); open("/run/opened", "w"); time.sleep(900)\''
    "; for n in $(seq 100); do test -e /run/opened && break; sleep 0.1; done; rm /run/opened"
)
ROWS = {
    "ext4": Row("mkfs.ext4 -q -L ledger {d}", "[signature]", ("ext filesystem labelled 'ledger'",)),
    "xfs": Row("mkfs.xfs -q -K {d}", "[signature]", ("xfs",), "512MiB"),
    "swap": Row("mkswap -q {d}", "[signature]", ("swap",)),
    "pv": Row("pvcreate -q {d}", "[pv]", ("an LVM PV of no VG",)),
    "vg": Row("vgcreate -q othervg {d}", "[pv]", ("VG 'othervg'",)),
    "luks": Row("echo secret | cryptsetup -q luksFormat --pbkdf pbkdf2 --pbkdf-force-iterations 1000 {d} -", "[signature]", ("crypto_LUKS",)),
    "mdmember": Row(
        "mdadm -q -C /dev/md/gone -l 0 -n 1 --force -R {d}; udevadm settle; mdadm -q -S /dev/md/gone", "[signature]", ("linux_raid_member",)
    ),
    "gpt": Row("echo 'label: gpt' | sfdisk -q {d}", "[table]", ("GPT partition table, empty",)),
    "gptpart": Row(PARTITION, "[table]", ("GPT partition table; partitions: 1",)),
    "mbr": Row("printf 'label: dos\\nstart=2048\\n' | sfdisk -q {d}", "[table]", ("MBR partition table",)),
    "mounted": Row("mkfs.ext4 -q {d}; mkdir -p /pl/used; mount -o ro {d} /pl/used", "[mounted]", ("is mounted on /pl/used",)),
    "mountedpart": Row(
        PARTITION + "; mkfs.ext4 -q {d}1; mkdir -p /pl/usedpart; mount -o ro {d}1 /pl/usedpart", "[mounted]", ("is mounted on /pl/usedpart",)
    ),
    "elsewhere": Row(
        "mkfs.ext4 -q {d}; mkdir -p /pl/private; systemd-run -q --unit=plumbline-hidden -p PrivateMounts=yes"
        " /bin/sh -c 'mount -o ro {d} /pl/private; exec sleep 900'; for n in $(seq 100); do"
        " grep -qs /pl/private /proc/$(systemctl show -P MainPID plumbline-hidden)/mountinfo && break; sleep 0.1; done",
        "[mounted]", ("in another mount namespace",),
    ),
    "swapon": Row("mkswap -q {d}; swapon {d}", "[swap]", ("in use as swap",)),
    "heldlinear": Row("dmsetup create heldlinear --table \"0 2048 linear {d} 0\"", "[held]", ("heldlinear",)),
    "heldlvm": Row("vgcreate -q heldvg {d}; lvcreate -q -Wn -Zn -l 2 -n some heldvg", "[held]", ("heldvg-some",)),
    "heldmd": Row("mdadm -q -C /dev/md/held -l 0 -n 1 --force -R {d}", "[held]", ("(md)",)),
    "open": Row(OPENER, "[busy]"),
    "zapped": Row(
        PARTITION + "; mkfs.ext4 -q {d}1; sgdisk -Z {d} >/dev/null; dd if=/dev/zero of={d} bs=1M count=1 conv=notrunc status=none"
        "; udevadm settle; partx -d {d} 2>/dev/null || true",
        "[data]",
        ("not zero, first at byte 1049600",),
    ),
    "middle": Row("printf x | dd of={d} bs=1 seek=40000000 conv=notrunc status=none", "[data]", ("not zero, first at byte 40000000",)),
    "tail": Row("printf x | dd of={d} bs=1 seek=100663295 conv=notrunc status=none", "[data]", ("not zero, first at byte 100662784",)),
    "readonly": Row("blockdev --setro {d}", "[read_only]"),
}  # fmt: skip
SMALL = [name for name, row in ROWS.items() if not row.size]
pytestmark = pytest.mark.quick("stack_plan")
DISKS = [*pool(SMALL), *({"name": name, "bus": "scsi", "size": row.size, "serial": f"BIG{name.upper()}"} for name, row in ROWS.items() if row.size)]


@pytest.fixture(scope="module")
def on(plugged: dict[str, Disk]) -> dict[str, Disk]:
    """The disk of each row."""
    return {name: plugged[f"p{SMALL.index(name)}" if name in SMALL else name] for name in ROWS}


def one_stack(number: int, disk: Disk) -> dict[str, Any]:
    """A stack of its own for a disk, so that every disk is judged."""
    return stack([disk], "separate", name=f"s{number}")


@pytest.fixture(scope="module")
def refused(bench: Bench, harness: Harness, on: dict[str, Disk]) -> Iterator[dict[str, Any]]:
    """One attempt on all of them, while the host counts what reaches the disks."""
    for name, row in ROWS.items():
        harness.must(row.prepare.replace("{d}", on[name].path))
    spec = [one_stack(number, on[name]) for number, name in enumerate(ROWS)]
    try:
        with bench.untouched():
            result = harness.module("stack_plan", {"stacks": spec})
        yield result
    finally:
        harness.run("systemctl stop plumbline-hidden plumbline-opener")
        bench.clean()


def test_the_attempt_fails_in_one_line_and_writes_nothing(refused: dict[str, Any]) -> None:
    assert_error(refused, "refused: nothing was written")


@pytest.mark.parametrize("name", ROWS)
def test_each_is_refused_by_name(refused: dict[str, Any], on: dict[str, Disk], name: str) -> None:
    disk = on[name]
    lines = [line for line in refused["reasons"] if f"device {disk.kernel} ({disk.serial})" in line]
    assert any(ROWS[name].reason in line for line in lines), said(refused)
    for word in ROWS[name].words:
        assert any(word in line for line in lines), lines


def test_the_root_disk(harness: Harness, plugged: dict[str, Disk]) -> None:
    """By the by-id name that the machine gives it; its table of contents stays."""
    links = harness.must("find /dev/disk/by-id -lname '*/vda' -printf '%f\\n'").split()
    before = harness.must("sha256sum < <(head -c 1024 /dev/vda)")
    result = harness.module("stack_plan", {"stacks": [{"name": "root", "devices": links[:1], "layout": "separate", "volumes": [{"name": "a"}]}]})
    assert_error(result, "[mounted]", "vda is mounted on /")
    assert harness.must("sha256sum < <(head -c 1024 /dev/vda)") == before


def test_a_loop_device_without_test_identity(harness: Harness, plugged: dict[str, Disk]) -> None:
    harness.must("truncate -s 64M /run/pl.img; losetup /dev/loop7 /run/pl.img")
    try:
        spec = {"name": "loop", "layout": "separate", "volumes": [{"name": "a"}]}
        assert_error(harness.module("stack_plan", {"stacks": [{**spec, "devices": ["/dev/loop7"]}]}), "[identity]", "no stable identity")
        allowed = harness.module("stack_plan", {"stacks": [{**spec, "devices": [{"path": "/dev/loop7", "test_identity": "lab"}]}]})
        assert not allowed["failed"], said(allowed)
        assert harness.must("tr -d '\\0' < /run/pl.img | wc -c").strip() == "0"
    finally:
        harness.must("losetup -d /dev/loop7; rm /run/pl.img")


def test_a_real_disk_with_a_test_identity(harness: Harness, on: dict[str, Disk]) -> None:
    path = on["swap"].path
    spec = {"name": "fake", "devices": [{"path": path, "test_identity": "lab"}], "layout": "separate", "volumes": [{"name": "a"}]}
    assert_error(harness.module("stack_plan", {"stacks": [spec]}), "[identity]", "for loop devices only")


def test_a_mapped_device_is_no_disk(harness: Harness, plugged: dict[str, Disk]) -> None:
    harness.must("dmsetup create plain --table '0 131072 zero'; udevadm settle")
    try:
        spec = {"name": "mapped", "devices": ["/dev/mapper/plain"], "layout": "separate", "volumes": [{"name": "a"}]}
        result = harness.module("stack_plan", {"stacks": [spec]})
        assert_error(result)
        assert "[not_a_disk]" in said(result) or "does not name a device" in said(result)
    finally:
        harness.must("dmsetup remove --retry plain")


# A sector of scsi_debug that cannot be read: the very first, one in the first 64 MiB, one near the end.
@pytest.mark.long
@pytest.mark.parametrize("sector", [0, 4660, 196000], ids=["first", "near-the-start", "near-the-end"])
def test_an_unreadable_sector_is_never_blank(bench: Bench, harness: Harness, plugged: dict[str, Disk], sector: int) -> None:
    parameters = "/sys/module/scsi_debug/parameters"
    with bench.scsi_debug(1, size_mib=96) as (disk,):
        harness.must(
            f"echo {sector} > {parameters}/medium_error_start; echo 4 > {parameters}/medium_error_count; echo 2 > /sys/bus/pseudo/drivers/scsi_debug/opts"
        )
        before = harness.must(f"cat /sys/block/{disk.kernel}/stat").split()
        result = harness.module("stack_plan", {"stacks": [one_stack(0, disk)]})
        after = harness.must(f"cat /sys/block/{disk.kernel}/stat").split()
        harness.must("echo 0 > /sys/bus/pseudo/drivers/scsi_debug/opts")
        assert_error(result, "[unreadable]", "could not be read")
        assert (before[4], before[11]) == (after[4], after[11]), "writes or discards reached the disk"
