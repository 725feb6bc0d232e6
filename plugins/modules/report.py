# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Write one report on the drives and stacks of many hosts
version_added: 0.1.0
description:
  - Makes one HTML page, one Markdown summary and one JSON file of what the modules of this collection returned on many hosts. The worst comes
    first, and beside each finding stands what to do.
  - The HTML page needs no server, no script and nothing from outside. It can be read by a screen reader, in light and dark, and be printed.
  - Runs on the controller and asks no host. Set C(run_once) on the task, so that there is one report of all hosts.
  - The same records give the same bytes.
options:
  records:
    description:
      - A list of records. A record is a mapping with C(host) (the name of the host), and any of the other keys below. Two records of one host
        are merged. Lists follow each other, and of everything else the later one counts.
      - C(device_info), C(drive_health), C(stack_info), C(stack_plan), C(stack_proof), C(offset_sweep), C(throughput), C(sync_latency) and
        C(fstrim_proof) each hold what the module of that name returned, as it was registered, with or without a loop.
      - C(steady_state) is one mapping for each device that was loaded until its rate was steady, with C(device), C(verdict), C(reasons), the
        figures C(mib_s), C(iops), C(p99_ms) and C(write_amplification), C(hidden_space) (the flash beside the user capacity, as a share of it),
        C(first_collapse_fills), C(period_fills), C(mode), C(doubts), C(series) (lists named C(fills) or C(seconds), and C(mib_s), C(iops),
        C(p99_ms)), C(windows) (C(first_fills), C(last_fills), C(label)) and C(marks) (C(fills), C(label)). With a series over time, windows and
        marks have C(seconds) in place of C(fills). A verdict C(not_judged) is shown and has no level.
      - C(acceptance) is what M(plumbline.ssd.acceptance) returned, or any mapping with C(cells), each with C(name), C(verdict), C(required),
        C(state), C(value), C(low), C(high), C(wanted), C(unit) and C(against).
      - C(time) is when the host was read, by the controller's clock. C(unreachable) is true, or the reason, if the host was not reached. C(proofs) is a list of
        proofs as hosts keep them. C(ansible_facts) or C(setup) hold facts. C(conditions) is a mapping of names and values to be listed.
      - A module that failed, or a key that is missing, is shown in the report and is no error. Values that are not as expected show as text.
    type: list
    elements: dict
    default: []
  directory:
    description:
      - A directory on the controller with files named C(HOST.json) or C(HOST-WORD.json), as M(plumbline.ssd.keep_record) writes them. Each holds a
        record of that host or a list of such, as in O(records). In the name, characters may be written as in a URL.
      - A file C(HOST-STACK.json) as the role P(plumbline.ssd.verify#role) keeps it is a proof of that host.
      - A file that cannot be read, and one whose records name another host, is a finding of the host in the file's name. All others are reported.
      - A file may have 32 MiB and a million values. Of one host at most 1,000 of a kind are read (findings, drives, stacks and so on), the worst first.
        How many more there were is a finding of that host.
      - A relative path begins in the directory where Ansible was started.
    type: path
  hosts:
    description:
      - The hosts that are expected. Those without a record are shown as missing. In a play, use V({{ ansible_play_hosts_all }}).
    type: list
    elements: str
    default: []
  path:
    description:
      - Where the report is written on the controller, without the end of the name. C(.html), C(.md) and C(.json) are added.
      - Directories that are missing are made with the mode 0700, and files with 0600. A file is written whole or not at all, and only if its bytes differ.
      - A relative path begins in the directory where Ansible was started.
    type: path
    required: true
  title:
    description: The title of the report.
    type: str
    default: State of the drives
  time:
    description:
      - When the report was made, as text. If it is empty, this is the latest C(time) of all records, with the oldest beside it where that is of
        another day. A time that is not like V(2026-03-01T12:00:00Z), or has not come yet, does not count. So the same records give the same bytes.
    type: str
    default: ""
  formats:
    description: What is written.
    type: list
    elements: str
    choices: [html, markdown, json]
    default: [html, markdown, json]
extends_documentation_fragment:
  - plumbline.ssd.attributes.controller
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: Shows how the Markdown summary changes.
notes:
  - The report holds the names of hosts and mount points, and the models and serial numbers of drives. Keep it where only those can read it who may
    know these.
seealso:
  - module: plumbline.ssd.drive_health
  - module: plumbline.ssd.stack_info
  - module: plumbline.ssd.acceptance
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Read the drives
  plumbline.ssd.drive_health:
  become: true
  register: health
  ignore_errors: true
  ignore_unreachable: true

- name: Read the stacks
  plumbline.ssd.stack_info:
  become: true
  register: stacks
  ignore_errors: true
  ignore_unreachable: true

- name: Keep the record of the host on the controller
  plumbline.ssd.keep_record:
    directory: records
    record: {drive_health: "{{ health }}", stack_info: "{{ stacks }}"}

- name: Write the report of all hosts
  plumbline.ssd.report:
    directory: records
    hosts: "{{ ansible_play_hosts_all }}"
    path: reports/drives
    title: Drives of the database hosts
  become: true
  run_once: true
"""

RETURN = r"""
files:
  description: The files of the report.
  returned: success
  type: list
  elements: dict
  contains:
    format:
      description: V(html), V(markdown) or V(json).
      type: str
    path:
      description: Where the file is on the controller.
      type: str
    bytes:
      description: Its size, in bytes.
      type: int
    changed:
      description: Whether the file was written, or would be in check mode.
      type: bool
level:
  description:
    - The worst of all hosts. From the worst, the levels are V(error), V(missing) (a host did not answer), V(warning), V(unknown) (it cannot be
      told), V(info), V(ok) and V(none) (nothing was asked).
  returned: success
  type: str
  sample: warning
verdict:
  description: The whole report in one sentence.
  returned: success
  type: str
  sample: Of 9 hosts, 4 have errors, 1 did not answer, 2 have warnings, 2 are as wanted.
counts:
  description: The number of hosts at each level, by their worst finding.
  returned: success
  type: dict
  sample: {error: 4, missing: 1, warning: 2, info: 2}
report:
  description: The same for people, one line for each item. Of at most 50 hosts and 50 kinds of findings, the worst first, and each host's first before the
    second of any.
  returned: success
  type: list
  elements: str
"""
