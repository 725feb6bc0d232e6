#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: stack_plan_async
short_description: Make a plan on the host itself, for M(plumbline.ssd.stack_plan) with C(async)
version_added: 0.1.0
description:
  - Does on the host all that M(plumbline.ssd.stack_plan) does on the host and on the controller. The two return the same.
  - M(plumbline.ssd.stack_plan) runs this module if its task has C(async), because the controller is not there when such a task ends. There
    is no need to call it by its own name.
extends_documentation_fragment:
  - plumbline.ssd.plan
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module never changes anything except the host's lease and the record of filesystems. Check mode changes neither.
  diff_mode:
    support: full
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Plan with a full blank proof, which takes hours
  plumbline.ssd.stack_plan:
    stacks: "{{ plumbline_stacks }}"
  async: 86400
  poll: 60
  become: true
"""

RETURN = r"""
plan:
  description: The same values as M(plumbline.ssd.stack_plan) returns, each under its own name.
  returned: never under this name
  type: dict
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.plan_call import read, read_to_write
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.plan_options import PLAN_OPTIONS
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.plan_reading import fault_of
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import NOTHING_WRITTEN, PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._io.tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.read_spec import check_variables, read_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.health_gate import read_gate
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.verify_options import read_verify
from ansible_collections.plumbline.ssd.plugins.module_utils._records.lease_file import Held, Run, release


def main():
    module = AnsibleModule(argument_spec=dict(PLAN_OPTIONS), supports_check_mode=True)
    try:
        check_variables(module.params["variables"])
        stacks = read_stacks(module.params["stacks"])
        verify = None if module.params["verify"] is None else read_verify(module.params["verify"])
        gate = "off" if module.params["health"] is None else read_gate(module.params["health"])
        need_root()
        through, lease = module.params["through"], module.params["lease"]
        if lease is None or module.check_mode:
            result, warnings = read(runner(module), stacks, through, verify, gate=gate)
        else:
            me = Run(*(lease[name] for name in Run._fields))
            refused = "reading back was refused: " if me.run and module.params["fail_if"] in ("unfinished", "any") else NOTHING_WRITTEN
            result, warnings = read_to_write(runner(module), stacks, through, verify, me, refused, gate)
    except Held as fault:
        exit_refused(module, fault, holder=fault.holder)
    except PlumblineError as fault:
        exit_refused(module, fault)
    result = {"lease": {}, "released": "", **result}
    unfit = None if module.check_mode else fault_of(module.params["fail_if"], result)
    if unfit:
        run = result["lease"].get("run", "")
        if run and release(run):  # the caller gets no lease from a failure
            result["released"] = run
        exit_refused(module, unfit, warnings, report=result["report"], released=result["released"])
    exit_success(module, warnings, **result)


if __name__ == "__main__":
    main()
