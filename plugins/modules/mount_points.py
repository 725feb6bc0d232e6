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
  - Takes all mounts of a host in one call, as M(plumbline.ssd.stack_plan) planned them.
  - Makes each mount point and sets it immutable before the first mount, so that a database cannot start on the root
    filesystem when its volume is missing. The attribute is set through a descriptor that is shown to lie on the parent's filesystem.
  - Walks the way to each mount point through descriptors that follow no symbolic link, and refuses one that anybody but root could change.
    After the mount the kernel has to show it at exactly that path.
  - Refuses mounts and drop-ins that no plan would hold, so that a step that was tampered with writes no other line and no other file.
  - Replaces C(/etc/fstab) in one atomic step. Lines of other mount points stay as they are, to the byte. Where the write fails, the old file
    stands; where somebody else changed it meanwhile, it is left alone.
  - Mounts, or remounts where only options differ, and reads the options back from the kernel. What is mounted is remounted before its line of
    fstab is touched; where the kernel does not take an option by remount, the mount and its line stay as they were, and the module fails.
  - Sets owner, group, mode and SELinux label of the mounted root directory.
options:
  mounts:
    description:
      - The mounts, as they stand in the step C(mount) of M(plumbline.ssd.stack_plan).
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: The mount point.
        type: path
        required: true
      uuid:
        description: UUID of the filesystem.
        type: str
        required: true
      fstype:
        description: Type of the filesystem.
        type: str
        required: true
      options:
        description: Mount options as fstab carries them, separated by commas.
        type: str
        required: true
      passno:
        description: The sixth field of fstab (fs_passno). V(0) is no check at boot, V(1) the root filesystem, V(2) all others.
        type: int
        default: 2
      owner:
        description: Number of the owner of the mounted root directory; V(-1) leaves it.
        type: int
        default: -1
      group:
        description: Number of its group; V(-1) leaves it.
        type: int
        default: -1
      mode:
        description: Its mode, four octal digits such as V(0750); empty leaves it.
        type: str
        default: ""
      selinux_context:
        description: Its SELinux label; empty leaves it.
        type: str
        default: ""
      stack:
        description: The stack, for messages.
        type: str
        default: ""
      volume:
        description: The volume, for messages.
        type: str
        default: ""
      changes:
        description: What the plan found to change, for messages.
        type: list
        elements: str
        default: []
  drop_ins:
    description:
      - Drop-in files of systemd units, absolute path (C(/etc/systemd/system/UNIT.d/50-plumbline-STACK.conf)) to the file's whole text
        (C(RequiresMountsFor=)), so that a service does not start without its volumes.
    type: dict
    default: {}
  enable_fstrim_timer:
    description:
      - Enable C(fstrim.timer), which discards what is free once a week.
    type: bool
    default: false
  accepted:
    description:
      - The risks that were accepted for the mounts of a stack, as they stand in the step C(mount). The record of each stack that is named
        here is replaced by them; it is in C(/var/lib/plumbline/accepted), for root alone, with the time at which each was accepted first.
      - It is written before there is a mount with the risk, and a risk is taken out when no mount has it any more.
    type: list
    elements: dict
    default: []
    suboptions:
      stack:
        description: The stack.
        type: str
        required: true
      risks:
        description: What was accepted for it. None means nothing any more.
        type: list
        elements: dict
        default: []
        suboptions:
          volume:
            description: The volume.
            type: str
            required: true
          mount:
            description: Its mount point.
            type: str
            required: true
          uuid:
            description: UUID of its filesystem.
            type: str
            required: true
          option:
            description: The mount option that brings the risk.
            type: str
            required: true
          acceptance:
            description: By what it is allowed, as it stands in the stack.
            type: str
            required: true
          serials:
            description: Serials of the devices that it is about.
            type: list
            elements: str
            default: []
  read_back:
    description:
      - The stacks of the host, as M(plumbline.ssd.stack_plan) takes them. When given, the host is observed and planned again
        after the mounts, which spares the call of a module of its own. When no step is left, this was the last writer of the run, and its
        O(lease) is given back.
      - Check mode reads nothing back.
    type: list
    elements: dict
    default: []
  verify:
    description:
      - What is to be proven of them by measurement, as M(plumbline.ssd.stack_plan) takes it.
    type: dict
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
  - M(ansible.posix.mount) is not used, because it truncates fstab and then writes it, so that a power cut in between leaves
    a host that does not boot. It also takes one mount a call, and cannot close the gap between an empty directory and the mount.
