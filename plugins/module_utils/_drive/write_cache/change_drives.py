# SPDX-License-Identifier: GPL-3.0-or-later
"""Write caches, set by the standard tools and kept over reboots. I/O.

All that can be known is checked for all drives before the first is set, and where one fails those before it are put back.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive, change_sysfs_settings, guards, host, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.held_device import pinned
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node, Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._block.reasons import Reason
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import command, persist_files, rules
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.change_persist import has_timer, keep, retire_timer
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.drive import Asked, AskedDrive
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import POWER_CUT, state_of
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.read_keeping import starts_at_boot
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.read_persisted import differing, read_entries, read_kept
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.result import Outcome, describe_drive, diff_of_devices, dropped_above

_BELIEF_SECONDS = 3.0  # libata looks at a drive again by itself after SET FEATURES, a moment later (ata_scsi_dev_rescan)


# --- what is asked ---------------------------------------------------------------------------------


def look(asked: Sequence[Asked], persist: bool, kept: Mapping[str, str]) -> Tuple[Observation, List[AskedDrive]]:
    """Find and ask the drives. *kept*: what the host keeps by now. Raises PlumblineError with every reason why what is asked cannot be meant."""
    seen = read_sysfs.read_mounted_devices()
    names = {node.name: devno for devno, node in seen.nodes.items()}
    seen.links = {link: names[name] for link, name in read_sysfs.read_links().items() if name in names}
    reasons: List[str] = []
    states: Dict[str, str] = {}
    asked_nodes: List[Tuple[Asked, Node]] = []
    for request in asked:
        devno = names.get(_kernel_name(request.path), "")
        reason = _why_not(seen, request, devno, states)
        if reason:
            reasons.append(reason)
            continue
        states[devno] = request.state
        asked_nodes.append((request, seen.nodes[devno]))
    if reasons:
        raise PlumblineError("nothing was set. %s" % reasons[0], reasons)
    drives = []
    for request, node in asked_nodes:
        cache = ask_drive.read_cache(node)
        held = not persist or kept.get(node.identity.key) == request.state
        verdict = rules.judge_wanted(request.state, cache, node.write_cache, held) if request.state != "keep" else rules.CacheVerdict()
        drives.append(AskedDrive(request, node, cache, verdict))
    return seen, drives


def _kernel_name(path: str) -> str:
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def _why_not(seen: Observation, request: Asked, devno: str, states: Mapping[str, str]) -> str:
    if not devno:
        from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import nearest  # wanted by mistakes only

        serial = " (%s)" % request.serial if request.serial else ""
        return "device %s%s is not there%s; wanted a disk of this host; look whether it is plugged in" % (
            request.path, serial, nearest(request.path.rsplit("/", 1)[-1], seen.links),
        )  # fmt: skip
    node = seen.nodes[devno]
    if devno in states:
        return "%s is named twice" % host.device_label(node)
    if node.kind not in ("disk", "loop", "other"):
        return "%s is a %s; wanted the whole disk, to which the write cache belongs" % (host.device_label(node), node.kind)
    if request.identity and request.identity != node.identity.key:
        text = "%s is %s by now; wanted %s: devices have moved since the plan; run again"
        return text % (host.device_label(node), node.identity.key or "unknown", request.identity)
    return ""


def check_drives(
    seen: Observation, drives: Sequence[AskedDrive], persist: bool, tools: Mapping[str, str], stated: Sequence[str] = ()
) -> Dict[str, persist_files.Entry]:
    """Everything that can be known before the first drive is set. Returns the entries to keep; raises PlumblineError with every reason.

    *stated*: serials of drives of which the operator says that they have power-loss protection.
    """
    reasons = ["%s: %s" % (drive.name, drive.verdict.refusal) for drive in drives if drive.verdict.refusal]
    named = {drive.devno: drive.asked.state for drive in drives}
    touched = [drive for drive in drives if drive.asked.state != "keep" and drive.verdict.keepable]
    reasons += [reason for reason in (rules.sharing_reason(seen, drive.devno, named) for drive in touched) if reason]
    for drive in touched:
        serial = drive.node.identity.serial
        accepted = POWER_CUT in drive.asked.accept or (bool(serial) and serial in stated)
        reason = rules.endangers(seen, drive.devno, drive.before, drive.asked.state, accepted)
        reasons += [reason] if reason else []
    entries: Dict[str, persist_files.Entry] = {}
    missing = set()
    for drive in touched if persist else [drive for drive in touched if drive.verdict.set]:
        tool = command.TOOLS[drive.bus]
        if tool not in tools:
            missing.add(tool)
            continue
        if persist:
            entry = entry_of(drive.node, drive.asked.state, tools[tool])
            why = persist_files.why_not_kept(entry)
            twins = guards.identity_reasons(seen, drive.node) + _twin_controllers(drive, entry)
            if why:
                reasons.append("%s: its setting cannot be kept over a reboot: %s; wanted persist: false" % (drive.name, why))
            reasons += [reason.line(drive.name) for reason in twins]
            entries[entry.identity] = entry
    reasons += ["%s is not on this host, and sets the write cache; install the package %s" % (tool, command.PACKAGES[tool]) for tool in sorted(missing)]
    if reasons:
        raise PlumblineError("nothing was set. %s" % reasons[0], list(dict.fromkeys(reasons)))
    return entries


def entry_of(node: Node, state: str, tool: str) -> persist_files.Entry:
    """What is kept of a drive, with the texts of sysfs to the blank."""
    if node.identity.transport != "nvme":
        wwid = _raw("/sys/class/block/%s/device/wwid" % node.name)
        return persist_files.Entry(node.identity.key, wwid, command.bus_word(node), state, tool)
    at = "/sys/class/block/%s" % node.name
    return persist_files.Entry(node.identity.key, _raw(at + "/wwid"), "nvme", state, tool, _raw(at + "/device/serial"), _raw(at + "/device/model"))


def _raw(path: str) -> str:
    """A text of sysfs without the blanks behind it, which neither udev's matches nor sh's read keep."""
    return read_sysfs.read_bytes(path).decode("ascii", "replace").rstrip()


def _twin_controllers(drive: AskedDrive, entry: persist_files.Entry) -> List[Reason]:
    """Other controllers of the same model and serial would match the rule for a reset as well."""
    if entry.bus != "nvme":
        return []
    own = {os.path.basename(path) for path in ask_drive.controllers(drive.node)}
    base = "/sys/class/nvme"
    try:
        others = [name for name in sorted(os.listdir(base)) if name not in own]
    except OSError:
        return []
    twins = [name for name in others if (_raw("%s/%s/serial" % (base, name)), _raw("%s/%s/model" % (base, name))) == (entry.serial, entry.model)]
    remedy = "a controller that cannot be told from another is not kept; set persist: false"
    return [Reason("identity", "its controller shares model and serial with %s" % ", ".join(twins), remedy)] if twins else []


# --- setting ---------------------------------------------------------------------------------------


def apply(run: Runner, asked: Sequence[Asked], persist: bool, tools: Mapping[str, str], dry: bool, stated: Sequence[str] = ()) -> Outcome:
    """Bring the write caches to what is asked and keep them so. *dry*: only say what would be done; *stated*: as in check()."""
    old, kept_before, timer = read_entries(), read_kept(), has_timer()
    seen, drives = look(asked, persist, kept_before)
    entries = check_drives(seen, drives, persist, tools, stated)
    merged = persist_files.merge(old, {drive.node.identity.key: entries.get(drive.node.identity.key) for drive in drives})
    keeps = timer or bool(differing(merged)) or bool(merged and not starts_at_boot())
    todo = [drive for drive in drives if drive.verdict.set]
    changed = keeps or bool(todo) or any(drive.verdict.rescan for drive in drives)
    after = {drive.devno: drive.before for drive in drives}
    beliefs = {drive.devno: drive.node.write_cache for drive in drives}
    if changed and not dry:
        retire_timer(run)
        with undoing(run, tools) as done:
            for drive in todo:
                done.append(drive)
                set_drive(run, tools, drive, drive.asked.state, persist)
            after = {drive.devno: confirm(drive) for drive in drives}
            beliefs = {drive.devno: settle_belief(drive, after[drive.devno]) for drive in drives}
            keep(run, merged)
    devices = [describe_drive(drive, after[drive.devno], beliefs[drive.devno], entries, kept_before, dry) for drive in drives]
    for drive, device in zip(drives, devices):
        device["findings"] += dropped_above(seen, drive, after[drive.devno], dry)
    return Outcome(changed, devices, diff_of_devices(devices, timer))


@contextlib.contextmanager
def undoing(run: Runner, tools: Mapping[str, str]) -> Iterator[List[AskedDrive]]:
    """Collects the drives that were set; where what is within fails, they are put back to what they were, the last first."""
    done: List[AskedDrive] = []
    try:
        yield done
    except (PlumblineError, OSError) as fault:
        stuck, back = [], []
        for drive in reversed(done):
            try:
                if put_drive_back(run, tools, drive):
                    back.append(drive.name)
            except PlumblineError as second:
                stuck.append(second.msg)
        error = fault if isinstance(fault, PlumblineError) else PlumblineError("%s could not be written: %s" % (fault.filename, fault.strerror or fault))
        tail = ("; put back: %s" % ", ".join(back) if back else "") + ("; this could not be put back: %s" % "; ".join(stuck) if stuck else "")
        raise PlumblineError(error.msg + tail, error.reasons) from fault


def put_drive_back(run: Runner, tools: Mapping[str, str], drive: AskedDrive) -> bool:
    """Give a drive its state before, and its saved one. Returns whether a command was sent; one that is gone, or never changed, is left."""
    cache = ask_drive.read_cache(drive.node)
    if cache.fault or cache == drive.before or drive.before.enabled is None:
        return False
    if drive.before.saved is not None and cache.saved != drive.before.saved:
        set_drive(run, tools, drive, "on" if drive.before.saved else "off", True)
    if ask_drive.read_cache(drive.node).enabled != drive.before.enabled:
        set_drive(run, tools, drive, state_of(drive.before), False)
    # The kernel may have looked meanwhile, and would go on believing that there is nothing to flush.
    settle_belief(drive._replace(asked=drive.asked._replace(state=state_of(drive.before))), ask_drive.read_cache(drive.node))
    return True


def set_drive(run: Runner, tools: Mapping[str, str], drive: AskedDrive, state: str, save: bool) -> None:
    """Tell one drive, and read back from the drive. Raises PlumblineError where it refuses, or says yes and does not, or another drive has its name."""
    with pinned(drive.node):
        _set_pinned(run, tools, drive, state, save)


def _set_pinned(run: Runner, tools: Mapping[str, str], drive: AskedDrive, state: str, save: bool) -> None:
    tool = tools[command.TOOLS[drive.bus]]
    paths = ask_drive.controllers(drive.node) if drive.bus == "nvme" else ["/dev/" + drive.node.name]
    saving = save and drive.before.saved is not None
    for path in paths:
        argv = command.set_command(drive.bus, tool, path, state, saving)
        code, out, err = run(argv)
        cache = ask_drive.read_cache(drive.node)
        if cache.fault:
            raise PlumblineError("%s: told to switch its write cache %s, %s; look for it and run again" % (drive.name, state, cache.fault))
        if code and state_of(cache) != state:
            said = " ".join((err or out).split())[:200] or "return code %d" % code
            raise PlumblineError(
                "%s: its write cache is %s and %s refused to change it: %s; wanted %s; write keep for this drive"
                % (drive.name, state_of(cache), os.path.basename(tool), said, state)
            )
    _confirm(drive, state, "it took the command without an error and its write cache is %s; wanted %s; write keep for this drive, or ask its vendor")
    if state == "off":
        flush(drive)


def flush(drive: AskedDrive) -> None:
    """Empty a cache that was just switched off: a kernel that takes it for write-through from now on will not send a flush for what is in it."""
    try:
        fd = os.open("/dev/" + drive.node.name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    except OSError as fault:
        what = (drive.name, fault.strerror or fault)
        raise PlumblineError("%s: its cache was switched off and could not be flushed: %s; look at the drive" % what) from fault


def _confirm(drive: AskedDrive, state: str, words: str) -> WriteCache:
    """Read back. Success of a tool is no proof: there are drives that take the command and change nothing."""
    cache = ask_drive.read_cache(drive.node)
    if cache.fault:
        raise PlumblineError("%s: %s after its write cache was set; wanted %s; look for it and run again" % (drive.name, cache.fault, state))
    if state_of(cache) != state:
        raise PlumblineError("%s: %s" % (drive.name, words % (state_of(cache), state)))
    return cache


_UNDONE = "when all drives were set its write cache is %s; wanted %s; another drive's setting changes it; write keep for one"


def confirm(drive: AskedDrive) -> WriteCache:
    """What a drive says when all were set: one drive's setting may undo another's."""
    if drive.asked.state == "keep" or not drive.verdict.keepable:
        return ask_drive.read_cache(drive.node)
    return _confirm(drive, drive.asked.state, _UNDONE)


# --- the kernel's belief ---------------------------------------------------------------------------


def belief_of(node: Node) -> str:
    """What the kernel believes of a disk's cache."""
    return read_sysfs.read_text("/sys/class/block/%s/queue/write_cache" % node.name)


