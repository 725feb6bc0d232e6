# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Where a blank proof looks, and how likely it is that it sees what is there. Pure."""

from __future__ import annotations

import os
from typing import Callable, List, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import KIB, MIB

# What the sampled proof reads: whole ends, and random places between them.
PROOF_END = 64 * MIB
PROOF_SAMPLES = 1024
PROOF_SAMPLE = 4 * KIB


def proof_spans(size: int, full: bool, starts: Sequence[int], dice: Callable[[int], bytes] = os.urandom) -> Tuple[List[Tuple[int, int]], List[int]]:
    """Which spans (offset, length) are read whole, and at which offsets 4 KiB samples are taken.

    *starts* are places where something of ours is to begin; each is sampled. One random page is drawn
    from every one of PROOF_SAMPLES equal strata, so that no long run of data falls between them; every
    page of a stratum is as likely as any other.
    """
    if full or size <= 2 * PROOF_END + PROOF_SAMPLES * PROOF_SAMPLE:
        return [(0, size)], []
    spans = [(0, PROOF_END), (size - PROOF_END, PROOF_END)]
    edges = _edges(size)
    thrown = dice(8 * PROOF_SAMPLES)
    samples = []
    for stratum in range(PROOF_SAMPLES):
        low, high = edges[stratum], edges[stratum + 1]
        page = low + int.from_bytes(thrown[8 * stratum : 8 * stratum + 8], "little") % (high - low)
        samples.append(PROOF_END + page * PROOF_SAMPLE)
    samples += [start // PROOF_SAMPLE * PROOF_SAMPLE for start in starts if PROOF_END <= start < size - PROOF_END]
    return spans, samples


def _pages(size: int) -> int:
    """Pages between the ends; the last may lap over the tail."""
    return -(-(size - 2 * PROOF_END) // PROOF_SAMPLE)


def _widest(size: int) -> int:
    """Pages of the widest stratum; they differ by one at most."""
    return -(-_pages(size) // PROOF_SAMPLES)


def _edges(size: int) -> List[int]:
    """The first page of every stratum, counted from the end of the head, and the end of the last."""
    pages = _pages(size)
    return [stratum * pages // PROOF_SAMPLES for stratum in range(PROOF_SAMPLES + 1)]


def detection(size: int, data_bytes: int, full: bool = False) -> float:
    """The probability that the proof of a device of *size* bytes sees *data_bytes* of data between its ends, wherever they lie.

    A page counts as data where one byte of it is not zero, and data that long touch at least P = data/4096 pages. Of a
    stratum of m pages with p of data one page is drawn, and the draws are independent: all of them miss with the product
    of (1 - p/m). As log(1 - x) is concave, that product is largest where the P pages are spread evenly over the
    strata: (1 - P/(1024 m))^1024. Any other arrangement, one run of data above all, is seen more surely.
    """
    if data_bytes <= 0:
        return 0.0
    if full or size <= 2 * PROOF_END + PROOF_SAMPLES * PROOF_SAMPLE:
        return 1.0
    pages = -(-data_bytes // PROOF_SAMPLE)
    return 1.0 - (1.0 - min(pages / (PROOF_SAMPLES * _widest(size)), 1.0)) ** PROOF_SAMPLES


def seen_for_sure(size: int) -> int:
    """How long one run of data between the ends must be, in bytes, so that the sampled proof cannot miss it: it fills a stratum."""
    if size <= 2 * PROOF_END + PROOF_SAMPLES * PROOF_SAMPLE:
        return 1
    return 2 * _widest(size) * PROOF_SAMPLE
