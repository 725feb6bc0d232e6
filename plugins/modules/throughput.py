#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: throughput
short_description: Measure the throughput of volumes against the sum of their raw devices
version_added: 0.1.0
description:
  - Loads the volumes of a stack, all at once, and the bytes of the raw devices that they lie on, all at once, in turns, and says which share of the
    raw throughput reaches the volumes, with an interval. A stripe on a wrong boundary shows about half.
  - The legs are found by the module itself. They are loaded over the same bytes as the volumes, on whole MiB behind the device's own alignment.
  - By default it only reads. All load is made by fio.
options:
  volumes:
    description:
      - The volumes that share the legs, logical volumes, partitions or disks, by a path or a name below C(/dev/disk/by-id). They are loaded together.
      - Without O(write) what is read has to have been written before. A drive answers blocks that were never written, or were
        discarded, without its flash.
      - Either this or O(paths) is required.
    type: list
    elements: str
    default: []
  paths:
    description:
      - Mount points of filesystems in use, loaded together. On each a file without a name is written, and then the volume and the legs
        are read where that file lies. The file is gone when the module ends, however it ends.
    type: list
    elements: path
    default: []
  write:
    description:
      - Measures writes too, B(and destroys the contents of) O(volumes). Every volume has to be a partition that this collection made, or a logical
        volume on nothing else, without a signature, a mount or a holder; anything else is refused and nothing is written.
      - The range is filled first, and discarded in the end.
    type: bool
    default: false
  jobs:
    description:
      - What is measured, out of V(seq_read) (1 MiB requests at depth), V(rand_read) (8 KiB at depth), V(seq_write) (1 MiB, parallel writers that
        each wait for their request) and V(rand_write) (8 KiB at depth). The writes need O(write). Empty for all that is allowed.
    type: list
    elements: str
    default: []
  min_share:
    description: The share of the raw throughput that is enough.
    type: float
    default: 0.9
  precision:
    description: Measuring goes on until half the width of the interval is at most this and the verdict is certain.
    type: float
    default: 0.05
  confidence:
    description: The probability with which the interval holds the share, however often it was looked at.
    type: float
    default: 0.95
  max_cpu:
    description: The share of all CPUs' time above which the verdict is V(inconclusive), because they may be what is measured.
    type: float
    default: 0.5
  depth:
    description: Random requests outstanding for each leg; of sequential reads a quarter.
    type: int
    default: 32
  writers:
    description: The fewest parallel sequential writers. There are more where an equal number for every leg and volume takes more.
    type: int
    default: 6
  block_seconds:
    description: How long one block is measured, in seconds. A quarter of it, at most 2 s, goes before and is not counted.
    type: float
    default: 1
  max_seconds:
    description: How long all blocks take at most, in seconds. Filling is not counted.
    type: float
    default: 120
  max_bytes:
    description: How much is read and written at most. V(0) for no limit. Filling is not stopped by it.
    type: str
    default: "0"
  span:
    description: How much of each of O(volumes) is loaded, from its start.
    type: str
    default: 8GiB
  scratch_size:
    description: The size of the file on each of O(paths). Twice as much has to be free.
    type: str
    default: 256MiB
  nomerges:
    description:
      - Sets C(queue/nomerges) of the legs and volumes to 2 while sequential jobs are measured, and puts it back afterwards, even when the module is
        killed. The requests then reach the drives in the size of the stripe. Those of everybody else on these queues are not merged either meanwhile.
    type: bool
    default: false
  baseline:
    description:
      - A file on the host for the raw rates, with the identities of the devices. It is written where it is missing, and returned
        beside the fresh rates where it is there. One of other devices is an error.
    type: path
  reuse_baseline:
    description:
      - Takes the raw rates from O(baseline), where it holds the job, and loads only the volumes. That is quicker, and less sure, because
        the two were not measured in turns.
    type: bool
    default: false
extends_documentation_fragment:
  - plumbline.ssd.lease
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
requirements:
  - fio 3.0 or newer, with its libaio engine (a package of its own, C(fio-engine-libaio), on some distributions)
  - dmsetup, where a volume is a mapped device; util-linux, for O(write)
attributes:
  check_mode:
    support: full
    details: Reads of O(volumes) are measured in check mode as well. With O(write) or O(paths) only the checks are made, and the verdict is V(inconclusive).
  diff_mode:
    support: none
notes:
  - Rates are those of a burst, not of the steady state that a drive reaches after hours of writing.
  - A bad verdict does not fail the module.
  - Where the interval comes from, and what it assumes, is in the guide on throughput.
seealso:
  - module: plumbline.ssd.offset_sweep
  - module: plumbline.ssd.stack_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: What share of the raw devices' throughput reaches the mounted volumes
  plumbline.ssd.throughput:
    paths: [/data01, /data02]
    baseline: /var/lib/plumbline/raw.json
  become: true
  register: throughput

