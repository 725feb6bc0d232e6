# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person reads of a plan: the stack as a drawing for ``--diff``, and its steps. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import partition_name
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import escape_unprintable
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import state_of
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import GROWTH
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.partitions import carried_bytes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Plan, PlannedVolume, StackPlan


def draw_wanted(plan: StackPlan, seen: Observation) -> list[str]:
    """The stack as the plan would leave it."""
    spec = plan.spec
    grains = {leg.geometry.grain.source for leg in plan.legs}
    shape = spec.laid.of_stack(len(plan.legs), plan.row_legs, plan.stripe)
    lines = ["%s: %s, grain %s (%s)" % (spec.name, shape, human(plan.grain), "; ".join(sorted(grains)))]
    for leg in plan.ordered:
        node = seen.nodes[leg.devno]
        lines.append("  %s  %s  %s  %s" % (node.name, node.identity.model or node.kind, node.identity.serial or "-", human(node.size)))
        lines.append("    %s + %s  partition %s" % (human(leg.start), human(leg.size), partition_name(spec.name, leg.index)))
        words = " " + leg.reserve_words if leg.reserve_words else ""
        lines.append("    %s at the end  reserve%s" % (human(node.size - leg.start - leg.size), words))
    if spec.grouped:
        carrier = "the array" if spec.mirror else "each partition"
        lines += _draw_array(plan) if spec.mirror else []
        lines.append("  VG %s  extents of %s, data at %s of %s" % (spec.name, human(plan.extent), human(plan.data_start), carrier))
    for volume in plan.volumes:
        lines += _draw_volume(plan, volume)
    return lines


def _draw_array(plan: StackPlan) -> list[str]:
    legs = plan.members or plan.ordered
    pairs = [" + ".join(partition_name(plan.spec.name, leg.index) for leg in legs[at : at + 2]) for at in range(0, len(legs), 2)]
    size = carried_bytes(plan, min(leg.size for leg in plan.legs))
    return ["  array %s  RAID 10, chunk %s, data at %s of each partition: %s" % (human(size), human(plan.stripe), human(plan.array_offset), ", ".join(pairs))]


def _draw_volume(plan: StackPlan, planned: PlannedVolume) -> list[str]:
    volume, lines = planned.spec, []
    where = "on LV %s" % planned.name
    if plan.spec.grouped:
        stripes = ", %d stripes of %s" % (planned.width, human(planned.stripe)) if planned.stripe and not plan.spec.mirror else ""
        lines.append("    LV %s  %s%s" % (planned.name, human(planned.size), stripes))
    else:
        where = "on partition %d" % planned.legs[0].index
    kind = volume.kind
    geometry = "blocks of %d, %s" % (kind.block, ", ".join(kind.shape(planned.stride, planned.stripe_width)))
    lines.append("      %s '%s' %s  %s" % (kind.name, volume.label, where, geometry))
    if volume.mount:
        lines.append("      mounted on %s  %s" % (volume.mount, volume.fstab_options))
    return lines


def draw_found(plan: StackPlan, seen: Observation) -> list[str]:
    """The same devices as they are."""
    lines = ["%s:" % plan.spec.name]
    for leg in plan.legs:
        lines.append("  %s" % guards.describe_disk(seen, leg.devno))
        lines += ["    to be erased: %s" % what for what in leg.removes]
    standing_sizes = _draw_standing(plan, seen)
    if standing_sizes:
        return lines + standing_sizes
    remaining = {str(step["action"]) for step in plan.steps}
    standing = [word for action, word in _PARTS if action in plan.planned and action not in remaining]
    return lines + (["  in place: %s" % ", ".join(standing)] if standing else [])


def _draw_standing(plan: StackPlan, seen: Observation) -> list[str]:
    """The sizes of what stands, where some of it grows."""
    if not any(step["action"] in GROWTH for step in plan.steps):
        return []
    lines = []
    for leg in plan.ordered:
        pv = seen.pv(leg.node.devno) if leg.node else None
        carries = ", PV of %d extents of %s" % (pv.extents, human(plan.extent)) if pv and pv.vg else ""
        if leg.entry:
            lines.append("    %s + %s  partition %s%s" % (human(leg.entry.start), human(leg.entry.size), leg.entry.name, carries))
    for planned in plan.volumes:
        lv, made = seen.lv(plan.spec.name, planned.name), seen.filesystems.get(planned.node.devno) if planned.node else None
        lines += ["    LV %s  %s" % (planned.name, human(lv.size))] if lv else []
        lines += ["      %s '%s'  %s" % (made.kind, made.label, human(made.blocks * made.block))] if made else []
    return lines


_PARTS = (
    *(("partition", "partitions"), ("mirror_create", "array"), ("volume_group", "VG"), ("logical_volume", "LVs")),
    *(("filesystem", "filesystems"), ("mount", "mounts")),
)


def diff(plan: Plan, seen: Observation) -> dict[str, str]:
    """``before`` and ``after`` for ``--diff``: the stacks as found, and as the plan would leave them."""
    before, after = draw_caches(plan.cache_step, seen)
    for stack in plan.stacks:
        wanted = draw_wanted(stack, seen) if stack.legs and stack.planned else []
        after += wanted
        before += draw_found(stack, seen) if stack.steps else wanted
    before, after = ([escape_unprintable(line) for line in lines] for lines in (before, after))  # each is one line, whatever a device calls itself
    return {"before": "\n".join(before) + "\n", "after": "\n".join(after) + "\n", "before_header": "stacks as found", "after_header": "stacks as planned"}


def draw_caches(step: Mapping[str, Any] | None, seen: Observation) -> tuple[list[str], list[str]]:
    """The drives whose write cache, or whose keeping of it, is to change: as found, and as planned."""
    before, after = [], []
    for device in step["devices"] if step else ():
        node = next(one for one in seen.nodes.values() if one.path == device["device"])
        found, kept = state_of(seen.caches.get(node.devno, WriteCache())), seen.kept.get(node.identity.key, "")
        head = "%s  %s  write cache " % (node.name, node.identity.serial or "-")
        before.append(head + found + (", kept %s" % kept if kept else ""))
        after.append(head + (found if device["state"] == "keep" else "%s, kept %s" % (device["state"], device["state"])))
    return before, after


def steps_report(plan: Plan) -> list[str]:
    """One line a step."""
    if not plan.stacks:
        return ["plumbline_stacks names no stack: nothing to do"]
    notes = [note for stack in plan.stacks for note in stack.notes]
    if not plan.steps:
        return ["as specified: nothing to do", *notes]
    lines = []
    for number, step in enumerate(plan.steps, 1):
        lines.append("step %d: %s" % (number, step["summary"]))
        for device in step["devices"] if step["action"] == "partition" else ():
            lines += ["  erases of %s (%s): %s" % (device["device"], device["serial"], what) for what in device["removes"]]
    lines += notes
    fresh = [mount["path"] for step in plan.steps if step["action"] == "mount" for mount in step["mounts"] if "mounted" in mount["changes"]]
    if fresh:
        lines.append("give a database a directory below %s, not the mount point itself, which holds lost+found" % " or ".join(fresh))
    return lines
