# SPDX-License-Identifier: GPL-3.0-or-later
"""What a disk of the lab is: parsing and checking its declaration."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .errors import LabError
from .sizes import to_bytes

BUSES = ("nvme", "sata", "scsi")
_NAME = re.compile(r"[a-z][a-z0-9]{0,15}")
_SERIAL = re.compile(r"[A-Za-z0-9]{1,20}")
_NVME_SERIAL = re.compile(r"[!-~]{1,20}")  # the kernel shows it as it is; of SCSI's it makes plain text
_SIZE_KEYS = ("logical_block_size", "physical_block_size", "min_io_size", "opt_io_size", "discard_granularity")
_KEYS = ("name", "bus", "size", "serial", "model", *_SIZE_KEYS, "write_cache", "simulated", "controller", "eui64")

# What QEMU 7.2 ignores without a word is refused here instead.
_NOT_ON = {
    "nvme": ("model", "physical_block_size", "min_io_size", "opt_io_size"),
    "sata": ("logical_block_size", "min_io_size", "opt_io_size", "controller", "eui64"),
    "scsi": ("controller", "eui64"),
}


@dataclass(frozen=True)
class Disk:
    """One disk; sizes are bytes, None means QEMU's default."""

    name: str
    bus: str
    size_bytes: int
    serial: str
    model: str | None = None
    logical_block_size: int | None = None
    physical_block_size: int | None = None
    min_io_size: int | None = None
    opt_io_size: int | None = None
    discard_granularity: int | None = None
    write_cache: bool | None = None
    simulated: dict[str, Any] | None = field(default=None, hash=False)
    controller: str | None = None
    eui64: str | None = None

    @property
    def boot_only(self) -> bool:
        """QEMU plugs neither SATA disks nor separate NVMe namespaces into a running machine."""
        return self.bus == "sata" or self.controller is not None or self.eui64 is not None

    @property
    def wwn(self) -> int:
        """A stable, unique NAA-5 name made from the serial (SCSI, SATA)."""
        return 0x5 << 60 | int.from_bytes(hashlib.sha256(self.serial.encode()).digest()[:7], "big")

    def to_json(self) -> dict[str, Any]:
        """The declaration that parse() reads back."""
        found: dict[str, Any] = {"name": self.name, "bus": self.bus, "size": self.size_bytes, "serial": self.serial}
        for key in _KEYS[4:]:
            value = getattr(self, key)
            if value is not None:
                found[key] = value
        return found


def parse(entry: Any) -> Disk:
    """One declaration; every error names the disk and the key."""
    if not isinstance(entry, dict):
        raise LabError(f"a disk is a mapping with name, bus, size and serial, not {entry!r}")
    name = entry.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise LabError(f"disk name {name!r}: lower-case letters and digits, at most 16, are wanted")
    for key in entry:
        if key not in _KEYS:
            near = difflib.get_close_matches(str(key), _KEYS, 1)
            raise LabError(f"disk {name}: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(_KEYS)}"))
    bus = entry.get("bus")
    if bus not in BUSES:
        raise LabError(f"disk {name}: bus {bus!r} is not one of {', '.join(BUSES)}")
    serial = entry.get("serial")
    if not isinstance(serial, str) or not (_NVME_SERIAL if bus == "nvme" else _SERIAL).fullmatch(serial):
        raise LabError(f"disk {name}: serial {serial!r}: 1 to 20 letters and digits are wanted, or for nvme any visible characters")
    for key in _NOT_ON[bus]:
        if entry.get(key) is not None:
            raise LabError(f"disk {name}: QEMU has no {key} for {bus} disks" + ("; use scsi" if bus != "scsi" else "; use nvme"))
    sizes = {key: to_bytes(entry[key]) for key in _SIZE_KEYS if entry.get(key) is not None}
    size_bytes = to_bytes(entry.get("size"))
    if size_bytes < 1024**2 or size_bytes % 4096:
        raise LabError(f"disk {name}: size {size_bytes} B: at least 1 MiB in whole 4 KiB blocks is wanted")
    simulated = entry.get("simulated")
    if simulated is not None and not isinstance(simulated, dict):
        raise LabError(f"disk {name}: simulated takes a mapping of the simulated SSD's parameters, not {simulated!r}")
    eui64 = entry.get("eui64")
    if eui64 is not None and not re.fullmatch(r"[0-9a-fA-F]{16}", str(eui64)):
        raise LabError(f"disk {name}: eui64 {eui64!r}: 16 hex digits are wanted")
    controller = entry.get("controller")
    if controller is not None and not (isinstance(controller, str) and _NAME.fullmatch(controller)):
        raise LabError(f"disk {name}: controller {controller!r}: a name of lower-case letters and digits is wanted")
    model = entry.get("model")
    if model is not None and not (isinstance(model, str) and 0 < len(model) <= (16 if bus == "scsi" else 40)):
        raise LabError(f"disk {name}: model {model!r}: a text of at most {16 if bus == 'scsi' else 40} characters is wanted")
    return Disk(
        name=name,
        bus=bus,
        size_bytes=size_bytes,
        serial=serial,
        model=model,
        controller=controller,
        write_cache=_switch(name, entry.get("write_cache")),
        simulated=simulated,
        eui64=str(eui64).lower() if eui64 is not None else None,
        **sizes,
    )


def _switch(name: str, value: Any) -> bool | None:
    """on/off, as text or as YAML made of it."""
    known = {None: None, True: True, False: False, "on": True, "off": False}
    if isinstance(value, (str, bool, type(None))) and value in known:
        return known[value]
    raise LabError(f"disk {name}: write_cache {value!r} is neither on nor off")


def parse_all(text: str) -> list[Disk]:
    """A JSON list of disks."""
    try:
        entries = json.loads(text)
    except json.JSONDecodeError as error:
        raise LabError(f"the disks are not JSON: {error}") from error
    if not isinstance(entries, list):
        raise LabError(f"a JSON list of disks is wanted, not a {type(entries).__name__}")
    disks = [parse(entry) for entry in entries]
    check_unique(disks)
    return disks


def check_unique(disks: Iterable[Disk]) -> None:
    """Names never repeat; serials only between the namespaces of one controller."""
    names: set[str] = set()
    serials: dict[str, str | None] = {}
    for disk in disks:
        if disk.name in names or disk.controller in names:
            raise LabError(f"the disk name {disk.name} is taken")
        names.add(disk.name)
        if disk.serial in serials and (disk.controller is None or serials[disk.serial] != disk.controller):
            raise LabError(f"disk {disk.name}: the serial {disk.serial} is taken; only namespaces of one controller share it")
        serials[disk.serial] = disk.controller
