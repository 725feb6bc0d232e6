# SPDX-License-Identifier: GPL-3.0-or-later
"""The guide "Getting your table back", and the section on taking a stack apart, followed to the letter: their commands are read from their text."""

from __future__ import annotations

import json
import re

import pytest
from labkit.bench import Disk, forget_partitions, pool
from labkit.guides import follow
from labkit.harness import HOME, Harness
from labkit.specs import stack

DISKS = pool(["lost", "other"])
MIB = 1 << 20
# What the writers of the collection do before their first write, on a disk that they would refuse.
KEEP = """
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.keep_backups import keep_device
import subprocess, sys
def run(argv):
    done = subprocess.run(argv, capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr
seen = observe(run, Questions(devices=((sys.argv[1], ""),), prove=False))
print(*keep_device(run, seen, seen.paths[sys.argv[1]]))
"""


def keep(harness: Harness, disk: Disk) -> str:
    """A backup of a disk; its directory."""
    return harness.must(f"cd {HOME} && PYTHONPATH={HOME} python3 - {disk.path} <<'END'\n{KEEP}\nEND").split()[-1]


def lose(harness: Harness, disk: Disk) -> None:
    """The table, and everything else in the first and last MiB, is gone."""
    size = int(harness.must(f"blockdev --getsize64 {disk.path}"))
    for at in (0, size // MIB - 1):
        harness.must(f"dd if=/dev/zero of={disk.path} bs=1M count=1 seek={at} conv=notrunc,fsync status=none")
    forget_partitions(harness, disk)


def content(harness: Harness, disk: Disk) -> str:
    return harness.must(f"blockdev --flushbufs {disk.path}; sha256sum < {disk.path}")


def test_a_disk_with_a_volume_group(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["p0"]
    harness.must(f"printf 'label: gpt\\n,60M\\n,20M\\n' | sfdisk -q {disk.path}; udevadm settle; mkfs.ext4 -q {disk.part(2)}")
    harness.must(f"vgcreate -q --setautoactivation n old {disk.part(1)}")
    harness.must("lvcreate -q -y -an -Zn -Wn -n lv -l 5 old")
    before, backup = content(harness, disk), keep(harness, disk)
    assert sorted(harness.must(f"ls {backup}").split()) == ["about.json", "head.img", "table.sfdisk", "tail.img", "vg-old.vgcfg"]
    found = follow(harness, "find", SERIAL=disk.serial).split()
    assert found == [f"{backup}/about.json"]
    lose(harness, disk)
    assert content(harness, disk) != before
    given = {"BACKUP": backup, "DEVICE": f"/dev/disk/by-id/{disk.by_id}"}
    told = follow(harness, "check", **given)
    assert "tail.img: OK" in told and told.endswith("the size agrees\n")
    follow(harness, "keep", **given)
    assert harness.must(f"cat {backup}/head-before.img {backup}/tail-before.img | wc -c").strip() == str(2 * MIB)
    follow(harness, "ends", **given)
    assert content(harness, disk) == before
    harness.must(f"udevadm settle; e2fsck -fn {disk.part(2)}; vgs old")


def test_the_table_alone_and_the_metadata(harness: Harness, disks: dict[str, Disk]) -> None:
    """Onto a disk whose PV label and metadata are those of a stack that was built on it."""
    disk = disks["p0"]
    harness.must(f"printf 'label: gpt\\n,60M\\n' | sfdisk -q {disk.path}; udevadm settle; vgcreate -q --setautoactivation n old {disk.part(1)}")
    harness.must("lvcreate -q -y -an -Zn -Wn -n lv -l 5 old")
    identifier = harness.must(f"pvs --noheadings -o pv_uuid {disk.part(1)}").strip()
    dump, backup = harness.must(f"sfdisk -d {disk.path}"), keep(harness, disk)
    harness.must(f"dd if=/dev/zero of={disk.part(1)} bs=1M count=1 conv=fsync status=none")
    lose(harness, disk)
    given = {"BACKUP": backup, "DEVICE": f"/dev/disk/by-id/{disk.by_id}"}
    follow(harness, "table", **given)
    harness.must("udevadm settle")
    assert harness.must(f"sfdisk -d {disk.path}") == dump
    # A stack that was built by mistake leaves its own label there: most partitions begin at the same byte.
    harness.must(f"vgcreate -q --setautoactivation n mistake {disk.part(1)}")
    follow(harness, "pv", **given, VG="old", ID=identifier, PV=disk.part(1))
    follow(harness, "group", **given, VG="old")
    assert harness.must("lvs --noheadings -o lv_name,lv_active old").split() == ["lv", "active"]


def test_a_luks_header(harness: Harness, disks: dict[str, Disk]) -> None:
    disk = disks["p0"]
    if harness.run("command -v cryptsetup")[0]:
        pytest.skip("the machine has no cryptsetup")
    options = "--batch-mode --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --key-file -"
    harness.must(f"printf secret | cryptsetup luksFormat {options} {disk.path}")
    backup = keep(harness, disk)
    harness.must(f"dd if=/dev/zero of={disk.path} bs=1M count=16 conv=fsync status=none")
    follow(harness, "luks", BACKUP=backup, DEVICE=f"/dev/disk/by-id/{disk.by_id}", HEADER=f"luks-{disk.kernel}.img")
    harness.must(f"printf secret | cryptsetup open --test-passphrase --key-file - {disk.path}")


def test_the_writer_of_tables_keeps_what_it_found(harness: Harness, disks: dict[str, Disk]) -> None:
    """Both devices of a stack, before either is written to: both blank, so that restoring makes them so again."""
    (step,) = harness.module("stack_plan", {"stacks": [stack(disks.values())], "through": "partition"})["steps"]
    blank = content(harness, disks["p0"])
    result = harness.module("aligned_partition", {"devices": step["devices"]})
    assert len(result["backups"]) == 2
    about = [json.loads(harness.must(f"cat {backup}/about.json")) for backup in result["backups"]]
    assert [one["serial"] for one in about] == [disks["p0"].serial, disks["p1"].serial]
    assert harness.must(f"stat -c %a:%U {' '.join(result['backups'])} /var/lib/plumbline/backup").split() == ["700:root"] * 3
    follow(harness, "ends", BACKUP=result["backups"][0], DEVICE=disks["p0"].path)
    assert content(harness, disks["p0"]) == blank


@pytest.mark.long
def test_a_stack_is_taken_apart_and_built_again(harness: Harness, disks: dict[str, Disk]) -> None:
    """Mount points stay, immutable, and another line of fstab is not touched."""
    spec = [stack(disks.values())]
    harness.build(spec)
    (volume,) = spec[0]["volumes"]
    harness.must("echo 'tmpfs /mnt tmpfs noauto 0 0' >> /etc/fstab")
    before = harness.must("cat /etc/fstab").splitlines()
    follow(harness, "volumes", guide="guide_flow", VG=spec[0]["name"], MOUNT=volume["mount"])
    assert harness.must("cat /etc/fstab").splitlines() == [line for line in before if volume["mount"] not in line]
    for disk in disks.values():
        follow(harness, "disk", guide="guide_flow", DISK=f"/dev/disk/by-id/{disk.by_id}")
    harness.must("udevadm settle")
    plan = harness.build(spec)
    assert plan["steps"][0]["action"] == "partition"
    assert harness.module("stack_plan", {"stacks": spec})["steps"] == []


def test_a_backup_table_that_is_gone_is_told_and_written_again(harness: Harness, disks: dict[str, Disk]) -> None:
    """By the words of the finding, while the stack is mounted; the first copy stays."""
    harness.build([stack(disks.values())])
    disk = disks["p1"]
    first = f"head -c 1M {disk.path} | sha256sum"
    harness.must(f"dd if=/dev/zero of={disk.path} bs=512 count=1 seek=$(($(blockdev --getsz {disk.path}) - 1)) conv=notrunc,fsync status=none; sync")
    found = harness.module("stack_info", {"devices": [disk.by_id for disk in disks.values()]})
    (line,) = (finding for finding in found["findings"] if "backup of its partition table" in finding["text"])
    assert (line["level"], line["layer"], line["name"]) == ("warning", "device", disk.kernel) and "is missing" in line["text"]
    command = re.search(r"sfdisk --relocate gpt-bak-std /dev/[a-z0-9]+", line["text"])
    assert command, line
    before = harness.must(first)
    harness.must(command.group())
    assert harness.must(first) == before
    assert not any("backup" in finding["text"] for finding in harness.module("stack_info", {"devices": [disk.by_id for disk in disks.values()]})["findings"])
