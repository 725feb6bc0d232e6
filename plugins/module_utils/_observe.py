# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The observation of a host: composes sysfs, the devices' own bytes and three tools into one record. I/O.

The tools are lvm (one report), dmsetup (one table, only where a map exists) and wipefs (one call for all
devices whose content must be known). None of them writes. A missing tool is no failure: the plan says so.
"""

from __future__ import annotations

import contextlib
import fnmatch
import grp
import os
import pwd
import stat
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _backup, _cacheio, _cacheset, _claims, _content, _devio, _parsers, _record, _sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._fio import tail_of
from ansible_collections.plumbline.ssd.plugins.module_utils._geometry import make_geometry, partition_start
from ansible_collections.plumbline.ssd.plugins.module_utils._model import BlankProof, Ends, Identity, Node, Observation, PathState, Segment, Signature, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._mountpoint import walk
from ansible_collections.plumbline.ssd.plugins.module_utils._nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._scsi import parse_block_limits
from ansible_collections.plumbline.ssd.plugins.module_utils._tables import (
    BCACHE_SUPERBLOCK_AT,
    EXT4_SUPERBLOCK_AT,
    EXT4_SUPERBLOCK_SIZE,
    backup_fault,
    bcache_data_start,
    ext4_backups,
    gpt_head_bytes,
    parse_ext4,
    parse_table,
)

# (argv) → (return code, standard output, standard error); runs with LC_ALL=C and without a shell.
Runner = Callable[[Sequence[str]], Tuple[int, str, str]]

TOOLS = ("lvm", "dmsetup", "wipefs", "sfdisk", "mkfs.ext4", "mount", "fio", "udevadm", "hdparm", "sdparm", "nvme")
OUR_PREFIX = "plumbline:"
_PV_HEADERS = 8192  # of a PV: its label in the second sector, the header of its metadata in the sector at byte 4,096 (lvm2, label.h and layout.h)


class Questions(NamedTuple):
    """What an observation is asked about. Empty *devices*: every disk of the host."""

    devices: Tuple[Tuple[str, str], ...] = ()  # (path as the user named it, test identity)
    models: Tuple[str, ...] = ()
    mounts: Tuple[str, ...] = ()
    files: Tuple[str, ...] = ()
    users: Tuple[str, ...] = ()
    groups: Tuple[str, ...] = ()
    volumes: Tuple[Tuple[str, str], ...] = ()  # (VG, LV) that are to be there
    full_proof: bool = False
    prove: bool = True
    guards: bool = True  # whether it is asked what speaks against taking the devices, beside what they carry
    everything: bool = False


def observe(run: Runner, ask: Questions, overrides: Optional[Callable[[Node, Iterable[str]], Mapping[str, int]]] = None) -> Observation:
    """Read the host once. Raises PlumblineError where a tool fails, its report cannot be read, or a device goes away or fails meanwhile."""
    try:
        return _read(run, ask, overrides)
    except OSError as fault:
        where = "%s: " % fault.filename if isinstance(fault.filename, str) else ""
        text = "the host could not be read: %s%s; look at the kernel's log, and run again"
        raise PlumblineError(text % (where, fault.strerror or fault)) from fault


def _read(run: Runner, ask: Questions, overrides: Optional[Callable[[Node, Iterable[str]], Mapping[str, int]]]) -> Observation:
    seen = Observation(nodes=_sysfs.read_nodes(), mounts=_sysfs.read_mounts())
    names = {node.name: devno for devno, node in seen.nodes.items()}
    seen.tools = _find_tools()
    seen.distribution = _parsers.parse_os_release(_sysfs.read_text("/etc/os-release") or _sysfs.read_text("/usr/lib/os-release"))
    seen.links = {link: names[name] for link, name in _sysfs.read_links().items() if name in names}
    seen.swaps = [devno for devno in (_devno_of(path, names) for path in _parsers.parse_swaps(_sysfs.read_text("/proc/swaps"))) if devno]
    seen.fstab = _parsers.parse_fstab(_sysfs.read_text("/etc/fstab"))
    _read_btrfs(seen, names)
    _resolve(seen, ask, names)
    read_maps(run, seen)
    _follow_bcache(seen, names)
    _read_lvm(run, seen)
    targets = _targets(seen, ask)
    for devno in targets:
        _read_device(seen, devno, overrides)
    seen.kept = _cacheset.read_kept(run)
    _read_filesystems(seen, targets)
    _read_signatures(run, seen, targets)
    if ask.guards:
        _read_claims(seen, targets)
    if ask.prove:
        _prove(seen, targets, ask)
    _read_host(seen, ask)
    return seen


def observe_maps(run: Runner) -> Observation:
    """The block devices with their mappings and our own mounts, and nothing else: what a probe needs to find its way."""
    seen = Observation(nodes=_sysfs.read_nodes(), mounts=_parsers.parse_mountinfo(_sysfs.read_text("/proc/self/mountinfo")))
    seen.tools = _find_tools()
    read_maps(run, seen)
    return seen


def _read_btrfs(seen: Observation, names: Mapping[str, str]) -> None:
    """The mounts of Btrfs, each on all of its devices, and which devices belong together."""
    for members in _sysfs.read_btrfs(names):
        seen.members.update((devno, members) for devno in members)
    for source, mount in _parsers.parse_btrfs_mounts(_sysfs.read_text("/proc/self/mountinfo")):
        devno = _devno_of(source, names)
        seen.mounts += [mount._replace(devno=one) for one in seen.members.get(devno, (devno,)) if one]


def _follow_bcache(seen: Observation, names: Mapping[str, str]) -> None:
    """Where the bytes of a bcache lie on its backing device. What its cache holds of them is on another, which is not followed."""
    for devno, node in list(seen.nodes.items()):
        backing = names.get(_sysfs.bcache_backing(node.name), "") if node.kind == "bcache" else ""
        if backing:
            with contextlib.suppress(OSError):  # it is told as not followed then
                start = bcache_data_start(_devio.read_head(seen.nodes[backing].path, BCACHE_SUPERBLOCK_AT + 4096)[BCACHE_SUPERBLOCK_AT:])
                if start:
                    seen.nodes[devno] = node._replace(segments=(Segment(0, node.size, "bcache", 0, ((backing, start),)),))


def _find_tools() -> Dict[str, str]:
    found = {}
    for tool in TOOLS:
        for directory in ("/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/local/sbin", "/usr/local/bin"):
            path = os.path.join(directory, tool)
            if os.access(path, os.X_OK):
                found[tool] = path
                break
    return found


def _devno_of(path: str, names: Mapping[str, str]) -> str:
    """The number of the block device at a path; empty where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    devno = _sysfs.devno(found.st_rdev) if stat.S_ISBLK(found.st_mode) else ""
    return devno if devno in names.values() else ""


