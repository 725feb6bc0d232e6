# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps as the tests make them: with more time on a host that is too slow for a certain answer, and no answer told from a wrong one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from .harness import Harness
from .specs import said

TRIES = 3


def uncertain(found: Mapping[str, Any]) -> bool:
    """Whether the sweep, or that of one of its layers, came to no verdict."""
    return "inconclusive" in (found.get("verdict"), *(layer["verdict"] for layer in found.get("layers", ())))


def until_certain(measure: Callable[[float], dict[str, Any]], seconds: float = 60) -> dict[str, Any]:
    """What *measure* finds in so many seconds; in twice as many, and again, where that was too little for a verdict."""
    for number in range(TRIES):
        found = measure(seconds * 2**number)
        if not uncertain(found):
            return found
    pytest.fail(f"no verdict, and none that is wrong: {TRIES} sweeps of up to {seconds * 2 ** (TRIES - 1):.0f} s were inconclusive: {found['report']}")


def sweep(harness: Harness, device: str, **options: Any) -> dict[str, Any]:
    """A sweep that has come to a verdict. *options* are offset_sweep's."""

    def measure(seconds: float) -> dict[str, Any]:
        found = harness.module("offset_sweep", {"device": device, "max_seconds": seconds, "cache_size": "0", **options}, timeout=10 * seconds)
        assert not found["failed"], said(found)
        assert not found["traceback"]
        return found

    return until_certain(measure)
