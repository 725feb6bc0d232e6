# SPDX-License-Identifier: GPL-3.0-or-later
"""A blank drive that an acceptance writes to: what that costs it, its discard and its fill. I/O.

Each sector of the loads ends with a mark that is always the same for a drive. So a drive on which a measurement was cut off is known again: it is
taken up, or discarded to begin anew. Whatever else is on a drive is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any, Iterator, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_blank_proof, write_discard
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.load_mark import MARK_BYTES
from ansible_collections.plumbline.ssd.plugins.module_utils._block.spans import Span
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, release, take
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human, round_up
from ansible_collections.plumbline.ssd.plugins.module_utils._measure import fio as measure_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.matrix import FRESH, STEADY, Cell, most_of_block
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.acceptance.options import Options
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.raw_device import RawDevice, examine_device, free_device, hold_device
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.run_fio import run_fio
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import accept_cost

_FILL_BLOCK, _FILL_DEPTH = MIB, 8
_FILL_STEPS = 20  # of the drive: after each the progress is reported
_SLOWEST = 10**6  # bytes per second: a drive that is slower does not answer


def mark_of(node: Node) -> bytes:
    """What each sector of a load on this drive ends with."""
    return hashlib.sha256(("acceptance of " + node.identity.key).encode()).digest()[:MARK_BYTES]


def needs_fill(cells: Sequence[Cell]) -> bool:
    return any(cell.state not in (FRESH, STEADY) for cell in cells)


def cost(node: Node, options: Options, params: Mapping[str, Any]) -> str:
    """What the measurement writes at most, in one line. Raises PlumblineError where that is too much for the rated endurance."""
    span = write_discard.owned(node.size)
    blocks = options.blocks * sum(cell.writes for cell in options.cells)
    filled = span.length if needs_fill(options.cells) else 0
    parts = "one fill of %s in sequence, and %d blocks of %s" % (human(filled), blocks, human(most_of_block(span)))
    return accept_cost(filled + blocks * most_of_block(span), parts, params)


def examine(run: Runner, node: Node, serial: str) -> bool:
    """Whether a measurement was cut off on the drive. Raises PlumblineError with everything that speaks against writing to it."""
    try:
        examine_device(run, node.path, serial)
    except PlumblineError as fault:
        try:
            with hold_device(run, node.path, serial, node.identity.key, mark_of(node), True):
                return True
        except PlumblineError:
            raise fault from None
    return False


@contextlib.contextmanager
def hold_drive(run: Runner, node: Node, serial: str) -> Iterator[RawDevice]:
    """Hold the drive under the host's lease. It is left blank."""
    begun = examine(run, node, serial)
    lease, _before, _warnings = take(Run(controller="the acceptance of %s" % node.name), "", own=True)
    try:
        with hold_device(run, node.path, serial, node.identity.key, mark_of(node), begun) as device:
            try:
                yield device
            finally:
                free_device(device)
    finally:
        release(lease.run)


def empty(device: RawDevice) -> None:
    """Discard all of the drive."""
    write_discard.discard_span(device.node, device.fd, Span(0, device.node.size))


def fill_pieces(span: Span) -> Iterator[Tuple[int, int]]:
    """(start, length) of the steps of a fill."""
    step = round_up(max(span.length // _FILL_STEPS, MIB), MIB)
    return ((start, min(step, span.end - start)) for start in range(span.start, span.end, step))


def fill(fio: str, device: RawDevice) -> int:
    """Write all of the drive once, in sequence. Returns how many bytes."""
    node, span = device.node, write_discard.owned(device.node.size)
    tell = read_blank_proof.Progress("fill of %s" % node.path, span.length)
    for start, length in fill_pieces(span):
        argv = measure_fio.fill_argv(fio, [device.place(start, length)], _FILL_BLOCK, _FILL_DEPTH, mark_of(node))
        run_fio(argv, 0.0, length / _SLOWEST, "the fill of %s" % node.path)
        tell(length)
    return span.length
