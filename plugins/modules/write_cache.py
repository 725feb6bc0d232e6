#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: write_cache
short_description: Set the volatile write cache of SSDs, and keep it so over reboots, hot-plug and resets
version_added: 0.1.0
description:
  - Takes all drives of a host in one call, ATA, SCSI and NVMe. Asks each drive itself, never the kernel, sets what differs
    with C(hdparm), C(sdparm) or C(nvme), and asks the drive again.
  - Checks all that can be known for all drives before it sets the first. Where one fails, those that were set before it are put back.
  - Keeps the setting by the drive's identity (WWID), with one udev rule and a timer that looks every five seconds, because a reset may bring
    the drive's default back without any event. A drive that can save the setting itself is told to.
  - C(queue/write_cache) of sysfs, the kernel's belief, is never written. Where it would drop flushes, the kernel is made to look again.
options:
  devices:
    description:
      - The drives.
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: A name below C(/dev/disk/by-id), or a path, of the whole disk.
        type: str
        required: true
      state:
        description:
          - V(on) or V(off) is set and kept. V(keep) never changes the drive; a setting that was kept before is no longer kept.
        type: str
        choices: ["on", "off", "keep"]
        required: true
      identity:
        description:
          - The identity that the drive must have, as M(plumbline.ssd.stack_plan) gives it in its steps; empty takes the one that is there.
        type: str
        default: ""
      serial:
        description: The drive's serial, for the message that it is not there.
        type: str
        default: ""
      accept:
        description:
          - Risks taken on for this drive. V(data_loss_on_power_cut) lets its cache be switched on while a filesystem is mounted on it without barriers,
            which is refused otherwise.
        type: list
        elements: str
        choices: [data_loss_on_power_cut]
        default: []
  persist:
    description:
      - Keep the setting. V(false) sets it until the next reset, and drops what was kept for these drives before, which would undo it.
    type: bool
    default: true
  power_loss_protection:
    description:
      - Serials of drives of which the operator states that their cache survives a power cut. RV(devices[].protected) says so where the drive
        itself does not, and their caches may be switched on below a filesystem without barriers.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - plumbline.ssd.lease
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Shows for each drive the state of its cache, and the state that is kept.
notes:
  - A cache that is off is not switched on below a filesystem that is mounted without barriers, unless that is accepted.
  - The cache of an NVMe SSD belongs to its controller. It is set only where all namespaces behind the controller are named, with the same state.
  - Virtual disks (virtio), loop devices and disks behind USB bridges cannot be asked, so V(on) and V(off) are refused for them.
  - Off is kept as well as on. A kernel that goes on believing C(write back) over a cache that is off is left alone, since that is safe, and right
    again when a reset brings the cache back. Only where the drive itself saves the setting is it made to look again.
  - On a host without systemd there is the udev rule and no timer.
seealso:
  - module: plumbline.ssd.device_info
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Two drives without their volatile cache, for good
  plumbline.ssd.write_cache:
    devices:
      - {device: nvme-MODEL_SERIAL1, state: "off"}
      - {device: ata-MODEL_SERIAL2, state: "off"}
  become: true

- name: Leave a drive to itself again
  plumbline.ssd.write_cache:
    devices:
      - {device: ata-MODEL_SERIAL2, state: keep}
  become: true
"""

RETURN = r"""
devices:
  description: The drives, in the order of O(devices).
  returned: success
  type: list
  elements: dict
  contains:
    device:
      description: The kernel's name.
      type: str
      sample: /dev/nvme0n1
    path:
      description: The drive as it was named.
      type: str
    identity:
      description: What the drive is known by.
      type: str
    serial:
      description: Its serial.
      type: str
    state:
      description: What was asked.
      type: str
    before:
      description: V(on), V(off), V(none) (nothing that a power cut empties) or V(unknown), by the drive's word before.
      type: str
    after:
      description: The same afterwards; in check mode what it would be.
      type: str
    present:
      description: Whether there is a volatile write cache. Null, here and below, where the drive does not say.
      type: bool
    enabled:
      description: Whether it is on. In check mode as found.
      type: bool
    changeable:
      description: Whether the drive says that it can be changed.
      type: bool
    saved:
      description: The state that the drive comes back with after a reset, where it can save one.
      type: bool
    protected:
      description: Whether the cache survives a power cut.
      type: bool
    protected_by:
      description: Who says so, V(drive), V(operator), or nobody.
      type: str
    fault:
      description: Why the drive could not be asked.
      type: str
    belief:
      description: What the kernel believes, C(queue/write_cache).
      type: str
      sample: write back
    kept:
      description: The state that the host keeps from now on; empty where none.
      type: str
    kept_before:
      description: The same before.
      type: str
    findings:
      description: What is worth a word, each with C(level) V(error) or V(warning), C(found), C(wanted) and all of it as C(text).
      type: list
      elements: dict
reasons:
  description: Why nothing was set, one line a reason.
  returned: failure with several causes
  type: list
  elements: str
  sample:
    - "device sda (S3Z1): it has no volatile write cache; wanted on; write keep or off"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._cacheset import Asked, apply, find_tools
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import device_path, exit_refused, leave, need_root, runner

DEVICE = {
    "device": {"type": "str", "required": True},
    "state": {"type": "str", "choices": ["on", "off", "keep"], "required": True},
    "identity": {"type": "str", "default": ""},
    "serial": {"type": "str", "default": ""},
    "accept": {"type": "list", "elements": "str", "choices": ["data_loss_on_power_cut"], "default": []},
}


def with_statement(device, stated):
    """A drive as it is returned, with the operator's word on power-loss protection where the drive has none."""
    if device["protected"] is not None:
        return dict(device, protected_by="drive")
    if device["serial"] and device["serial"] in stated:
        return dict(device, protected=True, protected_by="operator")
    return dict(device, protected_by="")


def main():
    module = AnsibleModule(
        argument_spec={
            "devices": {"type": "list", "elements": "dict", "required": True, "options": DEVICE},
            "persist": {"type": "bool", "default": True},
            "power_loss_protection": {"type": "list", "elements": "str", "default": []},
            "lease": LEASE,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        need_root()
        asked = [Asked(device_path(one["device"]), one["state"], one["identity"], one["serial"], tuple(one["accept"])) for one in params["devices"]]
        with writing(params["lease"], module.check_mode) as warnings:
            tools = find_tools(module.get_bin_path)
            done = apply(runner(module), asked, params["persist"], tools, module.check_mode, params["power_loss_protection"])
    except PlumblineError as fault:
        exit_refused(module, fault)
    except OSError as fault:
        exit_refused(module, PlumblineError("%s could not be written: %s" % (fault.filename or "a file of the host", fault.strerror or fault)))
    devices = [with_statement(device, params["power_loss_protection"]) for device in done.devices]
    warnings += [finding["text"] for device in devices for finding in device["findings"] if finding["level"] == "error"]
    headers = {"before_header": "write caches as found", "after_header": "write caches as asked"}
    leave(module, warnings, changed=done.changed, devices=devices, diff=dict(done.diff, **headers))


if __name__ == "__main__":
    main()
