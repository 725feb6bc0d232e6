# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is: the legs of a stack, its steps, and the reasons against it. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._judge.findings import Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._model.geometry import Geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Accepted, Node, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.spec import Stack, Volume
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.steps import merge_mount_steps


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
    entry: Optional[TableEntry] = None  # our partition, if it is in the table
    node: Optional[Node] = None  # our partition, if the kernel shows it
    discards: bool = False  # this plan discards all of it before its table is written
    erase: str = ""  # the digest of its contents, where they are to go first
    removes: List[str] = field(default_factory=list)  # what goes then
    doubts: List[Reason] = field(default_factory=list)  # against it, unless what it holds is a table of ours that was cut off
    misfit: List[Reason] = field(default_factory=list)  # an erase was asked for, of other contents than these
    wanted: Optional[WantedReserve] = None  # what the goal of the reserve comes to here
    fault: str = ""  # why it comes to nothing, on a leg that stands
    reserve_words: str = ""  # of the reserve, for people


BLOCK = 4096  # ext4's block size, always


@dataclass
class PlannedVolume:
    """A volume on its legs: planned once, and read by the later steps, the drawing and the proof."""

    spec: Volume
    device: str  # its stable path
    node: Optional[Node]  # the device, if the kernel shows it
    legs: List[Leg]
    uuid: str  # of its filesystem: its own, or the one that it will get
    made: int  # when its filesystem was made, in seconds since 1970; 0 where there is none
    protected: bool  # whether somebody states power-loss protection of all drives below it
    stripe: int  # bytes: the stack's, or that of an LV which stands with another; 0 without stripes
    size: int = 0  # bytes, of an LV

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def stride(self) -> int:
        """Blocks on each leg: its stripe. Without stripes it is the grain, so that mke2fs never takes a device's own fill value instead."""
        return max((self.stripe or self.legs[0].geometry.grain_bytes) // BLOCK, 1)

    @property
    def stripe_width(self) -> int:
        """Blocks on all legs together."""
        return self.stride * len(self.legs)


@dataclass
class StackPlan:
    """One stack: its steps, the reasons against it, and what is worth a word."""

    spec: Stack
    legs: List[Leg] = field(default_factory=list)
    steps: List[Dict[str, Any]] = field(default_factory=list)
    refusals: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    findings: List[Finding] = field(default_factory=list)  # on devices that nothing of ours stands on yet, and on the reserve of those that stand
    notes: List[str] = field(default_factory=list)  # for the report
    stripe: int = 0
    extent: int = 0
    grain: int = 0
    data_start: int = 0
    volumes: List[PlannedVolume] = field(default_factory=list)  # in the order of the spec
    accepted: List[Accepted] = field(default_factory=list)  # the risks of its mounts that somebody's word allows
    host_mounts: Mapping[str, Volume] = field(default_factory=dict)  # the mount points of all stacks
    planned: List[str] = field(default_factory=list)  # the actions that were looked at: planning may stop at a layer


@dataclass
class Plan:
    """The plan of a host."""

    stacks: List[StackPlan]
    missing_packages: List[str]
    cache_step: Optional[Dict[str, Any]] = None

    @property
    def steps(self) -> List[Dict[str, Any]]:
        """What is to be done, in order; the write caches of all stacks are one step, the first, and their mounts one, the last."""
        steps = [] if self.refusals else ([self.cache_step] if self.cache_step else []) + [step for stack in self.stacks for step in stack.steps]
        mounts = [step for step in steps if step["action"] == "mount"]
        return [step for step in steps if step["action"] != "mount"] + ([merge_mount_steps(mounts)] if mounts else [])

    @property
    def refusals(self) -> List[str]:
        return [refusal for stack in self.stacks for refusal in stack.refusals]

    @property
    def warnings(self) -> List[str]:
        return [warning for stack in self.stacks for warning in stack.warnings]

    @property
    def findings(self) -> List[Finding]:
        return [finding for stack in self.stacks for finding in stack.findings]

    @property
    def digest(self) -> str:
        """Names this plan: the same steps on the same devices give the same digest."""
        import hashlib  # pylint: disable=import-outside-toplevel # costs more than the rest of a plan without steps

        return hashlib.sha256(json.dumps(self.steps, sort_keys=True).encode()).hexdigest()
