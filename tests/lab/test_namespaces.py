# SPDX-License-Identifier: GPL-3.0-or-later
"""Two namespaces of one SSD: refused as legs of a stripe, allowed where the spec accepts it.

The kernel's own NVMe target serves two disks of the lab as namespaces of one subsystem, over TCP inside the
guest, so that the host goes on counting writes and nothing has to boot again. The long test has QEMU's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from labkit.bench import Bench, Disk
from labkit.harness import Harness
from labkit.specs import assert_refused, said, stack

DISKS = [{"name": f"behind{number}", "bus": "scsi", "size": "96MiB", "serial": f"BEHIND{number}"} for number in range(2)]
# With the paths behind them (nvme0c0n1) left out.
HEADS = "grep -ls SHAREDSSD01 /sys/block/nvme*/device/serial | cut -d/ -f4 | grep -v c"
TARGET = """
modprobe nvmet-tcp; modprobe nvme-tcp
cd /sys/kernel/config/nvmet
mkdir subsystems/plumbline
echo 1 > subsystems/plumbline/attr_allow_any_host
echo SHAREDSSD01 > subsystems/plumbline/attr_serial
for pair in 1:{0} 2:{1}; do
    at=subsystems/plumbline/namespaces/${{pair%%:*}}
    mkdir $at; echo -n ${{pair#*:}} > $at/device_path; echo 1 > $at/enable
done
mkdir ports/1
echo ipv4 > ports/1/addr_adrfam; echo tcp > ports/1/addr_trtype; echo 127.0.0.1 > ports/1/addr_traddr; echo 4420 > ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/plumbline ports/1/subsystems/plumbline
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n plumbline -i 1
for turn in $(seq 100); do
    udevadm settle
    test $({heads} | wc -l) = 2 && break
    sleep 0.1
done
"""
AWAY = """
nvme disconnect -n plumbline >/dev/null
cd /sys/kernel/config/nvmet
rm -f ports/1/subsystems/plumbline; rmdir ports/1
for at in subsystems/plumbline/namespaces/*; do echo 0 > $at/enable; rmdir $at; done
rmdir subsystems/plumbline
modprobe -r nvme-tcp nvmet-tcp
"""
REFUSAL = "are namespaces of one SSD"


@pytest.fixture(scope="module")
def namespaces(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[list[Disk]]:
    """Two NVMe namespaces behind one controller."""
    try:
        harness.must(TARGET.format(plugged["behind0"].path, plugged["behind1"].path, heads=HEADS))
        kernels = harness.must(HEADS).split()
        disks = []
        for kernel in sorted(kernels):
            links = harness.must(f"find /dev/disk/by-id -lname '*/{kernel}' -printf '%f\\n'").split()
            # The links that are made of model and serial are claimed by both namespaces, and move with every event of either.
            (own,) = (link for link in links if link.startswith("nvme-uuid."))
            disks.append(Disk(kernel, f"/dev/{kernel}", own, "SHAREDSSD01"))
        assert len(disks) == 2
        yield disks
    finally:
        harness.run(AWAY)
        bench.clean()


def test_two_namespaces_of_one_ssd_are_refused(bench: Bench, harness: Harness, namespaces: list[Disk]) -> None:
    with bench.untouched():
        assert_refused(harness, [paths_of(namespaces)], REFUSAL, "accept: [shared_controller]")


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


@pytest.mark.long
def test_namespaces_of_a_pci_controller(bench: Bench, harness: Harness) -> None:
    """The same with QEMU's own controller, which has to be there at boot: two boots."""
    shared = [{"name": f"q{number}", "bus": "nvme", "size": "64MiB", "serial": "QEMUSHARED", "controller": "ctrl0"} for number in range(2)]
    disks = list(bench.replace(shared, restart=True).values())
    try:
        with bench.untouched():
            assert_refused(harness, [paths_of(disks)], REFUSAL)
        plan = harness.module("stack_plan", {"stacks": [paths_of(disks, accept=["shared_controller"])]})
        assert not plan["failed"], said(plan)
    finally:
        bench.replace([], restart=True)
