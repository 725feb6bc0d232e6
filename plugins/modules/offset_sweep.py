#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: offset_sweep
short_description: Measure at which offset a device reads fastest
version_added: 0.1.0
description:
  - Reads a disk, a partition or a logical volume at every offset below a grain, in shuffled rounds, and says at which offset reads do not
    straddle two pages of the flash. It stops as soon as the answer is certain, which usually takes a few hundred reads.
  - Only reads, past the page cache, at a bounded rate. A device that is mounted and busy may be swept.
  - Read places have to have been written before. A drive answers blocks that were never written, or were discarded, without its flash,
    and then no offset is faster.
options:
  device:
    description:
      - The block device, by a name below C(/dev/disk/by-id) or a path. Offsets count from its first byte.
    type: str
    required: true
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
    type: float
    default: 1.1
  max_bytes:
    description:
      - How much is read at most. Where that is not enough the verdict is V(inconclusive).
    type: str
    default: 64MiB
  max_seconds:
    description:
      - How long it takes at most, in seconds.
    type: float
    default: 10
  reads_per_second:
    description:
      - The rate of reads that is not exceeded. V(0) for no limit.
    type: int
    default: 500
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module never changes anything; check mode measures as well.
  diff_mode:
    support: none
notes:
  - Many drives hide a straddled read, because two of their dies work at once. V(no_preference) is no fault then.
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

- name: Fail where the measurement contradicts the kernel's alignment
  ansible.builtin.assert:
    that: not sweep.contradicts
    fail_msg: "{{ sweep.report | join(' ') }}"
"""

RETURN = r"""
verdict:
  description: V(phase), V(no_preference) or V(inconclusive).
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
report:
  description: The same for people, one line an item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._probe import last_grain, look_at, measure, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._runner import device_path, exit_refused, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._sweep import PHASE, report


def main():
    module = AnsibleModule(
        argument_spec={
            "device": {"type": "str", "required": True},
            "max_grain": {"type": "str", "default": "64KiB"},
            "error": {"type": "float", "default": 0.0001},
            "min_ratio": {"type": "float", "default": 1.1},
            "max_bytes": {"type": "str", "default": "64MiB"},
            "max_seconds": {"type": "float", "default": 10},
            "reads_per_second": {"type": "int", "default": 500},
        },
        supports_check_mode=True,
    )
    params = module.params
    try:
        options = read_options(params)
        need_root()
        target = look_at(device_path(params["device"]))
        options = options._replace(logical=target.logical, last_grain=last_grain(target, options.last_grain))
        measured = measure(target, options, params["max_seconds"], params["reads_per_second"])
    except PlumblineError as fault:
        exit_refused(module, fault)
    found = measured.found
    expected = -1 if target.expected is None or not found.grain else target.expected % found.grain
    contradicts = found.verdict == PHASE and expected >= 0 and found.phase != expected
    module.exit_json(
        changed=False,
        verdict=found.verdict,
        phase_bytes=found.phase,
        grain_bytes=found.grain,
        ratio=round(found.ratio, 3),
        expected_bytes=expected,
        contradicts=contradicts,
        reads=found.reads,
        read_bytes=found.bytes,
        seconds=round(measured.seconds, 2),
        report=report(target.name, found, options.min_ratio, expected, measured.seconds),
    )


if __name__ == "__main__":
    main()
