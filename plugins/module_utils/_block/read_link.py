# SPDX-License-Identifier: GPL-3.0-or-later
"""The links on the way from a host to a disk, read from sysfs along the disk's parents. I/O; nothing is written.

The folders of a way are named by the kernel: ``pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0``, ``…/ata1/host0/target0:0:0/0:0:0:0``,
``…/host0/port-0:0/expander-0:0/port-0:0:3/end_device-0:0:3/target0:0:3/0:0:3:0``.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import threading
import time
from typing import Iterator, List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.block_device import open_read, read_at
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SAS, SATA, Link, LinkEnd
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link_attributes import (
    parse_ahci_speed,
    parse_ata_information,
    parse_identify_words,
    parse_speed,
    parse_width,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import read_bytes, read_text

_PCI_ROOT = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}")
_PCI_FUNCTION = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_ATA_PORT = re.compile(r"ata[0-9]+")
_TRIM_MODES = ("unsupported", "unqueued", "queued", "forced_unqueued")
_SAS_PORT = re.compile(r"port-[0-9]+(?::[0-9]+)+")

_READINGS = 3  # how often a link is read, at most, until two readings agree
_LOAD_SECONDS = 0.25  # how long a resting link may take to come up
_LOAD_BYTES = 1 << 20  # of one read


def read_bus_links(home: str, phy_speed: Optional[int] = None) -> Tuple[Link, ...]:
    """The links on the way to the device at *home*, a real path below /sys, from the host on. Those of which nothing is known are left out.

    *phy_speed*: the most that a SAS drive's own phys can do. A link that is negotiated anew meanwhile has no speed and no width.
    """
    before: Sequence[Link] = ()
    for _reading in range(_READINGS):
        links = _pcie(home) + _sas(home, phy_speed) + _sata(home)
        if links == before:
            break
        before = links
    else:
        links = [link._replace(speed=None, width=None) for link in links]
    return tuple(link for link in links if link.speed or link.host.speed or link.drive.speed)


def read_bus_links_under_load(path: str, home: str, phy_speed: Optional[int] = None) -> Tuple[Link, ...]:
    """read_bus_links() while the disk at *path* is read, as an idle PCIe link may run slower. It ends when no link is below its target, or after a while."""
    deadline = time.monotonic() + _LOAD_SECONDS
    with _reading_of(path):
        while True:
            links = read_bus_links(home, phy_speed)
            if time.monotonic() > deadline or not any(link.below for link in links):
                return links
            time.sleep(0.01)


@contextlib.contextmanager
def _reading_of(path: str) -> Iterator[None]:
    """Direct reads of the first bytes of a disk, over and over. A disk that cannot be read is no failure here."""
    done = threading.Event()

    def read() -> None:
        with contextlib.suppress(OSError):
            fd = open_read(path)
            try:
                while not done.is_set():
                    read_at(fd, 0, _LOAD_BYTES)
            finally:
                os.close(fd)

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield
    finally:
        done.set()
        reader.join(timeout=1)


def _ancestors(home: str, pattern: "re.Pattern[str]") -> List[str]:
    """The folders on the way whose name fits, from the host on."""
    parts = home.split("/")
    return ["/".join(parts[: at + 1]) for at, part in enumerate(parts) if pattern.fullmatch(part)]


def _pcie(home: str) -> List[Link]:
    """The PCIe links. Below a root port a switch has two functions, between which there is no link: every second step is one.

    A function without a port above it is part of the root complex, or was given to a virtual machine: its other end is not known.
    """
    links: List[Link] = []
    functions = _ancestors(home, _PCI_FUNCTION)
    for root in reversed(_ancestors(home, _PCI_ROOT)):  # a controller can be the root of its own (VMD)
        chain = [path for path in functions if path.startswith(root + "/")]
        functions = functions[: len(functions) - len(chain)]
        links[:0] = [_pcie_link(chain[at : at + 2]) for at in range(0, len(chain), 2)]
    return links


def _pcie_link(ends: Sequence[str]) -> Link:
    """The files of a function are its own (Documentation/ABI/testing/sysfs-bus-pci): both ends show what was negotiated, each what it can do."""

    def end(path: str) -> LinkEnd:
        return LinkEnd(os.path.basename(path), parse_speed(read_text(path + "/max_link_speed")), parse_width(read_text(path + "/max_link_width")))

    speeds = [parse_speed(read_text(path + "/current_link_speed")) for path in reversed(ends)]
    widths = [parse_width(read_text(path + "/current_link_width")) for path in reversed(ends)]
    host = end(ends[0]) if len(ends) > 1 else LinkEnd("")
    return Link(PCIE, host, end(ends[-1]), next(filter(None, speeds), None), next(filter(None, widths), None))


def _sas(home: str, phy_speed: Optional[int]) -> List[Link]:
    """The SAS links: of each port on the way all phys, of which the slowest counts (Documentation/ABI, scsi_transport_sas.c)."""
    links = []
    for port in _ancestors(home, _SAS_PORT):
        phys = sorted(glob.glob(glob.escape(port) + "/phy-*/sas_phy/*"))
        below = home[: home.find("/", len(port) + 1)]
        speed = phy_speed or parse_ata_information(read_bytes(home + "/vpd_pg89"))
        if os.path.basename(below).startswith("expander-"):
            speed = max(filter(None, _rates(glob.glob(glob.escape(below) + "/phy-*/sas_phy/*"), "maximum_linkrate_hw")), default=None)
        negotiated, limit, able = (_slowest(_rates(phys, name)) for name in ("negotiated_linkrate", "maximum_linkrate", "maximum_linkrate_hw"))
        name = ", ".join(os.path.basename(phy) for phy in phys)
        links.append(Link(SAS, LinkEnd(name, able), LinkEnd(os.path.basename(below), speed), negotiated, len(phys) or None, limit if able else None))
    return links


def _rates(phys: Sequence[str], name: str) -> List[Optional[int]]:
    return [parse_speed(read_text("%s/%s" % (phy, name))) for phy in phys]


def _slowest(speeds: Sequence[Optional[int]]) -> Optional[int]:
    """The least; None where one of them is not known."""
    known = [speed for speed in speeds if speed]
    return min(known) if known and len(known) == len(speeds) else None


def _sata(home: str) -> List[Link]:
    """The SATA link of a port, and behind a port multiplier that of its port (Documentation/ABI/testing/sysfs-ata: linkX, linkX.Y)."""
    links = []
    for port in _ancestors(home, _ATA_PORT):
        name = "link" + os.path.basename(port)[len("ata") :]
        channel = os.path.basename(home).split(":")[1:2] or [""]
        host = parse_ahci_speed(next(map(read_text, glob.glob(glob.escape(port) + "/host*/scsi_host/host*/ahci_host_caps")), ""))
        for link in (name, "%s.%s" % (name, channel[0])):
            files = "%s/%s/ata_link/%s/" % (port, link, link)
            if not os.path.isdir(files):
                continue
            devices = sorted(glob.glob("%s/%s/dev*/ata_device/dev*" % (glob.escape(port), link)))
            drive = next(filter(None, (parse_identify_words(read_text(path + "/id")) for path in devices)), None)
            trim = next((word for word in (read_text(path + "/trim") for path in devices) if word in _TRIM_MODES), "")
            hardware, limit, negotiated = (parse_speed(read_text(files + word)) for word in ("hw_sata_spd_limit", "sata_spd_limit", "sata_spd"))
            able = min(filter(None, (hardware, host)), default=None)
            links.append(Link(SATA, LinkEnd(os.path.basename(port) if link == name else link, able), LinkEnd("", drive), negotiated, 1, limit, trim))
            host = None
    return links
