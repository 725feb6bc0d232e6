#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: run_lease
short_description: Give back the lease of a run that failed half way, or take it for a plan
version_added: 0.1.0
description:
  - One run at a time writes to a host. M(plumbline.ssd.stack_plan) takes the host's lease if steps remain. The call that finds no step
    left gives the lease back. If a step fails, that call does not happen, and this module gives the lease back instead.
  - Gives back the lease of exactly the run that is named. The lease of another run stays.
  - M(plumbline.ssd.stack_plan) itself calls this module to take the lease, with O(take), after it has planned on the controller.
options:
  run:
    description:
      - The run, 32 hexadecimal digits, from the lease that M(plumbline.ssd.stack_plan) returned. With O(take) it may be empty, for a new run.
    type: str
    required: true
  take:
    description:
      - Take the lease, or renew it, instead of giving it back. M(plumbline.ssd.stack_plan) fills it in. In check mode nothing is taken.
    type: dict
    suboptions:
      digest:
        description: The digest of the plan.
        type: str
        default: ""
      controller:
        description: Who runs the play.
        type: str
        default: ""
      process:
        description: The process on the controller.
        type: str
        default: ""
      gone:
        description: An earlier run of this same controller whose process no longer exists.
        type: str
        default: ""
      making:
        description: UUIDs of the filesystems that the plan is going to make. They are recorded on the host.
        type: list
        elements: str
        default: []
      standing:
        description: UUIDs of filesystems that exist, so that they are recorded no longer.
        type: list
        elements: str
        default: []
      seen:
        description: The lease as it was when the host was read. If another run has had it since, nothing is recorded, and RV(again) is true.
        type: dict
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
  returned: success, without O(take)
  type: bool
lease:
  description: The lease that was taken, with C(run) and C(digest).
  returned: success, with O(take), except in check mode
  type: dict
again:
  description: Whether the host is to be read again, because another run had the lease since it was read.
  returned: success, with O(take), except in check mode
  type: bool
holder:
  description: The run that holds the lease, with C(run), C(controller), C(process) and C(since).
  returned: failure with O(take), if another run holds it
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Held, Run, peek, release
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_begun import forget_made
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.taken_lease import TAKE, take_for_plan


def main():
    options = {"run": {"type": "str", "required": True}, "take": {"type": "dict", "options": TAKE}}
    module = AnsibleModule(argument_spec=options, supports_check_mode=True)
    run, asked = module.params["run"], module.params["take"]
    taken, warnings, released = {}, [], False
    try:
        need_root()
        if asked is not None and not module.check_mode:
            taken, warnings = take_for_plan(run, asked)
        elif asked is None and module.check_mode:
            lease, _held = peek(Run(run))
            released = lease is not None and lease.run == run and not lease.free
        elif asked is None:
            forget_made()  # after a failure nobody reads back
            released = release(run)
    except Held as fault:
        exit_refused(module, fault, holder=fault.holder)
    except PlumblineError as fault:
        exit_refused(module, fault)
    if asked is not None:
        exit_success(module, warnings, changed=bool(taken), **taken)
    exit_success(module, changed=released, released=released)


if __name__ == "__main__":
    main()
