#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: sync_latency
short_description: Measure synchronous writes on a volume as a database makes them
version_added: 0.1.0
description:
  - Measures what PostgreSQL's C(pg_test_fsync) measures, with the same sizes, offsets and open flags, and prints the same table. It adds
    percentiles of the latency and a histogram. PostgreSQL need not be installed.
  - Gives a verdict if thresholds are set. The module does not fail on a bad verdict. To fail on it, assert on RV(verdict).
  - Writes to a file of 16 MiB that never has a name (C(O_TMPFILE)). The kernel removes the file when the module ends, however it ends.
options:
  path:
    description:
      - A directory on the volume, usually its mount point. The filesystem must be ext4 or XFS, with 64 MiB free.
    type: path
    required: true
  rows:
    description:
      - The rows to measure, by default all. The table keeps its own order.
      - V(open_datasync), V(fdatasync), V(fsync) and V(open_sync) make one write of 8 KiB each. The same names with V(_2) appended, such as
        V(fdatasync_2), make two.
      - V(open_sync_1x16k), V(open_sync_2x8k), V(open_sync_4x4k), V(open_sync_8x2k) and V(open_sync_16x1k) write 16 KiB in so many pieces.
      - V(write_fsync_close) calls fsync on the descriptor that wrote. V(write_close_fsync) calls it on another descriptor.
      - V(write) is a write of 8 KiB without any sync, which measures the page cache.
    type: list
    elements: str
  seconds:
    description:
      - The time for which each row is measured, in seconds, from 0.1 to 60.
    type: float
    default: 1
  max_seconds:
    description:
      - The maximum time of the whole measurement, in seconds, from 1 to 3600. The module waits for an operation that has begun.
    type: float
    default: 120
  min_ops:
    description:
      - 'The required sustained operations per second, by row, for example V({fdatasync: 500}).'
      - The verdict allows for stalls that are too rare to be seen in a short time. To pass, the rate must therefore be well above the
        threshold, or the measurement must be long.
      - A row with this threshold is measured for longer than O(seconds) while its verdict is inconclusive, within O(max_seconds).
    type: dict
    default: {}
  max_p99_ms:
    description:
      - 'The maximum 99th percentile of the latency in milliseconds, by row, for example V({fdatasync: 5}).'
      - A p99 needs 299 operations. If they take longer than O(seconds), a row with this threshold is measured for longer, within O(max_seconds).
    type: dict
    default: {}
  cache_states:
    description:
      - Measure a second time with the drives' write cache in the other state, and put the cache back.
      - RV(cache_states) then has the factor by which every row is slower without the cache, and what the two states suggest about the
        drives' flushes.
      - All drives below the volume are switched with C(hdparm), C(sdparm) or C(nvme). The change is temporary. The caches are also put back
        if the module is killed or the connection ends. While the cache is off, everything on these drives is slower.
      - The measurement is refused if a drive has no volatile cache, does not report its state or cannot be switched, if the states of the
        drives differ, and if an NVMe controller has a namespace that is not the volume's.
      - It is also refused if a cache that is off would be switched on below a filesystem without barriers, and if the kernel believes
        C(write through) of a cache that is on or of a logical volume above it.
      - The measurement takes at most O(max_seconds) for each of the two states.
      - Drives that seem to ignore flushes make RV(verdict) V(fail), however fast they are. They are only a warning if nothing relies on the
        flushes (the cache is off, or the filesystem has no barriers), if O(power_loss_protection) is set, or if the drives themselves
        report power-loss protection.
    type: bool
    default: false
  power_loss_protection:
    description:
      - All drives below the volume have power-loss protection by their data sheets. Their flushes then need not wait for the flash.
      - This option has an effect with O(cache_states) only.
    type: bool
    default: false
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module writes nothing in check mode, so it measures nothing. It checks the options and the directory. The verdict is V(inconclusive).
  diff_mode:
    support: none
notes:
  - The task never reports a change, even with O(cache_states), because at the end everything is as before.
  - The measurement is a load. While it runs, other syncs to the same drives are slower. Measure before a database is in use, or when it may wait.
  - Fast figures do not prove durability. A drive that acknowledges a flush and keeps the data in a volatile cache is fast as well.
  - The guide on sync latency describes exactly what each row does, and how the figures and the verdict are computed.
seealso:
  - module: plumbline.ssd.offset_sweep
  - module: plumbline.ssd.device_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Measure all rows on a volume
  plumbline.ssd.sync_latency:
    path: /data01
  become: true
  register: sync

- name: Show the table
  ansible.builtin.debug:
    msg: "{{ sync.report }}"

