# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the health of a host's drives is to be read before a plan is carried out, or since the last reading is old. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import worst_level
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.checks import check_keys, choice
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.last_reading import VALID_SECONDS, LastReading
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Plan, StackPlan

GATES = ("fail", "warn", "off")
NO_READING: dict[str, Any] = {"due": False, "state": "", "stacks": []}
# The options of drive_health that a user may give for all roles. The module itself checks their values.
_KEYS = ("gate", "devices", "members", "timeout", "endurance", "advisories", "leave_out")
# The disks that say anything of their health. A virtio disk or a loop device has none.
_DRIVE = re.compile(r"sd[a-z]+|nvme\d+n\d+|mmcblk\d+")


def read_gate(raw: Any) -> str:
    """``plumbline_health`` → its gate. Raises PlumblineError for a key or a gate that is not known."""
    entry = check_keys(raw, _KEYS, "plumbline_health")
    gate = entry.get("gate", "fail")
    return "off" if gate is False else choice(gate, GATES, "plumbline_health.gate")  # YAML reads off as false


def needed_reading(plan: Plan, seen: Observation, last: Mapping[str, LastReading], now: int) -> tuple[dict[str, Any], list[str]]:
    """(what a module returns of the gate, warnings from the last reading). *last*: by the identity of a disk.

    Before a step, the drives are read in any case. On a host in the desired state they are read once a day.
    """
    drives = [(stack, _drives(stack, seen)) for stack in plan.stacks]
    keys = sorted({node.identity.key for _stack, nodes in drives for node in nodes})
    kept = [last[key] for key in keys if key in last and 0 <= now - last[key].when < VALID_SECONDS]
    due = bool(keys) and (bool(plan.steps) or len(kept) < len(keys))
    result = {
        "due": due,
        "state": _state(kept if len(kept) == len(keys) else [], now) if keys else "",
        "stacks": [_stack(stack, nodes) for stack, nodes in drives if nodes],
    }
    return result, [] if due else ["%s: %s" % (_state([reading], now), text) for reading in kept for text in reading.findings]


def needs_smartctl(gate: Mapping[str, Any]) -> bool:
    """Whether the reading that is due asks a drive that only smartctl can ask."""
    return bool(gate["due"]) and any(device.startswith("/dev/sd") for stack in gate["stacks"] for device in stack["devices"])


def _drives(stack: StackPlan, seen: Observation) -> list[Node]:
    disks = {disk.devno: disk for leg in stack.legs for disk in seen.disk_of(leg.devno)}
    return [disk for disk in disks.values() if _DRIVE.fullmatch(disk.name) and not disk.identity.test]


def _stack(stack: StackPlan, nodes: Sequence[Node]) -> dict[str, Any]:
    """A stack as drive_health takes it."""
    return {
        "name": stack.spec.name,
        "devices": [node.path for node in nodes],
        "new": any(step["action"] == "partition" for step in stack.steps),
        "power_loss_protection": bool(stack.spec.power_loss_protection),
    }


def _state(kept: Sequence[LastReading], now: int) -> str:
    """The last readings in one line, for people."""
    if not kept:
        return "drives: no reading of their health that is at most a day old"
    age = now - min(reading.when for reading in kept)
    level = worst_level([reading.level for reading in kept])
    return "drives: health read %s ago, %s" % ("%d h" % (age // 3600) if age >= 3600 else "%d min" % (age // 60), level)
