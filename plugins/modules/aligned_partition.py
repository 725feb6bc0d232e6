#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: aligned_partition
short_description: Write the partition tables of a stack's devices, in one call and under lock
version_added: 0.1.0
description:
  - The only writer of partition tables in the collection. It takes the devices of a stack as M(plumbline.ssd.stack_plan) planned them,
    opens all of them exclusively, locks them, and proves once more that each is the planned device and is blank.
  - A device that the spec lets be erased is, instead, proven to carry exactly what was seen when its erase was written down, is erased, and is
    then proven blank like any other.
  - Only when every device has passed is the first one written. A GPT with one partition is made on each, at exactly the
    planned byte, with its GUID and name chosen beforehand.
  - The reserve behind the partition is discarded, but for the last MiB with the backup table.
  - Waits until the kernel and udev show the partition, and fails where they show anything but what was asked.
options:
  devices:
    description:
      - The devices of one stack, as they stand in the step C(partition) of M(plumbline.ssd.stack_plan).
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: Path of the whole disk.
        type: path
        required: true
      identity:
        description: The identity that the plan saw; another one is a refusal.
        type: str
        required: true
      test_identity:
        description: The identity given to a loop device by a test.
        type: str
        default: ""
      serial:
        description: Serial number that the plan saw; another one is a refusal.
        type: str
        default: ""
      model:
        description: Model that the plan saw; another one is a refusal.
        type: str
        default: ""
      diskseq:
        description: The kernel's sequence number of the disk (since Linux 5.15), which changes when a disk is replaced. V(0) where there is none.
        type: int
        default: 0
      size_bytes:
        description: Size of the device that the plan saw, in bytes.
        type: int
        required: true
      logical_bytes:
        description: Logical block size, in bytes.
        type: int
        required: true
      start_bytes:
        description: First byte of the partition.
        type: int
        required: true
      length_bytes:
        description: Length of the partition in bytes.
        type: int
        required: true
      end_bytes:
        description: First byte of the reserve.
        type: int
        required: true
      type_guid:
        description: Partition type GUID.
        type: str
        required: true
      guid:
        description: Unique GUID of the partition.
        type: str
        required: true
      name:
        description: Partition name, C(plumbline:STACK:NUMBER).
        type: str
        required: true
      written:
        description: The table was there when the plan was made, and only the kernel does not show the partition yet.
        type: bool
        default: false
      unfinished:
        description:
          - The writing of this very table was cut off. The ends of the device hold a part of it, to the byte, and it is written again;
            everything else of the device is proven blank.
        type: bool
        default: false
      full_proof:
        description: Read the whole device to prove it blank, not only its ends and samples.
        type: bool
        default: false
      probe_starts:
        description: Bytes at which the stack's own volumes will begin; the proof looks there, too.
        type: list
        elements: int
        default: []
      erase:
        description:
          - The digest of what the device carries, by which the plan allowed that it is erased first. Empty for a device that has to be blank.
          - It is worked out once more under the lock, and another digest is a refusal, as is a device in use.
        type: str
        default: ""
      removes:
        description: What goes when the device is erased, one line each, for the report.
        type: list
        elements: str
        default: []
extends_documentation_fragment:
  - plumbline.ssd.lease
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: Proves the devices and writes nothing.
  diff_mode:
    support: none
    details: The diff of M(plumbline.ssd.stack_plan) shows the table with the rest of the stack.
notes:
  - The table is written by C(sfdisk), which is in the package C(fdisk) on Debian and in C(util-linux) elsewhere.
  - There is no option to force anything. A device is erased only under its digest, as the guide on refusals of the collection describes.
  - Before the first byte is written, the first and last MiB of every device, its table, the metadata of its volume groups and LUKS headers are
    kept on the host; the guide on getting your table back says how they return.
  - One run at a time writes to a host. See O(lease).
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Plan the partitions
  plumbline.ssd.stack_plan:
    stacks: "{{ plumbline_stacks }}"
    through: partition
    lease: {}
  become: true
  register: plan

- name: Write them, and give the host back
  become: true
  block:
    - name: Write the tables, all devices of a stack in one call
      plumbline.ssd.aligned_partition:
        devices: "{{ item.devices }}"
        lease: "{{ plan.lease }}"
      loop: "{{ plan.steps | selectattr('action', 'eq', 'partition') }}"
      loop_control:
        label: "{{ item.summary }}"
  always:
    - name: Give the lease back
      plumbline.ssd.run_lease:
        run: "{{ plan.lease.run }}"
      when: plan.lease.run is defined
"""

RETURN = r"""
partitions:
  description: The partitions as the kernel shows them now.
  returned: success, but not in check mode
  type: list
  elements: dict
  contains:
    device:
      description: The whole disk.
      type: str
    path:
      description: The partition, below C(/dev/disk/by-partuuid).
      type: str
    name:
      description: The partition's name.
      type: str
    start_bytes:
      description: Its first byte.
      type: int
    length_bytes:
      description: Its length in bytes.
      type: int
    erased:
      description: What was erased from the device, one line each.
      type: list
      elements: str
backups:
  description: The directories on the host in which what stood on the devices is kept, one a device that was written to.
  returned: success, but not in check mode
  type: list
  elements: str
  sample: [/var/lib/plumbline/backup/wwid-eui-0025385b71b00f1a-4f1c2a90/20260301T120000Z-1]
reasons:
  description: Why nothing was written, one line a reason.
  returned: when the proof under the lock refuses
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._partition import partition_all
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import exit_refused, feed_runner, leave, need_root

DEVICE = {
    "device": {"type": "path", "required": True},
    "identity": {"type": "str", "required": True},
    "test_identity": {"type": "str", "default": ""},
    "serial": {"type": "str", "default": ""},
    "model": {"type": "str", "default": ""},
    "diskseq": {"type": "int", "default": 0},
    "size_bytes": {"type": "int", "required": True},
    "logical_bytes": {"type": "int", "required": True},
    "start_bytes": {"type": "int", "required": True},
    "length_bytes": {"type": "int", "required": True},
    "end_bytes": {"type": "int", "required": True},
    "type_guid": {"type": "str", "required": True},
    "guid": {"type": "str", "required": True},
    "name": {"type": "str", "required": True},
    "written": {"type": "bool", "default": False},
    "unfinished": {"type": "bool", "default": False},
    "full_proof": {"type": "bool", "default": False},
    "probe_starts": {"type": "list", "elements": "int", "default": []},
    "erase": {"type": "str", "default": ""},
    "removes": {"type": "list", "elements": "str", "default": []},
}


def main():
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "dict", "required": True, "options": DEVICE},
            "lease": LEASE,
        },
        supports_check_mode=True,
    )
    try:
        need_root()
        with writing(module.params["lease"], module.check_mode) as warnings:
            partitions, backups = partition_all(feed_runner(module), module.params["devices"], module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    leave(module, warnings, changed=True, **({} if module.check_mode else {"partitions": partitions, "backups": backups}))


if __name__ == "__main__":
    main()
