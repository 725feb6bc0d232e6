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
  - Takes all ATA, SCSI and NVMe drives of a host in one call. It asks each drive itself, never the kernel, for the state of its cache. It
    sets the caches that differ with C(hdparm), C(sdparm) or C(nvme), and asks the drives again.
  - Checks everything that can be known for all drives before it sets the first one. If one drive fails, the drives that were set before it
    are put back.
  - Keeps the setting by the drive's identity (WWID), with one udev rule for boot, hot-plug and the resets that the kernel reports, and with
    a service before the first mount of a boot. If a drive can save the setting itself, the saved value is set as well.
  - Asks no drive by the clock. On a SATA drive such a question waits for an empty queue, and the database behind it. The timer of an
    earlier release is removed. The collection's guide on the write cache says which resets no event tells of.
  - Never sets a cache by C(queue/write_cache) of sysfs, which is what the kernel believes. If the kernel would drop flushes of a cache that is to
    be on, the module writes V(write back) there and makes the kernel read the drive again.
options:
  devices:
    description:
      - The drives.
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: The whole disk, by a name below C(/dev/disk/by-id) or by a path.
        type: str
        required: true
      state:
        description:
          - V(on) or V(off) is set and kept. V(keep) never changes the drive. With V(keep), a setting that was kept before is no longer kept.
        type: str
        choices: ["on", "off", "keep"]
        required: true
      identity:
        description:
          - The identity that the drive must have, as in the steps of M(plumbline.ssd.stack_plan). An empty string accepts any drive.
        type: str
        default: ""
      serial:
        description: The serial of the drive, for the message if the drive is missing.
        type: str
        default: ""
      accept:
        description:
          - Risks that are accepted for this drive. V(data_loss_on_power_cut) allows its cache to be switched on while a filesystem on it is
            mounted without barriers. Otherwise this is refused.
        type: list
        elements: str
        choices: [data_loss_on_power_cut]
        default: []
  persist:
    description:
      - Keep the setting. V(false) sets it until the next reset. It also removes a setting that was kept for these drives before, which would
        undo the new one.
    type: bool
    default: true
  power_loss_protection:
    description:
      - Serials of drives whose cache survives a power cut, by the operator's statement. If a drive does not report this itself,
        RV(devices[].protected) has the statement.
      - The caches of these drives may be switched on below a filesystem without barriers.
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
    details: Shows for each drive the state of its cache, and the state that is kept. Shows the timer of an earlier release, if it is removed.
notes:
  - The module does not switch on a cache that is off below a filesystem that is mounted without barriers, unless O(devices[].accept) or
    O(power_loss_protection) allows it, or the drive itself reports power-loss protection.
  - If a logical volume above the drive would drop flushes, the module does not switch the cache on, whatever is accepted.
  - The cache of an NVMe SSD belongs to its controller. It is set only if all namespaces of the controller are named, with the same state.
  - Virtual disks (virtio), loop devices and disks behind USB bridges cannot be asked. V(on) and V(off) are therefore refused for them.
  - V(off) is kept as well as V(on). If the cache is off and the kernel still believes C(write back), the module leaves that as it is. This
    is safe, and it is right again when a reset switches the cache on. Only if the drive itself saves the setting does the module make the
    kernel read the drive again.
  - On a host without systemd there is the udev rule, and no service.
seealso:
  - module: plumbline.ssd.device_info
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Switch the volatile cache of two drives off, and keep it off
  plumbline.ssd.write_cache:
    devices:
      - {device: nvme-MODEL_SERIAL1, state: "off"}
      - {device: ata-MODEL_SERIAL2, state: "off"}
  become: true

- name: No longer keep the setting of a drive
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
      description: The device node, with the kernel's name of the drive.
      type: str
      sample: /dev/nvme0n1
    path:
      description: The path by which the drive was named.
      type: str
    identity:
      description: The string by which the collection identifies the drive.
      type: str
    serial:
      description: The serial of the drive.
      type: str
    state:
      description: The state that was asked for.
      type: str
    before:
      description:
        - The state that the drive reported before. It is V(on), V(off), V(none) (there is nothing that a power cut empties) or V(unknown).
      type: str
    after:
      description: The state that the drive reports afterwards. In check mode, the state that it would have.
      type: str
    present:
      description: Whether there is a volatile write cache. This value and those below are null if the drive does not report them.
      type: bool
    enabled:
      description: Whether the cache is on. In check mode, as it was found.
      type: bool
    changeable:
      description: Whether the drive reports that the setting can be changed.
      type: bool
    saved:
      description: The state that the drive returns to after a reset, if it can save one.
      type: bool
    protected:
      description: Whether the cache survives a power cut.
      type: bool
    protected_by:
      description: Who states the protection, V(drive) or V(operator). Empty if nobody does.
      type: str
    fault:
      description: Why the drive could not be asked.
      type: str
    belief:
      description: What the kernel believes, from C(queue/write_cache).
      type: str
      sample: write back
    kept:
      description: The state that the host keeps from now on. Empty if it keeps none.
      type: str
    kept_before:
      description: The state that the host kept before. Empty if it kept none.
      type: str
    findings:
      description:
        - What should be looked at, each with C(level) (V(error) or V(warning)), C(found), C(wanted), and all of it as C(text).
      type: list
      elements: dict
reasons:
  description: Why nothing was set, one line for each reason.
  returned: failure with several causes
  type: list
  elements: str
  sample:
    - "device sda (S3Z1): it has no volatile write cache; wanted on; write keep or off"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import device_path
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.change_drives import apply
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.command import find_tools
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.drive import Asked
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import CACHE_DEVICE


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
            "devices": {"type": "list", "elements": "dict", "required": True, "options": CACHE_DEVICE},
            "persist": {"type": "bool", "default": True},
            "power_loss_protection": {"type": "list", "elements": "str", "default": []},
            "lease": LEASE,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        need_root()
        asked = [Asked(device_path(entry["device"]), entry["state"], entry["identity"], entry["serial"], tuple(entry["accept"])) for entry in params["devices"]]
        with writing(params["lease"], module.check_mode) as warnings:
            tools = find_tools(module.get_bin_path)
            done = apply(runner(module), asked, params["persist"], tools, module.check_mode, params["power_loss_protection"])
    except PlumblineError as fault:
        exit_refused(module, fault)
    except OSError as fault:
        exit_refused(module, PlumblineError("%s could not be written: %s" % (fault.filename or "a file of the host", fault.strerror or fault)))
    devices = [with_statement(device, params["power_loss_protection"]) for device in done.devices]
    warnings += [finding["text"] for device in devices for finding in device["findings"] if finding["level"] == "error"]
    headers = {"before_header": "write caches as found", "after_header": "write caches as specified"}
    exit_success(module, warnings, changed=done.changed, devices=devices, diff=dict(done.diff, **headers))


if __name__ == "__main__":
    main()
