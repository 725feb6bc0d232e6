# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes that a measurement writes to: held open alone, and proven to be ours and empty while they are. I/O.

A volume is opened alone before it is looked at, and stays so until the last byte is discarded, so that nothing can come between.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_blank_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import check_held
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.load_mark import tail_of
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import levels_below
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import lock
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import copies_of_all
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes import volume_rules

_BOUND = ("name", "diskseq", "size", "segments")  # what a place of the load depends on
LOCK_SECONDS = 10  # udev holds a shared lock while it probes; nobody else should


def node_path(node: Node) -> str:
    """The kernel's own name of a device: no character in it means anything to fio."""
    return "/dev/" + node.name.replace("!", "/")


@contextlib.contextmanager
def held_alone(seen: Observation, devnos: Sequence[str]) -> Iterator[Dict[str, int]]:
    """Open every volume exclusively for writing: no mount, no LVM and no other run comes between proof and write."""
    held: Dict[str, int] = {}
    try:
        for devno in devnos:
            path = node_path(seen.nodes[devno])
            try:
                held[devno] = os.open(path, os.O_RDWR | os.O_EXCL | os.O_DIRECT | os.O_CLOEXEC)
            except OSError as fault:
                raise PlumblineError(
                    "refused: nothing was written. %s cannot be opened alone: %s; writing is measured on empty volumes only" % (path, fault.strerror or fault)
                ) from fault
            check_held(held[devno], seen.nodes[devno])
            try:
                lock(held[devno], LOCK_SECONDS)  # udev honours that, and does not probe it meanwhile
            except OSError as fault:
                raise PlumblineError("refused: nothing was written. %s is locked by another program; run again" % path) from fault
        yield held
    finally:
        for fd in held.values():
            os.close(fd)


def prove(run: Runner, before: Observation, held: Mapping[str, int]) -> None:
    """Raise PlumblineError with every reason unless all volumes are ours and empty, all of the very devices that are *held* (device number → descriptor).

    What libblkid does not know (a raw volume of some database, a filesystem that lost its superblock) is no signature, and shows as data.
    """
    devnos = list(held)
    paths = [node_path(before.nodes[devno]) for devno in devnos]
    disks = {disk.devno: node_path(disk) for devno in devnos for disk in before.disk_of(devno)}
    # All PVs of a volume group have to be looked at, and a volume need not lie on each: their disks are found by a first reading.
    seen = observe(run, Questions(devices=tuple((path, "") for path in paths), prove=False))
    for devno in devnos:
        groups = {lv.vg for lv in seen.lvm.lvs if seen.lv_node(lv.vg, lv.name) == seen.nodes.get(devno)}
        for pv in seen.lvm.pvs:
            if pv.vg in groups and pv.devno in seen.nodes:
                disks.update((disk.devno, node_path(disk)) for disk in seen.disk_of(pv.devno))
    seen = observe(run, Questions(devices=tuple((path, "") for path in paths + sorted(disks.values())), prove=False))
    reasons = []
    for devno, path in zip(devnos, paths):
        if devno not in seen.nodes:
            raise PlumblineError("%s went away while it was looked at" % path)
        check_held(held[devno], seen.nodes[devno])
        name = seen.nodes[devno].title or path
        reasons += [reason.line(name) for reason in volume_rules.load_reasons(seen, devno)]
    if not reasons:
        for devno in devnos:
            check_unchanged(before, seen, devno)
        tails = tuple(tail_of(mark) for mark in keep_begun.load_marks())
        jobs = [{"path": path, "size": seen.nodes[devno].size, "fd": held[devno], "tails": tails, **_blank(seen, devno)} for devno, path in zip(devnos, paths)]
        for job, proof in zip(jobs, read_blank_proof.prove_all(jobs)):
            reasons += ["%s: %s [data]; %s" % (job["path"], fault, volume_rules.ONLY_EMPTY) for fault in proof.data]
            reasons += ["%s: %s [unreadable]; see the kernel's log" % (job["path"], fault) for fault in proof.unread]
    if reasons:
        raise PlumblineError("refused: nothing was written. %s" % reasons[0], reasons)


def check_unchanged(before: Observation, now: Observation, devno: str) -> None:
    """Raise PlumblineError unless a volume that is held lies on the very devices, and where on them, as when the load's places were worked out.

    What is below a volume that is open keeps its name and its number from then on, since the kernel holds it.
    """
    for level in levels_below(before, devno):
        for below in level:
            was, after = before.nodes[below], now.nodes.get(below)
            if after is None or any(getattr(was, word) != getattr(after, word) for word in _BOUND):
                text = "refused: nothing was written. %s, on which %s lies, changed while it was looked at; run again"
                raise PlumblineError(text % (node_path(was), before.nodes[devno].title or node_path(before.nodes[devno])))


def _blank(seen: Observation, devno: str) -> Dict[str, Any]:
    """What reads as blank on a volume, and where the backup superblocks of a filesystem would be."""
    ones = all(deallocated_reads_ones(seen.namespaces.get(disk.devno, {})) for disk in seen.disk_of(devno))
    return {"ones_are_blank": ones, "starts": copies_of_all(seen.nodes[devno].size, keep_begun.load_groups())}
