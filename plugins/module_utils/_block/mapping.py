# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the bytes of a device lie: followed down to the disks. Pure.

The mappings are the kernel's own: partitions from sysfs, device-mapper tables, md.
"""

from __future__ import annotations

import sys
from typing import Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span, join
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import round_down, round_up

# Deeper than any real stack; without a bound a loop in what the kernel reports would never end.
_MAX_DEPTH = 32


def starts(seen: Observation, devno: str, offset: int, depth: int = 0) -> List[Tuple[str, int]]:
    """Follow byte *offset* of a device down: (disk, byte there) for every leg; a mapping that cannot be followed is taken for a disk."""
    node = seen.nodes.get(devno)
    segment = _segment_at(node, offset) if node else None
    if segment is None or not segment.legs or depth > _MAX_DEPTH:
        return [(devno, offset)]
    places: List[Tuple[str, int]] = []
    for child, first in segment.legs:
        places += starts(seen, child, first + on_leg(segment, offset - segment.start), depth + 1)
    return places


def not_followed(seen: Observation, devno: str) -> List[Node]:
    """The mappings at or below a node whose bytes cannot be followed down: a thin pool, a cache, a snapshot, and whatever nobody listed."""
    return [seen.nodes[below] for level in levels_below(seen, devno) for below in level if is_blind(seen.nodes[below])]


def is_blind(node: Node) -> bool:
    if node.kind == "other":
        return True
    return bool(node.slaves) and node.kind != "mpath" and (not node.segments or not all(segment.legs for segment in node.segments))


def _segment_at(node: Node, offset: int) -> Optional[Segment]:
    for segment in node.segments:
        if segment.start <= offset < segment.start + segment.length:
            return segment
    return node.segments[-1] if node.segments else None


def on_leg(segment: Segment, within: int) -> int:
    """The byte of each leg, from where its part begins, at which byte *within* of a mapping lies."""
    if not segment.chunk:
        return within
    row = within // (segment.chunk * data_legs(segment))
    return row * segment.chunk + within % segment.chunk


def _from_leg(segment: Segment, within: int) -> int:
    """The reverse of on_leg(), for the first leg of a row."""
    if not segment.chunk:
        return within
    return within // segment.chunk * segment.chunk * data_legs(segment) + within % segment.chunk


def data_legs(segment: Segment) -> int:
    """How many legs carry data in one row: RAID 5 spends one on parity, RAID 6 two, RAID 10 half (md(4)). An absent leg carries its part all the same."""
    count = segment.width or len(segment.legs)
    return max({"raid5": count - 1, "raid4": count - 1, "raid6": count - 2, "raid10": count // 2}.get(segment.kind, count), 1)


def levels_below(seen: Observation, devno: str) -> List[List[str]]:
    """The nodes under a node and itself, by level: level 0 are the disks."""
    depths: Dict[str, int] = {}

    def depth(below: str, guard: int = 0) -> int:
        if below in depths or below not in seen.nodes or guard > _MAX_DEPTH:
            return depths.get(below, 0)
        children = list(dict.fromkeys(child for segment in seen.nodes[below].segments for child, _first in segment.legs))
        if not children and seen.nodes[below].slaves:
            children = list(seen.nodes[below].slaves)
        depths[below] = 1 + max(depth(child, guard + 1) for child in children) if children else 0
        return depths[below]

    top = depth(devno)
    return [[below for below, level in depths.items() if level == height] for height in range(top + 1)]


def pieces(seen: Observation, devno: str, depth: int = 0) -> List[int]:
    """The bytes of a node at which the mapping below it, on any level, begins anew."""
    node = seen.nodes.get(devno)
    edges = {0}
    for segment in node.segments if node and depth <= _MAX_DEPTH else ():
        edges.add(segment.start)
        for child, first in segment.legs:
            inner = [_from_leg(segment, at - first) for at in pieces(seen, child, depth + 1) if at > first]
            edges.update(segment.start + at for at in inner if at < segment.length)
    return sorted(edges)


def layouts(node: Node) -> List[Tuple[int, int]]:
    """(chunk in bytes, data legs) of the segments of a mapped device, each once; chunk 0 is none."""
    return list(dict.fromkeys((segment.chunk, data_legs(segment) if segment.chunk else 1) for segment in node.segments)) or [(0, 1)]


class Striping(NamedTuple):
    """A segment of a mapped device that deals its bytes out in chunks."""

    node: Node
    segment: Segment

    @property
    def layout(self) -> Tuple[int, int]:
        return self.segment.chunk, data_legs(self.segment)


def stripings(seen: Observation, devno: str) -> List[Striping]:
    """Every striped segment at or below a node, from the top down."""
    nodes = [seen.nodes[below] for level in reversed(levels_below(seen, devno)) for below in level]
    return [Striping(node, segment) for node in nodes for segment in node.segments if segment.chunk]


def nearest_stripings(seen: Observation, devno: str, depth: int = 0) -> List[Optional[Striping]]:
    """The striping that each run of a node's bytes meets first on its way down, each layout once; None for a run that meets none."""
    node = seen.nodes.get(devno)
    by_layout: Dict[Tuple[int, int], Optional[Striping]] = {}
    for segment in node.segments if node and depth <= _MAX_DEPTH else ():
        if segment.chunk:
            met: List[Optional[Striping]] = [Striping(seen.nodes[devno], segment)]
        else:
            met = nearest_stripings(seen, segment.legs[0][0], depth + 1) if segment.legs else [None]
        for striping in met:
            by_layout.setdefault(striping.layout if striping else (0, 1), striping)
    return list(by_layout.values()) or [None]


