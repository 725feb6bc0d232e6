# SPDX-License-Identifier: GPL-3.0-or-later
"""How a stack that stands takes in more: larger devices, more of the volume group, more devices. Pure.

Nothing ever shrinks. What its devices have more than when they were partitioned a stack takes in where its spec says ``grow``; a larger ``size`` of a volume
and further ``devices`` say it themselves. What an earlier run began and did not end is carried on.
"""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.lvm import Lv
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import (
    EXTEND_VG,
    GROW_FILESYSTEM,
    GROW_LV,
    GROW_PARTITION,
    GROW_PV,
    REFRESH_LV,
    RESTORE_TABLE,
    StandingDisk,
    growth_step,
)
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Carrier, Leg, PlannedVolume, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import name_device
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.volumes import disk_fields, part_path

_TAKE_IN = "set grow: true on the stack, and it is taken in while it is in use"


def disks_of(plan: StackPlan, seen: Observation) -> list[StandingDisk]:
    """The stack's disks, as the module that carries a step out finds them again."""
    return [standing_disk(plan, seen, leg) for leg in plan.ordered]


def standing_disk(plan: StackPlan, seen: Observation, leg: Leg) -> StandingDisk:
    node = seen.nodes[leg.devno]
    return StandingDisk(**disk_fields(plan, node, leg), length_bytes=leg.size if leg.grows else 0)


def partitions_as_carriers(plan: StackPlan, seen: Observation) -> list[Carrier]:
    """The partitions of a stack's legs, each of which carries a PV."""
    found = []
    for leg in plan.ordered:
        disk = seen.nodes[leg.devno]
        path, now = part_path(leg, plan.spec.name, disk.identity.key), leg.entry.size if leg.entry else 0
        found.append(Carrier(path, disk.name, [leg], leg.node, leg.size, now, leg.spare, leg.grows))
    return found


def plan_restored_tables(plan: StackPlan, seen: Observation) -> bool:
    """The step for first copies of tables that are damaged, where the backup is sound and ours; what comes after it is planned then."""
    legs = [leg for leg in plan.legs if leg.restores]
    if legs:
        disks = [standing_disk(plan, seen, leg)._replace(guid=old.guid, start_bytes=old.start, length_bytes=old.size) for leg in legs if (old := leg.restores)]
        names = ", ".join(seen.nodes[leg.devno].name for leg in legs)
        summary = "write the first partition table of %s again from its backup, which is sound; what is on it is planned then" % names
        plan.steps.append(growth_step(RESTORE_TABLE, plan.spec.name, disks, summary, unfinished=True))
    return bool(legs)


# --- partitions ------------------------------------------------------------------------------------


def plan_grown_partitions(plan: StackPlan, seen: Observation) -> None:
    """The step for the partitions that are smaller than they are to be, and for tables that do not reach the end of their disk."""
    for leg in plan.legs:
        table, node = seen.tables.get(leg.devno), seen.nodes[leg.devno]
        if not leg.entry or not leg.node or not table:
            continue
        grew = table.made_for > 0 and node.size - table.made_for >= node.limits.logical
        behind = leg.node.size < leg.entry.size  # a run was ended between the table and the kernel, or somebody else wrote the table
        leg.grows = behind or table.unsettled or leg.grows or (plan.spec.grow and (leg.size > leg.entry.size or grew))
        if grew and not leg.spare and any(seen.nodes[other.devno].size < node.size for row in plan.rows if leg in row for other in row):
            text = "%s grew to %s, and the smallest device of its row decides: nothing more of it is used"
            plan.warn(text, name_device(seen, leg.devno), human(node.size))
        elif grew and not plan.spec.grow:
            plan.warn("%s grew from %s to %s; %s", name_device(seen, leg.devno), human(table.made_for), human(node.size), _TAKE_IN)
        elif leg.spare and not plan.spec.grow and not plan.spec.goal:  # of a goal the finding on its reserve speaks
            text = "the partition on %s could have %s more, by size and reserve; %s"
            plan.warn(text, name_device(seen, leg.devno), human(leg.spare), _TAKE_IN)
    grown = [leg for leg in plan.ordered if leg.grows]
    if grown:
        names = ", ".join("%s to %s" % (seen.nodes[leg.devno].name, human(leg.size)) for leg in grown)
        plan.steps.append(growth_step(GROW_PARTITION, plan.spec.name, disks_of(plan, seen), "grow the partitions on %s" % names))


