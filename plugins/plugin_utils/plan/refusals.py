# SPDX-License-Identifier: GPL-3.0-or-later
"""How a plan refuses: a device, its contents, or what could only be rebuilt. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ownership
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lost_data import lost_reasons
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase as judge_erase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Leg, StackPlan


def not_kept(plan: StackPlan, seen: Observation) -> list[str]:
    """The devices of a stack that carry nothing of ours, or something of ours that was lost: what they hold is erased only where the spec says so."""
    name = plan.spec.name
    return [leg.devno for leg in plan.legs if not ownership.is_ours(seen.tables.get(leg.devno), name) or lost_reasons(seen, leg.devno)]


def refuse_absent(plan: StackPlan, seen: Observation, path: str) -> None:
    """Refuse a device that the host does not have, and name those that may have been meant."""
    disks = {node.devno for node in seen.nodes.values() if node.kind == "disk"}
    near = nearest(path.rsplit("/", 1)[-1], sorted(link for link, number in seen.links.items() if number in disks))
    plan.refuse("device %s is not there%s; names are those below /dev/disk/by-id", path, near)


def refuse(plan: StackPlan, seen: Observation, leg: Leg, reasons: Sequence[Reason]) -> None:
    """Refuse a leg for these reasons, if there are any, and say what would free it, if anything does."""
    for reason in reasons:
        plan.refuse("%s", reason.line(name_device(seen, leg.devno)))
    offer_erase(plan, seen, [leg] if reasons else [])


def refuse_contents(plan: StackPlan, seen: Observation, legs: Sequence[Leg], reasons: Sequence[Reason]) -> None:
    """The same for a partition or a volume of ours on these *legs*; the reasons name it."""
    for reason in reasons:
        plan.refuse("%s", reason.words)
    offer_erase(plan, seen, legs if reasons else [])
    for leg in legs if reasons else []:
        for reason in leg.misfit:
            plan.refuse("%s", reason.line(name_device(seen, leg.devno)))


def offer_erase(plan: StackPlan, seen: Observation, legs: Sequence[Leg]) -> None:
    for leg in legs:
        offered = judge_erase.offer(seen, leg.devno, not_kept(plan, seen))
        if offered:
            plan.refuse("%s: %s [erase]", name_device(seen, leg.devno), offered)


def name_device(seen: Observation, devno: str) -> str:
    return device_label(seen.nodes[devno])


def refuse_rebuild(plan: StackPlan, what: str, has: str, specified: str) -> None:
    plan.refuse("%s has %s; wanted %s; this can only be rebuilt, which is never done here", what, has, specified)
