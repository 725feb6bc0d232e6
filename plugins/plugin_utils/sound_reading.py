# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a reading that a host returned fits together, before anything is planned of it: each member has its type by now. Pure.

What a kernel shows hangs together: devices lie on devices that are there, and never on themselves. A host that says otherwise would have the
controller follow its mappings without an end.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError

# A host with 1,000 disks, each with a partition in a stack, has 2,400 devices.
MOST_NODES = 10_000
# Ways from a device down to its disks: a volume of 1,000 segments on 64 devices has 64,000.
MOST_WAYS = 1 << 16
MOST_MEMBERS = 1 << 12  # of an array of md; a superblock has room for fewer roles
MOST_WAYS_OF_ALL = 1 << 18  # of all devices together, each way once for each device that a filesystem of several has
_NO_READING = "what the host returned does not fit together: "


def check_reading(seen: Observation) -> None:
    """Raise PlumblineError that names the first thing that does not fit."""
    if len(seen.nodes) > MOST_NODES:
        raise PlumblineError(f"{_NO_READING}found {len(seen.nodes):,} block devices; wanted at most {MOST_NODES:,}")
    for devno, node in seen.nodes.items():
        if node.devno != devno:
            raise PlumblineError(f"{_NO_READING}device {devno} calls itself {node.devno}")
        _check_numbers(node)
    for devno, raid in seen.raids.items():
        if min(raid.done, raid.total, raid.mismatches or 0) < 0:
            raise PlumblineError(f"{_NO_READING}the array {devno} has a number below 0")
    arrays = [(array.disks, array.chunk, array.component) for array in seen.md_arrays]
    arrays += [(found.disks, found.chunk, found.data_offset) for found in seen.md_superblocks.values()]
    for disks, *sizes in arrays:
        if not 0 <= disks <= MOST_MEMBERS or min(sizes) < 0:
            raise PlumblineError(f"{_NO_READING}an array of md has {disks:,} members, or a size below 0; wanted at most {MOST_MEMBERS:,}")
    for path, devno in seen.paths.items():
        if devno not in seen.nodes:
            raise PlumblineError(f"{_NO_READING}{path} leads to device {devno}, which is not there")
    for devno, space in seen.namespaces.items():
        if not _is_namespace(space):
            raise PlumblineError(f"{_NO_READING}the Identify Namespace of device {devno} is none")
    _check_ways(seen)


def _check_numbers(node: Node) -> None:
    of_segments = [(segment.start, segment.length, segment.chunk, segment.width, segment.degraded) for segment in node.segments]
    numbers = [node.size, node.start, *(number for segment in of_segments for number in segment)]
    if min(numbers) < 0:
        raise PlumblineError(f"{_NO_READING}device {node.devno} has a size, an address or a chunk below 0")


def _is_namespace(space: Mapping[str, Any]) -> bool:
    """Whether this may be what parse_id_ns() reads: small numbers, and formats of such."""
    formats = space.get("lbafs") or []
    small = [space.get("dlfeat", 0), *(one.get(key) for one in formats if isinstance(one, Mapping) for key in ("ms", "ds", "rp"))]
    return isinstance(formats, list) and all(isinstance(one, Mapping) for one in formats) and all(map(_is_small, small))


def _is_small(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 16


def _below(seen: Observation, node: Node) -> Iterator[str]:
    """The devices on which a device lies, one as often as there are ways to it."""
    found = [leg for segment in node.segments for leg, _first in segment.legs] or list(node.slaves)
    for devno in [*found, *([node.parent] if node.parent else [])]:
        if devno in seen.nodes:
            yield devno


def _check_ways(seen: Observation) -> None:
    """Whether each device lies on others in a bounded number of ways, and none on itself."""
    below = {devno: list(_below(seen, node)) for devno, node in seen.nodes.items()}
    ways: dict[str, int] = {}
    every = sum(map(len, seen.members.values()))
    for top in below:
        todo, open_now = [top], set()
        while todo:
            devno = todo[-1]
            left = [one for one in below[devno] if one not in ways] if devno not in ways else []
            if devno in ways or not left:
                if devno not in ways:
                    ways[devno] = sum(ways[one] for one in below[devno]) or 1
                    every += ways[devno]
                open_now.discard(devno)
                todo.pop()
                if ways[devno] > MOST_WAYS:
                    raise PlumblineError(f"{_NO_READING}device {devno} lies on its disks in more than {MOST_WAYS:,} ways")
                if every > MOST_WAYS_OF_ALL:
                    raise PlumblineError(f"{_NO_READING}its devices lie on their disks in more than {MOST_WAYS_OF_ALL:,} ways")
                continue
            open_now.add(devno)
            if open_now.intersection(left):
                raise PlumblineError(f"{_NO_READING}device {devno} lies on itself")
            todo += dict.fromkeys(left)
    if every + sum(ways.get(devno, 1) for members in seen.members.values() for devno in members) > MOST_WAYS_OF_ALL:
        raise PlumblineError(f"{_NO_READING}its devices lie on their disks in more than {MOST_WAYS_OF_ALL:,} ways")
