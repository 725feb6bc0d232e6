# SPDX-License-Identifier: GPL-3.0-or-later
"""What a step holds is what the module takes that carries it out."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._stack import steps


def test_the_fields_of_a_step_are_the_options_of_its_writer():
    assert steps.PartitionDevice._fields == tuple(steps.PARTITION_DEVICE)
    assert set(steps.MountPoint._fields) == set(steps.MOUNT)
    assert set(steps.cache_device("/dev/sda", "wwid:x", "S", "on", ["data_loss_on_power_cut"])) == set(steps.CACHE_DEVICE)


def test_the_mounts_of_several_stacks_are_one_step():
    one = steps.mount_step([], {"/a": "x"}, False, [], "mount /a: fstab line")
    other = steps.mount_step([], {"/b": "y"}, True, [{"stack": "b", "risks": []}], "mount /b: mounted")
    merged = steps.merge_mount_steps([one, other])
    assert merged == steps.mount_step([], {"/a": "x", "/b": "y"}, True, [{"stack": "b", "risks": []}], "mount /a: fstab line; /b: mounted")
