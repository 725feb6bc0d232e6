#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: stack_mirror
short_description: Carry out one step for the array of a mirrored stack
version_added: 0.1.0
description:
  - Carries out one of the steps for the array of a stack with C(mirror) that M(plumbline.ssd.stack_plan) planned. The roles call it; see the guide on
    mirrors.
  - The array is one of C(md), RAID 10 with two copies side by side, over the partitions of all devices of the stack.
  - Looks at the stack's disks again first. It refuses the step if a disk, its table, the array or one of its members is not as it was planned, and
    changes nothing then.
  - Waits until all members hold what they should, and reads back the array from the kernel and from the superblocks of its members.
  - If the module is killed, or the power fails, the kernel goes on with a copy by itself, and the next run of the roles carries on from there.
options:
  step:
    description: The step, as M(plumbline.ssd.stack_plan) returns it.
    type: dict
    required: true
    suboptions:
      action:
        description:
          - V(mirror_create) makes the array (C(mdadm --create)).
          - V(mirror_add) gives a place that is empty to a blank partition of ours, or to a member that was away and is older
            (C(mdadm --re-add) with O(step.own_place), else C(mdadm --add)).
          - V(mirror_replace) fills a new member beside the one that it replaces, so that there are two copies all the time (C(mdadm --replace --with)),
            and clears the member superblock of the old one then. It lets md compare all members before, and watches what md could not read meanwhile
            (C(sync_action), C(sync_max), C(errors)), since md leaves that out of a replacement without a word. If there is any, the copy is ended.
          - V(mirror_grow) lets the array take in what its partitions have more (C(mdadm --grow --size)).
        type: str
        required: true
        choices: [mirror_create, mirror_add, mirror_replace, mirror_grow]
      stack:
        description: The name of the stack, and of the array.
        type: str
        required: true
      disks:
        description: All disks of the stack, as the plan saw them, and one that is replaced.
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
            description: The length that the partition is to have, in bytes. This module has no use for it.
            type: int
            default: 0
          full_proof:
            description: Read all of a partition that becomes a member to prove it blank, instead of samples.
            type: bool
            default: false
      array:
        description: The UUID of the array.
        type: str
        required: true
      members:
        description: The unique GUIDs of the partitions that are to be its members, in their order. The first two hold the same, and so on.
        type: list
        elements: str
        required: true
      chunk_bytes:
        description: The chunk of the array, in bytes.
        type: int
        required: true
      data_offset_bytes:
        description: The byte of each member at which its data begins.
        type: int
        default: 0
      component_bytes:
        description: What the array uses of each member, in bytes.
        type: int
        default: 0
      assume_clean:
        description: Whether the members are known to hold the same, so that nothing is copied at first.
        type: bool
        default: false
      old:
        description: The unique GUID of the partition that is replaced.
        type: str
        default: ""
      new:
        description: The unique GUID of the partition that becomes a member.
        type: str
        default: ""
      own_place:
        description:
          - Whether it was the member of this place. It gets what it missed then, if the array has noted that.
          - Another one is filled from end to end, also if it was a member for some time.
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
    details: The diff of M(plumbline.ssd.stack_plan) has the array as it will be.
notes:
  - A copy takes as long as the drives need for it. A connection that is cut meanwhile does no harm.
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

- name: Give the arrays their members, and give the lease back
  become: true
  block:
    - name: Give the arrays their members
      plumbline.ssd.stack_mirror:
        step: "{{ item }}"
        lease: "{{ plan.lease }}"
      loop: "{{ plan.steps | selectattr('action', 'in', ['mirror_add', 'mirror_replace']) }}"
      loop_control:
        label: "{{ item.summary }}"
  always:
    - name: Give the lease back
      plumbline.ssd.run_lease:
        run: "{{ plan.lease.run }}"
      when: plan.lease.run is defined
"""

RETURN = r"""
mirrored:
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
    array:
      description: The UUID of the array.
      type: str
    component_bytes:
      description: What the array uses of each member, in bytes.
      type: int
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
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors.run_mirror import mirrored, take_mirror_step
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import MIRROR_STEP


def main():
    module = AnsibleModule(
        argument_spec={"step": {"type": "dict", "required": True, "options": MIRROR_STEP}, "lease": LEASE},
        supports_check_mode=True,
    )
    step = module.params["step"]
    try:
        need_root()
        with writing(module.params["lease"], module.check_mode) as warnings:
            take_mirror_step(runner(module), step, module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, warnings, changed=True, mirrored=mirrored(step))


if __name__ == "__main__":
    main()
