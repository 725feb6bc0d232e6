#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: run_lease
short_description: Give back the lease of a run that failed half way
version_added: 0.1.0
description:
  - One run at a time writes to a host. M(plumbline.ssd.stack_plan) takes the host's lease if steps remain. The call that finds no step
    left gives the lease back. If a step fails, that call does not happen, and this module gives the lease back instead.
  - Gives back the lease of exactly the run that is named. The lease of another run stays.
options:
  run:
    description:
      - The run, 32 hexadecimal digits, from the lease that M(plumbline.ssd.stack_plan) returned.
    type: str
    required: true
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
    details: The module changes nothing of the host's storage.
notes:
  - If the controller of a run died, nothing gives the lease back. A later run from the same controller takes the lease over at once,
    because that controller sees that the process of the first run is gone. A run from
    another controller takes it over ten minutes after the last sign of life.
  - An SSH connection that the host still believes open is a sign of life. C(ClientAliveInterval) in C(sshd_config) limits how long the
    host believes that.
  - A reboot of the host ends the lease. Every container is a controller of its own.
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Build what is missing
  block:
    - name: Plan, and take the host's lease if steps remain
      plumbline.ssd.stack_plan:
        stacks: "{{ plumbline_stacks }}"
        lease: {}
      register: plan

    - name: Carry out the steps for the partitions
      plumbline.ssd.aligned_partition:
        devices: "{{ item.devices }}"
        lease: "{{ plan.lease }}"
      loop: "{{ plan.steps | selectattr('action', 'eq', 'partition') }}"
  always:
    - name: Give the lease back
      plumbline.ssd.run_lease:
        run: "{{ plan.lease.run }}"
      when: plan.lease is defined and plan.lease.run is defined
  become: true
"""

RETURN = r"""
released:
  description: Whether this run had the lease, so that it was given back.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._records.begun import forget_made
from ansible_collections.plumbline.ssd.plugins.module_utils._records.lease_file import Run, peek, release


def main():
    module = AnsibleModule(argument_spec={"run": {"type": "str", "required": True}}, supports_check_mode=True)
    run = module.params["run"]
    try:
        need_root()
        if module.check_mode:
            lease, _held = peek(Run(run))
            released = lease is not None and lease.run == run and not lease.free
        else:
            forget_made()  # after a failure nobody reads back
            released = release(run)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=released, released=released)


if __name__ == "__main__":
    main()
