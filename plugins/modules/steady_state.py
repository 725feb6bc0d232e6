#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: steady_state
short_description: Measure the rate of random writes that a drive keeps
version_added: 0.1.0
description:
  - Measures one whole, blank drive under random load until its rate is steady. The drive is discarded, filled once in sequence, and then loaded at
    random. The load runs in rounds of 5 % of the capacity, and ends by a rule over two windows of rounds.
  - The run is a transient systemd unit on the host. It goes on for hours when the controller is gone. The module starts it, looks at it, and ends it.
  - Everything that M(plumbline.ssd.aligned_partition) refuses is refused here as well. The drive is named by its serial number besides. Afterwards the
    drive is discarded, and is blank for a stack.
  - The run holds the lease of the host, so that no other module of the collection writes meanwhile, and it holds the drive exclusively.
  - If the run is killed, systemd starts it again. After a reboot of the host, O(command=start) takes it up. At most one round is lost.
options:
  command:
    description:
      - V(start) begins a run, or takes up one that was interrupted. A run that is under way, or has its verdict, is left as it is.
        If that one has other options, it is refused.
      - V(poll) reads how far the run is, and does not touch the drive.
      - V(stop) ends the run, and discards the drive.
    type: str
    choices: [start, poll, stop]
    required: true
  device:
    description: The whole disk, by a name below C(/dev/disk/by-id), or by another path that stays.
    type: str
    required: true
  serial:
    description: The serial number of the drive. V(start) refuses a drive with another one.
    type: str
    default: ""
  anew:
    description: Begin another run if the last one of the drive has its verdict.
    type: bool
    default: false
extends_documentation_fragment:
  - plumbline.ssd.steady_load
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: V(start) proves the drive, says what a run would cost, and writes nothing. V(stop) changes nothing.
  diff_mode:
    support: none
notes:
  - All data on the drive is lost at the first byte of the load, so only a blank drive is taken. There is no option to force it.
  - Needs C(fio) and C(systemd-run) on the host. With C(smartctl), the temperature of the drive and its count of written bytes are used as well.
seealso:
  - module: plumbline.ssd.throughput
  - module: plumbline.ssd.report
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Begin a run, or take it up
  plumbline.ssd.steady_state:
    command: start
    device: /dev/disk/by-id/nvme-MODEL_SERIAL1
    serial: SERIAL1
    terabytes_written: 7000
  become: true

- name: Draw how the rate collapses, and what space the drive hides
  plumbline.ssd.steady_state:
    command: start
    mode: saturation
    device: /dev/disk/by-id/nvme-MODEL_SERIAL1
    serial: SERIAL1
    terabytes_written: 7000
  become: true

- name: Look for the reserve with which 99 of 100 writes take 2 ms at most
  plumbline.ssd.steady_state:
    command: start
    target:
      p99_write_ms: 2
    device: /dev/disk/by-id/nvme-MODEL_SERIAL1
    serial: SERIAL1
    accept_wear: true
  become: true

- name: Wait for the verdict, with one call a minute
  plumbline.ssd.steady_state:
    command: poll
    device: /dev/disk/by-id/nvme-MODEL_SERIAL1
  become: true
  register: steady
  until: steady.state not in ['starting', 'running']
  retries: 1440
  delay: 60

- name: End a run, and discard the drive
  plumbline.ssd.steady_state:
    command: stop
    device: /dev/disk/by-id/nvme-MODEL_SERIAL1
  become: true
"""

RETURN = r"""
state:
  description:
    - V(starting) or V(running) while the run is under way, V(finished) if it has its verdict and the drive is blank again, V(interrupted) if it was cut
      off, V(failed) if it ended with RV(fault), V(stopped), or V(none).
  returned: success
  type: str
  sample: running
fault:
  description: Why the run failed. Empty if it did not.
  returned: success
  type: str
wear:
  description: What the run costs the drive at most.
  returned: when a run is begun, or would be in check mode
  type: str
  sample: "it writes 18.19 TiB at most (one fill of 3.64 TiB in sequence, and up to 4 at random), 0.29 % of the 7000 TB that the drive is rated for"
device:
  description: The path of the disk.
  returned: when a round was written
  type: str
serial:
  description: The serial number of the disk.
  returned: when a round was written
  type: str
mode:
  description: The O(mode) of the run.
  returned: when a round was written
  type: str
  sample: steady
