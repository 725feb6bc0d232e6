# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: run_module
short_description: Run a module of another collection, and take its result for data
version_added: 0.1.0
description:
  - Runs one of the modules that the roles of this collection need from elsewhere. What it returns is data to the controller.
  - Ansible sets a variable for each fact that a module returns, whatever the module. So a host that was taken over could set variables of the controller,
    among them the paths of programs that the controller starts. Here facts, and all else that Ansible would act on, are left out of the result.
  - The roles use it. A playbook of your own has no need of it on hosts that you trust.
options:
  module:
    description: The full name of the module.
    type: str
    required: true
    choices:
      - ansible.builtin.package
      - community.general.filesystem
      - community.general.lvg
      - community.general.lvol
  arguments:
    description: The options of that module. Defaults of the play for it (C(module_defaults)) do not count, but for those of the package manager's module.
    type: dict
    required: true
extends_documentation_fragment:
  - plumbline.ssd.attributes
attributes:
  check_mode:
    support: full
    details: Of the module that is run.
  diff_mode:
    support: full
    details: Of the module that is run.
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Make a volume group
  plumbline.ssd.run_module:
    module: community.general.lvg
    arguments:
      vg: pgdata
      pvs: [/dev/disk/by-id/nvme-eui.00000000000000010000000000000001-part1]
  become: true
"""

RETURN = r"""
result:
  description: Every value that the module returned, each under its own name, without facts and all else that Ansible would act on.
  returned: never under this name
  type: dict
"""
