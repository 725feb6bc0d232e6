# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine as a whole: starting, stopping, cutting its power, rebooting."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import cloud, emulator, guest, image, process, qemu, storage
from . import state as states
from .commands import run
from .disks import Disk
from .errors import LabError
from .paths import Paths
from .state import State

BOOT_SECONDS = {"kvm": 60.0, "tcg": 480.0}


@dataclass(frozen=True)
class Wish:
    """What `up` is asked for; None keeps what the machine has."""

    suite: str | None = None
    cloud_image: Path | None = None
    accel: str = "auto"
    memory_mib: int | None = None


def require_up(paths: Paths) -> State:
    """The state of a running machine."""
    state = states.load(paths)
    if state is None or process.running_pid(paths) is None:
        raise LabError("the machine is not up; run: lab.py up")
    return state


def attached(state: State, names: Iterable[str]) -> dict[str, Disk]:
    """The attached disks of these names (none named: all)."""
    disks = {disk.name: disk for disk in state.disks()}
    unknown = [name for name in names if name not in disks]
    if unknown:
        raise LabError(f"no disk {', '.join(unknown)} is attached; attached are: {', '.join(disks) or 'none'}")
    return {name: disks[name] for name in dict.fromkeys(names)} or disks


def accelerations(asked: str, cpuinfo: str, kvm_device: bool) -> list[str]:
    """What to try, in order. /dev/kvm alone proves nothing: nested, without vmx or svm, a guest hangs on it."""
    if asked != "auto":
        return [asked]
    flags = {word for line in cpuinfo.splitlines() if line.startswith("flags") for word in line.split()}
    return ["kvm", "tcg"] if kvm_device and flags & {"vmx", "svm"} else ["tcg"]


def up(paths: Paths, wish: Wish, disks: list[Disk] | None = None) -> State:
    """Boot the machine, or find it up. `disks` are there from the start (kept contents where they have any)."""
    old = states.load(paths)
    if old is not None and process.running_pid(paths) is not None:
        _check_same(old, wish)
        guest.wait_up(paths, old.ssh_port, BOOT_SECONDS[old.accel])
        return old
    state = _shape(old or State(), wish)
    if old is None or not paths.overlay.exists() or (old.suite, old.cloud_image) != (state.suite, state.cloud_image):
        state.attached, state.stored, state.slots = [], [], {}
        fresh_overlay = True
    else:
        fresh_overlay = False
    if disks is not None:
        slots = qemu.assign_slots(disks, {})
        state.attached, state.slots = [disk.to_json() for disk in disks], slots
    state.bases = {}
    root = _image(paths, state, fresh_overlay)
    paths.run.mkdir(parents=True, exist_ok=True, mode=0o700)
    if fresh_overlay:
        paths.overlay.unlink(missing_ok=True)
        paths.known_hosts.unlink(missing_ok=True)
        run(["qemu-img", "create", "-q", "-f", "qcow2", "-b", root.root, "-F", root.root_format, paths.overlay, str(image.ROOT_BYTES)])
    _boot(paths, state, root, wish.accel)
    return state


def _check_same(state: State, wish: Wish) -> None:
    """A running machine is not silently another one than was asked for."""
    asked = {"suite": wish.suite, "memory_mib": wish.memory_mib, "accel": None if wish.accel == "auto" else wish.accel}
    for key, value in asked.items():
        if value is not None and getattr(state, key) != value:
            raise LabError(f"the machine is up with {key} {getattr(state, key)}, asked is {value}; run: lab.py down")
    if wish.cloud_image is not None and state.cloud_image != str(wish.cloud_image):
        raise LabError("the machine is up with another image; run: lab.py down")


def _shape(state: State, wish: Wish) -> State:
    if wish.cloud_image is not None:
        state.cloud_image = str(wish.cloud_image)
    if wish.suite is not None:
        state.suite, state.cloud_image = wish.suite, None
    state.memory_mib = wish.memory_mib or state.memory_mib
    return state


def _image(paths: Paths, state: State, fresh_overlay: bool) -> image.Image:
    if state.cloud_image:
        return cloud.image(paths, Path(state.cloud_image))
    if fresh_overlay or state.image is None:
        root = image.ensure(paths, state.suite)
        state.image = str(root.root.parent)
        return root
    root = image.in_folder(Path(state.image))
    if not root.root.exists():
        raise LabError(f"the image below the machine's overlay is gone ({root.root}); run: lab.py down")
    return root


