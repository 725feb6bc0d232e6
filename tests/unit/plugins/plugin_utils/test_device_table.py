# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a host as they are returned."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.plugin_utils.device_table import device_result
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import Host


def test_names_to_be_pasted():
    """What may be taken comes with the name that stays; what may not is a comment with the reason."""
    host = Host()
    host.disk(serial="FREE")
    host.seen.links["wwn-0x5"] = "259:0"
    host.mount(host.disk(serial="USED"), "/srv")
    bare = host.disk(serial="NAMELESS")
    host.seen.links = {link: devno for link, devno in host.seen.links.items() if devno != bare}
    assert device_result(host.seen)["names"] == [
        "- nvme-Flash_9000_FREE  # nvme0n1, 100 GiB: nothing was found on it",
        "# - nvme-Flash_9000_USED  # nvme1n1, 100 GiB: nvme1n1 is mounted on /srv",
        "- /dev/nvme2n1  # nvme2n1, 100 GiB: nothing was found on it",
    ]