def _resolve(seen: Observation, ask: Questions, names: Mapping[str, str]) -> None:
    """Find the devices that the user named, and give loop devices the identity that the test states."""
    for path, test_identity in ask.devices:
        devno = _devno_of(path, names) if os.path.exists(path) else ""
        if not devno:
            continue
        seen.paths[path] = devno
        claims = tuple(one for one in _sysfs.claims_of_link(path) if one in seen.nodes) if os.path.islink(path) else ()
        if len(claims) > 1:
            seen.twice_named[path] = claims
        if test_identity:
            node = seen.nodes[devno]
            identity = Identity(test=test_identity, model=node.kind, serial=test_identity)
            seen.nodes[devno] = node._replace(identity=identity)


def _targets(seen: Observation, ask: Questions) -> List[str]:
    """The disks to look at closely."""
    targets = list(dict.fromkeys(seen.paths.values()))
    for node in seen.nodes.values():
        if node.parent or node.slaves or node.devno in targets:
            continue
        matches = node.kind == "disk" and any(fnmatch.fnmatchcase(node.identity.model, model) for model in ask.models)
        if matches or (ask.everything and node.kind in ("disk", "loop")):
            targets.append(node.devno)
    return targets


def read_maps(run: Runner, seen: Observation) -> None:
    """Put the kernel's device-mapper tables into the nodes."""
    if not any(node.title for node in seen.nodes.values()) or "dmsetup" not in seen.tools:
        return
    # Names as the kernel has them, and sysfs: without it dmsetup shows `a\\x20b` as `a b`, dmsetup(8) --manglename.
    code, out, err = run([seen.tools["dmsetup"], "table", "--manglename", "none"])
    if code:
        raise PlumblineError("dmsetup table failed: %s" % (err.strip() or "return code %d" % code))
    tables = _parsers.parse_dm_tables(out, [node.title for node in seen.nodes.values() if node.title])
    for devno, node in list(seen.nodes.items()):
        if node.title in tables:
            seen.nodes[devno] = node._replace(segments=tables[node.title])


def _read_lvm(run: Runner, seen: Observation) -> None:
    if "lvm" not in seen.tools:
        return
    code, out, err = run([seen.tools["lvm"]] + list(_parsers.LVM_REPORT[1:]))
    if code:
        raise PlumblineError("lvm fullreport failed: %s" % (err.strip() or "return code %d" % code))
    seen.lvm = _parsers.parse_lvm(out)


