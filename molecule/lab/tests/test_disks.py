# SPDX-License-Identifier: GPL-3.0-or-later
"""Sizes and disk declarations."""

from __future__ import annotations

import json
from typing import Any

import pytest
from plumblab import disks
from plumblab.errors import LabError
from plumblab.sizes import to_bytes

GOOD: dict[str, Any] = {"name": "ssd0", "bus": "nvme", "size": "2GiB", "serial": "PLUMB0001"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0), (512, 512), ("512", 512), ("512B", 512), ("4KiB", 4096), ("3 MiB", 3 * 1024**2), ("2GiB", 2 * 1024**3), ("1TiB", 1024**4)],
)
def test_size(value: object, expected: int) -> None:
    assert to_bytes(value) == expected


@pytest.mark.parametrize("value", ["2GB", "2G", "1.5GiB", "-1", -1, "", None, True, "GiB"])
def test_size_refused(value: object) -> None:
    with pytest.raises(LabError, match="is not a size"):
        to_bytes(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "SSD 0"}, "disk name"),
        ({"bus": "ide"}, "bus 'ide' is not one of nvme, sata, scsi"),
        ({"serial": "x" * 21}, "1 to 20 letters and digits"),
        ({"serial": "a b"}, "1 to 20 letters and digits"),
        ({"bus": "scsi", "serial": "$(id)"}, "1 to 20 letters and digits"),
        ({"serail": "X"}, "unknown key 'serail'; did you mean 'serial'"),
        ({"size": "1KiB"}, "at least 1 MiB"),
        ({"physical_block_size": 4096}, "QEMU has no physical_block_size for nvme disks; use scsi"),
        ({"model": "X"}, "QEMU has no model for nvme disks"),
        ({"bus": "scsi", "eui64": "0123456789abcdef"}, "QEMU has no eui64 for scsi disks; use nvme"),
        ({"eui64": "12"}, "16 hex digits"),
        ({"write_cache": "maybe"}, "neither on nor off"),
        ({"simulated": True}, "a mapping of the simulated SSD's parameters"),
        ({"bus": "scsi", "model": "a product name that is too long"}, "at most 16 characters"),
    ],
)
def test_declaration_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(LabError, match=message):
        disks.parse({**GOOD, **change})


@pytest.mark.parametrize(
    "entry",
    [
        GOOD,
        {**GOOD, "logical_block_size": 4096, "write_cache": "off", "simulated": {"page_size": 16384}},
        {**GOOD, "bus": "scsi", "model": "PLUMB", "physical_block_size": 4096, "min_io_size": "8KiB", "opt_io_size": 33553920},
        {**GOOD, "controller": "ctrl0", "eui64": "0123456789ABCDEF"},
    ],
)
def test_declaration_survives_the_state_file(entry: dict[str, Any]) -> None:
    disk = disks.parse(entry)
    assert disks.parse(json.loads(json.dumps(disk.to_json()))) == disk


@pytest.mark.parametrize(
    ("change", "expected"),
    [({}, False), ({"bus": "scsi"}, False), ({"bus": "sata"}, True), ({"controller": "c0"}, True), ({"eui64": "0" * 15 + "1"}, True)],
)
def test_what_has_to_be_there_at_boot(change: dict[str, Any], expected: bool) -> None:
    assert disks.parse({**GOOD, **change}).boot_only is expected


def test_names_and_serials_are_unique() -> None:
    with pytest.raises(LabError, match="the disk name ssd0 is taken"):
        disks.parse_all(json.dumps([GOOD, GOOD]))
    with pytest.raises(LabError, match="serial PLUMB0001 is taken"):
        disks.parse_all(json.dumps([GOOD, {**GOOD, "name": "ssd1"}]))
    two = disks.parse_all(json.dumps([{**GOOD, "controller": "c0"}, {**GOOD, "name": "ssd1", "controller": "c0"}]))
    assert [disk.name for disk in two] == ["ssd0", "ssd1"]


@pytest.mark.parametrize(("text", "message"), [("{", "not JSON"), ("{}", "a JSON list"), ('["x"]', "a disk is a mapping")])
def test_bad_input(text: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        disks.parse_all(text)