verdict:
  description: V(pass) if the rate is steady, else V(inconclusive). V(not_judged) in the other modes. With O(target), V(pass) if a
    reserve was found to be enough, and V(fail) if none is.
  returned: when a round was written
  type: str
  sample: pass
reasons:
  description: Why the rate is not steady yet, or why a run was refused.
  returned: when a round was written, or the run was refused
  type: list
  elements: str
why:
  description: What the rule says of the rounds so far.
  returned: when a round was written
  type: str
pattern:
  description: The random load.
  returned: when a round was written
  type: str
  sample: 4 KiB, random writes, 32 outstanding
share:
  description: How much of the longest possible run, or search, is done, from 0 to 1.
  returned: when a round was written
  type: float
fills:
  description: The random load so far, in fills of the drive.
  returned: when a round was written
  type: float
mib_s:
  description: The rate of writes in the windows of the verdict, in MiB/s. In the other modes that of the last tenth of a fill.
  returned: when a round was written
  type: float
mib_s_low:
  description: The lower end of the interval of RV(mib_s) with 96 % confidence. Null without a verdict, and under the rule of the standard.
  returned: when a round was written
  type: float
mib_s_high:
  description: The upper end of that interval.
  returned: when a round was written
  type: float
iops:
  description: The rate of writes in requests per second.
  returned: when a round was written
  type: float
p99_ms:
  description:
    - The median of the rounds' 99th percentile of the latency of writes, in milliseconds. Null if the rounds are too short for it. In the other modes
      that of the last fill.
  returned: when a round was written
  type: float
write_amplification:
  description:
    - What was programmed by what was written, in the windows of the verdict. Null without a verdict, and if the drive does not count what it programs.
  returned: when a round was written
  type: float
write_amplification_low:
  description: The lower end of what RV(write_amplification) may be, by the units of the drive's counters.
  returned: when a round was written
  type: float
write_amplification_high:
  description: The upper end of it.
  returned: when a round was written
  type: float
reserve_percent:
  description: The O(reserve) of the run, in percent.
  returned: when a round was written
  type: float
stalled_rounds:
  description: The number of rounds in the windows that a stall has hit. They are left out.
  returned: when a round was written
  type: int
measured:
  description:
    - What was found with O(target), as the key C(measured) of a stack's C(reserve) takes it. It has RV(measured.model), RV(measured.firmware),
      RV(measured.share) (the reserve, as a share of the capacity), C(target), C(points), and C(hidden) and C(wa) if they are known.
    - Null until the search is over, and if no reserve is enough.
  returned: with O(target), when a round was written
  type: dict
  contains:
    model:
      description: The model of the drive.
      type: str
    firmware:
      description: Its firmware.
      type: str
    share:
      description: The reserve.
      type: float
      sample: 0.114
points:
  description: What the runs of a search came to, in their order.
  returned: with O(target), when a round was written
  type: list
  elements: dict
  contains:
    share:
      description: The reserve of the run, as a share of the capacity.
      type: float
    verdict:
      description: V(pass) if its rate came to be steady. Otherwise the reserve counts as not enough.
      type: str
    p99_ms:
      description: As RV(p99_ms). Beside it are C(why), C(mib_s), C(iops), C(write_amplification), C(fills) and C(seconds).
      type: float
first_collapse_fills:
  description:
    - Where the rate first collapses for want of free blocks, in fills behind the discard. Null if no collapse was seen, and with O(mode=steady).
  returned: when a round was written
  type: float
  sample: 1.12
hidden_space:
  description: The physical space beyond what the drive sells, as a share of that, by the first collapse. Null if that is not known.
  returned: when a round was written
  type: float
  sample: 0.12
period_fills:
  description: The fills after which the collapses come back. Null if they do not, if less than 3 fills were written, and without O(mode=passes).
  returned: when a round was written
  type: float
  sample: 1.0
doubts:
  description: What makes these three uncertain, such as a run that was cut off.
  returned: when a round was written
  type: list
  elements: str
seconds:
  description: The time of all rounds, in seconds.
  returned: when a round was written
  type: float
