# SPDX-License-Identifier: GPL-3.0-or-later
"""Specs as the tests write them, and what a refusal has to look like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .bench import Disk
from .harness import Harness


def stack(disks: Iterable[Disk], layout: str = "striped", volumes: int = 1, **more: Any) -> dict[str, Any]:
    """A stack of *volumes* equal volumes: of 30 % each where there are several, of all there is where there is one."""
    names = [disk.by_id for disk in disks]
    name = more.pop("name", "pgdata")
    count = len(names) if layout == "separate" else volumes
    made: list[dict[str, Any]] = [{"name": f"vol{number}", "mount": f"/pl/{name}{number}"} for number in range(count)]
    if layout == "striped" and count > 1:
        made = [{**volume, "size": "30%"} for volume in made]
    return {"name": name, "devices": names, "layout": layout, "volumes": made, **more}


def said(result: dict[str, Any]) -> str:
    """Everything that a failure tells a person."""
    return "\n".join([str(result.get("msg", "")), *result.get("reasons", [])])


def assert_error(result: dict[str, Any], *words: str) -> None:
    """A failure in one line, without traceback or steps, that says all of *words* somewhere."""
    assert result["failed"], f"not refused: {result.get('report')}"
    assert "\n" not in result["msg"], result["msg"]
    assert not result["traceback"], result["traceback"]
    assert "Traceback" not in said(result)
    assert not result.get("steps"), result["steps"]
    assert result.get("changed", False) is False
    for word in words:
        assert word in said(result), f"{word!r} is not in:\n{said(result)}"


def assert_refused(harness: Harness, stacks: list[dict[str, Any]], *words: str) -> dict[str, Any]:
    """The plan of these stacks is refused, and says all of *words*."""
    result = harness.module("stack_plan", {"stacks": stacks})
    assert_error(result, *words)
    return result


def errors(result: dict[str, Any]) -> list[tuple[str, str]]:
    """(layer, name) of the findings that fail a proof."""
    assert not result["failed"], said(result)
    return [(finding["layer"], finding["name"]) for finding in result["findings"] if finding["level"] == "error"]
