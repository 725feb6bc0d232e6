# SPDX-License-Identifier: GPL-3.0-or-later
"""The partitions of a stack: their sizes, and what is left to be written of them. Pure."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards, ownership
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import partition_start
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import partition_name
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import TYPE_LINUX, TYPE_LVM
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stack_addresses import (
    array_bytes,
    auto_stripe,
    check_stripe,
    common_grain,
    data_alignment,
    extent_size,
    partition_end,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human, round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import unfinished_table
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.trim_path import without_discards
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import PartitionDevice, partition_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes.volume_rules import known_bytes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.growth import plan_grown_partitions
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Leg, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import name_device, refuse, refuse_rebuild
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.reserves import keep_standing
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Volume
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.volumes import disk_fields, part_path

_MAX_EXTENTS = (1 << 32) - 1  # of a PV (lvm2, lib/metadata/pv.h: pe_count)


def choose_sizes(plan: StackPlan, seen: Observation) -> None:
    """Stripe, start and size of the partitions, from the geometry alone."""
    spec, legs = plan.spec, plan.legs
    for leg in legs:
        if leg.geometry.grain_bytes % leg.geometry.logical_bytes:
            what = (seen.nodes[leg.devno].name, human(leg.geometry.grain_bytes), leg.geometry.grain.source, leg.geometry.logical_bytes)
            raise PlumblineError("device %s: a grain of %s (%s) is no multiple of its block of %d bytes" % what)
    plan.grain = common_grain([leg.geometry for leg in legs])
    if spec.laid.striped:
        if spec.stripe_bytes:
            check_stripe(spec.stripe_bytes, plan.grain)
        plan.stripe = spec.stripe_bytes or auto_stripe(plan.grain)
    reserves = [{"bytes": leg.wanted.kept} if leg.wanted else spec.reserve for leg in legs]
    ends = [partition_end(seen.nodes[leg.devno].size, reserve, leg.geometry) for leg, reserve in zip(legs, reserves)]
    for leg, end in zip(legs, ends):
        leg.start = partition_start(leg.geometry)
        leg.size = end - leg.start
    if spec.laid.striped:
        for row in plan.rows:
            standing = [leg.size for leg in row if leg.entry and spec.mirror]  # what takes the place of one of them has to be as long
            smallest = min(standing or [leg.size for leg in row])
            for leg in row:
                leg.size = smallest
    keep_standing(plan, seen)
    for leg in legs:
        if leg.size < 16 * MIB:
            node = seen.nodes[leg.devno]
            raise PlumblineError("device %s of %s leaves %s after the reserve; wanted at least 16 MiB" % (node.name, human(node.size), human(max(leg.size, 0))))
    plan.data_start = plan.array_offset = max(data_alignment(leg.geometry) for leg in legs)
    if spec.mirror:
        plan.data_start = round_up(plan.data_start, plan.stripe)
    first = carried_bytes(plan, plan.rows[0][0].size)  # a row that comes later changes no extent
    plan.extent = spec.extent_bytes or max(extent_size(first), plan.stripe)
    if spec.laid.others_begin and plan.extent % plan.grain:
        text = "layout '%s': extents of %s are no multiple of the grain %s, so that a second volume would begin off it; use layout 'separate'"
        raise PlumblineError(text % (spec.layout, human(plan.extent), human(plan.grain)))
    largest = max(carried_bytes(plan, leg.size) for leg in legs)
    if spec.grouped and largest // plan.extent > _MAX_EXTENTS:
        text = "extent_size: %s makes %d extents of a PV of %s, and LVM counts them in 32 bits; leave it out, or set a larger one"
        raise PlumblineError(text % (human(plan.extent), largest // plan.extent, human(largest)))


def number_legs(plan: StackPlan) -> None:
    """The number of each leg: what its partition is called, else the first that is free. By their numbers legs are in rows."""
    indexes = {_index(leg.entry) for leg in plan.legs if leg.entry}
    free = [index for index in range(len(plan.legs)) if index not in indexes]
    for leg in plan.legs:
        leg.index = _index(leg.entry) if leg.entry else free.pop(0)


def plan_partitions(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    wanted = []
    for leg in plan.legs:
        node = seen.nodes[leg.devno]
        _check_partition(plan, seen, leg, node)
        _check_guid(plan, seen, leg)
        if leg.node:
            continue
        starts = [] if leg.entry else _inner_starts(plan, leg)
        device = PartitionDevice(
            **disk_fields(plan, node, leg),
            length_bytes=leg.size,
            end_bytes=leg.start + leg.size,
            type_guid=TYPE_LVM if spec.grouped else TYPE_LINUX,
            name=partition_name(spec.name, leg.index),
            written=leg.entry is not None,
            unfinished=False,
            probe_starts=starts,
            discard=spec.discard,
            erase=leg.erase,
            removes=leg.removes,
        )
        leg.discards = spec.discard and node.discard_max > 0 and not leg.doubts and not leg.entry
        missing = without_discards(node) if spec.discard and not leg.entry else None
        if missing:
            plan.warn("the stack is built, and %s", missing.text)
        wanted.append(_carry_on(plan, seen, leg, device) if leg.doubts or leg.entry else device)
    if len(plan.legs) > 1 and len({leg.index for leg in plan.legs}) < len(plan.legs):
        plan.refuse("two legs carry the same partition name; one is perhaps a copy of the other")
    if wanted:
        erased = ", ".join(seen.nodes[leg.devno].name for leg in plan.legs if leg.erase)
        names = ", ".join(seen.nodes[leg.devno].name for leg in plan.legs if not leg.node)
        plan.steps.append(partition_step(spec.name, wanted, "%spartition %s" % ("erase %s, then " % erased if erased else "", names)))
    plan_grown_partitions(plan, seen)


def _carry_on(plan: StackPlan, seen: Observation, leg: Leg, device: PartitionDevice) -> PartitionDevice:
    """Judge a device whose ends are neither blank nor a table that the kernel shows: what is left of this very table is written again."""
    ours = unfinished_table.can_be_finished(seen, leg.devno, device.as_dict()) and not unfinished_table.marks_between(seen, leg.devno)
    if ours and not (leg.entry and unfinished_table.is_whole(seen.ends[leg.devno], device.as_dict())):
        refuse(plan, seen, leg, guards.use_reasons(seen, seen.nodes[leg.devno]))
        return device._replace(written=False, unfinished=True, probe_starts=_inner_starts(plan, leg))
    refuse(plan, seen, leg, leg.doubts)
    return device


def _inner_starts(plan: StackPlan, leg: Leg) -> list[int]:
    """Where our own volumes will begin on this leg, so that the blank proof looks there as well."""
    first = leg.start + (plan.array_offset if plan.spec.mirror else 0)
    places, at = [leg.start], plan.data_start
    if plan.spec.grouped:
        units = leg_extents(plan)
        for volume in plan.spec.volumes:
            on_leg = at // plan.data_legs // MIB * MIB if plan.spec.mirror else at
            places.append(min(first + on_leg, leg.start + leg.size - MIB))
            at += volume_units(plan, volume, units) * plan.extent
    return places


def _index(entry: TableEntry | None) -> int:
    name = ownership.our_name(entry.name) if entry else None
    return name[1] if name else -1


def _check_partition(plan: StackPlan, seen: Observation, leg: Leg, node: Node) -> None:
    """Our own partition must be where this spec would put it: it cannot be moved, only made anew."""
    if leg.entry is None:
        return
    phase, wanted = leg.entry.start % leg.geometry.grain_bytes, leg.geometry.offset_bytes
    if phase != wanted:
        refuse_rebuild(
            plan,
            "partition '%s' on %s" % (leg.entry.name, node.name),
            "start %d (phase %d)" % (leg.entry.start, phase),
            "phase %d of %s" % (wanted, human(leg.geometry.grain_bytes)),
        )
    elif leg.entry.start + leg.entry.size > node.size:
        text = "partition '%s' on %s ends %s behind the end of the disk [damaged]: the disk is smaller than it was; write nothing, and bring back its size"
        plan.refuse(text, leg.entry.name, name_device(seen, leg.devno), human(leg.entry.start + leg.entry.size - node.size))
    elif leg.entry.size > leg.size:
        refuse_rebuild(
            plan,
            "partition '%s' on %s" % (leg.entry.name, node.name),
            "%s (%d bytes)" % (human(leg.entry.size), leg.entry.size),
            "%s (%d bytes), by size and reserve" % (human(leg.size), leg.size),
        )
    elif leg.node and leg.node.size > leg.entry.size and known_bytes(seen, leg.node.devno) > leg.entry.size:
        _check_older_table(plan, leg, node)
    elif leg.node and leg.node.size > leg.entry.size:
        text = "the kernel shows partition %s with %d bytes, and its table says %d [stale]; let it read the table again: blockdev --rereadpt %s"
        plan.refuse(text, leg.node.name, leg.node.size, leg.entry.size, node.path)
    wanted_type, what = (TYPE_LVM, "LVM") if plan.spec.grouped else (TYPE_LINUX, "Linux filesystem")
    if leg.entry.type.upper() != wanted_type.upper():
        text = "partition '%s' on %s has the type %s; wanted %s (%s), by sfdisk --part-type %s %d %s"
        plan.warn(text, leg.entry.name, node.name, leg.entry.type, wanted_type, what, node.path, leg.entry.number, wanted_type)
    leg.start = leg.entry.start


def _check_older_table(plan: StackPlan, leg: Leg, node: Node) -> None:
    """An older table that was brought back after a growth: the kernel still has the partition as long as what is on it, until it reads that table."""
    if leg.node and plan.spec.grow and leg.size >= leg.node.size:
        leg.grows = True
        return
    text = "the table of %s says that partition '%s' has %d bytes, and what is on it reaches behind that [damaged]: an older table was brought back"
    text += "; let nobody read it again (no blockdev --rereadpt, no reboot); %s, or bring back the last table"
    again = "grow: true on the stack writes it for what is there" if leg.size + leg.spare >= (leg.node.size if leg.node else 0) else "make the reserve smaller"
    plan.refuse(text, node.name, leg.entry.name if leg.entry else "", leg.entry.size if leg.entry else 0, again)


def _check_guid(plan: StackPlan, seen: Observation, leg: Leg) -> None:
    """A copy of this partition's entry on another disk: every later step names the partition by its GUID, and might be led there."""
    node = seen.nodes[leg.devno]
    path = part_path(leg, plan.spec.name, node.identity.key)
    other = seen.nodes.get(seen.led_to.get(path, ""))
    if other and other.parent != leg.devno:
        text = "%s leads to %s, which is not on device %s [identity]: a copy of ours; take that disk away, or give it other GUIDs (sgdisk -G)"
        plan.refuse(text, path, other.name, node.name)


def leg_extents(plan: StackPlan) -> int:
    """Extents of what the smallest leg carries, behind the data start."""
    return min((carried_bytes(plan, leg.size) - plan.data_start) // plan.extent for leg in plan.legs)


def carried_bytes(plan: StackPlan, length: int) -> int:
    """The bytes of what a PV is made on, where the partitions below have this length: as many, or those of the array over all legs."""
    return array_bytes(length, plan.array_offset, plan.stripe, len(plan.legs)) if plan.spec.mirror else length


def volume_units(plan: StackPlan, volume: Volume, units: int) -> int:
    """What a volume has of so many *units*, each of an extent on every leg of a row: a share is rounded down, a size is rounded up."""
    if volume.size_bytes:
        return -(-volume.size_bytes // (plan.extent * plan.width))
    return int(units * volume.percent / 100 + 1e-9)
