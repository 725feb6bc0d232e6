# SPDX-License-Identifier: GPL-3.0-or-later
"""The links on the way to a disk, read from trees in the shape of the kernel's."""

from __future__ import annotations

import itertools
import os
import struct

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_link
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SAS, SATA, Link, LinkEnd

PORT, NVME = "pci0000:00/0000:00:1d.0", "0000:01:00.0"
ATA = "pci0000:00/0000:00:17.0/ata1"
HBA = "pci0000:00/0000:00:02.0/0000:02:00.0/host0"


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text if isinstance(text, bytes) else text.encode() + b"\n")


def function(path, current="8.0 GT/s PCIe", width="4", most=None, lanes=None):
    """The files of a PCIe function."""
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    return {"%s/%s" % (path, name): text for name, text in zip(names, (current, width, most or current, lanes or width))}


def read(root, way, *speed):
    (root / way).mkdir(parents=True, exist_ok=True)
    return read_link.read_bus_links(str(root / way), *speed)


def ends(links):
    return [(one.host.name, one.drive.name) for one in links]


def pcie(host, drive, speed, width):
    return Link(PCIE, LinkEnd(*host), LinkEnd(*drive), speed, width)


# --- PCIe -------------------------------------------------------------------------------------------


def test_a_drive_behind_a_root_port(tmp_path):
    way = "%s/%s" % (PORT, NVME)
    write(tmp_path, {**function(PORT, "8.0 GT/s PCIe", "2", "16.0 GT/s PCIe", "16"), **function(way, "8.0 GT/s PCIe", "2", "8.0 GT/s PCIe", "4")})
    (found,) = read(tmp_path, way + "/nvme/nvme0")
    assert found == pcie(("0000:00:1d.0", 16000, 16), (NVME, 8000, 4), 8000, 2)
    assert (found.target_speed, found.target_width, found.below) == (8000, 4, True)


def test_qemu_nvme_has_the_speed_of_its_own_and_no_finding(tmp_path):
    """The root port of QEMU can do 16 GT/s x32, its NVMe 2.5 GT/s x1: who looks at the port alone takes it for slow."""
    way = "%s/%s" % (PORT, NVME)
    write(tmp_path, {**function(PORT, "2.5 GT/s PCIe", "1", "16.0 GT/s PCIe", "32"), **function(way, "2.5 GT/s PCIe", "1")})
    (found,) = read(tmp_path, way + "/nvme/nvme0")
    assert (found.target_speed, found.target_width, found.below) == (2500, 1, False)


def test_a_switch_has_no_link_between_its_own_functions(tmp_path):
    up, down = PORT + "/0000:01:00.0", PORT + "/0000:01:00.0/0000:02:04.0"
    way = down + "/0000:03:00.0"
    write(tmp_path, {**function(PORT, width="16"), **function(up, width="16"), **function(down), **function(way)})
    found = read(tmp_path, way + "/nvme/nvme0")
    assert ends(found) == [("0000:00:1d.0", "0000:01:00.0"), ("0000:02:04.0", "0000:03:00.0")]
    assert [one.width for one in found] == [16, 4]


def test_a_root_of_its_own_behind_a_controller(tmp_path):
    """Intel VMD: the controller is part of the root complex, and its domain has five digits."""
    port = "pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0"
    write(tmp_path, {**function("pci0000:00/0000:00:0e.0", "Unknown", "0"), **function(port), **function(port + "/10000:01:00.0")})
    assert ends(read(tmp_path, port + "/10000:01:00.0/nvme/nvme0")) == [("10000:00:02.0", "10000:01:00.0")]


@pytest.mark.parametrize("files, known", [
    ({}, False),
    (function("pci0000:00/0000:00:05.0", "Unknown", "0"), False),
    (function("pci0000:00/0000:00:05.0", "5.0 GT/s PCIe", "4", "8.0 GT/s PCIe", "4"), True),
])  # fmt: skip
def test_a_function_without_a_port(tmp_path, files, known):
    """A virtual machine that was given a drive sees its real link, and not what it is plugged into."""
    write(tmp_path, files)
    found = read(tmp_path, "pci0000:00/0000:00:05.0/nvme/nvme0")
    assert found == ((pcie(("",), ("0000:00:05.0", 8000, 4), 5000, 4),) if known else ())
    assert [one.below for one in found] == [True] * known