def _read_device(seen: Observation, devno: str, overrides: Optional[Callable[[Node, Iterable[str]], Mapping[str, int]]]) -> None:
    """Table, geometry and write cache of one disk. A disk that cannot be read is recorded as such, never as blank."""
    node = seen.nodes[devno]
    id_ns = _devio.identify_namespace(node.path, node.identity.nsid) if node.identity.transport == "nvme" else None
    page = _sysfs.read_bytes("/sys/class/block/%s/device/vpd_pgb0" % node.name)
    links = [link for link, number in seen.links.items() if number == devno]
    stated = overrides(node, links) if overrides else {}
    seen.geometries[devno] = make_geometry(node.limits, id_ns, parse_block_limits(page, node.limits.logical), stated)
    if id_ns:
        seen.namespaces[devno] = id_ns
    if node.kind in ("disk", "loop"):
        seen.caches[devno] = _cacheio.read_cache(node)
    if node.kind == "other":
        return
    try:
        seen.tables[devno] = _read_table(node)
    except OSError as fault:
        seen.faults[devno] = "the first sectors could not be read: %s" % (fault.strerror or fault)


def _read_table(node: Node) -> Optional[Table]:
    logical = node.limits.logical
    head = _devio.read_head(node.path, min(gpt_head_bytes(logical), node.size))
    table = parse_table(head, logical)
    if table is None or table.kind != "gpt" or table.fault:
        return table
    length = gpt_head_bytes(logical) - logical
    try:
        ((_at, tail),) = _devio.read_pieces(node.path, [(node.size // logical * logical - length, length)])
    except OSError as fault:
        return table._replace(backup="unreadable (%s)" % (fault.strerror or fault))
    return table._replace(backup=backup_fault(head, tail, logical, node.size))


def is_ours(table: Optional[Table]) -> bool:
    """Whether a table carries partitions that this collection named, and nothing else."""
    return bool(table and table.kind == "gpt" and not table.fault and table.entries and all(e.name.startswith(OUR_PREFIX) for e in table.entries))


def _read_filesystems(seen: Observation, targets: Sequence[str]) -> None:
    """Superblocks of whatever carries no further layer."""
    for devno in dict.fromkeys(node.devno for target in targets for node in seen.tree(target)):
        node = seen.nodes[devno]
        if devno in seen.filesystems or seen.children(devno) or seen.pv(devno) or node.size < 8192 or node.kind == "other":
            continue
        if seen.tables.get(devno):
            continue
        try:
            raw = _devio.read_head(node.path, EXT4_SUPERBLOCK_AT + EXT4_SUPERBLOCK_SIZE)
        except OSError as fault:
            seen.faults.setdefault(devno, "the first sectors could not be read: %s" % (fault.strerror or fault))
            continue
        found = parse_ext4(raw[EXT4_SUPERBLOCK_AT : EXT4_SUPERBLOCK_AT + EXT4_SUPERBLOCK_SIZE])
        if found:
            seen.filesystems[devno] = found


def _read_signatures(run: Runner, seen: Observation, targets: Sequence[str]) -> None:
    """Ask libblkid about every node whose content is not known by now."""
    asked = []
    for target in targets:
        for node in seen.tree(target):
            known = node.devno in seen.filesystems or seen.pv(node.devno) or is_ours(seen.tables.get(node.devno)) or seen.children(node.devno)
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
        found = _parsers.parse_wipefs(out)
        for devno in asked:
            seen.signatures[devno] = found.get(seen.nodes[devno].path.rsplit("/", 1)[-1], [])


def _read_claims(seen: Observation, targets: Sequence[str]) -> None:
    """What else is on the devices that are not ours, and who uses them without claiming them.

    A table of ours whose partition the kernel does not show may have been cut off, so that its device is looked at as well.
    """
    strangers = [devno for devno in targets if not is_ours(seen.tables.get(devno)) or not seen.children(devno)]
    empty = {node.devno: devno for devno in targets if devno not in strangers for node in seen.tree(devno) if _is_empty(seen, node) or _is_unused(seen, node)}
    if not strangers and not empty:
        return
    for devno in dict.fromkeys([*strangers, *empty, *empty.values()]):
        node = seen.nodes[devno]
        if node.kind != "other" and devno not in seen.faults and node.size >= 8192:
            _read_marks(seen, node)
            if devno in empty and devno not in seen.faults:
                _read_backups(seen, node)
    seen.multipath = [devno for devno in strangers if _claims.is_multipath_member(devno)]
    seen.backings = _claims.read_backings(seen.nodes)
    seen.openers = _claims.settled_openers([*empty, *(node.devno for devno in strangers for node in seen.tree(devno))])


def _is_empty(seen: Observation, node: Node) -> bool:
    """Whether nothing is known to be on a partition or a volume, so that the next step would write to it: a raw use of it leaves no signature."""
    devno = node.devno
    return not (seen.children(devno) or seen.pv(devno) or devno in seen.filesystems or seen.signatures.get(devno) or seen.mounted(devno))


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
        pieces = _devio.read_pieces(node.path, _content.windows(node.size, logical, starts))
    except OSError as fault:
        seen.faults[node.devno] = "its head, its tail or a place where partitions begin could not be read: %s" % (fault.strerror or fault)
        return
    seen.marks[node.devno] = _content.recognise(pieces, node.size, logical, starts)
    (_at, head), (tail_at, tail) = pieces[0], pieces[1] if len(pieces) > 1 else (node.size, b"")
    seen.ends[node.devno] = Ends(head, tail, tail_at)
    times = _backup.erasures_of(node.identity.key)
    if times:
        seen.erasures[node.devno] = times


def _read_backups(seen: Observation, node: Node) -> None:
    """The copies of a superblock that is gone: they say what was there, and bring it back."""
    with contextlib.suppress(OSError):  # the blank proof reads these places as well, and tells
        for at, raw in _devio.read_pieces(node.path, [(at, 4096) for at in ext4_backups(node.size // 4096 * 4096)]):
            found = parse_ext4(raw[:EXT4_SUPERBLOCK_SIZE])
            if found and found.block == 4096 and found.blocks:
                seen.marks[node.devno].append(Signature("ext", "backup superblock", at, found.uuid, found.label))


def _prove(seen: Observation, targets: Sequence[str], ask: Questions) -> None:
    """Blank proofs for the disks that could be taken, and for what is ours and empty."""
    jobs = _of_disks(seen, targets, ask) + _of_ours(seen, targets, ask)
    for (devno, _job), proof in zip(jobs, _devio.prove_all([job for _devno, job in jobs])):
        before = seen.proofs.get(devno, BlankProof(0, 0))
        seen.proofs[devno] = BlankProof(before.read_bytes + proof.read_bytes, before.samples + proof.samples, before.faults + proof.faults)


def _of_ours(seen: Observation, targets: Sequence[str], ask: Questions) -> List[Tuple[str, Dict[str, Any]]]:
    """Jobs for what is ours and would be written to next: a signature can be lost, and the data behind it still be there."""
    jobs = []
    tails = tuple(tail_of(mark) for mark in _record.load_marks())
    for devno in targets:
        if not is_ours(seen.tables.get(devno)):
            continue
        ones = deallocated_reads_ones(int(seen.namespaces.get(devno, {}).get("dlfeat", 0)))
        for node in seen.tree(devno):
            if node.devno not in seen.faults:
                more = {"full": ask.full_proof, "ones_are_blank": ones, "starts": ext4_backups(node.size), "tails": tails}
                jobs += [(node.devno, {"path": node.path, "size": length, "offset": start, **more}) for start, length in _to_be_blank(seen, node, ask)]
    return jobs


def _to_be_blank(seen: Observation, node: Node, ask: Questions) -> Sequence[Tuple[int, int]]:
    """Which bytes (start, length) of a node of ours have to be blank, since the next step would build on them."""
    pv = seen.pv(node.devno)
    if pv and pv.vg:  # an LV that is still to be made gets extents that no other has
        return pv.free if any(vg == pv.vg and seen.lv(vg, name) is None for vg, name in ask.volumes) else ()
    if pv:
        return [(_PV_HEADERS, node.size - _PV_HEADERS)]
    wanted = node.kind == "part" or any(seen.lv_node(vg, name) == node for vg, name in ask.volumes)
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
        if used or node.kind not in ("disk", "loop") or devno in seen.faults or (is_ours(seen.tables.get(devno)) and seen.children(devno)):
            continue
        busy = _devio.why_busy(node.path)
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
                "full": ask.full_proof,
                "ones_are_blank": deallocated_reads_ones(int(seen.namespaces.get(devno, {}).get("dlfeat", 0))),
            },
        )
        for devno in candidates
    ]


def _what_has_the_name(vg: str) -> str:
    """What keeps LVM from making a VG of this name: anything at all at its place below /dev (lvm2, validate_new_vg_name())."""
    path = "/dev/" + vg
    if os.path.islink(path) or not os.path.isdir(path):
        return "there already" if os.path.lexists(path) else ""
    entries = os.listdir(path)
    return "a directory that holds %s" % ("%d entries" % len(entries) if entries else "nothing")


def _is_read_only(directory: str) -> bool:
    with contextlib.suppress(OSError):  # what cannot be asked is told by whoever needs it
        return bool(os.statvfs(directory).f_flag & os.ST_RDONLY)
    return False


def _fstab_fault() -> str:
    """Why fstab could not be replaced; empty where it could."""
    path = os.path.realpath("/etc/fstab")
    home = os.path.dirname(path)
    if _is_read_only(home):
        return "%s is on a filesystem that is mounted read-only" % home
    for one in (path, home):
        with contextlib.suppress(OSError):  # not there, or on a filesystem without attributes
            fd = os.open(one, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if _devio.is_immutable(fd):
                    return "%s is immutable (lsattr -d %s)" % (one, one)
            finally:
                os.close(fd)
    return ""


def _above_read_only(path: str) -> str:
    """The directory in which a path would have to be made, where it cannot be for being mounted read-only; empty where the path is there."""
    if os.path.lexists(path):
        return ""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path if _is_read_only(path) else ""


# What a stack needs of the kernel: a word of a file below /proc that is there when it is loaded.
_KERNEL = (("device-mapper", "/proc/misc"), ("ext4", "/proc/filesystems"))


def _kernel_lacks() -> Tuple[str, ...]:
    """What is not loaded, and cannot be since the modules on the host are another kernel's: it was installed, and the host not booted since."""
    try:
        releases = os.listdir("/lib/modules")
    except OSError:  # a container, or a kernel without modules
        return ()
    if not releases or os.uname().release in releases:
        return ()
    return tuple(word for word, path in _KERNEL if word not in _sysfs.read_text(path).split())


def _read_host(seen: Observation, ask: Questions) -> None:
    seen.fstab_fault, seen.kernel_lacks = _fstab_fault(), _kernel_lacks()
    names = {vg: _what_has_the_name(vg) for vg, _lv in ask.volumes}
    seen.taken_names = {vg: what for vg, what in names.items() if what}
    seen.in_force = _sysfs.read_in_force(seen.nodes, seen.mounts)
    seen.covers = _parsers.parse_covers(_sysfs.read_text("/proc/self/mountinfo"))
    seen.accepted = _record.load_accepted()
    seen.making = _record.load_making()
    for path in ask.mounts:
        seen.directories[path] = read_path(path)._replace(way=walk(path), read_only=_above_read_only(path))
    for path in ask.files:
        seen.drop_ins[path] = _sysfs.read_text(path)
    seen.users = _numbers_of(ask.users, _uid)
    seen.groups = _numbers_of(ask.groups, _gid)
    seen.timer_enabled = any(os.path.islink("/etc/systemd/system/%s.wants/fstrim.timer" % target) for target in ("timers.target", "multi-user.target"))
    seen.selinux = os.path.exists("/sys/fs/selinux/enforce")


def read_path(path: str) -> PathState:
    """What stat says of a path. Nothing is followed but the path itself; what cannot be read is told, and never taken for empty."""
    state = PathState(exists=True)
    try:
        found = os.lstat(path)
        if not stat.S_ISDIR(found.st_mode):
            return state._replace(symlink=os.readlink(path) if stat.S_ISLNK(found.st_mode) else "")
        state = PathState(True, True, 0, False, found.st_uid, found.st_gid, "%04o" % stat.S_IMODE(found.st_mode))
        other = found.st_dev != os.stat(os.path.dirname(path)).st_dev
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Where a filesystem is mounted on it, what lies in it is nobody's business here; and a damaged one would note that it was looked at.
            return state._replace(immutable=_devio.is_immutable(fd), entries=0 if other else len(os.listdir(fd)), other=other)
        finally:
            os.close(fd)
    except (FileNotFoundError, NotADirectoryError):
        return PathState()
    except OSError as fault:
        return state._replace(fault=fault.strerror or str(fault))


def _uid(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def _gid(name: str) -> int:
    return grp.getgrnam(name).gr_gid


def _numbers_of(names: Iterable[str], look_up: Callable[[str], int]) -> Dict[str, int]:
    """User or group names → numbers; a number stands for itself, an unknown name is left out."""
    numbers = {}
    for name in names:
        try:
            numbers[name] = int(name) if name.isdigit() else look_up(name)
        except KeyError:
            continue
    return numbers
