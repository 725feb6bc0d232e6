#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later


from __future__ import annotations

DOCUMENTATION = r"""
module: stack_plan
short_description: Plan the storage of a database host, and prove what stands
version_added: 0.1.0
description:
  - Observes the host once, compares it with the spec, and returns the steps that remain. The steps cover a storage stack from the drives'
    write cache and the partition table to the mount.
  - Changes nothing on any device or filesystem. It reports C(changed) if steps remain. Its diff, a drawing of the stacks as found and as
    planned, is therefore printed in real runs as well as in check mode.
  - What stands and can have more is a step where the spec says so - C(grow=true) on the stack, a larger C(size) of a volume, further C(devices) in
    whole rows of C(stripes). Without it a device that grew is a warning. M(plumbline.ssd.stack_growth) carries these steps out. Nothing shrinks.
  - A stack with C(mirror=true) has one array over its devices. M(plumbline.ssd.stack_mirror) carries the steps for it out. A stack that runs without a
    member of its array, and a member with older data, are refused.
  - Refuses the plan if a device is not blank, is in use, or cannot be told from another device, and if an existing part could only be
    rebuilt. The refusal has all reasons at once. A refused plan has no steps.
  - Refuses mount options by which an acknowledged write can be lost on the devices of the volume, unless the stack accepts the risk by
    name. The collection's guide on durability has the whole table.
  - Refuses to build on a device whose link carries half of what both ends can do, or less, unless the stack accepts C(slow_link). What is
    less wrong with a link is a finding.
  - Returns the static proof of every existing volume, which is the absolute start and the phase of each layer on each leg. A leg is a
    device's part in a stripe. The phase is an address modulo the grain, the unit in which the flash takes a write.
options:
  questions:
    description:
      - What the host is asked, from O(stacks). The controller fills it in.
    type: dict
extends_documentation_fragment:
  - plumbline.ssd.plan
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module never changes anything except the host's lease and the record of filesystems. Check mode changes neither.
  diff_mode:
    support: full
seealso:
  - module: plumbline.ssd.stack_info
  - module: plumbline.ssd.aligned_partition
  - module: plumbline.ssd.stack_growth
  - module: plumbline.ssd.stack_mirror
  - module: plumbline.ssd.write_cache
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Plan a striped pair
  plumbline.ssd.stack_plan:
    stacks:
      - name: pgdata
        devices: [nvme-MODEL_SERIAL1, nvme-MODEL_SERIAL2]
        reserve: 10%
        volumes:
          - {name: data, size: 70%, mount: /data01}
          - {name: wal, size: 20%, mount: /data02}
  become: true
  register: plan

- name: Plan one drive with a reserve for a life of five years
  plumbline.ssd.stack_plan:
    stacks:
      - name: archive
        devices: [nvme-MODEL_SERIAL3]
        layout: linear
        reserve: {target: {years: 5, tbw: 1.2PB}}
        workload: {writes_per_day: 0.15, random: 80%}
        volumes:
          - {name: data, mount: /archive}
  become: true

- name: Show the steps that remain
  ansible.builtin.debug:
    msg: "{{ plan.report }}"
"""

