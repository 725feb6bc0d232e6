# SPDX-License-Identifier: GPL-3.0-or-later
"""Partition tables of real disks: which partitions are off, on the flash's grid and by what the device reports."""

from __future__ import annotations

import json

import pytest
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import Limits, make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import view
from ansible_collections.plumbline.ssd.tests.unit.plugins.module_utils.builder import MIB, Host, fixture

LAYOUTS = [record for record in json.loads(fixture("layouts.json")) if any(part["start_sectors"] for part in record["partitions"])]


def geometry_of(record):
    # Where the capture tells no block size, the smallest: the phase of a start only gets finer by that.
    limits = Limits(record["logical"] or 512, record["physical"], record["min_io"], record["opt_io"], record["alignment_offset"])
    return make_geometry(limits), limits


@pytest.mark.parametrize("record", LAYOUTS, ids=lambda record: record["id"])
def test_real_layout(record):
    geometry, limits = geometry_of(record)
    logical, expect = limits.logical, record["expect"]
    starts = {part["n"]: part["start_sectors"] * logical for part in record["partitions"] if part["start_sectors"] is not None}
    off = [number for number, start in starts.items() if start % geometry.grain_bytes != geometry.offset_bytes]
    assert off == expect["misaligned_partitions"]
    if expect["by_reported_limits"] is not None and record["min_io"] is not None:
        reported = geometry.reported_grain.value
        phase = (geometry.alignment_offset.value or 0) % reported
        assert [number for number, start in starts.items() if start % reported != phase] == expect["by_reported_limits"]


@pytest.mark.parametrize("record", LAYOUTS, ids=lambda record: record["id"])
def test_real_layout_in_the_static_proof(record):
    """The same disks through the whole proof: a filesystem on each partition, and the partition named as the culprit."""
    _geometry, limits = geometry_of(record)
    for part in record["partitions"]:
        if part["start_sectors"] is None:
            continue
        host = Host()
        disk = host.disk(size=16 << 40, limits=limits)
        start = part["start_sectors"] * limits.logical
        devno = host.part(disk, start, 64 * MIB, number=part["n"])
        host.ext4(devno, "x")
        errors = [(finding.layer, finding.name) for finding in view(host.seen, devno).findings if finding.level == "error"]
        wanted = part["n"] in record["expect"]["misaligned_partitions"]
        assert errors == ([("partition", "nvme0n1p%d" % part["n"])] if wanted else [])


def test_enough_of_them():
    assert len(LAYOUTS) >= 20
