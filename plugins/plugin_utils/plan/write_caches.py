# SPDX-License-Identifier: GPL-3.0-or-later
"""The step that sets the write caches of a host. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, WriteCache, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.command import TOOLS, bus_word
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import POWER_CUT
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.rules import endangers, judge_wanted, sharing_reason
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import cache_device, write_cache_step
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import StackPlan


class Wish(NamedTuple):
    """One device of a stack with the state that is asked, and how its refusals and steps are headed.

    *accepted*: the stack accepts what a power cut takes; *stated*: the operator says that the drive is protected against it.
    """

    stack: str
    devno: str
    state: str
    accepted: bool = False
    stated: bool = False


def plan_caches(seen: Observation, wishes: Sequence[Wish]) -> tuple[dict[str, Any] | None, dict[str, list[str]]]:
    """The step of a host, or none; and by stack the refusals.

    What is kept over reboots (``seen.kept``) counts as much as the state itself.
    """
    refusals: dict[str, list[str]] = {}
    devices: list[dict[str, Any]] = []
    states = {wish.devno: wish.state for wish in wishes}
    for wish in wishes:
        node = seen.nodes[wish.devno]
        kept = seen.kept.get(node.identity.key)
        cache = seen.caches.get(wish.devno, WriteCache(fault="it was not asked"))
        if wish.state == "keep":
            if kept is not None:
                devices.append(_device(node, "keep"))
            continue
        verdict = judge_wanted(wish.state, cache, node.write_cache, kept == wish.state)
        if verdict.refusal:
            refusals.setdefault(wish.stack, []).append("%s: %s" % (device_label(node), verdict.refusal))
            continue
        reason = sharing_reason(seen, wish.devno, states) if verdict.keepable else ""
        reason = reason or endangers(seen, wish.devno, cache, wish.state, wish.accepted or wish.stated)
        if reason:
            refusals.setdefault(wish.stack, []).append(reason)
            continue
        if verdict.set or verdict.rescan or (kept != wish.state if verdict.keepable else kept is not None):
            devices.append(_device(node, wish.state, [POWER_CUT] if wish.accepted and wish.state == "on" else ()))
    if not devices:
        return None, refusals
    words = ["%s %s" % (device["device"].rsplit("/", 1)[-1], device["state"]) for device in devices]
    stated = sorted({seen.nodes[wish.devno].identity.serial for wish in wishes if wish.stated})
    return write_cache_step(devices, stated, "write cache: %s" % ", ".join(words)), refusals


def _device(node: Node, state: str, accept: Sequence[str] = ()) -> dict[str, Any]:
    return cache_device(node.path, node.identity.key, node.identity.serial, state, accept)


def step_tools(seen: Observation, step: Mapping[str, Any]) -> list[str]:
    """The tools that a step runs."""
    by_path = {node.path: node for node in seen.nodes.values()}
    tools = [TOOLS[bus_word(by_path[device["device"]])] for device in step["devices"] if device["state"] != "keep"]
    return list(dict.fromkeys(tools))


def plan_caches_of_stacks(plans: Sequence[StackPlan], seen: Observation) -> dict[str, Any] | None:
    """The step of the whole host: a controller's cache is that of all namespaces behind it, in whichever stacks they are."""
    wishes = [
        Wish(
            plan.spec.name,
            leg.devno,
            plan.spec.write_cache,
            POWER_CUT in plan.spec.accept,
            seen.nodes[leg.devno].identity.serial in plan.spec.power_loss_protection,
        )
        for plan in plans
        for leg in plan.legs
    ]
    step, refusals = plan_caches(seen, wishes)
    for plan in plans:
        for reason in refusals.get(plan.spec.name, []):
            plan.refuse("%s", reason)
    return step
