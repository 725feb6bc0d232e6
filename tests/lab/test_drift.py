# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack that stands, and is no longer as it was made: each change is told, as a refusal, a step or a warning, and never accepted without a word."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.audits import audit_host
from labkit.bench import Bench, Disk, pool
from labkit.everyday import everyday
from labkit.harness import Harness
from labkit.specs import assert_error, said, stack

DISKS = pool(["first", "second"], size="256MiB")
MOUNT, VOLUME = "/pl/pgdata0", "/dev/mapper/pgdata-vol0"
AGAIN = f"umount {MOUNT}; %s; mount {MOUNT}"
LVM_TYPE, LINUX_TYPE = "E6D6D379-F507-44C2-A23C-238F2A3DF928", "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
OWN_CONFIG = "echo 'devices {{ %s }}' > /etc/lvm/lvmlocal.conf"
OWN_END = "rm -f /etc/lvm/lvmlocal.conf /etc/lvm/devices/system.devices*"
TYPE = "udevadm settle; sfdisk -q --force --no-reread --part-type {disk} 1 %s; udevadm settle"


@dataclass(frozen=True)
class Row:
    """What is done to the stack, what undoes it, how the plan tells (refused, step, warned) and with which words, and the audit's (level, layer)."""

    change: str
    undo: str
    told: str
    words: str
    finding: tuple[str, str] | None = None


ROWS = {
    "read-only": Row(f"mount -o remount,ro {MOUNT}", f"mount -o remount,rw {MOUNT}", "step", "remounted: -ro"),
    "data-err": Row(f"mount -o remount,data_err=abort {MOUNT}", f"mount -o remount,data_err=ignore {MOUNT}", "step", "remounted: -data_err=abort"),
    "errors": Row(f"mount -o remount,errors=panic {MOUNT}", f"mount -o remount,errors=continue {MOUNT}", "step", "remounted: -errors=panic"),
    "covered": Row(f"mount -t tmpfs none {MOUNT}", f"umount {MOUNT}", "refused", "tmpfs (none) is mounted over it [covered]", ("error", "mount")),
    "covered-above": Row("mount -t tmpfs none /pl", "umount /pl", "refused", "tmpfs (none) on /pl is mounted over it [covered]", ("error", "mount")),
    "no-journal": Row(AGAIN % f"tune2fs -O ^has_journal {VOLUME}", AGAIN % f"tune2fs -O has_journal {VOLUME}", "refused", "no journal", ("error", "ext4")),
    # Within its last block group: the inode tables of new groups would be written by the kernel, in the background.
    "smaller": Row(
        AGAIN % f"e2fsck -fp {VOLUME}; resize2fs {VOLUME} 440M", f"resize2fs {VOLUME}", "step",
        "grow the filesystem of volume 'vol0' from 440 MiB to", ("warning", "ext4"),
    ),
    # systemd takes the change of the device for its end, and unmounts it.
    "read-only-lv": Row("lvchange -q -pr pgdata/vol0", f"lvchange -q -prw pgdata/vol0; mountpoint -q {MOUNT} || mount {MOUNT}", "refused", "is read-only"),
    "reserved": Row(f"tune2fs -m 5 {VOLUME}", f"tune2fs -m 0 {VOLUME}", "warned", "for root alone; wanted none, by tune2fs -m 0"),
    "superblock-errors": Row(f"tune2fs -e panic {VOLUME}", f"tune2fs -e continue {VOLUME}", "warned", "the answer to an error is 'panic'"),
    "stripe": Row(
        f"mount -o remount,stripe=16 {MOUNT}", f"mount -o remount,stripe=32 {MOUNT}", "warned",
        "it is mounted with stripe=16, and its superblock says 32; wanted one stripe for both, by mount -o remount,stripe=32", ("warning", "ext4"),
    ),
    # LVM keeps itself from a PV of the stack; the way back is the one that the refusal tells.
    "hidden-by-the-devices-file": Row(
        f"{OWN_CONFIG % 'use_devicesfile=1'}; lvm lvmdevices -q --adddev {{other}}", f"lvm lvmdevices -q --adddev {{part}} && {OWN_END}", "refused",
        "lvm lvmdevices --adddev {part}", ("error", "pv"),
    ),
    "hidden-by-a-filter": Row(
        OWN_CONFIG % 'global_filter=[ "r|{part}|" ]', OWN_END, "refused", "filter and global_filter in /etc/lvm/lvm.conf without it", ("error", "pv"),
    ),
    "partition-type": Row(TYPE % LINUX_TYPE, TYPE % LVM_TYPE, "warned", f"has the type {LINUX_TYPE}; wanted {LVM_TYPE}"),
}  # fmt: skip


@pytest.fixture(scope="module")
def built(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[dict[str, Any]]:
    """The spec of a stack that stands."""
    spec = stack(plugged.values())
    harness.build([spec])
    yield spec
    bench.clean()


def reads(bench: Bench, harness: Harness, spec: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The plan, which the audit tells as well, and (level, layer) of the audit's findings, with the disks not written to."""
    with bench.untouched():
        plan = harness.module("stack_plan", {"stacks": [spec]})
        audit = audit_host(harness, stacks=[spec])
    drift, findings = audit["stack_plan"], audit["stack_info"]["findings"]
    assert (drift.get("failed", False), drift.get("steps", [])) == (plan["failed"], plan.get("steps", [])), (said(plan), said(drift))
    return plan, [(finding["level"], finding["layer"]) for finding in findings]


@pytest.mark.parametrize("name", everyday(ROWS, "read-only", "covered", "no-journal", "hidden-by-a-filter", "partition-type"))
def test_it_is_told(bench: Bench, harness: Harness, built: dict[str, Any], plugged: dict[str, Disk], name: str) -> None:
    row, names = ROWS[name], {"disk": plugged["p0"].path, "part": plugged["p0"].part(), "other": plugged["p1"].part()}
    assert reads(bench, harness, built)[1] == []
    harness.must(row.change.format(**names))
    try:
        plan, findings = reads(bench, harness, built)
        assert row.finding is None or row.finding in findings, findings
        if row.told == "refused":
            assert_error(plan, row.words.format(**names))
        elif row.told == "step":
            (step,) = plan["steps"]
            assert step["action"] in ("mount", "grow_filesystem") and row.words in step["summary"], plan["steps"]
        else:
            assert not plan["failed"] and plan["steps"] == [], said(plan)
            assert row.words in str(plan["warnings"])
        if row.told == "step":
            harness.apply(plan["steps"])
    finally:
        harness.must(row.undo.format(**names))
    plan, findings = reads(bench, harness, built)
    assert (plan["failed"], plan["steps"], plan.get("warnings", []), findings) == (False, [], [], [])


def test_a_mount_that_the_spec_has_no_more(bench: Bench, harness: Harness, built: dict[str, Any]) -> None:
    without = {**built, "volumes": [{key: value for key, value in volume.items() if key != "mount"} for volume in built["volumes"]]}
    plan, _findings = reads(bench, harness, without)
    assert not plan["failed"] and plan["steps"] == []
    assert f"has no mount in the spec, and it is mounted on {MOUNT}, fstab mounts it on {MOUNT}; that is left alone" in str(plan["warnings"])
