# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: check_spec
short_description: Check the variables of a host without the host
version_added: 0.1.0
description:
  - Reads all variables of a host whose names begin with C(plumbline_), from the inventory and the play, and fails with all mistakes in them. RV(reasons)
    has one line for each.
  - It runs on the controller and contacts no host. It needs no login, so that a pipeline can run it before a change of the inventory is merged.
  - The variables are read by the same code that reads them in a real run. Whether the disks are there, unused and large enough can only be said by the
    host. Use check mode of the playbook C(plumbline.ssd.provision_db_storage) for that.
  - The playbook C(plumbline.ssd.check_spec) runs this for all hosts.
options:
  variables:
    description:
      - The variables whose values are checked, for roles that read no others. Of all others the names alone are checked, and nothing is printed if there is
        no mistake. All values are checked if it is not given.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - plumbline.ssd.attributes.controller
attributes:
  check_mode:
    support: full
    details: The module changes nothing in any mode.
  diff_mode:
    support: none
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Check what the inventory asks for
  plumbline.ssd.check_spec:

- name: Check what one role reads
  plumbline.ssd.check_spec:
    variables: [plumbline_steady_state]
"""

RETURN = r"""
reasons:
  description: All mistakes, one line each.
  returned: failure
  type: list
  elements: str
  sample: ["plumbline_stacks[0]: unknown key 'layot' (did you mean 'layout'?); valid keys: name, devices, layout"]
report:
  description: What is asked for, in lines for people. They are printed below the name of the host. Empty with O(variables).
  returned: success
  type: list
  elements: str
  sample: ["no mistake in plumbline_stacks", "pgdata: striped, 2 devices; data on /data01"]
"""
