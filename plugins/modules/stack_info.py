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
  - Walks every stack of the host, or those on some disks, whoever made them, from the disk over partitions, LVM, device-mapper,
    md and dm-crypt to the filesystem and its mount.
  - Gives for every layer its absolute first byte on every leg, that byte's phase modulo the flash's grain, the stripe
    count and size, and the stride and stripe_width of ext4.
  - Where a stack's data ends up off the grain, a finding names the one layer that puts it there.
  - Findings of the layers C(mount) and C(write_cache) say what a power cut or a crash would take, by the drives' write caches, the mount's options
    and fstab. What was accepted for a filesystem when it was mounted is known from the record of the host, and shown as such.
  - Only reads. Nothing is mounted, activated, probed by writing, or changed.
options:
  devices:
    description:
      - Look only at stacks on these whole disks, by names below C(/dev/disk/by-id) or paths. Empty means all disks.
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
  - A device that reports no more than its 512-byte blocks is judged by a grain of 4,096 bytes, since no SSD programs less;
    the source of every grain is in the device layer.
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

- name: Fail where a layer is off
  ansible.builtin.assert:
    that: storage.findings | selectattr('level', 'eq', 'error') | length == 0
    fail_msg: "{{ storage.report }}"
"""

RETURN = r"""
stacks:
  description: Every stack with its layers from the bottom up and its findings.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The name of the topmost device.
      type: str
    mount:
      description: Where it is mounted; empty where it is not.
      type: str
    layers:
      description: C(layer), C(names), C(legs) (C(device), C(start), C(phase), C(wanted), C(grain), C(aligned); bytes) and what the layer says of itself.
      type: list
      elements: dict
    findings:
      description: What is wrong with this stack.
      type: list
      elements: dict
    accepted:
      description: The risks in force that were accepted for it, as the record of the host has them, one line each. They are in RV(report) too.
      type: list
      elements: str
    not_followed:
      description: Mappings whose bytes cannot be followed down to the disks, such as a thin pool. Nothing above them is known to be aligned.
      type: list
      elements: str
findings:
  description: The findings of all stacks, each with C(level) (V(error) or V(warning)), C(layer), C(name), C(found) and C(wanted).
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
  description: The same for people, one line an item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._observe import Questions, observe
from ansible_collections.plumbline.ssd.plugins.module_utils._render import view_report
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import device_path, exit_refused, leave, missing_devices, need_root, runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack import tops, view


def main():
    module = AnsibleModule(
        argument_spec={"devices": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    asked = [device_path(name) for name in module.params["devices"]]
    try:
        need_root()
        seen = observe(runner(module), Questions(devices=tuple((path, "") for path in asked), everything=not asked, prove=False, guards=False))
        missing_devices(seen, asked)
    except PlumblineError as fault:
        exit_refused(module, fault)
    views = [view(seen, devno) for devno in tops(seen, list(seen.paths.values()) if asked else None)]
    leave(
        module,
        changed=False,
        stacks=[one.as_dict() for one in views],
        findings=[finding.as_dict() for one in views for finding in one.findings],
        report=[line for one in views for line in view_report(one)],
    )


if __name__ == "__main__":
    main()
