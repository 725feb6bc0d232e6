#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: offset_sweep
short_description: Measure at which offset a device, a volume or a file reads fastest
version_added: 0.1.0
description:
  - Reads a disk, a partition or a logical volume at every offset below a grain, in shuffled rounds, and says at which offset reads do not
    straddle two pages of the flash. It stops as soon as the answer is certain, which usually takes a few hundred reads.
  - Only reads, unless O(write) is set, past the page cache, at a bounded rate, and with a bounded share of the requests where others load the disks.
    A volume that is mounted and busy may be swept.
  - Read places have to have been written before. A drive answers blocks that were never written, or were discarded, without its flash,
    and then no offset is faster.
options:
  device:
    description:
      - A disk, a partition or a logical volume, by a name below C(/dev/disk/by-id) or a path; or a regular file on ext4, ext3, ext2 or
        XFS, for instance a data file of a running database.
      - Or the mount point of one of these filesystems. A scratch file without a name is written there then (64 MiB on a pair of devices, half
        of that on one), and is gone when the module ends, however it ends.
      - Offsets count from the first byte of the block device; for a file of that which its filesystem is on.
      - A file is read on its block device, at the addresses of those extents that were written, and nowhere else. The file itself, its
        lock and its time of access are left alone, and nothing that waits in the page cache is written out.
    type: str
    required: true
    aliases: [path]
  max_grain:
    description:
      - The largest grain that is looked for, a power of two from V(4KiB) to V(64KiB). On a striped volume never more than half
        of a chunk, since reads stay within one.
    type: str
    default: 64KiB
  error:
    description:
      - The probability that the verdict is wrong, from 1e-9 to 0.05.
    type: float
    default: 0.0001
  min_ratio:
    description:
      - The smallest penalty that matters, as latency at a wrong offset divided by latency at the right one. V(no_preference) means that
        there is none as large as this.
      - A larger one of 1.25 is looked for first. Where the search for this one stays V(inconclusive), RV(excluded_ratio) says so.
    type: float
    default: 1.1
  max_bytes:
    description:
      - How much is read at most, for every layer where O(layers) is set. Where that is not enough the verdict is V(inconclusive). It is a guard; what a
        sweep costs others is bounded by O(reads_per_second) and O(max_share).
    type: str
    default: 2GiB
  max_seconds:
    description:
      - How long a sweep takes at most, in seconds; every layer has as much where O(layers) is set.
    type: float
    default: 30
  reads_per_second:
    description:
      - The rate of reads that is not exceeded. V(0) for no limit.
    type: int
    default: 2000
  cache_size:
    description:
      - How much a cache between the host and the flash may hold, such as a RAID controller's. Such a cache answers at every offset alike, so that a
        misalignment behind it does not show. Where no phase is found among less than four times as much, the verdict is V(cannot_tell).
      - V(0) where there is certainly none.
    type: str
    default: 2GiB
  max_share:
    description:
      - The share of all requests to the disks below that the sweep may have, while others load them. The kernel's accounts tell whether they do,
        namely where others have had more than 0.1 requests in flight on average. A device that is idle is not limited by it.
      - On a device with few requests this makes the sweep wait until O(max_seconds) are over, and V(1) sets no limit.
    type: float
    default: 0.02
  chunk_edges:
    description:
      - On a striped volume, measure what a read costs that crosses from one chunk into the next. It has no part in the verdict, whose
        reads all stay within a chunk.
    type: bool
    default: false
  layers:
    description:
      - Sweep every layer below O(device) as well, where its bytes lie on it, from the disks up, name the layer at which the phase goes wrong, and
        compare with the static proof.
    type: bool
    default: false
  write:
    description:
      - Sweep with writes instead of reads, each durable before the next, and discard the whole of O(device) afterwards.
      - Taken only for partitions that M(plumbline.ssd.aligned_partition) has made, and logical volumes on nothing but such, which nobody uses and
        which are blank, without a signature and with zeros in the first and last 64 MiB and 1,024 places between.
        Everything else is refused, and nothing is written.
    type: bool
    default: false
  table:
    description:
      - Make a table of reads per second and latencies at the offsets from 0 up to and including the grain, with 32 reads in flight, as the
        Vdbench recipe does. It needs C(fio) on the host.
      - This loads the device as much as it can be loaded; O(reads_per_second) and O(max_share) do not hold for it.
    type: bool
    default: false
  table_seconds:
    description:
      - How long the reads for O(table) take together, in seconds. Where they are too few for all offsets, offsets are left out.
    type: float
    default: 30
extends_documentation_fragment:
  - plumbline.ssd.lease
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details:
      - Reads change nothing, and check mode measures as well, but for a mount point, where it would have to write.
      - With O(write) it says only whether O(device) would be taken.
  diff_mode:
    support: none
notes:
  - Many drives hide a straddled read, because two of their dies work at once. V(no_preference) is no fault then, nor is V(cannot_tell).
  - How certainty is reached, and how often the verdict was wrong in simulation, is in the guide on the offset sweep.
seealso:
  - module: plumbline.ssd.stack_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: At which offset does the volume read fastest
  plumbline.ssd.offset_sweep:
    device: /dev/pgdata/data
  become: true
  register: sweep