series:
  description:
    - Lists of the same length, with one value for each round. M(plumbline.ssd.report) draws them. In the other modes a round is a window of 1 % of a
      fill, and only the last one of a fill has latencies, which are those of the whole fill.
  returned: when a round was written
  type: dict
  contains:
    fills:
      description: What was written by the end of the round, in fills. With O(mode=steady) the sequential fill is the first one.
      type: list
      elements: float
    mib_s:
      description: The rate of writes in MiB/s.
      type: list
      elements: float
    iops:
      description: Writes per second. Null for rounds of the sequential fill.
      type: list
      elements: float
    p50_ms:
      description: The median of the latency of writes, in milliseconds. Here and below, null if the round has too few writes to tell.
      type: list
      elements: float
    p99_ms:
      description: The 99th percentile of the latency of writes, in milliseconds.
      type: list
      elements: float
    p999_ms:
      description: The latency of writes that 99.9 % did not exceed, in milliseconds.
      type: list
      elements: float
windows:
  description: The rounds of the verdict, with RV(windows[].first_fills), RV(windows[].last_fills) and RV(windows[].label).
  returned: when a round was written
  type: list
  elements: dict
  contains:
    first_fills:
      description: Where they begin, in fills.
      type: float
    last_fills:
      description: Where they end, in fills.
      type: float
    label:
      description: What they are.
      type: str
      sample: steady
marks:
  description: Where the random load begins, where the run was taken up, and where the rate first collapses.
  returned: when a round was written
  type: list
  elements: dict
  contains:
    fills:
      description: The place in fills.
      type: float
    label:
      description: What happened there.
      type: str
      sample: random load
report:
  description: The same for people, one line for each item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import device_path
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import counts_both
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.raw_device import examine_device
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.run_fio import find_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state import service
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.drive_load import ask_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.files import check_places
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import (
    ARGUMENTS,
    Request,
    check_wear,
    loaded_span,
    read_random_load,
    read_run_options,
    read_target,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.rounds import steady_result
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.search import check_target, search_result
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions.reserve import MOST_RESERVED


def start(module, run, kept, device):
    """Begin a run or take it up. Returns (whether anything changed, what it costs)."""
    params = module.params
    load, options, target = read_random_load(params), read_run_options(params), read_target(params)
    if target:
        options = options._replace(latency=options.latency or not target.wa)
    if not params["serial"]:
        raise PlumblineError("serial is missing: a drive that is to be overwritten is named by its serial number as well")
    if service.is_done(kept, (load, options, target), params["anew"], device):
        return False, ""
    resumed = kept.begun or kept.unfinished
    find_fio()
    check_places(kept.paths)
    node = examine_device(run, device, params["serial"], kept.begun)
    wear = check_wear(loaded_span(node.size, options.reserve).length, options, params, target.runs if target else 1)
    if target:
        loaded_span(node.size, MOST_RESERVED)
        check_target(target, counts_both(ask_drive(node)[0]), device)
    if not module.check_mode:
        mark = kept.request.mark if resumed else service.new_mark()
        known = (node.identity.model, node.identity.firmware)
        request = Request(device, node.identity.key, params["serial"], load, options, mark, target, *known)
        service.begin(run, kept, kept.request if resumed else request)
    return True, wear


def main():
    module = AnsibleModule(
        argument_spec={
            "command": {"type": "str", "choices": ["start", "poll", "stop"], "required": True},
            "device": {"type": "str", "required": True},
            "serial": {"type": "str", "default": ""},
            "anew": {"type": "bool", "default": False},
            **ARGUMENTS,
        },
        supports_check_mode=True,
    )
    changed, more = False, {}
    try:
        need_root()
        run = runner(module)
        device = device_path(module.params["device"])
        kept = service.find_run(run, service.name_of_run(device))
        if module.params["command"] == "start":
            changed, wear = start(module, run, kept, device)
            more = {"wear": wear} if wear else {}
        elif module.params["command"] == "stop":
            changed = kept.active or kept.begun or kept.unfinished if module.check_mode else service.end_run(run, kept)
        if changed and not module.check_mode:
            kept = service.find_run(run, kept.name)
        if kept.rounds is not None and kept.rounds.records and kept.request is not None:
            more.update(steady_result(kept.rounds, kept.request.load, kept.request.path), share=round(kept.share, 4), serial=kept.request.serial)
            if kept.search is not None:
                more.update(search_result(kept.search, kept.request))
    except PlumblineError as fault:
        exit_refused(module, fault)
    fault = str(kept.status.get("msg", "")) if kept.state == service.FAILED else ""
    exit_success(module, changed=changed, state=kept.state, fault=fault, report=service.progress_lines(kept, more) + ([fault] if fault else []), **more)


if __name__ == "__main__":
    main()
