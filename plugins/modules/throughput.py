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
  - Loads the volumes of a stack and the raw devices below them in turns, and returns the share of the raw throughput that reaches the
    volumes, with an interval. The volumes are loaded all at once, and so are the raw devices. A stripe on a wrong boundary gives about half.
  - Finds the legs itself, which are the partitions or disks on which the volumes lie. It loads the same bytes of the legs as of the
    volumes, on whole MiB behind the device's own alignment.
  - Only reads by default. fio makes all load.
options:
  volumes:
    description:
      - The volumes that share the legs. They are logical volumes, partitions or disks, by a path or by a name below C(/dev/disk/by-id).
        They are loaded together.
      - Without O(write), the bytes that are read must have been written before. If a block was never written, or was discarded, the
        drive answers without its flash.
      - Either this option or O(paths) is required.
    type: list
    elements: str
    default: []
  paths:
    description:
      - The mount points of filesystems in use. They are loaded together. The module writes a file without a name on each, and then reads
        the volume and the legs at the places of that file. The file disappears when the module ends, however it ends.
    type: list
    elements: path
    default: []
  write:
    description:
      - Measure writes too, B(and destroy the contents of) O(volumes). Every volume must be a partition that this collection made, or a
        logical volume that lies only on such partitions, without a signature, a mount or a holder. Anything else is refused, and nothing
        is written.
      - The range is filled first, and discarded at the end.
    type: bool
    default: false
  jobs:
    description:
      - The jobs to measure. V(seq_read) makes 1 MiB requests at depth. V(rand_read) makes 8 KiB requests at depth. V(seq_write) makes 1 MiB
        requests of parallel writers, each of which waits for its request. V(rand_write) makes 8 KiB requests at depth.
      - The writes need O(write). An empty list means all jobs that are allowed.
    type: list
    elements: str
    default: []
  min_share:
    description: The required share of the raw throughput.
    type: float
    default: 0.9
  precision:
    description: The measurement goes on until half the width of the interval is at most this and the verdict is certain.
    type: float
    default: 0.05
  confidence:
    description: The probability that the interval contains the share, however often the module looked at it.
    type: float
    default: 0.95
  max_cpu:
    description:
      - The maximum share of all CPUs' time. Above it the verdict is V(inconclusive), because the CPUs may be what was measured.
    type: float
    default: 0.5
  depth:
    description: The number of outstanding random requests for each leg. Sequential reads have a quarter of it.
    type: int
    default: 32
  writers:
    description: The least number of parallel sequential writers. There are more if an equal number for every leg and volume needs more.
    type: int
    default: 6
  block_seconds:
    description: The time of one block of a measurement, in seconds. A ramp of a quarter of it, at most 2 s, comes first and is not counted.
    type: float
    default: 1
  max_seconds:
    description: The maximum time of all blocks, in seconds. The filling is not counted.
    type: float
    default: 120
  max_bytes:
    description: The maximum number of bytes to read and write. V(0) for no limit. It does not stop the filling.
    type: str
    default: "0"
  span:
    description: How much of each of O(volumes) is loaded, from its start.
    type: str
    default: 8GiB
  scratch_size:
    description: The size of the file on each of O(paths). Twice as much must be free.
    type: str
    default: 256MiB
  nomerges:
    description:
      - Set C(queue/nomerges) of the legs and volumes to 2 while sequential jobs are measured. The requests then reach the drives in the
        size of the stripe. The requests of all other users of these queues are not merged either meanwhile.
      - The setting is restored afterwards, even if the module is killed.
    type: bool
    default: false
  baseline:
    description:
      - The path of a file on the host for the raw rates, with the identities of the devices. The module returns its contents beside the
        fresh rates.
      - The module adds the jobs that the file lacks, and never overwrites rates that the file has. In check mode it does not write the file.
      - A file about other devices is an error.
    type: path
  reuse_baseline:
    description:
      - Take the raw rates of a job from O(baseline), if it has them, and load only the volumes. This is quicker and less certain, because
        the two sides were not measured in turns.
    type: bool
    default: false
extends_documentation_fragment:
  - plumbline.ssd.lease
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
requirements:
  - fio 3.0 or newer, with its libaio engine (a package of its own, C(fio-engine-libaio), on some distributions)
  - dmsetup, if a volume is a mapped device; util-linux, for O(write)
attributes:
  check_mode:
    support: full
    details:
      - Reads of O(volumes) are measured in check mode as well. With O(write) or O(paths) only the checks are made, and the verdict is
        V(inconclusive).
  diff_mode:
    support: none
notes:
  - The rates are those of a burst. They are not those of the steady state that a drive reaches after hours of writing.
  - A bad verdict does not fail the module.
  - If a sequential read fills a link to a leg, the report says that the leg is link-bound. The verdict is the same with and without that.
  - The guide on throughput describes where the interval comes from, and what it assumes.
seealso:
  - module: plumbline.ssd.offset_sweep
  - module: plumbline.ssd.stack_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Measure which share of the raw devices' throughput reaches the mounted volumes
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

