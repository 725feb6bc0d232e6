# SPDX-License-Identifier: GPL-3.0-or-later
"""Percentiles of fio's latencies over several jobs and runs: histograms are added up, percentiles are never averaged. Pure."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import report_rows
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sweep.offset_table import quantile
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.sync.samples import samples_for

SHARES = (0.5, 0.9, 0.99, 0.999, 0.9999)


def read_bins(text: str, side: str) -> Dict[int, int]:
    """Requests by latency in nanoseconds, of all jobs of a report in the format json+. *side*: ``read`` or ``write``."""
    merged: Dict[int, int] = {}
    for row in report_rows(text):
        try:
            bins = row[side]["clat_ns"].get("bins") or {}
            if row[side]["total_ios"] and not bins:
                raise PlumblineError("fio's report has no histograms; wanted the output format json+")
            for upper, count in bins.items():
                if int(upper) < 0 or int(count) < 0:
                    raise ValueError(upper)
                merged[int(upper)] = merged.get(int(upper), 0) + int(count)
        except (KeyError, TypeError, ValueError, AttributeError) as fault:
            raise PlumblineError("fio's report lacks what was expected in it: %r; version 3.0 or newer is wanted" % fault) from fault
    return merged


def merge_bins(many: Sequence[Mapping[int, int]]) -> Dict[int, int]:
    """Several histograms as one."""
    merged: Dict[int, int] = {}
    for bins in many:
        for upper, count in bins.items():
            merged[upper] = merged.get(upper, 0) + count
    return merged


def percentile_us(bins: Mapping[int, int], share: float) -> Optional[float]:
    """The latency in microseconds that this share of the requests did not exceed; None where there are too few to carry it."""
    if sum(bins.values()) < samples_for(share):
        return None
    return quantile(dict(bins), share) / 1000


def percentiles_us(bins: Mapping[int, int]) -> Dict[str, Optional[float]]:
    """The usual ones, by their names."""
    return {"p%g" % (100 * share): percentile_us(bins, share) for share in SHARES}
