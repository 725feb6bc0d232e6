# SPDX-License-Identifier: GPL-3.0-or-later
"""Which links are read of a disk, and when it is read itself for that."""

from __future__ import annotations

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SAS, SATA, Link, LinkEnd
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host


@pytest.fixture
def read(monkeypatch):
    """Reads the links of a disk; a path has a PCIe link of this many lanes of four. Returns (lanes found, what was asked)."""

    def look(idle=4, busy=4, paths=("nvme0",), kind=PCIE, **identity):
        asked = []

        def links(home, speed, lanes):
            return (Link(kind, LinkEnd("port of " + home, 8000, 4), LinkEnd("end", 8000, 4), 8000, lanes),)

        host = Host()
        devno = host.disk(**identity)
        monkeypatch.setattr(read_disks.os.path, "realpath", lambda path: path)
        monkeypatch.setattr(read_disks.ask_drive, "controllers", lambda node: ["/dev/" + path for path in paths])
        monkeypatch.setattr(read_disks.ask_drive, "read_phy_speed", lambda node: asked.append("phys") or 12000)
        monkeypatch.setattr(read_disks.read_link, "read_bus_links", lambda home, speed: asked.append((home, speed)) or links(home, speed, idle))

        def loaded(path, home, speed):
            return asked.append(("load", path, home)) or links(home, speed, busy)

        monkeypatch.setattr(read_disks.read_link, "read_bus_links_under_load", loaded)
        found = read_disks.read_drive_links(host.seen.nodes[devno])
        return [one.width for one in found], asked

    return look


@pytest.mark.parametrize("identity, asked", [
    ({}, [("/sys/class/nvme/nvme0", None)]),
    ({"paths": ("nvme0", "nvme2")}, [("/sys/class/nvme/nvme0", None), ("/sys/class/nvme/nvme2", None)]),
    ({"paths": ()}, [("/sys/class/block/nvme0n1/device", None)]),
    ({"transport": "sata", "ata": True}, [("/sys/class/block/nvme0n1/device", None)]),
    ({"transport": "sas"}, ["phys", ("/sys/class/block/nvme0n1/device", 12000)]),
    ({"transport": "sas", "ata": True}, [("/sys/class/block/nvme0n1/device", None)]),
])  # fmt: skip
def test_who_is_asked(read, identity, asked):
    widths, found = read(**identity)
    assert (widths, found) == ([4] * len([one for one in asked if one != "phys"]), asked)


@pytest.mark.parametrize("busy", [4, 2])
def test_a_disk_is_read_where_its_link_may_rest(read, busy):
    widths, asked = read(idle=2, busy=busy)
    assert (widths, asked[1:]) == ([busy], [("load", "/dev/nvme0n1", "/sys/class/nvme/nvme0")])


@pytest.mark.parametrize("kind", [SATA, SAS])
def test_a_link_that_does_not_rest_costs_its_disk_no_reads(read, kind):
    """It stays as it was negotiated, however often the disk of a database is read for it."""
    widths, asked = read(idle=2, kind=kind)
    assert (widths, len(asked)) == ([2], 1)


@pytest.mark.parametrize("numbered", [False, True])
def test_every_device_of_a_filesystem_is_mounted(monkeypatch, numbered):
    """Once each, whether the kernel gives its mount the number of a device (as bcachefs may) or not."""
    host = Host()
    first, second, other = host.disk(), host.disk(), host.disk()
    names = {node.name: devno for devno, node in host.seen.nodes.items()}
    if numbered:
        host.mount(first, "/pool")
    text = "43 1 0:51 / /pool rw - bcachefs /dev/%s:/dev/%s rw" % tuple(host.seen.nodes[devno].name for devno in (first, second))
    monkeypatch.setattr(read_disks.read_sysfs, "read_text", lambda path: text)
    monkeypatch.setattr(read_disks.read_sysfs, "read_members", lambda names: [(first, second)])
    monkeypatch.setattr(read_disks, "devno_of_path", lambda path, names: names[path.rsplit("/", 1)[-1]])
    read_disks.read_mounts_of_several(host.seen, names, "self")
    assert sorted((mount.devno, mount.target) for mount in host.seen.mounts) == [(first, "/pool"), (second, "/pool")]
    assert not host.seen.mounted(other)
