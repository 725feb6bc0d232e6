# SPDX-License-Identifier: GPL-3.0-or-later
"""The volume group and the volumes of a stack. Pure."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_ours
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human, is_power_of_two
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import Step, logical_volume_step, volume_group_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.growth import (
    behind_metadata,
    free_units,
    plan_extended_group,
    plan_grown_pvs,
    plan_grown_volume,
    row_units,
    take_units,
)
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.partitions import volume_units
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import PlannedVolume, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import refuse_contents, refuse_rebuild

TOO_SMALL = "volume '%s' would have %s, %s; wanted at least %s"


def plan_group(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    paths = [carrier.path for carrier in plan.carriers]
    group = seen.vg(spec.name)
    parts = {carrier.node.devno for carrier in plan.carriers if carrier.node}
    for carrier in plan.carriers:
        if carrier.node:
            refuse_contents(plan, seen, carrier.legs, volume_rules.part_content_reasons(seen, carrier.node, spec.name))
    members = {pv.devno for pv in seen.lvm.pvs if pv.vg == spec.name}
    lost = [pv for pv in seen.lvm.pvs if pv.vg == spec.name and pv.devno not in seen.nodes]
    if lost and members & parts:
        hidden = {pv.uuid: devno for devno, pv in seen.hidden.items()}
        for missing in lost:
            if missing.uuid in hidden:
                continue  # its partition says so
            plan.refuse("VG '%s' misses its PV %s [damaged]; plug its device in again, or %s", spec.name, missing.uuid, volume_rules.RESTORE_GROUP)
    elif members - parts:
        _refuse_others(plan, seen, members - parts)
    if plan.refusals:
        return
    if group:
        _check_group(plan, seen)
        if not plan.refusals:
            plan_grown_pvs(plan, seen)
            plan_extended_group(plan, seen, members)
        return
    summary = "VG %s on %d PVs, extents of %s, data at %s" % (spec.name, len(paths), human(plan.extent), human(plan.data_start))
    plan.steps.append(volume_group_step(spec.name, paths, plan.extent, plan.data_start, summary))


def _refuse_others(plan: StackPlan, seen: Observation, others: set[str]) -> None:
    """PVs of the group that are on no device of the spec: a row that was taken out of it, or another group of that name."""
    spec, names = plan.spec, {pv.devno: pv.name for pv in seen.lvm.pvs}
    parents = {devno: seen.nodes[devno].parent for devno in others if devno in seen.nodes}
    if len(parents) == len(others) and all(is_ours(seen.tables.get(parent), spec.name) for parent in parents.values()):
        text = "VG '%s' has further PVs of this stack: %s; name their devices as well, with stripes: %d, or vgreduce them while nothing lies on them"
        plan.refuse(text, spec.name, ", ".join(sorted(names[devno] for devno in others)), plan.width)
        return
    plan.refuse("VG '%s' exists on other devices: %s; rename the stack", spec.name, ", ".join(pv.name for pv in seen.lvm.pvs if pv.vg == spec.name))


def _check_group(plan: StackPlan, seen: Observation) -> None:
    """What stands of the group decides over extents and over where the data of its PVs begins."""
    spec, group = plan.spec, seen.vg(plan.spec.name)
    if group is None:
        return
    if spec.extent_bytes and group.extent_bytes != spec.extent_bytes:
        refuse_rebuild(plan, "VG '%s'" % spec.name, "extents of %s" % human(group.extent_bytes), human(spec.extent_bytes))
    plan.extent = group.extent_bytes
    members = [pv for pv in seen.lvm.pvs if pv.vg == spec.name]
    if len(members) == len(plan.carriers):  # a PV that is still to be made gets what suits all
        plan.data_start = members[-1].data_start
    for carrier, leg in [(one, leg) for one in plan.carriers for leg in one.legs]:
        pv = seen.pv(carrier.node.devno) if carrier.node else None
        at = leg.start + _on_leg(plan, pv.data_start) if pv else 0
        if pv and at % leg.geometry.grain_bytes != leg.geometry.offset_bytes:
            phase = at % leg.geometry.grain_bytes
            refuse_rebuild(plan, "PV %s" % pv.name, "its data at phase %d (pe_start %d)" % (phase, pv.data_start), "phase %d" % leg.geometry.offset_bytes)


def _on_leg(plan: StackPlan, byte: int) -> int:
    """Where a byte of what carries a PV lies on the partition of each leg."""
    if not plan.spec.mirror:
        return byte
    return plan.array_offset + byte // (plan.stripe * plan.data_legs) * plan.stripe + byte % plan.stripe


def plan_volumes(plan: StackPlan, seen: Observation) -> None:
    spec, unit = plan.spec, plan.extent * plan.width
    total, free = sum(row_units(plan, seen)), free_units(plan, seen)
    wanted = {volume.name: volume_units(plan, volume, total) for volume in spec.volumes}
    least = {planned.name: planned.spec.kind.least(planned.stride, planned.stripe_width) for planned in plan.volumes}
    for volume in spec.volumes:
        comes_to = wanted[volume.name] * unit
        if not comes_to:
            plan.refuse("volume '%s' would be smaller than one extent of %s on each leg", volume.name, human(plan.extent))
        elif comes_to < least[volume.name]:
            plan.refuse(TOO_SMALL, volume.name, human(comes_to), volume.kind.too_small, human(least[volume.name]))
    if sum(wanted.values()) > total:
        rows = ", ".join("%s %s" % (name, human(count * unit)) for name, count in wanted.items())
        plan.refuse("the volumes want more than there is: %s; the VG has %s", rows, human(total * unit))
    ours = {volume.name for volume in spec.volumes}
    others = sorted(lv.name for lv in seen.lvm.lvs if lv.vg == spec.name and lv.name not in ours)
    found = {volume.name: seen.lv(spec.name, volume.name) for volume in spec.volumes}
    missing = [name for name, lv in found.items() if lv is None]
    known = len(plan.refusals)
    for name in missing:
        _check_map(plan, seen, "%s-%s" % (spec.name, name))
    shown = len(plan.refusals) > known
    if seen.vg(spec.name) and missing:
        for part in [carrier.node for carrier in plan.carriers if carrier.node]:
            for reason in volume_rules.free_reasons(seen, part):
                plan.refuse("%s", reason.words)
    needs = {name: max(wanted[name] - (lv.size // unit if lv else 0), 0) for name, lv in found.items()}
    if sum(needs.values()) > sum(free) and sum(wanted.values()) <= total and not shown:
        text = "what is to be made or grown (%s) wants %s, and VG '%s' has %s free for it; it holds what is not in the spec: %s; %s"
        names = ", ".join(name for name, need in needs.items() if need)
        renamed = "if one of these is a volume of the spec under another name, lvrename it; else " if missing and others else ""
        ways = renamed + "ask for a smaller size, or name larger devices or a further row of them"
        there = ", ".join(others) or "nothing that is shown"
        plan.refuse(text, names, human(sum(needs.values()) * unit), spec.name, human(sum(free) * unit), there, ways)
    if plan.refusals:
        return
    for planned in plan.volumes:
        planned.size = wanted[planned.name] * unit
        lv = found[planned.name]
        if lv:
            _check_lv(plan, seen, planned, lv, free)
            continue
        (first, units), *rest = take_units(free, wanted[planned.name])
        row = [carrier.path for carrier in plan.carrier_rows[first]] if len(plan.carrier_rows) > 1 else []
        summary = "LV %s/%s, %s %s" % (spec.name, planned.name, human(units * unit), spec.laid.of_volume(plan.width, plan.stripe))
        plan.steps.append(_lv_step(plan, planned, units * unit, False, summary, row))
        plan_grown_volume(plan, seen, planned, units * unit, rest)
    if others:
        plan.warn("VG '%s' holds LVs that are not in the spec and are left alone: %s", spec.name, ", ".join(others))


def _check_map(plan: StackPlan, seen: Observation, title: str) -> None:
    """A map that has the name of a volume that is to be made: a volume of ours that LVM does not know any more, or somebody else's."""
    lying = {node.devno for leg in plan.legs for node in seen.tree(leg.devno)}
    for node in [node for node in seen.nodes.values() if node.title == title]:
        if node.devno in lying:
            text = "%s is on the devices of this stack, and LVM knows no such volume [damaged]; %s"
            plan.refuse(text, node.path, volume_rules.RESTORE_GROUP)
        else:
            text = "device-mapper has a map %s that is no volume of this stack [name]; take it down (dmsetup ls shows it), or rename the volume"
            plan.refuse(text, title)


