# SPDX-License-Identifier: GPL-3.0-or-later
"""Making a disk larger while the machine runs, as a storage array or a cloud does, and waiting until the guest shows it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import guest, guest_scripts, machine, plugging, qemu
from . import state as states
from .disks import Disk, parse
from .errors import LabError
from .paths import Paths
from .qmp import Qmp

# Why a disk keeps its size, and what to do instead.
_FIXED = {
    "nvme": "QEMU lets nobody resize what is plugged in as an NVMe disk",
    "sata": "nothing tells the guest of a new size on a SATA port",
    "simulated": "a simulated SSD has its size from its start",
}
_INSTEAD = "grow a plain scsi disk; an NVMe disk that grows is one that the guest's own target serves from a scsi disk (tests/lab/labkit/nvme_tcp.py)"


def larger(disk: Disk, size_bytes: int) -> Disk:
    """The disk's declaration with another size. LabError where it cannot have it."""
    why = _FIXED.get("simulated" if disk.simulated is not None else disk.bus)
    if why is not None:
        raise LabError(f"disk {disk.name} stays at {disk.size_bytes} B: {why}; {_INSTEAD}")
    if size_bytes < disk.size_bytes:
        raise LabError(
            f"disk {disk.name} has {disk.size_bytes} B, asked are {size_bytes} B: what lies behind the new end would be lost, and the lab makes no "
            f"disk smaller; ask for more than {disk.size_bytes} B, or empty it with replace"
        )
    return parse(replace(disk, size_bytes=size_bytes).to_json())


def resize(paths: Paths, name: str, size_bytes: int) -> dict[str, Any]:
    """Make an attached disk larger: its file, what the lab remembers of it, and what the guest shows. How the guest shows it.

    Its own size is allowed: that mends what a call left that was cut short behind QEMU's part.
    """
    state = machine.require_up(paths)
    disk = larger(machine.attached(state, [name])[name], size_bytes)
    with Qmp(paths) as qmp:
        qmp.command("block_resize", {"node-name": qemu.node_name(disk), "size": disk.size_bytes})
    state.resize(disk)
    states.save(paths, state)
    guest.script(paths, guest_scripts.WAIT_SIZE, disk.serial, str(disk.size_bytes))
    return plugging.show(paths, [disk])
