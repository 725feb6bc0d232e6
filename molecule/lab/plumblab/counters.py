# SPDX-License-Identifier: GPL-3.0-or-later
"""What a disk was asked to do, read from outside the guest.

QEMU counts for plain disks. It does not account NVMe flushes, so that number is
None there: unknown is not zero. Discards come from the file below the disk,
because the device accounts them for SCSI only.
"""

from __future__ import annotations

from typing import Any

from . import machine, storage
from . import state as states
from .disks import Disk
from .errors import LabError
from .paths import Paths
from .qemu import file_node_name
from .qmp import Qmp

Counters = dict[str, int | None]


def plain(disk: Disk, device_stats: list[dict[str, Any]], node_stats: list[dict[str, Any]]) -> Counters:
    """A plain disk's counters from the two forms of query-blockstats."""
    device = next((entry["stats"] for entry in device_stats if disk.name in entry.get("qdev", "").split("/")), None)
    file = next((entry for entry in node_stats if entry.get("node-name") == file_node_name(disk)), {})
    if device is None:
        raise LabError(f"QEMU has no counters for disk {disk.name}")
    return {
        "host_reads": device["rd_operations"],
        "host_read_bytes": device["rd_bytes"],
        "host_writes": device["wr_operations"],
        "host_write_bytes": device["wr_bytes"],
        "flushes": None if disk.bus == "nvme" else device["flush_operations"],
        "discards": _discards(file.get("driver-specific", {})),
        "discard_bytes": file.get("driver-specific", {}).get("discard-bytes-ok"),
    }


def _discards(file: dict[str, Any]) -> int | None:
    """Discards that reached the file, whether its filesystem could carry them out or not."""
    return file["discard-nb-ok"] + file["discard-nb-failed"] if file else None


def since(now: Counters, base: Counters) -> Counters:
    """The difference to a base; unknown stays unknown."""
    result: Counters = {}
    for key, value in now.items():
        before = base.get(key)
        result[key] = value - before if value is not None and before is not None else value
    return result


def read(paths: Paths, names: list[str], reset: bool) -> dict[str, Counters]:
    """Counters by disk name since the last reset (none named: all attached); `reset` starts anew after reading."""
    state = machine.require_up(paths)
    disks = machine.attached(state, names)
    found: dict[str, Counters] = {}
    with Qmp(paths) as qmp:
        devices = qmp.command("query-blockstats")
        nodes = qmp.command("query-blockstats", {"query-nodes": True})
    for name, disk in disks.items():
        if disk.simulated is not None:
            found[name] = storage.simulated_counters(paths, disk, reset)
            continue
        now = plain(disk, devices, nodes)
        found[name] = since(now, state.bases.get(name, {}))
        if reset:
            state.bases[name] = now
    if reset:
        states.save(paths, state)
    return found