- name: Measure writes too, between lvcreate and mkfs
  plumbline.ssd.throughput:
    volumes: [/dev/pgdata/data]
    write: true
    nomerges: true
  become: true
  register: throughput

- name: Fail where too little of it arrives
  ansible.builtin.assert:
    that: throughput.verdict == 'pass'
    fail_msg: "{{ throughput.report | join(' ') }}"
"""

RETURN = r"""
verdict:
  description: V(pass), V(fail) or V(inconclusive); the worst of all jobs.
  returned: success
  type: str
  sample: pass
reasons:
  description: Why, one line for each job that did not pass; on a refusal, each thing that was found.
  returned: success, and failure with several causes
  type: list
  elements: str
jobs:
  description: What was measured, in the order of O(jobs).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: The job.
      type: str
    verdict:
      description: V(pass) where the whole interval is at least O(min_share), V(fail) where all of it is below, else V(inconclusive).
      type: str
    why:
      description: The same in words.
      type: str
    share:
      description: Rate of the volumes divided by rate of the legs. Null where too few blocks were measured.
      type: float
    low:
      description: The lower end of the interval.
      type: float
    high:
      description: The upper end of the interval.
      type: float
    stack_mib_s:
      description: Mean rate of all volumes together, in MiB per second.
      type: float
    raw_mib_s:
      description: Mean rate of all legs together, in MiB per second.
      type: float
    stack_iops:
      description: Mean requests per second of the volumes.
      type: float
    raw_iops:
      description: Mean requests per second of the legs. V(0) with a reused baseline.
      type: float
    blocks:
      description: How many blocks were measured.
      type: int
    cpu_busy:
      description: The share of all CPUs' time that was busy meanwhile.
      type: float
    legs:
      description: Each leg's own part of the raw rate.
      type: list
      elements: dict
legs:
  description: The raw devices, and which bytes of them were loaded.
  returned: success
  type: list
  elements: dict
  contains:
    device:
      description: The disk, by the kernel's name.
      type: str
    model:
      description: Its model.
      type: str
    serial:
      description: Its serial number.
      type: str
    size_bytes:
      description: Its size.
      type: int
    loaded_bytes:
      description: How many bytes of it were loaded.
      type: int
    ranges:
      description: Which, on the partition or the disk that was loaded; the first eight ranges.
      type: list
      elements: dict
volumes:
  description: The volumes that were loaded.
  returned: success
  type: list
  elements: str
cpu_busy:
  description: The largest of the jobs' figures.
  returned: success
  type: float
read_bytes:
  description: About how many bytes were read.
  returned: success
  type: int
written_bytes:
  description: About how many bytes were written, with filling and scratch files.
  returned: success
  type: int
seconds:
  description: How long it took.
  returned: success
  type: float
nomerges:
  description: The settings that were changed for the time of the measurement, and to what.
  returned: success
  type: dict
baseline:
  description: What O(baseline) holds now, its devices and the raw rates of its jobs. Empty without one.
  returned: success
  type: dict
report:
  description: The same for people, one line an item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._leaseio import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._load import ARGUMENTS, measure_paths, measure_volumes, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import exit_refused, leave, need_root, runner
from ansible_collections.plumbline.ssd.plugins.module_utils._throughput import as_dict, report
from ansible_collections.plumbline.ssd.plugins.module_utils._verdict import PASS, worst


def main():
    module = AnsibleModule(
        argument_spec={
            "volumes": {"type": "list", "elements": "str", "default": []},
            "paths": {"type": "list", "elements": "path", "default": []},
            "write": {"type": "bool", "default": False},
            "jobs": {"type": "list", "elements": "str", "default": []},
            "baseline": {"type": "path"},
            "reuse_baseline": {"type": "bool", "default": False},
            "lease": LEASE,
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        wanted = read_options(params)
        need_root()
        measure, names = (measure_volumes, params["volumes"]) if params["volumes"] else (measure_paths, params["paths"])
        with writing(params["lease"], module.check_mode or not wanted.write) as warnings:
            result = measure(runner(module), wanted, names, module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    jobs = [as_dict(name, found) for name, found in result.jobs]
    leave(
        module,
        warnings,
        changed=False,
        verdict=worst([job["verdict"] for job in jobs]),
        reasons=["%s: %s" % (job["name"], job["why"]) for job in jobs if job["verdict"] != PASS] or ([] if jobs else result.notes),
        jobs=jobs,
        legs=result.legs,
        volumes=result.volumes,
        cpu_busy=max([job["cpu_busy"] for job in jobs] or [0.0]),
        read_bytes=result.read_bytes,
        written_bytes=result.written_bytes,
        seconds=round(result.seconds, 2),
        nomerges=result.nomerges,
        baseline=result.baseline,
        report=report(", ".join(result.volumes), result.jobs, result.notes),
    )


if __name__ == "__main__":
    main()
