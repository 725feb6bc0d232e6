# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of a host: those that are asked about, their tables, geometry, write caches and links, and the mappings on them. I/O."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
from typing import List, Mapping, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive, block_device, proc_files, read_link, read_sysfs, tool_output
from ansible_collections.plumbline.ssd.plugins.module_utils._block.geometry import make_geometry
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, Segment, Table
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import Identity
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, Link
from ansible_collections.plumbline.ssd.plugins.module_utils._block.our_table import is_unsettled
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_all_ours
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import (
    BCACHE_SUPERBLOCK_AT,
    TABLE_HEAD,
    backup_entries,
    backup_fault,
    bcache_data_start,
    gpt_head_bytes,
    made_for,
    parse_table,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_lvm_locks import check_locks
from ansible_collections.plumbline.ssd.plugins.module_utils._block.scsi import parse_block_limits
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import Override, overrides_for
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner


def read_mounts_of_several(seen: Observation, names: Mapping[str, str], process: str) -> None:
    """The mounts that a process sees of filesystems on several devices, each on all of these, and which devices belong together."""
    for members in read_sysfs.read_members(names):
        seen.members.update((devno, members) for devno in members)
    there = {(mount.devno, mount.target) for mount in seen.mounts}
    for source, mount in proc_files.parse_mounts_of_several(read_sysfs.read_text("/proc/%s/mountinfo" % process)):
        devno = devno_of_path(source, names)
        for member in seen.members.get(devno, (devno,)):
            if member and (member, mount.target) not in there:
                there.add((member, mount.target))
                seen.mounts.append(mount._replace(devno=member))


def follow_bcache(seen: Observation, names: Mapping[str, str]) -> None:
    """Where the bytes of a bcache lie on its backing device. What its cache holds of them is on another, which is not followed."""
    for devno, node in list(seen.nodes.items()):
        backing = names.get(read_sysfs.bcache_backing(node.name), "") if node.kind == "bcache" else ""
        if backing:
            with contextlib.suppress(OSError):  # it is told as not followed then
                start = bcache_data_start(block_device.read_head(seen.nodes[backing].path, BCACHE_SUPERBLOCK_AT + 4096)[BCACHE_SUPERBLOCK_AT:])
                if start:
                    seen.nodes[devno] = node._replace(segments=(Segment(0, node.size, "bcache", 0, ((backing, start),)),))


def devno_of_path(path: str, names: Mapping[str, str]) -> str:
    """The number of the block device at a path; empty where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ""
    devno = read_sysfs.devno(found.st_rdev) if stat.S_ISBLK(found.st_mode) else ""
    return devno if devno in names.values() else ""


def find_named_devices(seen: Observation, ask: Questions, names: Mapping[str, str]) -> None:
    """Find the devices that the user named, and give loop devices the identity that the test states."""
    for path, test_identity in ask.devices:
        devno = devno_of_path(path, names) if os.path.exists(path) else ""
        if not devno:
            continue
        seen.paths[path] = devno
        claims = tuple(one for one in read_sysfs.claims_of_link(path) if one in seen.nodes) if os.path.islink(path) else ()
        if len(claims) > 1:
            seen.twice_named[path] = claims
        if test_identity:
            node = seen.nodes[devno]
            identity = Identity(test=test_identity, model=node.kind, serial=test_identity)
            seen.nodes[devno] = node._replace(identity=identity)


def disks_to_look_at(seen: Observation, ask: Questions) -> List[str]:
    """The disks to look at closely."""
    targets = list(dict.fromkeys(seen.paths.values()))
    for node in seen.nodes.values():
        if node.parent or node.slaves or node.devno in targets:
            continue
        matches = node.kind == "disk" and any(fnmatch.fnmatchcase(node.identity.model, model) for model in ask.models)
        matches = matches or (node.kind == "disk" and node.identity.serial in ask.serials)
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
    tables = tool_output.parse_dm_tables(out, [node.title for node in seen.nodes.values() if node.title])
    for devno, node in list(seen.nodes.items()):
        if node.title in tables:
            seen.nodes[devno] = node._replace(segments=tables[node.title])


def read_lvm(run: Runner, seen: Observation) -> None:
    check_locks()  # also before LVM is installed, whose package calls it
    if "lvm" not in seen.tools:
        return
    code, out, err = run([seen.tools["lvm"]] + list(tool_output.LVM_REPORT[1:]))
    if code:
        raise PlumblineError("lvm fullreport failed: %s" % (err.strip() or "return code %d" % code))
    seen.lvm = tool_output.parse_lvm(out)


def read_device(seen: Observation, devno: str, overrides: Sequence[Override] = ()) -> None:
    """Table, geometry, write cache and links of one disk. A disk that cannot be read is recorded as such, never as blank."""
    node = seen.nodes[devno]
    id_ns = block_device.identify_namespace(node.path, node.identity.nsid) if node.identity.transport == "nvme" else None
    page = read_sysfs.read_bytes("/sys/class/block/%s/device/vpd_pgb0" % node.name)
    links = [link for link, number in seen.links.items() if number == devno]
    stated = overrides_for(overrides, node, links)
    seen.geometries[devno] = make_geometry(node.limits, id_ns, parse_block_limits(page, node.limits.logical), stated)
    if id_ns:
        seen.namespaces[devno] = id_ns
    if node.kind in ("disk", "loop"):
        seen.caches[devno] = ask_drive.read_cache(node)
        seen.drive_links[devno] = read_drive_links(node)
    if node.kind == "other":
        return
    try:
        seen.tables[devno] = read_table(node)
    except OSError as fault:
        seen.faults[devno] = "the first sectors could not be read: %s" % (fault.strerror or fault)


def read_drive_links(node: Node) -> Tuple[Link, ...]:
    """The links from the host to a disk. A PCIe link that is below what both ends can do may rest, so it is read again while the disk is read.

    SATA and SAS links stand as they were negotiated. Reads would only be in a database's way.
    """
    transport = node.identity.transport
    speed = ask_drive.read_phy_speed(node) if transport == "sas" and not node.identity.ata else None
    names = [os.path.basename(path) for path in ask_drive.controllers(node)] if transport == "nvme" else []
    homes = [os.path.realpath("/sys/class/nvme/" + name) for name in names] or [os.path.realpath("/sys/class/block/%s/device" % node.name)]
    found = tuple(one for home in homes for one in read_link.read_bus_links(home, speed))
    if any(one.below and one.kind == PCIE for one in found):
        found = tuple(one for home in homes for one in read_link.read_bus_links_under_load(node.path, home, speed))
    return tuple(dict.fromkeys(found))


def read_table(node: Node) -> Optional[Table]:
    logical = node.limits.logical
    head = block_device.read_head(node.path, min(TABLE_HEAD, node.size))
    table = parse_table(head, logical)
    damaged = table is not None and (table.fault != "" or table.kind == "protective")
    if table is None or (table.kind != "gpt" and not damaged):
        return table
    length = gpt_head_bytes(logical) - logical
    try:
        ((_at, tail),) = block_device.read_pieces(node.path, [(node.size // logical * logical - length, length)])
    except OSError as fault:
        return table if damaged else table._replace(backup="unreadable (%s)" % (fault.strerror or fault), made_for=made_for(head, logical))
    if damaged:
        return table._replace(spare=backup_entries(tail, logical, node.size))
    table = table._replace(made_for=made_for(head, logical), unsettled=is_all_ours(table) and is_unsettled(head, logical))
    return table._replace(backup=backup_fault(head, tail, logical, node.size))
