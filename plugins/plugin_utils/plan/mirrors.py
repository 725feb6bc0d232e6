# SPDX-License-Identifier: GPL-3.0-or-later
"""The array of a mirrored stack: made, judged, given its members back, and grown. Pure.

One array of md lies on the partitions of all devices, RAID 10 with two copies side by side: the first device with the second, and so on. Pairs below a stripe
of LVM would not do: at a boot at which of one pair only an older member is there, md starts that pair with it, and the stripe is half old and half new. One
array over all is not started then. With two devices nothing is there to tell it by.
"""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ownership
from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_ID, MD_UUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.md_array import NEAR_2, MdArray, MdMember, MdSuperblock, was_run_apart
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import deallocated_reads_ones, deallocated_reads_zeros
from ansible_collections.plumbline.ssd.plugins.module_utils._block.raid_state import CHECKING, SYNCING
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stack_addresses import component_bytes
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human, round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import as_yaml
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import MIRROR_ADD, MIRROR_CREATE, MIRROR_GROW, MIRROR_REPLACE, mirror_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.growth import disks_of, standing_disk
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.partitions import carried_bytes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Carrier, Leg, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import name_device, refuse_absent, refuse_contents, refuse_rebuild
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Replacement
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.volumes import array_uuid, guid_of_leg

_BEFORE_BOOT = "before the next boot take the failed SSD out, or clear its member superblock: at a boot at which it alone is there it may be started as it was"
_COMES_BACK = "bring that device back, and boot"
_FORCED = (
    "; the newest know %s to be the last that had its pair's data, and no other that is missing: as after a crash, the array starts by mdadm %s%s"
    "; check its filesystems before the database starts (e2fsck -f, xfs_repair -n)"
)


def plan_mirror(plan: StackPlan, seen: Observation) -> None:
    """Judge what there is of the array, and plan what is missing. What carries the PV is known then."""
    parts = {leg.node.devno: leg for leg in plan.legs if leg.node}
    arrays = [array for array in seen.md_arrays if array.runs and array.devno in seen.nodes and any(member.devno in parts for member in array.members)]
    if len(arrays) > 1:
        text = "the partitions of this stack are in several arrays, %s [mirror]; wanted one over all; look at mdadm --detail of each"
        plan.refuse(text, ", ".join("/dev/" + array.name for array in arrays))
        return
    if arrays:
        _plan_standing(plan, seen, arrays[0], parts)
    else:
        _plan_new(plan, seen)


def judge_missing(plan: StackPlan, seen: Observation) -> None:
    """Devices of a mirrored stack that are not there: it runs without them, does not run, or was never built."""
    if not plan.missing:
        return
    names = ", ".join(device.path.rsplit("/", 1)[-1] for device in plan.missing)
    parts = [leg.node.devno for leg in plan.legs if leg.node]
    array = next((found for found in map(seen.array_over, parts) if found), None)
    members = {devno: seen.md_superblocks[devno] for devno in parts if devno in seen.md_superblocks}
    if array and array.runs and _refuse_failed(plan, array):
        return
    if array and array.runs:
        text = "it runs without device %s [degraded]; growth waits; %s; if it is back, run again; else name another in its place in devices, with replace: %s"
        plan.refuse(text, names, _BEFORE_BOOT, "{SERIAL OF THE OLD ONE: SERIAL OF THE NEW ONE}")
    elif members:
        begin = _last_copies(plan, seen, members)
        text = "device %s is not there, and the array does not run without it [stale]: %s%s"
        plan.refuse(text, names, _events(seen, members), begin or "; what is older is never started as the truth: " + _COMES_BACK)
    else:
        for device in plan.missing:
            refuse_absent(plan, seen, device.path)


def _refuse_failed(plan: StackPlan, array: MdArray) -> bool:
    """Whether both of a pair are gone. What is added to such an array is filled with nothing, and an older member may be the only one that has the data."""
    if array.failed:
        text = "its array /dev/%s has failed [damaged]: it is '%s', and no member holds the places %s; nothing is added to it: write nothing"
        text += ", bring back the device of that pair that was lost last, with its data, boot, and run again: the run says how the array starts"
        text += "; if that is in vain, a replica or a backup has the data"
        plan.refuse(text, array.name, array.state, ", ".join(map(str, array.lost)) or "that it cannot reach")
    return array.failed


