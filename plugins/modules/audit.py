#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: audit
short_description: Read all that the collection can tell of a host, in one call
version_added: 0.1.0
description:
  - Returns what M(plumbline.ssd.device_info), M(plumbline.ssd.stack_info) and M(plumbline.ssd.drive_health) return, in one call, for any host,
    whoever built its storage. With O(stacks) it also returns what M(plumbline.ssd.stack_plan) plans, which is the drift from the spec.
  - Reads only. It installs nothing, keeps nothing on the host, and proves no device blank.
  - A part that cannot be read is returned with C(failed) and C(msg). The others are read all the same.
options:
  stacks:
    description: The stacks that the host should have, as in C(plumbline_stacks). If empty, no drift is reported.
    type: list
    elements: dict
    default: []
  verify:
    description: What is proven by measurement, as in C(plumbline_verify). If it is given, the state of the measured proofs of O(stacks) is reported.
    type: dict
  record:
    description:
      - A directory on the controller. The task writes what it read there, as C(HOST.json), for M(plumbline.ssd.report). A host that is
        unreachable gets a record that says so.
      - Without it nothing is written.
    type: path
  questions:
    description: What the host is asked, from O(stacks). The controller fills it in.
    type: dict
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
  - plumbline.ssd.drives
attributes:
  check_mode:
    support: full
    details: The module only reads. The record on the controller is written in check mode as well.
  diff_mode:
    support: none
notes:
  - While a run of the collection has the host's lease, no command is sent to a drive. Its health is then not read.
seealso:
  - module: plumbline.ssd.report
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Read the host, and keep the record on the controller
  plumbline.ssd.audit:
    record: records
  become: true
  ignore_unreachable: true
"""

RETURN = r"""
device_info:
  description: What M(plumbline.ssd.device_info) returns.
  returned: success, except if it could not be read
  type: dict
stack_info:
  description: What M(plumbline.ssd.stack_info) returns.
  returned: success
  type: dict
drive_health:
  description: What M(plumbline.ssd.drive_health) returns.
  returned: success
  type: dict
stack_plan:
  description: What M(plumbline.ssd.stack_plan) returns. A plan that is refused has C(failed), C(msg) and C(reasons).
  returned: if O(stacks) is not empty
  type: dict
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, peek
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_call import AUDIT_OPTIONS, read_health, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans, find_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_packed import pack_reading, read_questions
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_storage import read_for_plan


def part(read):
    """What *read* returns, or its failure as a part of the result: the other part is read all the same."""
    try:
        return read()
    except PlumblineError as fault:
        return {"failed": True, "msg": fault.msg, "reasons": fault.reasons}


def main():
    """Reads the host. The action plugin of the same name makes the result on the controller: see plugin_utils/views.py."""
    module = AnsibleModule(argument_spec={**AUDIT_OPTIONS, "questions": {"type": "dict"}}, supports_check_mode=True)
    params = module.params

    def drives():
        nodes, _names = find_disks([], True)
        _lease, held = peek(Run())
        means = DriveMeans(module.get_bin_path, params["timeout"], held)
        return read_health(means, nodes, params, known, everything=True, keep=False).result

    def storage():
        return {"answer": pack_reading(read_for_plan(runner(module), asked))}

    try:
        need_root()
        if params["questions"] is None:
            raise PlumblineError("the audit is made on the controller, by the action plugin of this module; call plumbline.ssd.audit in a task")
        known, asked = read_options(params, int(time.time())), read_questions(params["questions"])
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=False, drive_health=part(drives), storage=part(storage))


if __name__ == "__main__":
    main()
