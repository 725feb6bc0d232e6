#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: mount_points
short_description: Mount the volumes of a host by fstab, on mount points that nothing can write to while unmounted
version_added: 0.1.0
description:
  - Makes all mounts of a host in one call, as M(plumbline.ssd.stack_plan) planned them.
  - Creates each mount point and makes it immutable before the first mount. A database then cannot start on the root filesystem if its
    volume is missing. The module sets the attribute through a descriptor, after it has checked that the descriptor lies on the
    filesystem of the parent directory.
  - Opens each directory on the path to a mount point through descriptors that follow no symbolic link. It refuses a path that anybody
    but root could change. After the mount the kernel must show the mount at exactly that path.
  - Refuses mounts and drop-ins that no plan would contain. A step that was tampered with therefore cannot write other lines or files.
  - Replaces C(/etc/fstab) in one atomic step. Lines of other mount points stay unchanged to the byte. If the write fails, the old file
    stays. If another program changed the file meanwhile, the module leaves the file alone and fails.
  - Mounts each volume. If a volume is mounted already and only its options differ, the module remounts it, and reads the options back
    from the kernel.
  - Remounts a mounted volume before it changes the line in fstab. If the kernel does not accept an option by remount, the mount and its
    line stay as they were, and the module fails.
  - Sets owner, group, mode and SELinux label of the mounted root directory.
options:
  mounts:
    description:
      - The mounts, as listed in the step C(mount) of M(plumbline.ssd.stack_plan).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The mount point.
        type: path
        required: true
      uuid:
        description: The UUID of the filesystem.
        type: str
        required: true
      fstype:
        description: The type of the filesystem.
        type: str
        required: true
      options:
        description: The mount options as they are written in fstab, separated by commas.
        type: str
        required: true
      passno:
        description: The sixth field of fstab (fs_passno). V(0) is no check at boot, V(1) is for the root filesystem, V(2) for all others.
        type: int
        default: 2
      owner:
        description: The user id of the mounted root directory's owner. V(-1) leaves the owner as it is.
        type: int
        default: -1
      group:
        description: The group id of the mounted root directory. V(-1) leaves the group as it is.
        type: int
        default: -1
      mode:
        description: The mode of the mounted root directory, four octal digits such as V(0750). An empty string leaves the mode as it is.
        type: str
        default: ""
      selinux_context:
        description: The SELinux label of the mounted root directory. An empty string leaves the label as it is.
        type: str
        default: ""
      stack:
        description: The name of the stack, for messages.
        type: str
        default: ""
      volume:
        description: The name of the volume, for messages.
        type: str
        default: ""
      changes:
        description: The changes that the plan found necessary, for messages.
        type: list
        elements: str
        default: []
  drop_ins:
    description:
      - Drop-in files of systemd units. The key is the absolute path (C(/etc/systemd/system/UNIT.d/50-plumbline-STACK.conf)), the value is
        the whole text of the file (C(RequiresMountsFor=)).
      - With its drop-in, a service does not start without its volumes.
    type: dict
    default: {}
  enable_fstrim_timer:
    description:
      - Enable C(fstrim.timer), which discards free space once a week.
    type: bool
    default: false
  accepted:
    description:
      - The accepted risks of the mounts, by stack, as listed in the step C(mount). They replace the host's record of each stack that is
        named here.
      - The record is below C(/var/lib/plumbline/accepted) and readable by root only. It has the time at which each risk was first accepted.
      - The module records a risk before a mount with that risk exists. It removes a risk from the record after no mount has it any more.
    type: list
    elements: dict
    default: []
    suboptions:
      stack:
        description: The name of the stack.
        type: str
        required: true
      risks:
        description: The risks that were accepted for the stack. An empty list means that none is accepted any more.
        type: list
        elements: dict
        default: []
        suboptions:
          volume:
            description: The name of the volume.
            type: str
            required: true
          mount:
            description: The mount point of the volume.
            type: str
            required: true
          uuid:
            description: The UUID of the volume's filesystem.
            type: str
            required: true
          option:
            description: The mount option that causes the risk.
            type: str
            required: true
          acceptance:
            description: The word in the stack that allows the option, such as V(data_loss_on_power_cut).
            type: str
            required: true
          serials:
            description: The serials of the devices at risk.
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
    details: Shows the change of C(/etc/fstab).
notes:
  - M(ansible.posix.mount) is not used, because it truncates fstab before it writes it. A power cut between the two leaves a host that does
    not boot. It also makes only one mount in each call, and it cannot close the gap between an empty directory and the mount.
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Make the planned mounts
  plumbline.ssd.mount_points:
    mounts: "{{ item.mounts }}"
    drop_ins: "{{ item.drop_ins }}"
    enable_fstrim_timer: "{{ item.enable_fstrim_timer }}"
    accepted: "{{ item.accepted }}"
  become: true
  loop: "{{ plan.steps | selectattr('action', 'eq', 'mount') }}"
  loop_control:
    label: "{{ item.summary }}"

- name: Read back, and fail if a step is left
  plumbline.ssd.stack_plan:
    stacks: "{{ plumbline_stacks }}"
    fail_if: unfinished
  become: true
"""

RETURN = r"""
reasons:
  description: More about a failure, one line for each reason.
  returned: failure with several causes
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner, starter
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mounts.change_mounts import apply_mounts
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_begun import forget_made
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import ACCEPTED, MOUNT


def main():
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "dict", "default": [], "options": MOUNT},
            "drop_ins": {"type": "dict", "default": {}},
            "enable_fstrim_timer": {"type": "bool", "default": False},
            "accepted": {"type": "list", "elements": "dict", "default": [], "options": ACCEPTED},
            "lease": LEASE,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        need_root()
        timer = params["enable_fstrim_timer"]
        with writing(params["lease"], module.check_mode) as warnings:
            if not module.check_mode:
                forget_made([mount["uuid"] for mount in params["mounts"]])  # what is to be mounted was made
            applied = apply_mounts(runner(module), starter(module), params["mounts"], params["drop_ins"], timer, module.check_mode, params["accepted"])
            applied.finish()
    except PlumblineError as fault:
        exit_refused(module, fault)
    except OSError as fault:
        exit_refused(module, PlumblineError("%s could not be written: %s" % (fault.filename or "a file of the host", fault.strerror or fault)))
    diff = dict(applied.diff, before_header="/etc/fstab", after_header="/etc/fstab")
    exit_success(module, warnings + applied.warnings, changed=applied.changed, diff=diff)


if __name__ == "__main__":
    main()
