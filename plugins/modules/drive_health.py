#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: drive_health
short_description: Read the health of all drives of a host, and judge it
version_added: 0.1.0
description:
  - Reads ATA, SCSI, NVMe and eMMC drives, and the drives behind RAID controllers, in one call. It returns for each drive whether it fails, how
    worn it is, how long its rated endurance lasts, its counters, and findings.
  - RV(drives[].failing) is about the drive. The level of a finding is about whoever wants to build on the drive. Wear alone never makes a drive
    fail. If a drive was not read, or gives no verdict, RV(drives[].failing) is null.
  - Sends no command that changes a drive. With O(baseline) the module writes a file on the host.
options:
  devices:
    description:
      - The whole disks, by names below C(/dev/disk/by-id) or by paths. An empty list means all disks, and all members of the RAID controllers
        that C(smartctl) can find (MegaRAID, PERC, HPE Smart Array with the driver hpsa).
    type: list
    elements: str
    default: []
  baseline:
    description:
      - Keep this reading on the host, below C(/var/lib/plumbline/health), at most one a day and 400 for each drive. Later calls compare with
        what is kept, with or without this option. The roles that build also tell from it how old the last reading is.
      - Nothing is kept in check mode.
    type: bool
    default: false
  stacks:
    description: What the drives are for. Some rules are stricter for a drive on which a stack is to be built.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: The name of the stack.
        type: str
        required: true
      devices:
        description: The disks of the stack, by names below C(/dev/disk/by-id) or by paths. They are read in addition to O(devices).
        type: list
        elements: str
        default: []
      serials:
        description: The serials of drives of the stack that have no node of their own, behind a RAID controller.
        type: list
        elements: str
        default: []
      new:
        description: Whether the stack is still to be built. Media errors and used-up endurance are then errors.
        type: bool
        default: false
      power_loss_protection:
        description: Whether the stack relies on the capacitors of the drives. Their failure is then an error.
        type: bool
        default: false
  fail_if:
    description:
      - When the module fails, V(never), or if a finding has the level V(error), or at least the level V(warning). The failure has all of these
        findings as its reasons. A reading that is due is kept before.
      - If this option is given, the task prints RV(report).
    type: str
    choices: [never, error, warning]
    default: never
  lease:
    description:
      - The lease of the run that this call belongs to, as M(plumbline.ssd.stack_plan) returned it. While another run holds the host's lease, no
        command is sent to any drive, because such commands disturb measurements. Each drive is then returned as not read.
    type: dict
    default: {}
    suboptions:
      run:
        description: The run, 32 hexadecimal digits.
        type: str
        default: ""
      digest:
        description: Not used here.
        type: str
        default: ""
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
  - plumbline.ssd.drives
attributes:
  check_mode:
    support: full
    details: Reads the drives, and keeps nothing. C(changed) says whether a reading would be kept.
  diff_mode:
    support: none
notes:
  - C(smartctl) of smartmontools 7.1 or newer reads the drives. Without it, NVMe drives are asked by their standard health log, and eMMC by
    sysfs. All other drives are returned as not read.
  - C(smartctl) says that an NVMe drive failed if any bit of its critical warning is set, heat as well. This module judges the bits.
  - A drive that has two ways to it, by a RAID controller and as a disk of its own, is returned once.
  - Measurements that only read take no lease. Do not call this module while such a measurement runs.
seealso:
  - module: plumbline.ssd.device_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Read all drives, and keep the reading
  plumbline.ssd.drive_health:
    baseline: true
  become: true
  register: health

- name: Stop before a stack is built on a drive that should not be used
  plumbline.ssd.drive_health:
    devices: [nvme-MODEL_SERIAL1, nvme-MODEL_SERIAL2]
    stacks:
      - {name: pgdata, devices: [nvme-MODEL_SERIAL1, nvme-MODEL_SERIAL2], new: true}
    fail_if: error
  become: true
"""

RETURN = r"""
level:
  description: The worst level of all findings, V(error), V(warning) or V(info). V(ok) without findings.
  returned: success
  type: str
  sample: warning
findings:
  description:
    - The findings of all drives and stacks, the worst of each drive first, each with C(level), C(layer) (V(drive)), C(name) (the drive), C(rule),
      C(found), C(wanted), C(failing) (whether it makes the drive fail), and C(text), which has all of it in one line.
  returned: success
  type: list
  elements: dict
