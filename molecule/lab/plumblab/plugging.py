# SPDX-License-Identifier: GPL-3.0-or-later
"""Plugging disks into the running machine and pulling them out, and waiting until the guest agrees."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from functools import partial
from typing import Any

from . import guest, guest_scripts, machine, qemu, storage
from . import state as states
from .disks import Disk, check_unique
from .errors import LabError
from .paths import Paths
from .qmp import Qmp
from .state import State

_EVENT_SECONDS = 120


def attach(paths: Paths, disks: list[Disk], fresh: bool) -> dict[str, Any]:
    """Hot-plug disks, all or none; how the guest shows each, by name."""
    state = machine.require_up(paths)
    check_unique([*state.disks(), *disks])
    for disk in disks:
        if disk.boot_only:
            kind = "a SATA disk" if disk.bus == "sata" else "an NVMe namespace with a controller or eui64 of its own"
            raise LabError(
                f"disk {disk.name}: QEMU cannot plug {kind} into a running machine; "
                "declare it at boot (lab.py up --disks FILE), or use lab.py replace --restart"
            )
    slots = qemu.assign_slots(disks, state.slots, state.disks())
    with Qmp(paths) as qmp:
        done: list[Disk] = []
        try:
            for disk in disks:
                _plug(paths, qmp, disk, slots[disk.name], fresh)
                done.append(disk)
                state.plug(disk, slots[disk.name])
        finally:
            states.save(paths, state)
    return show(paths, disks)


def _plug(paths: Paths, qmp: Qmp, disk: Disk, slot: int, fresh: bool) -> None:
    added: list[str] = []
    for name in (qemu.node_name(disk), qemu.file_node_name(disk)):
        with contextlib.suppress(LabError):  # a left-over of an attempt that was cut short; else there is none
            qmp.command("blockdev-del", {"node-name": name})
    try:
        for node in qemu.nodes(disk, *storage.prepare(paths, disk, fresh)):
            qmp.command("blockdev-add", node)
            added.append(node["node-name"])
        for device in qemu.devices(disk, slot):
            qmp.command("device_add", device)
    except LabError:
        for name in reversed(added):
            _delete_node(qmp, name)
        raise


def _delete_node(qmp: Qmp, name: str) -> None:
    """Free a node of a device that QEMU refused; the device lets go of it a moment later."""
    for _try in range(20):
        with contextlib.suppress(LabError):  # the refusal itself is the error to tell
            qmp.command("blockdev-del", {"node-name": name})
            return
        time.sleep(0.1)


def show(paths: Paths, disks: Iterable[Disk]) -> dict[str, Any]:
    """How the guest sees the disks, waiting until it does: device name and by-id links."""
    disks = list(disks)
    if not disks:
        return {}
    output = guest.script(paths, guest_scripts.WAIT_SHOWN, *(disk.serial for disk in disks))
    return match(disks, output)


def match(disks: Iterable[Disk], output: str) -> dict[str, Any]:
    """WAIT_SHOWN's output by disk; namespaces that share a serial come in their order."""
    by_serial: dict[str, list[str]] = {}
    links: dict[str, list[str]] = {}
    for line in output.splitlines():
        kind, _blank, rest = line.partition(" ")
        name, _blank, value = rest.partition(" ")
        if kind == "disk":
            by_serial.setdefault(value, []).append(name)
        elif kind == "link":
            links.setdefault(name, []).append(value)
    found: dict[str, Any] = {}
    for disk in disks:
        name = sorted(by_serial[disk.serial])[0]
        by_serial[disk.serial].remove(name)
        found[disk.name] = {"device": f"/dev/{name}", "serial": disk.serial, "by_id": sorted(links.get(name, []))}
    return found


def detach(paths: Paths, names: list[str] | None, release: bool = True) -> None:
    """Pull disks out (None: all); whatever stands on them in the guest is taken down first, contents are kept."""
    state = machine.require_up(paths)
    disks = list(machine.attached(state, names or []).values())
    fixed = [disk.name for disk in disks if disk.boot_only]
    if fixed:
        raise LabError(f"{', '.join(fixed)}: QEMU cannot unplug these from a running machine; add --restart")
    if release:
        release_all(paths, disks, names is None)
    if disks:
        _pull(paths, state, disks)


def release_all(paths: Paths, disks: Iterable[Disk], everything: bool) -> None:
    """Unmount and take down in the guest whatever stands on the disks."""
    guest.script(paths, guest_scripts.RELEASE, "all" if everything else "some", *(disk.serial for disk in disks), timeout_seconds=300)


def _pull(paths: Paths, state: State, disks: list[Disk]) -> None:
    with Qmp(paths) as qmp:
        for disk in disks:
            qmp.command("device_del", {"id": disk.name})
        for disk in disks:
            if qmp.wait_event(partial(_is_gone, disk), _EVENT_SECONDS) is None:
                raise LabError(f"the guest did not let go of disk {disk.name} within {_EVENT_SECONDS} s")
            qmp.command("blockdev-del", {"node-name": qemu.node_name(disk)})
            if disk.simulated is None:
                qmp.command("blockdev-del", {"node-name": qemu.file_node_name(disk)})
            state.unplug(disk)
            states.save(paths, state)
    guest.script(paths, guest_scripts.WAIT_GONE, *(disk.serial for disk in disks))


def _is_gone(disk: Disk, event: dict[str, Any]) -> bool:
    return event.get("event") == "DEVICE_DELETED" and event["data"].get("device") == disk.name


def replace(paths: Paths, disks: list[Disk], restart: bool) -> dict[str, Any]:
    """Take all disks away with their contents, then attach others, empty."""
    state = machine.require_up(paths)
    old = state.disks()
    if any(disk.boot_only for disk in [*old, *disks]):
        if not restart:
            raise LabError("these disks (or those to be taken away) cannot be hot-plugged; add --restart to boot the machine with the new ones")
        _restart(paths, old, disks)
        return show(paths, disks)
    detach(paths, None)
    forget_stored(paths)
    return attach(paths, disks, fresh=True) if disks else {}


def detach_all(paths: Paths, restart: bool) -> None:
    """Detach everything, with a restart where a disk cannot be unplugged."""
    state = machine.require_up(paths)
    if restart and any(disk.boot_only for disk in state.disks()):
        _restart(paths, state.disks(), [])
    else:
        detach(paths, None)


def _restart(paths: Paths, old: list[Disk], disks: list[Disk]) -> None:
    release_all(paths, old, True)
    machine.down(paths, keep=True)
    forget_stored(paths)
    for disk in old:
        storage.discard(paths, disk)
    machine.up(paths, machine.Wish(), disks)


def forget_stored(paths: Paths) -> None:
    """Throw the contents of detached disks away."""
    state = states.load(paths)
    if state is None:
        return
    for disk in state.stored_disks():
        storage.discard(paths, disk)
    storage.discard_unknown(paths, state.disks())
    state.stored = []
    states.save(paths, state)
