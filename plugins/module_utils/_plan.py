# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""From what is asked and what was seen to the steps that remain, or to the reasons why there can be none. Pure.

A step is a plain dict with an ``action``; the roles carry steps out, in order, and plan again. What exists
and is as asked gives no step; what can only be rebuilt is refused with wanted and found; what is not ours is
refused with its reason. A plan with a refusal has no steps at all.
"""

from __future__ import annotations

import fnmatch
import json
import uuid
from dataclasses import dataclass, field
from typing import Any, Collection, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _erase, _guards, _remains
from ansible_collections.plumbline.ssd.plugins.module_utils._cache import PACKAGES, Wish, plan_caches, step_tools
from ansible_collections.plumbline.ssd.plugins.module_utils._durability import POWER_CUT, RECORDED, REFUSED, STATED, Risk, drive_of, judge_options, name_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._filesystem_state import changes_of, made_otherwise, stripe_changes
from ansible_collections.plumbline.ssd.plugins.module_utils._geometry import (
    ASSUMED,
    Geometry,
    auto_stripe,
    check_stripe,
    common_grain,
    data_alignment,
    extent_size,
    partition_end,
    partition_start,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Accepted, Ext4, Lv, Node, Observation, TableEntry
from ansible_collections.plumbline.ssd.plugins.module_utils._mountpoint import way_fault
from ansible_collections.plumbline.ssd.plugins.module_utils._options import UNMOUNT_FIRST, option_drift, wants_unmount
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import MIB, human, is_power_of_two
from ansible_collections.plumbline.ssd.plugins.module_utils._spec import DeviceName, Override, Stack, Volume
from ansible_collections.plumbline.ssd.plugins.module_utils._tables import TYPE_LINUX, TYPE_LVM

_MAX_EXTENTS = (1 << 32) - 1  # of a PV (lvm2, lib/metadata/pv.h: pe_count)
BLOCK = 4096  # ext4's block size, always
_NAMESPACE = uuid.UUID("6f0f5a3e-52c8-5a55-9a5c-2f7f5a1b7d10")  # of the identifiers made here
_ORDER = ("write_cache", "partition", "striped_lvm", "filesystem")
# Which package brings a tool, by distribution family; the first family that the host names counts.
_PACKAGES = {
    "debian": {"lvm": "lvm2", "sfdisk": "fdisk", "wipefs": "util-linux", "mkfs.ext4": "e2fsprogs", "mount": "mount", "fio": "fio"},
    "fedora": {"lvm": "lvm2", "sfdisk": "util-linux", "wipefs": "util-linux", "mkfs.ext4": "e2fsprogs", "mount": "util-linux", "fio": "fio"},
    "suse": {"lvm": "lvm2", "sfdisk": "util-linux", "wipefs": "util-linux", "mkfs.ext4": "e2fsprogs", "mount": "util-linux", "fio": "fio"},
}
_FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "fedora": "fedora",
    "rhel": "fedora",
    "centos": "fedora",
    "suse": "suse",
    "opensuse": "suse",
    "sles": "suse",
}


@dataclass
class Leg:
    """One device of a stack with what is wanted of it and what is there."""

    devno: str
    index: int
    geometry: Geometry
    start: int = 0
    size: int = 0
    entry: Optional[TableEntry] = None  # our partition, if it is in the table
    node: Optional[Node] = None  # our partition, if the kernel shows it
    erase: str = ""  # the digest of its contents, where they are to go first
    removes: List[str] = field(default_factory=list)  # what goes then
    doubts: List[_guards.Reason] = field(default_factory=list)  # against it, unless what it holds is a table of ours that was cut off
    misfit: List[_guards.Reason] = field(default_factory=list)  # an erase was asked for, of other contents than these


@dataclass
class StackPlan:
    """One stack: its steps, the reasons against it, and what is worth a word."""

    spec: Stack
    legs: List[Leg] = field(default_factory=list)
    steps: List[Dict[str, Any]] = field(default_factory=list)
    refusals: List[str] = field(default_factory=list)
    warnings: List[str] = field(default_factory=list)
    stripe: int = 0
    extent: int = 0
    grain: int = 0
    data_start: int = 0
    sizes: Dict[str, int] = field(default_factory=dict)
    stripes: Dict[str, int] = field(default_factory=dict)  # of the LVs that stand with another stripe size than *stripe*
    accepted: List[Accepted] = field(default_factory=list)  # the risks of its mounts that somebody's word allows
    host_mounts: Tuple[str, ...] = ()  # the mount points of all stacks
    planned: List[str] = field(default_factory=list)  # the actions that were looked at: planning may stop at a layer


@dataclass
class Plan:
    """The plan of a host."""

    stacks: List[StackPlan]
    missing_packages: List[str]
    cache_step: Optional[Dict[str, Any]] = None

    @property
    def steps(self) -> List[Dict[str, Any]]:
        """What is to be done, in order; the write caches of all stacks are one step, the first, and their mounts one, the last."""
        steps = [] if self.refusals else ([self.cache_step] if self.cache_step else []) + [step for stack in self.stacks for step in stack.steps]
        mounts = [step for step in steps if step["action"] == "mount"]
        return [step for step in steps if step["action"] != "mount"] + ([_one_mount_step(mounts)] if mounts else [])

    @property
    def refusals(self) -> List[str]:
        return [refusal for stack in self.stacks for refusal in stack.refusals]

    @property
    def warnings(self) -> List[str]:
        return [warning for stack in self.stacks for warning in stack.warnings]

    @property
    def digest(self) -> str:
        """Names this plan: the same steps on the same devices give the same digest."""
        import hashlib  # pylint: disable=import-outside-toplevel # costs more than the rest of a plan without steps

        return hashlib.sha256(json.dumps(self.steps, sort_keys=True).encode()).hexdigest()


def overrides_for(stacks: Sequence[Stack], node: Node, links: Iterable[str]) -> Dict[str, int]:
    """The operator's geometry for a disk: of all that match, a device's own words count before a pattern's."""
    overrides = [override for stack in stacks for override in stack.overrides if _is_for(override, node, links)]
    matching = sorted(overrides, key=lambda override: bool(override.device))
    return {key: value for override in matching for key, value in override.values.items()}


def _is_for(override: Override, node: Node, links: Iterable[str]) -> bool:
    names = {*links, node.name, node.path}
    by_model = override.model and fnmatch.fnmatchcase(node.identity.model, override.model)
    return bool(by_model or (override.device and {override.device, override.device.rsplit("/", 1)[-1]} & names))


def _check_overrides(plan: StackPlan, seen: Observation, devnos: Sequence[str]) -> None:
    """A geometry that is for no disk of the host is mistyped where a leg's grain is only assumed; where none is, it may be meant for other hosts."""
    disks = [node for node in seen.nodes.values() if node.kind in ("disk", "loop")]
    links = {node.devno: [link for link, devno in seen.links.items() if devno == node.devno] for node in disks}
    for number, override in enumerate(plan.spec.overrides):
        if not any(_is_for(override, node, links[node.devno]) for node in disks):
            what = "model '%s'" % override.model if override.model else "device '%s'" % override.device
            known = {node.identity.model for node in disks} if override.model else {word for node in disks for word in (*links[node.devno], node.name)}
            near = nearest(override.model or override.device.rsplit("/", 1)[-1], sorted(known))
            text = "%s: geometry[%d] is for %s, which no disk of this host has%s; correct it, or take it out"
            missed = any(seen.geometries[devno].grain.confidence == ASSUMED for devno in devnos)
            (plan.refusals if missed or override.device else plan.warnings).append(text % (plan.spec.name, number, what, near))


