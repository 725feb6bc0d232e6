# SPDX-License-Identifier: GPL-3.0-or-later
"""What the throughput measurement is asked for. Pure."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError, nearest
from ansible_collections.plumbline.ssd.plugins.module_utils._core.read_sizes import parse_size
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import KIB, MIB

READS = ("seq_read", "rand_read")
WRITES = ("seq_write", "rand_write")
JOBS = READS + WRITES
SEQUENTIAL = MIB  # bytes of a request
RANDOM = 8 * KIB
# What the module takes beside its target and what it does with it.
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "min_share": {"type": "float", "default": 0.9},
    "precision": {"type": "float", "default": 0.05},
    "confidence": {"type": "float", "default": 0.95},
    "max_cpu": {"type": "float", "default": 0.5},
    "depth": {"type": "int", "default": 32},
    "writers": {"type": "int", "default": 6},
    "block_seconds": {"type": "float", "default": 1},
    "max_seconds": {"type": "float", "default": 120},
    "max_bytes": {"type": "str", "default": "0"},
    "span": {"type": "str", "default": "8GiB"},
    "scratch_size": {"type": "str", "default": "256MiB"},
    "nomerges": {"type": "bool", "default": False},
}
# Pairs of blocks before the first look at a share. All orders are the same by chance in 2 of 64 cases: a load that resonates is then not seen by the scatter.
FIRST_LOOK = 6
ANY_TARGET: Mapping[str, Any] = {"volumes": [], "paths": ["/"], "write": False, "jobs": [], "baseline": None, "reuse_baseline": False}


class ShareOptions(NamedTuple):
    """What is wanted of a share."""

    min_share: float = 0.90
    precision: float = 0.05  # half the width of the interval
    error: float = 0.05  # the probability that the interval misses the share, over all looks together
    max_cpu: float = 0.5


class Options(NamedTuple):
    """The options of a measurement. Sizes in bytes, times in seconds."""

    jobs: Tuple[str, ...]
    share: ShareOptions
    write: bool = False
    depth: int = 32  # requests outstanding for each leg
    writers: int = 6
    block_seconds: float = 1.0
    max_seconds: float = 120.0
    max_bytes: int = 0  # 0: no limit
    span: int = 8 << 30
    scratch: int = 256 * MIB
    nomerges: bool = False
    baseline: str = ""
    reuse: bool = False
    keep: bool = True  # whether the baseline may be written


def read_options(params: Mapping[str, Any]) -> Options:
    """The options from a module's parameters. Raises PlumblineError for one that is out of range or contradicts another."""
    if bool(params["volumes"]) == bool(params["paths"]):
        raise PlumblineError("volumes, paths: wanted one of them: block devices, or mount points")
    if params["paths"] and params["write"]:
        raise PlumblineError("write: true destroys the contents of volumes; with paths only reads are measured")
    allowed = JOBS if params["write"] else READS
    jobs = tuple(dict.fromkeys(params["jobs"] or allowed))
    for job in jobs:
        if job not in JOBS:
            raise PlumblineError("jobs: '%s'; wanted some of %s%s" % (job, ", ".join(JOBS), nearest(job, JOBS)))
        if job not in allowed:
            raise PlumblineError("jobs: %s writes; that takes write: true, which destroys the contents of the volumes" % job)
    for word, low, high in _NUMBERS:
        if not low <= params[word] <= high:
            raise PlumblineError("%s: %g; wanted %g to %g" % (word, params[word], low, high))
    if params["reuse_baseline"] and not params["baseline"]:
        raise PlumblineError("reuse_baseline: true takes a baseline: the path of its file")
    sizes = {word: parse_size(params[word], word) for word in ("span", "scratch_size", "max_bytes")}
    for word in ("span", "scratch_size"):
        if sizes[word] < 16 * MIB:
            raise PlumblineError("%s: %s; wanted at least 16MiB, or caches are measured" % (word, params[word]))
    if params["baseline"] and not params["baseline"].startswith("/"):
        raise PlumblineError("baseline: %s; wanted an absolute path in a directory that exists on the host" % params["baseline"])
    return Options(
        jobs=jobs,
        share=ShareOptions(params["min_share"], params["precision"], 1 - params["confidence"], params["max_cpu"]),
        write=params["write"],
        depth=params["depth"],
        writers=params["writers"],
        block_seconds=params["block_seconds"],
        max_seconds=params["max_seconds"],
        max_bytes=sizes["max_bytes"],
        span=sizes["span"],
        scratch=sizes["scratch_size"] // MIB * MIB,
        nomerges=params["nomerges"],
        baseline=params["baseline"] or "",
        reuse=params["reuse_baseline"],
    )


_NUMBERS = (
    ("min_share", 0.01, 2.0),
    ("precision", 0.001, 0.5),
    ("confidence", 0.5, 0.9999),
    ("max_cpu", 0.05, 1.0),
    ("depth", 1, 1024),
    ("writers", 1, 64),
    ("block_seconds", 0.2, 600.0),
    ("max_seconds", 1.0, 86400.0),
)