def refuse_mirrored(plan: StackPlan, seen: Observation) -> None:
    """A stack without mirrors whose partitions are members of an array: it was built with them."""
    inside = [leg for leg in plan.legs if leg.node and (leg.node.devno in seen.md_superblocks or seen.array_over(leg.node.devno))]
    if inside:
        text = "%s carries a member of an array, and the spec has no mirrors [mirror]; set mirror: true if the stack was built so; a stack is never converted"
        plan.refuse(text, ", ".join(name_device(seen, leg.devno) for leg in inside))


def _events(seen: Observation, members: dict[str, MdSuperblock]) -> str:
    """How new what each member holds is, in words."""
    return ", ".join("%s has %d events" % (name_device(seen, seen.nodes[devno].parent), member.events) for devno, member in members.items())


def _last_copies(plan: StackPlan, seen: Observation, members: dict[str, MdSuperblock]) -> str:
    """How an array starts that had lost both of a pair, when the one that was lost last is back: it is older than the others, and nothing is newer.

    The newest members know who held data last: md takes the last of a pair out of no superblock. Empty where it is not so, or not all of these are there.
    """
    newest = max(members.values(), key=lambda one: one.events)
    filled = {slot for slot in range(newest.disks) if slot not in newest.absent}
    holders = {one.role: devno for devno, one in members.items() if one.role in filled and one.uuid == newest.uuid}
    older = {slot for slot, devno in holders.items() if members[devno].events < newest.events}
    of_pairs = [{members[holders[slot]].events for slot in holders if slot // 2 == pair} for pair in range(newest.disks // 2)]
    apart = any(set(members[holders[slot]].absent) - set(newest.absent) for slot in older)
    twice = len({one.role for one in members.values()}) < len(members)
    if set(holders) != filled or not older or apart or twice or any(len(events) != 1 for events in of_pairs):
        return ""
    array = next((found for found in map(seen.array_over, members) if found), None)
    last = ", ".join(name_device(seen, seen.nodes[holders[slot]].parent) for slot in sorted(older))
    parts = " ".join(seen.nodes[holders[slot]].path for slot in sorted(holders))
    stop = "--stop /dev/%s, and then mdadm " % array.name if array else ""
    return _FORCED % (last, stop, "--assemble --force /dev/md/%s %s" % (plan.spec.name, parts))


# --- an array that is still to be made -------------------------------------------------------------


def _plan_new(plan: StackPlan, seen: Observation) -> None:
    spec, legs = plan.spec, plan.ordered
    uuid = array_uuid(spec.name, [seen.nodes[leg.devno].identity.key for leg in legs])
    members = {leg.node.devno: seen.md_superblocks[leg.node.devno] for leg in legs if leg.node and leg.node.devno in seen.md_superblocks}
    bare = [leg for leg in legs if leg.node and seen.pv(leg.node.devno)]
    if bare:
        text = "it was built without mirrors: PV of %s is on the partition itself [mirror]; leave mirror out, or build a stack of another name, and copy"
        plan.refuse(text, ", ".join(name_device(seen, leg.devno) for leg in bare))
        return
    if members and not _is_begun(seen, members, uuid):
        begin = _last_copies(plan, seen, members)
        look = "; look at the kernel's log and at mdadm --examine of each; if all are as new as each other, mdadm --assemble --scan or a boot assembles it"
        plan.refuse("its array is there and does not run [mirror]: %s%s", _events(seen, members), begin or look)
        return
    for leg in legs:
        if leg.node and leg.node.devno not in members:
            refuse_contents(plan, seen, [leg], volume_rules.part_content_reasons(seen, leg.node, spec.name))
    if plan.refusals:
        return
    spaces = [seen.namespaces.get(leg.devno, {}) for leg in legs]
    clean = spec.blank_proof == "full" and not any(map(deallocated_reads_ones, spaces))  # which are blank as well, and no zeros
    clean = clean or all(leg.discards and deallocated_reads_zeros(space) for leg, space in zip(legs, spaces))
    length = min(leg.size for leg in legs)
    component, size = component_bytes(length, plan.array_offset, plan.stripe), carried_bytes(plan, length)
    words = "no copy, since its members read as zeros" if clean else "its members are compared first, %s each, and made equal" % human(component)
    summary = "array of %d devices, RAID 10, chunk %s, %s: %s" % (len(legs), human(plan.stripe), human(size), words)
    disks = [disk if leg.entry else disk._replace(full_proof=False) for leg, disk in zip(legs, disks_of(plan, seen))]  # proven in full as it is partitioned
    guids = [guid_of_leg(leg, spec.name, seen.nodes[leg.devno].identity.key) for leg in legs]
    more = {"data_offset_bytes": plan.array_offset, "component_bytes": component, "assume_clean": clean}
    plan.steps.append(mirror_step(MIRROR_CREATE, spec.name, disks, uuid, guids, plan.stripe, summary, **more))
    plan.carriers = [Carrier(BY_ID + MD_UUID + uuid, "the array", legs, None, size, 0)]


def _is_begun(seen: Observation, members: dict[str, MdSuperblock], uuid: str) -> bool:
    """Whether what is there of an array is what a run of ours left when it was ended as it made it: nothing has been written to it yet."""
    proofs = [seen.proofs.get(devno) for devno in members]
    return all(member.uuid == uuid for member in members.values()) and all(proof is not None and not proof.faults for proof in proofs)


# --- one that stands -------------------------------------------------------------------------------


def _plan_standing(plan: StackPlan, seen: Observation, array: MdArray, parts: dict[str, Leg]) -> None:
    known = {member.devno: seen.md_superblocks[member.devno] for member in array.members if member.devno in seen.md_superblocks}
    inside = [known[member.devno] for member in array.members if member.devno in known and not member.faulty]
    if not inside or len({one.uuid for one in inside}) > 1:
        plan.refuse("the superblocks of the members of /dev/%s could not be read, or differ [mirror]; look at mdadm --examine of each", array.name)
        return
    _check_shape(plan, seen, array)
    if plan.refusals or _refuse_failed(plan, array):
        return
    plan.stripe, plan.array_offset = array.chunk, inside[0].data_offset
    plan.data_start = round_up(plan.data_start, plan.stripe)
    for planned in plan.volumes:
        planned.stripe = plan.stripe
    uuid = inside[0].uuid
    _plan_members(plan, seen, array, max(one.events for one in inside), uuid, parts)
    if not plan.refusals:
        _plan_size(plan, seen, array, uuid)


def _check_shape(plan: StackPlan, seen: Observation, array: MdArray) -> None:
    """An array cannot be given another level, layout or number of members here."""
    what, wanted = "the array /dev/%s" % array.name, len(plan.spec.devices)
    if (array.level, array.layout) != ("raid10", NEAR_2):
        refuse_rebuild(plan, what + " [mirror]", "%s, layout %#x" % (array.level, array.layout), "raid10 with two copies side by side (near 2)")
    elif array.disks != wanted:
        text = "%s has %d members, and the spec names %d devices [mirror]; a mirrored stack does not get wider or narrower: name those that it has"
        plan.refuse(text, what, array.disks, wanted)
    elif array.chunk != plan.stripe and (plan.spec.stripe_bytes or not array.chunk or array.chunk % plan.grain):
        refuse_rebuild(plan, what + " [mirror]", "a chunk of %s" % human(array.chunk), human(plan.stripe))


def _old_member(plan: StackPlan, seen: Observation, serial: str) -> Leg | None:
    """The partition of ours on a device that is replaced, where that device is there and is none of the stack's any more."""
    ours = {leg.devno for leg in plan.legs}
    for node in seen.nodes.values():
        table = seen.tables.get(node.devno)
        if node.identity.serial == serial and node.devno not in ours and table and ownership.is_ours(table, plan.spec.name):
            part = next((one for one in seen.nodes.values() if one.parent == node.devno), None)
            entry, name = table.entries[0], ownership.our_name(table.entries[0].name)
            return Leg(node.devno, name[1] if name else 0, seen.geometries[node.devno], start=entry.start, size=entry.size, entry=entry, node=part)
    return None


def _plan_members(plan: StackPlan, seen: Observation, array: MdArray, events: int, uuid: str, parts: dict[str, Leg]) -> None:
    """Who is in the array, who is to be, and who is to go."""
    spec, attached = plan.spec, {member.devno: member for member in array.members}
    serials = {seen.nodes[leg.devno].identity.serial for leg in plan.legs}
    for pair in spec.replace:
        if pair.new not in serials:
            plan.refuse("replace gives a place to serial '%s', which no device of the stack has%s", pair.new, nearest(pair.new, sorted(serials)))
    olds = {pair.old: _old_member(plan, seen, pair.old) for pair in spec.replace}
    strange = [devno for devno in attached if devno not in parts and devno not in {old.node.devno for old in olds.values() if old and old.node}]
    for devno in strange:
        disk = seen.nodes.get(seen.nodes[devno].parent, seen.nodes[devno]) if devno in seen.nodes else None  # a whole disk can be a member as well
        if disk:
            text = "%s is a member of the array, and is not in devices [mirror]; name it, or let another take its place by replace: {%s: SERIAL OF THE NEW ONE}"
            plan.refuse(text, name_device(seen, disk.devno), as_yaml(disk.identity.serial))
    filled = given = 0
    wishes = {pair.new: pair for pair in spec.replace}
    # A spare goes to a place that is empty: these are filled before a member that works is replaced.
    for leg in sorted(plan.ordered, key=lambda one: _works(attached, olds, wishes.get(seen.nodes[one.devno].identity.serial))):
        serial, member = seen.nodes[leg.devno].identity.serial, attached.get(leg.node.devno) if leg.node else None
        wish = wishes.get(serial)
        old = olds.get(wish.old) if wish and wish.old != wish.new else None
        again = wish and wish.old == wish.new
        beside = attached.get(old.node.devno) if old and old.node else None
        if member and member.bad:
            text = "%s does not hold %d ranges of blocks that could not be read or written [degraded]: what is there has one copy at most"
            plan.warn(text + "; mdadm --examine-badblocks says where; look at its health, and replace it", name_device(seen, leg.devno), member.bad)
        unfinished = old is not None and _is_left(seen, attached, old, uuid)
        comes_anew = again or (unfinished and not (beside and beside.in_sync))
        if member and member.faulty and not comes_anew:
            text = "%s has failed, and its array runs without it [degraded]; growth waits; %s; name another in its place in devices, with replace: {%s: %s}"
            plan.refuse(text, name_device(seen, leg.devno), _BEFORE_BOOT, as_yaml(serial), "SERIAL OF THE NEW ONE")
        elif wish and member and beside and min(member.slot, beside.slot) >= 0 and member.slot != beside.slot:
            text = "%s has place %d of the array, and cannot take that of serial '%s', which is place %d [mirror]; name another in replace"
            plan.refuse(text, name_device(seen, leg.devno), member.slot, wish.old, beside.slot)
        elif not member and beside and beside.in_sync and len(array.missing) > given:
            text = "%s is in use, and is replaced when all other members are in sync [degraded]: %d of %d are; run again then, /proc/mdstat says how far it is"
            plan.refuse(text, "device of serial '%s'" % wish.old if wish else "", array.disks - len(array.missing), array.disks)
        elif member and member.in_sync and not unfinished:
            if wish:
                plan.warn("%s has its place: take replace: {%s: %s} out of the spec", name_device(seen, leg.devno), as_yaml(wish.old), as_yaml(wish.new))
        elif wish:
            _plan_place(plan, seen, array, leg, wish, old, events, uuid)
            filled, given = filled + 1, given + 1
        elif member:
            plan.warn("%s is a member of the array and is being filled, or waits for a place", name_device(seen, leg.devno))
            filled += 1
        else:
            _refuse_outside(plan, seen, array, leg, events, uuid)
    _check_pairs(plan, seen, attached)
    _warn_of_state(plan, seen, array)
    if len(array.missing) > filled and not plan.refusals:
        text = "its array runs with %d of its %d members [degraded]; growth waits; %s; look at mdadm --detail /dev/%s"
        plan.refuse(text, array.disks - len(array.missing), array.disks, _BEFORE_BOOT, array.name)


def _warn_of_state(plan: StackPlan, seen: Observation, array: MdArray) -> None:
    """What keeps md from filling or comparing members, now or after a crash."""
    state = seen.raids.get(array.devno)
    goes_on = any(step["action"] in (MIRROR_ADD, MIRROR_REPLACE) for step in plan.steps)
    copied = any("replacement" in member.states for member in array.members)  # its halt is what keeps a copy with holes from its place
    if array.halt and not goes_on and not copied and not (state and state.action in CHECKING):
        text = "md halts before sector %d of the array /dev/%s, and fills and compares nothing behind it; a run that was killed leaves it so"
        plan.warn(text + "; echo max > /sys/block/%s/md/sync_max takes it away", array.halt, array.name, array.name)
    if state and state.action == "frozen" and not goes_on:
        text = "the array /dev/%s is frozen: md fills no member, and compares none; an mdadm that was killed leaves it so"
        plan.warn(text + "; echo idle > /sys/block/%s/md/sync_action thaws it", array.name, array.name)
    if array.bitmap == "none":
        text = "the array /dev/%s has no bitmap: after a crash all of it is compared, and a member that was away is filled from end to end"
        plan.warn(text + "; mdadm --grow /dev/%s --bitmap=internal --bitmap-chunk=64M gives it one", array.name, array.name)


def _check_pairs(plan: StackPlan, seen: Observation, attached: Mapping[str, MdMember]) -> None:
    """Whether the devices pair in the spec as they do in the array: who takes two SSDs out goes by the spec."""
    slots = [attached[leg.node.devno].slot if leg.node and leg.node.devno in attached else -1 for leg in plan.legs]
    if sorted(slots) != list(range(len(slots))):
        return  # one is still to get its place
    plan.members = [plan.legs[slots.index(slot)] for slot in range(len(slots))]
    if any(slots[at] // 2 != slots[at + 1] // 2 for at in range(0, len(slots), 2)):
        serials = [seen.nodes[leg.devno].identity.serial for leg in plan.members]
        pairs = ", ".join("%s and %s" % (serials[at], serials[at + 1]) for at in range(0, len(serials), 2))
        plan.warn("the devices pair otherwise in the array than in the spec: %s hold the same; write devices in this order", pairs)


def _works(attached: Mapping[str, MdMember], olds: Mapping[str, Leg | None], wish: Replacement | None) -> bool:
    """Whether a device is to take the place of a member that is in sync."""
    old = olds.get(wish.old) if wish and wish.old != wish.new else None
    member = attached.get(old.node.devno) if old and old.node else None
    return member is not None and member.in_sync


def _is_left(seen: Observation, attached: Mapping[str, object], old: Leg, uuid: str) -> bool:
    """Whether a device that was replaced is a member still, or says so."""
    found = seen.md_superblocks.get(old.node.devno) if old.node else None
    return bool(old.node and (old.node.devno in attached or (found and found.uuid == uuid)))


def _plan_place(plan: StackPlan, seen: Observation, array: MdArray, leg: Leg, pair: Replacement, old: Leg | None, events: int, uuid: str) -> None:
    """The step by which a device takes the place of another, or its own again."""
    found = seen.md_superblocks.get(leg.node.devno) if leg.node else None
    inside = leg.node and any(member.devno == leg.node.devno for member in array.members)
    left = bool(old and old.node and _is_left(seen, {member.devno: member for member in array.members}, old, uuid))
    apart = found and (found.uuid != uuid or was_run_apart(found, array, events))
    if not inside and (apart or not (left or array.missing)):
        _refuse_outside(plan, seen, array, leg, events, uuid)
        return
    spec, name = plan.spec, name_device(seen, leg.devno)
    new = guid_of_leg(leg, spec.name, seen.nodes[leg.devno].identity.key)
    disks, legs = disks_of(plan, seen), plan.ordered
    guids = [guid_of_leg(one, spec.name, seen.nodes[one.devno].identity.key) for one in legs]
    more = {"data_offset_bytes": plan.array_offset, "component_bytes": array.component, "new": new}
    if left and old and old.entry and old.entry.guid == new:
        text = "%s carries a copy of the partition table of %s, with its GUIDs [identity]: a step could not tell them apart; wanted a blank device"
        plan.refuse(text + ", or other GUIDs (sgdisk -G)", name, name_device(seen, old.devno))
    elif left and old and old.entry:
        more["old"] = old.entry.guid
        summary = "%s takes the place of %s in the array, which has two copies meanwhile" % (name, name_device(seen, old.devno))
        plan.steps.append(mirror_step(MIRROR_REPLACE, spec.name, [*disks, standing_disk(plan, seen, old)], uuid, guids, plan.stripe, summary, **more))
    else:
        place = "its place in the array again" if pair.old == pair.new else "the place of %s in the array" % pair.old
        summary, own = "%s takes %s" % (name, place), pair.old == pair.new
        plan.steps.append(mirror_step(MIRROR_ADD, spec.name, disks, uuid, guids, plan.stripe, summary, own_place=own, **more))


def _refuse_outside(plan: StackPlan, seen: Observation, array: MdArray, leg: Leg, events: int, uuid: str) -> None:
    """A device of the stack that its array runs without."""
    who, serial = name_device(seen, leg.devno), as_yaml(seen.nodes[leg.devno].identity.serial)
    found = seen.md_superblocks.get(leg.node.devno) if leg.node else None
    if found and found.uuid != uuid:
        plan.refuse("%s is a member of another array, %s, and not of this stack's, %s [mirror]; look at what it holds", who, found.uuid, uuid)
    elif found and was_run_apart(found, array, events):
        text = "%s was run apart from the array that runs now [stale]: it has %d events and the array %d, and each has data that the other lacks"
        text += "; look at both, and keep the one that is right; nothing here joins them"
        plan.refuse(text, who, found.events, events)
    elif found:
        text = "%s was away, and has older data [stale]: %d events, the array %d; it is not taken back by itself: replace: {%s: %s} does it"
        plan.refuse(text, who, found.events, events, serial, serial)
    elif array.missing:
        text = "%s is no member of the array, which runs with %d of %d [degraded]; growth waits; replace: {SERIAL OF THE OLD ONE: %s} gives it that place"
        plan.refuse(text, who, array.disks - len(array.missing), array.disks, serial)
    else:
        plan.refuse("%s is no member of the array, and no place is free [mirror]; replace: {SERIAL OF THE OLD ONE: %s} gives it one", who, serial)


def _plan_size(plan: StackPlan, seen: Observation, array: MdArray, uuid: str) -> None:
    """The array as what carries the PV, and the step by which it grows."""
    spec, node = plan.spec, seen.nodes[array.devno]
    length = min(leg.size for leg in plan.legs)
    wanted, grows = component_bytes(length, plan.array_offset, plan.stripe), any(leg.grows for leg in plan.legs)
    size = node.size
    if wanted > array.component and not (spec.grow or grows):
        text = "the array could have %s more on each of its members; set grow: true on the stack, and it is taken in while it is in use"
        plan.warn(text, human(wanted - array.component))
    elif wanted > array.component:
        state = seen.raids.get(array.devno)
        busy = array.missing or (state and state.action in SYNCING) or any(step["action"] in (MIRROR_ADD, MIRROR_REPLACE) for step in plan.steps)
        if busy:
            plan.refuse("the array grows when all its members are in sync [degraded]; run again then, or leave grow out meanwhile")
            return
        guids = [guid_of_leg(leg, spec.name, seen.nodes[leg.devno].identity.key) for leg in plan.ordered]
        summary = "grow the array from %s to %s on each member" % (human(array.component), human(wanted))
        ones = any(deallocated_reads_ones(seen.namespaces.get(leg.devno, {})) for leg in plan.legs)
        proven = all(leg.entry and leg.entry.size <= plan.array_offset + array.component for leg in plan.legs)  # all of it, as its partition grows in this run
        clean = spec.blank_proof == "full" and proven and not ones
        more = {"data_offset_bytes": plan.array_offset, "component_bytes": wanted, "assume_clean": clean}
        plan.steps.append(mirror_step(MIRROR_GROW, spec.name, disks_of(plan, seen), uuid, guids, plan.stripe, summary, **more))
        size = carried_bytes(plan, length)
    plan.carriers = [Carrier(BY_ID + MD_UUID + uuid, "the array", plan.ordered, node, size, node.size, sum(leg.spare for leg in plan.legs), size > node.size)]
