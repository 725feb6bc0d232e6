# SPDX-License-Identifier: GPL-3.0-or-later
"""Which devices a stack gets, and whether each may be its leg. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Collection, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import guards, ownership
from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, WARNING
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import ASSUMED
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import is_for
from ansible_collections.plumbline.ssd.plugins.module_utils._block.virtual_disks import on_one_ssd
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.link_rules import judge_links
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase as judge_erase
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import unfinished_table
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import name_device, not_kept, refuse, refuse_absent
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import DeviceName, Selector, Stack
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.volumes import partition_guid


def check_overrides(plan: StackPlan, seen: Observation, devnos: Sequence[str]) -> None:
    """A geometry that is for no disk of the host is mistyped where a leg's grain is only assumed; where none is, it may be meant for other hosts."""
    disks = [node for node in seen.nodes.values() if node.kind in ("disk", "loop")]
    links = {node.devno: [link for link, devno in seen.links.items() if devno == node.devno] for node in disks}
    for number, override in enumerate(plan.spec.overrides):
        if not any(is_for(override, node, links[node.devno]) for node in disks):
            what = "model '%s'" % override.model if override.model else "device '%s'" % override.device
            known = {node.identity.model for node in disks} if override.model else {word for node in disks for word in (*links[node.devno], node.name)}
            near = nearest(override.model or override.device.rsplit("/", 1)[-1], sorted(known))
            text = "geometry[%d] is for %s, which no disk of this host has%s; correct it, or take it out"
            missed = any(seen.geometries[devno].grain.confidence == ASSUMED for devno in devnos)
            (plan.refuse if missed or override.device else plan.warn)(text, number, what, near)


def check_contradictions(plan: StackPlan, stacks: Sequence[Stack], seen: Observation, devnos: Sequence[str]) -> None:
    """Two overrides that say different things of a leg: which of them counts must not hang on the order of a list."""
    for node in (seen.nodes[devno] for devno in devnos):
        links = [link for link, devno in seen.links.items() if devno == node.devno]
        every = [(stack.name, number, one) for stack in stacks for number, one in enumerate(stack.overrides)]
        matching = [found for found in every if is_for(found[2], node, links)]
        for key in sorted({key for _stack, _number, one in matching for key in one.values}):
            stated = [(stack, number, one) for stack, number, one in matching if key in one.values]
            own = any(one.device for _stack, _number, one in stated)
            stated = [found for found in stated if not own or found[2].device]
            said = {one.values[key]: "%s of %s.geometry[%d]" % (human(one.values[key]), stack, number) for stack, number, one in stated}
            if len(said) > 1:
                text = "the geometry of device %s contradicts itself: %s %s; leave one of them, or state it for the device"
                plan.refuse(text, node.name, key, " and ".join(said[value] for value in sorted(said)))


def find_devices(plans: Sequence[StackPlan], seen: Observation) -> list[list[str]]:
    """The devices of each stack, whatever the order of the stacks: a selector takes none that another stack names."""
    named = [[devno for devno in (_named(plan, seen, device) for device in plan.spec.devices) if devno] for plan in plans]
    found = _choose(plans, seen, named)
    taken: dict[str, str] = {}
    for plan, devnos in zip(plans, found):
        for devno in devnos:
            if devno in taken:
                plan.refuse("device %s is already a leg of %s", seen.nodes[devno].name, taken[devno])
            taken[devno] = plan.spec.name
    return found


def _choose(plans: Sequence[StackPlan], seen: Observation, named: Sequence[list[str]]) -> list[list[str]]:
    """The devices of each stack. The selectors that fit exactly come first, all at once; what they leave may fit others."""
    found = {number: devnos for number, devnos in enumerate(named) if not plans[number].spec.selector}
    while True:
        claimed = {devno for devnos in found.values() for devno in devnos}
        fits = {number: _fitting(plan.spec, seen, claimed) for number, plan in enumerate(plans) if number not in found}
        fits = {number: devnos for number, devnos in fits.items() if devnos}
        if not fits:
            return [found[number] if number in found else _refuse_selector(plan, seen, claimed) for number, plan in enumerate(plans)]
        found.update(fits)


def _named(plan: StackPlan, seen: Observation, device: DeviceName) -> str:
    devno = seen.paths.get(device.path, "")
    if not devno and plan.spec.mirror:
        plan.missing.append(device)  # what that means is judged when the others are known
    elif not devno:
        refuse_absent(plan, seen, device.path)
    if device.path in seen.twice_named:
        names = ["%s (%s)" % (seen.nodes[one].name, seen.nodes[one].identity.serial) if one in seen.nodes else one for one in seen.twice_named[device.path]]
        text = "%s is the name of several devices, %s: udev gives it to one of them, and to another next time [identity]; name it otherwise, by its WWID"
        plan.refuse(text, device.path, ", ".join(names))
    link = seen.link(devno) if devno else ""
    if link and device.path == seen.nodes[devno].path:
        text = "device %s is the kernel's name, which another disk may have after the next boot; name it %s"
        plan.warn(text, device.path, link)
    return devno


