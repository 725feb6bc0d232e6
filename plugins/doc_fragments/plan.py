# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the options of a plan, and of how it is made, for the modules that make one."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
notes:
  - The module runs at most three tools to read the storage, all read-only - C(lvm fullreport), C(dmsetup table), and C(wipefs) without an
    erase option. Where a volume group is still to be made, it also runs C(lvm lvmconfig). On a host that keeps a write cache setting it also
    runs C(systemctl is-active).
  - The module proves a device blank before the device is taken. It reads the first and last 64 MiB completely and 1,024 random places.
    With C(blank_proof=full), M(plumbline.ssd.aligned_partition) reads the whole device before it writes the table. The collection's guide on refusals
    says what the sample is sure to find.
  - A partition, a PV or a volume of the stack itself that seems to be empty is proven blank in the same way, because a signature can be
    lost while the data is still there. The guide on getting data back describes how to restore it.
  - If a device has foreign contents and no other reason speaks against it, the refusal has a digest of the device and of what was found
    on it. With this digest as C(signature), and with the device's serial, an entry in the stack's C(erase) states that all contents may
    be destroyed. The diff and C(report) list what will be destroyed.
options:
  stacks:
    description:
      - The stacks, as in C(plumbline_stacks). The module checks their keys itself. Its messages name the place of a mistake and the
        nearest valid key.
      - The role P(plumbline.ssd.provision#role) lists the keys, at O(plumbline.ssd.provision#role:main:plumbline_stacks). The collection's
        guide on specs describes them.
      - If C(reserve) of a stack is a mapping, the module computes the reserve of devices that are still to be partitioned, and C(report) says
        what it came to. On a stack that stands, the target gives a finding of the layer C(reserve), and a step only with C(grow=true).
    type: list
    elements: dict
    required: true
  through:
    description:
      - Plan up to this layer and stop. Sizes and addresses are those of the whole stack in any case. Mount options are always judged over
        the devices, whatever the layer is.
    type: str
    choices: [write_cache, partition, striped_lvm, filesystem]
    default: filesystem
  verify:
    description:
      - What is proven by measurement, as in C(plumbline_verify). The guide on the measured proof describes it.
      - If it is given, C(proofs) says what the record of the host holds and what is to be measured.
    type: dict
  health:
    description:
      - What is done about the health of the drives, as in C(plumbline_health). The role P(plumbline.ssd.health#role) lists its keys.
      - If it is given, C(health) says whether M(plumbline.ssd.drive_health) is to be called. This module itself asks no drive for its health.
    type: dict
  fail_if:
    description:
      - When the module fails although the plan is not refused. V(unfinished) - a step is left. V(unsound) - no step is left, and a finding has
        the level error. V(any) - a step is left, or a finding has the level error. V(never) - in no case.
      - The message names every such finding and step. The task prints C(report) before it fails. In check mode the module does not fail.
    type: str
    choices: [never, unfinished, unsound, any]
    default: never
  variables:
    description:
      - Names of variables that begin with C(plumbline_), as C(query('ansible.builtin.varnames', '^plumbline_')) finds them.
      - The module refuses a name that the collection does not know. Ansible itself would ignore a mistyped variable without a message.
    type: list
    elements: str
    default: []
  lease:
    description:
      - Give this option, for example as V({}), if you are going to carry out the steps. If steps remain, the module takes the host's lease
        for this run and returns it as C(lease). The writers of the collection identify the run by it. If no step remains, the module
        gives the lease back.
      - If another run holds the lease and steps remain, the plan is refused. A host in the desired state needs no lease.
      - The lease is a file below C(/run). In check mode the module does not take it.
      - With this option the module also records, below C(/var/lib/plumbline), which filesystems are about to be made. A later run can then
        tell the remains of an interrupted C(mke2fs) or C(mkfs.xfs) from a filesystem that lost its superblock. In check mode nothing is recorded.
    type: dict
    suboptions:
      run:
        description: The run, 32 hexadecimal digits, if it holds the lease already. Empty for a new run.
        type: str
        default: ""
      digest:
        description: Ignored. It is accepted so that C(lease) of an earlier call can be passed unchanged.
        type: str
        default: ""
      controller:
        description: Who runs the play, for the message that another run gets. The controller fills it in.
        type: str
        default: ""
      process:
        description: The process on the controller. The controller fills it in.
        type: str
        default: ""
      gone:
        description:
          - An earlier run of this same controller whose process no longer exists. Its lease is taken over at once. The controller fills it in.
        type: str
        default: ""
"""