def settle_belief(drive: AskedDrive, cache: WriteCache) -> str:
    """Make the kernel look again where that mends what it believes. Raises PlumblineError where a cache that we switched on stays unflushed."""
    if drive.asked.state == "keep":
        return belief_of(drive.node)
    deadline = time.monotonic() + _BELIEF_SECONDS
    rescanned = False
    while rules.belief_is_stale(cache, belief_of(drive.node), drive.asked.state) and time.monotonic() < deadline:
        if not rescanned:
            if drive.asked.state == "on":
                _send_flushes(drive.node)
            _rescan(drive.node)
            rescanned = True
        time.sleep(0.05)
    belief = belief_of(drive.node)
    if rules.believed_wrongly(cache, belief) and drive.verdict.set:
        raise PlumblineError(
            "%s: its write cache is on and the kernel goes on believing 'write through', so that flushes would be dropped; wanted 'write back'; "
            "boot the host again, and look who writes queue/write_cache" % drive.name
        )
    return belief


def _rescan(node: Node) -> None:
    """Make sd read the caching page again, or the NVMe driver VWC; what the kernel believes then is read behind it."""
    paths = ["/sys/class/block/%s/device/rescan" % node.name]
    if node.identity.transport == "nvme":
        paths = ["/sys/class/nvme/%s/rescan_controller" % os.path.basename(path) for path in ask_drive.controllers(node)]
    for path in paths:
        _put(path, "1")


def _send_flushes(node: Node) -> None:
    """Take back a 'write through' that somebody wrote. Since Linux 6.11 no rescan does (BLK_FLAG_WRITE_CACHE_DISABLED, block/blk-sysfs.c)."""
    _put("/sys/class/block/%s/queue/write_cache" % node.name, "write back")


def _put(path: str, value: str) -> None:
    """What comes of it is read from the kernel's belief."""
    with contextlib.suppress(OSError):
        change_sysfs_settings.write_setting(path, value)
