# SPDX-License-Identifier: GPL-3.0-or-later
"""A stack that stands: what its plan still wants to do, and the files on its volumes before and after."""

from __future__ import annotations

from typing import Any

from .harness import Harness
from .specs import said


def actions(harness: Harness, spec: dict[str, Any]) -> list[str]:
    """What is left to be done."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    return [step["action"] for step in plan["steps"]]


def carried_out(harness: Harness, spec: dict[str, Any]) -> list[str]:
    """All steps of a plan carried out in its order; none is left. Their actions."""
    plan = harness.module("stack_plan", spec)
    assert not plan["failed"], said(plan)
    for step in plan["steps"]:
        harness.apply([step])
    assert actions(harness, spec) == []
    return [step["action"] for step in plan["steps"]]


def fill(harness: Harness, *mounts: str, name: str = "contents") -> str:
    """A file on each mount; their digests."""
    write = "".join(f"dd if=/dev/urandom of={mount}/{name} bs=1M count=20 conv=fsync status=none; " for mount in mounts)
    return harness.must(f"{write} sha256sum {' '.join(f'{mount}/{name}' for mount in mounts)}")


def contents(harness: Harness, *mounts: str, name: str = "contents") -> str:
    """The digests of the same, read from the disks."""
    return harness.must(f"sync; echo 3 > /proc/sys/vm/drop_caches; sha256sum {' '.join(f'{mount}/{name}' for mount in mounts)}")
