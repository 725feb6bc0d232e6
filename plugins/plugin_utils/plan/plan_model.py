# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is: the legs of a stack, its steps, and the reasons against it. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Accepted, Node, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import GROW_FILESYSTEM, merge_mount_steps
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import DeviceName, Stack, Volume


class WantedReserve(NamedTuple):
    """What a goal comes to on a device: a share and as many bytes, why, and the write amplification that is expected with it."""

    share: float
    kept: int
    why: str
    amplification: str

    @property
    def text(self) -> str:
        return "%.1f %% (%s)" % (100 * self.share, self.why)


@dataclass
class Leg:
    """One device of a stack with what is wanted of it and what is there."""

    devno: str
    index: int
    geometry: Geometry
    start: int = 0
    size: int = 0
    entry: TableEntry | None = None  # our partition, if it is in the table
    node: Node | None = None  # our partition, if the kernel shows it
    restores: TableEntry | None = None  # our partition, if the first copy of the table is damaged, and the backup has it
    discards: bool = False  # this plan discards all of it before its table is written
    erase: str = ""  # the digest of its contents, where they are to go first
    removes: list[str] = field(default_factory=list)  # what goes then
    doubts: list[Reason] = field(default_factory=list)  # against it, unless what it holds is a table of ours that was cut off
    misfit: list[Reason] = field(default_factory=list)  # an erase was asked for, of other contents than these
    wanted: WantedReserve | None = None  # what the goal of the reserve comes to here
    fault: str = ""  # why it comes to nothing, on a leg that stands
    spare: int = 0  # bytes that its partition is smaller than device and reserve allow
    grows: bool = False  # its table, its partition or what the kernel knows of that is behind
    reserve_words: str = ""  # of the reserve, for people


@dataclass
class Carrier:
    """What a PV is made on: the partition of a leg, or the array over those of all legs."""

    path: str  # the stable one
    name: str  # for people
    legs: list[Leg]
    node: Node | None  # if the kernel shows it
    size: int  # bytes, when the steps before are carried out
    now: int  # bytes, as it stands
    spare: int = 0  # bytes that it is smaller than its devices and their reserves allow
    grows: bool = False


@dataclass
class PlannedVolume:
    """A volume on its legs: planned once, and read by the later steps, the drawing and the proof."""

    spec: Volume
    device: str  # its stable path
    node: Node | None  # the device, if the kernel shows it
    legs: list[Leg]
    uuid: str  # of its filesystem: its own, or the one that it will get
    made: int  # when its filesystem was made, in seconds since 1970; 0 where there is none
    protected: bool  # whether somebody states power-loss protection of all drives below it
    stripe: int  # bytes: the stack's, or that of an LV which stands with another; 0 without stripes
    size: int = 0  # bytes, of an LV
    width: int = 1  # PVs that one stripe goes over
    data_legs: int = 1  # legs in a row of stripes, where copies count once

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def stride(self) -> int:
        """Blocks on each leg: its stripe. Without stripes it is the grain, so that mke2fs never takes a device's own fill value instead."""
        return max((self.stripe or self.legs[0].geometry.grain_bytes) // self.spec.kind.block, 1)

    @property
    def stripe_width(self) -> int:
        """Blocks on all legs of a row together."""
        return self.stride * self.data_legs


@dataclass
class StackPlan:
    """One stack: its steps, the reasons against it, and what is worth a word."""

    spec: Stack
    legs: list[Leg] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)  # on devices that nothing of ours stands on yet, and on the reserve of those that stand
    notes: list[str] = field(default_factory=list)  # for the report
    stripe: int = 0
    extent: int = 0
    grain: int = 0
    data_start: int = 0  # of a PV, on what carries it
    array_offset: int = 0  # of the array of a mirrored stack, on its members
    missing: list[DeviceName] = field(default_factory=list)  # devices of a mirrored stack that are not there
    members: list[Leg] = field(default_factory=list)  # of a mirrored stack whose array is whole: its legs by their places there
    carriers: list[Carrier] = field(default_factory=list)  # by the numbers of their legs
    volumes: list[PlannedVolume] = field(default_factory=list)  # in the order of the spec
    accepted: list[Accepted] = field(default_factory=list)  # the risks of its mounts that are explicitly accepted
    host_mounts: Mapping[str, Volume] = field(default_factory=dict)  # the mount points of all stacks
    carries_on: bool = False  # an mkfs of ours was cut off: what it left is no empty volume, to which a measurement might write
    planned: list[str] = field(default_factory=list)  # the actions that were looked at: planning may stop at a layer

    @property
    def row_legs(self) -> int:
        """Legs of a row: each volume lies on those of one row, and then of the next."""
        return (self.spec.stripes or len(self.legs)) if self.spec.laid.striped else 1

    @property
    def width(self) -> int:
        """PVs of a row, over which each volume is striped. A mirrored stack has one, whose array deals the bytes out."""
        return 1 if self.spec.mirror else self.row_legs

    @property
    def data_legs(self) -> int:
        """Legs of a row, where those that hold the same count once."""
        return self.row_legs // self.spec.laid.copies if self.spec.laid.striped else 1

    @property
    def ordered(self) -> list[Leg]:
        """The legs by their numbers."""
        return sorted(self.legs, key=lambda one: one.index)

    @property
    def rows(self) -> list[list[Leg]]:
        legs = self.ordered
        return [legs[at : at + self.row_legs] for at in range(0, len(legs), self.row_legs)]

    @property
    def carrier_rows(self) -> list[list[Carrier]]:
        return [self.carriers[at : at + self.width] for at in range(0, len(self.carriers), self.width)]

    def refuse(self, text: str, *values: object) -> None:
        """A reason against the stack, with values in its text as % puts them there."""
        self.refusals.append("%s: %s" % (self.spec.name, text % values))

    def warn(self, text: str, *values: object) -> None:
        self.warnings.append("%s: %s" % (self.spec.name, text % values))


@dataclass
class Plan:
    """The plan of a host."""

    stacks: list[StackPlan]
    missing_packages: list[str]
    cache_step: dict[str, Any] | None = None

    @property
    def steps(self) -> list[dict[str, Any]]:
        """What is to be done, in order; the write caches of all stacks are one step, the first, and their mounts one.

        The filesystems that grow come behind it: they are grown while they are mounted.
        """
        steps = [] if self.refusals else ([self.cache_step] if self.cache_step else []) + [step for stack in self.stacks for step in stack.steps]
        mounts, grown = ([step for step in steps if step["action"] == action] for action in ("mount", GROW_FILESYSTEM))
        others = [step for step in steps if step["action"] not in ("mount", GROW_FILESYSTEM)]
        return others + ([merge_mount_steps(mounts)] if mounts else []) + grown

    @property
    def refusals(self) -> list[str]:
        return [refusal for stack in self.stacks for refusal in stack.refusals]

    @property
    def warnings(self) -> list[str]:
        return [warning for stack in self.stacks for warning in stack.warnings]

    @property
    def findings(self) -> list[Finding]:
        return [finding for stack in self.stacks for finding in stack.findings]

    @property
    def digest(self) -> str:
        """Names this plan: the same steps on the same devices give the same digest."""
        import hashlib  # pylint: disable=import-outside-toplevel # costs more than the rest of a plan without steps

        return hashlib.sha256(json.dumps(self.steps, sort_keys=True).encode()).hexdigest()
