# SPDX-License-Identifier: GPL-3.0-or-later
"""The striped pair as the system's own tools see it."""

from proofs import MIB, StripedLegs, StripedVolume, reading
from reading import Reading

__all__ = ["reading"]


class TestLegs(StripedLegs):
    stack = "pgdata"
    sizes = {"PLUMBNVME1": 2048 * MIB, "PLUMBNVME2": 2048 * MIB}
    reserves = dict.fromkeys(sizes, 214748365)
    lengths = dict.fromkeys(sizes, 1842 * MIB)
    extents = 460


class TestData(StripedVolume):
    vg = "pgdata"
    lv = "data"
    size = 3680 * MIB
    stripe = 64 * 1024
    starts = {"PLUMBNVME1": 2 * MIB, "PLUMBNVME2": 2 * MIB}
    label = "pgdata-data"
    mount = "/srv/nvme/data"
    stride = 16
    width = 32
    options = ("noatime", "nodiratime", "errors=remount-ro")
    shown = ("noatime", "nodiratime", "errors=remount-ro")
    owner = "plumbdb:plumbdb"
    mode = "700"

    def test_one_inode_for_64_kib(self, reading: Reading) -> None:
        inodes = int(reading.superblock("/dev/pgdata/data")["Inode count"])
        assert abs(inodes * 64 * 1024 - self.size) < self.size // 50


def test_the_service_does_not_start_without_its_volume(reading: Reading) -> None:
    assert reading.shell("systemctl show --property RequiresMountsFor --value plumbdb.service") == "/srv/nvme/data"
    needed = reading.shell("systemctl show --property Requires --value plumbdb.service").split()
    assert "srv-nvme-data.mount" in needed


def test_what_is_free_is_discarded_once_a_week(reading: Reading) -> None:
    assert reading.shell("systemctl is-enabled fstrim.timer") == "enabled"
    assert reading.shell("systemctl is-active fstrim.timer") == "active"
