# SPDX-License-Identifier: GPL-3.0-or-later
"""A drive that the guest's own kernel plays, for behaviour that QEMU's drives do not have (nvme_tcp.py has NVMe)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .bench import Bench, Disk, best_link
from .harness import Harness

_LIO = """
modprobe target_core_mod; modprobe tcm_loop
cd /sys/kernel/config/target
mkdir -p core/rd_mcp_0/plain
echo rd_pages=4096 > core/rd_mcp_0/plain/control
echo 1 > core/rd_mcp_0/plain/enable
echo PLUMBFIXED1 > core/rd_mcp_0/plain/wwn/vpd_unit_serial
echo {cache} > core/rd_mcp_0/plain/attrib/emulate_write_cache
at=loopback/naa.5001405a5a5a5a5a
mkdir -p $at/tpgt_1/lun/lun_0
echo naa.5001405a5a5a5a5b > $at/tpgt_1/nexus
ln -s /sys/kernel/config/target/core/rd_mcp_0/plain $at/tpgt_1/lun/lun_0/plain
"""
_LIO_HEAD = "grep -ls LIO-ORG /sys/block/sd*/device/vendor | cut -d/ -f4"
_LIO_AWAY = """
cd /sys/kernel/config/target
at=loopback/naa.5001405a5a5a5a5a
rm -f $at/tpgt_1/lun/lun_0/plain
rmdir $at/tpgt_1/lun/lun_0 $at/tpgt_1 $at
rmdir core/rd_mcp_0/plain core/rd_mcp_0
modprobe -r tcm_loop
"""


@contextmanager
def fixed_scsi(bench: Bench, harness: Harness, cache: bool) -> Iterator[Disk]:
    """A disk of the kernel's SCSI target: its caching page says on or off, and that this cannot be changed."""
    try:
        harness.must(_LIO.format(cache=int(cache)))
        bench.wait(f"udevadm settle; test $({_LIO_HEAD} | wc -l) = 1")
        kernel = harness.must(_LIO_HEAD).strip()
        links = harness.must(f"find /dev/disk/by-id -lname '*/{kernel}' -printf '%f\\n'").split()
        yield Disk("fixed", f"/dev/{kernel}", best_link(links), "")
    finally:
        harness.run(_LIO_AWAY)