drives:
  description: The drives, ordered by name. Each is there once.
  returned: success
  type: list
  elements: dict
  contains:
    key:
      description: By what the drive is known from call to call, its WWN or its model and serial. Empty if it has no stable identity, or
          if another drive has the same.
      type: str
      sample: wwn:naa.5002538e403e1157
    wwn:
      description: The WWN as the kernel writes it. Empty if the drive has none.
      type: str
    serial:
      description: The serial.
      type: str
    model:
      description: The model.
      type: str
    firmware:
      description: The firmware.
      type: str
    protocol:
      description: V(ATA), V(SCSI), V(NVMe) or V(eMMC). Empty if not known.
      type: str
    name:
      description: The drive's name in findings. The kernel's name, or the controller's node with the member's type.
      type: str
      sample: sda
    device:
      description: The node by which the drive was asked.
      type: str
    member:
      description: The type by which a member of a RAID controller was addressed. Empty for other drives.
      type: str
      sample: megaraid,8
    disks:
      description: The kernel's names of the disks that the drive has, such as the namespaces of an NVMe drive.
      type: list
      elements: str
    stack:
      description: The stack of O(stacks) to which the drive belongs. Empty if it belongs to none.
      type: str
    read:
      description:
        - Whether anything was read of the drive. If not, the finding V(unread), V(not_applicable) or V(left_out) has the reason, and all values are
          null or empty.
      type: bool
    not_applicable:
      description: Whether it is a virtual disk that has no health of its own. One finding at level V(info) names all of them.
      type: bool
    left_out:
      description: Why O(leave_out) leaves the drive out. Empty if it does not.
      type: str
    source:
      description: Who was asked, V(smartctl), V(nvme) (the drive's health log), V(storcli) or V(sysfs).
      type: str
    failing:
      description: Whether the drive fails. Null if it was not read, or gives no verdict.
      type: bool
    level:
      description: The worst level of the findings of this drive.
      type: str
    findings:
      description: What was found, as in RV(findings).
      type: list
      elements: dict
    wear:
      description:
        - C(used_percent) of the rated endurance, in whole percent, and C(source) of that value. C(spare_percent) and C(spare_threshold_percent),
          the spare blocks that are left. C(life_tenths), for eMMC the registers of both memory types (0 undefined, 1 to 10 tenths of the rated
          life, 11 past it). Null where the drive does not say, where nobody knows what it means by its attributes, or where they contradict each
          other (V(wear_unclear)). ATA attributes count by the names that C(smartctl) has for them in its database of drives.
      type: dict
    temperature_celsius:
      description: The temperature now. Null if not known.
      type: int
    counters:
      description:
        - What the drive counts, as far as it says. Bytes are in C(host_bytes_written) and C(flash_bytes_written), hours in C(power_on_hours),
          minutes in C(hot_minutes), C(critical_minutes) and C(busy_minutes). All others are numbers of events.
      type: dict
    write_amplification:
      description: Bytes to the flash divided by bytes from the host, over the drive's life. Null if it does not count both.
      type: float
    projection:
      description:
        - C(days_min) and C(days_max) (null if there is no bound) until the rated endurance is used, if the drive is used as before. C(basis) says
          from what, V(readings) (at least a week apart), V(lifetime) (one reading) or V(writes) (O(endurance)). Null if nothing is known.
      type: dict
    baseline:
      description:
        - C(since), the first reading that is kept (seconds since 1970, null if there is none), C(readings), their number, C(growth) of each counter
          since then, and C(recent) growth since the latest reading that is a week old.
      type: dict
report:
  description: A table for people, then the findings, one line for each item.
  returned: success, and when the module fails because of O(fail_if)
  type: list
  elements: str
reasons:
  description: The findings for which the module fails, one line for each.
  returned: when the module fails because of O(fail_if)
  type: list
  elements: str
"""

import time

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, WARNING
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import device_path
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError, several
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import LEASE, Run, peek
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_call import OPTIONS, read_health, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans, find_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.report import StackDrives

STACK = {
    "name": {"type": "str", "required": True},
    "devices": {"type": "list", "elements": "str", "default": []},
    "serials": {"type": "list", "elements": "str", "default": []},
    "new": {"type": "bool", "default": False},
    "power_loss_protection": {"type": "bool", "default": False},
}
GATE = "refused: nothing was written. The drives are not as they should be, and plumbline_health: {gate: warn} would build on them all the same: "
# Choice → the levels of findings that are a failure.
FAIL_IF = {"never": (), "error": (ERROR,), "warning": (ERROR, WARNING)}


def read_stacks(stacks, names):
    """What the drives are for. *names*: path → the kernel's name."""
    return [
        StackDrives(
            stack["name"],
            tuple(names[device_path(name)] for name in stack["devices"]),
            tuple(stack["serials"]),
            stack["new"],
            stack["power_loss_protection"],
        )
        for stack in stacks
    ]


def main():
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "str", "default": []},
            "baseline": {"type": "bool", "default": False},
            "stacks": {"type": "list", "elements": "dict", "default": [], "options": STACK},
            "fail_if": {"type": "str", "choices": list(FAIL_IF), "default": "never"},
            "lease": LEASE,
            **OPTIONS,
        },
        supports_check_mode=True,
    )
    params = module.params
    everything = not params["devices"]
    asked = [device_path(name) for name in (*params["devices"], *(name for stack in params["stacks"] for name in stack["devices"]))]
    run = params["lease"].get("run", "")
    try:
        need_root()
        nodes, names = find_disks(asked, everything)
        known = read_options(params, int(time.time()))._replace(stacks=read_stacks(params["stacks"], names))
        _lease, held = peek(Run(run=run))
        means = DriveMeans(module.get_bin_path, params["timeout"], held)
        result, warnings, changed = read_health(means, nodes, params, known, everything, params["baseline"], module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    unfit = [finding["text"] for finding in result["findings"] if finding["level"] in FAIL_IF[params["fail_if"]]]
    if unfit and not module.check_mode:
        exit_refused(module, several(GATE if run else "the drives are not as they should be: ", unfit), warnings, report=result["report"])
    exit_success(module, warnings, changed=changed, **result)


if __name__ == "__main__":
    main()