- name: Measure only the sync that a commit waits for
  plumbline.ssd.sync_latency:
    path: /data01
    rows: [fdatasync]
    min_ops:
      fdatasync: 500
    max_p99_ms:
      fdatasync: 5
  become: true
  register: sync

- name: Measure with the drives' write cache on and off, and judge their flushes
  plumbline.ssd.sync_latency:
    path: /data01
    rows: [open_datasync, fdatasync, fsync, open_sync]
    cache_states: true
  become: true
  register: states

- name: Show both states and what they suggest
  ansible.builtin.debug:
    msg: "{{ states.report }}"

- name: Fail if commits would be slow
  ansible.builtin.assert:
    that: sync.verdict == 'pass'
    fail_msg: "{{ sync.reasons | join('; ') }}"
"""

RETURN = r"""
measure:
  description: The name of the measurement. M(plumbline.ssd.stack_proof) judges the result by it.
  returned: success
  type: str
  sample: sync_latency
verdict:
  description:
    - V(pass), V(fail) or V(inconclusive). Without thresholds it is V(pass), unless O(cache_states) finds drives that seem to ignore flushes.
    - In check mode it is V(inconclusive).
  returned: success
  type: str
  sample: pass
reasons:
  description:
    - The reasons of the verdict, one line each. If the verdict is not V(pass), these are the thresholds that were not met, and the flushes
      that seem to be ignored.
  returned: success
  type: list
  elements: str
  sample: ["fdatasync: 478 ops/sec (466 to 490); wanted at least 400"]
path:
  description: The directory, with symbolic links resolved.
  returned: success
  type: str
  sample: /data01
mount:
  description:
    - The mount point of the filesystem that was measured. If it differs from RV(path), the volume may not be mounted.
  returned: success
  type: str
  sample: /data01
device:
  description: The device of that filesystem, by the kernel's name or device-mapper's.
  returned: success
  type: str
  sample: pgdata-data
fstype:
  description: The type of that filesystem.
  returned: success
  type: str
  sample: ext4
rows:
  description: What was measured, in the order of the table.
  returned: success
  type: list
  elements: dict
  contains:
    row:
      description: The row, as in O(rows).
      type: str
      sample: fdatasync
    title:
      description: The title of the row in C(pg_test_fsync).
      type: str
      sample: fdatasync
    unable:
      description: Why the row cannot run here, for example direct writes of 1 KiB on blocks of 4 KiB. Empty if it can run.
      type: str
    ops:
      description: The number of operations that were measured.
      type: int
      sample: 478
    seconds:
      description: The time that these operations took together, in seconds.
      type: float
      sample: 1.002
    ops_per_sec:
      description: Operations per second.
      type: float
      sample: 477.046
    usecs_per_op:
      description: The mean latency, in microseconds.
      type: float
      sample: 2096.2
    p50_us:
      description: The median latency, in microseconds. Null if there are too few operations to tell. The same holds for the other percentiles.
      type: float
      sample: 2071.4
    p99_us:
      description: The 99th percentile of the latency, in microseconds. It needs 299 operations.
      type: float
      sample: 2630.9
    p999_us:
      description: The 99.9th percentile of the latency, in microseconds. It needs 2,995 operations.
      type: float
    max_us:
      description: The longest latency that was seen, in microseconds.
      type: float
      sample: 3011.2
    method_us:
      description:
        - The part of each operation that is the measuring program's own, in microseconds. It is measured with the same calls on
          C(/dev/null), each behind an operation of the row, and is subtracted from all figures.
      type: float
    open_p99_us:
      description: The longest time that 99 % of requests at random times would wait for the operation under way, in microseconds.
      type: float
      sample: 2604.6
    stalls:
      description: The number of operations that took 50 ms or more, and ten times as long as the median beside them.
      type: int
      sample: 0
    stalled_share:
      description: The share of the time that went into stalls.
      type: float
      sample: 0.0
    histogram:
      description: How many operations took less than so many microseconds, and not less than half as many.
      type: dict
      sample: {"2048": 120, "4096": 358}
checks:
  description: The thresholds, each compared with what was measured.
  returned: success
  type: list
  elements: dict
  contains:
    row:
      description: The row.
      type: str
      sample: fdatasync
    threshold:
      description: V(min_ops) or V(max_p99_ms).
      type: str
      sample: min_ops
    wanted:
      description: The threshold, in operations per second or milliseconds.
      type: float
      sample: 400
    found:
      description: The measured figure, in the same unit. Null if it could not be told. The same holds for both ends of its interval.
      type: float
      sample: 477.046
    low:
      description: The true figure is above this with a confidence of 95 %, or 99 % for V(min_ops).
      type: float
      sample: 465.9
    high:
      description: The true figure is below this with a confidence of 95 %, or 99 % for V(min_ops).
      type: float
      sample: 488.2
    verdict:
      description: V(pass), V(fail) or V(inconclusive).
      type: str
      sample: pass
