# SPDX-License-Identifier: GPL-3.0-or-later
"""What the lab remembers between two calls: the machine's shape and its disks."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from .disks import Disk, parse
from .paths import Paths


@dataclass
class State:
    """`attached` and `stored` hold declarations (see disks.py); `slots` is for the attached ones only.

    `stored` are detached disks whose contents are kept. `bases` are the counter
    readings at the last reset, per disk. `image` is the folder of the image below
    the overlay: an overlay never changes its base, even if the recipe does.
    """

    suite: str = "bookworm"
    image: str | None = None
    cloud_image: str | None = None
    accel: str = "tcg"
    memory_mib: int = 2048
    ssh_port: int = 0
    attached: list[dict[str, Any]] = field(default_factory=list)
    stored: list[dict[str, Any]] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    bases: dict[str, dict[str, int | None]] = field(default_factory=dict)

    def disks(self) -> list[Disk]:
        """The attached disks."""
        return [parse(entry) for entry in self.attached]

    def stored_disks(self) -> list[Disk]:
        """The detached disks whose contents are kept."""
        return [parse(entry) for entry in self.stored]

    def plug(self, disk: Disk, slot: int) -> None:
        """Remember a disk as attached."""
        self.stored = [entry for entry in self.stored if entry["name"] != disk.name]
        self.attached.append(disk.to_json())
        self.slots[disk.name] = slot
        self.bases.pop(disk.name, None)

    def unplug(self, disk: Disk) -> None:
        """Remember a disk as detached, its contents kept."""
        self.attached = [entry for entry in self.attached if entry["name"] != disk.name]
        self.stored.append(disk.to_json())
        self.slots.pop(disk.name, None)
        self.bases.pop(disk.name, None)

    def resize(self, disk: Disk) -> None:
        """Remember the new size of an attached disk. Its counters go on."""
        self.attached = [disk.to_json() if entry["name"] == disk.name else entry for entry in self.attached]


def load(paths: Paths) -> State | None:
    """The remembered state; None where no machine was ever started."""
    try:
        text = paths.state.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    known = {one.name for one in fields(State)}  # a machine that another version left behind may say more
    return State(**{key: value for key, value in json.loads(text).items() if key in known})


def save(paths: Paths, state: State) -> None:
    """Replace the state file in one step."""
    temporary = paths.state.with_suffix(".new")
    temporary.write_text(json.dumps(asdict(state), indent=1) + "\n", encoding="utf-8")
    temporary.rename(paths.state)


@contextmanager
def exclusive(paths: Paths) -> Iterator[None]:
    """One call at a time changes the lab; a second one waits."""
    paths.cache.mkdir(parents=True, exist_ok=True)
    with open(paths.lock, "w", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