def make_plan(stacks: Sequence[Stack], seen: Observation, through: str = "filesystem") -> Plan:
    """Plan all stacks of a host up to a layer: ``write_cache``, ``partition``, ``striped_lvm`` or ``filesystem``."""
    mounts = tuple(volume.mount for spec in stacks for volume in spec.volumes if volume.mount)
    plans = [StackPlan(spec, host_mounts=mounts) for spec in stacks]
    for plan, devnos in zip(plans, _resolve(plans, seen)):
        _check_overrides(plan, seen, devnos)
        if plan.refusals:
            continue
        try:
            _plan_stack(plan, devnos, seen, through)
        except PlumblineError as fault:
            plan.refusals.append("%s: %s" % (plan.spec.name, fault.msg))
            plan.refusals += fault.reasons
    step = _plan_caches(plans, seen)
    packages = set(missing_packages(seen, stacks, through) + packages_of(seen, step_tools(seen, step) if step else []))
    return Plan(plans, sorted(packages), step)


def _plan_caches(plans: Sequence[StackPlan], seen: Observation) -> Optional[Dict[str, Any]]:
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
        plan.refusals += ["%s: %s" % (plan.spec.name, reason) for reason in refusals.get(plan.spec.name, [])]
    return step


def missing_packages(seen: Observation, stacks: Sequence[Stack], through: str) -> List[str]:
    """The packages that bring the tools which are wanted and not there."""
    wanted = ["sfdisk", "wipefs"] if _ORDER.index(through) >= 1 else ["wipefs"]
    if _ORDER.index(through) >= 2 and any(stack.grouped for stack in stacks):
        wanted.append("lvm")
    if _ORDER.index(through) >= 3:
        wanted += ["mkfs.ext4", "mount"]
    return packages_of(seen, wanted)


def packages_of(seen: Observation, wanted: Iterable[str]) -> List[str]:
    """The packages of the host's distribution that bring those of these tools that are not there."""
    family = next((_FAMILIES[word] for word in seen.distribution if word in _FAMILIES), "debian")
    packages = {**_PACKAGES[family], **PACKAGES}
    return sorted({packages[tool] for tool in wanted if tool not in seen.tools})


# --- which devices ---------------------------------------------------------------------------------


def _resolve(plans: Sequence[StackPlan], seen: Observation) -> List[List[str]]:
    """The devices of each stack, whatever the order of the stacks: a selector takes none that another stack names."""
    named = [[devno for devno in (_named(plan, seen, device) for device in plan.spec.devices) if devno] for plan in plans]
    found = _choose(plans, seen, named)
    taken: Dict[str, str] = {}
    for plan, devnos in zip(plans, found):
        for devno in devnos:
            if devno in taken:
                plan.refusals.append("%s: device %s is already a leg of %s" % (plan.spec.name, seen.nodes[devno].name, taken[devno]))
            taken[devno] = plan.spec.name
    return found


def _choose(plans: Sequence[StackPlan], seen: Observation, named: Sequence[List[str]]) -> List[List[str]]:
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
    if not devno:
        name = device.path.rsplit("/", 1)[-1]
        disks = {n.devno for n in seen.nodes.values() if n.kind == "disk"}
        links = sorted(link for link, number in seen.links.items() if number in disks)
        near = nearest(name, links)
        plan.refusals.append("%s: device %s is not there%s; names are those below /dev/disk/by-id" % (plan.spec.name, device.path, near))
    if device.path in seen.twice_named:
        names = ["%s (%s)" % (seen.nodes[one].name, seen.nodes[one].identity.serial) if one in seen.nodes else one for one in seen.twice_named[device.path]]
        text = "%s: %s is the name of several devices, %s: udev gives it to one of them, and to another next time [identity]; name it otherwise, by its WWID"
        plan.refusals.append(text % (plan.spec.name, device.path, ", ".join(names)))
    return devno


def _matching(spec: Stack, seen: Observation, taken: Collection[str]) -> Tuple[List[str], List[str], List[str]]:
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
        and node.size >= selector.min_bytes
        and (not selector.max_bytes or node.size <= selector.max_bytes)
    ]
    matching.sort(key=lambda node: node.identity.key)
    ours = [n.devno for n in matching if _guards.is_ours(seen.tables.get(n.devno), spec.name) or _named_in_ends(seen, n.devno, spec.name)]
    unused = [n.devno for n in matching if n.devno not in ours and not _guards.take_reasons(seen, n.devno)]
    return [node.devno for node in matching], ours, unused


def _fitting(spec: Stack, seen: Observation, taken: Collection[str]) -> List[str]:
    """The devices that a selector means: those that are ours already, else exactly *count* unused ones; empty where it is not so many."""
    _all, ours, unused = _matching(spec, seen, taken)
    found = [ours, ours + unused]
    return next((devnos for devnos in found if spec.selector and len(devnos) == spec.selector.wanted), [])


def _refuse_selector(plan: StackPlan, seen: Observation, taken: Collection[str]) -> List[str]:
    spec, selector = plan.spec, plan.spec.selector
    matching, ours, unused = _matching(spec, seen, taken)
    if selector is not None:
        low = ", at least %s" % human(selector.min_bytes) if selector.min_bytes else ""
        high = ", at most %s" % human(selector.max_bytes) if selector.max_bytes else ""
        text = "%s: the selector (model '%s'%s%s) wants exactly %d unused devices and found %d of %d that match"
        plan.refusals.append(text % (spec.name, selector.model, low, high, selector.wanted, len(ours) + len(unused), len(matching)))
        plan.refusals += ["  " + _guards.describe(seen, devno) for devno in matching]
    return []


def _may_be_cut_off(seen: Observation, devno: str) -> bool:
    """Whether a device may hold a part of a table of ours: its ends were read, and the kernel shows nothing on it."""
    return devno in seen.ends and not seen.children(devno)


def _named_in_ends(seen: Observation, devno: str, stack: str) -> bool:
    return _may_be_cut_off(seen, devno) and _remains.names_stack(seen.ends[devno], stack)


# --- one stack -------------------------------------------------------------------------------------


