# SPDX-License-Identifier: GPL-3.0-or-later
"""One filesystem per device, as the system's own tools see it."""

from proofs import MIB, CacheOff, SeparateLegs, SeparateVolume, reading
from reading import Reading

__all__ = ["reading"]


class TestLegs(SeparateLegs):
    stack = "files"
    sizes = {"PLUMBSEP1": 2048 * MIB, "PLUMBSEP2": 3072 * MIB}
    reserves = dict.fromkeys(sizes, 256 * MIB)
    lengths = {"PLUMBSEP1": 1791 * MIB, "PLUMBSEP2": 2815 * MIB}

    def test_the_disks_are_what_this_scenario_is_about(self, reading: Reading) -> None:
        for serial in self.sizes:
            queue = f"/sys/class/block/{reading.kernel_names[serial]}/queue"
            assert reading.shell(f"cat {queue}/logical_block_size {queue}/physical_block_size").split() == ["512", "4096"]


class TestCache(CacheOff):
    sizes = TestLegs.sizes
    # QEMU's disks have no saved page, which sdparm minds.
    ask = "(sdparm --quiet --get=WCE {0} || true) | awk '{{print $2}}'"


class TestData01(SeparateVolume):
    disk = "PLUMBSEP1"
    label = "files-data01"
    mount = "/srv/separate/data01"
    size = 1791 * MIB
    stride = 1
    width = 1


class TestData02(SeparateVolume):
    disk = "PLUMBSEP2"
    label = "files-data02"
    mount = "/srv/separate/data02"
    size = 2815 * MIB
    stride = 1
    width = 1
    options = ("noatime", "nosuid")
    shown = ("noatime", "nosuid")
    mode = "1777"