@pytest.mark.parametrize("current, width, below", [
    ("Unknown", "4", None), ("8.0 GT/s PCIe", "0", None), ("2.5 GT/s PCIe", "0", True), ("\udcff", "255", None), ("", "", None), ("8.0 GT/s PCIe", "4", False),
])  # fmt: skip
def test_hostile_files(tmp_path, current, width, below):
    way = "%s/%s" % (PORT, NVME)
    speeds = function(PORT, "Unknown", "0", "8.0 GT/s PCIe", "4")
    write(tmp_path, {**speeds, **function(way, current.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), width, "8.0 GT/s PCIe", "4")})
    (found,) = read(tmp_path, way + "/nvme/nvme0")
    assert found.below is below


# --- SATA -------------------------------------------------------------------------------------------


def sata(current, limit="<unknown>", hardware="<unknown>", word76=0x0E, caps="", name="link1", device="dev1.0"):
    """The files of a SATA link; without a limit libata shows <unknown>."""
    words = ["0000"] * 256
    words[76] = "%04x" % word76
    files = {"sata_spd": current, "sata_spd_limit": limit, "hw_sata_spd_limit": hardware}
    found = {"%s/%s/ata_link/%s/%s" % (ATA, name, name, word): text for word, text in files.items()}
    found["%s/%s/%s/ata_device/%s/id" % (ATA, name, device, device)] = " ".join(words)
    return {**found, **({ATA + "/host0/scsi_host/host0/ahci_host_caps": caps} if caps else {})}


@pytest.mark.parametrize("files, host, drive, speed, below, limited", [
    (sata("6.0 Gbps", caps="e730ff45"), 6000, 6000, 6000, False, False),
    (sata("3.0 Gbps", caps="e730ff45"), 6000, 6000, 3000, True, False),
    (sata("3.0 Gbps", caps="e720ff45"), 3000, 6000, 3000, False, False),
    (sata("3.0 Gbps", hardware="3.0 Gbps", limit="3.0 Gbps", caps="e730ff45"), 3000, 6000, 3000, False, False),  # BIOS, or libata.force
    (sata("3.0 Gbps"), None, 6000, 3000, True, False),
    (sata("6.0 Gbps"), None, 6000, 6000, False, False),
    (sata("1.5 Gbps", limit="1.5 Gbps", caps="e730ff45"), 6000, 6000, 1500, True, True),  # slowed after errors
    (sata("3.0 Gbps", limit="3.0 Gbps", hardware="6.0 Gbps"), 6000, 6000, 3000, True, True),
    (sata("1.5 Gbps", limit="1.5 Gbps", word76=0), None, None, 1500, True, True),  # the limit itself tells
    (sata("1.5 Gbps", limit="3.0 Gbps", hardware="6.0 Gbps"), 6000, 6000, 1500, True, False),
    (sata("3.0 Gbps", word76=0, caps="e730ff45"), 6000, None, 3000, None, False),  # the drive does not say: no guess
    (sata("1.5 Gbps", word76=0x100, caps="40141f05"), 1500, None, 1500, None, False),  # QEMU's AHCI and ide-hd
    (sata("<unknown>", caps="e730ff45"), 6000, 6000, None, None, False),
    (sata("garbage \x1b[2J", limit="6", hardware="", caps="-1"), None, 6000, None, None, False),
])  # fmt: skip
def test_a_sata_drive(tmp_path, files, host, drive, speed, below, limited):
    write(tmp_path, files)
    (found,) = read(tmp_path, ATA + "/host0/target0:0:0/0:0:0:0")
    assert found._replace(limit=None) == Link(SATA, LinkEnd("ata1", host), LinkEnd("", drive), speed, 1)
    assert (found.below, found.limited) == (below, limited)


@pytest.mark.parametrize("text, trim", [("queued", "queued"), ("forced_unqueued", "forced_unqueued"), ("unsupported", "unsupported"), ("x<y>", ""), ("", "")])
def test_how_a_sata_drive_is_trimmed(tmp_path, text, trim):
    write(tmp_path, {**sata("6.0 Gbps"), ATA + "/link1/dev1.0/ata_device/dev1.0/trim": text})
    assert [one.trim for one in read(tmp_path, ATA + "/host0/target0:0:0/0:0:0:0")] == [trim]


