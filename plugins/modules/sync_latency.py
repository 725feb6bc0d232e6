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
  - Measures what PostgreSQL's C(pg_test_fsync) measures, with the same sizes, offsets and open flags, and prints its table again, with
    percentiles of the latency and a histogram behind. PostgreSQL need not be there.
  - Thresholds make a verdict of it. The module does not fail on a bad one; assert on RV(verdict).
  - Writes to a file of 16 MiB that never has a name (C(O_TMPFILE)). The kernel removes it when the module ends, however it ends.
options:
  path:
    description:
      - A directory on the volume, usually the one that it is mounted on. The filesystem has to be ext4 or XFS, with 64 MiB free.
    type: path
    required: true
  rows:
    description:
      - What to measure; all rows unless set. The table keeps its own order.
      - V(open_datasync), V(fdatasync), V(fsync) and V(open_sync) make one write of 8 KiB each; the same with V(_2) behind (V(fdatasync_2)) two.
      - V(open_sync_1x16k), V(open_sync_2x8k), V(open_sync_4x4k), V(open_sync_8x2k) and V(open_sync_16x1k) write 16 KiB in so many pieces.
      - V(write_fsync_close) and V(write_close_fsync) call fsync on the descriptor that wrote, and on another one.
      - V(write) is 8 KiB without any sync, which measures the page cache.
    type: list
    elements: str
  seconds:
    description:
      - How long each row is measured, in seconds, from 0.1 to 60.
    type: float
    default: 1
  max_seconds:
    description:
      - How long all of it takes at most, in seconds, from 1 to 3600. An operation that has begun is waited for.
    type: float
    default: 120
  min_ops:
    description:
      - 'The least operations per second that are sustained, by row, for example V({fdatasync: 500}).'
      - Stalls that are too rare to be seen in a short time are allowed for, so that the rate has to be well above the threshold, or measured for long.
        Such a row is measured for longer than O(seconds) while its verdict is inconclusive, within O(max_seconds).
    type: dict
    default: {}
  max_p99_ms:
    description:
      - 'The longest 99th percentile of the latency in milliseconds, by row, for example V({fdatasync: 5}).'
      - Such a row is measured for longer than O(seconds) where 299 operations, which a p99 needs, take longer; within O(max_seconds).
    type: dict
    default: {}
  cache_states:
    description:
      - Measure a second time with the drives' write cache the other way round, and put it back.
      - RV(cache_states) then tells how many times slower every row is without the cache, and what flushes and programming suggest about each other.
      - All drives below the volume are switched, with C(hdparm), C(sdparm) or C(nvme), and not for good. They are put back as well when the module
        is killed or the connection ends. While the cache is off, everything on these drives is slower.
      - It is refused where a drive cannot be switched, where the drives' states differ, where an NVMe controller has namespaces beside
        the volume's, and where a cache that is off would have to be switched on below a filesystem without barriers.
      - Takes O(max_seconds) for each of the two states at most.
      - Drives that seem to ignore flushes make RV(verdict) V(fail), however fast they are, unless nothing relies on the flushes (the cache is off,
        or the filesystem has no barriers), or O(power_loss_protection) is set, or the drives say themselves that they have it. They are a warning then.
    type: bool
    default: false
  power_loss_protection:
    description:
      - All drives below the volume have power-loss protection by their data sheets, so that their flushes need not wait for the flash.
      - It counts with O(cache_states) only.
    type: bool
    default: false
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: In check mode nothing is written, so nothing is measured. The options and the directory are checked, and the verdict is V(inconclusive).
  diff_mode:
    support: none
notes:
  - The task never counts as changed, with O(cache_states) neither, since everything is as before at the end.
  - This is load. While it runs, whatever else syncs to the same drives is slower. Measure before a database goes to work, or when it may wait.
  - Fast figures prove no durability. A drive that acknowledges a flush and keeps the data in a volatile cache is fast as well.
  - What exactly each row does, and how the figures and the verdict are made, is in the guide on sync latency.
seealso:
  - module: plumbline.ssd.offset_sweep
  - module: plumbline.ssd.device_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: How fast the volume syncs, all rows
  plumbline.ssd.sync_latency:
    path: /data01
  become: true
  register: sync

- name: Show the table
  ansible.builtin.debug:
    msg: "{{ sync.report }}"

- name: Measure only what a commit waits for
  plumbline.ssd.sync_latency:
    path: /data01
    rows: [fdatasync]
    min_ops:
      fdatasync: 500
    max_p99_ms:
      fdatasync: 5
  become: true
  register: sync

- name: What the drives do without their write cache, and what that says about their flushes
  plumbline.ssd.sync_latency:
    path: /data01
    rows: [open_datasync, fdatasync, fsync, open_sync]
    cache_states: true
  become: true
  register: states

- name: Show both states and what they suggest
  ansible.builtin.debug:
    msg: "{{ states.report }}"

- name: Stop where commits would be slow
  ansible.builtin.assert:
    that: sync.verdict == 'pass'
    fail_msg: "{{ sync.reasons | join('; ') }}"
"""

RETURN = r"""
verdict:
  description: V(pass), V(fail) or V(inconclusive). Without thresholds V(pass).
  returned: success
  type: str
  sample: pass
reasons:
  description: Why, one line each. Of a verdict other than V(pass) those thresholds that were not met.
  returned: success
  type: list
  elements: str
  sample: ["fdatasync: 478 ops/sec (466 to 490); wanted at least 400"]
path:
  description: The directory, links followed.
  returned: success
  type: str
  sample: /data01