def _matching(spec: Stack, seen: Observation, taken: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """The disks that a selector matches, but for those that are taken: all of them, those that are ours, and those that are unused."""
    selector = spec.selector
    if selector is None:
        return [], [], []
    matching = [
        node
        for node in seen.nodes.values()
        if node.kind == "disk"
        and node.devno not in taken
        and fnmatch.fnmatchcase(node.identity.model, selector.model)
        and (_is_of_size(selector, node) or ownership.is_ours(seen.tables.get(node.devno), spec.name))  # one of ours may have grown since
    ]
    matching.sort(key=lambda node: node.identity.key)
    ours = [n.devno for n in matching if ownership.is_ours(seen.tables.get(n.devno), spec.name) or _named_in_ends(seen, n.devno, spec.name)]
    unused = [n.devno for n in matching if n.devno not in ours and not guards.take_reasons(seen, n.devno)]
    return [node.devno for node in matching], ours, unused


def _is_of_size(selector: Selector, node: Node) -> bool:
    return node.size >= selector.min_bytes and (not selector.max_bytes or node.size <= selector.max_bytes)


def _fitting(spec: Stack, seen: Observation, taken: Collection[str]) -> list[str]:
    """The devices that a selector means: those that are ours already, else exactly *count* unused ones; empty where it is not so many."""
    _all, ours, unused = _matching(spec, seen, taken)
    found = [ours, ours + unused]
    return next((devnos for devnos in found if spec.selector and len(devnos) == spec.selector.wanted), [])


def _refuse_selector(plan: StackPlan, seen: Observation, taken: Collection[str]) -> list[str]:
    spec, selector = plan.spec, plan.spec.selector
    matching, ours, unused = _matching(spec, seen, taken)
    if selector is not None:
        low = ", at least %s" % human(selector.min_bytes) if selector.min_bytes else ""
        high = ", at most %s" % human(selector.max_bytes) if selector.max_bytes else ""
        text = "the selector (model '%s'%s%s) wants exactly %d unused devices and found %d of %d that match"
        plan.refuse(text, selector.model, low, high, selector.wanted, len(ours) + len(unused), len(matching))
        plan.refusals += ["  " + guards.describe_disk(seen, devno) for devno in matching]
    return []


def _may_be_cut_off(seen: Observation, devno: str) -> bool:
    """Whether a device may hold a part of a table of ours: its ends were read, and the kernel shows nothing on it."""
    return devno in seen.ends and not seen.children(devno)


def _named_in_ends(seen: Observation, devno: str, stack: str) -> bool:
    return _may_be_cut_off(seen, devno) and unfinished_table.names_stack(seen.ends[devno], stack)


def _is_restored(plan: StackPlan, seen: Observation, devno: str) -> bool:
    """Whether the first copy of a disk's table is damaged, and the backup has just the partition that this stack has there, with something in it.

    One with nothing in it is of a build that was cut off: that writes its table again.
    """
    table = seen.tables.get(devno)
    spare = table.spare if table else ()
    name = ownership.our_name(spare[0].name) if len(spare) == 1 else None
    if name is None or name[0] != plan.spec.name or (_may_be_cut_off(seen, devno) and not unfinished_table.marks_between(seen, devno)):
        return False
    return spare[0].guid == partition_guid(plan.spec.name, seen.nodes[devno].identity.key, name[1])


def choose_erased(plan: StackPlan, seen: Observation) -> None:
    """The legs that are erased first: foreign, and named by their serial with the digest of just what they carry."""
    serials = sorted({seen.nodes[leg.devno].identity.serial for leg in plan.legs})
    for wish in plan.spec.erase:
        if wish.serial not in serials:
            plan.refuse("erase names serial '%s', which no device of the stack has%s", wish.serial, nearest(wish.serial, serials))
    for leg in plan.legs:
        # Namespaces of one SSD share its serial: the signature tells which is meant.
        wished = [wish.signature for wish in plan.spec.erase if wish.serial == seen.nodes[leg.devno].identity.serial]
        if not wished:
            continue
        found = judge_erase.digest(seen, leg.devno)
        if leg.devno not in not_kept(plan, seen) or not guards.take_reasons(seen, leg.devno):
            plan.warn("%s needs no erase (any more); take it out of the spec", name_device(seen, leg.devno))
        elif found in wished:
            leg.erase, leg.removes = found, judge_erase.contents(seen, leg.devno)
        else:
            text = "erase was given the signature %s, and it carries %s now" % (" or ".join(wished), found)
            if seen.erasures.get(leg.devno):
                text += " (it was erased on this host before, and is not blank)"
            leg.misfit = [Reason("erase", text, "look at what it carries, and write that signature if nothing of it is needed")]
    erased = [leg for leg in plan.legs if leg.erase]
    for leg, reasons in zip(erased, judge_erase.obstacles(seen, [leg.devno for leg in erased])):
        for reason in reasons:
            plan.refuse("%s", reason.line(name_device(seen, leg.devno)))


def check_legs(plan: StackPlan, seen: Observation) -> None:
    """Each leg is ours or may be taken; all legs of a stripe go together."""
    name = plan.spec.name
    for leg in plan.legs:
        node = seen.nodes[leg.devno]
        table = seen.tables.get(leg.devno)
        reasons: list[Reason] = []
        if ownership.is_ours(table, name) and table is not None and not leg.erase:
            leg.entry = table.entries[0]
            leg.node = next((n for n in seen.nodes.values() if n.parent == leg.devno and n.start == leg.entry.start), None)
            reasons = guards.identity_reasons(seen, node)
        elif table is not None and _is_restored(plan, seen, leg.devno) and not leg.erase and not leg.misfit:
            leg.restores = table.spare[0]
            reasons = guards.identity_reasons(seen, node)
        elif not leg.erase:
            reasons = guards.take_reasons(seen, leg.devno)
            if _may_be_cut_off(seen, leg.devno) and not guards.blocking_reasons(reasons):
                leg.doubts, reasons = reasons + leg.misfit, []
            else:
                reasons += leg.misfit
        refuse(plan, seen, leg, reasons)
        block = min(volume.kind.block for volume in plan.spec.volumes)
        if leg.geometry.logical_bytes > block:
            text = "device %s has blocks of %d bytes, and filesystems are made with %d here; give it another format, if it has one (nvme format)"
            plan.refuse(text, node.name, leg.geometry.logical_bytes, block)
        offset = leg.geometry.alignment_offset.value
        if offset is not None and offset < 0:
            plan.refuse("device %s has alignment_offset -1: the layers below it contradict each other; a geometry override can state it", node.name)
    if len({leg.geometry.logical_bytes for leg in plan.legs}) > 1 and plan.spec.laid.striped:
        plan.refuse("the legs differ in logical block size, and a stripe wants one:")
        plan.refusals += [
            "  %s: %d bytes (%s)" % (seen.nodes[leg.devno].name, leg.geometry.logical_bytes, seen.nodes[leg.devno].identity.model) for leg in plan.legs
        ]
    # Volumes of ours that LVM does not know any more are told with their partition.
    ours = any(node.kind == "lvm" and node.title.startswith(name + "-") for leg in plan.legs for node in seen.tree(leg.devno))
    if plan.spec.grouped and name in seen.taken_names and not seen.vg(name) and not ours:
        text = "/dev/%s is %s, so that LVM makes no volume group of that name [name]; rename the stack, or remove that"
        plan.refuse(text, name, seen.taken_names[name])
    _check_controllers(plan, seen)
    _check_links(plan, seen)
    for what, words in (
        ("model", {seen.nodes[leg.devno].identity.model for leg in plan.legs}),
        ("firmware", {seen.nodes[leg.devno].identity.firmware for leg in plan.legs}),
        ("size", {human(seen.nodes[leg.devno].size) for leg in plan.legs}),
    ):
        if len(words) > 1:
            plan.warn("the legs differ in %s: %s", what, ", ".join(sorted(words)))


def _check_controllers(plan: StackPlan, seen: Observation) -> None:
    ssds: list[list[Node]] = []
    for node in (seen.nodes[leg.devno] for leg in plan.legs):
        if node.identity.transport == "nvme" and node.identity.controller:
            same = next((nodes for nodes in ssds if any(on_one_ssd(node, other) for other in nodes)), None)
            if same is None:
                ssds.append([node])
            else:
                same.append(node)
    for nodes in ssds:
        if len(nodes) < 2:
            continue
        controllers = ", ".join(dict.fromkeys(node.identity.controller for node in nodes))
        names = " and ".join(node.name for node in nodes)
        text = "%s are namespaces of one SSD (%s): striping them doubles nothing"
        if plan.spec.mirror:
            plan.refuse("%s are namespaces of one SSD (%s): a mirror has to outlive an SSD [mirror]; name one namespace of each", names, controllers)
        elif "shared_controller" in plan.spec.accept:
            plan.warn(text + " [accepted: shared_controller]", names, controllers)
        else:
            plan.refuse(text + "; name two SSDs, or set accept: [shared_controller]", names, controllers)


def _check_links(plan: StackPlan, seen: Observation) -> None:
    """The links of the devices that are still to be built on: half of what both ends can do is not built on without a word."""
    nodes = [seen.nodes[leg.devno] for leg in plan.legs if leg.entry is None]
    accepted = "slow_link" in plan.spec.accept
    for finding in judge_links({node.name: seen.drive_links.get(node.devno, ()) for node in nodes}, building=True):
        if finding.level == ERROR and not accepted:
            plan.refuse("%s; mend the link, or set accept: [slow_link]", finding.text)
        elif finding.level == ERROR:
            plan.findings.append(finding._replace(level=WARNING))
            plan.warn("%s [accepted: slow_link]", finding.text)
        else:
            plan.findings.append(finding)
            if finding.level == WARNING:
                plan.warn("%s", finding.text)
