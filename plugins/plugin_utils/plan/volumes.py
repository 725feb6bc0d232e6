# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack's volumes: their devices, their legs, and the identifiers that are made before they are. Pure."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_GUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import md_uuid
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Leg, PlannedVolume, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Volume

_NAMESPACE = uuid.UUID("6f0f5a3e-52c8-5a55-9a5c-2f7f5a1b7d10")  # of the identifiers made here


def partition_guid(stack: str, key: str, index: int) -> str:
    """The unique GUID of a leg's partition, made before it is written, from the device's own identity."""
    return str(uuid.uuid5(_NAMESPACE, "partition/%s/%d/%s" % (stack, index, key))).upper()


def array_uuid(stack: str, keys: Sequence[str]) -> str:
    """The UUID of a mirrored stack's array, made before it is, from the identities of its devices. It stays when a device is replaced."""
    return md_uuid(uuid.uuid5(_NAMESPACE, "array/%s/%s" % (stack, "|".join(keys))).hex)


def filesystem_uuid(stack: str, volume: str, keys: Sequence[str]) -> str:
    """The UUID of a volume's filesystem, made before mkfs, from the identities of its devices."""
    return str(uuid.uuid5(_NAMESPACE, "filesystem/%s/%s/%s" % (stack, volume, "|".join(sorted(keys)))))


def guid_of_leg(leg: Leg, stack: str, key: str) -> str:
    """The unique GUID of a leg's partition: as it stands, or as it will be."""
    return leg.entry.guid if leg.entry else partition_guid(stack, key, leg.index)


def part_path(leg: Leg, stack: str, key: str) -> str:
    return BY_GUID + guid_of_leg(leg, stack, key).lower()


def disk_fields(plan: StackPlan, node: Node, leg: Leg) -> dict[str, Any]:
    """What a step has of a disk, so that the module finds it again and knows it from another that came in its place."""
    return {
        "device": node.path,
        "identity": node.identity.key,
        "test_identity": node.identity.test,
        "serial": node.identity.serial,
        "model": node.identity.model,
        "diskseq": node.diskseq,
        "size_bytes": node.size,
        "logical_bytes": leg.geometry.logical_bytes,
        "start_bytes": leg.start,
        "guid": guid_of_leg(leg, plan.spec.name, node.identity.key),
        "full_proof": plan.spec.blank_proof == "full",
    }


def place_volumes(plan: StackPlan, seen: Observation) -> list[PlannedVolume]:
    """The volumes of a stack whose legs are known and numbered."""
    return [_placed(plan, seen, number, volume) for number, volume in enumerate(plan.spec.volumes)]


def _placed(plan: StackPlan, seen: Observation, number: int, volume: Volume) -> PlannedVolume:
    spec = plan.spec
    legs = plan.ordered
    if spec.grouped:
        device, node = "/dev/%s/%s" % (spec.name, volume.name), seen.lv_node(spec.name, volume.name)
    else:
        legs = [legs[number]]
        device, node = part_path(legs[0], spec.name, seen.nodes[legs[0].devno].identity.key), legs[0].node
    found = seen.filesystems.get(node.devno) if node else None
    disks = [seen.nodes[leg.devno].identity for leg in legs]
    return PlannedVolume(
        spec=volume,
        device=device,
        node=node,
        legs=legs,
        uuid=found.uuid if found else filesystem_uuid(spec.name, volume.name, [one.key for one in disks]),
        made=found.made if found else 0,
        protected=all(one.serial in spec.power_loss_protection for one in disks),
        stripe=plan.stripe,
        width=plan.width if spec.grouped else 1,
        data_legs=plan.data_legs if spec.grouped else 1,
    )
