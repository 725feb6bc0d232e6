# SPDX-License-Identifier: GPL-3.0-or-later
"""The filesystems of a stack's volumes. Pure."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import Making
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import filesystem_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.growth import plan_grown_filesystem
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.lvm import TOO_SMALL
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import PlannedVolume, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import refuse_contents, refuse_rebuild


def plan_filesystems(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    for planned in plan.volumes:
        volume, node = planned.spec, planned.node
        filesystem = seen.filesystems.get(node.devno) if node else None
        if node and filesystem:
            _check_made(plan, planned, filesystem)
            _check_state(plan, seen, planned, filesystem, node)
            _check_discards(plan, seen, planned)
            if not plan.refusals:
                plan_grown_filesystem(plan, seen, planned, filesystem, planned.size or planned.legs[0].size)
            continue
        begun = planned.uuid if planned.uuid in seen.making else ""
        if node:
            reasons = volume_rules.volume_content_reasons(seen, node, volume.name, volume.kind, begun)
            refuse_contents(plan, seen, planned.legs, reasons)
        made = Making(
            volume.label, planned.uuid, planned.stride, planned.stripe_width, volume.lazy_init, volume.bytes_per_inode,
            all(leg.discards for leg in planned.legs), planned.size or planned.legs[0].size, plan.grain,
        )  # fmt: skip
        kind = volume.kind
        _check_discards(plan, seen, planned)
        fault = kind.making_fault(made) or kind.mount_fault(kind.log_unit(plan.grain), volume.mount_options)
        if fault:
            plan.refuse("volume '%s': %s", volume.name, fault)
        least = kind.least(planned.stride, planned.stripe_width)
        if made.size < least and not spec.grouped:
            plan.refuse(TOO_SMALL, volume.name, human(made.size), kind.too_small, human(least))
        unfinished = node is not None and volume_rules.carries_on(seen, node, begun)
        proof = seen.proofs.get(node.devno) if node and begun else None
        plan.carries_on = plan.carries_on or unfinished or bool(proof and proof.faults)
        summary = "%s '%s' on %s, %s" % (kind.name, volume.label, planned.device, ", ".join(kind.shape(planned.stride, planned.stripe_width)))
        plan.steps.append(filesystem_step(spec.name, volume.name, planned.device, kind.name, kind.mkfs_options(made), planned.uuid, summary, unfinished))


def _check_discards(plan: StackPlan, seen: Observation, planned: PlannedVolume) -> None:
    """A kind that takes the option discard back by itself would be refused by each later run, since the mount has no such option."""
    without = [seen.nodes[leg.devno].name for leg in planned.legs if not seen.nodes[leg.devno].discard_max]
    if planned.node and not planned.node.discard_max:
        without = without or [planned.node.path]
    if planned.spec.kind.drops_discard and "discard" in planned.spec.mount_options and without:
        text = "volume '%s': %s drops the mount option 'discard' where discards are not taken, and %s takes none; take it out"
        plan.refuse(text, planned.name, planned.spec.kind.name, ", ".join(without))


def _check_made(plan: StackPlan, planned: PlannedVolume, filesystem: Filesystem) -> None:
    what, label, kind = "the filesystem of volume '%s'" % planned.name, planned.spec.label, planned.spec.kind
    if filesystem.kind != kind.name:
        refuse_rebuild(plan, what, filesystem.kind, kind.name)
    elif (filesystem.stride, filesystem.stripe_width, filesystem.block) != (planned.stride, planned.stripe_width, kind.block):
        words = "blocks of %d, %s"
        had, specified = (", ".join(kind.shape(either.stride, either.stripe_width)) for either in (filesystem, planned))
        refuse_rebuild(plan, what, words % (filesystem.block, had), words % (kind.block, specified))
    if filesystem.label != label:
        plan.warn("%s is labelled '%s', not '%s'; change it with %s", what, filesystem.label, label, kind.set_label)


def _check_state(plan: StackPlan, seen: Observation, planned: PlannedVolume, filesystem: Filesystem, node: Node) -> None:
    asked, kind = planned.spec.mount_options, FILESYSTEMS[filesystem.kind]
    mounted = next((mount.options for mount in seen.mounted(node.devno)), ())
    live = seen.in_force.get(node.devno, mounted) if not any(option.startswith("stripe=") for option in asked) else ()
    size = min(node.size, filesystem.blocks * filesystem.block)  # that it is smaller than its device is a step
    for change in kind.changes(filesystem, size) + kind.made_otherwise(filesystem, asked) + kind.mounted_otherwise(filesystem, live):
        (plan.refuse if change.bad else plan.warn)("the filesystem of volume '%s': %s; wanted %s", planned.name, change.found, change.wanted)
    fault = kind.mount_fault(filesystem.log_unit, asked) if kind is planned.spec.kind else ""
    if fault:
        plan.refuse("the filesystem of volume '%s': %s", planned.name, fault)
    if node.read_only:
        text = "volume '%s' (%s) is read-only; wanted one that can be written to; lvchange --permission rw, or look at why it is so"
        plan.refuse(text, planned.name, node.path)
