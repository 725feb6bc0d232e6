# SPDX-License-Identifier: GPL-3.0-or-later
"""What stands on the host, read by the system's own tools over ssh. Nothing of the collection is used here.

Addresses are bytes. Disks are named by their serial; a loop device, which has none, by its backing file.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

from testinfra.host import Host

SECTOR = 512
TYPE_LVM = "E6D6D379-F507-44C2-A23C-238F2A3DF928"
TYPE_LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"


@dataclass(frozen=True)
class Partition:
    """An entry of a partition table, as sfdisk prints it."""

    path: str
    start: int
    size: int
    name: str
    type: str


@dataclass(frozen=True)
class Leg:
    """Where a leg of a mapped device begins: absolute, on the whole disk."""

    disk: str
    start: int


@dataclass(frozen=True)
class Mapping:
    """A striped device as the kernel maps it (dmsetup table)."""

    size: int
    stripe: int
    legs: tuple[Leg, ...]


@dataclass(frozen=True)
class Extent:
    """Where bytes of a file lie on its filesystem's device."""

    start: int
    size: int


class Reading:
    """One look at a host. Each fact is asked for when it is needed, and once: a command costs a second or more under TCG."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self._said: dict[str, str] = {}

    def run(self, script: str) -> str:
        """Standard output of a script that must succeed."""
        return str(self.host.check_output("set -e; " + script))

    def shell(self, script: str) -> str:
        """The same for a script that changes nothing: asked again, it has its first answer."""
        if script not in self._said:
            self._said[script] = self.run(script)
        return self._said[script]

    def json(self, command: str) -> Any:
        return json.loads(self.shell(command))

    # --- disks and partitions

    @cached_property
    def kernel_names(self) -> dict[str, str]:
        """Serial (or backing file) of every disk, and its kernel name."""
        found = {disk["serial"]: disk["name"] for disk in self.json("lsblk --json --nodeps --output NAME,SERIAL")["blockdevices"] if disk["serial"]}
        for loop in json.loads(self.shell("losetup --json") or '{"loopdevices": []}')["loopdevices"]:
            found[loop["back-file"]] = PurePosixPath(loop["name"]).name
        return found

    @cached_property
    def serials(self) -> dict[str, str]:
        return {name: serial for serial, name in self.kernel_names.items()}

    def disk(self, serial: str) -> str:
        """The device node of a disk."""
        return f"/dev/{self.kernel_names[serial]}"

    def disk_size(self, serial: str) -> int:
        return int(self.shell(f"cat /sys/class/block/{self.kernel_names[serial]}/size")) * SECTOR

    def partitions(self, serial: str) -> list[Partition]:
        """All partitions of a disk; the table's own unit is a logical block."""
        table = self.json(f"sfdisk --json {self.disk(serial)}")["partitiontable"]
        assert table["label"] == "gpt"
        unit = int(table["sectorsize"])
        return [
            Partition(entry["node"], entry["start"] * unit, entry["size"] * unit, entry.get("name", ""), entry["type"].upper()) for entry in table["partitions"]
        ]

    def raw(self, ranges: list[tuple[str, int]], size: int) -> list[str]:
        """SHA-256 of pieces of devices (path, first byte), past every cache."""
        reads = (f"dd if={device} bs={size} count=1 skip={start} iflag=direct,skip_bytes status=none | sha256sum" for device, start in ranges)
        return [line.split()[0] for line in self.run("; ".join(reads)).splitlines()]

    # --- LVM

    def report(self, kind: str, fields: str, *options: str) -> list[dict[str, str]]:
        """Rows of pvs, vgs or lvs, in bytes."""
        words = [kind, "--reportformat", "json", "--units", "b", "--nosuffix", "--options", fields, *options]
        (rows,) = self.json(shlex.join(words))["report"][0].values()
        return list(rows)

    @cached_property
    def pvs(self) -> dict[str, dict[str, str]]:
        """Physical volumes by the serial of their disk."""
        rows = self.report("pvs", "pv_name,vg_name,pe_start,pv_pe_count,vg_extent_size")
        return {self._place(self.shell(f"cat /sys/class/block/{row['pv_name'].removeprefix('/dev/')}/dev")).disk: row for row in rows}

    def lvs(self, vg: str) -> dict[str, dict[str, str]]:
        """Logical volumes of a group by name."""
        return {row["lv_name"]: row for row in self.report("lvs", "lv_name,segtype,stripes,stripe_size,lv_size", "--segments", vg)}

    def _place(self, devno: str) -> Leg:
        """The whole disk behind MAJOR:MINOR, and where on it that device begins."""
        at = f"/sys/dev/block/{devno.strip()}"
        path, start = self.shell(f"realpath {at}; cat {at}/start 2>/dev/null || echo 0").split()
        name = PurePosixPath(path).parent.name if int(start) else PurePosixPath(path).name
        return Leg(self.serials[name], int(start) * SECTOR)

    def mapping(self, name: str) -> Mapping:
        """A striped device that is mapped in one piece: `0 SIZE striped LEGS STRIPE DEVNO START …`, in sectors."""
        (line,) = self.shell(f"dmsetup table {name}").splitlines()
        first, size, target, count, stripe, *rest = line.split()
        assert (first, target, len(rest)) == ("0", "striped", 2 * int(count))
        legs = []
        for devno, start in zip(rest[::2], rest[1::2], strict=True):
            place = self._place(devno)
            legs.append(Leg(place.disk, place.start + int(start) * SECTOR))
        return Mapping(int(size) * SECTOR, int(stripe) * SECTOR, tuple(legs))

    # --- filesystems and mounts

    def superblock(self, device: str) -> dict[str, str]:
        """What dumpe2fs says of a filesystem, by its own words."""
        lines = (line.partition(":") for line in self.shell(f"dumpe2fs -h {device} 2>/dev/null").splitlines())
        return {key.strip(): value.strip() for key, _colon, value in lines}

    def itables_not_zeroed(self, device: str) -> int:
        """Block groups whose inode table is left to the kernel's lazy initialisation."""
        return int(self.shell(f"dumpe2fs {device} 2>/dev/null | grep '^Group [0-9]' | grep -c -v ITABLE_ZEROED || true"))

    def mount(self, target: str) -> dict[str, str]:
        """The kernel's row of a mount."""
        (row,) = self.json(f"findmnt --kernel --json --mountpoint {target} --output TARGET,SOURCE,FSTYPE,OPTIONS,UUID")["filesystems"]
        return dict(row)

    @cached_property
    def fstab(self) -> dict[str, list[str]]:
        """The fields of every line of fstab, by mount point."""
        lines = (line.split() for line in self.shell("cat /etc/fstab").splitlines() if line.strip() and not line.startswith("#"))
        return {fields[1]: fields for fields in lines}

    def attributes_below(self, target: str) -> str:
        """The attributes of the directory that a mount hides: looked at through a second view of the root filesystem."""
        view = "/tmp/below"
        script = f"mkdir -p {view}; mount --bind / {view}; lsattr -d {view}{target} || true; umount {view}; rmdir {view}"
        return self.run(script).split()[0]

    def new_file(self, path: str, size: int) -> Extent:
        """Write random bytes to a file, past the cache; its first extent."""
        write = f"dd if=/dev/urandom of={path} bs={size} count=1 oflag=direct iflag=fullblock status=none; sync {path}"
        lines = self.run(f"{write}; filefrag -b1 -e -s {path}").splitlines()
        first = next(line for line in lines if line.split(":")[0].strip() == "0")
        _number, _logical, physical, length, *_flags = (field.strip() for field in first.split(":"))
        return Extent(int(physical.split("..")[0]), int(length))
