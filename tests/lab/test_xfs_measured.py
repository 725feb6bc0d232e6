# SPDX-License-Identifier: GPL-3.0-or-later
"""What is measured through an XFS of ours: a sweep of a file, a trim that reaches the drives, synchronous writes, and drives that are honest about flushes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from labkit import sweeps
from labkit.bench import MIB, Bench, Disk
from labkit.harness import Harness
from labkit.specs import said
from test_honesty import HONEST, IGNORING

pytestmark = [pytest.mark.measured, pytest.mark.long(minutes=2)]
KIB = 1 << 10
PAGE = 16 * KIB
# Reads that take a page each, so that a sweep sees where pages begin.
READ = {"page_size": PAGE, "channels": 2, "program_us": 300, "read_us": 2500, "transfer_us": 10, "straddle_parallel": 0}
KINDS = {"honest": HONEST, "ignoring": IGNORING, "read": READ}
DISKS = [
    {"name": f"{kind}{leg}", "bus": "scsi", "size": "400MiB", "serial": f"XFS{kind.upper()}{leg}", "physical_block_size": 4096, "simulated": settings}
    for kind, settings in KINDS.items()
    for leg in (0, 1)
]
MOUNT = "/pl/data"


@pytest.fixture
def legs(request: pytest.FixtureRequest, bench: Bench, harness: Harness, declared: dict[str, Disk]) -> Iterator[list[Disk]]:
    """Two drives of a kind with an XFS of ours across them."""
    disks = [declared[f"{request.param}{leg}"] for leg in (0, 1)]
    geometry = [{"device": disk.by_id, "grain": f"{PAGE if request.param == 'read' else 4 * KIB}B"} for disk in disks]
    volume = {"name": "data", "mount": MOUNT, "filesystem": "xfs"}
    harness.build([{"name": "pgdata", "devices": [disk.by_id for disk in disks], "volumes": [volume], "geometry": geometry}])
    yield disks
    bench.clean()


@pytest.mark.parametrize("legs", ["read"], indirect=True)
@pytest.mark.parametrize("phase", [0, 4 * KIB])
def test_a_sweep_of_a_file(bench: Bench, harness: Harness, legs: list[Disk], phase: int) -> None:
    harness.must(f"dd if=/dev/urandom of={MOUNT}/file bs=1M count=64 conv=fsync status=none")
    bench.change(*legs, page_phase=phase)
    found = sweeps.sweep(harness, f"{MOUNT}/file")
    assert (found["verdict"], found["grain_bytes"], found["phase_bytes"]) == ("phase", PAGE, phase), found["report"]


@pytest.mark.parametrize("legs", ["honest"], indirect=True)
def test_a_trim_reaches_the_drives(bench: Bench, harness: Harness, legs: list[Disk]) -> None:
    def prove() -> dict[str, Any]:
        found = harness.module("fstrim_proof", {"path": MOUNT})
        assert not found["failed"], said(found)
        return found

    found = prove()
    assert (found["trim"], found["verdict"], found["reasons"]) == ("reached", "pass", []), found["report"]
    assert all(one["counted_bytes"] >= 0.99 * one["asked_bytes"] >= 8 * MIB for one in found["drives"]), found["drives"]
    bench.change(legs[1], trim="ignore")
    found = prove()
    assert found["verdict"] != "pass", found["report"]


@pytest.mark.parametrize(("legs", "wanted"), [("honest", "honest"), ("ignoring", "ignores_flushes_perhaps")], indirect=["legs"])
def test_synchronous_writes_and_honesty(harness: Harness, legs: list[Disk], wanted: str) -> None:
    classes: list[str] = []
    while not classes or (classes[-1] == "unclear" and len(classes) < sweeps.TRIES):
        found = harness.module("sync_latency", {"path": MOUNT, "rows": ["fdatasync", "fsync"], "cache_states": True}, timeout=300)
        assert not found["failed"], said(found)
        assert all(row["ops_per_sec"] > 0 for row in found["rows"])
        classes.append(found["cache_states"]["honesty"]["class"])
        print(f"\nxfs, {wanted}: {classes[-1]}: {found['cache_states']['honesty']['text']}")
    assert classes[-1] == wanted, classes
