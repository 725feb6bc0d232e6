# SPDX-License-Identifier: GPL-3.0-or-later
"""Links: none of QEMU's buses gives a finding, what the kernel's files say is found, and a drive that fills its link is told as such."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from labkit.bench import SATA, Bench, Disk
from labkit.harness import Harness
from labkit.specs import said

PAGE: int = SATA[-1]["simulated"]["page_size"]
DISKS = [
    {"name": "pcie", "bus": "nvme", "size": "64MiB", "serial": "LINKPCIE"},
    {"name": "virtio", "bus": "scsi", "size": "64MiB", "serial": "LINKSCSI"},
    *SATA,
]


@pytest.fixture(scope="module")
def drives(plugged: dict[str, Disk]) -> dict[str, Disk]:
    """All of them."""
    return plugged


def links(harness: Harness, *disks: Disk) -> dict[str, Any]:
    """device_info's `link` of these disks (none named: of all), by serial."""
    found = harness.module("device_info", {"devices": [disk.by_id for disk in disks]})
    assert not found["failed"], said(found)
    return {one["identity"]["serial"]: one["link"] for one in found["devices"]}


def plan(harness: Harness, disk: Disk, **more: Any) -> dict[str, Any]:
    """A stack of one volume that fits on any of these."""
    stack = {"name": "linked", "devices": [disk.by_id], "layout": "linear", "volumes": [{"name": "data"}], **more}
    return harness.module("stack_plan", {"stacks": [stack]})


def home(harness: Harness, disk: Disk) -> str:
    """The folder of a disk's own end below /sys: its PCIe function, or its ATA port."""
    path = harness.must(f"readlink -f /sys/class/block/{disk.kernel}/device").strip()
    return path.split("/nvme/")[0] if "/nvme/" in path else path.split("/host")[0]


@contextmanager
def shown(harness: Harness, **files: str) -> Iterator[None]:
    """Files below /sys that say something else, by a mount over each."""
    try:
        for number, (path, text) in enumerate(files.items()):
            harness.must(f"echo '{text}' >/run/link{number}; mount --bind /run/link{number} {path}")
        yield
    finally:
        for path in files:
            harness.run(f"umount {path}")


def test_no_findings_on_any_bus(harness: Harness, drives: dict[str, Disk]) -> None:
    """Of all disks of the machine, the root's virtio-blk too."""
    found = links(harness)
    assert len(found) > len(DISKS)
    assert {serial: one["findings"] for serial, one in found.items() if one["findings"]} == {}
    assert not any(link["below"] for one in found.values() for link in one["links"])
    (pcie,) = found["LINKPCIE"]["links"]
    assert (pcie["kind"], pcie["speed"], pcie["width"], pcie["below"], pcie["target"]) == ("PCIe", 2500, 1, False, {"speed": 2500, "width": 1})
    assert pcie["host"]["speed"] > 2500 and pcie["host"]["width"] > 1, "the root port can do more: who looks at it alone takes the drive for slow"
    for serial in ("SATA0", "SATAFLASH"):
        (sata,) = found[serial]["links"]
        assert (sata["kind"], sata["host"]["speed"], sata["drive"]["speed"], sata["speed"], sata["below"]) == ("SATA", 1500, None, 1500, None)
    for disk in drives.values():
        result = plan(harness, disk)
        assert not result["failed"], said(result)
        assert (result["findings"], result.get("warnings", [])) == ([], [])


def test_a_port_that_the_kernel_slowed(harness: Harness, drives: dict[str, Disk]) -> None:
    disk = drives["sata0"]
    (files,) = harness.must(f"echo {home(harness, disk)}/link*/ata_link/link*").split()
    with shown(harness, **{files + "/sata_spd_limit": "1.5 Gbps", files + "/hw_sata_spd_limit": "3.0 Gbps"}):
        assert links(harness, disk)["SATA0"]["findings"] == [], "the controller can do no more than that"
    caps = home(harness, disk) + "/host*/scsi_host/host*/ahci_host_caps"
    (caps,) = harness.must(f"echo {caps}").split()
    with shown(harness, **{files + "/sata_spd_limit": "1.5 Gbps", caps: "40341f05"}):
        (found,) = links(harness, disk)["SATA0"]["findings"]
        assert (found["level"], found["layer"], found["name"]) == ("warning", "link", disk.kernel)
        assert "is the slow end, the kernel slowed it down after errors" in found["found"]
        result = plan(harness, disk)
        assert [one["text"] for one in result["findings"]] == [found["text"]] and found["text"] in str(result["warnings"])


def test_half_of_a_pcie_link_is_not_built_on(bench: Bench, harness: Harness, drives: dict[str, Disk]) -> None:
    """The drive is read while its link is, since an idle link may be slow; and nothing is written."""
    disk = drives["pcie"]
    with shown(harness, **{home(harness, disk) + "/max_link_speed": "5.0 GT/s PCIe"}):
        bench.counters(disk, reset=True)
        (found,) = links(harness, disk)["LINKPCIE"]["findings"]
        assert (bench.counters(disk)[disk.name]["host_read_bytes"] or 0) > 1 << 20
        assert found["level"] == "warning" and "PCIe 2.5 GT/s x1 at" in found["found"]
        with bench.untouched(disk):
            refused = plan(harness, disk)
            assert refused["failed"] and "set accept: [slow_link]" in said(refused)
        accepted = plan(harness, disk, accept=["slow_link"])
        assert not accepted["failed"] and [one["level"] for one in accepted["findings"]] == ["warning"]
    assert links(harness, disk)["LINKPCIE"]["findings"] == []


@pytest.mark.long
@pytest.mark.measured
@pytest.mark.parametrize("speed, rate, bound", [("1.5", 130, True), ("3.0", 130, False)])
def test_a_drive_that_fills_its_link(bench: Bench, harness: Harness, drives: dict[str, Disk], speed: str, rate: int, bound: bool) -> None:
    """A drive of 130 MB/s at two speeds of its link. One of 240 is in the unit tests: the emulated guest reads no faster than about 200."""
    disk = drives["sataflash"]
    bench.change(disk, read_us=PAGE // rate)
    (spd,) = harness.must(f"echo {home(harness, disk)}/link*/ata_link/link*/sata_spd").split()
    asked = {"volumes": [disk.by_id], "jobs": ["seq_read"], "span": "128MiB", "depth": 16, "block_seconds": 2, "max_seconds": 60}
    tries = []
    with shown(harness, **{spd: speed + " Gbps"}):
        for _try in range(3):  # other load of the host only takes away
            found = harness.module("throughput", asked, timeout=300)
            assert not found["failed"], said(found)
            (job,) = found["jobs"]
            (link,) = [one for one in job["links"] if one["kind"] == "SATA"]
            tries.append((link["share"], link, job, found))
            if link["share"] >= 0.99 * rate / (float(speed) * 93):
                break
    _share, link, job, found = max(tries, key=lambda one: one[0])
    print(f"\n{rate} MB/s at {speed} Gb/s: {link}, CPU {job['cpu_busy']}")
    assert link["share"] == pytest.approx(rate / (float(speed) * 93), rel=0.05)
    assert (link["link_bound"], job["link_bound"]) == (bound, bound)
    assert any("link-bound" in line for line in found["report"]) is bound