RETURN = r"""
steps:
  description:
    - The steps that remain, in order. Each has C(action), C(summary), and what the role needs that carries out the step.
    - Most steps belong to one C(stack). The step for the write caches and the step for the mounts cover the whole host, and are the first
      and the last step.
  returned: success
  type: list
  elements: dict
  sample:
    - action: volume_group
      stack: pgdata
      vg: pgdata
      pvs: [/dev/disk/by-partuuid/6c0d1c9e-0000-5000-8000-000000000000]
      extent_bytes: 8388608
      data_alignment_bytes: 1048576
      summary: VG pgdata on 2 PVs, extents of 8 MiB, data at 1 MiB
digest:
  description: Identifies the plan. The same steps on the same devices give the same digest. Empty if no step is left.
  returned: success
  type: str
  sample: 9b1f6d0e3c5a87b2444a1c0d95e7f3168a2b6c4d0e8f7a5b3c1d9e2f4a6b8c0d
lease:
  description:
    - The lease to pass to the writers of the run, with C(run) and C(digest), if O(lease) is given and steps remain. Empty otherwise.
  returned: success
  type: dict
released:
  description: The run whose lease was given back, because no step remains. Empty if no lease was given back.
  returned: success
  type: str
holder:
  description: The run that holds the lease, with C(run), C(controller), C(process) and C(since).
  returned: failure, when another run has it
  type: dict
missing_packages:
  description: The packages with tools that the plan needs and the host lacks, by the names of the host's distribution.
  returned: success
  type: list
  elements: str
  sample: [lvm2]
stacks:
  description: The existing volumes, each with its layers, from the device to the mount, and its findings.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The volume's device-mapper or kernel name.
      type: str
    mount:
      description: The mount point of the volume. Empty if it is not mounted.
      type: str
    layers:
      description:
        - The layers from the bottom up. For each leg C(legs) has the absolute first byte (C(start)), its C(phase) modulo the C(grain), and
          the phase C(wanted), all in bytes.
      type: list
      elements: dict
    findings:
      description:
        - What is wrong, with C(level) (V(error), V(warning) or V(info)), the C(layer), its C(name), what was C(found), what is C(wanted),
          and all of it in one line as C(text).
      type: list
      elements: dict
    accepted:
      description: The accepted risks that are in force, from the record of the host, one line each. RV(report) has them too.
      type: list
      elements: str
    size_bytes:
      description: The size of the volume, in bytes.
      type: int
    not_followed:
      description: Mappings whose bytes cannot be followed down to the disks, such as a thin pool. No layer above them is known to be aligned.
      type: list
      elements: str
proofs:
  description: The state of the measured proof of each stack, when O(verify) is given.
  returned: success
  type: list
  elements: dict
  contains:
    stack:
      description: The name of the stack.
      type: str
    record:
      description: The file of the host that has its record.
      type: str
    digest:
      description: Identifies the subject of the proof, which is the stack, the identities of its devices, and the thresholds.
      type: str
    writes_digest:
      description:
        - The same for the measured writes. Mount points, mount options and the options of other measurements are not part of it.
      type: str
    writes_base:
      description: The same without the sizes that a growth changes.
      type: str
    made:
      description:
        - When the filesystem of each volume was made, in seconds since 1970. V(0) if the volume has none. A stored verdict counts only for
          the same filesystems.
      type: list
      elements: int
    stored:
      description: The verdict that the host keeps for exactly this digest and these filesystems. Empty if there is none.
      type: str
    stored_time:
      description: When that verdict was stored. Empty if there is none.
      type: str
    due:
      description: Whether it is measured now.
      type: bool
    settled:
      description:
        - Whether nothing is left to do about it. V(false) for one that is measured, and for one that is not proven and yet not measured again,
          because nothing else would come of that. C(state) has the reason.
      type: bool
    accepted:
      description: What of C(plumbline_verify.accept) the stored verdict needs.
      type: list
      elements: str
    state:
      description: The same for people, in one line.
      type: str
    volumes:
      description: The volumes, each with C(stack), C(volume), C(device), C(path) (its mount point) and C(power_loss_protection).
      type: list
      elements: dict
    bare:
      description: The devices of the volumes, as long as none of the volumes has a filesystem. Empty otherwise.
      type: list
      elements: str
verify:
  description: O(verify) as the module understood it. C(measures) has the wanted measurements, each with its options.
  returned: success
  type: dict
health:
  description:
    - What is known of the health of the drives, if O(health) is given and its gate is not V(off). C(due) says whether they are to be read now,
      before a step in any case, else once a day. C(state) is the last reading in one line. C(stacks) are the stacks with their drives, as
      O(plumbline.ssd.drive_health#module:stacks) takes them.
    - What the last reading found is also given as warnings, if none is due.
  returned: success
  type: dict
findings:
  description:
    - The findings of all stacks. For a stack that is still to be built, these are the findings of the layer C(link) on its devices. The
      layer C(reserve) compares the reserve of a stack that stands with its target.
  returned: success
  type: list
  elements: dict
report:
  description:
    - The same for people, one line for each item. If O(fail_if) is given and no step is left, or in check mode, the task prints it.
  returned: success, and when the module fails because of O(fail_if)
  type: list
  elements: str
duration:
  description:
    - How long the steps and the measurements will take, in lines for people, as a range from a quick drive to a slow one. The task prints them. Empty if
      nothing is left to be done or measured.
  returned: success
  type: list
  elements: str
  sample: ["time: 1 to 19 min in all", "  offset_sweep of 2 volumes: at most 5 min"]
reasons:
  description: Why there is no plan, one line for each reason.
  returned: when the plan is refused; a mistake in the spec has a C(msg) only
  type: list
  elements: str
  sample:
    - "pgdata: device nvme0n1 (PLUMB0001): it is read-only [read_only]; name another device"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Held, Run
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.plan_options import PLAN_OPTIONS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_packed import packed_answer, read_questions


def main():
    """Reads the host. The action plugin of the same name plans on the controller: see plugin_utils/plan/plan_host.py."""
    module = AnsibleModule(argument_spec={**PLAN_OPTIONS, "questions": {"type": "dict"}}, supports_check_mode=True)
    asked, lease = module.params["questions"], module.params["lease"]
    if asked == {}:  # the spec has a mistake, and the host has nothing to do with it
        exit_success(module, changed=False, answer="")
    try:
        need_root()
        if asked is None and module.params["stacks"]:
            raise PlumblineError("the plan is made on the controller, by the action plugin of this module; call plumbline.ssd.stack_plan in a task")
        me = None if lease is None or module.check_mode else Run(*(lease[name] for name in Run._fields))
        answer = packed_answer(runner(module), read_questions(asked) if asked else Questions(), me)
    except Held as fault:
        exit_refused(module, fault, holder=fault.holder)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=False, answer=answer)


if __name__ == "__main__":
    main()
