# SPDX-License-Identifier: GPL-3.0-or-later
"""The one place that writes partition tables. I/O lives here.

All devices of a stack are opened alone and locked, proven to be the planned ones and blank once more, what
stands at their ends is kept on the host, and only then is the first byte written. sfdisk (libfdisk) writes the table; the kernel's view is read back.
"""

from __future__ import annotations

import glob
import os
import re
import time
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import (
    block_device,
    guards,
    our_table,
    ownership,
    read_blank_proof,
    read_sysfs,
    write_discard,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import check_held
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.nvme import deallocated_reads_ones
from ansible_collections.plumbline.ssd.plugins.module_utils._block.partition_table import gpt_head_bytes, parse_table
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import FeedRunner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.partitions import erase, keep_backups, unfinished_table
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe

_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
NODE_SECONDS = 30
LINK_SECONDS = 3  # udev has answered by then that it is done; a link that is missing now stays so until udev is asked anew


def table_script(device: Mapping[str, Any]) -> str:
    """The sfdisk script for one device. Sectors are explicit, so libfdisk aligns nothing on its own account; no GUID is left to chance."""
    sector = device["logical_bytes"]
    return "\n".join(
        [
            "label: gpt",
            "label-id: %s" % our_table.disk_guid(device["guid"]),
            "unit: sectors",
            "first-lba: %d" % (-(-gpt_head_bytes(sector) // sector)),
            'start=%d, size=%d, type=%s, uuid=%s, name="%s"'
            % (device["start_bytes"] // sector, device["length_bytes"] // sector, device["type_guid"], device["guid"], device["name"]),
            "",
        ]
    )


def check_devices(devices: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a request that no disk could take. Raises PlumblineError."""
    for device in devices:
        sector = device["logical_bytes"]
        for word in ("start_bytes", "length_bytes", "size_bytes"):
            if device[word] <= 0 or sector < 512 or device[word] % sector:
                raise PlumblineError("%s: %s of %d is no positive multiple of the %d-byte block" % (device["device"], word, device[word], sector))
        end = device["start_bytes"] + device["length_bytes"]
        if device["start_bytes"] < MIB or end > device["size_bytes"] - MIB:
            raise PlumblineError(
                "%s: bytes %d to %d do not lie between the first and the last MiB of %d bytes"
                % (device["device"], device["start_bytes"], end, device["size_bytes"])
            )
        if not ownership.our_name(device["name"]):
            raise PlumblineError("%s: partition name '%s' does not fit; wanted plumbline:STACK:NUMBER" % (device["device"], device["name"]))
        for word in ("type_guid", "guid"):
            if not _GUID.fullmatch(device[word]):  # it becomes a word of a line of sfdisk's script
                raise PlumblineError("%s: %s '%s' does not fit; wanted a GUID" % (device["device"], word, device[word]))


def partition_all(run: FeedRunner, devices: Sequence[Mapping[str, Any]], check: bool) -> Tuple[List[Dict[str, Any]], List[str]]:
    """Prove all devices and write their tables; with *check* only prove. Returns (what the kernel shows then, the backups).

    Raises PlumblineError with every reason; before the first write nothing has been changed anywhere.
    """
    check_devices(devices)
    held: List[int] = []
    backups: List[str] = []
    discarded: Dict[str, int] = {}
    try:
        for device in devices:
            held.append(block_device.open_alone(device["device"], check))
        proven = _prove(run, devices, held)
        if not check:
            for device in proven.todo:  # of all devices, before the first of them is written to
                backups += keep_backups.keep_device(lambda argv: run(argv, ""), proven.seen, proven.seen.paths[device["device"]], bool(device["erase"]))
            for device, fd in zip(devices, held):
                if device in proven.todo:
                    node = proven.seen.nodes[proven.seen.paths[device["device"]]]
                    if device["erase"]:
                        _clear(device, node, fd, _proof_job(proven.seen, device, fd))
                        keep_backups.note_erasure(node.identity.key, device["erase"])
                    # The table comes last: a device that has a part of it was discarded before, and is not discarded again.
                    if device["discard"] and not device["unfinished"]:
                        discarded[device["device"]] = _discard(node, fd)
                    _write(run, device, node, fd)
                _reread(device, fd)
    except OSError as fault:
        raise PlumblineError("a device could not be written: %s" % (fault.strerror or fault)) from fault
    finally:
        for fd in held:
            os.close(fd)
    if check:
        return [], []
    _settle(run)
    done = [{"erased": device["removes"] if device in proven.todo else [], "discarded_bytes": discarded.get(device["device"], 0)} for device in devices]
    return [dict(_read_back(run, device), **what) for device, what in zip(devices, done)], backups


def _reread(device: Mapping[str, Any], fd: int) -> None:
    try:
        block_device.reread_table(fd)
    except OSError as fault:
        text = "%s: its table is written, and the kernel could not read it anew: %s; run again"
        raise PlumblineError(text % (device["device"], fault.strerror or fault)) from fault


def _settle(run: FeedRunner) -> None:
    """Let udev finish what the close of the devices set off.

    udevd watches for the close of a disk that was open for writing, and then reads its table again: the partitions
    go and come back, and with them the links that the next step names. It answers the settle only after that
    (systemd, udevd.c: the control socket comes after inotify and uevents). A host without udevd has no such moment.
    """
    if os.path.exists("/run/udev/control"):
        run(["udevadm", "settle", "--timeout=%d" % NODE_SECONDS], "")


def _ask_udev_again(run: FeedRunner, disk: str) -> None:
    """Let udev look at the disk's partitions once more.

    It may lose a link: where one of its workers removes the last entry of /dev/disk/by-partuuid, and the directory with it, another's
    symlink(2) there fails with ENOENT, which udev logs as "ignoring" (seen with systemd 252: "Failed to create/update device symlink").
    """
    parts = sorted(os.path.dirname(mark) for mark in glob.glob("/sys/block/%s/*/partition" % disk))
    if parts and os.path.exists("/run/udev/control"):
        run(["udevadm", "trigger", "--action=change", *parts], "")
        _settle(run)


class Proven(NamedTuple):
    """What the proof under the lock left: the devices that are still to be written, and what was observed."""

    todo: List[Mapping[str, Any]]
    seen: Observation


def _prove(run: FeedRunner, devices: Sequence[Mapping[str, Any]], held: Sequence[int]) -> Proven:
    """Observe once more under the lock. Raises PlumblineError with every reason unless all devices are as they were planned."""
    ask = Questions(devices=tuple((device["device"], device["test_identity"]) for device in devices), prove=False)
    seen = observe(lambda argv: run(argv, ""), ask)
    missing = [tool for tool in ("wipefs", "sfdisk") if tool not in seen.tools]
    if missing:
        raise PlumblineError("%s: not on this host; nothing is written without: install util-linux (and fdisk on Debian)" % " and ".join(missing))
    reasons: List[str] = []
    todo: List[Mapping[str, Any]] = []
    jobs: List[Dict[str, Any]] = []
    erased = [seen.paths[device["device"]] for device in devices if device["erase"] and device["device"] in seen.paths]
    obstacles = dict(zip(erased, erase.obstacles(seen, erased)))
    for device, fd in zip(devices, held):
        devno = seen.paths.get(device["device"], "")
        against = guards.exchanged_reasons(seen, devno, device)
        reasons += [reason.line(device["device"]) for reason in against]
        if not devno:
            continue
        node, table = seen.nodes[devno], seen.tables.get(devno)
        try:
            check_held(fd, node)  # the path was resolved twice: when it was opened, and when it was looked at
        except PlumblineError as other:
            reasons.append(other.msg)
            continue
        written = table is not None and [entry.guid for entry in table.entries] == [device["guid"]] and table.entries[0].name == device["name"]
        if device["written"] and written:
            reasons += [reason.line(device["device"]) for reason in guards.identity_reasons(seen, node)]
            continue
        todo.append(device)
        if device["erase"]:
            against = obstacles[devno] + erase.erase_changed_reasons(seen, devno, device["erase"])
            reasons += [reason.line(device["device"]) for reason in against]
            continue
        against = guards.write_reasons(seen, node)
        if device["unfinished"]:
            against = guards.blocking_reasons(against) + unfinished_table.unfinished_changed_reasons(seen, devno, device)
        reasons += [reason.line(device["device"]) for reason in against]
        jobs.append(_proof_job(seen, device, fd))
    if not reasons:
        for job, proof in zip(jobs, read_blank_proof.prove_all(jobs)):
            reasons += ["%s: %s [data]" % (job["path"], fault) for fault in proof.data]
            reasons += ["%s: %s [unreadable]" % (job["path"], fault) for fault in proof.unread]
    if reasons:
        raise PlumblineError("refused at the write: a device is not as it was planned", reasons)
    return Proven(todo, seen)


def _proof_job(seen: Observation, device: Mapping[str, Any], fd: int) -> Dict[str, Any]:
    """What read_blank_proof.prove_all() is asked of a device that we hold open."""
    devno = seen.paths[device["device"]]
    return {
        "path": device["device"],
        "size": seen.nodes[devno].size,
        "full": device["full_proof"],
        "ones_are_blank": deallocated_reads_ones(seen.namespaces.get(devno, {})),
        "starts": device["probe_starts"],
        "fd": fd,
        "between": unfinished_table.between(seen.ends[devno]) if device["unfinished"] and devno in seen.ends else None,
    }


def _clear(device: Mapping[str, Any], node: Node, fd: int, job: Dict[str, Any]) -> None:
    """Erase a device that we hold, and leave it as blank as any other that gets a table."""
    try:
        write_discard.make_blank(node, fd, job, device["discard"], device["probe_starts"])
    except PlumblineError as fault:
        raise PlumblineError("%s; no table was written" % fault.msg) from fault


def _discard(node: Node, fd: int) -> int:
    """Discard what a table will own. Returns how many bytes."""
    try:
        return write_discard.discard_span(node, fd, write_discard.owned(node.size))
    except PlumblineError as fault:
        raise PlumblineError("%s; no table was written to it; run again, or set discard: false on the stack" % fault.msg) from fault


def _write(run: FeedRunner, device: Mapping[str, Any], node: Node, fd: int) -> None:
    """Let sfdisk write the table. It neither wipes nor rereads: the proof left nothing to wipe, and we hold the disk.

    It gets the kernel's name, which no other disk can have as long as we hold this one. A link of udev's may lead elsewhere by now.
    """
    argv = ["sfdisk", "--no-reread", "--no-tell-kernel", "--wipe", "never", "--wipe-partitions", "never", "--quiet", node.path]
    code, _out, err = run(argv, table_script(device))
    if code:
        raise PlumblineError("sfdisk could not write the table of %s: %s" % (device["device"], err.strip() or "return code %d" % code))
    os.fsync(fd)


def _read_back(run: FeedRunner, device: Mapping[str, Any]) -> Dict[str, Any]:
    """Wait until the kernel and udev show the partition, then compare what they show with what was written."""
    link = "/dev/disk/by-partuuid/" + device["guid"].lower()
    disk = os.path.basename(os.path.realpath(device["device"]))
    begin, asked_again = time.monotonic(), False
    while time.monotonic() < begin + NODE_SECONDS:
        name = os.path.basename(os.path.realpath(link)) if os.path.exists(link) else ""
        at = "/sys/class/block/%s/" % name
        if name and os.path.basename(os.path.dirname(os.path.realpath(at))) == disk:
            start, length = (int(read_sysfs.read_text(at + word) or 0) * 512 for word in ("start", "size"))
            if (start, length) != (device["start_bytes"], device["length_bytes"]):
                raise PlumblineError(
                    "%s: the kernel shows %s at byte %d with %d bytes; wanted byte %d with %d bytes"
                    % (device["device"], name, start, length, device["start_bytes"], device["length_bytes"])
                )
            try:
                head = block_device.read_head(device["device"], gpt_head_bytes(device["logical_bytes"]))
            except OSError as fault:
                raise PlumblineError("%s: its table is written, and cannot be read back: %s" % (device["device"], fault.strerror or fault)) from fault
            table = parse_table(head, device["logical_bytes"])
            if table is None or [entry.guid for entry in table.entries] != [device["guid"]]:
                raise PlumblineError("%s: the table reads back without partition %s" % (device["device"], device["guid"]))
            return {"device": device["device"], "path": link, "name": device["name"], "start_bytes": start, "length_bytes": length}
        if not asked_again and time.monotonic() > begin + LINK_SECONDS:
            asked_again = True
            _ask_udev_again(run, disk)
        time.sleep(0.05)
    raise PlumblineError("%s: the table is written, but no %s came up within %d s; see udevadm monitor" % (device["device"], link, NODE_SECONDS))
