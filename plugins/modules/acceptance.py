#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: acceptance
short_description: Measure whether a drive is fast enough
version_added: 0.1.0
description:
  - Reads a drive with several loads (cells), and says for each whether it is as fast as what it is compared with, which is another drive in the
    same host, the record of a former drive, a floor, or what a workload needs.
  - Without O(writes) it only reads. The device may be in use and mounted. fio opens it for reading only.
  - With O(writes) it also measures a blank drive that nothing uses. It discards the drive and measures cells in the state V(fresh), fills it once
    and measures the others in the state V(filled), and leaves it discarded and blank.
  - The cells are V(seq_read_1m_qd1), V(seq_read_4k_qd32), V(rand_read_8k_qd64), and random reads of 4 KiB at five depths, V(rand_read_4k_qd1),
    V(rand_read_4k_qd4), V(rand_read_4k_qd16), V(rand_read_4k_qd64) and V(rand_read_4k_qd256). A name has the size of the requests, and how many
    are outstanding.
  - The cells with writes are V(fresh_seq_write_1m_qd1) and V(fresh_rand_write_4k_qd64) on the discarded drive, and V(seq_write_1m_qd1),
    V(seq_write_4k_qd32), V(rand_write_4k_qd64), V(rand_mixed_8k_qd64) (70 % reads) and V(sync_write_4k_qd1) (each write with O_SYNC) on the filled
    one. What is left of them after days of writes is measured by M(plumbline.ssd.steady_state); O(steady) brings it in.
  - A drive answers reads of blocks that were trimmed or never written without its flash. If most sampled blocks are blank, every cell is
    V(inconclusive).
options:
  device:
    description: The drive, by a path or by a name below C(/dev/disk/by-id). It may be any block device of at least 16 MiB.
    type: str
    required: true
  incumbent:
    description:
      - The drive to compare with, in the same host. Both are read in turns. A cell passes if the drive reads at least 0.9 times as fast.
      - It must lie on another drive than O(device).
    type: str
    default: ""
  record:
    description:
      - What this module returned for another drive, or for this one at another time. It takes the place of O(incumbent) if that drive is no longer
        there. This is less certain, because the two were not measured in turns.
    type: dict
    default: {}
  floors:
    description: The least rate of a cell, by the name of the cell, in the cell's unit. This is MiB/s for V(seq_read_1m_qd1), else IOPS.
    type: dict
    default: {}
  workload:
    description:
      - What a workload reads and writes at random. The reads are a floor of the cell of random reads at depth 64 that is nearest in size, the
        writes one of V(steady_rand_write_4k) with O(steady), else of V(rand_write_4k_qd64). These cells are then required.
      - A request that is larger than those of the cell counts as as many of them as hold its bytes.
    type: dict
    suboptions:
      read_iops:
        description: The number of random reads per second. Wanted is this, or O(workload.write_iops), or both.
        type: float
      write_iops:
        description: The number of random writes per second. It needs O(steady) or O(writes).
        type: float
      kib:
        description: The size of a request in KiB, from 0.5 to 64.
        type: float
        required: true
  required:
    description:
      - The cells that decide the verdict. The others are measured and shown. If empty, all that are compared with something are required.
      - A required cell with nothing to compare it with is V(inconclusive).
    type: list
    elements: str
    default: []
  cells:
    description: The cells to measure. An empty list means all.
    type: list
    elements: str
    default: []
  blocks:
    description: How often each cell is measured, from 3 to 1000. With O(incumbent), each time is two blocks of both drives.
    type: int
    default: 5
  block_seconds:
    description: The time of one block, in seconds, from 0.2 to 600. A ramp of a quarter of it, at most 2 s, comes first and is not counted.
    type: float
    default: 2
  max_cpu:
    description:
      - The largest share of all CPUs' time. If the CPUs are busier, they may be what was measured, and a cell can only pass against a floor.
    type: float
    default: 0.5
  writes:
    description:
      - Measure writes as well. The drive must be a whole, blank disk of at least 64 MiB, that nothing uses and that is no hard disk. There is no
        option to force it.
      - A block of writes ends early when it has written 5 % of the drive.
      - It excludes O(incumbent). Measure the other drive by itself, and give its result as O(record).
    type: bool
    default: false
  serial:
    description: The serial number of the drive, as M(plumbline.ssd.device_info) shows it. Required with O(writes).
    type: str
    default: ""
  terabytes_written:
    description:
      - The rated endurance of the drive, in terabytes (10^12 bytes), as data sheets have it (TBW). V(0) if it is not known. With O(writes), a
        measurement that may write more than 0.5 % of it is refused.
    type: int
    default: 0
  accept_wear:
    description: Measure also if the rated endurance is not known, or if it may cost more than 0.5 % of it.
    type: bool
    default: false
  steady:
    description:
      - What M(plumbline.ssd.steady_state) returned for this drive, with random writes of 4 KiB. It is judged as the cell V(steady_rand_write_4k).
    type: dict
    default: {}
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
requirements:
  - fio 3.0 or newer, with its libaio engine (a package of its own, C(fio-engine-libaio), on some distributions)
