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
  - Writes the partition tables of the devices of one stack, as M(plumbline.ssd.stack_plan) planned them. No other module of the collection
    writes a partition table.
  - Opens all devices exclusively and locks them. Then it proves once more that each device is the planned one and is blank.
  - A device with an O(devices[].erase) digest need not be blank at first. The module proves that its contents are still those for which
    the digest was given, erases the device, and then proves it blank like any other.
  - Writes the first device only after all devices have passed. Each device gets a GPT with one partition that begins at exactly the
    planned byte. The plan chose the GUID and the name of the partition beforehand.
  - Discards everything between the first and the last MiB of a device that it has just proven blank, in steps of 64 GiB, and then writes the
    table. The host's log says how far it is. See O(devices[].discard).
  - Waits until the kernel and udev show the partition, and fails if they show anything else than was asked.
options:
  devices:
    description:
      - The devices of one stack, as listed in the step C(partition) of M(plumbline.ssd.stack_plan).
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: The path of the whole disk.
        type: path
        required: true
      identity:
        description: The identity that the plan saw. If the device has another one, the module refuses it.
        type: str
        required: true
      test_identity:
        description: The identity that a test gave to a loop device.
        type: str
        default: ""
      serial:
        description: The serial number that the plan saw. If the device has another one, the module refuses it.
        type: str
        default: ""
      model:
        description: The model that the plan saw. If the device has another one, the module refuses it.
        type: str
        default: ""
      diskseq:
        description:
          - The kernel's sequence number of the disk (since Linux 5.15). It changes when a disk is replaced. V(0) if the kernel has none.
        type: int
        default: 0
      size_bytes:
        description: The size of the device that the plan saw, in bytes.
        type: int
        required: true
      logical_bytes:
        description: The logical block size, in bytes.
        type: int
        required: true
      start_bytes:
        description: The first byte of the partition.
        type: int
        required: true
      length_bytes:
        description: The length of the partition, in bytes.
        type: int
        required: true
      end_bytes:
        description: The first byte of the reserve.
        type: int
        required: true
      type_guid:
        description: The GUID of the partition's type.
        type: str
        required: true
      guid:
        description: The unique GUID of the partition.
        type: str
        required: true
      name:
        description: The name of the partition, C(plumbline:STACK:NUMBER).
        type: str
        required: true
      written:
        description:
          - The device had its table when the plan was made, and the kernel does not show the partition yet. The module makes the
            kernel read the table again, and writes nothing.
        type: bool
        default: false
      unfinished:
        description:
          - The writing of this very table was interrupted. The ends of the device hold a part of the table, equal to the byte. The module
            proves everything else of the device blank, and writes the table again.
        type: bool
        default: false
      full_proof:
        description:
          - Read the whole device to prove it blank, instead of its ends and samples. The task then starts the module in the background of the host
            and asks for its end every ten seconds, so that no connection has to last that long.
        type: bool
        default: false
      probe_starts:
        description: The bytes at which the stack's own volumes will begin. The blank proof reads these places as well.
        type: list
        elements: int
        default: []
      discard:
        description:
          - Discard the device after the proof and before its table is written, and discard it as a part of an erase. Nothing is discarded of a
            device without a passed proof, of one whose table was begun by an interrupted run, or if the device takes no discards.
        type: bool
        default: true
      erase:
        description:
          - The digest of the device's contents. With this digest the plan allowed the module to erase the device first. Empty for a
            device that must be blank.
          - The module computes the digest again under the lock. It refuses the device if the digest differs or the device is in use.
        type: str
        default: ""
      removes:
        description: What an erase of the device destroys, one line each, for the report.
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
    details: The module proves the devices and writes nothing.
  diff_mode:
    support: none
    details: The diff of M(plumbline.ssd.stack_plan) shows the table together with the rest of the stack.
notes:
  - C(sfdisk) writes the table. It is in the package C(fdisk) on Debian and in C(util-linux) elsewhere.
  - There is no option to force anything. The module erases a device only under its digest, as the collection's guide on refusals describes.
  - Before it writes the first byte, the module saves on the host the first and last MiB of every device, its table, the metadata of its
    volume groups and its LUKS headers. The guide on getting your table back describes how to restore them.
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

- name: Write the partition tables, and give the lease back
  become: true
  block:
    - name: Write the tables of all devices of a stack in one call
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
      description: The path of the partition, below C(/dev/disk/by-partuuid).
      type: str
    name:
      description: The kernel's name of the partition.
      type: str
    start_bytes:
      description: The first byte of the partition.
      type: int
    length_bytes:
      description: The length of the partition, in bytes.
      type: int
    discarded_bytes:
      description: The number of bytes that were discarded before the table was written.
      type: int
    erased:
      description: What the module erased from the device, one line each.
      type: list
      elements: str
backups:
  description: The directories on the host that hold the former contents of the devices, one for each device that was written to.
  returned: success, but not in check mode
  type: list
  elements: str
  sample: [/var/lib/plumbline/backup/wwid-eui-0025385b71b00f1a-4f1c2a90/20260301T120000Z-1]
reasons:
  description: Why nothing was written, one line for each reason.
  returned: when the proof under the lock refuses a device
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import feed_runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.write_tables import partition_all
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import PARTITION_DEVICE


def main():
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "dict", "required": True, "options": PARTITION_DEVICE},
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
    exit_success(module, warnings, changed=True, **({} if module.check_mode else {"partitions": partitions, "backups": backups}))


if __name__ == "__main__":
    main()
