# SPDX-License-Identifier: GPL-3.0-or-later
"""The filesystems of a stack's volumes. Pure."""

from __future__ import annotations

from typing import Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._judge import volumes
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.filesystem_state import changes_of, made_otherwise, stripe_changes
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Ext4, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.plan_model import StackPlan
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.refusals import refuse_contents, refuse_rebuild
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.spec import Volume
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.steps import filesystem_step
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.volumes import filesystem_uuid, volume_device, volume_legs

BLOCK = 4096  # ext4's block size, always


def ext4_geometry(plan: StackPlan, number: int) -> Tuple[int, int]:
    """stride and stripe_width of a volume, in blocks: the stripe on each leg, and all legs together.

    Without stripes both are the grain, so that mke2fs never takes a device's own fill value instead.
    """
    legs = volume_legs(plan, number)
    stripe = plan.stripes.get(plan.spec.volumes[number].name, plan.stripe)
    unit = stripe if plan.spec.layout == "striped" else legs[0].geometry.grain_bytes
    stride = max(unit // BLOCK, 1)
    return stride, stride * len(legs)


def plan_filesystems(plan: StackPlan, seen: Observation) -> None:
    spec = plan.spec
    for number, volume in enumerate(spec.volumes):
        device, node = volume_device(plan, seen, number, volume)
        stride, width = ext4_geometry(plan, number)
        found = seen.filesystems.get(node.devno) if node else None
        if node and found:
            _check_ext4(plan, volume, found, stride, width)
            _check_state(plan, seen, volume, found, node)
            continue
        keys = [seen.nodes[leg.devno].identity.key for leg in volume_legs(plan, number)]
        identifier = filesystem_uuid(spec.name, volume.name, keys)
        if node:
            reasons = volumes.volume_content_reasons(seen, node, volume.name, identifier if identifier in seen.making else "")
            refuse_contents(plan, seen, volume_legs(plan, number), reasons)
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
        if all(leg.discards for leg in volume_legs(plan, number)):
            options += ",nodiscard"  # aligned_partition has discarded what mkfs would, under the same plan
        if volume.bytes_per_inode:
            options += " -i %d" % volume.bytes_per_inode
        summary = "ext4 '%s' on %s, stride %d, stripe_width %d" % (volume.label, device, stride, width)
        plan.steps.append(filesystem_step(spec.name, volume.name, device, options, identifier, summary))


def _check_ext4(plan: StackPlan, volume: Volume, found: Ext4, stride: int, width: int) -> None:
    what = "the filesystem of volume '%s'" % volume.name
    if (found.stride, found.stripe_width, found.block) != (stride, width, BLOCK):
        refuse_rebuild(
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
