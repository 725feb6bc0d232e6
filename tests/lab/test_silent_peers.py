# SPDX-License-Identifier: GPL-3.0-or-later
"""What other tools pass over or destroy without a word: refused or reported here, and nothing is written meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from labkit.audits import audit_host
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.specs import assert_refused, said, stack

DISKS = [
    *({"name": name, "bus": "scsi", "size": "512MiB", "serial": f"PEER{name.upper()}", "physical_block_size": 4096} for name in ("disk", "part", "sixty3")),
    *({"name": name, "bus": "nvme", "size": "96MiB", "serial": f"PEER{name.upper()}"} for name in ("leg0", "leg1")),
]
OWN = {"stripe_size": "64KiB", "volumes": [{"name": "data"}]}


def test_xfs_on_the_disk_and_in_partitions(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """Three disks at once: XFS on the bare disk, XFS on partition 1, a partition at sector 63."""
    disk, inside, sixty3 = disks["disk"], disks["part"], disks["sixty3"]
    harness.must(
        f"mkfs.xfs -q -K {disk.path}\n"
        f"echo 'start=2048' | sfdisk -q -X gpt {inside.path}; udevadm settle; mkfs.xfs -q -K {inside.path}1\n"
        f"echo 'start=63' | sfdisk -q -X dos {sixty3.path}; udevadm settle"
    )
    with bench.untouched(disk, inside, sixty3):
        result = assert_refused(harness, [stack([one], "separate", name=name) for name, one in (("a", disk), ("b", inside), ("c", sixty3))])
        audit_host(harness)
    for one, words in ((disk, "it carries an xfs filesystem [signature]"), (inside, f"{inside.kernel}1 carries"), (sixty3, "MBR partition table")):
        lines = [line for line in result["reasons"] if f"device {one.kernel} " in line]
        assert any(words in line for line in lines), said(result)
    harness.must(f"xfs_repair -n {disk.path} 2>&1; xfs_repair -n {inside.path}1 2>&1")


@pytest.mark.parametrize(
    ("create", "found"),
    [
        ("-i 2 -I 128k", "stripes of 128 KiB; wanted 64 KiB"),
        pytest.param("-i 2 -I 4k", "stripes of 4 KiB; wanted 64 KiB", marks=pytest.mark.long),
        pytest.param("--type linear", "a layout of linear; wanted 2 stripes", marks=pytest.mark.long),
    ],
    ids=["larger-stripes", "smaller-stripes", "linear"],
)
def test_an_lv_of_our_name_in_our_group_with_another_layout(bench: Bench, harness: Harness, disks: dict[str, Disk], create: str, found: str) -> None:
    legs = [disks["leg0"], disks["leg1"]]
    spec = [stack(legs) | OWN]
    plan = harness.module("stack_plan", {"stacks": spec, "through": "striped_lvm"})
    harness.apply([step for step in plan["steps"] if step["action"] != "logical_volume"])
    (wanted,) = [step["size_bytes"] for step in plan["steps"] if step["action"] == "logical_volume"]
    harness.must(f"lvcreate -q -y -Wn -Zn -n data -L {wanted}b {create} pgdata")
    with bench.untouched(*legs):
        assert_refused(harness, spec, "LV pgdata/data", found, "this can only be rebuilt, which is never done here")


def test_check_mode_on_bare_disks(bench: Bench, harness: Harness, disks: dict[str, Disk]) -> None:
    """Every step is planned, the diff draws the stack, the writer proves the disks in check mode; nothing is written."""
    legs = [disks["leg0"], disks["leg1"]]
    spec = [stack(legs, volumes=3)]
    with bench.untouched(*legs):
        plan = harness.module("stack_plan", {"stacks": spec}, check=True)
        assert not plan["failed"] and plan["changed"], said(plan)
        harness.apply([step for step in plan["steps"] if step["action"] == "partition"], check=True)
    assert [step["action"] for step in plan["steps"]] == ["partition", "volume_group", *["logical_volume"] * 3, *["filesystem"] * 3, "mount"]
    assert drawn(plan["diff"]), plan["diff"]
    assert set(harness.must(f"lsblk -nro NAME {legs[0].path} {legs[1].path}").split()) == {leg.kernel for leg in legs}


def drawn(diff: Any) -> bool:
    """Whether a diff shows something new."""
    entries = diff if isinstance(diff, list) else [diff]
    return any(entry["before"] != entry["after"] for entry in entries)