attributes:
  check_mode:
    support: full
    details: Nothing is measured. The report says what would be, for how long, and what it would write. The verdict is V(inconclusive).
  diff_mode:
    support: none
notes:
  - A bad verdict does not fail the module. The role P(plumbline.ssd.acceptance#role) does that.
  - With the defaults this takes about 100 s, about 400 s with O(incumbent), and about 180 s and the time of one fill with O(writes). The drives are
    fully loaded meanwhile.
  - A measurement that was cut off is taken up by the next call. The rounds of cells that are done are kept on the host, for root alone, in
    C(/var/lib/plumbline/acceptance), by the identity of the drive, until the result is returned. The call goes on with the first round that is
    missing. Another drive, other O(cells), O(blocks) or O(block_seconds), or more than a day in between, begin anew. Options that only judge the rates
    may change.
  - With O(writes) and a measurement that was cut off, the drive is not blank. The next one knows its own bytes. It goes on if the drive still holds all
    of them, and else discards it and begins anew. Whatever else is on the drive is refused.
  - The guide on acceptance describes how a verdict comes about.
seealso:
  - module: plumbline.ssd.report
  - module: plumbline.ssd.throughput
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Compare a new drive with the one that it is to replace
  plumbline.ssd.acceptance:
    device: nvme-NEW_SERIAL1
    incumbent: nvme-OLD_SERIAL2
    required: [rand_read_4k_qd64, rand_read_8k_qd64]
  become: true
  register: acceptance

- name: Measure whether a drive carries a workload, and how many times
  plumbline.ssd.acceptance:
    device: nvme-NEW_SERIAL1
    floors: {seq_read_1m_qd1: 800}
    workload: {read_iops: 1600, kib: 5}
  become: true

- name: Measure the writes of a new, blank drive as well
  plumbline.ssd.acceptance:
    device: nvme-MODEL_SERIAL1
    writes: true
    serial: SERIAL1
    terabytes_written: 7000
    workload: {write_iops: 1643, kib: 5}
  become: true
"""

RETURN = r"""
measure:
  description: The name of the measurement.
  returned: success
  type: str
  sample: acceptance
verdict:
  description: The worst verdict of all required cells, V(fail), V(inconclusive) or V(pass). V(inconclusive) if there is nothing to compare with.
  returned: success
  type: str
  sample: pass
reasons:
  description: Why the verdict is not V(pass), one line for each reason.
  returned: success
  type: list
  elements: str
cells:
  description: What was measured. M(plumbline.ssd.report) takes it, and so does O(record).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The cell.
      type: str
    verdict:
      description:
        - V(pass) if the whole interval is at or above RV(cells[].wanted), V(fail) if the whole interval is below, else V(inconclusive). Of several
          comparisons the worst.
      type: str
    why:
      description: The same in words.
      type: str
    required:
      description: Whether the cell decides the verdict.
      type: bool
    state:
      description:
        - What was on the drive. V(as_found) if it was only read, V(fresh) nothing, V(filled) data after one fill in sequence, V(steady) data after
          the load itself.
      type: str
    value:
      description: The rate, the geometric mean of all blocks.
      type: float
    unit:
      description: V(MiB/s) or V(IOPS).
      type: str
    low:
      description: The lower end of the 95 % interval. If the cell is compared with another drive, it is the interval of the ratio, in the cell's unit.
      type: float
    high:
      description: The upper end.
      type: float
    wanted:
      description: What the rate must be, which is a floor, or 0.9 times the rate of the other drive. Null if there is nothing to compare with.
      type: float
    against:
      description: What RV(cells[].wanted) comes from.
      type: str
      sample: incumbent sdb
    ratio:
      description: The rate divided by the floor, or by the rate of the other drive. RV(cells[].ratio_low) and RV(cells[].ratio_high) are its interval.
      type: float
    ratio_low:
      description: The lower end.
      type: float
    ratio_high:
      description: The upper end.
      type: float
    rates:
      description: The rate of each round, for O(record).
      type: list
      elements: float
    incumbent_rates:
      description: The same of the incumbent. Empty without one.
      type: list
      elements: float
    cpu_busy:
      description: The share of all CPUs' time that was busy.
      type: float
    p50_us:
      description: The median of the latencies of all requests, in microseconds.
      type: float
    p90_us:
      description: The latency that 90 % did not exceed. Here and below, null if there were too few requests to tell.
      type: float
    p99_us:
      description: The latency that 99 % did not exceed.
      type: float
    p999_us:
      description: The latency that 99.9 % did not exceed.
      type: float
    p9999_us:
      description: The latency that 99.99 % did not exceed.
      type: float
drive:
  description:
    - The drive, with C(device), C(model), C(serial), C(firmware), C(size_bytes), C(link), and C(blank), the share of sampled blocks that read as all
      zeros or all ones.
  returned: success
  type: dict
incumbent:
  description: The same of O(incumbent). Empty without one.
  returned: success
  type: dict
workload:
  description:
    - C(cell) that stands for the workload, C(floor), the requests per second that it must reach, and C(headroom), how many times it reaches that, with
      its interval C(low) to C(high). Of reads and writes the one with less headroom. Empty without O(workload).
  returned: success
  type: dict
  sample: {cell: rand_read_4k_qd64, floor: 2000, headroom: 41.2, low: 40.3, high: 42.1}
read_bytes:
  description: About how many bytes were read, with those of RV(resumed) rounds. So are RV(written_bytes) and RV(seconds).
  returned: success
  type: int
written_bytes:
  description: About how many bytes were written.
  returned: success
  type: int
resumed:
  description: How many rounds of cells were done by a call that was cut off, and are part of this result. V(0) if all were measured by this call.
  returned: success
  type: int
wear:
  description: What the measurement may cost the drive. Empty without O(writes).
  returned: success
  type: str
seconds:
  description: The time that the measurement took, in seconds.
  returned: success
  type: float
report:
  description: The same for people, one line for each item. The task prints it.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import ARGUMENTS, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.run import accept_drive


def main():
    module = AnsibleModule(
        argument_spec={"device": {"type": "str", "required": True}, "incumbent": {"type": "str", "default": ""}, **ARGUMENTS},
        supports_check_mode=True,
    )
    params = module.params
    try:
        options = read_options(params)
        need_root()
        result = accept_drive(runner(module), params, options, module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=result.written_bytes > 0, measure="acceptance", **{**result._asdict(), "seconds": round(result.seconds, 2)})


if __name__ == "__main__":
    main()
