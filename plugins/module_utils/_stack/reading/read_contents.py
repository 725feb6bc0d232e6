# SPDX-License-Identifier: GPL-3.0-or-later
"""What is on the disks of a host, and who uses them. I/O."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Any, Dict, List, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, read_blank_proof, read_device_users, signatures, tool_output
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import partition_start
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import (
    BACKUP,
    BACKUP_OF_WHOLE,
    UNFINISHED,
    BlankProof,
    Ends,
    Filesystem,
    Node,
    Observation,
    Signature,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.load_mark import tail_of
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_all_ours
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import SHUT_DOWN, FilesystemKind
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import (
    FILESYSTEMS,
    HEAD_BYTES,
    copies_of,
    copies_of_all,
    parse_any,
    unfinished_any,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_begun, keep_erasures

_PV_HEADERS = 8192  # of a PV: its label in the second sector, the header of its metadata in the sector at byte 4,096 (lvm2, label.h and layout.h)


def read_filesystems(seen: Observation, targets: Sequence[str]) -> None:
    """Superblocks of whatever carries no further layer."""
    for node in [node for node in seen.nodes.values() if node.suspended]:
        for above in seen.tree(node.devno):
            seen.faults.setdefault(above.devno, "%s is suspended: it takes no request, and whoever reads it waits" % (node.title or node.name))
    for devno in dict.fromkeys(node.devno for target in targets for node in seen.tree(target)):
        node = seen.nodes[devno]
        if devno in seen.filesystems or seen.children(devno) or seen.pv(devno) or node.size < 8192 or node.kind == "other" or node.suspended:
            continue
        if seen.tables.get(devno):
            continue
        try:
            raw = block_device.read_head(node.path, HEAD_BYTES)
        except OSError as fault:
            seen.faults.setdefault(devno, "the first sectors could not be read: %s" % (fault.strerror or fault))
            continue
        found, begun = parse_any(raw), unfinished_any(raw)
        if found and seen.mounted(devno) and FILESYSTEMS[found.kind].cached:
            with contextlib.suppress(OSError):
                found = parse_any(block_device.read_cached_head(node.path, HEAD_BYTES)) or found
        if found:
            seen.filesystems[devno] = _with_birth(node, raw, found)
            _read_shutdown(seen, devno, FILESYSTEMS[found.kind])
        elif begun:
            seen.signatures[devno] = [begun]


def _with_birth(node: Node, raw: bytes, found: Filesystem) -> Filesystem:
    """With the time at which it was made, where that stands elsewhere than in the superblock (*raw*: of the device)."""
    kind = FILESYSTEMS[found.kind]
    place = kind.birth_place(raw[kind.superblock[0] : sum(kind.superblock)])
    if 0 <= place <= node.size - 4096:
        with contextlib.suppress(OSError):  # a time that is not known lets a proof be measured again
            low = place // 4096 * 4096
            ((_at, page),) = block_device.read_pieces(node.path, [(low, 4096)])
            return found._replace(made=kind.born(page[place - low :]))
    return found


def _read_shutdown(seen: Observation, devno: str, kind: FilesystemKind) -> None:
    """A mount on which even its root directory cannot be asked for, though it is in memory (Linux, fs/xfs/xfs_iops.c: a shut down one returns EIO)."""
    for mount in seen.mounted(devno) if kind.hides_shutdown else ():
        try:
            if mount.here:
                os.stat(mount.target)
        except OSError as fault:
            if fault.errno == errno.EIO:
                seen.in_force[devno] = (*mount.options, SHUT_DOWN)


def read_signatures(run: Runner, seen: Observation, targets: Sequence[str]) -> None:
    """Ask libblkid about every node whose content is not known by now."""
    asked = []
    for target in targets:
        for node in seen.tree(target):
            known = node.devno in seen.filesystems or seen.pv(node.devno) or is_all_ours(seen.tables.get(node.devno)) or seen.children(node.devno)
            if not known and node.devno not in asked and node.devno not in seen.faults and node.kind != "other":
                asked.append(node.devno)
    if asked and "wipefs" in seen.tools:
        _probe(run, seen, asked)


def _probe(run: Runner, seen: Observation, asked: Sequence[str]) -> None:
    """One call of wipefs for all; where it fails, each is asked alone, so that the fault is laid on the right device."""
    argv = [seen.tools["wipefs"], "--json", "--output", "DEVICE,OFFSET,TYPE,UUID,LABEL,USAGE"]
    code, out, err = run(argv + [seen.nodes[devno].path for devno in asked])
    if code and len(asked) > 1:
        for devno in asked:
            _probe(run, seen, [devno])
    elif code:
        seen.faults[asked[0]] = "its signatures could not be read: %s" % (" ".join(err.split()) or "wipefs returned %d" % code)
    else:
        found = tool_output.parse_wipefs(out)
        for devno in asked:
            begun = seen.signatures.get(devno, [])  # which wipefs has as a filesystem like others
            there = found.get(seen.nodes[devno].path.rsplit("/", 1)[-1], [])
            seen.signatures[devno] = begun + [one for one in there if one.type not in {mark.type for mark in begun}]


def read_claims(seen: Observation, targets: Sequence[str]) -> None:
    """What else is on the devices that are not ours, and who uses them without claiming them.

    A table of ours whose partition the kernel does not show may have been cut off, so that its device is looked at as well.
    """
    strangers = [devno for devno in targets if not is_all_ours(seen.tables.get(devno)) or not seen.children(devno)]
    empty = {node.devno: devno for devno in targets if devno not in strangers for node in seen.tree(devno) if _may_be_written(seen, node)}
    if not strangers and not empty:
        return
    for devno in dict.fromkeys([*strangers, *empty, *empty.values()]):
        node = seen.nodes[devno]
        if node.kind != "other" and devno not in seen.faults and node.size >= 8192:
            _read_marks(seen, node)
            if devno in empty and devno not in seen.faults:
                _read_backups(seen, node)
    seen.multipath = [devno for devno in strangers if read_device_users.is_multipath_member(devno)]
    seen.backings = read_device_users.read_backings(seen.nodes)
    seen.openers = read_device_users.settled_openers([*empty, *(node.devno for devno in strangers for node in seen.tree(devno))])


def _is_empty(seen: Observation, node: Node) -> bool:
    """Whether nothing is known to be on a partition or a volume, so that the next step would write to it: a raw use of it leaves no signature."""
    devno = node.devno
    return not (seen.children(devno) or seen.pv(devno) or devno in seen.filesystems or seen.signatures.get(devno) or seen.mounted(devno))


def _is_unfinished(seen: Observation, node: Node) -> bool:
    """Whether an mkfs was cut off there."""
    return any(one.usage == UNFINISHED for one in seen.signatures.get(node.devno, []))


def _may_be_written(seen: Observation, node: Node) -> bool:
    """Whether a step could write to it as it is, so that what speaks against that has to be known."""
    return _is_empty(seen, node) or _is_unused(seen, node) or _is_unfinished(seen, node)


def _is_unused(seen: Observation, node: Node) -> bool:
    """Whether a PV is of no VG that LVM knows, and nothing lies on it: its VG may be what was lost."""
    pv = seen.pv(node.devno)
    return pv is not None and not pv.vg and not seen.children(node.devno)


def _read_marks(seen: Observation, node: Node) -> None:
    """Head and tail and every place where a format may begin, read by us: an error refuses the device."""
    logical = node.limits.logical
    starts = []
    with contextlib.suppress(PlumblineError):  # a geometry that contradicts itself is refused by the plan
        starts = [partition_start(seen.geometries[node.devno])] if node.kind in ("disk", "loop") else []
    try:
        pieces = block_device.read_pieces(node.path, signatures.windows(node.size, logical, starts))
    except OSError as fault:
        seen.faults[node.devno] = "its head, its tail or a place where partitions begin could not be read: %s" % (fault.strerror or fault)
        return
    seen.marks[node.devno] = signatures.recognise(pieces, node.size, logical, starts, [kind.mark for kind in FILESYSTEMS.values()])
    (_at, head), (tail_at, tail) = pieces[0], pieces[1] if len(pieces) > 1 else (node.size, b"")
    seen.ends[node.devno] = Ends(head, tail, tail_at)
    times = keep_erasures.erasures_of(node.identity.key)
    if times:
        seen.erasures[node.devno] = times


def _read_backups(seen: Observation, node: Node) -> None:
    """The copies of a superblock that is gone: they say what was there, and bring it back."""
    groups, end = keep_begun.load_groups(), node.size // 4096 * 4096
    try:
        for kind in FILESYSTEMS.values():
            places = copies_of(kind, end, groups)
            found = _read_copies(node, kind, places)
            more = {at for one, _mark in found for at in kind.later_copies(one) if at + kind.superblock[1] <= end}
            found += _read_copies(node, kind, sorted(more - set(places)))
            seen.marks[node.devno] += [mark for _one, mark in found]
    except OSError as fault:
        seen.faults[node.devno] = "a place where a copy of a superblock may lie could not be read: %s" % (fault.strerror or fault)


def _read_copies(node: Node, kind: FilesystemKind, places: Sequence[int]) -> List[Tuple[Filesystem, Signature]]:
    """The copies of superblocks that are in these places, with a mark of each. Raises OSError."""
    copies = []
    for at, raw in block_device.read_pieces(node.path, [(at, 4096) for at in places]) if places else ():
        found = kind.copy(raw[: kind.superblock[1]])
        if found and found.block == kind.block and found.blocks:
            usage = BACKUP_OF_WHOLE if kind.is_of_whole(raw) else BACKUP
            copies.append((found, Signature(kind.family, usage, at, found.uuid, found.label)))
    return copies


def prove_all_blank(seen: Observation, targets: Sequence[str], ask: Questions) -> None:
    """Blank proofs for the disks that could be taken, and for what is ours and empty."""
    jobs = _of_disks(seen, targets, ask) + _of_ours(seen, targets, ask)
    for (devno, _job), proof in zip(jobs, read_blank_proof.prove_all([job for _devno, job in jobs])):
        before = seen.proofs.get(devno, BlankProof(0, 0))
        places = [one.data_at for one in (before, proof) if one.data_at >= 0]
        data, unread = before.data + proof.data, before.unread + proof.unread
        seen.proofs[devno] = BlankProof(before.read_bytes + proof.read_bytes, before.samples + proof.samples, data, min(places, default=-1), unread)


def _of_ours(seen: Observation, targets: Sequence[str], ask: Questions) -> List[Tuple[str, Dict[str, Any]]]:
    """Jobs for what is ours and would be written to next: a signature can be lost, and the data behind it still be there."""
    jobs = []
    tails, groups = tuple(tail_of(mark) for mark in keep_begun.load_marks()), keep_begun.load_groups()
    for devno in targets:
        if not is_all_ours(seen.tables.get(devno)):
            continue
        ones = deallocated_reads_ones(seen.namespaces.get(devno, {}))
        for node in seen.tree(devno):
            pieces = _to_be_blank(seen, node, ask) if node.devno not in seen.faults else ()
            if pieces:  # on a host where nothing is to be written, the places of copies are not worked out
                more = {"full": ask.full_proof, "ones_are_blank": ones, "starts": copies_of_all(node.size, groups), "tails": tails}
                jobs += [(node.devno, {"path": node.path, "size": length, "offset": start, **more}) for start, length in pieces]
    once = {(devno, job["offset"]): (devno, job) for devno, job in jobs}  # what lies on an array is on each of its disks
    return list(once.values())


def _to_be_blank(seen: Observation, node: Node, ask: Questions) -> Sequence[Tuple[int, int]]:
    """Which bytes (start, length) of a node of ours have to be blank, since the next step would build on them."""
    pv = seen.pv(node.devno)
    if pv and pv.vg:  # an LV that is still to be made gets extents that no other has
        return pv.free if any(vg == pv.vg and seen.lv(vg, name) is None for vg, name in ask.volumes) else ()
    if pv:
        return [(_PV_HEADERS, node.size - _PV_HEADERS)]
    begun = seen.md_superblocks.get(node.devno)
    if begun and node.kind == "part" and not seen.children(node.devno):  # a member of an array that does not run: there may be data in it, or none yet
        return [(begun.data_offset, node.size - begun.data_offset)] if begun.data_offset < node.size else ()
    wanted = node.kind in ("part", "md") or any(seen.lv_node(vg, name) == node for vg, name in ask.volumes)
    return [(0, node.size)] if wanted and _is_empty(seen, node) else ()


def _of_disks(seen: Observation, targets: Sequence[str], ask: Questions) -> List[Tuple[str, Dict[str, Any]]]:
    """Jobs for the disks that could be taken: no table, no signature, nothing on them, readable, not busy.

    A disk with content is opened alone as well, which an erase of it would need: btrfs and ZFS claim disks, and show neither mounts nor holders of them.
    """
    candidates = []
    for devno in targets:
        node = seen.nodes[devno]
        tree = seen.tree(devno)
        used = any(one.holders or seen.mounted(one.devno) or one.devno in seen.swaps for one in tree)
        if used or node.kind not in ("disk", "loop") or devno in seen.faults or (is_all_ours(seen.tables.get(devno)) and seen.children(devno)):
            continue
        busy = block_device.why_busy(node.path)
        if busy:
            seen.busy[devno] = busy
            continue
        if seen.children(devno) or seen.mounted(devno) or seen.tables.get(devno) or seen.signatures.get(devno) or devno in seen.faults:
            continue
        if seen.pv(devno) or devno in seen.filesystems:
            continue
        candidates.append(devno)
    return [
        (
            devno,
            {
                "path": seen.nodes[devno].path,
                "size": seen.nodes[devno].size,
                "ones_are_blank": deallocated_reads_ones(seen.namespaces.get(devno, {})),
            },
        )
        for devno in candidates
    ]
