# SPDX-License-Identifier: GPL-3.0-or-later
"""The filesystems of a stack's volumes. Pure."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ext4, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.filesystem_state import changes_of, made_otherwise, stripe_changes
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import filesystem_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import BLOCK, PlannedVolume, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import refuse_contents, refuse_rebuild


def plan_filesystems(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    for planned in plan.volumes:
        volume, node = planned.spec, planned.node
        found = seen.filesystems.get(node.devno) if node else None
        if node and found:
            _check_ext4(plan, planned, found)
            _check_state(plan, seen, planned, found, node)
            continue
        if node:
            reasons = volume_rules.volume_content_reasons(seen, node, volume.name, planned.uuid if planned.uuid in seen.making else "")
            refuse_contents(plan, seen, planned.legs, reasons)
        lazy = int(volume.lazy_init)
        options = "-b %d -m 0 -L %s -U %s -E stride=%d,stripe_width=%d,lazy_itable_init=%d,lazy_journal_init=%d" % (
            BLOCK,
            volume.label,
            planned.uuid,
            planned.stride,
            planned.stripe_width,
            lazy,
            lazy,
        )
        if all(leg.discards for leg in planned.legs):
            options += ",nodiscard"  # aligned_partition has discarded what mkfs would, under the same plan
        if volume.bytes_per_inode:
            options += " -i %d" % volume.bytes_per_inode
        summary = "ext4 '%s' on %s, stride %d, stripe_width %d" % (volume.label, planned.device, planned.stride, planned.stripe_width)
        plan.steps.append(filesystem_step(spec.name, volume.name, planned.device, options, planned.uuid, summary))


def _check_ext4(plan: StackPlan, planned: PlannedVolume, found: Ext4) -> None:
    what, label = "the filesystem of volume '%s'" % planned.name, planned.spec.label
    if (found.stride, found.stripe_width, found.block) != (planned.stride, planned.stripe_width, BLOCK):
        refuse_rebuild(
            plan,
            what,
            "blocks of %d, stride %d, stripe_width %d" % (found.block, found.stride, found.stripe_width),
            "blocks of %d, stride %d, stripe_width %d" % (BLOCK, planned.stride, planned.stripe_width),
        )
    if found.label != label:
        plan.warnings.append("%s: %s is labelled '%s', not '%s'; change it with tune2fs -L" % (plan.spec.name, what, found.label, label))


def _check_state(plan: StackPlan, seen: Observation, planned: PlannedVolume, found: Ext4, node: Node) -> None:
    asked = planned.spec.mount_options
    live = seen.in_force.get(node.devno, ()) if not any(option.startswith("stripe=") for option in asked) else ()
    for change in changes_of(found, node.size) + made_otherwise(found, asked) + stripe_changes(found, live):
        text = "%s: the filesystem of volume '%s': %s; wanted %s" % (plan.spec.name, planned.name, change.found, change.wanted)
        (plan.refusals if change.bad else plan.warnings).append(text)
    if node.read_only:
        text = "%s: volume '%s' (%s) is read-only; wanted one that can be written to; lvchange --permission rw, or look at why it is so"
        plan.refusals.append(text % (plan.spec.name, planned.name, node.path))
