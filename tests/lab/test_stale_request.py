# SPDX-License-Identifier: GPL-3.0-or-later
"""aligned_partition with a plan that is no longer true: it proves again under its lock, and writes to neither device.

The second of two devices is the stale one, so that a first device written too early would show.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from labkit.bench import Bench, Disk, pool
from labkit.harness import Harness
from labkit.specs import assert_error, stack

MIB = 1 << 20
DISKS = pool(["good", "stale"])
Request = list[dict[str, Any]]

# What appeared on the device between plan and write.
APPEARED = {
    "ext4": ("mkfs.ext4 -q {d}", "[signature]"),
    "table": ("echo 'label: gpt' | sfdisk -q {d}", "[table]"),
    "pv": ("pvcreate -q {d}", "[pv]"),
    "data": ("printf x | dd of={d} bs=1 seek=30000000 conv=notrunc status=none", "[data]"),
    "read-only": ("blockdev --setro {d}", "[read_only]"),
    "holder": ("dmsetup create holder --table '0 2048 linear {d} 0'", "[busy]"),
}


def shift(key: str, value: Any) -> Callable[[Request], None]:
    """The request says something else about the second device."""

    def change(request: Request) -> None:
        request[1][key] = request[1][key] + value if isinstance(value, int) else value

    return change


# What the request says that the device does not, and the answer.
WRONG = {
    "size": (shift("size_bytes", MIB), "the size in bytes changed since the plan"),
    "diskseq": (shift("diskseq", 1), "the diskseq changed since the plan"),
    "identity": (shift("identity", "wwid:another"), "the identity changed since the plan"),
    "logical-block": (shift("logical_bytes", 3584), "the logical block changed since the plan"),
    "gone": (shift("device", "/dev/sdzzz"), "/dev/sdzzz"),
    "foreign-name": (shift("name", "somebody"), "partition name 'somebody' does not fit"),
    "half-a-sector": (shift("start_bytes", 100), "no positive multiple of the 512-byte block"),
    "in-the-first-mib": (shift("start_bytes", -MIB // 2), "do not lie between the first and the last MiB"),
    "over-the-end": (shift("length_bytes", 90 * MIB), "do not lie between the first and the last MiB"),
}


@pytest.fixture(scope="module")
def planned(harness: Harness, plugged: dict[str, Disk]) -> Request:
    """The request for both disks while they are blank."""
    plan = harness.module("stack_plan", {"stacks": [stack(plugged.values())], "through": "partition"})
    request: Request = plan["steps"][0]["devices"]
    return request


@pytest.mark.parametrize("name", WRONG)
def test_a_request_for_another_device(bench: Bench, harness: Harness, planned: Request, name: str) -> None:
    change, words = WRONG[name]
    request = copy.deepcopy(planned)
    change(request)
    with bench.untouched():
        assert_error(harness.module("aligned_partition", {"devices": request}), words)


@pytest.mark.parametrize("name", APPEARED)
def test_a_device_that_changed_since_the_plan(bench: Bench, harness: Harness, disks: dict[str, Disk], planned: Request, name: str) -> None:
    command, words = APPEARED[name]
    harness.must(command.format(d=disks["p1"].path))
    with bench.untouched():
        assert_error(harness.module("aligned_partition", {"devices": planned}), words)


def test_the_same_request_passes_while_nothing_changed(harness: Harness, disks: dict[str, Disk], planned: Request) -> None:
    """The counter-proof: none of the refusals above came from the request itself."""
    result = harness.module("aligned_partition", {"devices": planned})
    assert not result["failed"], result
    assert [one["start_bytes"] for one in result["partitions"]] == [MIB, MIB]
