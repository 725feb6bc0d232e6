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
  - One run at a time writes to a host. M(plumbline.ssd.stack_plan) takes the host's lease when steps remain, and the call that finds none left
    gives it back. Where a step in between failed, that call does not come, and this one takes its place.
  - Gives back the lease of exactly the run that is named. That of another run stays.
options:
  run:
    description:
      - The run, 32 hexadecimal digits, as it stands in the lease that M(plumbline.ssd.stack_plan) returned.
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
    details: Nothing of the host's storage changes.
notes:
  - A run whose controller died gives nothing back. A later run from the same controller takes the lease over at once, another one ten minutes after
    the last sign of life. An SSH connection that the host still believes open is such a sign; C(ClientAliveInterval) in C(sshd_config) bounds that.
    A boot of the host ends the lease. Every container is a controller of its own.
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Build what is missing
  block:
    - name: Plan, and take the host's lease where steps remain
      plumbline.ssd.stack_plan:
        stacks: "{{ plumbline_stacks }}"
        lease: {}
      register: plan

    - name: Carry the steps out
      ansible.builtin.include_role:
        name: plumbline.ssd.provision
        tasks_from: apply
      vars:
        provision_steps: "{{ plan.steps }}"
        provision_lease: "{{ plan.lease }}"
  always:
    - name: Give the lease back
      plumbline.ssd.run_lease:
        run: "{{ plan.lease.run }}"
      when: plan.lease is defined and plan.lease.run is defined
  become: true
"""

RETURN = r"""
released:
  description: Whether the run had the lease.
  returned: success
  type: bool
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import Run, peek, release
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import exit_refused, leave, need_root


def main():
    module = AnsibleModule(argument_spec={"run": {"type": "str", "required": True}}, supports_check_mode=True)
    run = module.params["run"]
    try:
        need_root()
        if module.check_mode:
            lease, _held = peek(Run(run))
            released = lease is not None and lease.run == run and not lease.free
        else:
            released = release(run)
    except PlumblineError as fault:
        exit_refused(module, fault)
    leave(module, changed=released, released=released)


if __name__ == "__main__":
    main()
