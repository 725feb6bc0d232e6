#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: stack_growth
short_description: Carry out one step by which a stack grows while it is in use
version_added: 0.1.0
description:
  - Carries out one of the growth steps that M(plumbline.ssd.stack_plan) planned. The roles call it; see the guide on growth for what can grow.
  - Looks at the stack's disks again first. It refuses the step if a disk, its table, the volume group or the volume is not as it was planned, and
    changes nothing then.
  - Reads back what it changed, from the kernel, from LVM and from the disk, and fails if that is not what was asked for.
  - Nothing is ever made smaller. What a step takes in is proven blank before, by samples or in full.
  - If the module is killed, or the power fails, the next run of the roles carries on from where it was.
options:
  step:
    description: The step, as M(plumbline.ssd.stack_plan) returns it.
    type: dict
    required: true
    suboptions:
      action:
        description:
          - V(restore_table) writes the first partition tables of disks again from their backups, where the first copy is damaged and the backup is sound
            and has the partition of the stack (C(sfdisk --relocate gpt-bak-std)).
          - V(grow_partition) writes the partition tables of the disks whose partition grows, and tells the kernel the new length. The backup is written first.
            At every moment the first table of the disk is sound, so that no power cut leaves a disk without its partition.
          - V(grow_pv) makes PVs as large as their partitions (C(pvresize)).
          - V(extend_vg) makes PVs of blank partitions of the stack and adds them to the volume group (C(vgextend)).
          - V(grow_lv) makes a volume larger by extents of the PVs that are named (C(lvextend)).
          - V(refresh_lv) lets the kernel take over what LVM's metadata says of a volume (C(lvchange --refresh)), where a run was ended between the two.
          - V(grow_filesystem) makes a mounted filesystem as large as its volume (C(resize2fs), C(xfs_growfs)).
        type: str
        required: true
        choices: [restore_table, grow_partition, grow_pv, extend_vg, refresh_lv, grow_lv, grow_filesystem]
      stack:
        description: The name of the stack, and of its volume group.
        type: str
        required: true
      disks:
        description: All disks of the stack, as the plan saw them.
        type: list
        elements: dict
        required: true
        suboptions:
          device:
            description: The path of the whole disk.
            type: path
            required: true
          identity:
            description: The identity that the plan saw. If the disk has another one, the module refuses it.
            type: str
            required: true
          test_identity:
            description: The identity that a test gave to a loop device.
            type: str
            default: ""
          serial:
            description: The serial number that the plan saw.
            type: str
            default: ""
          model:
            description: The model that the plan saw.
            type: str
            default: ""
          diskseq:
            description: The kernel's sequence number of the disk (since Linux 5.15). V(0) if the kernel has none.
            type: int
            default: 0
          size_bytes:
            description: The size of the disk, in bytes.
            type: int
            required: true
          logical_bytes:
            description: The logical block size, in bytes.
            type: int
            required: true
          guid:
            description: The unique GUID of the stack's partition on the disk.
            type: str
            required: true
          start_bytes:
            description: The first byte of that partition.
            type: int
            default: 0
          length_bytes:
            description: The length that the partition is to have, in bytes. V(0) if it does not grow.
            type: int
            default: 0
          full_proof:
            description: Read all that the partition takes in to prove it blank, instead of samples.
            type: bool
            default: false
      pvs:
        description: The paths of the PVs that are grown, added, or used for a volume.
        type: list
        elements: str
        default: []
      lv:
        description: The name of the volume.
        type: str
        default: ""
      from_bytes:
        description: The size of the volume or filesystem that the plan saw, in bytes.
        type: int
        default: 0
      size_bytes:
        description: The size that it is to have, in bytes.
        type: int
        default: 0
      extent_bytes:
        description: The extent size of the volume group, in bytes.
        type: int
        default: 0
      stripes:
        description: The number of stripes of the volume; V(1) if it has none.
        type: int
        default: 0
      stripe_bytes:
        description: The stripe size, in bytes.
        type: int
        default: 0
      data_alignment_bytes:
        description: The byte of a new PV at which its data begins.
        type: int
        default: 0
      device:
        description: The device of the filesystem.
        type: path
        default: ""
      fstype:
        description: The kind of the filesystem.
        type: str
        default: ""
      uuid:
        description: The UUID of the filesystem. If the device has another one, the module refuses it.
        type: str
        default: ""
      unfinished:
        description: Whether the plan for what comes on the volume is made again after this step.
        type: bool
        default: false
      summary:
        description: The step in one line, for people.
        type: str
        default: ""
extends_documentation_fragment:
  - plumbline.ssd.lease
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module looks at everything as before a change, and changes nothing.
  diff_mode:
    support: none
    details: The steps in the report of M(plumbline.ssd.stack_plan) have the sizes before and after, and its diff the stack as it will be.
notes:
  - Before a partition table is written, the first and last MiB of the disk, its table and the metadata of its volume groups are saved on the host.
  - One run at a time writes to a host. See O(lease).
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Plan the stacks
  plumbline.ssd.stack_plan:
    stacks: "{{ plumbline_stacks }}"
    lease: {}
  become: true
  register: plan

- name: Grow what the plan lets grow, and give the lease back
  become: true
  block:
    - name: Grow the partitions and the physical volumes
      plumbline.ssd.stack_growth:
        step: "{{ item }}"
        lease: "{{ plan.lease }}"
      loop: "{{ plan.steps | selectattr('action', 'in', ['grow_partition', 'grow_pv']) }}"
      loop_control:
        label: "{{ item.summary }}"
  always:
    - name: Give the lease back
      plumbline.ssd.run_lease:
        run: "{{ plan.lease.run }}"
      when: plan.lease.run is defined
"""

RETURN = r"""
grown:
  description: What the step was for.
  returned: success
  type: dict
  contains:
    action:
      description: The action of the step.
      type: str
    stack:
      description: The stack.
      type: str
    lv:
      description: The volume, if the step was for one.
      type: str
    size_bytes:
      description: The size of the volume or the filesystem now, in bytes; 0 if the step was for partitions or PVs.
      type: int
backups:
  description: The directories on the host that hold the former tables of the disks, one for each disk that was written to.
  returned: success, but not in check mode
  type: list
  elements: str
reasons:
  description: Why nothing was changed, one line for each reason.
  returned: when the step is refused
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth.run_growth import done, take_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import GROWTH_STEP


def main():
    module = AnsibleModule(
        argument_spec={"step": {"type": "dict", "required": True, "options": GROWTH_STEP}, "lease": LEASE},
        supports_check_mode=True,
    )
    step = module.params["step"]
    try:
        need_root()
        with writing(module.params["lease"], module.check_mode) as warnings:
            backups = take_step(runner(module), step, module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, warnings, changed=True, grown=done(step), **({} if module.check_mode else {"backups": backups}))


if __name__ == "__main__":
    main()