def test_a_port_multiplier_has_a_link_of_its_own_for_each_port(tmp_path):
    write(tmp_path, sata("3.0 Gbps", word76=0))
    for port, speed in ((2, "1.5 Gbps"), (3, "6.0 Gbps")):
        write(tmp_path, sata(speed, name="link1.%d" % port, device="dev1.%d.0" % port))
    found = read(tmp_path, ATA + "/host0/target0:2:0/0:2:0:0")
    assert [(one.host.name, one.speed, one.drive.speed, one.below) for one in found] == [("ata1", 3000, None, None), ("link1.2", 1500, 6000, True)]


def test_a_port_without_files(tmp_path):
    assert read(tmp_path, ATA + "/host0/target0:0:0/0:0:0:0") == ()


# --- SAS --------------------------------------------------------------------------------------------


def phys(root, at, count, first=0, negotiated="12.0 Gbit", most="12.0 Gbit", hardware="12.0 Gbit", port=""):
    """Phys of a controller or an expander, and their links in the folder of a port."""
    rates = itertools.cycle([negotiated] if isinstance(negotiated, str) else negotiated)
    for number in range(first, first + count):
        name = "phy-0:%d" % number
        where = "%s/%s/sas_phy/%s" % (at, name, name)
        files = {"negotiated_linkrate": next(rates), "maximum_linkrate": most, "maximum_linkrate_hw": hardware}
        write(root, {"%s/%s" % (where, key): text for key, text in files.items()})
        if port:
            (root / at / port).mkdir(parents=True, exist_ok=True)
            (root / at / port / name).symlink_to(root / at / name)


DIRECT = HBA + "/port-0:0/end_device-0:0/target0:0:0/0:0:0:0"


@pytest.mark.parametrize("rates, speed, host, drive, below, limited", [
    ({}, 12000, 12000, 12000, False, False),
    ({"negotiated": "6.0 Gbit"}, 6000, 12000, 12000, True, False),
    ({"negotiated": "6.0 Gbit"}, 6000, 12000, 6000, False, False),
    ({"negotiated": "6.0 Gbit"}, 6000, 12000, None, None, False),  # a drive of 6.0, or a bad link: nobody says
    ({"negotiated": "6.0 Gbit", "most": "6.0 Gbit"}, 6000, 12000, 12000, True, True),
    ({"negotiated": "3.0 Gbit", "most": "3.0 Gbit", "hardware": "3.0 Gbit"}, 3000, 3000, None, None, False),  # SAS 6/iR, QEMU's mptsas1068
    ({"negotiated": "3.0 Gbit", "most": "3.0 Gbit", "hardware": "3.0 Gbit"}, 3000, 3000, 6000, False, False),
    ({"negotiated": "1.5 Gbit", "most": "3.0 Gbit", "hardware": "Unknown"}, 1500, None, 6000, True, False),
    ({"negotiated": "3.0 Gbit", "most": "3.0 Gbit", "hardware": "Unknown"}, 3000, None, None, None, False),
    ({"negotiated": "Unknown"}, None, 12000, 12000, None, False),
    ({"negotiated": "Phy disabled", "most": "", "hardware": "Unknown"}, None, None, 12000, None, False),
])  # fmt: skip
def test_a_sas_drive(tmp_path, rates, speed, host, drive, below, limited):
    phys(tmp_path, HBA, 1, port="port-0:0", **rates)
    (found,) = read(tmp_path, DIRECT, drive)
    assert found._replace(limit=None) == Link(SAS, LinkEnd("phy-0:0", host), LinkEnd("end_device-0:0", drive), speed, 1)
    assert (found.below, found.limited) == (below, limited)


def test_a_sata_drive_behind_a_sas_controller(tmp_path):
    """Its own maximum is in VPD page 89h: case 4's drive at 1.5 behind a controller of 3.0."""
    words = [0] * 256
    words[76] = 0x0E
    phys(tmp_path, HBA, 1, port="port-0:0", negotiated="1.5 Gbit", most="3.0 Gbit", hardware="3.0 Gbit")
    write(tmp_path, {DIRECT + "/vpd_pg89": b"\x00\x89\x02\x38" + bytes(56) + struct.pack("<256H", *words)})
    (found,) = read(tmp_path, DIRECT)
    assert (found.speed, found.target_speed, found.below) == (1500, 3000, True)