cache_states:
  description: Both states of the write cache. RV(rows) and RV(checks) are those of the state that the drives were in.
  returned: success, with O(cache_states) and not in check mode
  type: dict
  contains:
    "on":
      description:
        - The rows with the cache on, as in RV(rows). Besides the rows of O(rows) there are V(fdatasync), V(direct_write) and
          V(write_sync_file_range). V(direct_write) is a direct write of 8 KiB without any sync. V(write_sync_file_range) does everything
          that V(fdatasync) does, except the flush.
      type: list
      elements: dict
    "off":
      description: The same with the cache off.
      type: list
      elements: dict
    collapse:
      description: The factor by which each row is slower without the cache. Null if it could not be measured.
      type: dict
      sample: {"fdatasync": 26.56, "direct_write": 28.1, "write_sync_file_range": 1.1}
    honesty:
      description: What the figures suggest about the drives' flushes. None of it is a proof.
      type: dict
      contains:
        ratio:
          description:
            - RV(cache_states.honesty.program_us) divided by RV(cache_states.honesty.flush_us). Null if a flush cannot be told from none.
          type: float
          sample: 0.98
        flush_us:
          description:
            - The time that a flush adds to a write (V(fdatasync) minus V(write_sync_file_range)), and the lower and upper limit of that time,
              all in microseconds.
          type: list
          elements: float
          sample: [1860.0, 1650.2, 2069.8]
        program_us:
          description:
            - The time that the missing cache adds to a write (V(direct_write) with the cache off minus V(direct_write) with it on), and the
              lower and upper limit of that time, all in microseconds.
          type: list
          elements: float
          sample: [1829.0, 1641.0, 2017.0]
        class:
          description: V(honest), V(ignores_flushes_perhaps), V(protected_perhaps) or V(unclear).
          type: str
          sample: ignores_flushes_perhaps
        text:
          description: The figures, what they suggest, and what else could look the same.
          type: str
seconds:
  description: The time that the measurement took, in seconds.
  returned: success
  type: float
written_bytes:
  description: The number of bytes that were written to the file.
  returned: success
  type: int
report:
  description: The table of C(pg_test_fsync), the histogram and the verdict, for people, one line for each item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import barriers_on
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.options import ARGUMENTS, for_states, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.report import compare_states, result, unmeasured, with_flushes
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.verdict import asked
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.writer import look_at_volume, measure_rows

# After which the caches are put back even if the module still runs: an operation that has begun is waited for.
SPARE_SECONDS = 300


def measure_states(module, volume, options):
    """The result with the write cache as it is, and with it the other way round beside it."""
    from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.command import find_tools
    from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.temporary_state import drives_of, inverted_caches

    mine, other = for_states(options, True), for_states(options, False)
    drives = drives_of(volume.devno, runner(module), find_tools(module.get_bin_path))
    if module.check_mode:
        return unmeasured(volume.title)
    before = measure_rows(volume, mine)
    with inverted_caches(drives.means, drives.legs, drives.was, options.max_seconds + SPARE_SECONDS):
        turned_round = measure_rows(volume, other)
    on, off = (before.rows, turned_round.rows) if drives.was else (turned_round.rows, before.rows)
    states, lines = compare_states(on, off, drives.protected)
    seconds, written = before.seconds + turned_round.seconds, before.written + turned_round.written
    measured = result(volume.title, options, asked(before.rows, options), seconds, written)
    relies = drives.was and barriers_on(volume.options)
    protected = module.params["power_loss_protection"] or bool(drives.protected)
    measured, warnings = with_flushes(dict(measured, report=measured["report"] + lines), states["honesty"], relies, protected)
    return dict(measured, cache_states=states, warnings=warnings)


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            **ARGUMENTS,
            "power_loss_protection": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        options = read_options(params)
        need_root()
        volume = look_at_volume(params["path"])
        where = {"path": volume.path, "mount": volume.mount, "device": volume.device, "fstype": volume.fstype}
        if params["cache_states"]:
            measured = measure_states(module, volume, options)
        elif module.check_mode:
            measured = unmeasured(volume.title)
        else:
            run = measure_rows(volume, options)
            measured = result(volume.title, options, run.rows, run.seconds, run.written)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=False, measure="sync_latency", **where, **measured)


if __name__ == "__main__":
    main()
