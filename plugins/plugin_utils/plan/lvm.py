# SPDX-License-Identifier: GPL-3.0-or-later
"""The volume group and the volumes of a stack. Pure."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Lv, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human, is_power_of_two
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import Step, logical_volume_step, volume_group_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.partitions import leg_extents, volume_extents
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import PlannedVolume, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import refuse_contents, refuse_rebuild
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.volumes import part_path


def plan_group(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    paths = [part_path(leg, spec.name, seen.nodes[leg.devno].identity.key) for leg in sorted(plan.legs, key=lambda one: one.index)]
    group = seen.vg(spec.name)
    parts = {leg.node.devno for leg in plan.legs if leg.node}
    for leg in plan.legs:
        if leg.node:
            refuse_contents(plan, seen, [leg], volume_rules.part_content_reasons(seen, leg.node, spec.name))
    members = {pv.devno for pv in seen.lvm.pvs if pv.vg == spec.name}
    lost = [pv for pv in seen.lvm.pvs if pv.vg == spec.name and pv.devno not in seen.nodes]
    if lost and members & parts:
        hidden = {pv.uuid: devno for devno, pv in seen.hidden.items()}
        for missing in lost:
            if missing.uuid in hidden:
                continue  # its partition says so
            plan.refuse("VG '%s' misses its PV %s [damaged]; plug its device in again, or %s", spec.name, missing.uuid, volume_rules.RESTORE_GROUP)
    elif members - parts:
        plan.refuse("VG '%s' exists on other devices: %s; rename the stack", spec.name, ", ".join(pv.name for pv in seen.lvm.pvs if pv.vg == spec.name))
    if plan.refusals:
        return
    if group and members == parts and len(parts) == len(plan.legs):
        if spec.extent_bytes and group.extent_bytes != spec.extent_bytes:
            refuse_rebuild(plan, "VG '%s'" % spec.name, "extents of %s" % human(group.extent_bytes), human(spec.extent_bytes))
        plan.extent = group.extent_bytes
        for leg in plan.legs:
            pv = seen.pv(leg.node.devno) if leg.node else None
            if pv and (leg.start + pv.data_start) % leg.geometry.grain_bytes != leg.geometry.offset_bytes:
                phase = (leg.start + pv.data_start) % leg.geometry.grain_bytes
                refuse_rebuild(plan, "PV %s" % pv.name, "its data at phase %d (pe_start %d)" % (phase, pv.data_start), "phase %d" % leg.geometry.offset_bytes)
            if pv:
                plan.data_start = pv.data_start
        return
    if group:
        plan.refuse("VG '%s' holds %d of its %d PVs; it is never extended here", spec.name, len(members & parts), len(plan.legs))
        return
    summary = "VG %s on %d PVs, extents of %s, data at %s" % (spec.name, len(paths), human(plan.extent), human(plan.data_start))
    plan.steps.append(volume_group_step(spec.name, paths, plan.extent, plan.data_start, summary))


def plan_volumes(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    group = seen.vg(spec.name)
    extents = group.extents // len(plan.legs) if group else leg_extents(plan)
    wanted = {volume.name: volume_extents(plan, volume, extents) for volume in spec.volumes}
    for volume in spec.volumes:
        if not wanted[volume.name]:
            plan.refuse("volume '%s' would be smaller than one extent of %s on each leg", volume.name, human(plan.extent))
        elif wanted[volume.name] * plan.extent * len(plan.legs) < volume.kind.smallest:
            text = "volume '%s' would have %s, %s; wanted at least %s"
            comes_to = wanted[volume.name] * plan.extent * len(plan.legs)
            plan.refuse(text, volume.name, human(comes_to), volume.kind.too_small, human(volume.kind.smallest))
    if sum(wanted.values()) > extents:
        rows = ", ".join("%s %s" % (name, human(count * plan.extent * len(plan.legs))) for name, count in wanted.items())
        plan.refuse("the volumes want more than there is: %s; the VG has %s", rows, human(extents * plan.extent * len(plan.legs)))
    ours = {volume.name for volume in spec.volumes}
    others = sorted(lv.name for lv in seen.lvm.lvs if lv.vg == spec.name and lv.name not in ours)
    missing = [volume.name for volume in spec.volumes if seen.lv(spec.name, volume.name) is None]
    known = len(plan.refusals)
    for name in missing:
        _check_map(plan, seen, "%s-%s" % (spec.name, name))
    shown = len(plan.refusals) > known
    if group and missing:
        for part in [leg.node for leg in plan.legs if leg.node]:
            for reason in volume_rules.free_reasons(seen, part):
                plan.refuse("%s", reason.words)
        want = sum(wanted[name] for name in missing) * plan.extent
        free, pv = min((sum(length for _start, length in one.free), one.name) for one in seen.lvm.pvs if one.vg == spec.name)
        if want > free and not shown:
            text = "what is to be made (%s) wants %s on PV %s, which has %s free; the VG holds what is not in the spec: %s; lvrename or remove that"
            plan.refuse(text, ", ".join(missing), human(want), pv, human(free), ", ".join(others) or "nothing that is shown")
    if plan.refusals:
        return
    for planned in plan.volumes:
        planned.size = wanted[planned.name] * plan.extent * len(plan.legs)
        found = seen.lv(spec.name, planned.name)
        if found:
            _check_lv(plan, planned, found)
            continue
        summary = "LV %s/%s, %s %s" % (spec.name, planned.name, human(planned.size), spec.laid.of_volume(len(plan.legs), plan.stripe))
        plan.steps.append(_lv_step(plan, planned, False, summary))
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


def _lv_step(plan: StackPlan, planned: PlannedVolume, unfinished: bool, summary: str) -> Step:
    return logical_volume_step(plan.spec.name, planned.name, planned.size, len(plan.legs), plan.stripe, unfinished, summary)


def _check_lv(plan: StackPlan, planned: PlannedVolume, found: Lv) -> None:
    what = "LV %s/%s" % (found.vg, found.name)
    kind, striped = plan.spec.laid.segment, plan.spec.laid.striped
    if found.stripes != len(plan.legs) or set(found.kinds) != {kind}:
        layout = "%d stripes" % found.stripes if set(found.kinds) == {"striped"} else ", ".join(found.kinds)
        refuse_rebuild(plan, what, "a layout of %s" % layout, "%d stripes" % len(plan.legs) if striped else kind)
    elif len(found.layouts) > 1:
        text = "segments of %s" % ", then ".join("%d stripes of %s" % (count, human(size)) for count, size in found.layouts)
        refuse_rebuild(plan, what, text, "%d stripes of %s in all of it" % (len(plan.legs), human(plan.stripe)))
    elif striped and found.stripe_bytes != plan.stripe and (plan.spec.stripe_bytes or not _fits(found.stripe_bytes, plan.grain)):
        refuse_rebuild(plan, what, "stripes of %s" % human(found.stripe_bytes), human(plan.stripe))
    elif found.size != planned.size:
        refuse_rebuild(plan, what, "%s (%d bytes)" % (human(found.size), found.size), "%s (%d bytes)" % (human(planned.size), planned.size))
    elif not found.active and (not striped or found.stripe_bytes == plan.stripe) and found.segments == 1:
        # lvcreate writes the metadata first and activates then (lv_manip.c, _lv_create_an_lv()): what a kill leaves in between is just this.
        plan.steps.append(_lv_step(plan, planned, True, "activate %s, which was left inactive; what is on it is planned then" % what))
    elif not found.active:
        plan.refuse("%s exists but is not active; run: lvchange -ay %s/%s", what, found.vg, found.name)
    elif striped and found.stripe_bytes != plan.stripe:
        planned.stripe = found.stripe_bytes


def _fits(stripe: int, grain: int) -> bool:
    return is_power_of_two(stripe) and stripe % grain == 0