def _plan_stack(plan: StackPlan, devnos: Sequence[str], seen: Observation, through: str) -> None:
    spec = plan.spec
    plan.legs = [Leg(devno, index, seen.geometries[devno]) for index, devno in enumerate(devnos)]
    _choose_erased(plan, seen)
    _check_legs(plan, seen)
    if plan.refusals or through == "write_cache":
        for leg in plan.legs:  # what was cut off is judged with the partitions
            _refuse(plan, seen, leg, leg.doubts)
        if not plan.refusals:
            _judge_mounts(plan, seen)
        return
    seen = _erase.as_erased(seen, [leg.devno for leg in plan.legs if leg.erase])
    _choose_sizes(plan, seen)
    _plan_partitions(plan, seen)
    _judge_mounts(plan, seen)
    plan.planned.append("partition")
    if plan.refusals or through == "partition":
        return
    if spec.grouped:
        _plan_group(plan, seen)
        if not plan.refusals:
            _plan_volumes(plan, seen)
        plan.planned += ["volume_group", "logical_volume"]
    _check_kernel(plan, seen)
    if plan.refusals or through == "striped_lvm" or any(step.get("unfinished") for step in plan.steps):
        return
    _plan_filesystems(plan, seen)
    if not plan.refusals:
        _plan_mounts(plan, seen)
        _check_host(plan, seen)
    plan.planned += ["filesystem", "mount"]


def _check_host(plan: StackPlan, seen: Observation) -> None:
    """Refuse what the last steps of this plan would fail by, when the tables are written already."""
    name = plan.spec.name
    mounts = [mount for step in plan.steps if step["action"] == "mount" for mount in step["mounts"]]
    if seen.fstab_fault and any(change.startswith("fstab") for mount in mounts for change in mount["changes"]):
        plan.refusals.append("%s: /etc/fstab could not be written: %s; mend that first" % (name, seen.fstab_fault))
    for mount in mounts:
        state = seen.directories.get(mount["path"])
        inside = any(mount["path"].startswith(other + "/") for other in plan.host_mounts)
        if state and state.read_only and not inside:
            text = "%s: mount point %s could not be made: %s is on a filesystem that is mounted read-only; make it there yourself, or name another"
            plan.refusals.append(text % (name, mount["path"], state.read_only))
    _check_kernel(plan, seen)


def _check_kernel(plan: StackPlan, seen: Observation) -> None:
    needs = {"device-mapper": ("volume_group", "logical_volume"), "ext4": ("mount",)}
    text = "%s: the running kernel has not loaded %s, and its modules are gone: was another kernel installed since? Boot that, and run again"
    for word in seen.kernel_lacks:
        told = text % (plan.spec.name, word)
        if any(step["action"] in needs[word] for step in plan.steps) and told not in plan.refusals:
            plan.refusals.append(told)


def _choose_erased(plan: StackPlan, seen: Observation) -> None:
    """The legs that are erased first: foreign, and named by their serial with the digest of just what they carry."""
    name = plan.spec.name
    serials = sorted({seen.nodes[leg.devno].identity.serial for leg in plan.legs})
    for wish in plan.spec.erase:
        if wish.serial not in serials:
            plan.refusals.append("%s: erase names serial '%s', which no device of the stack has%s" % (name, wish.serial, nearest(wish.serial, serials)))
    for leg in plan.legs:
        # Namespaces of one SSD share its serial: the signature tells which is meant.
        wished = [wish.signature for wish in plan.spec.erase if wish.serial == seen.nodes[leg.devno].identity.serial]
        if not wished:
            continue
        found = _erase.digest(seen, leg.devno)
        if leg.devno not in _not_kept(plan, seen) or not _guards.take_reasons(seen, leg.devno):
            plan.warnings.append("%s: %s needs no erase (any more); take it out of the spec" % (name, _device_name(seen, leg.devno)))
        elif found in wished:
            leg.erase, leg.removes = found, _erase.contents(seen, leg.devno)
        else:
            text = "erase was given the signature %s, and it carries %s now" % (" or ".join(wished), found)
            if seen.erasures.get(leg.devno):
                text += " (it was erased on this host before, and is not blank)"
            leg.misfit = [_guards.Reason("erase", text, "look at what it carries, and write that signature if all of it may be lost")]
    erased = [leg for leg in plan.legs if leg.erase]
    for leg, reasons in zip(erased, _erase.obstacles(seen, [leg.devno for leg in erased])):
        plan.refusals += ["%s: %s" % (name, reason.line(_device_name(seen, leg.devno))) for reason in reasons]


def _check_legs(plan: StackPlan, seen: Observation) -> None:
    """Each leg is ours or may be taken; all legs of a stripe go together."""
    name = plan.spec.name
    for leg in plan.legs:
        node = seen.nodes[leg.devno]
        table = seen.tables.get(leg.devno)
        reasons: List[_guards.Reason] = []
        if _guards.is_ours(table, name) and table is not None and not leg.erase:
            leg.entry = table.entries[0]
            leg.node = next((n for n in seen.nodes.values() if n.parent == leg.devno and n.start == leg.entry.start), None)
            reasons = _guards.identity_reasons(seen, node)
        elif not leg.erase:
            reasons = _guards.take_reasons(seen, leg.devno)
            if _may_be_cut_off(seen, leg.devno) and not _guards.standing(reasons):
                leg.doubts, reasons = reasons + leg.misfit, []
            else:
                reasons += leg.misfit
        _refuse(plan, seen, leg, reasons)
        offset = leg.geometry.alignment_offset.value
        if offset is not None and offset < 0:
            plan.refusals.append(
                "%s: device %s has alignment_offset -1: the layers below it contradict each other; a geometry override can state it" % (name, node.name)
            )
    if len({leg.geometry.logical_bytes for leg in plan.legs}) > 1 and plan.spec.layout == "striped":
        plan.refusals.append("%s: the legs differ in logical block size, and a stripe wants one:" % name)
        plan.refusals += [
            "  %s: %d bytes (%s)" % (seen.nodes[leg.devno].name, leg.geometry.logical_bytes, seen.nodes[leg.devno].identity.model) for leg in plan.legs
        ]
    # Volumes of ours that LVM does not know any more are told with their partition.
    ours = any(node.kind == "lvm" and node.title.startswith(name + "-") for leg in plan.legs for node in seen.tree(leg.devno))
    if plan.spec.grouped and name in seen.taken_names and not seen.vg(name) and not ours:
        text = "%s: /dev/%s is %s, so that LVM makes no volume group of that name [name]; rename the stack, or remove that"
        plan.refusals.append(text % (name, name, seen.taken_names[name]))
    _check_controllers(plan, seen)
    for what, words in (
        ("model", {seen.nodes[leg.devno].identity.model for leg in plan.legs}),
        ("firmware", {seen.nodes[leg.devno].identity.firmware for leg in plan.legs}),
        ("size", {human(seen.nodes[leg.devno].size) for leg in plan.legs}),
    ):
        if len(words) > 1:
            plan.warnings.append("%s: the legs differ in %s: %s" % (name, what, ", ".join(sorted(words))))


def _not_kept(plan: StackPlan, seen: Observation) -> List[str]:
    """The devices of a stack that carry nothing of ours, or something of ours that was lost: what they hold goes by somebody's word alone."""
    name = plan.spec.name
    return [leg.devno for leg in plan.legs if not _guards.is_ours(seen.tables.get(leg.devno), name) or _guards.lost_reasons(seen, leg.devno)]


def _refuse(plan: StackPlan, seen: Observation, leg: Leg, reasons: Sequence[_guards.Reason]) -> None:
    """Refuse a leg for these reasons, if there are any, and say what would free it, if anything does."""
    name, device = plan.spec.name, _device_name(seen, leg.devno)
    plan.refusals += ["%s: %s" % (name, reason.line(device)) for reason in reasons]
    _offer(plan, seen, [leg] if reasons else [])


