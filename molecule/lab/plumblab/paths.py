# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the lab keeps its files: everything it writes is below one cache directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

LAB = Path(__file__).resolve().parent.parent
ALIAS = "plumbline-lab"


@dataclass(frozen=True)
class Paths:
    """All file names of the lab, derived from the cache directory."""

    cache: Path

    @classmethod
    def from_environment(cls) -> Paths:
        """PLUMBLINE_CACHE, else ~/.cache/plumbline."""
        chosen = os.environ.get("PLUMBLINE_CACHE")
        return cls(Path(chosen).resolve() if chosen else Path.home() / ".cache" / "plumbline")

    @property
    def images(self) -> Path:
        return self.cache / "image"

    @property
    def emulators(self) -> Path:
        return self.cache / "qemu"

    @property
    def key(self) -> Path:
        return self.cache / "ssh" / "id_ed25519"

    @property
    def public_key(self) -> Path:
        return self.cache / "ssh" / "id_ed25519.pub"

    @property
    def run(self) -> Path:
        return self.cache / "run"

    @property
    def disks(self) -> Path:
        return self.run / "disks"

    @property
    def ssh_config(self) -> Path:
        return self.run / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        return self.run / "known_hosts"

    @property
    def ssh_control(self) -> Path:
        return self.run / "ssh.ctl"

    @property
    def state(self) -> Path:
        return self.run / "state.json"

    @property
    def lock(self) -> Path:
        return self.cache / "lock"

    @property
    def overlay(self) -> Path:
        return self.run / "root.qcow2"

    @property
    def console(self) -> Path:
        return self.run / "console.log"

    @property
    def log(self) -> Path:
        return self.run / "qemu.log"

    @property
    def qmp(self) -> Path:
        return self.run / "qmp.sock"

    @property
    def pid(self) -> Path:
        return self.run / "qemu.pid"
