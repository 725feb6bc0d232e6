# SPDX-License-Identifier: GPL-3.0-or-later
"""QEMU's arguments, as pure functions: the same nodes and devices at boot and by hot-plug."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .disks import Disk
from .errors import LabError
from .image import Image
from .paths import Paths

NVME_PORTS = 14
SCSI_TARGETS = 64
SATA_PORTS = 6
_PORT_SLOT = 0x10

Arguments = dict[str, Any]


def node_name(disk: Disk) -> str:
    """The block node that a disk's device sits on."""
    return f"node-{disk.name}"


def file_node_name(disk: Disk) -> str:
    """The block node of a plain disk's file; it counts the discards."""
    return f"file-{disk.name}"


def nodes(disk: Disk, file: Path | None, socket: Path | None) -> list[Arguments]:
    """The block nodes of a disk, bottom first: a sparse file or a simulated SSD's socket."""
    if socket is not None:
        return [
            {
                "driver": "nbd",
                "node-name": node_name(disk),
                "server": {"type": "unix", "path": str(socket)},
                "discard": "unmap",
                "cache": {"direct": True},
            }
        ]
    return [
        {"driver": "file", "node-name": file_node_name(disk), "filename": str(file), "discard": "unmap"},
        {"driver": "raw", "node-name": node_name(disk), "file": file_node_name(disk), "discard": "unmap"},
    ]


def devices(disk: Disk, slot: int, first_of_controller: bool = True) -> list[Arguments]:
    """The QEMU devices of a disk; `slot` is its root port, SCSI target or SATA port."""
    if disk.bus == "nvme":
        return _nvme(disk, slot, first_of_controller)
    common: Arguments = {"id": disk.name, "drive": node_name(disk), "serial": disk.serial, "wwn": disk.wwn, "rotation_rate": 1}
    for key in ("logical_block_size", "physical_block_size", "min_io_size", "opt_io_size", "discard_granularity"):
        if getattr(disk, key) is not None:
            common[key] = getattr(disk, key)
    if disk.logical_block_size is not None and disk.physical_block_size is None:
        common["physical_block_size"] = disk.logical_block_size
    if disk.write_cache is not None:
        common["write-cache"] = "on" if disk.write_cache else "off"
    if disk.bus == "sata":
        if disk.model is not None:
            common["model"] = disk.model
        return [{"driver": "ide-hd", "bus": f"ide.{slot}", **common}]
    if disk.model is not None:
        common["product"] = disk.model
    return [{"driver": "scsi-hd", "bus": "scsi0.0", "channel": 0, "scsi-id": slot, "lun": 0, "device_id": disk.serial, **common}]


def _nvme(disk: Disk, slot: int, first_of_controller: bool) -> list[Arguments]:
    block: Arguments = {"drive": node_name(disk)}
    if disk.logical_block_size is not None:
        # The namespace shows the logical size only, but QEMU refuses one above the physical.
        block["logical_block_size"] = block["physical_block_size"] = disk.logical_block_size
    if disk.discard_granularity is not None:
        block["discard_granularity"] = disk.discard_granularity
    if disk.write_cache is not None:
        block["write-cache"] = "on" if disk.write_cache else "off"
    controller: Arguments = {"driver": "nvme", "id": controller_id(disk), "bus": f"port{slot}", "serial": disk.serial}
    if not disk.boot_only:
        return [{**controller, **block}]
    namespace: Arguments = {"driver": "nvme-ns", "id": disk.name, "bus": controller_id(disk), **block}
    if disk.eui64 is not None:
        namespace["eui64"] = int(disk.eui64, 16)
    return [controller, namespace] if first_of_controller else [namespace]


def controller_id(disk: Disk) -> str:
    """The device id of the NVMe controller; a plain disk is its own."""
    if disk.controller is not None:
        return disk.controller
    return f"{disk.name}-ctrl" if disk.eui64 is not None else disk.name


def assign_slots(disks: Iterable[Disk], taken: Mapping[str, int], taken_disks: Iterable[Disk] = ()) -> dict[str, int]:
    """A free root port, SCSI target or SATA port for each disk; namespaces share their controller's port.

    `taken` maps the names of `taken_disks` to their slots.
    """
    limits = {"nvme": NVME_PORTS, "scsi": SCSI_TARGETS, "sata": SATA_PORTS}
    used: dict[str, set[int]] = {bus: set() for bus in limits}
    controllers: dict[str, int] = {}
    for disk in taken_disks:
        used[disk.bus].add(taken[disk.name])
        if disk.controller:
            controllers[disk.controller] = taken[disk.name]
    slots: dict[str, int] = {}
    for disk in disks:
        if disk.controller in controllers:
            slots[disk.name] = controllers[str(disk.controller)]
            continue
        free = [slot for slot in range(limits[disk.bus]) if slot not in used[disk.bus]]
        if not free:
            raise LabError(f"disk {disk.name}: all {limits[disk.bus]} {disk.bus} slots of the machine are taken; detach some first")
        slots[disk.name] = free[0]
        used[disk.bus].add(free[0])
        if disk.controller:
            controllers[disk.controller] = free[0]
    return slots


