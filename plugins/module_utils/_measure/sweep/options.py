# SPDX-License-Identifier: GPL-3.0-or-later
"""What the offset sweep is asked for. Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB, is_power_of_two

FIRST_GRAIN = 4 * KIB
LAST_GRAIN = 64 * KIB
# A penalty of this much is looked for first, as it takes few reads: what is inconclusive behind that can still say that there is none so large.
# Pages that are read in two halves take half as long again and more, where a drive does not hide it.
COARSE = 1.25


class Options(NamedTuple):
    """What certainty is wanted, and what it may cost."""

    logical: int = 512  # bytes; the step between phases
    last_grain: int = LAST_GRAIN  # bytes; the largest grain that is looked for
    error: float = 1e-4  # the probability that a verdict is wrong
    min_ratio: float = 1.1  # the smallest penalty that matters, as a share of the latency of an aligned read
    max_bytes: int = 2048 * MIB  # a guard: what a search costs is time, and a share of the device's load


RANGES = (
    ("error", 1e-9, 0.05),
    ("min_ratio", 1.01, 10.0),
    ("max_seconds", 0.1, 3600.0),
    ("reads_per_second", 0, 10**6),
    ("max_share", 0.0001, 1.0),
    ("table_seconds", 1.0, 3600.0),
)
# What the module takes beside its target and what it does with it.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "max_grain": {"type": "str", "default": "64KiB"},
    "error": {"type": "float", "default": 0.0001},
    "min_ratio": {"type": "float", "default": 1.1},
    "max_bytes": {"type": "str", "default": "2GiB"},
    "max_seconds": {"type": "float", "default": 30},
    "reads_per_second": {"type": "int", "default": 2000},
    "cache_size": {"type": "str", "default": "2GiB"},
    "max_share": {"type": "float", "default": 0.02},
    "chunk_edges": {"type": "bool", "default": False},
    "table": {"type": "bool", "default": False},
    "table_seconds": {"type": "float", "default": 30},
}


class SweepLimits(NamedTuple):
    """What a sweep may cost others, and how long it may take."""

    max_seconds: float = 30.0
    reads_per_second: int = 2000
    max_share: float = 0.02
    cache: int = 0  # bytes that a cache in front of the flash may hold


def read_options(params: Mapping[str, Any]) -> Options:
    """The options of a sweep from a module's parameters. Raises PlumblineError for one that is out of range."""
    grain = parse_size(params["max_grain"], "max_grain")
    if not (is_power_of_two(grain) and FIRST_GRAIN <= grain <= LAST_GRAIN):
        raise PlumblineError("max_grain: %s; wanted a power of two from 4KiB to 64KiB" % params["max_grain"])
    _cache_size(params)
    for word, low, high in RANGES:
        if not low <= params[word] <= high:
            raise PlumblineError("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    return Options(last_grain=grain, error=params["error"], min_ratio=params["min_ratio"], max_bytes=parse_size(params["max_bytes"], "max_bytes"))


def read_limits(params: Mapping[str, Any]) -> SweepLimits:
    """The limits from a module's parameters, which read_options() has checked."""
    return SweepLimits(params["max_seconds"], params["reads_per_second"], params["max_share"], _cache_size(params))


def _cache_size(params: Mapping[str, Any]) -> int:
    return 0 if params["cache_size"] == "0" else parse_size(params["cache_size"], "cache_size")
