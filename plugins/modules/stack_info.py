#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: stack_info
short_description: Read any storage stack, disk to filesystem, and name the layer that is off
version_added: 0.1.0
description:
  - Reads every storage stack of the host, or the stacks on some disks, no matter which tool made them. It follows each stack from the
    disk over partitions, LVM, device-mapper, md and dm-crypt to the filesystem and its mount.
  - Returns for every layer the absolute first byte on every leg (a device's part in a stripe), the phase of that byte (its address modulo
    the grain, the unit in which the flash takes a write), the number and size of the stripes, and the stripes that the filesystem was made for.
  - If the data of a stack ends up off the grain, a finding names the one layer that causes this.
  - Findings of the layers C(mount) and C(write_cache) say which data a power cut or a crash would take. They follow from the drives'
    write caches, the options of the mount, and fstab. Findings of the layers C(ext4) and C(xfs) concern the filesystem itself.
    Findings of the layer C(link) name a link to a disk that runs slower than both of its ends can, or a port that is slower than its disk.
  - Findings of the layer C(raid) concern the redundancy of arrays of md and of LVM, whoever made them. They are members that are absent or not in sync, a sync
    that runs, members that differed at the last check, members on one drive, and a boot without a drive.
  - Findings of the layer C(trim) say which layer keeps discards (TRIM) from the drives. They are warnings.
  - If a risk of a filesystem was accepted when it was mounted, the record on the host says so, and the report shows the risk as accepted.
  - Only reads. The module mounts, activates and changes nothing, and writes nothing to probe a device.
options:
  devices:
    description:
      - Read only the stacks on these whole disks, by names below C(/dev/disk/by-id) or by paths. An empty list means all disks.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module never changes anything.
  diff_mode:
    support: none
notes:
  - If a device reports only its 512-byte blocks, the module assumes a grain of 4,096 bytes, because no SSD programs less at once.
    The device layer has the source of every grain.
seealso:
  - module: plumbline.ssd.stack_plan
  - module: plumbline.ssd.device_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Which layer of this host is misaligned?
  plumbline.ssd.stack_info:
  become: true
  register: storage

- name: Fail if a finding is an error
  ansible.builtin.assert:
    that: storage.findings | selectattr('level', 'eq', 'error') | length == 0
    fail_msg: "{{ storage.report }}"
"""

RETURN = r"""
stacks:
  description: Every stack with its layers, from the bottom up, and its findings.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name of the topmost device.
      type: str
    mount:
      description: The mount point of the stack. Empty if it is not mounted.
      type: str
    layers:
      description:
        - The layers from the bottom up, each with C(layer), C(names), C(legs), and what the layer reports about itself.
        - C(legs) has for each leg C(device), C(start), C(phase), C(wanted) and C(grain), all in bytes, and C(aligned).
        - C(raid) of an array with redundancy has C(level), C(members), C(degraded) (members that are absent or not in sync), C(action) (what it is at),
          C(progress) (the share of that which is done) and C(mismatch_sectors) (of the last check), in the order of C(names).
      type: list
      elements: dict
    findings:
      description: What is wrong with this stack.
      type: list
      elements: dict
    accepted:
      description: The accepted risks that are in force for this stack, from the record of the host, one line each. RV(report) has them too.
      type: list
      elements: str
    size_bytes:
      description: The size of the volume, in bytes.
      type: int
    not_followed:
      description:
        - Mappings whose bytes cannot be followed down to the disks, such as a thin pool, and what nobody has opened or assembled, such as a closed LUKS
          device. No layer above them is known to be aligned.
      type: list
      elements: str
findings:
  description:
    - The findings of all stacks, each with C(level) (V(error), V(warning) or V(info)), C(layer), C(name), C(found), C(wanted), C(rule) (by
      what it was found, one word) and C(text), which has all of it in one line.
  returned: success
  type: list
  elements: dict
  sample:
    - level: error
      layer: partition
      name: sda1
      found: starts at byte 32256 of sda, phase 3584 of 4 KiB
      wanted: phase 0
report:
  description: The same for people, one line for each item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_packed import packed_disks


def main():
    """Reads the host. The action plugin of the same name makes the result on the controller: see plugin_utils/views.py."""
    module = AnsibleModule(
        argument_spec={"devices": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    try:
        need_root()
        answer = packed_disks(runner(module), module.params["devices"], whole=False, guards=False)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=False, answer=answer)


if __name__ == "__main__":
    main()