def acceleration(name: str) -> list[str]:
    """The words that choose KVM or TCG, and the one processor that the machine has."""
    if name == "kvm":
        return ["-accel", "kvm", "-cpu", "host", "-smp", "1"]
    # More than one processor: QEMU 10.0 aborts in some exchanges of NVMe disks ("iotlb_to_section: Assertion `section_index <
    # d->map.sections_nb' failed"), or the guest hangs. A processor's TLB keeps the number of a memory section, and iotlb_to_section() in
    # system/physmem.c looks that number up in the memory map of now: while one processor maps or unmaps a disk's registers, another that
    # writes to its local APIC reaches some other device.
    # Room for a second one that is never there (maxcpus=2, thread=multi): without it QEMU takes a locked instruction of the guest for a plain
    # one, since no other processor could see the difference (CF_PARALLEL; tcg_cpu_init_cflags(), rr_start_vcpu_thread() in accel/tcg). Its own
    # threads see it: Linux orders a virtio driver's "wake me at this entry" and its look for new entries with a locked addition
    # (virtio_mb()). When the look comes first, a completion raises no interrupt, and the disk's reads wait for ever.
    # Without erms and fsrm kernel and libc copy with SSE instead of `rep movsb`, which TCG carries out byte by byte: five times as fast.
    # Without smap the kernel leaves out stac and clac around each copy from and to a program. Either ends a block of translated code. Without pku it
    # carries no protection keys over from process to process.
    return ["-accel", "tcg,thread=multi", "-cpu", "max,-erms,-fsrm,-smap,-pku", "-smp", "1,maxcpus=2"]


def machine(paths: Paths, emulator: Sequence[str], image: Image, accel: str, memory_mib: int, ssh_port: int) -> list[str]:
    """The whole command line but for the disks under test. `emulator`: the program and where its data are."""
    words = [
        *emulator, "-name", "plumbline-lab", "-nodefaults", "-no-user-config", "-display", "none",
        "-machine", "q35", *acceleration(accel), "-m", str(memory_mib),
        "-serial", f"file:{paths.console}", "-qmp", f"unix:{paths.qmp},server=on,wait=off",
        "-pidfile", str(paths.pid),
        # restrict: the guest reaches nothing but the one forwarded port.
        "-netdev", f"user,id=net0,restrict=on,hostfwd=tcp:127.0.0.1:{ssh_port}-:22",
        "-device", "virtio-net-pci,netdev=net0,romfile=",
        "-device", "virtio-rng-pci",
        "-device", "virtio-scsi-pci,id=scsi0,num_queues=2",
        "-blockdev", json.dumps({"driver": "file", "node-name": "root-file", "filename": str(paths.overlay), "cache": {"no-flush": True}}),
        # no-flush spares the host's fsync only: what the guest flushed is in the file even if QEMU is killed.
        "-blockdev", json.dumps({"driver": "qcow2", "node-name": "root", "file": "root-file", "discard": "unmap", "cache": {"no-flush": True}}),
        "-device", "virtio-blk-pci,drive=root,serial=PLUMBROOT,bootindex=1",
    ]  # fmt: skip
    for port in range(NVME_PORTS):
        slot, function = divmod(port, 8)
        words += [
            "-device",
            f"pcie-root-port,id=port{port},chassis={port + 1},bus=pcie.0,addr={_PORT_SLOT + slot:#x}.{function},multifunction=on,io-reserve=0",
        ]
    if image.kernel is not None:
        words += ["-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", KERNEL_LINE]
    if image.seed is not None:
        words += [
            "-blockdev", json.dumps({"driver": "vvfat", "node-name": "seed", "dir": str(image.seed), "label": "CIDATA", "read-only": True}),
            "-device", "virtio-blk-pci,drive=seed,serial=PLUMBSEED",
        ]  # fmt: skip
    return words


# nr_cpus=1: the kernel prepares for no second processor.
# tsc=reliable: a guest with room for more than one processor that is not Intel's distrusts its TSC (unsynchronized_tsc() in
# arch/x86/kernel/tsc.c) and reads the HPET instead, an exit to QEMU at each look at the clock, which takes some three times as long. QEMU
# gives all processors of a machine one TSC that never goes back (cpu_get_ticks() in softmmu/cpus.c).
# init_on_alloc, randomize_kstack_offset, hardened_usercopy, cgroup.memory: what Debian's kernel does against attacks, and to count the memory of
# cgroups, at each allocation, system call and copy. Nothing here is attacked. rcu_expedited: who waits for a grace period waits for less.
# Together with smap and pku they took an eighth of the guest's time: 0.83 to 0.96 for forks, Python, LVM, mounts, udev and systemd.
# nvme_core.multipath=N: the controllers of newer QEMUs say that their subsystem may have more than one (CMIC bit 1); the kernel would put
# each disk behind a multipath device, and its own name would be hidden. Most SSDs have one port, and so have the lab's.
KERNEL_LINE = (
    "root=/dev/vda rw rootfstype=ext4 console=ttyS0 net.ifnames=0 loglevel=4 mitigations=off audit=0 "
    "init_on_alloc=0 randomize_kstack_offset=off hardened_usercopy=off cgroup.memory=nokmem rcupdate.rcu_expedited=1 "
    "random.trust_cpu=on no_timer_check nr_cpus=1 tsc=reliable fsck.mode=skip systemd.show_status=auto nvme_core.multipath=N"
)


def boot_disks(disks: Iterable[Disk], slots: Mapping[str, int], backing: Mapping[str, tuple[Path | None, Path | None]]) -> list[str]:
    """The command-line words of disks that are there from the start; `backing` maps a name to (file, socket)."""
    words: list[str] = []
    seen: set[str] = set()
    for disk in disks:
        for node in nodes(disk, *backing[disk.name]):
            words += ["-blockdev", json.dumps(node)]
        for device in devices(disk, slots[disk.name], controller_id(disk) not in seen):
            words += ["-device", json.dumps(device)]
        seen.add(controller_id(disk))
    return words
