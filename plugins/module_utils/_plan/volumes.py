# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack's volumes: their devices, their legs, and the identifiers that are made before they are. Pure."""

from __future__ import annotations

import uuid
from typing import List, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._model.device_links import BY_GUID
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.plan_model import Leg, StackPlan
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.spec import Volume

_NAMESPACE = uuid.UUID("6f0f5a3e-52c8-5a55-9a5c-2f7f5a1b7d10")  # of the identifiers made here


def partition_guid(stack: str, key: str, index: int) -> str:
    """The unique GUID of a leg's partition, made before it is written, from the device's own identity."""
    return str(uuid.uuid5(_NAMESPACE, "partition/%s/%d/%s" % (stack, index, key))).upper()


def filesystem_uuid(stack: str, volume: str, keys: Sequence[str]) -> str:
    """The UUID of a volume's filesystem, made before mkfs, from the identities of its devices."""
    return str(uuid.uuid5(_NAMESPACE, "filesystem/%s/%s/%s" % (stack, volume, "|".join(sorted(keys)))))


def part_path(leg: Leg, stack: str, key: str) -> str:
    guid = leg.entry.guid if leg.entry else partition_guid(stack, key, leg.index)
    return BY_GUID + guid.lower()


def volume_device(plan: StackPlan, seen: Observation, number: int, volume: Volume) -> Tuple[str, Optional[Node]]:
    if plan.spec.grouped:
        return "/dev/%s/%s" % (plan.spec.name, volume.name), seen.lv_node(plan.spec.name, volume.name)
    leg = sorted(plan.legs, key=lambda one: one.index)[number]
    return part_path(leg, plan.spec.name, seen.nodes[leg.devno].identity.key), leg.node


def volume_devices(plan: StackPlan, seen: Observation) -> List[str]:
    """The stable path of each volume's device, in the order of the spec."""
    return [volume_device(plan, seen, number, volume)[0] for number, volume in enumerate(plan.spec.volumes)]


def volume_protections(plan: StackPlan, seen: Observation) -> List[bool]:
    """Whether somebody states power-loss protection of all drives below each volume."""
    stated = plan.spec.power_loss_protection
    numbers = range(len(plan.spec.volumes))
    return [all(seen.nodes[leg.devno].identity.serial in stated for leg in volume_legs(plan, number)) for number in numbers]


def volume_births(plan: StackPlan, seen: Observation) -> List[int]:
    """When the filesystem of each volume was made, in seconds since 1970; 0 where there is none."""
    nodes = [volume_device(plan, seen, number, volume)[1] for number, volume in enumerate(plan.spec.volumes)]
    found = [seen.filesystems.get(node.devno) if node else None for node in nodes]
    return [one.made if one else 0 for one in found]


def volume_legs(plan: StackPlan, number: int) -> List[Leg]:
    ordered = sorted(plan.legs, key=lambda one: one.index)
    return ordered if plan.spec.grouped else [ordered[number]]


def volume_uuid(plan: StackPlan, seen: Observation, number: int) -> str:
    """The UUID of a volume's filesystem: its own, or the one that it will get."""
    volume = plan.spec.volumes[number]
    _device, node = volume_device(plan, seen, number, volume)
    found = seen.filesystems.get(node.devno) if node else None
    keys = [seen.nodes[leg.devno].identity.key for leg in volume_legs(plan, number)]
    return found.uuid if found else filesystem_uuid(plan.spec.name, volume.name, keys)
