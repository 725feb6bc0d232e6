# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of how drives are read, for the modules that read their health."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  members:
    description:
      - Drives behind controllers that are not found by themselves, such as those of areca, 3ware and aacraid. They are read in addition to all
        others.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The node of the controller or of its volume, for example C(/dev/sg2).
        type: str
        required: true
      type:
        description: The type that C(smartctl -d) takes, for example V(areca,3/1), V(3ware,0) or V(aacraid,0,0,4).
        type: str
        required: true
  timeout:
    description:
      - How long a tool may take, in seconds, from 1 to 600. All drives are asked at the same time, so that drives that hang cost this once.
        A drive that does not answer in time is one finding.
    type: int
    default: 30
  endurance:
    description: How much the drives are rated for. What is left of the endurance is computed from it.
    type: list
    elements: dict
    default: []
    suboptions:
      model:
        description: A pattern of the model, such as V(*MZQL2*). The first that fits counts.
        type: str
        required: true
      terabytes_written:
        description: The rated endurance, in terabytes (10^12 bytes), as data sheets have it (TBW).
        type: int
        required: true
  advisories:
    description:
      - Firmware that ends a drive at a known number of power-on hours, in addition to what the collection knows (two advisories of HPE, for
        32,768 and 40,000 hours).
    type: list
    elements: dict
    default: []
    suboptions:
      models:
        description: Patterns of models.
        type: list
        elements: str
        required: true
      fixed_in:
        description: The first firmware without the fault. Firmware that differs from it in more than the last character is not compared.
        type: str
        required: true
      limit_hours:
        description: The power-on hours at which the drive fails.
        type: int
        required: true
      text:
        description: What the advisory says, and where it is.
        type: str
        required: true
  leave_out:
    description:
      - Drives whose health is not read and not judged, each with a reason. An entry has exactly one of C(device), C(serial) and C(model). A
        drive of the kernel's own is sent no command.
      - A drive that is left out is shown in each report with the reason, as a finding of the level V(info). An entry that fits no drive is reported
        as well, a C(device) or a C(serial) with the level V(warning).
    type: list
    elements: dict
    default: []
    suboptions:
      device:
        description: A name below C(/dev/disk/by-id), or a path below C(/dev/disk/by-id) or C(/dev/disk/by-path). Other names change at boot.
        type: str
        default: ""
      serial:
        description: The serial number of the drive.
        type: str
        default: ""
      model:
        description: A pattern of the model, such as V(Virtual disk*).
        type: str
        default: ""
      reason:
        description: Why, in words.
        type: str
        required: true
"""
