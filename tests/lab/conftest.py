# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine for all tests of this folder; each test file declares its disks in DISKS."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for place in (HERE, HERE.parents[1] / "molecule" / "lab"):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

from labkit.bench import Bench, Disk
from labkit.harness import Harness
from plumblab.paths import Paths


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `long` run where PLUMBLINE_ALL=1 is set."""
    if os.environ.get("PLUMBLINE_ALL") == "1":
        return
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.skip(reason="long: set PLUMBLINE_ALL=1"))


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """The machine, up, with the harness connected; its disks are gone afterwards."""
    paths = Paths.from_environment()
    harness = Harness(paths)
    machine = Bench(paths, harness)
    machine.up()
    harness.connect()
    machine.replace([])
    yield machine
    machine.replace([])
    harness.close()


@pytest.fixture(scope="session")
def harness(bench: Bench) -> Harness:
    """The modules' entry points in the guest."""
    return bench.guest


@pytest.fixture(scope="module")
def plugged(request: pytest.FixtureRequest, bench: Bench) -> dict[str, Disk]:
    """The disks that the test file declares in DISKS, empty."""
    return bench.replace(request.module.DISKS)


@pytest.fixture
def disks(bench: Bench, plugged: dict[str, Disk]) -> Iterator[dict[str, Disk]]:
    """The same, emptied again after each test."""
    yield plugged
    bench.clean()
