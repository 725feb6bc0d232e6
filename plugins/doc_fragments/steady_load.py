# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a run to the steady state loads a drive with, and what it may cost."""

from __future__ import annotations


class ModuleDocFragment:
    DOCUMENTATION = r"""
options:
  mode:
    description:
      - What is shown of the drive. V(steady) fills it once in sequence, loads it at random, and judges whether its rate is steady.
      - V(saturation) writes at random right behind the discard, O(max_fills) fills of it. It shows where the rate first collapses, and so what space
        the drive hides.
      - V(passes) does the same, but writes each block once in each pass, as fio does by default. Then the collapses come back with each pass.
      - The last two are pictures. No rule judges them, and their verdict is V(not_judged).
    type: str
    choices: [steady, saturation, passes]
    default: steady
  reserve:
    description:
      - The share of the drive that is left discarded at its end, as V(10%), at most V(50%). Only the rest is loaded, as if it were partitioned with
        this reserve. A fill is that of the rest.
    type: str
    default: 0%
  target:
    description:
      - Look for the smallest reserve with which the drive keeps this. It is a search by several runs to the steady state, at one reserve after the
        other, each behind a discard of the whole drive. One unit carries all of them out.
      - The result has RV(measured), which the key C(measured) of a stack's C(reserve) takes.
    type: dict
    suboptions:
      p99_write_ms:
        description:
          - The 99th percentile of the latency of writes at most, in milliseconds. The first run is at the reserve at which the theory expects a write
            amplification of 2, the second at a half of it. Then the interval is bisected. There are at most 4 runs.
        type: float
      wa:
        description:
          - The write amplification at most, above 1. It is measured at the reserve that the theory gives, and at a half of it. Only a drive that counts
            what it programs can tell, which few do.
        type: float
      hidden:
        description: The hidden space of the drive as a share, such as V(12%), by which the first reserve is chosen. V(7%) is assumed.
        type: str
  block_size:
    description: The size of a request of the random load, a power of two from V(4KiB) to V(1MiB).
    type: str
    default: 4KiB
  depth:
    description: The number of requests outstanding, from 1 to 1024.
    type: int
    default: 32
  read_percent:
    description:
      - The share of reads in the random load, from 0 to 95. If it is not 0, the 99th percentile of the latency must be steady as well. Only with
        O(mode=steady).
    type: int
    default: 0
  max_fills:
    description:
      - The random load at most, in fills of the drive, from 1 to 20. Without a steady state until then, the verdict is V(inconclusive). In the other
        modes so much is written in any case. V(passes) needs 3 fills for its period.
    type: float
    default: 4
  precision:
    description: The largest half of the interval of the rate, in percent of it, from 0.1 to 50.
    type: float
    default: 4
  snia:
    description:
      - Judge by the letter of SNIA's performance test specification, which looks at five rounds. It can be wrong by a factor on a drive whose
        garbage collection has not begun. Only with O(mode=steady).
    type: bool
    default: false
  terabytes_written:
    description:
      - The rated endurance of the drive, in terabytes (10^12 bytes), as data sheets have it (TBW). V(0) if it is not known. A run that may write more
        than 0.5 % of it is refused.
    type: int
    default: 0
  accept_wear:
    description: Run also if the rated endurance is not known, or if the run may cost more than 0.5 % of it.
    type: bool
    default: false
"""
