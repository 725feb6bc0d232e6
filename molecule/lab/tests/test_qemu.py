# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's arguments, slots and counters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from plumblab import counters, qemu
from plumblab.disks import Disk, parse
from plumblab.errors import LabError
from plumblab.image import Image
from plumblab.machine import accelerations
from plumblab.paths import Paths
from plumblab.plugging import match
from plumblab.process import is_ours


def disk(name: str, bus: str = "nvme", **more: Any) -> Disk:
    return parse({"name": name, "bus": bus, "size": "1GiB", "serial": f"SER{name}", **more})


@pytest.mark.parametrize(
    ("declared", "slot", "expected"),
    [
        (disk("a"), 3, [{"driver": "nvme", "id": "a", "bus": "port3", "serial": "SERa", "drive": "node-a"}]),
        (
            disk("a", logical_block_size=4096, write_cache="off"),
            0,
            [
                {
                    "driver": "nvme", "id": "a", "bus": "port0", "serial": "SERa", "drive": "node-a",
                    "logical_block_size": 4096, "physical_block_size": 4096, "write-cache": "off",
                }
            ],
        ),
        (
            disk("a", controller="c0", eui64="00000000000000ff"),
            1,
            [
                {"driver": "nvme", "id": "c0", "bus": "port1", "serial": "SERa"},
                {"driver": "nvme-ns", "id": "a", "bus": "c0", "drive": "node-a", "eui64": 255},
            ],
        ),
    ],
)  # fmt: skip
def test_nvme_devices(declared: Disk, slot: int, expected: list[dict[str, Any]]) -> None:
    assert qemu.devices(declared, slot) == expected


def test_scsi_device() -> None:
    declared = disk("s", "scsi", model="PLUMB", physical_block_size=4096, opt_io_size=65536)
    (device,) = qemu.devices(declared, 7)
    assert device["driver"] == "scsi-hd"
    assert (device["scsi-id"], device["product"], device["physical_block_size"], device["opt_io_size"]) == (7, "PLUMB", 4096, 65536)
    assert device["rotation_rate"] == 1
    assert device["wwn"] >> 60 == 5


def test_nodes() -> None:
    assert [node["driver"] for node in qemu.nodes(disk("a"), Path("/x/a.raw"), None)] == ["file", "raw"]
    (node,) = qemu.nodes(disk("a", simulated={}), None, Path("/x/a.nbd"))
    assert (node["driver"], node["server"]["path"], node["node-name"]) == ("nbd", "/x/a.nbd", "node-a")


def test_slots_fill_gaps_and_controllers_share_theirs() -> None:
    old = [disk("a"), disk("b")]
    new = [disk("c"), disk("d", controller="c0"), disk("e", controller="c0"), disk("s", "scsi")]
    assert qemu.assign_slots(new, {"a": 0, "b": 2}, old) == {"c": 1, "d": 3, "e": 3, "s": 0}


def test_too_many_disks() -> None:
    with pytest.raises(LabError, match="all 14 nvme slots of the machine are taken"):
        qemu.assign_slots([disk(f"d{number}") for number in range(15)], {})


def test_a_controller_is_declared_once() -> None:
    pair = [disk("d", controller="c0"), disk("e", controller="c0")]
    words = qemu.boot_disks(pair, {"d": 0, "e": 0}, {"d": (Path("/d"), None), "e": (Path("/e"), None)})
    drivers = [json.loads(word)["driver"] for word in words if word.startswith("{")]
    assert drivers == ["file", "raw", "nvme", "nvme-ns", "file", "raw", "nvme-ns"]


def test_machine_reaches_nothing_outside() -> None:
    paths = Paths(Path("/cache"))
    words = qemu.machine(paths, ["qemu-system-x86_64"], Image(Path("/r"), "raw", Path("/k"), Path("/i")), "tcg", 2048, 2222)
    assert "user,id=net0,restrict=on,hostfwd=tcp:127.0.0.1:2222-:22" in words
    assert sum(word.startswith("pcie-root-port,") for word in words) >= 12
    assert not [word for word in words if "/dev/" in word and "root=/dev/vda" not in word]


def test_one_processor_whose_locked_instructions_are_locked() -> None:
    words = " ".join(qemu.acceleration("tcg"))
    assert "thread=multi" in words and "-smp 1,maxcpus=2" in words
    assert "nr_cpus=1" in qemu.KERNEL_LINE.split()


@pytest.mark.parametrize(
    ("asked", "cpuinfo", "device", "expected"),
    [
        ("auto", "flags\t: fpu vmx", True, ["kvm", "tcg"]),
        ("auto", "flags\t: fpu svm", True, ["kvm", "tcg"]),
        ("auto", "flags\t: fpu vmx", False, ["tcg"]),
        ("auto", "flags\t: fpu hypervisor", True, ["tcg"]),
        ("auto", "model name : vmx", True, ["tcg"]),
        ("kvm", "", False, ["kvm"]),
    ],
)
def test_acceleration(asked: str, cpuinfo: str, device: bool, expected: list[str]) -> None:
    assert accelerations(asked, cpuinfo, device) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["/usr/bin/qemu-system-x86_64", "-pidfile", "/cache/run/qemu.pid"], True),
        (["/usr/bin/qemu-system-x86_64", "-pidfile", "/other/run/qemu.pid"], False),
        (["vim", "/cache/run/qemu.pid"], False),
        ([""], False),
    ],
)
def test_only_the_own_machine_is_ever_killed(words: list[str], expected: bool) -> None:
    assert is_ours(b"\0".join(word.encode() for word in words), Paths(Path("/cache"))) is expected


_STATS = {"rd_operations": 1, "rd_bytes": 2, "wr_operations": 3, "wr_bytes": 4, "flush_operations": 5}
_FILE = {"node-name": "file-a", "driver-specific": {"discard-nb-ok": 6, "discard-nb-failed": 1, "discard-bytes-ok": 4096}}


@pytest.mark.parametrize(("bus", "qdev", "flushes"), [("scsi", "a", 5), ("nvme", "/machine/peripheral/a", None)])
def test_counters_of_plain_disks(bus: str, qdev: str, flushes: int | None) -> None:
    found = counters.plain(disk("a", bus), [{"qdev": "b", "stats": {}}, {"qdev": qdev, "stats": _STATS}], [_FILE])
    assert found == {
        "host_reads": 1, "host_read_bytes": 2, "host_writes": 3, "host_write_bytes": 4,
        "flushes": flushes, "discards": 7, "discard_bytes": 4096,
    }  # fmt: skip


def test_counters_since_a_reset() -> None:
    assert counters.since({"host_writes": 9, "flushes": None}, {"host_writes": 4, "flushes": None}) == {"host_writes": 5, "flushes": None}
    assert counters.since({"host_writes": 9}, {}) == {"host_writes": 9}


def test_how_the_guest_shows_disks() -> None:
    pair = [parse({"name": name, "bus": "nvme", "size": "1GiB", "serial": "S", "controller": "c0"}) for name in ("first", "second")]
    found = match([*pair, disk("x", "scsi")], "disk nvme0n2 S\ndisk nvme0n1 S\ndisk sda SERx\nlink sda wwn-0x5\nlink sda1 wwn-0x5-part1\n")
    assert {name: entry["device"] for name, entry in found.items()} == {"first": "/dev/nvme0n1", "second": "/dev/nvme0n2", "x": "/dev/sda"}
    assert found["x"]["by_id"] == ["wwn-0x5"]
