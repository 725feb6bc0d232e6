# SPDX-License-Identifier: GPL-3.0-or-later
"""RAID controllers and eMMC registers, read from sysfs. I/O; nothing is written."""

from __future__ import annotations

import glob
import os
from typing import Dict, List

from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_sysfs import read_text


def raid_controllers(driver: str) -> List[str]:
    """The SCSI generic nodes of the controllers of a driver: device type 12 (SPC-4 6.4.2) below a host with that name (scsi_host's proc_name)."""
    hosts = [path.split("/")[-2] for path in glob.glob("/sys/class/scsi_host/*/proc_name") if read_text(path) == driver]
    nodes = [path.split("/")[-1] for path in sorted(glob.glob("/sys/class/scsi_generic/*")) if read_text(path + "/device/type") == "12"]
    return ["/dev/" + name for name in nodes if any("/%s/" % host in os.path.realpath("/sys/class/scsi_generic/" + name) for host in hosts)]


def has_scsi_driver(driver: str) -> bool:
    """Whether a SCSI host of this driver is there."""
    return any(read_text(path) == driver for path in glob.glob("/sys/class/scsi_host/*/proc_name"))


def read_emmc(name: str) -> Dict[str, str]:
    """The registers of an eMMC that its disk shows (Linux Documentation/driver-api/mmc/mmc-dev-attrs.rst); a file that is not there is empty."""
    files = ("name", "serial", "cid", "fwrev", "life_time", "pre_eol_info")
    return {file: read_text("/sys/class/block/%s/device/%s" % (name, file)) for file in files}
