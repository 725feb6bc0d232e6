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
  - Reads a disk, a partition or a logical volume at every offset below a grain, in shuffled rounds, and returns the offset at which reads
    do not straddle two pages of the flash. The grain is the unit in which the flash takes a write. The sweep stops as soon as the answer
    is certain, which usually takes a few hundred reads.
  - Only reads, unless O(write) is set. Reads go past the page cache, at a limited rate, and with a limited share of the requests while
    others load the disks. A volume that is mounted and busy may be swept.
  - The places that are read must have been written before. If a block was never written, or was discarded, the drive answers without its
    flash, and no offset is faster.
options:
  device:
    description:
      - A disk, a partition or a logical volume, by a name below C(/dev/disk/by-id) or by a path. Or a regular file on ext4, ext3, ext2
        or XFS, for example a data file of a running database.
      - Or the mount point of one of these filesystems. The module then writes a scratch file without a name there (64 MiB on a pair of
        devices, half of that on one, with the default O(max_grain)). The file disappears when the module ends, however it ends.
      - Offsets count from the first byte of the block device. For a file this is the block device of its filesystem.
      - A file is read on its block device, at the addresses of its written extents and nowhere else. The module does not touch the file
        itself, its lock or its time of access, and does not write out data that waits in the page cache.
    type: str
    required: true
    aliases: [path]
  max_grain:
    description:
      - The largest grain to look for, a power of two from V(4KiB) to V(64KiB). On a striped volume it is at most half a chunk, because
        reads stay within one chunk.
    type: str
    default: 64KiB
  error:
    description:
      - The probability of a wrong verdict, from 1e-9 to 0.05.
    type: float
    default: 0.0001
  min_ratio:
    description:
      - The smallest penalty that matters, as the latency at a wrong offset divided by the latency at the right one. V(no_preference)
        means that there is no penalty as large as this.
      - The sweep first looks for a larger penalty, of 1.25. If the search for this one stays V(inconclusive), RV(excluded_ratio) has the
        result of the first search.
    type: float
    default: 1.1
  max_bytes:
    description:
      - The maximum number of bytes to read. With O(layers) it applies to each layer. If it is not enough, the verdict is V(inconclusive).
      - This is only a guard. O(reads_per_second) and O(max_share) limit what a sweep costs other users of the disks.
    type: str
    default: 2GiB
  max_seconds:
    description:
      - The maximum time of a sweep, in seconds. With O(layers) it applies to each layer.
    type: float
    default: 30
  reads_per_second:
    description:
      - The maximum rate of reads. V(0) for no limit.
    type: int
    default: 2000
  cache_size:
    description:
      - The size of the largest cache that may lie between the host and the flash, such as a RAID controller's. Such a cache answers at
        every offset alike, and hides a misalignment behind it.
      - If no phase is found, and the area that was read is less than four times this size, the verdict is V(cannot_tell).
      - V(0) if there is certainly no such cache.
    type: str
    default: 2GiB
  max_share:
    description:
      - The maximum share of the sweep in all requests to the disks below the target, while others load them. The disks count as loaded if
        others had more than 0.1 requests in flight on average, by the kernel's statistics. The limit does not apply to an idle device.
      - If a loaded device has few requests, the sweep waits until O(max_seconds) are over. V(1) sets no limit.
    type: float
    default: 0.02
  chunk_edges:
    description:
      - On a striped volume, measure the cost of a read that crosses from one chunk into the next. The verdict does not depend on it,
        because all reads of the verdict stay within a chunk.
    type: bool
    default: false
  layers:
    description:
      - Also sweep every layer below O(device), from the disks up, at the places of the target's bytes on that layer. Name the layer at
        which the phase becomes wrong, and compare the result with the static proof.
    type: bool
    default: false
  write:
    description:
      - Sweep with writes instead of reads. Each write is durable before the next one. Afterwards the whole of O(device) is discarded.
      - Accepted are only partitions that M(plumbline.ssd.aligned_partition) made, and logical volumes that lie on nothing but such
        partitions. The target must be unused and blank, which means no signature, and zeros in the first and last 64 MiB and at 1,024
        places between them. Everything else is refused, and nothing is written.
    type: bool
    default: false
  table:
    description:
      - Make a table of reads per second and latencies at the offsets from 0 up to and including the grain, with 32 reads in flight, as the
        Vdbench recipe does. It needs C(fio) on the host.
      - This loads the device to its limit. O(reads_per_second) and O(max_share) do not apply to it.
    type: bool
    default: false
  table_seconds:
    description:
      - The total time of the reads for O(table), in seconds. If it is too short for all offsets, some offsets are left out.
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
      - Reads change nothing, so check mode measures as well. It does not measure on a mount point, because it would have to write a file.
      - With O(write), check mode only checks whether O(device) would be accepted.
  diff_mode:
    support: none