def _refuse_contents(plan: StackPlan, seen: Observation, legs: Sequence[Leg], reasons: Sequence[_guards.Reason]) -> None:
    """The same for a partition or a volume of ours on these *legs*; the reasons name it."""
    plan.refusals += ["%s: %s" % (plan.spec.name, reason.words) for reason in reasons]
    _offer(plan, seen, legs if reasons else [])
    for leg in legs if reasons else []:
        plan.refusals += ["%s: %s" % (plan.spec.name, reason.line(_device_name(seen, leg.devno))) for reason in leg.misfit]


def _offer(plan: StackPlan, seen: Observation, legs: Sequence[Leg]) -> None:
    for leg in legs:
        offered = _erase.offer(seen, leg.devno, _not_kept(plan, seen))
        if offered:
            plan.refusals.append("%s: %s: %s [erase]" % (plan.spec.name, _device_name(seen, leg.devno), offered))


def _device_name(seen: Observation, devno: str) -> str:
    node = seen.nodes[devno]
    serial = " (%s)" % node.identity.serial if node.identity.serial else ""
    return "device %s%s" % (node.name, serial)


def _check_controllers(plan: StackPlan, seen: Observation) -> None:
    ssds: List[List[Node]] = []
    for node in (seen.nodes[leg.devno] for leg in plan.legs):
        if node.identity.transport == "nvme" and node.identity.controller:
            same = next((nodes for nodes in ssds if any(_guards.share_ssd(node.identity, other.identity) for other in nodes)), None)
            if same is None:
                ssds.append([node])
            else:
                same.append(node)
    for nodes in ssds:
        if len(nodes) < 2:
            continue
        controllers = ", ".join(dict.fromkeys(node.identity.controller for node in nodes))
        names = " and ".join(node.name for node in nodes)
        text = "%s: %s are namespaces of one SSD (%s): striping them doubles nothing" % (plan.spec.name, names, controllers)
        if "shared_controller" in plan.spec.accept:
            plan.warnings.append(text + " [accepted: shared_controller]")
        else:
            plan.refusals.append(text + "; name two SSDs, or set accept: [shared_controller]")


