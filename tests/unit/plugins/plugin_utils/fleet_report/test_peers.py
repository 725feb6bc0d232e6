# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives beside others of their kind: a table of fleets, hostile records, and how often drives that are alike are told apart."""

from __future__ import annotations

import random

import pytest
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import peers, rows
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import make_fleet


def record(number, value, cell=None, **drive):
    """A host with one drive and one cell."""
    named = {"device": "/dev/sda", "model": "M", "firmware": "F", "serial": f"S{number}", "size_bytes": 1 << 40, "link": "sata 6.0 Gb/s", **drive}
    found = {"name": "rand_read_4k_qd64", "state": "as_found", "verdict": "pass", "required": True, "unit": "IOPS", "value": value, **(cell or {})}
    return {"host": f"h{number}", "acceptance": [{"verdict": "pass", "drive": named, "cells": [found]}]}


def told(records):
    fleet = make_fleet(records)
    return {host.host: [(one.level, one.found) for one in host.findings if "of its kind" in one.found] for host in fleet.hosts if host.findings}


ALIKE = [1000, 1010, 990, 1005, 995, 1001]


@pytest.mark.parametrize(
    "values, far",
    [
        (ALIKE, {}),
        ([*ALIKE, 700], {"h6": "warning"}),
        ([*ALIKE, 1400], {"h6": "info"}),
        ([*ALIKE, 920], {}),  # far by the score, and within 10 %
        ([1000] * 6 + [880], {"h6": "warning"}),  # no spread at all
        ([1000, 700, 1300, 1000, 600, 1400, 880], {}),  # a fleet that is spread
        ([1000, 1000, 1000, 500], {}),  # too few
        ([1000, 1000, 1000, 1000, 500], {"h4": "warning"}),
    ],
)
def test_who_is_far_from_the_median(values, far):
    found = told([record(number, value) for number, value in enumerate(values)])
    assert {host: ones[0][0] for host, ones in found.items() if ones} == far


def test_the_words():
    (found,) = told([record(number, value) for number, value in enumerate([1000] * 5 + [500])])["h5"]
    assert found == ("warning", "500 IOPS in rand_read_4k_qd64, 0.50 of the median of 6 drives of its kind")


def test_a_drive_is_told_once():
    """The farthest of its cells stands for all that are slow."""
    fleet = [record(number, 1000 if number < 5 else 500) for number in range(6)]
    for number, one in enumerate(fleet):
        (result,) = one["acceptance"]
        result["cells"].append({**result["cells"][0], "name": "seq_read_1m_qd1", "unit": "MiB/s", "value": 100 if number < 5 else 40})
    assert told(fleet)["h5"] == [("warning", "40 MiB/s in seq_read_1m_qd1, 0.40 of the median of 6 drives of its kind (and 1 more cell)")]


@pytest.mark.parametrize("other", [{"model": "N"}, {"firmware": "G"}, {"size_bytes": 1 << 41}, {"link": "sata 3.0 Gb/s"}])
def test_another_kind_is_not_compared(other):
    assert not told([*(record(number, 1000) for number in range(6)), record(6, 500, **other)])


def test_another_state_is_not_compared():
    assert not told([*(record(number, 1000) for number in range(6)), record(6, 500, {"state": "filled"})])


def test_a_drive_counts_once():
    """Five results of one drive are no fleet, and the last of them counts."""
    assert not told([{"host": "h", "acceptance": [record(0, 1000)["acceptance"][0]] * 5}, record(1, 500)])


@pytest.mark.parametrize("value", [None, "x", float("nan"), float("inf"), 0, -5, [], {}, True, 10**400])
def test_hostile_values(value):
    fleet = [record(number, 1000) for number in range(6)]
    for key in ("value", "unit", "name", "state"):
        told([*fleet, record(6, 1000, {key: value})])
    for key in ("serial", "model", "firmware", "size_bytes", "link", "device"):
        told([*fleet, record(6, 1000, **{key: value})])
    told([*fleet, {"host": "h6", "acceptance": value}, {"host": "h7", "acceptance": [{"drive": value, "cells": value}]}])


@pytest.mark.parametrize("noise, most", [(0.01, 0.0001), (0.03, 0.005), (0.05, 0.02)])
def test_alike_drives_are_seldom_told_apart(noise, most):
    """Eight drives that are alike, 1,000 fleets: the share of the drives that are flagged. With so few drives, 10 % is not far at a noise of 5 %."""
    dice = random.Random(f"peers {noise}")
    flagged = 0
    for _fleet in range(1000):
        values = [1000 * dice.lognormvariate(0, noise) for _drive in range(8)]
        flagged += sum(peers.is_far(value, values) for value in values)
    print(f"noise {noise}: {flagged} of 8000 flagged")
    assert flagged <= most * 8000


def test_the_map_of_cells():
    """The worst drives, and a cell of each row; what decides nothing, or was not measured, is none."""
    bad, good = record(0, 1000, {"verdict": "fail"}), record(1, 1000, {"name": "other", "verdict": "inconclusive"})
    good["acceptance"][0]["cells"].append({"name": "rand_read_4k_qd64", "verdict": "fail", "required": False})
    fleet = make_fleet([good, bad, record(2, 1000)])
    assert rows.cell_map(fleet.hosts, 8) == (
        ["h0 sda", "h1 sda", "h2 sda"],
        [("rand_read_4k_qd64", ["error", "none", "ok"]), ("other", ["none", "unknown", "none"])],
    )
    assert rows.cell_map(fleet.hosts, 1) == (["h0 sda"], [("rand_read_4k_qd64", ["error"])])
    assert rows.cell_map([], 8) == ([], [])
