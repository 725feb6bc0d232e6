# SPDX-License-Identifier: GPL-3.0-or-later
"""Discard the bytes of a device that is held open, in steps, or make all of it blank. I/O.

A discard is a hint: a drive may round it inwards to its own granules (Documentation/ABI/stable/sysfs-block, discard_granularity).
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any, Dict, List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, read_blank_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import GIB, MIB, lcm, round_down

STEP = 64 * GIB  # one ioctl cannot be interrupted
ZERO_STEP = GIB  # nor this one, which may write


def discard_steps(span: Span, granularity: int, alignment: int) -> List[Span]:
    """A span of a device in pieces of about STEP bytes, end to end. Only its two ends may cut a granule.

    Every edge between them is ≡ *alignment* (mod *granularity*), both in bytes, which is where the kernel cuts as well (bio_discard_limit()).
    """
    inner = [round_down(at - alignment, granularity) + alignment for at in range(span.start + STEP, span.end, STEP)]
    firsts = [span.start, *(at for at in inner if at > span.start)]
    return [Span(first, last - first) for first, last in zip(firsts, [*firsts[1:], span.end])]


def owned(size: int) -> Span:
    """What is discarded of a device of *size* bytes: everything between the first and the last MiB, which hold the two copies of the table."""
    return Span(MIB, max(round_down(size, MIB) - 2 * MIB, 0))


def discard_span(node: Node, fd: int, span: Span) -> int:
    """Discard a span of the open device, step by step. Returns how many bytes: 0 where the device takes no discards.

    Whoever calls has proven the span blank, or may erase it, and holds the device. Raises PlumblineError where a step fails.
    """
    limits, done = node.limits, 0
    if not node.discard_max:
        return done
    granularity, alignment = lcm(limits.discard_granularity or 1, limits.logical), max(limits.discard_alignment or 0, 0)
    if granularity > STEP or alignment % limits.logical:  # no edge between steps could be where such granules are
        granularity, alignment = limits.logical, 0
    tell = read_blank_proof.Progress("discard of %s" % node.path, span.length)
    for step in discard_steps(span, granularity, alignment):
        try:
            block_device.discard(fd, step.start, step.length)
        except OSError as fault:
            if fault.errno == errno.EOPNOTSUPP and not done:
                return done
            text = "%s: the discard failed at byte %d, after %d of %d bytes: %s"
            raise PlumblineError(text % (node.path, step.start, done, span.length, fault.strerror or fault)) from fault
        done += step.length
        tell(step.length)
    return done


def make_blank(node: Node, fd: int, job: Dict[str, Any], discarding: bool = True, starts: Sequence[int] = ()) -> None:
    """Erase a device that we hold. *job*: the arguments of its blank proof; *starts*: bytes at which something is to begin.

    A discard is quick, and most SSDs return zeros afterwards; but it is a hint, so both ends and the places where volumes begin are zeroed in any
    case, and where the blank proof still finds something, all of the device is. Raises PlumblineError where it does not come blank.
    """
    size = node.size
    if discarding:
        with contextlib.suppress(PlumblineError):  # what is not discarded is zeroed
            discard_span(node, fd, Span(0, size))
    ends = min(read_blank_proof.PROOF_END, size)
    places = [(0, ends), (size - ends, ends)]
    places += [(start // MIB * MIB, min(2 * MIB, size - start // MIB * MIB)) for start in starts if start < size]
    for offset, length in places:
        block_device.write_zeros(fd, offset, length)
    os.fsync(fd)
    if not read_blank_proof.prove_all([job])[0].faults:
        return
    for offset in range(0, size, ZERO_STEP):
        block_device.write_zeros(fd, offset, min(ZERO_STEP, size - offset))
    os.fsync(fd)
    faults = read_blank_proof.prove_all([job])[0].faults
    if faults:
        raise PlumblineError("%s was erased, and does not read as blank: %s" % (node.path, faults[0]))
