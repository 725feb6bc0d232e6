# SPDX-License-Identifier: GPL-3.0-or-later
"""Partitions of ours that grow while they are in use: their table first, then what the kernel knows of them. I/O.

Before the first write each disk is shown to be the planned one, its table to be ours, and what the partition takes in to hold nothing.
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, read_blank_proof, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import check_held
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, TableEntry, device_label
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disks import read_table
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, must_succeed
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.growth.grown_table import ReadAt, TableWrite, backup_at, old_backup, table_writes
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import keep_backups
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes.volume_rules import known_bytes

_SETTLE_SECONDS = 30


class _Growing(NamedTuple):
    """A disk that is held, its partition as the table has it, and what is to be written."""

    disk: Mapping[str, Any]
    node: Node
    part: Node
    entry: TableEntry
    fd: int
    writes: List[TableWrite]


def grow_partitions(run: Runner, seen: Observation, disks: Sequence[Mapping[str, Any]], check: bool) -> List[str]:
    """Grow the partitions of those disks that say how long theirs is to be. Returns where the former tables are kept. Raises PlumblineError."""
    backups: List[str] = []
    with contextlib.ExitStack() as held:
        growing = [_hold(held, seen, disk, check) for disk in disks if disk["length_bytes"]]
        _prove(seen, growing)
        if check:
            return []
        for growth in growing:  # of all disks, before the first of them is written to
            backups += keep_backups.keep_device(run, seen, growth.node.devno)
        for growth in growing:
            try:
                _write(growth)
            except OSError as fault:
                text = "%s: its partition table could not be written: %s; run again: what is there of it is carried on"
                raise PlumblineError(text % (device_label(growth.node), fault.strerror or fault)) from fault
    if os.path.exists("/run/udev/control"):  # it looks at a disk that was open for writing when that is closed
        run(["udevadm", "settle", "--timeout=%d" % _SETTLE_SECONDS])
    for growth in growing:
        _read_back(growth)
    return backups


def restore_tables(run: Runner, seen: Observation, disks: Sequence[Mapping[str, Any]], check: bool) -> List[str]:
    """Write the first copies of tables again from their backups, which have the planned partition; libfdisk takes the sound copy and writes both. A cut leaves
    what was there, or what is to be. Returns where the former tables are kept. Raises PlumblineError."""
    backups: List[str] = []
    for disk in disks:
        node = seen.nodes[seen.paths[disk["device"]]]
        table = seen.tables[node.devno]
        places = [(entry.start, entry.size) for entry in table.spare] if table else []
        if "sfdisk" not in seen.tools or places != [(disk["start_bytes"], disk["length_bytes"])]:
            text = "%s: the backup of its table has %s, and was planned with %s; or this host has no sfdisk; nothing was written; run again"
            raise PlumblineError(text % (device_label(node), places, (disk["start_bytes"], disk["length_bytes"])))
        with _opened(disk["device"], check) as fd:
            check_held(fd, node)
        if not check:
            backups += keep_backups.keep_device(run, seen, node.devno)
    for disk in [] if check else disks:
        node = seen.nodes[seen.paths[disk["device"]]]
        must_succeed(run([seen.tools["sfdisk"], "--relocate", "gpt-bak-std", node.path]), "%s: its first table could not be written" % device_label(node))
        run(["udevadm", "settle", "--timeout=%d" % _SETTLE_SECONDS])
        new, old = read_table(node), seen.tables[node.devno]
        if not new or not old or new.fault or new.backup or new.entries != old.spare:
            raise PlumblineError("%s: its table is not as its backup was: %s" % (device_label(node), new))
    return backups


def _hold(held: contextlib.ExitStack, seen: Observation, disk: Mapping[str, Any], check: bool) -> _Growing:
    """Open a disk, and work out what is to be written; nothing is written yet."""
    node = seen.nodes[seen.paths[disk["device"]]]
    fd = held.enter_context(_opened(disk["device"], check))
    check_held(fd, node)
    table = seen.tables[node.devno]
    entry = next(entry for entry in table.entries if entry.guid == disk["guid"]) if table else None
    part = next((child for child in seen.nodes.values() if child.parent == node.devno and entry and child.number == entry.number), None)
    if entry is None or part is None:
        raise PlumblineError("%s: the kernel does not show its partition; run again" % device_label(node))
    end, sector = disk["start_bytes"] + disk["length_bytes"], node.limits.logical
    faults = {
        "begins at byte %d, and was planned at %d" % (entry.start, disk["start_bytes"]): entry.start != disk["start_bytes"],
        "is to end at byte %d, in the last MiB of the disk of %d bytes" % (end, node.size): end > node.size - MIB,
        "has %d bytes, and is never made smaller; wanted %d" % (max(entry.size, part.size), disk["length_bytes"]): (
            disk["length_bytes"] < max(entry.size, part.size)
        ),
        "is to end at byte %d, within a block of %d bytes" % (end, sector): end % sector != 0,
    }
    for text in [text for text, wrong in faults.items() if wrong]:
        raise PlumblineError("%s: its partition %s; run again" % (device_label(node), text))
    try:
        ours = entry.start + known_bytes(seen, part.devno)
        writes = table_writes(_reader(fd), node.size, sector, entry.number, end, ours, _reads_ones(seen, node))
    except PlumblineError as fault:
        raise PlumblineError("%s: %s" % (device_label(node), fault.msg)) from fault
    except OSError as fault:
        raise PlumblineError("%s: its table could not be read: %s" % (device_label(node), fault.strerror or fault)) from fault
    return _Growing(disk, node, part, entry, fd, writes)


@contextlib.contextmanager
def _opened(path: str, check: bool) -> Iterator[int]:
    fd = block_device.open_in_use(path, check)
    try:
        yield fd
    finally:
        os.close(fd)


def _reader(fd: int) -> ReadAt:
    return lambda at, length: block_device.read_at(fd, at, length)


def _reads_ones(seen: Observation, node: Node) -> bool:
    return deallocated_reads_ones(seen.namespaces.get(node.devno, {}))


def _prove(seen: Observation, growing: Sequence[_Growing]) -> None:
    """What the partitions take in holds nothing, but for backups of the table, which are known and go. Raises PlumblineError."""
    todo = [(growth, piece) for growth in growing for piece in _taken_in(seen, growth)]
    reasons: List[str] = []
    while todo and not reasons:
        jobs = [_job(seen, growth, piece) for growth, piece in todo]
        again = []
        for (growth, (start, stop)), proof in zip(todo, read_blank_proof.prove_all(jobs)):
            first, last = (0, 0)
            if proof.data_at >= 0 and not proof.unread:
                first, last = backup_at(_reader(growth.fd), growth.node.size, growth.node.limits.logical, proof.data_at)
            if last:  # it was left behind by a tool that moved the backup
                growth.writes.insert(0, TableWrite("zeros over a backup that was left", first, bytes(last - first)))
                again += [(growth, piece) for piece in ((start, first), (last, stop)) if piece[0] < piece[1]]
                continue
            who = device_label(growth.node)
            reasons += ["%s: what its partition would take in holds %s [data]" % (who, fault) for fault in proof.data]
            reasons += ["%s: what its partition would take in: %s [unreadable]" % (who, fault) for fault in proof.unread]
        todo = again
    if reasons:
        raise PlumblineError("refused at the write: a disk has something behind its partition; look at it, nothing was written", reasons)


def _taken_in(seen: Observation, growth: _Growing) -> List[Tuple[int, int]]:
    """From which byte to which a partition takes in what is not known to be ours, without the backup that the disk has outgrown."""
    begin = growth.entry.start + max(growth.entry.size, known_bytes(seen, growth.part.devno))
    end = growth.disk["start_bytes"] + growth.disk["length_bytes"]
    first, last = old_backup(_reader(growth.fd), growth.node.size, growth.node.limits.logical)
    pieces = [(begin, min(first, end)), (max(last, begin), end)] if last else [(begin, end)]
    return [piece for piece in pieces if piece[0] < piece[1]]


def _job(seen: Observation, growth: _Growing, piece: Tuple[int, int]) -> Dict[str, Any]:
    """What read_blank_proof.prove_all() is asked of a piece of a disk that we hold."""
    more = {"full": growth.disk["full_proof"], "ones_are_blank": _reads_ones(seen, growth.node), "fd": growth.fd}
    return {"path": growth.disk["device"], "offset": piece[0], "size": piece[1] - piece[0], **more}


def _write(growth: _Growing) -> None:
    for write in growth.writes:
        if block_device.read_at(growth.fd, write.at, len(write.data)) != write.data:
            block_device.write_at(growth.fd, write.at, write.data)
    block_device.resize_partition(growth.fd, growth.entry.number, growth.disk["start_bytes"], growth.disk["length_bytes"])


def _read_back(growth: _Growing) -> None:
    """Check that the kernel and both copies of the table have the specified length. Raises PlumblineError."""
    length = growth.disk["length_bytes"]
    shown = int(read_sysfs.read_text("/sys/class/block/%s/size" % growth.part.name) or 0) * 512
    try:
        table = read_table(growth.node)
    except OSError as fault:
        raise PlumblineError("%s: its table is written, and cannot be read back: %s" % (device_label(growth.node), fault.strerror or fault)) from fault
    kept = [entry.size for entry in table.entries if entry.guid == growth.disk["guid"]] if table else []
    whole = growth.node.size // growth.node.limits.logical * growth.node.limits.logical
    if shown != length or kept != [length] or not table or table.fault or table.backup or table.made_for != whole:
        text = "%s: wanted a partition of %d bytes; the kernel shows %d, and the table %s; its backup: %s"
        raise PlumblineError(text % (device_label(growth.node), length, shown, kept, (table.backup if table else "") or "sound"))