@pytest.mark.parametrize("negotiated, speed, below", [
    ("12.0 Gbit", 12000, False), ("6.0 Gbit", 6000, True), (("12.0 Gbit", "6.0 Gbit"), 6000, True), (("12.0 Gbit", "Unknown"), None, None),
])  # fmt: skip
def test_a_wide_port_to_an_expander(tmp_path, negotiated, speed, below):
    """Of a wide port the slowest phy counts; the link behind the expander is one of its own."""
    phys(tmp_path, HBA, 4, port="port-0:0", negotiated=negotiated)
    expander = HBA + "/port-0:0/expander-0:0"
    phys(tmp_path, expander, 2, first=8, hardware="12.0 Gbit")
    phys(tmp_path, expander, 1, first=30, negotiated="6.0 Gbit", port="port-0:0:3")
    found = read(tmp_path, expander + "/port-0:0:3/end_device-0:0:3/target0:0:3/0:0:3:0", 6000)
    assert ends(found) == [("phy-0:0, phy-0:1, phy-0:2, phy-0:3", "expander-0:0"), ("phy-0:30", "end_device-0:0:3")]
    assert (found[0].width, found[0].speed, found[0].drive.speed, found[0].below) == (4, speed, 12000, below)
    assert (found[1].width, found[1].speed, found[1].target_speed, found[1].below) == (1, 6000, 6000, False)


def test_the_controller_of_a_sas_drive_has_a_link_too(tmp_path):
    port, controller = HBA.rsplit("/", 2)[0], HBA.rsplit("/", 1)[0]
    write(tmp_path, {**function(port, width="4", lanes="16"), **function(controller, width="4", lanes="8")})
    phys(tmp_path, HBA, 1, port="port-0:0")
    assert [(one.kind, one.below) for one in read(tmp_path, DIRECT, 12000)] == [(PCIE, True), (SAS, False)]


# --- in time ----------------------------------------------------------------------------------------


def readings(monkeypatch, *speeds):
    """A tree of one SATA link that has another speed at each reading; the last one stays."""
    left = list(speeds)
    monkeypatch.setattr(read_link, "_pcie", lambda home: [])
    monkeypatch.setattr(read_link, "_sas", lambda home, speed: [])
    able = LinkEnd("ata1", 6000), LinkEnd("", 6000)
    monkeypatch.setattr(read_link, "_sata", lambda home: [Link(SATA, *able, left.pop(0) if len(left) > 1 else left[0], 1)])


@pytest.mark.parametrize("speeds, found", [
    ((6000,), 6000), ((None, 6000, 6000), 6000), ((1500, 6000, 6000), 6000), ((1500, 3000, 6000), None), ((6000, 3000, 6000, 3000), None),
])  # fmt: skip
def test_a_link_that_is_negotiated_anew_meanwhile(monkeypatch, speeds, found):
    readings(monkeypatch, *speeds)
    (one,) = read_link.read_bus_links("/sys/devices/x")
    assert one.speed == found and one.below is (False if found else None)


@pytest.mark.parametrize("speeds, seconds, below", [((3000,) * 6 + (6000,), 60, False), ((3000,), 0.05, True)])
def test_a_link_that_rests_comes_up_under_load(monkeypatch, speeds, seconds, below):
    """It is read until it is up, and no longer; or until its time is over."""
    opened = []
    monkeypatch.setattr(read_link, "open_read", lambda path: opened.append(path) or os.open("/dev/null", os.O_RDONLY))
    monkeypatch.setattr(read_link, "read_at", lambda fd, at, length: b"")
    monkeypatch.setattr(read_link, "_LOAD_SECONDS", seconds)
    readings(monkeypatch, *speeds)
    (found,) = read_link.read_bus_links_under_load("/dev/sdx", "/sys/devices/x")
    assert (found.below, opened) == (below, ["/dev/sdx"])


def test_a_disk_that_cannot_be_read_is_no_failure(monkeypatch):
    monkeypatch.setattr(read_link, "_LOAD_SECONDS", 0.02)
    readings(monkeypatch, 3000)
    (found,) = read_link.read_bus_links_under_load("/dev/there-is-no-such-disk", "/sys/devices/x")
    assert found.below is True
