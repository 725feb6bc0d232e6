# SPDX-License-Identifier: GPL-3.0-or-later
"""From what is asked and what was seen to the steps that remain, or to the reasons why there can be none. Pure.

A step is a plain dict with an ``action``; the roles carry steps out, in order, and plan again. What exists
and is as specified gives no step; what can only be rebuilt is refused with wanted and found; what is not ours is
refused with its reason. A plan with a refusal has no steps at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.mount_options import contexts_of
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase as judge_erase
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.devices import check_contradictions, check_legs, check_overrides, choose_erased, find_devices
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.filesystems import plan_filesystems
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.growth import partitions_as_carriers, plan_restored_tables
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.lvm import plan_group, plan_volumes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.lvm_filters import refuse_rejected
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.mirrors import judge_missing, plan_mirror, refuse_mirrored
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.mounts import judge_mounts, plan_mounts
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.packages import missing_packages, packages_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.partitions import choose_sizes, number_legs, plan_partitions
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Leg, Plan, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import refuse
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.reserves import choose_reserves, judge_reserves
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Stack
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.volumes import place_volumes
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.write_caches import plan_caches_of_stacks, step_tools


def make_plan(stacks: Sequence[Stack], seen: Observation, through: str = "filesystem") -> Plan:
    """Plan all stacks of a host up to a layer: ``write_cache``, ``partition``, ``striped_lvm`` or ``filesystem``."""
    mounts = {volume.mount: volume for spec in stacks for volume in spec.volumes if volume.mount}
    plans = [StackPlan(spec, host_mounts=mounts) for spec in stacks]
    for plan, devnos in zip(plans, find_devices(plans, seen)):
        check_overrides(plan, seen, devnos)
        check_contradictions(plan, stacks, seen, devnos)
        if plan.refusals:
            continue
        try:
            _plan_stack(plan, devnos, seen, through)
        except PlumblineError as fault:
            plan.refuse("%s", fault.msg)
            plan.refusals += fault.reasons
    step = plan_caches_of_stacks(plans, seen)
    packages = set(missing_packages(seen, stacks, through) + packages_of(seen, step_tools(seen, step) if step else []))
    return Plan(plans, sorted(packages), step)


def _plan_stack(plan: StackPlan, devnos: Sequence[str], seen: Observation, through: str) -> None:
    spec = plan.spec
    plan.legs = [Leg(devno, index, seen.geometries[devno]) for index, devno in enumerate(devnos)]
    choose_erased(plan, seen)
    check_legs(plan, seen)
    number_legs(plan)
    judge_missing(plan, seen)
    if spec.grouped and through != "write_cache":
        refuse_rejected(plan, seen)
    if plan.refusals or through == "write_cache":
        for leg in plan.legs:  # what was cut off is judged with the partitions
            refuse(plan, seen, leg, leg.doubts)
        if not plan.refusals:
            plan.volumes = place_volumes(plan, seen)
            judge_mounts(plan, seen)
        return
    if plan_restored_tables(plan, seen):
        return
    seen = judge_erase.as_erased(seen, [leg.devno for leg in plan.legs if leg.erase])
    choose_reserves(plan, seen)
    choose_sizes(plan, seen)
    judge_reserves(plan, seen)
    plan_partitions(plan, seen)
    plan.volumes = place_volumes(plan, seen)
    judge_mounts(plan, seen)
    plan.planned.append("partition")
    if plan.refusals:
        return
    partitions = list(plan.steps)
    plan.carriers = partitions_as_carriers(plan, seen)
    (plan_mirror if spec.mirror else refuse_mirrored)(plan, seen)
    plan.planned += ["mirror_create"] if spec.mirror else []
    if spec.grouped and not plan.refusals:
        plan_group(plan, seen)
        if not plan.refusals:
            plan_volumes(plan, seen)
    _check_kernel(plan, seen, "device-mapper", ("volume_group", "logical_volume"))
    if through == "partition":  # written for nothing, where LVM would not be built on them
        plan.steps = partitions
        return
    plan.planned += ["volume_group", "logical_volume"] if spec.grouped else []
    if plan.refusals or through == "striped_lvm" or any(step.get("unfinished") for step in plan.steps):
        return
    plan_filesystems(plan, seen)
    if not plan.refusals:
        plan_mounts(plan, seen)
        _check_host(plan, seen)
    plan.planned += ["filesystem", "mount"]


def _check_host(plan: StackPlan, seen: Observation) -> None:
    """Refuse what the last steps of this plan would fail by, when the tables are written already."""
    mounts = [mount for step in plan.steps if step["action"] == "mount" for mount in step["mounts"]]
    if seen.fstab_fault and any(change.startswith("fstab") for mount in mounts for change in mount["changes"]):
        plan.refuse("/etc/fstab could not be written: %s; mend that first", seen.fstab_fault)
    for mount in mounts:
        state = seen.directories.get(mount["path"])
        inside = any(mount["path"].startswith(other + "/") for other in plan.host_mounts)
        if state and state.read_only and not inside:
            text = "mount point %s could not be made: %s is on a filesystem that is mounted read-only; make it there yourself, or name another"
            plan.refuse(text, mount["path"], state.read_only)
    for kind in sorted({volume.kind.name for volume in plan.spec.volumes}):
        _check_kernel(plan, seen, kind, ("mount",))
    if seen.timer_fault and any(step.get("enable_fstrim_timer") for step in plan.steps):
        plan.refuse("fstrim.timer could not be enabled: %s; mend that, or set discard: none on the volumes", seen.timer_fault)
    for volume in [volume for volume in plan.spec.volumes if volume.name in {mount["volume"] for mount in mounts}]:
        asked = {**contexts_of(volume.mount_options), "selinux_context": volume.selinux_context}
        for option, context in asked.items():
            if option != "selinux_context" and not seen.selinux:
                text = "volume '%s': mount option '%s' wants SELinux, which this host does not run; take it out, or set selinux_context instead"
                plan.refuse(text, volume.name, option)
            elif context in seen.strange_contexts:
                text = "volume '%s': the SELinux policy of this host knows no context %s; correct %s, or install the policy that has it"
                plan.refuse(text, volume.name, context, option.partition("=")[0])


def _check_kernel(plan: StackPlan, seen: Observation, word: str, actions: Sequence[str]) -> None:
    text = "the running kernel has not loaded %s, and its modules are gone: was another kernel installed since? Boot that, and run again"
    if word in seen.kernel_lacks and any(step["action"] in actions for step in plan.steps):
        plan.refuse(text, word)
