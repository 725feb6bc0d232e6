# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bytes of which legs a volume's bytes lie on, and how a load is dealt over them. Pure; all in bytes.

A volume is loaded through itself, and its legs directly, over the same bytes. So that the load on a leg is aligned whatever
the volume is, a leg's range is rounded inwards to whole units behind the disk's own alignment offset.
"""

from __future__ import annotations

from typing import Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Segment
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import data_legs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human, lcm, round_down, round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place

UNIT = MIB
# A mapping whose bytes are those below, one for one, or on each of its copies: only these can be followed. Nothing is hidden or moved behind our back.
FOLLOWED = frozenset(("part", "linear", "striped", "raid0", "raid10"))
MOST_PIECES = 8  # of one volume; a file in more extents than that is loaded on its largest
_MAX_DEPTH = 32


class LegPiece(NamedTuple):
    """A run of bytes of a leg: *start* on the node that is loaded (a partition, or the disk itself), *at* on the disk."""

    disk: str  # device number
    node: str  # device number
    start: int
    at: int
    length: int


class Mapped(NamedTuple):
    """What is loaded of one volume, and the bytes of its legs that it lies on."""

    spans: Tuple[Span, ...]
    pieces: Tuple[LegPiece, ...]


def map_volume(nodes: Mapping[str, Node], devno: str, loaded: Sequence[Span]) -> Mapped:
    """Follow the *loaded* bytes of a volume to its legs. They are rounded inwards to whole rows of a stripe and to whole units.

    Raises PlumblineError where a layer between them does not map byte for byte, or nothing is left after rounding.
    """
    spans: List[Span] = []
    for span in largest(loaded):
        spans += _inwards(nodes, devno, span)
    if not spans:
        asked = sum(span.length for span in loaded)
        raise PlumblineError("%s: %s in %d pieces hold no whole row of its stripes; load more of it" % (nodes[devno].path, human(asked), len(loaded)))
    pieces = [piece for span in spans for piece in _down(nodes, devno, span)]
    return Mapped(tuple(spans), tuple(_join(pieces)))


def largest(spans: Sequence[Span]) -> List[Span]:
    """The largest spans, as many as can be loaded, in their order on the device."""
    chosen = sorted(spans, key=lambda span: -span.length)[:MOST_PIECES]
    return sorted(chosen)


def _segments(nodes: Mapping[str, Node], devno: str) -> Tuple[Segment, ...]:
    """The mapping of a node; empty for what is loaded itself. Raises PlumblineError for one that cannot be followed."""
    node = nodes[devno]
    if node.kind in ("disk", "loop", "mpath"):
        return ()
    if not node.segments or node.kind == "other":
        raise PlumblineError(
            "%s: a %s device, whose bytes cannot be followed to its disks; wanted a disk, a partition, or a linear or striped volume" % (node.path, node.kind)
        )
    for segment in node.segments:
        if segment.kind not in FOLLOWED or not segment.legs or any(leg not in nodes for leg, _first in segment.legs):
            raise PlumblineError("%s: its bytes cannot be followed through a mapping of kind %s; wanted linear or striped" % (node.path, segment.kind))
        if segment.width > len(segment.legs) or segment.degraded:
            text = "%s: %s without all of its members is not measured; replace what is gone, and measure when they are in sync"
            raise PlumblineError(text % (node.path, segment.kind))
    return node.segments


def copies_of_bytes(nodes: Mapping[str, Node], devno: str, depth: int = 0) -> int:
    """How often each byte of a volume is written: what all mappings below it have of copies, at the fewest."""
    found = [1]
    for segment in nodes[devno].segments if devno in nodes and depth <= _MAX_DEPTH else ():
        found.append((2 if segment.kind == "raid10" else 1) * min((copies_of_bytes(nodes, leg, depth + 1) for leg, _first in segment.legs), default=1))
    return min(found[1:], default=1)


def _row(segment: Segment) -> int:
    return segment.chunk * data_legs(segment) if segment.chunk else 1


def _inwards(nodes: Mapping[str, Node], devno: str, span: Span) -> List[Span]:
    """The whole rows and units within a span of a volume, one span for each segment that it touches."""
    spans = []
    node = nodes[devno]
    if span.start < 0 or span.end > node.size:
        raise PlumblineError("%s: bytes %d to %d lie outside of its %d" % (node.path, span.start, span.end, node.size))
    for segment in _segments(nodes, devno) or (Segment(0, node.size, "whole", 0, ()),):
        unit = lcm(UNIT, _row(segment))
        first = round_up(max(span.start, segment.start) - segment.start, unit)
        last = round_down(min(span.end, segment.start + segment.length) - segment.start, unit)
        if last > first:
            spans.append(Span(segment.start + first, last - first))
    return spans


def _down(nodes: Mapping[str, Node], devno: str, span: Span, depth: int = 0) -> List[LegPiece]:
    """The pieces of the legs under a span of a node. Below the first layer only whole rows count, which loses part of a row at most."""
    node = nodes[devno]
    if depth > _MAX_DEPTH:
        raise PlumblineError("%s: more than %d layers below it" % (node.path, _MAX_DEPTH))
    if node.kind == "part":
        ((parent, first),) = _segments(nodes, devno)[0].legs
        if nodes[parent].kind in ("disk", "loop", "mpath"):
            return [LegPiece(parent, devno, span.start, first + span.start, span.length)]
    segments = _segments(nodes, devno)
    if not segments:
        return [LegPiece(devno, devno, span.start, span.start, span.length)]
    pieces: List[LegPiece] = []
    for segment in segments:
        first = max(span.start, segment.start) - segment.start
        last = min(span.end, segment.start + segment.length) - segment.start
        row = _row(segment)
        first, last = round_up(first, row), round_down(last, row)
        if last <= first:
            continue
        share = data_legs(segment) if segment.chunk else 1
        for leg, base in segment.legs:
            pieces += _down(nodes, leg, Span(base + first // share, (last - first) // share), depth + 1)
    return pieces


def _join(pieces: Sequence[LegPiece]) -> List[LegPiece]:
    """Neighbouring pieces of one node as one."""
    joined: List[LegPiece] = []
    for piece in sorted(pieces):
        before = joined[-1] if joined else None
        if before and before.node == piece.node and before.start + before.length >= piece.start:
            joined[-1] = before._replace(length=max(before.length, piece.start + piece.length - before.start))
        else:
            joined.append(piece)
    return joined


def round_piece(piece: LegPiece, offset: int, unit: int = UNIT) -> LegPiece:
    """The part of a piece that begins and ends on whole units behind the disk's alignment *offset*; its length may be 0."""
    first = round_up(max(piece.at - offset, 0), unit) + offset
    last = round_down(max(piece.at + piece.length - offset, 0), unit) + offset
    return piece._replace(start=piece.start + first - piece.at, at=first, length=max(last - first, 0))


