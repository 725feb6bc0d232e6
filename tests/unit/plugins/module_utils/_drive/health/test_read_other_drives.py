# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that are left out: which ones an entry fits, that they are not asked, and that nothing else of them is told."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import read_other_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.left_out import read_left_out
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans


def node(number, name, serial, model="MODEL A", transport="sata"):
    return Node("8:%d" % number, name, "disk", 1 << 30, Limits(512, 512), identity=Identity("", serial, model, transport=transport))


NODES = [node(0, "sda", "S1"), node(1, "sdb", "S2", "Virtual disk"), node(2, "nvme0n1", "N1", transport="nvme"), node(3, "nvme0n2", "N1", transport="nvme")]
LINKS = {"/dev/disk/by-id": {"ata-A_S1": "sda", "wwn-0x1": "sda"}, "/dev/disk/by-path": {"pci-0-ata-2": "sdb"}}
BEHIND = (Source("/dev/bus/0", member="megaraid,8"), Health(serial="R8", model="RAIDED", passed=False, wwn="naa.8", counters={"media_errors": 9}))


@pytest.fixture
def read(monkeypatch):
    monkeypatch.setattr(read_sysfs, "read_links", lambda base: LINKS[base])
    monkeypatch.setattr(ask_drive, "controllers", lambda one: ["/dev/nvme0"])
    asked = []

    def read_drives(_means, nodes, _members, _everything):
        asked.extend(one.name for one in nodes)
        return [*((Source(one.path, (one.name,)), Health(serial=one.identity.serial, model=one.identity.model)) for one in nodes), BEHIND]

    monkeypatch.setattr(read_other_drives, "read_drives", read_drives)

    def run(**entry):
        drives, unfit = read_other_drives.read_other_drives(DriveMeans(lambda tool: "", 5), NODES, [], True, read_left_out([{**entry, "reason": " as  said "}]))
        out = [(source, health) for source, health in drives if health.left_out]
        assert all(health.left_out == "as said" and not health.read for _source, health in out)
        return asked, out, unfit, drives

    return run


@pytest.mark.parametrize(
    ("entry", "names"),
    [
        ({"serial": "S1"}, ["sda"]),
        ({"device": "ata-A_S1"}, ["sda"]),
        ({"device": "/dev/disk/by-id/wwn-0x1"}, ["sda"]),
        ({"device": "/dev/disk/by-path/pci-0-ata-2"}, ["sdb"]),
        ({"model": "Virtual*"}, ["sdb"]),
        ({"model": "*"}, ["sda", "sdb", "nvme0n1", "nvme0n2"]),
        ({"serial": "N1"}, ["nvme0n1", "nvme0n2"]),  # one drive
        ({"serial": "S"}, []),
        ({"model": "virtual*"}, []),
        ({"device": "ata-A_S"}, []),
    ],
)
def test_which_drives_it_fits_and_that_they_are_not_asked(read, entry, names):
    asked, out, unfit, _drives = read(**entry)
    assert [name for source, _health in out for name in source.names if not source.member] == names
    assert asked == [one.name for one in NODES if one.name not in names] and bool(unfit) is not bool(names)


def test_a_drive_behind_a_controller_is_left_out_of_what_is_told(read):
    _asked, ((source, health),), unfit, drives = read(serial="R8")
    assert (source.member, health.key, health.passed, dict(health.counters), unfit) == ("megaraid,8", "wwn:naa.8", None, {}, []) and len(drives) == 5


def test_what_is_left_out_is_one_drive_with_its_identity(read):
    _asked, ((source, health),), _unfit, _drives = read(serial="N1")
    assert (source.device, source.names, health.model, health.serial) == ("/dev/nvme0", ("nvme0n1", "nvme0n2"), "MODEL A", "N1")
