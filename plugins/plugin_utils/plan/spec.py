# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user asks for, read and checked: stacks, their devices and volumes. Pure data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import Override
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import FilesystemKind
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DEFAULT, FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import EVERYTHING_RANDOM, USUAL_HIDDEN, Workload
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.layouts import LAYOUTS, MIRRORED, Layout

# How long systemd waits for the device of a volume, systemd.mount(5). A missing disk does not stop the boot (nofail), and only what needs the volume
# waits for it. A disk that came after 30 s was not mounted, without a word, and its database not started: a loaded host, a SAN and a large array are slower.
DEVICE_TIMEOUT = "5min"


class DeviceName(NamedTuple):
    """A device as the user named it; *test_identity* stands in for the identity that a loop device lacks."""

    path: str
    test_identity: str = ""


class Selector(NamedTuple):
    """Exactly *wanted* devices must match: model by shell pattern, sizes in bytes (0: no bound)."""

    model: str
    wanted: int
    min_bytes: int = 0
    max_bytes: int = 0


class Erase(NamedTuple):
    """A device that may be erased: its serial, and the digest of its contents that its refusal printed."""

    serial: str
    signature: str


class Replacement(NamedTuple):
    """A member of a mirrored stack and what takes its place, by their serials. The same twice: one that was away is taken back in."""

    old: str
    new: str


class MeasuredReserve(NamedTuple):
    """A *share* of the capacity that was measured to be enough, on drives of one model and firmware, and the write amplification with it (0: not counted).

    *host* measured it on *day*; empty where the file does not say.
    """

    model: str
    firmware: str
    share: float
    wa: float = 0.0
    host: str = ""
    day: str = ""

    @property
    def by(self) -> str:
        return (" by " + self.host if self.host else "") + (" on " + self.day if self.day else "")


class ReserveGoal(NamedTuple):
    """What a reserve is to be enough for. Exactly one of *wa*, *years* and *measured* counts; *rated*: bytes that a drive may be written, for *years*."""

    wa: float = 0.0
    years: float = 0.0
    measured: MeasuredReserve | None = None
    rated: int = 0
    hidden: float = USUAL_HIDDEN
    hidden_is_known: bool = False
    workload: Workload = EVERYTHING_RANDOM


class Volume(NamedTuple):
    """One LV (or one partition, layout separate) with its filesystem. Exactly one of *percent*, *size_bytes* counts."""

    name: str
    percent: float
    size_bytes: int
    mount: str
    label: str
    mount_options: tuple[str, ...]
    owner: str
    group: str
    mode: str
    bytes_per_inode: int
    discard: str
    selinux_context: str
    required_by: tuple[str, ...]
    lazy_init: bool
    device_timeout: str = DEVICE_TIMEOUT
    mount_profile: str = ""  # where *mount_options* come from, unless the user wrote them
    filesystem: str = DEFAULT

    @property
    def kind(self) -> FilesystemKind:
        """What is particular to its filesystem."""
        return FILESYSTEMS[self.filesystem]

    @property
    def fstab_options(self) -> str:
        """The options as fstab carries them."""
        return ",".join((*self.mount_options, "nofail", "x-systemd.device-timeout=" + self.device_timeout))


class Stack(NamedTuple):
    """One entry of ``plumbline_stacks``, checked. *stripe_bytes* and *extent_bytes* 0 mean auto."""

    name: str
    devices: tuple[DeviceName, ...]
    selector: Selector | None
    layout: str
    reserve: Mapping[str, float]
    stripe_bytes: int
    extent_bytes: int
    overrides: tuple[Override, ...]
    volumes: tuple[Volume, ...]
    accept: tuple[str, ...]
    blank_proof: str = "sampled"
    legs: int = 0
    write_cache: str = "keep"
    power_loss_protection: tuple[str, ...] = ()  # serials of drives of which the operator states it
    erase: tuple[Erase, ...] = ()
    discard: bool = True  # its devices, when they are partitioned
    goal: ReserveGoal | None = None  # instead of *reserve*, which is empty then
    grow: bool = False  # whether the stack takes in what its devices have more than when they were partitioned
    stripes: int = 0  # legs that a volume is striped over; 0: all. More devices than that are further rows of as many
    mirror: bool = False  # whether each two devices hold the same
    replace: tuple[Replacement, ...] = ()

    @property
    def laid(self) -> Layout:
        """What is particular to its layout."""
        return MIRRORED if self.mirror and self.layout == MIRRORED.name else LAYOUTS[self.layout]

    @property
    def grouped(self) -> bool:
        """Whether its volumes are LVs of a volume group of its name, and no partitions."""
        return self.laid.grouped