def _boot(paths: Paths, state: State, root: image.Image, accel: str) -> None:
    choices = accelerations(accel, Path("/proc/cpuinfo").read_text(encoding="utf-8"), Path("/dev/kvm").exists())
    for choice in choices:
        state.accel = choice
        try:
            _start(paths, state, root)
            seconds = guest.wait_up(paths, state.ssh_port, BOOT_SECONDS[choice])
        except LabError as error:
            process.end(paths, signal.SIGKILL)
            if choice == choices[-1]:
                raise
            print(f"no guest with {choice}, trying the next: {str(error).splitlines()[0]}", file=sys.stderr)
        else:
            print(f"the guest answers after {seconds:.1f} s ({choice})", file=sys.stderr)
            return


def _start(paths: Paths, state: State, root: image.Image) -> None:
    """Start QEMU in the background; everything about it is on disk before it runs."""
    guest.forget_connection(paths)
    state.ssh_port = guest.free_port()
    paths.console.write_text("", encoding="utf-8")
    paths.ssh_config.write_text(guest.ssh_config_text(paths, state.ssh_port), encoding="utf-8")
    # The port is a new one; the key that the machine shows under it is the same.
    paths.known_hosts.unlink(missing_ok=True)
    disks = state.disks()
    backing = {disk.name: storage.prepare(paths, disk, fresh=False) for disk in disks}
    words = qemu.machine(paths, emulator.find(paths), root, state.accel, state.memory_mib, state.ssh_port)
    states.save(paths, state)
    process.start(paths, words + qemu.boot_disks(disks, state.slots, backing))


def down(paths: Paths, keep: bool) -> None:
    """Stop the machine. Its overlay and its disks go with it, unless they are kept (then it shuts down properly)."""
    state = states.load(paths)
    if state is None:
        return
    if process.running_pid(paths) is not None:
        if keep:
            power_off(paths, state)
        process.end(paths, signal.SIGTERM)
    guest.forget_connection(paths)
    if not keep:
        for disk in [*state.disks(), *state.stored_disks()]:
            storage.discard(paths, disk)
        shutil.rmtree(paths.run)


def power_off(paths: Paths, state: State) -> None:
    """An orderly shutdown; the lab's own guest has nothing to lose after 90 s."""
    if guest.answers(state.ssh_port):
        guest.execute(paths, "systemctl --no-block poweroff")
        try:
            process.wait_gone(paths, 90)
        except LabError:
            process.end(paths, signal.SIGKILL)


def power_cut(paths: Paths) -> None:
    """Kill QEMU between two instructions, and with it the volatile caches of simulated SSDs."""
    state = require_up(paths)
    process.end(paths, signal.SIGKILL)
    storage.power_cut(paths, state.disks())
    guest.forget_connection(paths)


def reboot(paths: Paths) -> float:
    """Reboot the guest; the seconds until it answers again."""
    state = require_up(paths)
    before = guest.execute(paths, "cat /proc/sys/kernel/random/boot_id; systemctl --no-block reboot")
    begin = time.monotonic()
    limit = begin + BOOT_SECONDS[state.accel]
    while True:
        guest.forget_connection(paths)
        if guest.answers(state.ssh_port):
            try:
                if guest.execute(paths, "cat /proc/sys/kernel/random/boot_id", timeout_seconds=30).strip() not in before:
                    return time.monotonic() - begin
            except LabError:
                pass  # the connection of a guest that is going down
        if process.running_pid(paths) is None:
            raise LabError(f"QEMU ended during the reboot: {process.last_words(paths)}\nits console:\n{guest.console_tail(paths)}")
        if time.monotonic() > limit:
            raise LabError(f"the guest does not come back after a reboot; its console:\n{guest.console_tail(paths)}")
        time.sleep(0.5)


def status(paths: Paths) -> dict[str, Any]:
    """What there is, for people and programs."""
    state = states.load(paths)
    pid = process.running_pid(paths)
    found: dict[str, Any] = {"up": pid is not None, "pid": pid, "run": str(paths.run), "ssh_config": str(paths.ssh_config)}
    if state is not None:
        found["answers"] = pid is not None and guest.answers(state.ssh_port)
        found.update(
            accel=state.accel, suite=state.suite, image=state.image, cloud_image=state.cloud_image, memory_mib=state.memory_mib,
            ssh_port=state.ssh_port, attached=state.attached, stored=state.stored,
        )  # fmt: skip
    return found