def _choose_sizes(plan: StackPlan, seen: Observation) -> None:
    """Stripe, start and size of the partitions, from the geometry alone."""
    spec, legs = plan.spec, plan.legs
    for leg in legs:
        if leg.geometry.grain_bytes % leg.geometry.logical_bytes:
            what = (seen.nodes[leg.devno].name, human(leg.geometry.grain_bytes), leg.geometry.grain.source, leg.geometry.logical_bytes)
            raise PlumblineError("device %s: a grain of %s (%s) is no multiple of its block of %d bytes" % what)
    plan.grain = common_grain([leg.geometry for leg in legs])
    if spec.layout == "striped":
        if spec.stripe_bytes:
            check_stripe(spec.stripe_bytes, plan.grain)
        plan.stripe = spec.stripe_bytes or auto_stripe(plan.grain)
    ends = [partition_end(seen.nodes[leg.devno].size, spec.reserve, leg.geometry) for leg in legs]
    for leg, end in zip(legs, ends):
        leg.start = partition_start(leg.geometry)
        leg.size = end - leg.start
    if spec.layout == "striped":
        smallest = min(leg.size for leg in legs)
        for leg in legs:
            leg.size = smallest
    for leg in legs:
        if leg.size < 16 * MIB:
            node = seen.nodes[leg.devno]
            raise PlumblineError("device %s of %s leaves %s after the reserve; wanted at least 16 MiB" % (node.name, human(node.size), human(max(leg.size, 0))))
    plan.data_start = max(data_alignment(leg.geometry) for leg in legs)
    plan.extent = spec.extent_bytes or max(extent_size(legs[0].size), plan.stripe)
    if spec.layout == "linear" and plan.extent % plan.grain:
        text = "layout 'linear': extents of %s are no multiple of the grain %s, so that a second volume would begin off it; use layout 'separate'"
        raise PlumblineError(text % (human(plan.extent), human(plan.grain)))
    if spec.grouped and legs[0].size // plan.extent > _MAX_EXTENTS:
        text = "extent_size: %s makes %d extents of a PV of %s, and LVM counts them in 32 bits; leave it out, or set a larger one"
        raise PlumblineError(text % (human(plan.extent), legs[0].size // plan.extent, human(legs[0].size)))


def partition_guid(stack: str, key: str, index: int) -> str:
    """The unique GUID of a leg's partition, made before it is written, from the device's own identity."""
    return str(uuid.uuid5(_NAMESPACE, "partition/%s/%d/%s" % (stack, index, key))).upper()


def filesystem_uuid(stack: str, volume: str, keys: Sequence[str]) -> str:
    """The UUID of a volume's filesystem, made before mkfs, from the identities of its devices."""
    return str(uuid.uuid5(_NAMESPACE, "filesystem/%s/%s/%s" % (stack, volume, "|".join(sorted(keys)))))


def _plan_partitions(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    wanted = []
    indexes = {_index(leg.entry) for leg in plan.legs if leg.entry}
    free = [index for index in range(len(plan.legs)) if index not in indexes]
    for leg in plan.legs:
        node = seen.nodes[leg.devno]
        if leg.entry:
            leg.index = _index(leg.entry)
            _check_partition(plan, leg, node)
            if leg.node:
                continue
        else:
            leg.index = free.pop(0)
        starts = [] if leg.entry else _inner_starts(plan, leg)
        device = {
            "device": node.path,
            "identity": node.identity.key,
            "test_identity": node.identity.test,
            "serial": node.identity.serial,
            "model": node.identity.model,
            "diskseq": node.diskseq,
            "size_bytes": node.size,
            "logical_bytes": leg.geometry.logical_bytes,
            "start_bytes": leg.start,
            "length_bytes": leg.size,
            "end_bytes": leg.start + leg.size,
            "type_guid": TYPE_LVM if spec.grouped else TYPE_LINUX,
            "guid": leg.entry.guid if leg.entry else partition_guid(spec.name, node.identity.key, leg.index),
            "name": "plumbline:%s:%d" % (spec.name, leg.index),
            "written": leg.entry is not None,
            "unfinished": False,
            "full_proof": spec.blank_proof == "full",
            "probe_starts": starts,
            "erase": leg.erase,
            "removes": leg.removes,
        }
        if leg.doubts or leg.entry:
            _carry_on(plan, seen, leg, device)
        wanted.append(device)
    if len(plan.legs) > 1 and len({leg.index for leg in plan.legs}) < len(plan.legs):
        plan.refusals.append("%s: two legs carry the same partition name; one is perhaps a copy of the other" % spec.name)
    if wanted:
        erased = ", ".join(seen.nodes[leg.devno].name for leg in plan.legs if leg.erase)
        plan.steps.append(
            {
                "action": "partition",
                "stack": spec.name,
                "devices": wanted,
                "summary": "%spartition %s"
                % ("erase %s, then " % erased if erased else "", ", ".join(seen.nodes[leg.devno].name for leg in plan.legs if not leg.node)),
            }
        )


def _carry_on(plan: StackPlan, seen: Observation, leg: Leg, device: Dict[str, Any]) -> None:
    """Judge a device whose ends are neither blank nor a table that the kernel shows: what is left of this very table is written again."""
    ours = _remains.can_be_finished(seen, leg.devno, device) and not _remains.marks_between(seen, leg.devno)
    if ours and not (leg.entry and _remains.is_whole(seen.ends[leg.devno], device)):
        device.update(written=False, unfinished=True, probe_starts=_inner_starts(plan, leg))
        _refuse(plan, seen, leg, _guards.use_reasons(seen, seen.nodes[leg.devno]))
    else:
        _refuse(plan, seen, leg, leg.doubts)


def _inner_starts(plan: StackPlan, leg: Leg) -> List[int]:
    """Where our own volumes will begin on this leg, so that the blank proof looks there as well."""
    places, at = [leg.start], leg.start + plan.data_start
    if plan.spec.grouped:
        extents = _leg_extents(plan)
        for volume in plan.spec.volumes:
            places.append(at)
            at += _volume_extents(plan, volume, extents) * plan.extent
    return places


def _index(entry: Optional[TableEntry]) -> int:
    name = _guards.our_name(entry.name) if entry else None
    return name[1] if name else -1


def _check_partition(plan: StackPlan, leg: Leg, node: Node) -> None:
    """Our own partition must be where this spec would put it: it cannot be moved, only made anew."""
    if leg.entry is None:
        return
    phase, wanted = leg.entry.start % leg.geometry.grain_bytes, leg.geometry.offset_bytes
    if phase != wanted:
        _rebuild(
            plan,
            "partition '%s' on %s" % (leg.entry.name, node.name),
            "start %d (phase %d)" % (leg.entry.start, phase),
            "phase %d of %s" % (wanted, human(leg.geometry.grain_bytes)),
        )
    elif leg.entry.size != leg.size:
        _rebuild(
            plan,
            "partition '%s' on %s" % (leg.entry.name, node.name),
            "%s (%d bytes)" % (human(leg.entry.size), leg.entry.size),
            "%s (%d bytes), by size and reserve" % (human(leg.size), leg.size),
        )
    wanted_type, what = (TYPE_LVM, "LVM") if plan.spec.grouped else (TYPE_LINUX, "Linux filesystem")
    if leg.entry.type.upper() != wanted_type.upper():
        text = "%s: partition '%s' on %s has the type %s; wanted %s (%s), by sfdisk --part-type %s %d %s"
        words = (plan.spec.name, leg.entry.name, node.name, leg.entry.type, wanted_type, what, node.path, leg.entry.number, wanted_type)
        plan.warnings.append(text % words)
    leg.start = leg.entry.start


def _rebuild(plan: StackPlan, what: str, found: str, wanted: str) -> None:
    plan.refusals.append("%s: %s has %s; wanted %s; this can only be rebuilt, which is never done here" % (plan.spec.name, what, found, wanted))


# --- LVM -------------------------------------------------------------------------------------------


def _part_path(leg: Leg, stack: str, key: str) -> str:
    guid = leg.entry.guid if leg.entry else partition_guid(stack, key, leg.index)
    return "/dev/disk/by-partuuid/" + guid.lower()


def _plan_group(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    paths = [_part_path(leg, spec.name, seen.nodes[leg.devno].identity.key) for leg in sorted(plan.legs, key=lambda one: one.index)]
    group = seen.vg(spec.name)
    parts = {leg.node.devno for leg in plan.legs if leg.node}
    for leg in plan.legs:
        if leg.node:
            _refuse_contents(plan, seen, [leg], _guards.part_content_reasons(seen, leg.node, spec.name))
    members = {pv.devno for pv in seen.lvm.pvs if pv.vg == spec.name}
    lost = [pv for pv in seen.lvm.pvs if pv.vg == spec.name and pv.devno not in seen.nodes]
    if lost and members & parts:
        text = "%s: VG '%s' misses its PV %s [damaged]; plug its device in again, or %s"
        plan.refusals += [text % (spec.name, spec.name, pv.uuid, _guards.RESTORE_GROUP) for pv in lost]
    elif members - parts:
        plan.refusals.append(
            "%s: VG '%s' exists on other devices: %s; rename the stack"
            % (spec.name, spec.name, ", ".join(pv.name for pv in seen.lvm.pvs if pv.vg == spec.name))
        )
    if plan.refusals:
        return
    if group and members == parts and len(parts) == len(plan.legs):
        if spec.extent_bytes and group.extent_bytes != spec.extent_bytes:
            _rebuild(plan, "VG '%s'" % spec.name, "extents of %s" % human(group.extent_bytes), human(spec.extent_bytes))
        plan.extent = group.extent_bytes
        for leg in plan.legs:
            pv = seen.pv(leg.node.devno) if leg.node else None
            if pv and (leg.start + pv.data_start) % leg.geometry.grain_bytes != leg.geometry.offset_bytes:
                phase = (leg.start + pv.data_start) % leg.geometry.grain_bytes
                _rebuild(plan, "PV %s" % pv.name, "its data at phase %d (pe_start %d)" % (phase, pv.data_start), "phase %d" % leg.geometry.offset_bytes)
            if pv:
                plan.data_start = pv.data_start
        return
    if group:
        plan.refusals.append("%s: VG '%s' holds %d of its %d PVs; it is never extended here" % (spec.name, spec.name, len(members & parts), len(plan.legs)))
        return
    plan.steps.append(
        {
            "action": "volume_group",
            "stack": spec.name,
            "vg": spec.name,
            "pvs": paths,
            "extent_bytes": plan.extent,
            "data_alignment_bytes": plan.data_start,
            "summary": "VG %s on %d PVs, extents of %s, data at %s" % (spec.name, len(paths), human(plan.extent), human(plan.data_start)),
        }
    )


def _leg_extents(plan: StackPlan) -> int:
    """Extents of the smallest leg: what its partition holds behind the data start."""
    return min((leg.size - plan.data_start) // plan.extent for leg in plan.legs)


def _volume_extents(plan: StackPlan, volume: Volume, extents: int) -> int:
    """Extents of a volume on each leg: a share is rounded down, a size is rounded up."""
    if volume.size_bytes:
        per_extent = plan.extent * len(plan.legs)
        return -(-volume.size_bytes // per_extent)
    return int(extents * volume.percent / 100 + 1e-9)


def _plan_volumes(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    group = seen.vg(spec.name)
    extents = group.extents // len(plan.legs) if group else _leg_extents(plan)
    wanted = {volume.name: _volume_extents(plan, volume, extents) for volume in spec.volumes}
    for volume in spec.volumes:
        if not wanted[volume.name]:
            plan.refusals.append("%s: volume '%s' would be smaller than one extent of %s on each leg" % (spec.name, volume.name, human(plan.extent)))
    if sum(wanted.values()) > extents:
        rows = ", ".join("%s %s" % (name, human(count * plan.extent * len(plan.legs))) for name, count in wanted.items())
        plan.refusals.append("%s: the volumes want more than there is: %s; the VG has %s" % (spec.name, rows, human(extents * plan.extent * len(plan.legs))))
    if group and any(seen.lv(spec.name, volume.name) is None for volume in spec.volumes):
        for part in [leg.node for leg in plan.legs if leg.node]:
            plan.refusals += ["%s: %s" % (spec.name, reason.words) for reason in _guards.free_reasons(seen, part)]
    if plan.refusals:
        return
    for volume in spec.volumes:
        count = wanted[volume.name]
        plan.sizes[volume.name] = size = count * plan.extent * len(plan.legs)
        found = seen.lv(spec.name, volume.name)
        if found:
            _check_lv(plan, volume, found, size)
            continue
        summary = "LV %s/%s, %s %s" % (spec.name, volume.name, human(size), _shape(plan))
        plan.steps.append(_lv_step(plan, volume, size, False, summary))
    ours = {volume.name for volume in spec.volumes}
    others = sorted(lv.name for lv in seen.lvm.lvs if lv.vg == spec.name and lv.name not in ours)
    if others:
        plan.warnings.append("%s: VG '%s' holds LVs that are not in the spec and are left alone: %s" % (spec.name, spec.name, ", ".join(others)))


def _shape(plan: StackPlan) -> str:
    """How a volume is to lie on the legs."""
    return "over %d stripes of %s" % (len(plan.legs), human(plan.stripe)) if plan.spec.layout == "striped" else "in one piece"


def _lv_step(plan: StackPlan, volume: Volume, size: int, unfinished: bool, summary: str) -> Dict[str, Any]:
    """*unfinished*: it is there, and only not active. What it holds is known when it is, so the plan for what comes on it is made again then."""
    return {
        "action": "logical_volume",
        "stack": plan.spec.name,
        "vg": plan.spec.name,
        "lv": volume.name,
        "size_bytes": size,
        "stripes": len(plan.legs),
        "stripe_bytes": plan.stripe,
        "unfinished": unfinished,
        "summary": summary,
    }


def _check_lv(plan: StackPlan, volume: Volume, found: Lv, size: int) -> None:
    what = "LV %s/%s" % (found.vg, found.name)
    kind = "striped" if plan.spec.layout == "striped" else "linear"
    if found.stripes != len(plan.legs) or set(found.kinds) != {kind}:
        layout = "%d stripes" % found.stripes if set(found.kinds) == {"striped"} else ", ".join(found.kinds)
        _rebuild(plan, what, "a layout of %s" % layout, "%d stripes" % len(plan.legs) if kind == "striped" else kind)
    elif len(found.layouts) > 1:
        text = "segments of %s" % ", then ".join("%d stripes of %s" % (count, human(size)) for count, size in found.layouts)
        _rebuild(plan, what, text, "%d stripes of %s in all of it" % (len(plan.legs), human(plan.stripe)))
    elif kind == "striped" and found.stripe_bytes != plan.stripe and (plan.spec.stripe_bytes or not _fits(found.stripe_bytes, plan.grain)):
        _rebuild(plan, what, "stripes of %s" % human(found.stripe_bytes), human(plan.stripe))
    elif found.size != size:
        _rebuild(plan, what, "%s (%d bytes)" % (human(found.size), found.size), "%s (%d bytes)" % (human(size), size))
    elif not found.active and (kind == "linear" or found.stripe_bytes == plan.stripe) and found.segments == 1:
        # lvcreate writes the metadata first and activates then (lv_manip.c, _lv_create_an_lv()): what a kill leaves in between is just this.
        plan.steps.append(_lv_step(plan, volume, size, True, "activate %s, which was left inactive; what is on it is planned then" % what))
    elif not found.active:
        plan.refusals.append("%s: %s exists but is not active; run: lvchange -ay %s/%s" % (plan.spec.name, what, found.vg, found.name))
    elif kind == "striped" and found.stripe_bytes != plan.stripe:
        plan.stripes[volume.name] = found.stripe_bytes


def _fits(stripe: int, grain: int) -> bool:
    return is_power_of_two(stripe) and stripe % grain == 0


# --- ext4 and mounts -------------------------------------------------------------------------------


def _volume_device(plan: StackPlan, seen: Observation, number: int, volume: Volume) -> Tuple[str, Optional[Node]]:
    if plan.spec.grouped:
        return "/dev/%s/%s" % (plan.spec.name, volume.name), seen.lv_node(plan.spec.name, volume.name)
    leg = sorted(plan.legs, key=lambda one: one.index)[number]
    return _part_path(leg, plan.spec.name, seen.nodes[leg.devno].identity.key), leg.node


def volume_devices(plan: StackPlan, seen: Observation) -> List[str]:
    """The stable path of each volume's device, in the order of the spec."""
    return [_volume_device(plan, seen, number, volume)[0] for number, volume in enumerate(plan.spec.volumes)]


def volume_protections(plan: StackPlan, seen: Observation) -> List[bool]:
    """Whether somebody states power-loss protection of all drives below each volume."""
    stated = plan.spec.power_loss_protection
    numbers = range(len(plan.spec.volumes))
    return [all(seen.nodes[leg.devno].identity.serial in stated for leg in _volume_legs(plan, number)) for number in numbers]


def volume_births(plan: StackPlan, seen: Observation) -> List[int]:
    """When the filesystem of each volume was made, in seconds since 1970; 0 where there is none."""
    nodes = [_volume_device(plan, seen, number, volume)[1] for number, volume in enumerate(plan.spec.volumes)]
    found = [seen.filesystems.get(node.devno) if node else None for node in nodes]
    return [one.made if one else 0 for one in found]


def _volume_legs(plan: StackPlan, number: int) -> List[Leg]:
    ordered = sorted(plan.legs, key=lambda one: one.index)
    return ordered if plan.spec.grouped else [ordered[number]]


def ext4_geometry(plan: StackPlan, number: int) -> Tuple[int, int]:
    """stride and stripe_width of a volume, in blocks: the stripe on each leg, and all legs together.

    Without stripes both are the grain, so that mke2fs never takes a device's own fill value instead.
    """
    legs = _volume_legs(plan, number)
    stripe = plan.stripes.get(plan.spec.volumes[number].name, plan.stripe)
    unit = stripe if plan.spec.layout == "striped" else legs[0].geometry.grain_bytes
    stride = max(unit // BLOCK, 1)
    return stride, stride * len(legs)


def _plan_filesystems(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    for number, volume in enumerate(spec.volumes):
        device, node = _volume_device(plan, seen, number, volume)
        stride, width = ext4_geometry(plan, number)
        found = seen.filesystems.get(node.devno) if node else None
        if node and found:
            _check_ext4(plan, volume, found, stride, width)
            _check_state(plan, seen, volume, found, node)
            continue
        keys = [seen.nodes[leg.devno].identity.key for leg in _volume_legs(plan, number)]
        identifier = filesystem_uuid(spec.name, volume.name, keys)
        if node:
            reasons = _guards.volume_content_reasons(seen, node, volume.name, identifier in seen.making)
            _refuse_contents(plan, seen, _volume_legs(plan, number), reasons)
        lazy = int(volume.lazy_init)
        options = "-b %d -m 0 -L %s -U %s -E stride=%d,stripe_width=%d,lazy_itable_init=%d,lazy_journal_init=%d" % (
            BLOCK,
            volume.label,
            identifier,
            stride,
            width,
            lazy,
            lazy,
        )
        if volume.bytes_per_inode:
            options += " -i %d" % volume.bytes_per_inode
        plan.steps.append(
            {
                "action": "filesystem",
                "stack": spec.name,
                "volume": volume.name,
                "device": device,
                "fstype": "ext4",
                "options": options,
                "uuid": identifier,
                "summary": "ext4 '%s' on %s, stride %d, stripe_width %d" % (volume.label, device, stride, width),
            }
        )


def _check_ext4(plan: StackPlan, volume: Volume, found: Ext4, stride: int, width: int) -> None:
    what = "the filesystem of volume '%s'" % volume.name
    if (found.stride, found.stripe_width, found.block) != (stride, width, BLOCK):
        _rebuild(
            plan,
            what,
            "blocks of %d, stride %d, stripe_width %d" % (found.block, found.stride, found.stripe_width),
            "blocks of %d, stride %d, stripe_width %d" % (BLOCK, stride, width),
        )
    if found.label != volume.label:
        plan.warnings.append("%s: %s is labelled '%s', not '%s'; change it with tune2fs -L" % (plan.spec.name, what, found.label, volume.label))


def _check_state(plan: StackPlan, seen: Observation, volume: Volume, found: Ext4, node: Node) -> None:
    live = seen.in_force.get(node.devno, ()) if not any(option.startswith("stripe=") for option in volume.mount_options) else ()
    for change in changes_of(found, node.size) + made_otherwise(found, volume.mount_options) + stripe_changes(found, live):
        text = "%s: the filesystem of volume '%s': %s; wanted %s" % (plan.spec.name, volume.name, change.found, change.wanted)
        (plan.refusals if change.bad else plan.warnings).append(text)
    if node.read_only:
        text = "%s: volume '%s' (%s) is read-only; wanted one that can be written to; lvchange --permission rw, or look at why it is so"
        plan.refusals.append(text % (plan.spec.name, volume.name, node.path))


def _identifier(plan: StackPlan, seen: Observation, number: int) -> str:
    """The UUID of a volume's filesystem: its own, or the one that it will get."""
    volume = plan.spec.volumes[number]
    _device, node = _volume_device(plan, seen, number, volume)
    found = seen.filesystems.get(node.devno) if node else None
    keys = [seen.nodes[leg.devno].identity.key for leg in _volume_legs(plan, number)]
    return found.uuid if found else filesystem_uuid(plan.spec.name, volume.name, keys)


def _judge_mounts(plan: StackPlan, seen: Observation) -> None:
    """Whether every volume's mount options may be, over the write caches that it lies on. Before the first write, whatever layer is planned."""
    spec = plan.spec
    for number, volume in enumerate(spec.volumes):
        drives = [drive_of(seen, leg.devno, spec.power_loss_protection) for leg in _volume_legs(plan, number)]
        for risk in judge_options(volume.mount_options, drives, spec.accept) if volume.mount else []:
            if risk.level == REFUSED:
                plan.refusals.append(_refused_option(spec, volume, risk))
            elif risk.level == RECORDED and risk.acceptance:
                one = Accepted(spec.name, volume.name, volume.mount, _identifier(plan, seen, number), risk.option, risk.acceptance)
                same = next((other for other in plan.accepted if other.key == one.key), one)  # drives may be at risk for different reasons
                plan.accepted = [other for other in plan.accepted if other is not same]
                plan.accepted.append(one._replace(serials=tuple(sorted({*same.serials, *(drive.serial for drive in risk.drives)}))))


def _refused_option(spec: Stack, volume: Volume, risk: Risk) -> str:
    profile = " (of mount_profile '%s')" % volume.mount_profile if volume.mount_profile else ""
    serials = [drive.serial for drive in risk.drives if drive.serial]
    by_word = ", or %s: [%s], where they have it" % (STATED, ", ".join(serials)) if risk.by_protection and serials else ""
    return "%s: volume '%s': mount option '%s'%s on %s: %s; it wants accept: [%s] on the stack%s" % (
        spec.name, volume.name, risk.option, profile, name_drives(risk.drives), risk.text, risk.acceptance, by_word,
    )  # fmt: skip


def _plan_mounts(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    mounts = []
    for number, volume in enumerate(spec.volumes):
        _device, node = _volume_device(plan, seen, number, volume)
        if not volume.mount:
            _check_no_mount(plan, seen, volume, node)
            continue
        identifier = _identifier(plan, seen, number)
        wanted = _mount_step(spec, volume, identifier, seen)
        _check_mount(plan, seen, volume, node, identifier)
        changes = _mount_changes(seen, volume, node, wanted)
        if changes:
            mounts.append(dict(wanted, changes=changes))
    units = _units(spec)
    stale = {name: text for name, text in units.items() if seen.drop_ins.get(name, "").strip() != text.strip()}
    timer = any(volume.discard == "timer" and volume.mount for volume in spec.volumes) and not seen.timer_enabled
    recorded = [one._replace(since="") for one in seen.accepted if one.stack == spec.name]
    accepted = sorted(plan.accepted) != sorted(recorded)
    if mounts or stale or timer or accepted:
        words = ["%s: %s" % (mount["path"], ", ".join(mount["changes"])) for mount in mounts]
        words += ["drop-in %s" % name for name in stale] + (["fstrim.timer enabled"] if timer else [])
        words += ["record that '%s' is accepted on %s [%s]" % (one.option, one.mount, one.acceptance) for one in plan.accepted if one not in recorded]
        words += ["record that '%s' on %s is not accepted any more" % (one.option, one.mount) for one in recorded if one not in plan.accepted]
        plan.steps.append(
            {
                "action": "mount",
                "mounts": mounts,
                "drop_ins": stale,
                "enable_fstrim_timer": timer,
                "accepted": [_accepted_of(plan)] if accepted else [],
                "summary": "mount " + "; ".join(words),
            }
        )


def _accepted_of(plan: StackPlan) -> Dict[str, Any]:
    """The accepted risks of a stack as the record takes them: without the time, which is the record's."""
    risks = [{key: value for key, value in one._asdict().items() if key not in ("stack", "since")} for one in plan.accepted]
    return {"stack": plan.spec.name, "risks": [dict(risk, serials=list(risk["serials"])) for risk in risks]}


def _one_mount_step(steps: Sequence[Mapping[str, Any]]) -> Dict[str, Any]:
    """The mounts of several stacks as one: one change of fstab, in which an outer mount comes before an inner one."""
    summaries = [str(step["summary"]) for step in steps]
    return {
        "action": "mount",
        "mounts": [mount for step in steps for mount in step["mounts"]],
        "drop_ins": {name: text for step in steps for name, text in step["drop_ins"].items()},
        "enable_fstrim_timer": any(step["enable_fstrim_timer"] for step in steps),
        "accepted": [one for step in steps for one in step["accepted"]],
        "summary": "; ".join(summaries[:1] + [summary[len("mount ") :] for summary in summaries[1:]]),
    }


def _mount_step(spec: Stack, volume: Volume, identifier: str, seen: Observation) -> Dict[str, Any]:
    return {
        "stack": spec.name,
        "volume": volume.name,
        "path": volume.mount,
        "uuid": identifier,
        "fstype": "ext4",
        "options": volume.fstab_options,
        "passno": 2,
        "owner": seen.users.get(volume.owner, -1),
        "group": seen.groups.get(volume.group, -1),
        "mode": volume.mode,
        "selinux_context": volume.selinux_context if seen.selinux else "",
    }


def drop_in_file(unit: str, stack: str) -> str:
    """Where a unit's dependency on a stack's mounts is kept, systemd.unit(5)."""
    return "/etc/systemd/system/%s.d/50-plumbline-%s.conf" % (unit, stack)


def _units(spec: Stack) -> Dict[str, str]:
    needed: Dict[str, List[str]] = {}
    for volume in spec.volumes:
        for unit in volume.required_by:
            needed.setdefault(unit, []).append(volume.mount)
    text = "# Written by plumbline.ssd: this unit does not start without its volumes.\n[Unit]\nRequiresMountsFor=%s\n"
    return {drop_in_file(unit, spec.name): text % " ".join(paths) for unit, paths in needed.items()}


def drop_in_files(stacks: Iterable[Stack]) -> List[str]:
    """All drop-ins that the stacks ask for."""
    return [name for stack in stacks for name in _units(stack)]


def _check_mount(plan: StackPlan, seen: Observation, volume: Volume, node: Optional[Node], identifier: str) -> None:
    """Refuse a mount point that is somebody else's, and an owner that the host does not know."""
    name, path = plan.spec.name, volume.mount
    own = node.devno if node else ""
    mounted_there = any((mount.here, mount.devno, mount.target, mount.root) == (True, own, path, "/") for mount in seen.mounts)
    for mount in seen.mounts:
        if mount.here and mount.target == path and mount.devno != own:
            device = seen.nodes[mount.devno].path if mount.devno in seen.nodes else mount.devno
            plan.refusals.append("%s: %s is the mount point of %s [mounted]; name another for volume '%s'" % (name, path, device, volume.name))
        if mount.here and own and mount.devno == own and (mount.target, mount.root) != (path, "/"):
            if not mounted_there:  # else it is seen there as well, by a bind mount
                what = "" if mount.root == "/" else "'s directory %s" % mount.root
                plan.refusals.append("%s: volume '%s'%s is mounted on %s; wanted %s; unmount it first" % (name, volume.name, what, mount.target, path))
        elif mount.here and own and mount.devno == own:
            if path in seen.covers:
                text = "%s: volume '%s' is mounted on %s, and %s is mounted over it [covered]: what is written there does not reach the volume; unmount that"
                plan.refusals.append(text % (name, volume.name, path, seen.covers[path]))
            for found, wanted in wants_unmount(volume.mount_options, mount.options):
                words = (name, volume.name, path, found, wanted, UNMOUNT_FIRST % path)
                plan.refusals.append("%s: volume '%s' is mounted on %s with %s; wanted %s; %s" % words)
    for entry in seen.fstab:
        if entry.target == path and entry.spec != "UUID=" + identifier:
            plan.refusals.append("%s: fstab has %s for %s already; wanted UUID=%s; take that line out first" % (name, entry.spec, path, identifier))
    state = seen.directories.get(path)
    targets = [mount.target for mount in seen.mounts if mount.here]
    mounted = path in targets
    # The roots of volumes, which their own mounts will cover, may be anybody's.
    fault = way_fault(state.way, [*targets, *plan.host_mounts]) if state and not mounted else ""
    if fault:
        plan.refusals.append("%s: mount point %s is not safe: %s [mount_point]" % (name, path, fault))
    if state and state.fault:
        remedy = "look at the kernel's log and at what lies there, and run again"
        plan.refusals.append("%s: mount point %s could not be read: %s [unreadable]; %s" % (name, path, state.fault, remedy))
    elif state and state.exists and not mounted:
        if not state.is_directory:
            what = "a symbolic link to %s" % state.symlink if state.symlink else "no directory"
            plan.refusals.append("%s: mount point %s is %s; wanted an empty directory or nothing" % (name, path, what))
        elif state.other:  # of one that has no block device of its own: NFS, tmpfs, btrfs, ZFS
            plan.refusals.append("%s: mount point %s is the root of another filesystem [mounted]; unmount it, or name another" % (name, path))
        elif state.entries:
            plan.refusals.append("%s: mount point %s holds %d entries, which the mount would hide; empty it or name another" % (name, path, state.entries))
    for what, word, known in (("owner", volume.owner, seen.users), ("group", volume.group, seen.groups)):
        if word and word not in known:
            plan.refusals.append("%s: %s '%s' of volume '%s' is not known to this host; create it first" % (name, what, word, volume.name))


def _check_no_mount(plan: StackPlan, seen: Observation, volume: Volume, node: Optional[Node]) -> None:
    """Tell of a mount and of a line of fstab that a volume still has when the spec has none any more. Nobody unmounts a database here."""
    found = seen.filesystems.get(node.devno) if node else None
    if not node or not found:
        return
    words = ["it is mounted on %s" % mount.target for mount in seen.mounts if mount.here and mount.devno == node.devno]
    words += ["fstab mounts it on %s" % entry.target for entry in seen.fstab if entry.spec == "UUID=" + found.uuid]
    if words:
        text = "%s: volume '%s' has no mount in the spec, and %s; that is left alone: unmount it and take the line out, or give the volume its mount"
        plan.warnings.append(text % (plan.spec.name, volume.name, ", ".join(words)))


def _mount_changes(seen: Observation, volume: Volume, node: Optional[Node], wanted: Mapping[str, Any]) -> List[str]:
    """What has to change so that the volume is in fstab, mounted, and its root directory as asked."""
    changes = []
    line = next((entry for entry in seen.fstab if entry.target == volume.mount), None)
    if line is None:
        changes.append("fstab line")
    elif (line.fstype, set(line.options), line.passno) != ("ext4", set(str(wanted["options"]).split(",")), 2):
        changes.append("fstab options %s → %s" % (",".join(line.options), wanted["options"]))
    live = next((mount for mount in seen.mounts if node and mount.here and (mount.devno, mount.target, mount.root) == (node.devno, volume.mount, "/")), None)
    if live is None:
        return changes + ["mounted"]
    missing, extra = option_drift(volume.mount_options, live.options)
    if missing or extra:
        changes.append("remounted: %s" % ", ".join(["+" + option for option in missing] + ["-" + option for option in extra]))
    state = seen.directories.get(volume.mount)
    if state:
        for word, found in (("owner", state.owner), ("group", state.group)):
            if wanted[word] >= 0 and wanted[word] != found:
                changes.append("%s %d → %d" % (word, found, wanted[word]))
        if volume.mode and volume.mode != state.mode:
            changes.append("mode %s → %s" % (state.mode, volume.mode))
    return changes