def _lv_step(plan: StackPlan, planned: PlannedVolume, size: int, unfinished: bool, summary: str, pvs: list[str]) -> Step:
    return logical_volume_step(plan.spec.name, planned.name, size, plan.width, plan.stripe, unfinished, summary, pvs)


def _check_lv(plan: StackPlan, seen: Observation, planned: PlannedVolume, found: Lv, free: list[int]) -> None:
    what, width = "LV %s/%s" % (found.vg, found.name), plan.width
    kind, striped = plan.spec.laid.segment, plan.spec.laid.segment == "striped"
    if found.stripes != width or set(found.kinds) != {kind}:
        layout = "%d stripes" % found.stripes if set(found.kinds) == {"striped"} else ", ".join(found.kinds)
        if striped and set(found.kinds) == {kind} and 1 < found.stripes < len(plan.legs):
            rows = "set stripes: %d" % found.stripes if len(plan.legs) % found.stripes == 0 else "name devices in whole rows of %d" % found.stripes
            plan.refuse("%s is striped over %d devices, and the spec has rows of %d; %s", what, found.stripes, width, rows)
            return
        refuse_rebuild(plan, what, "a layout of %s" % layout, "%d stripes" % width if striped else kind)
    elif len(found.layouts) > 1:
        text = "segments of %s" % ", then ".join("%d stripes of %s" % (count, human(size)) for count, size in found.layouts)
        refuse_rebuild(plan, what, text, "%d stripes of %s in all of it" % (width, human(plan.stripe)))
    elif striped and found.stripe_bytes != plan.stripe and (plan.spec.stripe_bytes or not _fits(found.stripe_bytes, plan.grain)):
        refuse_rebuild(plan, what, "stripes of %s" % human(found.stripe_bytes), human(plan.stripe))
    elif found.size > planned.size:
        text = "%s has %s (%d bytes); wanted %s (%d bytes); nothing is ever made smaller here: set its size to what it has, if that is meant"
        plan.refuse(text, what, human(found.size), found.size, human(planned.size), planned.size)
    elif not found.active and (not striped or found.stripe_bytes == plan.stripe) and found.segments == 1:
        # lvcreate writes the metadata first and activates then (lv_manip.c, _lv_create_an_lv()): what a kill leaves in between is just this.
        summary = "activate %s, which was left inactive; what is on it is planned then" % what
        plan.steps.append(_lv_step(plan, planned, found.size, True, summary, []))
    elif not found.active:
        plan.refuse("%s exists but is not active; run: lvchange -ay %s/%s", what, found.vg, found.name)
    elif found.size < planned.size and planned.node and any(segment.kind not in ("striped", "linear") for segment in planned.node.segments):
        text = "%s is mapped as %s, as a snapshot of it does, and LVM does not grow it then; remove the snapshot when its backup has ended, and run again"
        plan.refuse(text, what, ", ".join(sorted({segment.kind for segment in planned.node.segments})))
    elif not behind_metadata(plan, seen, planned, found):
        planned.stripe = found.stripe_bytes if striped else planned.stripe
        unit = plan.extent * width
        plan_grown_volume(plan, seen, planned, found.size, take_units(free, (planned.size - found.size) // unit))


def _fits(stripe: int, grain: int) -> bool:
    return is_power_of_two(stripe) and stripe % grain == 0