mount:
  description: Where the filesystem that was measured is mounted. Another directory than RV(path) may mean that the volume is not mounted.
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
      description: The same as C(pg_test_fsync) has it.
      type: str
      sample: fdatasync
    unable:
      description: Why the row cannot run here, for example direct writes of 1 KiB on blocks of 4 KiB; empty where it can.
      type: str
    ops:
      description: Operations that were measured.
      type: int
      sample: 478
    seconds:
      description: The time that they took.
      type: float
      sample: 1.002
    ops_per_sec:
      description: Operations per second.
      type: float
      sample: 477.046
    usecs_per_op:
      description: Mean latency in microseconds.
      type: float
      sample: 2096.2
    p50_us:
      description: Median latency in microseconds; none where the operations are too few to tell it, as with the other percentiles.
      type: float
      sample: 2071.4
    p99_us:
      description: 99th percentile, from 299 operations.
      type: float
      sample: 2630.9
    p999_us:
      description: 99.9th percentile, from 2,995 operations.
      type: float
    max_us:
      description: The longest that was seen.
      type: float
      sample: 3011.2
    method_us:
      description: Microseconds of each operation that are the measuring program's own, by a loop on C(/dev/null). They are taken out of all figures.
      type: float
    open_p99_us:
      description: What 99 % of requests that come at random times would wait at most for the operation that is under way.
      type: float
      sample: 2604.6
    stalls:
      description: Operations of 50 ms or more that took ten times as long as the median beside them.
      type: int
      sample: 0
    stalled_share:
      description: The share of the time that went into them.
      type: float
      sample: 0.0
    histogram:
      description: How many operations stayed below so many microseconds, and not below half as many.
      type: dict
      sample: {"2048": 120, "4096": 358}
checks:
  description: The thresholds, each against what was measured.
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
      description: The figure, in the same unit; none where it could not be told, as with both ends of its interval.
      type: float
      sample: 477.046
    low:
      description: It is above this with a confidence of 95 %, or 99 % for V(min_ops).
      type: float
      sample: 465.9
    high:
      description: It is below this with a confidence of 95 %, or 99 % for V(min_ops).
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
        - The rows with the cache on, as in RV(rows). Beside those that were asked for, V(fdatasync), V(direct_write), which is a direct write of 8 KiB
          without any sync, and V(write_sync_file_range), which does all that V(fdatasync) does but the flush.
      type: list
      elements: dict
    "off":
      description: The same with the cache off.
      type: list
      elements: dict
    collapse:
      description: By row, how many times slower it is without the cache; none where it could not be measured.
      type: dict
      sample: {"fdatasync": 26.56, "direct_write": 28.1, "write_sync_file_range": 1.1}
    honesty:
      description: What the figures suggest about the drive's flushes. None of it is a proof.
      type: dict
      contains:
        ratio:
          description: RV(cache_states.honesty.program_us) by RV(cache_states.honesty.flush_us); none where no flush can be told from none.
          type: float
          sample: 0.98
        flush_us:
          description: >-
            What a flush adds to a write, in microseconds (V(fdatasync) less V(write_sync_file_range)), and the limits between which it lies.
          type: list
          elements: float
          sample: [1860.0, 1650.2, 2069.8]
        program_us:
          description: What the missing cache adds to a write, in microseconds (V(direct_write), off less on), and the limits between which it lies.
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
  description: How long it took.
  returned: success
  type: float
written_bytes:
  description: What was written to the file in all, in bytes.
  returned: success
  type: int
report:
  description: The table of C(pg_test_fsync), the histogram and the verdict for people, one line an item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._durability import barriers_on
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import exit_refused, leave, need_root, runner
from ansible_collections.plumbline.ssd.plugins.module_utils._sync import (
    ARGUMENTS,
    asked,
    compare_states,
    for_states,
    read_options,
    result,
    unmeasured,
    with_flushes,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._syncprobe import look_at, measure

# After which the caches are put back even if the module still runs: an operation that has begun is waited for.
SPARE_SECONDS = 300


def measure_states(module, volume, options):
    """The result with the write cache as it is, and with it the other way round beside it."""
    from ansible_collections.plumbline.ssd.plugins.module_utils._cachemeans import drives_of  # few ask for it, and it loads much
    from ansible_collections.plumbline.ssd.plugins.module_utils._cacheset import find_tools
    from ansible_collections.plumbline.ssd.plugins.module_utils._cachestates import turned

    mine, other = for_states(options, True), for_states(options, False)
    drives = drives_of(volume.devno, runner(module), find_tools(module.get_bin_path))
    if module.check_mode:
        return unmeasured(volume.title)
    before = measure(volume, mine)
    with turned(drives.means, drives.legs, drives.was, options.max_seconds + SPARE_SECONDS):
        turned_round = measure(volume, other)
    on, off = (before.rows, turned_round.rows) if drives.was else (turned_round.rows, before.rows)
    states, lines = compare_states(on, off, drives.protected)
    seconds, written = before.seconds + turned_round.seconds, before.written + turned_round.written
    found = result(volume.title, options, asked(before.rows, options), seconds, written)
    relies = drives.was and barriers_on(volume.options)
    protected = module.params["power_loss_protection"] or bool(drives.protected)
    found, warnings = with_flushes(dict(found, report=found["report"] + lines), states["honesty"], relies, protected)
    return dict(found, cache_states=states, warnings=warnings)


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
        volume = look_at(params["path"])
        where = {"path": volume.path, "mount": volume.mount, "device": volume.device, "fstype": volume.fstype}
        if params["cache_states"]:
            found = measure_states(module, volume, options)
        elif module.check_mode:
            found = unmeasured(volume.title)
        else:
            run = measure(volume, options)
            found = result(volume.title, options, run.rows, run.seconds, run.written)
    except PlumblineError as fault:
        exit_refused(module, fault)
    leave(module, changed=False, **where, **found)


if __name__ == "__main__":
    main()