- name: Fail if the share is too small
  ansible.builtin.assert:
    that: throughput.verdict == 'pass'
    fail_msg: "{{ throughput.report | join(' ') }}"
"""

RETURN = r"""
measure:
  description: The name of the measurement. M(plumbline.ssd.stack_proof) judges the result by it.
  returned: success
  type: str
  sample: throughput
verdict:
  description: V(pass), V(fail) or V(inconclusive), the worst of all jobs.
  returned: success
  type: str
  sample: pass
reasons:
  description: One line for each job that did not pass. After a refusal, one line for each thing that was found.
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
      description:
        - V(pass) if the whole interval is at or above O(min_share). V(fail) if the whole interval is below it. V(inconclusive) otherwise,
          and whenever the CPUs were busier than O(max_cpu) or a job of fio used more than 0.9 of a CPU.
      type: str
    why:
      description: The same in words.
      type: str
    share:
      description: The rate of the volumes divided by the rate of the legs. Null if too few blocks were measured.
      type: float
    low:
      description: The lower end of the interval.
      type: float
    high:
      description: The upper end of the interval.
      type: float
    stack_mib_s:
      description: The mean rate of all volumes together, in MiB per second.
      type: float
    raw_mib_s:
      description: The mean rate of all legs together, in MiB per second.
      type: float
    stack_iops:
      description: The mean number of requests per second of the volumes.
      type: float
    raw_iops:
      description: The mean number of requests per second of the legs. V(0) with a reused baseline.
      type: float
    blocks:
      description: The number of blocks that were measured.
      type: int
    cpu_busy:
      description: The share of all CPUs' time that was busy during the job.
      type: float
    legs:
      description: The part of each leg in the raw rate.
      type: list
      elements: dict
    links:
      description:
        - Of the job V(seq_read), the links on the way to the legs, each with what the legs behind it read together. Other jobs have none, and
          neither has a reused baseline. A link whose speed is not known is left out.
      type: list
      elements: dict
      contains:
        kind:
          description: V(PCIe), V(SAS) or V(SATA).
          type: str
        host:
          description: The end of the link that is nearer to the host.
          type: str
        drive:
          description: The other end. Empty for a SATA drive.
          type: str
        negotiated:
          description: The kind, speed and width of the link.
          type: str
          sample: SATA 3.0 Gb/s
        legs:
          description: The legs behind the link.
          type: list
          elements: str
        read_mib_s:
          description: What these legs read together, in MiB per second.
          type: float
        payload_mib_s:
          description: How much data the link carries, in MiB per second, without its line code and its protocol.
          type: float
        share:
          description: The first divided by the second.
          type: float
        link_bound:
          description: Whether that share is at least 0.85. The link then limits these legs, whatever their alignment is.
          type: bool
    link_bound:
      description: Whether any of RV(jobs[].links) is link-bound. Null if there is none.
      type: bool
legs:
  description: The raw devices, and which of their bytes were loaded.
  returned: success
  type: list
  elements: dict
  contains:
    device:
      description: The disk, by the kernel's name.
      type: str
    model:
      description: The model of the disk.
      type: str
    serial:
      description: The serial number of the disk.
      type: str
    size_bytes:
      description: The size of the disk, in bytes.
      type: int
    loaded_bytes:
      description: How many bytes of the disk were loaded.
      type: int
    ranges:
      description: The first eight ranges of these bytes, on the partition or the disk that was loaded.
      type: list
      elements: dict
volumes:
  description: The volumes that were loaded.
  returned: success
  type: list
  elements: str
cpu_busy:
  description: The largest RV(jobs[].cpu_busy) of all jobs.
  returned: success
  type: float
read_bytes:
  description: About how many bytes were read.
  returned: success
  type: int
written_bytes:
  description: About how many bytes were written, including the filling and the scratch files.
  returned: success
  type: int
seconds:
  description: The time that the measurement took, in seconds.
  returned: success
  type: float
nomerges:
  description: The settings that were changed during the measurement, each with the value that it was set to.
  returned: success
  type: dict
baseline:
  description: What O(baseline) holds now, which is its devices and the raw rates of its jobs. Empty without that option.
  returned: success
  type: dict
report:
  description: The same for people, one line for each item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import LEASE, writing
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import PASS, worst
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.keep_baseline import check_path
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.share import report_throughput, throughput_as_dict
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.options import ARGUMENTS, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.throughput.session import measure_paths, measure_volumes


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
        options = read_options(params)
        if options.baseline:
            check_path(options.baseline)
        need_root()
        measure, names = (measure_volumes, params["volumes"]) if params["volumes"] else (measure_paths, params["paths"])
        with writing(params["lease"], module.check_mode or not options.write) as warnings:
            result = measure(runner(module), options, names, module.check_mode)
    except PlumblineError as fault:
        exit_refused(module, fault)
    jobs = [throughput_as_dict(name, share, result.links) for name, share in result.jobs]
    exit_success(
        module,
        warnings,
        changed=False,
        measure="throughput",
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
        report=report_throughput(", ".join(result.volumes), result.jobs, result.notes, result.links),
    )


if __name__ == "__main__":
    main()
