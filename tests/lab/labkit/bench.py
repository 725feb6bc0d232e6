# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine as the tests use it: disks that come and go, what they were asked to do, and the guest put back."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from plumblab import counters, guest, machine, plugging, process, resizing, storage
from plumblab import state as states
from plumblab.disks import Disk as LabDisk
from plumblab.disks import parse
from plumblab.paths import Paths
from plumblab.sizes import to_bytes
from plumblab.state import State
from simssd import SimSSD

from .harness import HOME, Harness

MIB = 1 << 20
BATCH = 6
# QEMU plugs in no SATA disk. The files of tests that need one declare these, so that one boot is enough for all of them.
SATA = (
    {"name": "sata0", "bus": "sata", "size": "64MiB", "serial": "SATA0"},
    {"name": "sata1", "bus": "sata", "size": "64MiB", "serial": "SATA1"},
    {"name": "sataflash", "bus": "sata", "size": "192MiB", "serial": "SATAFLASH", "simulated": {"page_size": 64 << 10, "channels": 1, "transfer_us": 10}},
)
SPARE = 4  # disks that stay plugged though a file of tests has no use for them: each plan reads all that there are


@dataclass(frozen=True)
class Disk:
    """A disk in the guest. *by_id* is its stable name; *path* may be another after the next plugging."""

    name: str
    path: str
    by_id: str
    serial: str

    @property
    def kernel(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def part(self, number: int = 1) -> str:
        """The path of a partition."""
        return f"{self.path}{'p' if self.path[-1].isdigit() else ''}{number}"


def pool(names: Iterable[str], **more: Any) -> list[dict[str, Any]]:
    """A 512e SCSI disk of 96 MiB for each name; the same disks for every file that asks, so that they are plugged once."""
    base = {"bus": "scsi", "size": "96MiB", "physical_block_size": 4096}
    return [{**base, "name": f"p{number}", "serial": f"POOL{number}", **more} for number, _name in enumerate(names)]


def best_link(links: Sequence[str]) -> str:
    """The name a user would take: no bare WWN, no generation-specific form."""
    return min(links, key=lambda link: (link.startswith(("wwn-", "nvme-nvme.", "nvme-eui.")), link.endswith("_1"), len(link), link))


def _asked() -> machine.Wish:
    """The Debian release that the suite runs on. A machine that nobody has booted yet would be one of the default release."""
    return machine.Wish(os.environ.get("PLUMBLINE_SUITE") or None)


def forget_partitions(harness: Harness, disk: Disk) -> None:
    """The kernel shows no partition any more of a disk whose table was destroyed. Under the disk's lock udev has none of them open meanwhile."""
    drop = f"udevadm settle; flock {disk.path} partx --delete {disk.path} 2>/dev/null || true; udevadm settle"
    harness.must(f"{drop}; test $(lsblk --noheadings --raw --output NAME {disk.path} | wc -l) = 1")


class Bench:
    """One machine. Every change of it goes through the lab's own code, under the lab's lock."""

    def __init__(self, paths: Paths, harness: Harness) -> None:
        self.paths = paths
        self.guest = harness
        self.disks: dict[str, Disk] = {}

    def up(self) -> None:
        """Boot the machine, or find it up; refuses one of another Debian release than was asked for."""
        with states.exclusive(self.paths):
            machine.up(self.paths, _asked())

    def replace(self, declarations: Sequence[Mapping[str, Any]]) -> dict[str, Disk]:
        """These disks, empty. The machine boots for them if those that cannot be plugged or pulled while it runs are others than before."""
        if not self._answers():
            self._begin_anew()
        self.clean()
        wanted = [parse(dict(entry)) for entry in declarations]
        fixed = [disk for disk in wanted if disk.boot_only]
        if fixed != [disk for disk in machine.require_up(self.paths).disks() if disk.boot_only]:
            self._boot_with(fixed)
        with states.exclusive(self.paths):
            shown = self._replug(wanted)
        self.disks = {name: self._disk(name, at) for name, at in shown.items()}
        return self.disks

    def end(self) -> None:
        """No disk stays; nor does the machine, if it has one that cannot be pulled."""
        state = machine.require_up(self.paths) if process.running_pid(self.paths) is not None else None
        fixed = state is not None and any(disk.boot_only for disk in state.disks())
        if state is not None and not fixed:
            self.replace([])
        self.guest.close()
        if fixed:
            with states.exclusive(self.paths):
                machine.down(self.paths, keep=False)

    def _answers(self) -> bool:
        """Whether the machine is up and its guest alive. A connection that is there is proof enough; asking for a new one takes time."""
        if process.running_pid(self.paths) is None:
            return False
        return self.guest.connected() or guest.answers(machine.require_up(self.paths).ssh_port, timeout_seconds=30)

    def _begin_anew(self) -> None:
        """A boot with no disk: a machine that ended or hangs in one file of tests is no reason for the next ones to fail."""
        self.guest.close()
        self.disks = {}
        with states.exclusive(self.paths):
            process.end(self.paths, signal.SIGKILL)
            for disk in (states.load(self.paths) or State()).disks():
                storage.discard(self.paths, disk)
            machine.up(self.paths, _asked(), [])
            plugging.forget_stored(self.paths)

    def _boot_with(self, disks: list[LabDisk]) -> None:
        """A new boot with the same root, and with no disks but these."""
        self.guest.must("sync")
        self.guest.close()
        with states.exclusive(self.paths):
            old = machine.require_up(self.paths).disks()
            machine.power_cut(self.paths)
            for disk in old:
                storage.discard(self.paths, disk)
            machine.up(self.paths, machine.Wish(), disks)

    def _replug(self, wanted: list[LabDisk]) -> dict[str, Any]:
        """Attach what is not there, a few disks at a time, since each new one keeps the guest's udev busy for a while.

        A disk that is declared exactly so already stays (clean() has emptied it). A few other SCSI disks stay plugged, unused,
        for a later file of tests, unless they are in the way; NVMe slots are few, so those go.
        """
        old = machine.require_up(self.paths).disks()
        names, serials = {disk.name for disk in wanted}, {disk.serial for disk in wanted}
        others = [disk for disk in old if disk not in wanted]
        may_stay = [disk.name for disk in others if disk.bus != "nvme" and disk.name not in names and disk.serial not in serials]
        stay = may_stay[:SPARE] if wanted else []
        gone = [disk.name for disk in others if disk.name not in stay]
        for at in range(0, len(gone), BATCH):
            # What clean() has taken down need not be looked at again; the first time it is not known what stands there.
            plugging.detach(self.paths, gone[at : at + BATCH], release=not self.disks)
        plugging.forget_stored(self.paths)
        new = [disk for disk in wanted if disk not in old]
        for at in range(0, len(new), BATCH):
            plugging.attach(self.paths, new[at : at + BATCH], fresh=True)
        return plugging.show(self.paths, wanted)

    def boot_again(self) -> dict[str, Disk]:
        """A new boot of a new machine with the same root and the same disks, whose settings are those that they come with."""
        self.guest.close()
        with states.exclusive(self.paths):
            machine.down(self.paths, keep=True)
            machine.up(self.paths, machine.Wish())
            self._show([disk for disk in machine.require_up(self.paths).disks() if disk.name in self.disks])
        return self.disks

    def resize(self, disk: Disk, size: int | str) -> Disk:
        """Make a disk larger (bytes, or "96MiB") under whatever stands on it; the disk as the guest shows it when it has the new size.

        It stays so large, also over a power cut: the next replace() gives a disk as it is declared.
        """
        with states.exclusive(self.paths):
            shown = resizing.resize(self.paths, disk.name, to_bytes(size))
        self.disks[disk.name] = grown = self._disk(disk.name, shown[disk.name])
        return grown

    def pull(self, *disks: Disk) -> None:
        """Unplug disks that nothing stands on; their contents are kept for plug()."""
        with states.exclusive(self.paths):
            plugging.detach(self.paths, [disk.name for disk in disks], release=False)

    def plug(self, *disks: Disk) -> dict[str, Disk]:
        """Plug pulled disks in again, with their contents and the settings that they come with. Kernel names may be others."""
        with states.exclusive(self.paths):
            state = machine.require_up(self.paths)
            names = {disk.name for disk in disks}
            plugging.attach(self.paths, [disk for disk in state.stored_disks() if disk.name in names], fresh=False)
            self._show([disk for disk in machine.require_up(self.paths).disks() if disk.name in self.disks])
        return self.disks

    def _show(self, disks: list[LabDisk]) -> None:
        shown = plugging.show(self.paths, disks)
        self.disks = {name: self._disk(name, at) for name, at in shown.items()}

    @staticmethod
    def _disk(name: str, at: Mapping[str, Any]) -> Disk:
        return Disk(name, at["device"], best_link(at["by_id"]), at["serial"])

    def clean(self, *disks: Disk) -> None:
        """Empty the disks (none named: all) and put the guest's fstab, mount points and LVM state back."""
        paths = " ".join(disk.path for disk in disks or self.disks.values())
        self.guest.must(f"bash {HOME}/clean.sh all {paths}")

    def counters(self, *disks: Disk, reset: bool = False) -> dict[str, dict[str, int | None]]:
        """What the host saw of each disk since the last reset."""
        with states.exclusive(self.paths):
            return counters.read(self.paths, [disk.name for disk in disks], reset)

    @contextmanager
    def untouched(self, *disks: Disk) -> Iterator[None]:
        """Whatever happens within writes nothing to these disks (none named: to any), and discards nothing: the host counts.

        What the guest still holds back is written before the first reading, and again before the second, so that a
        write of the attempt cannot hide in the page cache.
        """
        chosen = disks or tuple(self.disks.values())
        self._settle()
        self.counters(*chosen, reset=True)
        yield
        self._settle()
        found = self.counters(*chosen)
        written = {
            name: {key: value for key, value in one.items() if key in ("host_writes", "host_write_bytes", "discards") and value} for name, one in found.items()
        }
        assert not any(written.values()), f"something was written: {written}"

    def power_cut(self) -> None:
        """Kill the machine between two instructions, and the simulated SSDs' volatile caches with it; boot again, the same disks plugged in."""
        self.guest.close()
        with states.exclusive(self.paths):
            machine.power_cut(self.paths)
            state = machine.up(self.paths, machine.Wish())
            self._show([disk for disk in state.disks() if disk.name in self.disks])

    def change(self, *disks: Disk, **settings: object) -> None:
        """Change parameters of simulated SSDs, until their next start."""
        with states.exclusive(self.paths):
            attached = machine.attached(machine.require_up(self.paths), [disk.name for disk in disks])
            for one in attached.values():
                storage.change_simulated(self.paths, one, {name: str(value) for name, value in settings.items()})

    def simulated(self, disk: Disk) -> SimSSD:
        """The simulated SSD behind a disk."""
        return SimSSD.open(self.paths.disks, disk.name)

    def _settle(self) -> None:
        self.guest.must("sync; udevadm settle --timeout=120")

    def wait(self, command: str, seconds: float = 60) -> None:
        """Until a shell command in the guest succeeds. *seconds* end what hangs; a slow host may need many of them."""
        end = time.monotonic() + seconds
        while self.guest.run(command)[0]:
            assert time.monotonic() < end, f"not within {seconds} s: {command}"
            time.sleep(0.1)

    def wait_counted(self, disk: Disk, counter: str, number: int, seconds: float = 60) -> None:
        """Until the host has counted so many of something on a disk since the last reset."""
        end = time.monotonic() + seconds
        while (self.counters(disk)[disk.name][counter] or 0) < number:
            assert time.monotonic() < end, f"{disk.name}: not {number} {counter} within {seconds} s"
            time.sleep(0.2)

    @contextmanager
    def scsi_debug(self, count: int = 1, size_mib: int = 96, **settings: int) -> Iterator[list[Disk]]:
        """Disks of the guest kernel's own SCSI simulator, which can have an alignment_offset and medium errors."""
        words = {"add_host": count, "per_host_store": 1, "dev_size_mb": size_mib, "delay": 0, "lbpu": 1, "lbpws": 1, **settings}
        self.guest.must("modprobe scsi_debug " + " ".join(f"{key}={value}" for key, value in words.items()))
        listing = "udevadm settle; find /sys/bus/pseudo/drivers/scsi_debug/adapter*/ -path '*/block/sd*' -prune -printf '%f\\n'"
        disks = []
        try:
            self.wait(f"test $({listing} | wc -l) = {count}")
            for number, kernel in enumerate(sorted(self.guest.must(listing).split())):
                link = self.guest.must(f"find /dev/disk/by-id -lname '*/{kernel}' -printf '%f\\n'").split()
                disks.append(Disk(f"debug{number}", f"/dev/{kernel}", best_link(link), ""))
            yield disks
        finally:
            self.clean(*disks)
            self.guest.must("modprobe -r scsi_debug")
