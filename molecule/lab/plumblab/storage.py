# SPDX-License-Identifier: GPL-3.0-or-later
"""What lies under a disk: a sparse file, or a simulated SSD's socket."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .disks import Disk
from .errors import LabError
from .paths import LAB, Paths


def _module() -> Any:
    """The simulated SSD's module; it is imported only where a disk asks for one."""
    if str(LAB) not in sys.path:
        sys.path.insert(0, str(LAB))
    try:
        return importlib.import_module("simssd.simssd")
    except ImportError as error:
        raise LabError(f"a disk asks for a simulated SSD, but {LAB}/simssd cannot be loaded: {error}") from error


@contextmanager
def _errors() -> Iterator[Any]:
    """The class SimSSD, its errors turned into the lab's."""
    module = _module()
    try:
        yield module.SimSSD
    except module.SimSSDError as error:
        raise LabError(f"simulated SSD {error}") from error


def simulated_counters(paths: Paths, disk: Disk, reset: bool) -> dict[str, int | None]:
    """A simulated SSD's counters since the last reset."""
    with _errors() as ssd:
        drive = ssd.open(paths.disks, disk.name)
        found = dict(drive.counters())
        if reset:
            drive.reset()
        return found


def change_simulated(paths: Paths, disk: Disk, settings: dict[str, str]) -> dict[str, Any]:
    """Change parameters of a simulated SSD while it runs; all its settings after that."""
    if disk.simulated is None:
        raise LabError(f"disk {disk.name} is not a simulated SSD")
    with _errors() as ssd:
        drive = ssd.open(paths.disks, disk.name)
        for key, value in settings.items():
            drive.set(key, value)
        return dict(drive.settings())


def file_of(paths: Paths, disk: Disk) -> Path:
    """The sparse file of a plain disk."""
    return paths.disks / f"{disk.name}.raw"


def prepare(paths: Paths, disk: Disk, fresh: bool) -> tuple[Path | None, Path | None]:
    """(file, None) or (None, socket) for a disk; `fresh` empties it first."""
    paths.disks.mkdir(parents=True, exist_ok=True)
    if disk.simulated is not None:
        return None, _start(paths, disk, fresh)
    path = file_of(paths, disk)
    if fresh:
        path.unlink(missing_ok=True)
    with open(path, "ab") as handle:
        if handle.tell() not in (0, disk.size_bytes):
            raise LabError(f"disk {disk.name}: its contents are {handle.tell()} B, declared are {disk.size_bytes} B; attach it with --fresh")
        handle.truncate(disk.size_bytes)
    return path, None


def _start(paths: Paths, disk: Disk, fresh: bool) -> Path:
    """The NBD socket of a simulated SSD, started where it does not run; its medium is kept unless `fresh`."""
    with _errors() as ssd:
        if (paths.disks / f"{disk.name}.json").exists():
            old = ssd.open(paths.disks, disk.name)
            same = old.size_bytes == disk.size_bytes and dict(old.parameters) == disk.simulated
            if old.pid is not None and same and not fresh:
                return Path(old.socket)
            old.stop()
        return Path(ssd.start(paths.disks, disk.name, disk.size_bytes, disk.simulated, fresh=fresh).socket)


def power_cut(paths: Paths, disks: Iterable[Disk]) -> None:
    """Take the volatile caches of the simulated SSDs away."""
    for disk in disks:
        if disk.simulated is not None:
            with _errors() as ssd:
                ssd.open(paths.disks, disk.name).power_cut()


def discard(paths: Paths, disk: Disk) -> None:
    """Throw a disk's contents away."""
    if disk.simulated is not None and (paths.disks / f"{disk.name}.json").exists():
        with _errors() as ssd:
            ssd.open(paths.disks, disk.name).stop()
    for left in paths.disks.glob(f"{disk.name}.*"):
        left.unlink(missing_ok=True)


def discard_unknown(paths: Paths, known: Iterable[Disk]) -> None:
    """Throw away plain files that an attachment which failed has left."""
    keep = {file_of(paths, disk) for disk in known}
    for path in paths.disks.glob("*.raw"):
        if path not in keep:
            path.unlink()