# --- the volume group ------------------------------------------------------------------------------


def plan_grown_pvs(plan: StackPlan, seen: Observation) -> None:
    """The step for the PVs that are smaller than their partitions are, or will be. Within a partition is what its own run left: it is carried on."""
    grown = []
    for carrier in plan.carriers:
        pv = seen.pv(carrier.node.devno) if carrier.node else None
        if not pv or pv.vg != plan.spec.name or not carrier.now:
            continue
        units, now = (carrier.size - pv.data_start) // plan.extent, (carrier.now - pv.data_start) // plan.extent
        if pv.extents > max(units, now):
            text = "PV %s has %d extents, and its partition has room for %d [damaged]: it was larger; grow: true makes it so again, or bring back its table"
            plan.refuse(text, pv.name, pv.extents, now)
        elif pv.extents < units and pv.mdas > 1:
            if plan.spec.grow and carrier.spare:
                text = "PV %s keeps a second copy of LVM's metadata at its end (pvmetadatacopies), and is not grown here; leave grow out"
                plan.refuse(text, pv.name)
        elif pv.extents < units and (plan.spec.grow or carrier.grows):
            grown.append(carrier)
        elif pv.extents < units:
            plan.warn("PV %s is %s smaller than its partition; %s", pv.name, human((units - pv.extents) * plan.extent), _TAKE_IN)
    if grown:
        paths, names = [carrier.path for carrier in grown], ", ".join(carrier.name for carrier in grown)
        more = {"pvs": paths, "extent_bytes": plan.extent}
        plan.steps.append(growth_step(GROW_PV, plan.spec.name, disks_of(plan, seen), "grow the PVs on %s" % names, **more))


def plan_extended_group(plan: StackPlan, seen: Observation, members: set[str]) -> None:
    """The step by which the PVs of further rows join the volume group."""
    spec = plan.spec
    new = [carrier for carrier in plan.carriers if not carrier.node or carrier.node.devno not in members]
    if not new:
        return
    if not spec.stripes or any(carrier in plan.carrier_rows[0] for carrier in new):
        text = "VG '%s' holds %d of its %d PVs; a stripe does not get wider: set stripes to the devices that it goes over, and name whole rows of as many more"
        plan.refuse(text, spec.name, len(plan.legs) - len(new), len(plan.legs))
        return
    names = ", ".join(carrier.name for carrier in new)
    more = {"pvs": [carrier.path for carrier in new], "data_alignment_bytes": plan.data_start}
    plan.steps.append(growth_step(EXTEND_VG, spec.name, disks_of(plan, seen), "add the PVs on %s to VG %s" % (names, spec.name), **more))


def carrier_units(plan: StackPlan, seen: Observation, carrier: Carrier) -> int:
    """Extents of a PV when the steps before are carried out."""
    pv = seen.pv(carrier.node.devno) if carrier.node else None
    if not pv or pv.vg != plan.spec.name:
        return (carrier.size - plan.data_start) // plan.extent
    grown = (carrier.size - pv.data_start) // plan.extent if (plan.spec.grow or carrier.grows) and pv.mdas < 2 else 0
    return max(pv.extents, grown)


def row_units(plan: StackPlan, seen: Observation) -> list[int]:
    """For each row its units: one is an extent on each of its PVs."""
    return [min(carrier_units(plan, seen, carrier) for carrier in row) for row in plan.carrier_rows]


def free_units(plan: StackPlan, seen: Observation) -> list[int]:
    """The same of what no LV has."""

    def free(carrier: Carrier) -> int:
        pv = seen.pv(carrier.node.devno) if carrier.node else None
        taken = pv.extents - sum(length for _start, length in pv.free) // plan.extent if pv and pv.vg == plan.spec.name else 0
        return carrier_units(plan, seen, carrier) - taken

    return [min(map(free, row)) for row in plan.carrier_rows]


# --- volumes ---------------------------------------------------------------------------------------


