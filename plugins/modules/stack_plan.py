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
  - Observes the host once and works out which steps remain to bring its storage stacks to what is asked, from the
    drives' write cache and the partition table to the mount.
  - Changes nothing on any device or filesystem. It reports C(changed) when steps remain, so that its diff, a drawing of the stacks as found and
    as planned, is printed in real runs as well as in check mode.
  - Refuses, with every reason at once, where a device is not blank, is in use, or cannot be told from another, and
    where what exists could only be rebuilt. A refused plan has no steps.
  - Refuses mount options by which an acknowledged write can be lost on the devices that the volume is to lie on, unless the stack accepts it
    by name. The guide on durability of the collection has the whole table.
  - For every volume that stands it gives the static proof, which is the absolute start and the phase of each layer on each leg.
options:
  stacks:
    description:
      - The stacks, as written in C(plumbline_stacks). The keys of each are checked by the module itself, which names
        the place of a mistake and the nearest valid key. They are described in the guide on specs of the collection.
    type: list
    elements: dict
    required: true
  through:
    description:
      - Plan up to this layer and stop. Sizes and addresses are those of the whole stack all the same, and mount options are judged
        over the devices whatever the layer.
    type: str
    choices: [write_cache, partition, striped_lvm, filesystem]
    default: filesystem
  verify:
    description:
      - What is to be proven by measurement, as written in C(plumbline_verify), which the guide on the measured proof describes. When
        given, RV(proofs) says what the record of the host holds and what is to be measured.
    type: dict
  variables:
    description:
      - Names of variables that begin with C(plumbline_), as C(query('ansible.builtin.varnames', '^plumbline_')) finds them. One that the
        collection does not know is refused, since a mistyped variable would otherwise pass in silence.
    type: list
    elements: str
    default: []
  lease:
    description:
      - Given by whoever means to carry the steps out. Where steps remain, the host's lease is taken for that run and returned as RV(lease), by
        which the writers of the collection know it; where none remain, it is given back. While another run has it, the plan is refused.
      - It is a file below C(/run). With it the module notes, below C(/var/lib/plumbline), which filesystems are about to be made, so that what a
        C(mke2fs) has left that was cut off is told from a filesystem that lost its superblock. In check mode nothing is taken or noted.
    type: dict
    suboptions:
      run:
        description: The run, 32 hexadecimal digits, when it has the lease already; empty for a new one.
        type: str
        default: ""
      digest:
        description: Ignored. It is accepted so that RV(lease) of an earlier call can be given as it is.
        type: str
        default: ""
      controller:
        description: Who runs it, for the message that another run gets. Filled in by the controller.
        type: str
        default: ""
      process:
        description: The process on the controller. Filled in by the controller.
        type: str
        default: ""
      gone:
        description: A run whose process on this same controller is gone, so that its lease is taken over at once. Filled in by the controller.
        type: str
        default: ""
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module never changes anything but the host's lease and its note, which check mode leaves alone.
  diff_mode:
    support: full
notes:
  - Runs three tools at most, all read-only, namely C(lvm fullreport), C(dmsetup table) and C(wipefs) without an erase option.
  - So is a partition, a PV or a volume of its own that seems to be empty, since a signature can be lost and the data still be there. The guide on getting data
    back says how it returns.
  - A device that is to be taken is proven blank by reading its first and last 64 MiB and 1,024 random places whole (C(blank_proof=sampled)),
    or all of it. What the sample is sure to find is in the guide on refusals of the collection.
  - A device with foreign contents, and nothing else against it, is refused with a digest of the device and of what was found on it. The stack's C(erase) takes
    that digest as C(signature), with the device's serial, as the word that all of it may be lost. What goes is in the diff and in RV(report).
seealso:
  - module: plumbline.ssd.stack_info
  - module: plumbline.ssd.aligned_partition
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

- name: Show the steps that remain
  ansible.builtin.debug:
    msg: "{{ plan.report }}"
"""

RETURN = r"""
steps:
  description: >-
      What remains to be done, in order. Each has C(action), C(summary) and what the role that carries it out needs.
      A step is of one C(stack), but for the write caches and the mounts: those of the whole host are the first and the last step.
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
  description: Names the plan. The same steps on the same devices give the same digest. Empty where no step is left.
  returned: success
  type: str
  sample: 9b1f6d0e3c5a87b2444a1c0d95e7f3168a2b6c4d0e8f7a5b3c1d9e2f4a6b8c0d
