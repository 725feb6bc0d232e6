# SPDX-License-Identifier: GPL-3.0-or-later
"""NVMe drives that the guest's own kernel serves over TCP on its loopback: for namespaces that share an SSD, and for drives that grow.

QEMU resizes no NVMe disk. The disks of the lab lie behind these drives, so the host counts what is written to them.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from plumblab.sizes import to_bytes

from .bench import MIB, Bench, Disk, best_link
from .harness import Harness

_PORT = """
modprobe nvmet-tcp; modprobe nvme-tcp
cd /sys/kernel/config/nvmet
mkdir ports/1
echo ipv4 > ports/1/addr_adrfam; echo tcp > ports/1/addr_trtype; echo 127.0.0.1 > ports/1/addr_traddr; echo 4420 > ports/1/addr_trsvcid
"""
_SUBSYSTEM = """
mkdir subsystems/plumbline-{serial}
echo 1 > subsystems/plumbline-{serial}/attr_allow_any_host
echo {serial} > subsystems/plumbline-{serial}/attr_serial
"""
_NAMESPACE = """
at=subsystems/plumbline-{serial}/namespaces/{number}
mkdir $at; echo -n {path} > $at/device_path; echo {uuid} > $at/device_uuid; echo 1 > $at/enable
"""
# The time of the keep-alive is long, since a busy host may let the guest wait for some seconds.
_CONNECT = """
ln -s /sys/kernel/config/nvmet/subsystems/plumbline-{serial} ports/1/subsystems/plumbline-{serial}
nvme connect -t tcp -a 127.0.0.1 -s 4420 -n plumbline-{serial} -i 1 -k 60
"""
_AWAY = """
cd /sys/kernel/config/nvmet || exit 0
for at in subsystems/plumbline-*; do nvme disconnect -n ${at##*/} > /dev/null; done
rm -f ports/1/subsystems/*; rmdir ports/1
for at in subsystems/*/namespaces/*; do echo 0 > $at/enable; rmdir $at; done
rmdir subsystems/plumbline-*
for name in $(dmsetup ls --target linear | grep -o '^nvmetcp-[^[:space:]]*'); do dmsetup remove --retry $name; done
modprobe -r nvme-tcp nvmet-tcp
"""
HEAD = MIB  # of a lab's disk, in front of the drive that lies on it
_TABLE = '"0 $(($(blockdev --getsz {path}) - {head})) linear {path} {head}"'


def _shown(serial: str) -> str:
    """Shell that lists the kernel's names of a drive's namespaces, without the paths behind them (nvme0c0n1)."""
    return f"{{ grep -ls '^{serial} *$' /sys/block/nvme*/device/serial | cut -d/ -f4 | grep -v c || true; }}"


def _serve(bench: Bench, harness: Harness, drives: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Serve drives and connect to them: the paths of the namespaces of each, by its serial. Returns their kernel names.

    A namespace has the same UUID each time that it is served, so that it is the same drive after a power cut.
    """
    script = _PORT
    for serial, paths in drives.items():
        script += _SUBSYSTEM.format(serial=serial)
        for number, path in enumerate(paths, 1):
            script += _NAMESPACE.format(serial=serial, number=number, path=path, uuid=uuid.uuid5(uuid.NAMESPACE_OID, f"{serial}/{number}"))
        script += _CONNECT.format(serial=serial)
    harness.must(script)
    found = {}
    for serial, paths in drives.items():
        bench.wait(f"udevadm settle; test $({_shown(serial)} | wc -l) = {len(paths)}")
        found[serial] = sorted(harness.must(f"udevadm settle; {_shown(serial)}").split())
    return found


def _links(harness: Harness, kernel: str) -> list[str]:
    return harness.must(f"find /dev/disk/by-id -lname '*/{kernel}' -printf '%f\\n'").split()


@contextmanager
def nvme_target(bench: Bench, harness: Harness, first: Disk, second: Disk) -> Iterator[list[Disk]]:
    """Two namespaces of one NVMe subsystem, on two disks. It has a write cache and refuses to change it."""
    try:
        disks = []
        for kernel in _serve(bench, harness, {"SHAREDSSD01": [first.path, second.path]})["SHAREDSSD01"]:
            # The links that are made of model and serial are claimed by both namespaces, and move with every event of either.
            (own,) = (link for link in _links(harness, kernel) if link.startswith("nvme-uuid."))
            disks.append(Disk(kernel, f"/dev/{kernel}", own, "SHAREDSSD01"))
        yield disks
    finally:
        harness.run(_AWAY)
        bench.clean()


class NvmeDrives:
    """Drives with one namespace each, and an identity of their own. *backing* are the lab's disks behind them, in the same order.

    Each begins 1 MiB into its disk, by way of a linear map: who looks at the disk itself, as LVM does at each boot, finds nothing there.
    """

    def __init__(self, bench: Bench, harness: Harness, backing: Sequence[Disk]) -> None:
        self._bench, self._harness = bench, harness
        self._names = {f"TCP{disk.serial}"[:20]: disk.name for disk in backing}
        self.disks: list[Disk] = []

    @property
    def backing(self) -> list[Disk]:
        return [self._bench.disks[name] for name in self._names.values()]

    def serve(self) -> list[Disk]:
        """Make them; again after the machine was booted, which ends them. Kernel names may be others."""
        maps = {serial: f"/dev/mapper/nvmetcp-{serial}" for serial in self._names}
        for serial, disk in zip(self._names, self.backing, strict=True):
            self._harness.must(f"dmsetup create nvmetcp-{serial} --table {self._table(disk)}")
        shown = _serve(self._bench, self._harness, {serial: [path] for serial, path in maps.items()})
        self.disks = [Disk(serial.lower(), f"/dev/{kernel}", best_link(_links(self._harness, kernel)), serial) for serial, (kernel,) in shown.items()]
        return self.disks

    def resize(self, disk: Disk, size: int | str) -> Disk:
        """Make one larger under whatever stands on it, and wait until the kernel shows it. Its disk of the lab grows with it."""
        wanted = to_bytes(size)
        behind = self._bench.resize(self._bench.disks[self._names[disk.serial]], wanted + HEAD)
        self._harness.must(
            f"dmsetup load nvmetcp-{disk.serial} --table {self._table(behind)}; dmsetup resume nvmetcp-{disk.serial}\n"
            f"echo 1 > /sys/kernel/config/nvmet/subsystems/plumbline-{disk.serial}/namespaces/1/revalidate_size"
        )
        self._bench.wait(f"test $(blockdev --getsize64 {disk.path}) = {wanted} && udevadm settle")
        return disk

    def end(self) -> None:
        """Take down what stands on them, and then themselves."""
        there = [disk for disk in self.disks if self._harness.run(f"test -b {disk.path}")[0] == 0]
        try:
            if there:
                self._bench.clean(*there)
        finally:
            self._harness.run(_AWAY)
            self._bench.clean()

    @staticmethod
    def _table(disk: Disk) -> str:
        return _TABLE.format(path=disk.path, head=HEAD // 512)


@contextmanager
def nvme_drives(bench: Bench, harness: Harness, backing: Sequence[Disk]) -> Iterator[NvmeDrives]:
    """An NVMe drive on each of these disks of the lab, 1 MiB smaller than the disk, that resize() makes larger while it is in use."""
    drives = NvmeDrives(bench, harness, backing)
    try:
        drives.serve()
        yield drives
    finally:
        drives.end()
