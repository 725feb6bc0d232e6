# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: keep_record
short_description: Keep a record of a host on the controller
version_added: 0.1.0
description:
  - Makes a folder on the controller, proves that a file can be written there, and writes one JSON file into it. The roles of this collection use it for
    all that they keep on the controller.
  - Without O(record) and O(source) it only makes and proves the folder. Do so before a measurement that takes hours.
  - A folder that is made has the mode 0700, and a file 0600. A file is written whole or not at all. The absolute path is printed.
  - No word of the host decides where something is written.
options:
  directory:
    description:
      - The folder on the controller. Missing folders above it are made.
      - A relative path begins in the directory where Ansible was started, also in a playbook or a role of a collection.
    type: path
    required: true
  name:
    description:
      - More words of the file's name, which begins with the host's name in the inventory. They are joined by hyphens and end in C(.json).
      - A character that may not stand in the name of a file is written as in a URL, and so is a hyphen in any word but the first.
        M(plumbline.ssd.report) takes the host of a record from the name of its file.
    type: list
    elements: str
    default: []
  record:
    description: What is written, for example the result of a module under the name of the module. C(host) and C(time) are added, by the controller.
    type: dict
  source:
    description:
      - A file of the host whose JSON is written, such as a proof below C(/var/lib/plumbline/proof). It may have 32 MiB.
      - A key C(host) in it is left out. C(kept) is added, which is when the controller fetched it.
      - This takes one call to the host.
    type: path
extends_documentation_fragment:
  - plumbline.ssd.attributes.controller
attributes:
  check_mode:
    support: full
    details: Looks whether the folder could be made and written to, and writes nothing.
  diff_mode:
    support: none
seealso:
  - module: plumbline.ssd.report
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Prove the folder before the measurement
  plumbline.ssd.keep_record:
    directory: results

- name: Keep the record of the host
  plumbline.ssd.keep_record:
    directory: results
    record:
      drive_health: "{{ health }}"

- name: Keep the last proof of a stack
  plumbline.ssd.keep_record:
    directory: results
    name: [pgdata]
    source: /var/lib/plumbline/proof/pgdata.json
  become: true
"""

RETURN = r"""
path:
  description: The absolute path of the file, or without a record that of the folder.
  returned: success
  type: str
  sample: /home/dba/results/db1-acceptance.json
"""