def legs(nodes: Mapping[str, Node], mapped: Sequence[Mapped]) -> Dict[str, List[LegPiece]]:
    """The aligned pieces on each disk, by its device number, of all volumes together.

    Raises PlumblineError where the kernel does not know a disk's alignment, a leg has no whole unit, or two volumes share bytes.
    """
    pieces_of: Dict[str, List[LegPiece]] = {}
    joined = _join([piece for volume in mapped for piece in volume.pieces])
    for devno in {piece.disk for piece in joined}:
        asked = sorted((piece.at, piece.at + piece.length) for volume in mapped for piece in volume.pieces if piece.disk == devno)
        if any(asked[number][1] > asked[number + 1][0] for number in range(len(asked) - 1)):
            raise PlumblineError("%s: two of the volumes lie on the same bytes of it; name volumes that lie side by side" % nodes[devno].path)
    for piece in joined:
        node = nodes[piece.disk]
        offset = node.limits.alignment_offset or 0
        if offset < 0:
            raise PlumblineError("%s: the kernel does not know how it is aligned (alignment_offset -1), so no load on it is known to be aligned" % node.path)
        whole = pieces_of.setdefault(piece.disk, [])
        rounded = round_piece(piece, offset)
        if rounded.length:
            whole.append(rounded)
    for devno, pieces in pieces_of.items():
        if not pieces:
            raise PlumblineError("%s: the volumes hold no whole %s of it; load more of them" % (nodes[devno].path, human(UNIT)))
    return pieces_of


def jobs_for(at_least: int, sides: Sequence[Sequence[int]]) -> int:
    """How many jobs load each side: at least so many, an equal number for every device, and one for every piece.

    *sides*: for the volumes, and for the legs, the number of pieces on each device.
    """
    unit = lcm(*(len(side) for side in sides))
    return round_up(max([at_least] + [len(side) * max(side) for side in sides]), unit)


def deal(places: Sequence[Place], count: int, unit: int = UNIT) -> List[Place]:
    """*count* runs that do not overlap, of a length in whole units: every place is cut into as many as is its share.

    Raises PlumblineError where the places are too small for that.
    """
    total = sum(place.length for place in places)
    cuts = [1] * len(places)
    for _turn in range(count - len(places)):
        number = max(range(len(places)), key=lambda at: places[at].length / cuts[at])
        cuts[number] += 1
    dealt = []
    for place, parts in zip(places, cuts):
        length = round_down(place.length // parts, unit)
        if length < unit:
            raise PlumblineError("%s: %s are too few for %d jobs; load more of the volumes" % (place.path, human(total), count))
        dealt += [place._replace(start=place.start + part * length, length=length) for part in range(parts)]
    return dealt


def edges(nodes: Mapping[str, Node], devno: str, span: Span, size: int) -> List[Tuple[int, str, int]]:
    """Places of *size* bytes near both ends of a span: (byte on the volume, node, byte there), one for each leg at each end.

    Comparing what both places hold shows whether the mapping is understood.
    """
    places = []
    for segment in _segments(nodes, devno) or (Segment(0, nodes[devno].size, "whole", 0, ()),):
        if not segment.start <= span.start < segment.start + segment.length:
            continue
        step = segment.chunk or size
        count = data_legs(segment) if segment.chunk else 1
        for number in range(count):
            for at in (span.start + number * step, span.end - number * step - size):
                node, byte = locate_byte(nodes, devno, at)
                places.append((at, node, byte))
    return places


def locate_byte(nodes: Mapping[str, Node], devno: str, byte: int, depth: int = 0) -> Tuple[str, int]:
    """On which loaded node, and where on it, a byte of a volume lies. Written apart from map_volume(), which it checks."""
    segments = _segments(nodes, devno)
    if not segments or depth > _MAX_DEPTH:
        return devno, byte
    if nodes[devno].kind == "part" and nodes[nodes[devno].parent].kind in ("disk", "loop", "mpath"):
        return devno, byte
    for segment in segments:
        if segment.start <= byte < segment.start + segment.length:
            within = byte - segment.start
            if not segment.chunk:
                return locate_byte(nodes, segment.legs[0][0], segment.legs[0][1] + within, depth + 1)
            chunk, rest = divmod(within, segment.chunk)
            row, place = divmod(chunk, data_legs(segment))
            leg, first = segment.legs[place * (len(segment.legs) // data_legs(segment))]
            return locate_byte(nodes, leg, first + row * segment.chunk + rest, depth + 1)
    raise PlumblineError("%s: byte %d is mapped nowhere" % (nodes[devno].path, byte))
