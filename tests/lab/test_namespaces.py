# SPDX-License-Identifier: GPL-3.0-or-later
"""Two namespaces of one SSD: refused as legs of a stripe, allowed where the spec accepts it.

The kernel's own NVMe target serves two disks of the lab as namespaces of one subsystem, over TCP inside the
guest, so that the host goes on counting writes and nothing has to boot again. The long test has QEMU's own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from labkit.audits import audit_host
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.nvme_tcp import nvme_target
from labkit.specs import assert_refused, said, stack

DISKS = [{"name": f"behind{number}", "bus": "scsi", "size": "96MiB", "serial": f"BEHIND{number}"} for number in range(2)]
REFUSAL = "are namespaces of one SSD"


@pytest.fixture(scope="module")
def namespaces(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[list[Disk]]:
    """Two NVMe namespaces behind one controller."""
    with nvme_target(bench, harness, plugged["behind0"], plugged["behind1"]) as disks:
        yield disks


def test_two_namespaces_of_one_ssd_are_refused(bench: Bench, harness: Harness, namespaces: list[Disk]) -> None:
    with bench.untouched():
        assert_refused(harness, [paths_of(namespaces)], REFUSAL, "accept: [shared_controller]")
        audit_host(harness)


def test_accepted_they_are_planned_and_partitioned(harness: Harness, namespaces: list[Disk]) -> None:
    spec = [paths_of(namespaces, accept=["shared_controller"])]
    plan = harness.module("stack_plan", {"stacks": spec, "through": "partition"})
    assert not plan["failed"], said(plan)
    assert any("accepted: shared_controller" in str(warning) for warning in plan["warnings"])
    harness.apply(plan["steps"])
    assert harness.module("stack_plan", {"stacks": spec, "through": "partition"})["steps"] == []


def paths_of(namespaces: list[Disk], **more: object) -> dict[str, object]:
    """A striped pair without mounts."""
    return {**stack(namespaces), "volumes": [{"name": "data"}], **more}


def link_of_namespace(harness: Harness, disk: Disk) -> str:
    """The link that one namespace has alone: each asks udev for that of the whole SSD as well."""
    number = disk.kernel.rpartition("n")[2]
    return harness.must(f"find /dev/disk/by-id -lname '*/{disk.kernel}' -name 'nvme-*_{disk.serial}_{number}' -printf '%f'")


@pytest.mark.long
def test_namespaces_of_a_pci_controller(bench: Bench, harness: Harness) -> None:
    """The same with QEMU's own controller, which has to be there at boot: two boots."""
    shared = [{"name": f"q{number}", "bus": "nvme", "size": "64MiB", "serial": "QEMUSHARED", "controller": "ctrl0"} for number in range(2)]
    named_alike = list(bench.replace(shared).values())
    disks = [dataclasses.replace(disk, by_id=link_of_namespace(harness, disk)) for disk in named_alike]
    try:
        with bench.untouched():
            assert_refused(harness, [paths_of(named_alike)], "is the name of several devices", "name it otherwise, by its WWID")
            assert_refused(harness, [paths_of(disks)], REFUSAL)
        plan = harness.module("stack_plan", {"stacks": [paths_of(disks, accept=["shared_controller"])]})
        assert not plan["failed"], said(plan)
    finally:
        bench.replace([])