notes:
  - Many drives hide a straddled read, because two of their dies work at the same time. In this case V(no_preference) is no fault.
    V(cannot_tell) is no fault either.
  - The guide on the offset sweep describes how certainty is reached, and how often the verdict was wrong in simulation.
seealso:
  - module: plumbline.ssd.stack_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Measure at which offset the volume reads fastest
  plumbline.ssd.offset_sweep:
    device: /dev/pgdata/data
  become: true
  register: sweep

- name: Measure on a data file of the running database, and name the layer that is off
  plumbline.ssd.offset_sweep:
    device: /pgdata/base/16384/2619 # a large one: 32 MiB of it at least have to be on the flash
    layers: true
  become: true
  register: layers

- name: Make the table of the Vdbench recipe
  plumbline.ssd.offset_sweep:
    device: /dev/pgdata/data
    table: true
  become: true

- name: Fail if the measurement contradicts the kernel's alignment
  ansible.builtin.assert:
    that: not sweep.contradicts
    fail_msg: "{{ sweep.report | join(' ') }}"
"""

RETURN = r"""
measure:
  description: The name of the measurement. M(plumbline.ssd.stack_proof) judges the result by it.
  returned: success
  type: str
  sample: offset_sweep
verdict:
  description: V(phase), V(no_preference), V(cannot_tell) or V(inconclusive).
  returned: success
  type: str
  sample: phase
phase_bytes:
  description: The offset at which reads are fastest, modulo RV(grain_bytes). It is valid only with the verdict V(phase).
  returned: success
  type: int
  sample: 0
grain_bytes:
  description: The grain at which the phase was found, in bytes. With V(no_preference) it is the largest grain that was looked for.
  returned: success
  type: int
  sample: 16384
ratio:
  description: The median latency at the other offsets divided by the median latency at the phase. V(1.0) without a phase.
  returned: success
  type: float
  sample: 1.62
excluded_ratio:
  description:
    - There is certainly no penalty as large as this ratio of latencies, or larger. V(0.0) if no penalty could be excluded, or with a phase.
  returned: success
  type: float
  sample: 1.1
expected_bytes:
  description: The phase by the kernel's alignment offset of the device. V(-1) if the kernel does not know it.
  returned: success
  type: int
  sample: 0
contradicts:
  description: Whether the measured phase differs from the kernel's. If so, a layer is misaligned or the device lies about its alignment.
  returned: success
  type: bool
reads:
  description: The number of reads.
  returned: success
  type: int
read_bytes:
  description: The number of bytes that were read.
  returned: success
  type: int
seconds:
  description: The time that the sweep took, in seconds.
  returned: success
  type: float
share:
  description:
    - The sweep's share of all requests that the disks answered during the sweep, from 0 to 1. V(0.0) if the kernel does not count them.
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
      description: The byte of the disk at which the volume begins.
      type: int
    first_byte:
      description: The first byte of the disk that could be read. V(-1) if it is not known.
      type: int
    length_bytes:
      description: How many bytes of the disk could be read.
      type: int
    phase_bytes:
      description: The measured phase as a byte of the disk, modulo RV(grain_bytes). V(-1) without a phase.
      type: int
chunk_edge_ratio:
  description:
    - The median latency of reads that cross from one chunk into the next, divided by the median latency of reads at the phase within a chunk.
  returned: with O(chunk_edges), on a striped volume
  type: float
  sample: 1.08
layers:
  description:
    - Every layer from the disks up, with C(layer), C(name), C(legs) (C(device), C(start_bytes)) and C(verdict).
    - If a layer has no device of its own, its C(verdict) is empty. The other layers also have C(phase_bytes), C(grain_bytes), C(ratio),
      C(reads), C(read_bytes) and C(seconds).
  returned: with O(layers)
  type: list
  elements: dict
culprit:
  description:
    - The layer at which the measured phase becomes wrong and stays wrong to the top. Empty if there is none. If the legs differ, there may
      be several, separated by commas.
  returned: with O(layers)
  type: str
  sample: partition sda1
static_culprit:
  description: The same by the kernel's own numbers, at the measured grain.
  returned: with O(layers)
  type: str
agreement:
  description: Whether the measurement V(agrees) with the static proof or V(contradicts) it. V(unproven) if no layer has a phase.
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
      description: The 99th percentile of the latency, in microseconds.
      type: float
    reads:
      description: The number of reads behind the row.
      type: int
reasons:
  description: Why there is no verdict, or what contradicts it, one line for each reason.
  returned: success
  type: list
  elements: str
report:
  description: The same for people, one line for each item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import device_path
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_bound_tools import bound_runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.options import ARGUMENTS
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.run import sweep


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
    exit_success(module, warnings, changed=params["write"], measure="offset_sweep", **result)


if __name__ == "__main__":
    main()
