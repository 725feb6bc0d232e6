# SPDX-License-Identifier: GPL-3.0-or-later
"""One machine for all tests of this folder; each test file declares its disks in DISKS."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
for place in (HERE, HERE.parents[1] / "molecule" / "lab", HERE.parents[1] / "playbooks" / "collections"):
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))

from labkit.bench import Bench, Disk
from labkit.databases import Waits
from labkit.harness import Harness
from plumblab.paths import Paths


def minutes_of(item: pytest.Item) -> float:
    """About how long a test takes: what its mark `long` says (a minute where it says nothing), and a few seconds where there is none."""
    mark = item.get_closest_marker("long")
    return 0.1 if mark is None else float(mark.kwargs.get("minutes", 1))


def part_of(items: list[pytest.Item], number: int, of: int) -> list[pytest.Item]:
    """The K-th of N pieces that take about as long, in the tests' own order, since neighbours share their disks."""
    whole, before, found = sum(map(minutes_of, items)), 0.0, []
    for item in items:
        if min(int(before / whole * of), of - 1) + 1 == number:
            found.append(item)
        before += minutes_of(item)
    return found


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests marked `long` run where PLUMBLINE_ALL=1 is set; PLUMBLINE_PART=2/4 leaves one part of all."""
    if os.environ.get("PLUMBLINE_ALL") != "1":
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="long: set PLUMBLINE_ALL=1"))
    if part := os.environ.get("PLUMBLINE_PART"):
        number, of = map(int, part.split("/"))
        kept = part_of(items, number, of)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Some of the tests may have none that measures, or none but those; all of them cannot."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and {"PLUMBLINE_CHANGED", "PLUMBLINE_PART"} & os.environ.keys():
        session.exitstatus = pytest.ExitCode.OK


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
    machine.end()


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


@pytest.fixture
def declared(request: pytest.FixtureRequest, bench: Bench) -> Iterator[dict[str, Disk]]:
    """The disks of DISKS as the file declares them, for tests that make some larger: those are others after that."""
    yield bench.replace(request.module.DISKS)
    bench.clean()


@pytest.fixture
def waits() -> Iterator[Waits]:
    """What a database waits for in this test, printed at its end."""
    rows = Waits()
    yield rows
    print(f"\n\n{rows}")