def chunk_below(seen: Observation, devno: str) -> Tuple[int, int, Optional[Node]]:
    """The nearest striping at or below a node: chunk bytes, data legs and the striped device."""
    striped = stripings(seen, devno)
    return (*striped[0].layout, striped[0].node) if striped else (0, 1, None)


def mapped_above(seen: Observation, disk: str, top: str = "") -> List[Node]:
    """The mapped devices (LVM, other device-mapper, md) through which a disk is used; with *top* those on the way from it to the disk."""

    def disks(devno: str) -> List[str]:
        return [node.devno for node in seen.disk_of(devno)]

    way = _all_below(seen, top) if top else list(seen.nodes)
    return [seen.nodes[devno] for devno in way if seen.nodes[devno].slaves and disk in disks(devno)]


def _all_below(seen: Observation, top: str) -> List[str]:
    """A node and all that it stands on."""
    below, todo = [], [top]
    while todo:
        node = seen.nodes.get(todo.pop())
        if node and node.devno not in below:
            below.append(node.devno)
            todo += list(node.slaves) + ([node.parent] if node.parent else [])
    return below


# RAID levels in which every leg holds the same, or a leg's address follows from the row alone.
_PLAIN_KINDS = ("part", "linear", "striped", "raid0", "raid1", "crypt", "delay", "flakey", "log-writes")


def straight(nodes: Mapping[str, Node], devno: str, offset: int, depth: int = 0) -> int:
    """How many bytes of a device, from *offset* on, lie side by side on one device at the bottom."""
    node = nodes.get(devno)
    segment = next((segment for segment in node.segments if segment.start <= offset < segment.start + segment.length), None) if node else None
    if node is None or depth > _MAX_DEPTH:
        return sys.maxsize  # nothing is known of it, so that it sets no bound
    if segment is None:
        return 0 if node.segments else max(node.size - offset, 0)
    within = offset - segment.start
    left = segment.length - within
    if segment.chunk:
        left = min(left, segment.chunk - within % segment.chunk)
    if segment.kind not in _PLAIN_KINDS or not segment.legs:
        return left
    leg, first = segment.legs[within // segment.chunk % len(segment.legs) if segment.chunk else 0]
    return min(left, straight(nodes, leg, first + on_leg(segment, within), depth + 1))


def spans_below(nodes: Mapping[str, Node], devno: str, spans: Iterable[Span]) -> Dict[str, List[Span]]:
    """Where spans of a device lie one level down, by device. Of a striped mapping only whole rows count."""
    by_leg: Dict[str, List[Span]] = {}
    for start, length in spans:
        for segment in nodes[devno].segments:
            low, high = max(start, segment.start) - segment.start, min(start + length, segment.start + segment.length) - segment.start
            if segment.chunk:
                row = segment.chunk * data_legs(segment)
                low, high = round_up(low, row), round_down(high, row)
            for leg, first in segment.legs if low < high else ():
                there = on_leg(segment, low)
                by_leg.setdefault(leg, []).append(Span(first + there, on_leg(segment, high) - there))
    return {leg: join(there) for leg, there in by_leg.items()}


def spread(nodes: Mapping[str, Node], devno: str, spans: Sequence[Span]) -> Dict[str, List[Span]]:
    """Where spans of a device lie on itself and on every device below it."""
    by_device: Dict[str, List[Span]] = {devno: join(spans)}
    todo = [(devno, 0)]
    while todo:
        device, depth = todo.pop(0)
        if device not in nodes or depth > _MAX_DEPTH:
            continue
        for leg, there in spans_below(nodes, device, by_device[device]).items():
            by_device[leg] = join([*by_device.get(leg, []), *there])
            todo.append((leg, depth + 1))
    return by_device