- name: The same from a data file of the running database, with the layer that is off
  plumbline.ssd.offset_sweep:
    device: /pgdata/base/16384/2619
    layers: true
  become: true
  register: layers

- name: The table as the Vdbench recipe has it
  plumbline.ssd.offset_sweep:
    device: /dev/pgdata/data
    table: true
  become: true

- name: Fail where the measurement contradicts the kernel's alignment
  ansible.builtin.assert:
    that: not sweep.contradicts
    fail_msg: "{{ sweep.report | join(' ') }}"
"""

RETURN = r"""
verdict:
  description: V(phase), V(no_preference), V(cannot_tell) or V(inconclusive).
  returned: success
  type: str
  sample: phase
phase_bytes:
  description: The offset at which reads are fastest, modulo RV(grain_bytes). Only with the verdict V(phase).
  returned: success
  type: int
  sample: 0
grain_bytes:
  description: The grain at which the phase was found, in bytes; with V(no_preference) the largest that was looked for.
  returned: success
  type: int
  sample: 16384
ratio:
  description: Latency at the other offsets divided by latency at the phase, medians. V(1.0) without a phase.
  returned: success
  type: float
  sample: 1.62
excluded_ratio:
  description: The smallest penalty that there certainly is not, as a ratio of latencies; V(0.0) where none could be excluded, or with a phase.
  returned: success
  type: float
  sample: 1.1
expected_bytes:
  description: The phase by the kernel's alignment offset of the device; V(-1) where the kernel does not know.
  returned: success
  type: int
  sample: 0
contradicts:
  description: The measured phase is another one than the kernel's. Either a layer is misaligned, or the device lies about its alignment.
  returned: success
  type: bool
reads:
  description: Reads that were made.
  returned: success
  type: int
read_bytes:
  description: Bytes that were read.
  returned: success
  type: int
seconds:
  description: How long it took.
  returned: success
  type: float
share:
  description: The sweep's share of all requests that the disks answered meanwhile, from 0 to 1; V(0.0) where the kernel keeps no account of them.
  returned: success
  type: float
  sample: 0.014
legs:
  description: Where the bytes that were read lie on the disks.
  returned: success
  type: list
  elements: dict
  contains:
    device:
      description: The disk, by the kernel's name.
      type: str
    start_bytes:
      description: The byte of the disk at which the volume begins there.
      type: int
    first_byte:
      description: The first byte of the disk that could be read; V(-1) where it is not known.
      type: int
    length_bytes:
      description: How many bytes of the disk could be read.
      type: int
    phase_bytes:
      description: The measured phase as a byte of the disk, modulo RV(grain_bytes); V(-1) without a phase.
      type: int
chunk_edge_ratio:
  description: Latency of reads that cross from one chunk into the next divided by that of reads at the phase within a chunk, medians.
  returned: with O(chunk_edges), on a striped volume
  type: float
  sample: 1.08
layers:
  description:
    - Every layer from the disks up, with C(layer), C(name), C(legs) (C(device), C(start_bytes)) and C(verdict), which is empty for a layer that has no
      device of its own; else with C(phase_bytes), C(grain_bytes), C(ratio), C(reads), C(read_bytes) and C(seconds).
  returned: with O(layers)
  type: list
  elements: dict
culprit:
  description: The layer at which the measured phase goes wrong and stays wrong to the top; empty where none does. Several, with commas, where the legs differ.
  returned: with O(layers)
  type: str
  sample: partition sda1
static_culprit:
  description: The same by the kernel's own numbers, at the measured grain.
  returned: with O(layers)
  type: str
agreement:
  description: Whether the measurement V(agrees) with the static proof or V(contradicts) it; V(unproven) where no layer has a phase.
  returned: with O(layers)
  type: str
  sample: agrees
table:
  description: One row for each offset.
  returned: with O(table)
  type: list
  elements: dict
  contains:
    offset_bytes:
      description: The offset.
      type: int
    iops:
      description: Reads per second.
      type: float
    p50_us:
      description: The median latency, in microseconds.
      type: float
    p99_us:
      description: The 99th percentile of latency, in microseconds.
      type: float
    reads:
      description: How many reads the row is made of.
      type: int
reasons:
  description: Why the verdict is none, or what contradicts it, one line a reason.
  returned: success
  type: list
  elements: str
report:
  description: The same for people, one line an item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._offsets import sweep
from ansible_collections.plumbline.ssd.plugins.module_utils._probe import ARGUMENTS
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import bound_runner, device_path, exit_refused, leave, need_root, runner


def main():
    module = AnsibleModule(
        argument_spec={
            "device": {"type": "str", "required": True, "aliases": ["path"]},
            "layers": {"type": "bool", "default": False},
            "write": {"type": "bool", "default": False},
            "lease": LEASE,
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        need_root()
        with writing(params["lease"], module.check_mode or not params["write"]) as warnings:
            result = sweep(runner(module), lambda seconds: bound_runner(module, seconds), device_path(params["device"]), params, module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    leave(module, warnings, changed=params["write"], **result)


if __name__ == "__main__":
    main()