def take_units(free: list[int], units: int) -> list[tuple[int, int]]:
    """From which rows so many units come, as (row, units); they are taken out of *free*. The first rows are filled first."""
    pieces = []
    for number, there in enumerate(free):
        taken = min(there, units)
        if taken > 0:
            pieces.append((number, taken))
            free[number], units = there - taken, units - taken
    return pieces


def plan_grown_volume(plan: StackPlan, seen: Observation, planned: PlannedVolume, begin: int, pieces: list[tuple[int, int]]) -> None:
    """The steps by which an LV of *begin* bytes gets these pieces: a step a row, so that each is striped over the legs of one."""
    unit, size = plan.extent * planned.width, begin
    for number, units in pieces:
        before, size = size, size + units * unit
        row = plan.carrier_rows[number]
        names = ", ".join(carrier.name for carrier in row)
        more = {
            "lv": planned.name,
            "from_bytes": before,
            "size_bytes": size,
            "extent_bytes": plan.extent,
            "stripes": planned.width,
            "stripe_bytes": planned.stripe,
            "pvs": [carrier.path for carrier in row],
        }
        summary = "grow LV %s/%s from %s to %s, on %s" % (plan.spec.name, planned.name, human(before), human(size), names)
        plan.steps.append(growth_step(GROW_LV, plan.spec.name, disks_of(plan, seen), summary, **more))


def behind_metadata(plan: StackPlan, seen: Observation, planned: PlannedVolume, found: Lv) -> bool:
    """Whether the kernel has another LV than LVM's metadata says, which a run that was ended in the middle leaves: a step, or a refusal, says so."""
    node, what = planned.node, "LV %s/%s" % (found.vg, found.name)
    if not node or (node.size == found.size and not node.suspended):
        return False
    if node.size > found.size:
        text = "%s has %s in the kernel, and %s in LVM's metadata [damaged]: older metadata was brought back; bring back the last one (vgcfgrestore)"
        plan.refuse(text, what, human(node.size), human(found.size))
        return True
    state = "is suspended" if node.suspended else "has %s in the kernel, and %s in LVM's metadata" % (human(node.size), human(found.size))
    more = {"lv": found.name, "size_bytes": found.size, "unfinished": True}
    summary = "let the kernel read %s again, which %s; what is on it is planned then" % (what, state)
    plan.steps.append(growth_step(REFRESH_LV, plan.spec.name, disks_of(plan, seen), summary, **more))
    return True


# --- filesystems -----------------------------------------------------------------------------------


def plan_grown_filesystem(plan: StackPlan, seen: Observation, planned: PlannedVolume, found: Filesystem, size: int) -> None:
    """The step for a filesystem that is smaller than its device of *size* bytes is, or will be."""
    kind, now = FILESYSTEMS[found.kind], found.blocks * found.block
    wanted = kind.room(found, size)
    if wanted - now < MIB:  # mke2fs rounds down to whole pages of memory
        return
    what = "the filesystem of volume '%s'" % planned.name
    if wanted > found.growable and planned.node and size <= planned.node.size:
        plan.warn("%s could have %s more, and is not grown while it is mounted: %s", what, human(wanted - now), kind.growth_limit(found))
        return
    if wanted > found.growable:
        most = human(found.growable) if found.growable else "its %s" % human(now)
        text = "%s would have %s, and it grows to %s at most: %s; make the volume smaller, or put what is more into another volume"
        plan.refuse(text, what, human(wanted), most, kind.growth_limit(found))
        return
    mounted = [mount for mount in seen.mounted(planned.node.devno) if mount.here and "rw" in mount.options] if planned.node else []
    if not mounted and not planned.spec.mount:
        plan.warn("%s could have %s more; it grows while it is mounted for writing: mount it, and run again", what, human(wanted - now))
        return
    lv = planned.name if plan.spec.grouped else ""
    more = {"lv": lv, "device": planned.device, "fstype": kind.name, "uuid": found.uuid, "from_bytes": now, "size_bytes": wanted}
    summary = "grow %s from %s to %s" % (what, human(now), human(wanted))
    plan.steps.append(growth_step(GROW_FILESYSTEM, plan.spec.name, disks_of(plan, seen), summary, **more))
