# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole, blank disk that a load may write to: proven, and held as long as the load takes. I/O.

What is refused here is what the writer of partition tables refuses. A run that is taken up finds its own load on the device: each sector of that
ends with the mark of the run, so the blank proof takes those for blank and nothing else.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, guards, read_blank_proof, write_discard
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import check_held
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.load_mark import tail_of
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason, unreadable_reason
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.fio import Place
from ansible_collections.plumbline.ssd.plugins.module_utils._measure.steady_state.request import LEAST_BYTES
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe


class RawDevice(NamedTuple):
    """A device that is held open alone. *node*: what was looked at while it was held; *proof*: the arguments of its blank proof."""

    node: Node
    fd: int
    proof: Dict[str, Any]

    def place(self, start: int, length: int) -> Place:
        """Where a load goes. Raises PlumblineError where the device is not what it was: a virtual disk may get another content below its name."""
        check_held(self.fd, self.node)
        return Place(self.node.path, start, length, self.fd)


def raw_device_reasons(seen: Observation, devno: str, serial: str, resumed: bool) -> List[Reason]:
    """Everything against a load on a device, but for the blank proof. *resumed*: a load of ours was cut off there, whose bytes may look like anything."""
    node = seen.nodes[devno]
    against = guards.write_reasons(seen, node)
    reasons = guards.blocking_reasons(against) if resumed else against
    if node.identity.serial != serial:
        reasons.append(Reason("identity", "its serial is '%s'; asked for was '%s'" % (node.identity.serial, serial), "name the drive by its own serial"))
    if node.rotational:
        reasons.append(Reason("rotational", "it is a hard disk, or says so", "the steady state is that of flash; measure others by throughput"))
    if node.size < LEAST_BYTES:
        reasons.append(Reason("size", "it has %s" % human(node.size), "a round of the load needs a device of %s at least" % human(LEAST_BYTES)))
    return reasons


def _refuse(path: str, reasons: List[Reason]) -> None:
    if reasons:
        raise PlumblineError("refused: nothing was written to %s: %s" % (path, reasons[0].words), [reason.line(path) for reason in reasons])


def _observed(run: Runner, path: str, serial: str, resumed: bool, prove: bool) -> Observation:
    seen = observe(run, Questions(devices=((path, ""),), prove=prove and not resumed))
    devno = seen.paths.get(path, "")
    if not devno:
        _refuse(path, [Reason("identity", "the device is gone", "run again when it is there")])
    reasons = raw_device_reasons(seen, devno, serial, resumed)
    if prove and not resumed and not reasons:
        reasons = guards.take_reasons(seen, devno)
    _refuse(path, reasons)
    return seen


def examine_device(run: Runner, path: str, serial: str, resumed: bool = False) -> Node:
    """Look at a device without holding it, so that all that speaks against a load is reported. Raises PlumblineError with every reason."""
    seen = _observed(run, path, serial, resumed, True)
    return seen.nodes[seen.paths[path]]


@contextlib.contextmanager
def hold_device(run: Runner, path: str, serial: str, key: str, mark: bytes, resumed: bool) -> Iterator[RawDevice]:
    """Hold a device alone, with its proof made under the lock. Raises PlumblineError with every reason; nothing was written then.

    *key*: of its identity. Several disks may have one serial. What is opened and what is looked at are two resolutions of the path, so they are
    compared.
    """
    fd = block_device.open_alone(path, False)
    try:
        seen = _observed(run, path, serial, resumed, False)
        devno = seen.paths[path]
        node = seen.nodes[devno]
        check_held(fd, node)
        if node.identity.key != key:
            text = "it is another drive now: %s, was %s" % (node.identity.key or "without an identity", key)
            _refuse(path, [Reason("identity", text, "name the drive by a path that stays")])
        ones = deallocated_reads_ones(seen.namespaces.get(devno, {}))
        proof: Dict[str, Any] = {"path": node.path, "size": node.size, "ones_are_blank": ones, "fd": fd}
        blank = read_blank_proof.prove_all([dict(proof, tails=(tail_of(mark),) if resumed else ())])[0]
        what = "it is neither blank nor of this run" if resumed else "it is not blank"
        remedy = "look at what was written there; if nothing of it is needed, free the device by your own tools"
        _refuse(path, [Reason("data", "%s: %s" % (what, fault), remedy) for fault in blank.data] + [unreadable_reason(fault) for fault in blank.unread])
        yield RawDevice(node, fd, proof)
    finally:
        os.close(fd)


def free_device(device: RawDevice) -> None:
    """Leave the device as blank as it was."""
    write_discard.make_blank(device.node, device.fd, device.proof)
