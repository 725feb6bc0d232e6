# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.latency import merge_bins, percentile_us, percentiles_us, read_bins


def report(*bins, **more):
    return json.dumps({"jobs": [{"write": {"total_ios": sum(one.values()), "clat_ns": {"bins": one}, **more}} for one in bins]})


def test_jobs_and_runs_are_added_up_and_not_averaged():
    first = read_bins(report({"1000": 900}, {"1000": 90, "50000": 10}), "write")
    assert first == {1000: 990, 50000: 10}
    both = merge_bins([first, read_bins(report({"9000000": 1000}), "write")])
    assert both == {1000: 990, 50000: 10, 9000000: 1000}
    assert percentile_us(both, 0.99) == 9000  # the mean of both would be 4,500
    assert percentiles_us(both) == {"p50": 50.0, "p90": 9000.0, "p99": 9000.0, "p99.9": None, "p99.99": None}


@pytest.mark.parametrize("count, carried", [(0, False), (1, False), (298, False), (299, True)])
def test_too_few_carry_no_percentile(count, carried):
    assert (percentile_us({1000: count} if count else {}, 0.99) is not None) is carried


@pytest.mark.parametrize(
    "text, word",
    [
        ("", "empty"),
        ("{}", "could not be read"),
        (json.dumps({"jobs": [{}]}), "lacks"),
        (json.dumps({"jobs": [{"write": {"total_ios": 5, "clat_ns": {}}}]}), "json+"),
        (json.dumps({"jobs": [{"write": {"total_ios": 5, "clat_ns": {"bins": {"x": 1}}}}]}), "lacks"),
        (json.dumps({"jobs": [{"write": {"total_ios": 5, "clat_ns": {"bins": {"-5": 1}}}}]}), "lacks"),
        (json.dumps({"jobs": [{"write": {"total_ios": 5, "clat_ns": {"bins": [1]}}}]}), "lacks"),
        (json.dumps({"jobs": [{"write": None}]}), "lacks"),
    ],
)
def test_hostile_reports(text, word):
    with pytest.raises(PlumblineError, match=word.replace("+", r"\+")):
        read_bins(text, "write")


def test_a_job_that_did_nothing_has_no_bins():
    assert read_bins(json.dumps({"jobs": [{"write": {"total_ios": 0, "clat_ns": {}}}]}), "write") == {}
