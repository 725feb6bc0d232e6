# SPDX-License-Identifier: GPL-3.0-or-later
"""How likely the sampled blank proof is to see data. The guide on refusals and the tests give these figures. Pure."""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_blank_proof import PROOF_END, PROOF_SAMPLE, PROOF_SAMPLES, pages_between


def _widest(size: int) -> int:
    """Pages of the widest stratum; they differ by one at most."""
    return -(-pages_between(size) // PROOF_SAMPLES)


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