lease:
  description:
    - What the writers of the run are to be given, with C(run) and C(digest), when O(lease) is given and steps remain. Empty otherwise.
  returned: success
  type: dict
released:
  description: The run whose lease was given back, since no step remains; empty where there was none.
  returned: success
  type: str
holder:
  description: The run that has the lease, with C(run), C(controller), C(process) and C(since).
  returned: failure, when another run has it
  type: dict
missing_packages:
  description: Packages that bring the tools which the plan wants and the host lacks, by the names of its distribution.
  returned: success
  type: list
  elements: str
  sample: [lvm2]
stacks:
  description: The volumes that stand, each with its layers, from the device to the mount, and its findings.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The volume's device-mapper or kernel name.
      type: str
    mount:
      description: Where it is mounted; empty where it is not.
      type: str
    layers:
      description:
        - The layers from the bottom up. C(legs) gives for each leg the absolute first byte (C(start)), its C(phase) modulo
          the C(grain) and the phase C(wanted), all in bytes.
      type: list
      elements: dict
    findings:
      description: What is wrong, with C(level) V(error) or V(warning), the C(layer), its C(name), what was C(found) and what is C(wanted).
      type: list
      elements: dict
    accepted:
      description: The risks in force that somebody's word allows, as the record of the host has them, one line each. They are in RV(report) too.
      type: list
      elements: str
    not_followed:
      description: Mappings whose bytes cannot be followed down to the disks, such as a thin pool. Nothing above them is known to be aligned.
      type: list
      elements: str
proofs:
  description: The state of the measured proof of each stack, when O(verify) is given.
  returned: success
  type: list
  elements: dict
  contains:
    stack:
      description: The stack.
      type: str
    digest:
      description: Names what the proof is of, namely the stack, the identities of its devices, and the thresholds.
      type: str
    stored:
      description: The verdict of exactly this that the host keeps. Empty where there is none.
      type: str
    due:
      description: Whether the policy asks for a measurement.
      type: bool
    state:
      description: The same for people, in one line.
      type: str
    volumes:
      description: The volumes with C(device) and C(path).
      type: list
      elements: dict
    bare:
      description: The devices of the volumes, while no filesystem is on any of them.
      type: list
      elements: str
verify:
  description: O(verify) as it was understood; C(measures) holds the measurements that are wanted, each with its options.
  returned: success
  type: dict
findings:
  description: The findings of all stacks.
  returned: success
  type: list
  elements: dict
report:
  description: The same for people, one line an item.
  returned: success
  type: list
  elements: str
reasons:
  description: Why there is no plan, one line a reason.
  returned: when the plan is refused; a mistake in the spec has a C(msg) only
  type: list
  elements: str
  sample:
    - "pgdata: device nvme0n1 (PLUMB0001): it is read-only [read_only]; name another device"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import Held, Run
from ansible_collections.plumbline.ssd.plugins.module_utils._reading import read, read_to_write
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import exit_refused, leave, need_root, runner
from ansible_collections.plumbline.ssd.plugins.module_utils._spec import check_variables, read_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._verify import read_verify

LEASE = {name: {"type": "str", "default": ""} for name in ("run", "digest", "controller", "process", "gone")}


def main():
    module = AnsibleModule(
        argument_spec={
            "stacks": {"type": "list", "elements": "dict", "required": True},
            "through": {"type": "str", "choices": ["write_cache", "partition", "striped_lvm", "filesystem"], "default": "filesystem"},
            "verify": {"type": "dict"},
            "variables": {"type": "list", "elements": "str", "default": []},
            "lease": {"type": "dict", "options": LEASE},
        },
        supports_check_mode=True,
    )
    try:
        check_variables(module.params["variables"])
        stacks = read_stacks(module.params["stacks"])
        verify = None if module.params["verify"] is None else read_verify(module.params["verify"])
        need_root()
        through, lease = module.params["through"], module.params["lease"]
        if lease is None or module.check_mode:
            result, warnings = read(runner(module), stacks, through, verify)
        else:
            result, warnings = read_to_write(runner(module), stacks, through, verify, Run(*(lease[name] for name in Run._fields)))
    except Held as fault:
        exit_refused(module, fault, holder=fault.holder)
    except PlumblineError as fault:
        exit_refused(module, fault)
    leave(module, warnings, **{"lease": {}, "released": "", **result})


if __name__ == "__main__":
    main()
