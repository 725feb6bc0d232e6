#!/usr/bin/python
# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: fstrim_proof
short_description: Prove that a trim of a filesystem reaches its drives
version_added: 0.1.0
description:
  - Fills two scratch files beside each other, gives one back, and trims its place (C(FITRIM), as C(fstrim) does). Then it looks on every
    drive below the filesystem for what became of the trimmed blocks.
  - The cheapest evidence that says something decides. These are the kernel's count of the discards that it sent, the drive's own count of the
    blocks in use (NUSE of NVMe), the contents of the trimmed blocks, and the time of reads of trimmed blocks beside that of written ones.
  - The module does not fail on a bad verdict. To fail on it, assert on RV(verdict).
  - Writes only to its own files, which never have a name (C(O_TMPFILE)). The kernel removes them when the module ends, however it ends.
options:
  path:
    description:
      - A directory on the volume, usually its mount point. The filesystem must be ext4 or XFS, with four times O(scratch_size) free.
    type: path
    required: true
  scratch_size:
    description:
      - The size of each of the two files, from V(16MiB) to V(16GiB).
    type: str
    default: 64MiB
  min_ratio:
    description:
      - The factor by which trimmed blocks must be read faster than written ones, from 1.1 to 100. It matters only if nothing cheaper decides.
    type: float
    default: 1.5
  max_seconds:
    description:
      - The maximum time of the reads of one drive, in seconds, from 1 to 3600.
    type: float
    default: 30
extends_documentation_fragment:
  - plumbline.ssd.attributes
  - plumbline.ssd.attributes.actiongroup
attributes:
  check_mode:
    support: full
    details: The module writes and trims nothing in check mode. It checks the options and the directory. The verdict is V(inconclusive).
  diff_mode:
    support: none
notes:
  - The block groups of the filesystem in which the file lay are trimmed as a whole, so that the drives also learn of other free blocks in them.
  - The task never reports a change.
seealso:
  - module: plumbline.ssd.stack_info
author:
  - the plumbline.ssd authors (@plumbline)
"""

EXAMPLES = r"""
- name: Does the weekly trim reach the drives?
  plumbline.ssd.fstrim_proof:
    path: /data01
  become: true
  register: trim

- name: Fail if it does not
  ansible.builtin.assert:
    that: trim.trim != 'not_reached'
    fail_msg: "{{ trim.report }}"
"""

RETURN = r"""
measure:
  description: The name of the measurement. M(plumbline.ssd.stack_proof) judges the result by it.
  returned: success
  type: str
  sample: fstrim_proof
verdict:
  description:
    - V(pass) if RV(trim) is V(reached), V(fail) if it is V(not_reached), and V(inconclusive) if it is V(cannot_tell).
  returned: success
  type: str
  sample: pass
trim:
  description:
    - V(reached) if the trim reached all drives of the filesystem, V(not_reached) if there is one that it did not reach, else V(cannot_tell).
  returned: success
  type: str
  sample: reached
offered:
  description: Whether the filesystem takes a trim at all.
  returned: success
  type: bool
reasons:
  description: The reasons why RV(trim) is not V(reached), one line each.
  returned: success
  type: list
  elements: str
trimmed_bytes:
  description: The number of bytes that the filesystem trimmed. Free blocks beside the file's may be counted more than once.
  returned: success
  type: int
drives:
  description: What was seen on each drive.
  returned: success
  type: list
  elements: dict
  contains:
    device:
      description: The kernel's name of the drive.
      type: str
      sample: nvme0n1
    trim:
      description: V(reached), V(not_reached) or V(cannot_tell), of this drive.
      type: str
      sample: reached
    why:
      description: The evidence that decided.
      type: str
      sample: the trimmed blocks read as blank
    asked_bytes:
      description: The bytes of the trimmed file on this drive.
      type: int
    counted_bytes:
      description: The bytes of discards that the kernel sent to the drive meanwhile. Null if the kernel does not count them.
      type: int
    used_bytes:
      description: The bytes in use by the drive's own word before the file, with it, and after the trim. Null if the drive does not say.
      type: list
      elements: int
    contents:
      description: V(blank), V(kept), or V(changed) if others wrote there or the places are not known.
      type: str
    promised:
      description: Whether the drive reports which values it returns for discarded blocks.
      type: bool
    faster:
      description: Whether the trimmed blocks are read faster by O(min_ratio). Null if that was not measured, or could not be told.
      type: bool
    ratio:
      description: The median time of reads of written blocks divided by that of trimmed ones. Null if RV(drives[].faster) is.
      type: float
seconds:
  description: The time that all of it took, in seconds.
  returned: success
  type: float
report:
  description: The same for people, one line for each item.
  returned: success
  type: list
  elements: str
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.module import exit_refused, exit_success, need_root
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import runner
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.writer import look_at_volume
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim.options import ARGUMENTS, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.trim.run import prove_trim, untrimmed


def main():
    module = AnsibleModule(argument_spec={"path": {"type": "path", "required": True}, **ARGUMENTS}, supports_check_mode=True)
    try:
        options = read_options(module.params)
        need_root()
        volume = look_at_volume(module.params["path"])
        result = untrimmed(volume.title) if module.check_mode else prove_trim(runner(module), volume, options)
    except PlumblineError as fault:
        exit_refused(module, fault)
    exit_success(module, changed=False, measure="fstrim_proof", **result)


if __name__ == "__main__":
    main()
