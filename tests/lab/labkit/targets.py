# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives that the guest's own kernel plays, for behaviour that QEMU's drives do not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .bench import Bench, Disk, best_link
from .harness import Harness

# With the paths behind them (nvme0c0n1) left out.
NVMET_HEADS = "grep -ls SHAREDSSD01 /sys/block/nvme*/device/serial | cut -d/ -f4 | grep -v c"
_NVMET = """
modprobe nvmet-tcp; modprobe nvme-tcp
cd /sys/kernel/config/nvmet
mkdir subsystems/plumbline
echo 1 > subsystems/plumbline/attr_allow_any_host
echo SHAREDSSD01 > subsystems/plumbline/attr_serial
for pair in 1:{0} 2:{1}; do
    at=subsystems/plumbline/namespaces/${{pair%%:*}}
    mkdir $at; echo -n ${{pair#*:}} > $at/device_path; echo 1 > $at/enable
done
mkdir ports/1
echo ipv4 > ports/1/addr_adrfam; echo tcp > ports/1/addr_trtype; echo 127.0.0.1 > ports/1/addr_traddr; echo 4420 > ports/1/addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/plumbline ports/1/subsystems/plumbline
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n plumbline -i 1
for turn in $(seq 100); do
    udevadm settle
    test $({heads} | wc -l) = 2 && break
    sleep 0.1
done
"""
_NVMET_AWAY = """
nvme disconnect -n plumbline >/dev/null
cd /sys/kernel/config/nvmet
rm -f ports/1/subsystems/plumbline; rmdir ports/1
for at in subsystems/plumbline/namespaces/*; do echo 0 > $at/enable; rmdir $at; done
rmdir subsystems/plumbline
modprobe -r nvme-tcp nvmet-tcp
"""
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
def nvme_target(bench: Bench, harness: Harness, first: Disk, second: Disk) -> Iterator[list[Disk]]:
    """Two namespaces of one NVMe subsystem over TCP, on two disks. It has a write cache and refuses to change it."""
    try:
        harness.must(_NVMET.format(first.path, second.path, heads=NVMET_HEADS))
        disks = []
        for kernel in sorted(harness.must(NVMET_HEADS).split()):
            links = harness.must(f"find /dev/disk/by-id -lname '*/{kernel}' -printf '%f\\n'").split()
            # The links that are made of model and serial are claimed by both namespaces, and move with every event of either.
            (own,) = (link for link in links if link.startswith("nvme-uuid."))
            disks.append(Disk(kernel, f"/dev/{kernel}", own, "SHAREDSSD01"))
        assert len(disks) == 2
        yield disks
    finally:
        harness.run(_NVMET_AWAY)
        bench.clean()


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