seealso:
  - module: plumbline.ssd.stack_plan
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Mount what was planned
  plumbline.ssd.mount_points:
    mounts: "{{ item.mounts }}"
    drop_ins: "{{ item.drop_ins }}"
    enable_fstrim_timer: "{{ item.enable_fstrim_timer }}"
    accepted: "{{ item.accepted }}"
    read_back: "{{ plumbline_stacks }}"
    verify: "{{ plumbline_verify }}"
  become: true
  loop: "{{ plan.steps | selectattr('action', 'eq', 'mount') }}"
  loop_control:
    label: "{{ item.summary }}"
  register: mounted

- name: Fail where a step is left
  ansible.builtin.assert:
    that: mounted.results[0].reading.steps | length == 0
"""

RETURN = r"""
reading:
  description: What M(plumbline.ssd.stack_plan) returns of O(read_back) now.
  returned: success, when O(read_back) is given and it is not check mode
  type: dict
released:
  description: The run whose lease was given back, since no step was left; empty where it was not.
  returned: success, when O(read_back) is given and it is not check mode
  type: str
reasons:
  description: More about a failure, one line a reason.
  returned: failure with several causes
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import LEASE, release, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._mounting import apply_mounts
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import exit_refused, leave, need_root, runner, starter

MOUNT = {
    "path": {"type": "path", "required": True},
    "uuid": {"type": "str", "required": True},
    "fstype": {"type": "str", "required": True},
    "options": {"type": "str", "required": True},
    "passno": {"type": "int", "default": 2, "no_log": False},  # of fsck, and no secret
    "owner": {"type": "int", "default": -1},
    "group": {"type": "int", "default": -1},
    "mode": {"type": "str", "default": ""},
    "selinux_context": {"type": "str", "default": ""},
    "stack": {"type": "str", "default": ""},
    "volume": {"type": "str", "default": ""},
    "changes": {"type": "list", "elements": "str", "default": []},
}

RISK = {
    "volume": {"type": "str", "required": True},
    "mount": {"type": "str", "required": True},
    "uuid": {"type": "str", "required": True},
    "option": {"type": "str", "required": True},
    "acceptance": {"type": "str", "required": True},
    "serials": {"type": "list", "elements": "str", "default": []},
}
ACCEPTED = {
    "stack": {"type": "str", "required": True},
    "risks": {"type": "list", "elements": "dict", "default": [], "options": RISK},
}


def read_back(run, stacks, verify):
    """The plan of *stacks* as the host is now, and its warnings."""
    from ansible_collections.plumbline.ssd.plugins.module_utils._reading import note_filesystems, read  # a mount alone needs none of this
    from ansible_collections.plumbline.ssd.plugins.module_utils._spec import read_stacks
    from ansible_collections.plumbline.ssd.plugins.module_utils._verify import read_verify

    reading, warnings = read(run, read_stacks(stacks), verify=None if verify is None else read_verify(verify))
    note_filesystems(reading)
    return reading, warnings


def main():
    module = AnsibleModule(
        argument_spec={
            "mounts": {"type": "list", "elements": "dict", "default": [], "options": MOUNT},
            "drop_ins": {"type": "dict", "default": {}},
            "enable_fstrim_timer": {"type": "bool", "default": False},
            "accepted": {"type": "list", "elements": "dict", "default": [], "options": ACCEPTED},
            "read_back": {"type": "list", "elements": "dict", "default": []},
            "verify": {"type": "dict"},
            "lease": LEASE,
        },
        supports_check_mode=True,
    )
    params = module.params
    reading = {}
    released = ""
    try:
        need_root()
        timer = params["enable_fstrim_timer"]
        with writing(params["lease"], module.check_mode) as taken_over:
            applied = apply_mounts(runner(module), starter(module), params["mounts"], params["drop_ins"], timer, module.check_mode, params["accepted"])
            warnings = taken_over + applied.warnings
            try:
                if params["read_back"] and not module.check_mode:
                    reading, more = read_back(runner(module), params["read_back"], params["verify"])
                    warnings += more
            finally:
                applied.finish()
        run = params["lease"].get("run", "")
        if run and reading and not reading["steps"] and release(run):
            released = run
    except PlumblineError as fault:
        exit_refused(module, fault)
    except OSError as fault:
        exit_refused(module, PlumblineError("%s could not be written: %s" % (fault.filename or "a file of the host", fault.strerror or fault)))
    result = {"reading": reading, "released": released} if reading else {}
    leave(module, warnings, changed=applied.changed, diff=dict(applied.diff, before_header="/etc/fstab", after_header="/etc/fstab"), **result)


if __name__ == "__main__":
    main()
