# SPDX-License-Identifier: GPL-3.0-or-later
"""What the trim measurement is asked for. Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import GIB, MIB, round_down

# What the module takes beside its target.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "scratch_size": {"type": "str", "default": "64MiB"},
    "min_ratio": {"type": "float", "default": 1.5},
    "max_seconds": {"type": "float", "default": 30},
}


class Options(NamedTuple):
    """*scratch*: bytes that are trimmed, and as many again beside them that are not; *seconds* of timed reads for each drive, at most."""

    scratch: int = 64 * MIB
    min_ratio: float = 1.5  # by which unmapped blocks are read faster
    seconds: float = 30.0


def read_options(params: Mapping[str, Any]) -> Options:
    """The options from a module's parameters. Raises PlumblineError for one that makes no sense."""
    scratch = round_down(parse_size(params["scratch_size"], "scratch_size"), MIB)
    if not 16 * MIB <= scratch <= 16 * GIB:
        raise PlumblineError("scratch_size: %s; wanted 16MiB to 16GiB" % params["scratch_size"])
    for word, low, high in (("min_ratio", 1.1, 100.0), ("max_seconds", 1.0, 3600.0)):
        if not low <= params[word] <= high:
            raise PlumblineError("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    return Options(scratch, params["min_ratio"], params["max_seconds"])
