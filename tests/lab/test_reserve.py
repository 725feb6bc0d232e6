# SPDX-License-Identifier: GPL-3.0-or-later
"""A reserve by target: what it comes to on real disks, and what is told of a stack that stands with another one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from labkit.bench import MIB, Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import assert_error, assert_refused, errors, said, stack

SIZE = 256 * MIB
DISKS = pool(["first", "second"], size="256MiB")
ASKED = {"target": {"wa": 3}}


@pytest.fixture(scope="module")
def built(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """A spec with a target, and its first plan; the stack stands."""
    spec = stack(plugged.values(), reserve=ASKED)
    plan = harness.build([spec])
    yield spec, plan
    bench.clean()


def bytes_of(harness: Harness, path: str) -> int:
    return int(harness.must(f"blockdev --getsize64 {path}"))


def test_the_partitions_are_as_long_as_the_formula_says(harness: Harness, built: tuple[dict[str, Any], dict[str, Any]], plugged: dict[str, Disk]) -> None:
    """12.04 % of 256 MiB are kept, and whole MiB are left behind the first."""
    kept = SIZE * (1 - 1.07 / (3 * math.log(3 / 2)))
    wanted = int((SIZE - kept - MIB) // MIB) * MIB
    assert [bytes_of(harness, disk.part()) for disk in plugged.values()] == [wanted] * 2 == [224 * MIB] * 2
    report = "\n".join(built[1]["report"])
    assert "pgdata: reserve 12.0 % (for a write amplification of 3.0; hidden space taken as 7 %) on " in report


@pytest.mark.parametrize(
    "reserve, level",
    [
        pytest.param(ASKED, "info", id="the-same"),
        pytest.param({"target": {"wa": 4}}, "info", id="less"),
        pytest.param({"target": {"wa": 1.5}}, "warning", id="more"),
        pytest.param({"measured": {"model": "another", "firmware": "1", "share": 0.1}}, "warning", id="of-another-model"),
    ],
)
def test_another_target_is_a_finding_and_writes_nothing(
    bench: Bench, harness: Harness, built: tuple[dict[str, Any], dict[str, Any]], reserve: dict[str, Any], level: str
) -> None:
    with bench.untouched():
        plan = harness.module("stack_plan", {"stacks": [{**built[0], "reserve": reserve}], "fail_if": "any", "lease": {}})
    assert not plan["failed"], said(plan)
    assert (plan["steps"], plan["changed"], errors(plan)) == ([], False, [])
    (found,) = [finding for finding in plan["findings"] if finding["layer"] == "reserve"]
    assert found["level"] == level and found["found"].startswith("12.1 %, write amplification 3.0 expected")
    told = [warning for warning in plan.get("warnings", []) if found["text"] in str(warning)]
    assert len(told) == (level == "warning"), plan.get("warnings")


def test_a_plain_share_is_drift_as_ever(bench: Bench, harness: Harness, built: tuple[dict[str, Any], dict[str, Any]]) -> None:
    with bench.untouched():
        assert_refused(harness, [{**built[0], "reserve": "35%"}], "by size and reserve", "can only be rebuilt")


def test_a_latency_and_another_model_are_refused(bench: Bench, harness: Harness, plugged: dict[str, Disk]) -> None:
    bench.clean()
    with bench.untouched():
        plan = harness.module("stack_plan", {"stacks": [stack(plugged.values(), reserve={"target": {"p99_write_ms": 2}})]})
        assert_error(plan, "a latency has no model, it needs a measurement")
        measured = {"measured": {"model": "another", "firmware": "1", "share": 0.1}}
        assert_refused(harness, [stack(plugged.values(), reserve=measured)], "and the reserve was measured on 'another' with firmware '1'")
