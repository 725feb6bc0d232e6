# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that look blank and are not: what tools leave when somebody zapped, overwrote or half-wiped a disk.

All stand at once, each on a disk of its own, and one plan refuses them all. What sampling cannot see for sure is refused
under `blank_proof: full`; the probability that sampling is stated to have is a matter of the unit tests (test_read_blank_proof.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from labkit.audits import audit_host
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import assert_error, said, stack

TABLE = "printf 'label: gpt\\nstart=2048\\n' | sfdisk -q {d}; udevadm settle"
EXT_AT_1M = TABLE + "; mkfs.ext4 -q -F {d}1; "
GONE = "; udevadm settle; partx -d {d} 2>/dev/null || true"
ZERO = "dd if=/dev/zero of={d} conv=notrunc,fsync status=none bs=512 "


@dataclass(frozen=True)
class Decoy:
    """How it comes about, and a word of the refusal."""

    make: str
    reason: str


DECOYS = {
    "first-superblock-zeroed": Decoy("mkfs.ext4 -q -F {d}; " + ZERO + "count=8", "[data]"),
    "first-mib-zeroed": Decoy("mkfs.ext4 -q -F -b 1024 {d}; " + ZERO + "count=2048", "[data]"),
    "backup-gpt-only": Decoy(TABLE + "; " + ZERO + "count=34" + GONE, "["),
    "gpt-with-a-bad-checksum": Decoy(
        TABLE + "; printf X | dd of={d} bs=1 seek=528 conv=notrunc,fsync status=none" + GONE, "[table]"
    ),
    "gpt-entries-with-a-bad-checksum": Decoy(
        TABLE + "; printf X | dd of={d} bs=1 seek=1100 conv=notrunc,fsync status=none" + GONE, "[table]"
    ),
    "protective-mbr-only": Decoy(
        "echo 'label: gpt' | sfdisk -q {d}; " + ZERO + "seek=1 count=33; " + ZERO + "seek=$(($(blockdev --getsz {d}) - 33)) count=33" + GONE, "[table]"
    ),
    "two-signatures": Decoy("mkfs.ext4 -q -F {d}; printf 'ORCLDISKDATA01' | dd of={d} bs=1 seek=32 conv=notrunc,fsync status=none", "[signature]"),
    "swap-over-ext4": Decoy(
        "mkfs.ext4 -q -F {d}; dd if=/dev/zero of=/run/pl-swap bs=4k count=16 status=none; mkswap -q /run/pl-swap"
        "; dd if=/run/pl-swap of={d} bs=1 skip=4086 seek=4086 count=10 conv=notrunc,fsync status=none; rm /run/pl-swap", "[signature]",
    ),
    "signature-only-at-the-end": Decoy(
        "mdadm -q -C /dev/md/pl-end -e 1.0 -l 1 -n 2 -R --assume-clean {d} missing; udevadm settle; mdadm -q -S /dev/md/pl-end; udevadm settle", "[signature]"
    ),
    "old-md-at-the-end": Decoy(
        "mdadm -q -C /dev/md/pl-old -e 0.90 -l 1 -n 2 -R --assume-clean {d} missing; udevadm settle; mdadm -q -S /dev/md/pl-old; udevadm settle", "[signature]"
    ),
    "zapped-over-ext4-at-1-mib": Decoy(EXT_AT_1M + "sgdisk -Z {d} >/dev/null" + GONE, "mark of ext filesystem at byte 1049656"),
    "zeroed-table-over-ext4-at-sector-63": Decoy(
        "mkfs.ext4 -q -F -E offset=32256 {d} 64M >/dev/null 2>&1; " + ZERO + "count=63", "mark of ext filesystem at byte 33336"
    ),
    "filesystem-at-sector-34": Decoy("mkfs.ext4 -q -F -E offset=17408 {d} 64M >/dev/null 2>&1; " + ZERO + "count=34", "mark of ext filesystem at byte 18488"),
    "table-gone-lvm-behind-it": Decoy(
        "printf 'label: gpt\\nstart=2048\\n' | sfdisk -q {d}; udevadm settle; pvcreate -q {d}1; sgdisk -Z {d} >/dev/null" + GONE, "mark of LVM2_member"
    ),
    "zfs-second-label-only": Decoy(
        "printf '\\014\\261\\272\\0\\0\\0\\0\\0' | dd of={d} bs=1 seek=398336 conv=notrunc,fsync status=none", "mark of zfs_member"
    ),
    "one-byte-in-the-middle": Decoy("printf x | dd of={d} bs=1 seek=50331649 conv=notrunc,fsync status=none", "[data]"),
    "all-ones": Decoy("tr '\\0' '\\377' < /dev/zero | dd of={d} bs=1M count=96 iflag=fullblock conv=notrunc,fsync status=none || true", "[data]"),
    "wiped-by-wipefs": Decoy("mkfs.xfs -q -K --unsupported {d}; wipefs -qa {d}", "[data]"),
}  # fmt: skip
SMALL = list(DECOYS)
FAR = {"name": "far", "bus": "scsi", "size": "1GiB", "physical_block_size": 4096, "serial": "FARMIDDLE"}
DISKS = [*pool(SMALL), FAR]


@pytest.fixture(scope="module")
def refused(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[dict[str, Any]]:
    """One plan on all of them, while the host counts."""
    for number, decoy in enumerate(DECOYS.values()):
        harness.must(decoy.make.replace("{d}", plugged[f"p{number}"].path))
    spec = [stack([plugged[f"p{number}"]], "separate", name=f"s{number}") for number in range(len(DECOYS))]
    try:
        with bench.untouched():
            result = harness.module("stack_plan", {"stacks": spec})
            audit_host(harness)
        yield result
    finally:
        bench.clean()


@pytest.mark.parametrize("name", DECOYS)
def test_a_decoy_is_refused(refused: dict[str, Any], plugged: dict[str, Disk], name: str, figure: Callable[..., None]) -> None:
    assert_error(refused, "refused: nothing was written")
    disk = plugged[f"p{SMALL.index(name)}"]
    lines = [line for line in refused["reasons"] if f"device {disk.kernel} ({disk.serial})" in line]
    assert any(DECOYS[name].reason in line for line in lines), lines or said(refused)
    figure("decoys", decoys=1, not_refused=0)


def test_data_that_only_a_full_proof_sees_for_sure(bench: Bench, harness: Harness, disks: dict[str, Disk], figure: Callable[..., None]) -> None:
    """One sector in the middle of a gigabyte: a sampled proof sees it once in two hundred times or so, a full one always. It is made at the write."""
    disk = disks["far"]
    spec = {**stack([disk], "separate"), "blank_proof": "full"}
    request = harness.module("stack_plan", {"stacks": [spec], "through": "partition"})["steps"][0]["devices"]
    harness.must(f"printf x | dd of={disk.path} bs=1 seek=536870912 conv=notrunc,fsync status=none")
    with bench.untouched(disk):
        assert_error(harness.module("aligned_partition", {"devices": request}), "[data]", "first at byte 536870912")
    figure("decoys", seen_by_a_full_proof=1)
