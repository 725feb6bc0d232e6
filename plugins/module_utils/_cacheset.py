# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Write caches, set by the standard tools and kept over reboots. I/O.

All that can be known is checked for all drives before the first is set, and where one fails those before it are put back.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils import _cache, _cacheio, _cachekeep, _guards, _sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._durability import POWER_CUT, droppers, name_mapped, state_of
from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Node, Observation, WriteCache

Runner = Callable[[Sequence[str]], Tuple[int, str, str]]

_BELIEF_SECONDS = 3.0  # libata looks at a drive again by itself after SET FEATURES, a moment later (ata_scsi_dev_rescan)


class Asked(NamedTuple):
    """What is asked of one drive. *identity*: refuse where the path is another drive by now; *serial*: for messages; *accept*: risks taken on."""

    path: str
    state: str
    identity: str = ""
    serial: str = ""
    accept: Tuple[str, ...] = ()


class Drive(NamedTuple):
    """One drive of a call: what is wanted, what it said before anything was set, and what that asks for."""

    asked: Asked
    node: Node
    before: WriteCache
    verdict: _cache.Verdict

    @property
    def devno(self) -> str:
        return self.node.devno

    @property
    def name(self) -> str:
        return _cache.label(self.node)

    @property
    def bus(self) -> str:
        return _cache.bus_word(self.node)


class Outcome(NamedTuple):
    """What was found and done."""

    changed: bool
    devices: List[Dict[str, Any]]
    diff: Dict[str, str]


# --- what is kept ----------------------------------------------------------------------------------


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except OSError:
        return ""


def read_entries() -> List[_cachekeep.Entry]:
    """The drives whose cache this host keeps."""
    return _cachekeep.parse_state(_read(_cachekeep.STATE))


def has_systemd() -> bool:
    """Whether systemd runs this host."""
    return os.path.isdir("/run/systemd/system")


def differing(entries: Sequence[_cachekeep.Entry]) -> Dict[str, str]:
    """The files that are not what these entries ask for, with their text; an empty text means: no such file."""
    wanted = _cachekeep.files(entries)
    return {path: text for path, text in wanted.items() if _read(path) != text or (not text and os.path.lexists(path))}


def at_work(run: Runner) -> bool:
    """Whether systemd starts the timer and the service at boot, and the timer runs by now; or there is no systemd that could.

    A timer rests while a cache is switched: what is killed meanwhile leaves it so, and so does whoever stops it by hand.
    """
    if not has_systemd():
        return True
    return all(os.path.islink(path) for path in _cachekeep.WANTS) and run(["systemctl", "is-active", "--quiet", _cachekeep.UNITS[0]])[0] == 0


def there(tool: str) -> bool:
    """Whether what a rule runs can be run: packages are removed, and rules do not mind."""
    return os.access(tool, os.X_OK)


def read_kept(run: Runner) -> Dict[str, str]:
    """Identity → the state that is kept, for an observation; empty where files are missing or were changed by others, or nothing works by them."""
    entries = read_entries()
    intact = not entries or (not differing(entries) and at_work(run))
    kept = _cachekeep.kept_states(entries, intact, _read(_cachekeep.RULES))
    return {**kept, **{entry.identity: "" for entry in entries if not there(entry.tool)}}


def keep(run: Runner, entries: Sequence[_cachekeep.Entry]) -> bool:
    """Bring rule, script, timer and state to these entries. Returns whether anything changed; a failure leaves what was there."""
    stale = differing(entries)
    if not stale and (not entries or at_work(run)):
        return False
    old = {path: _read(path) if os.path.lexists(path) else None for path in stale}
    try:
        if entries:
            _write(stale)
            _start(run, stale)
        else:
            _stop(run)
            _write(stale)
            if has_systemd():
                _must(run(["systemctl", "daemon-reload"]), "systemd could not read its units again")
        if _cachekeep.RULES in stale:
            run(["udevadm", "control", "--reload"])  # it looks by itself too, but every three seconds only
    except BaseException:
        if entries and not old.get(_cachekeep.TIMER, "there"):
            with contextlib.suppress(OSError, PlumblineError):
                _stop(run)
            with contextlib.suppress(OSError):
                _disable()
        for path, text in old.items():  # each as far as it goes: one that fails must not leave the others, which would set the drive again
            with contextlib.suppress(OSError):
                _write({path: text or ""})
        raise
    return True


def _write(texts: Mapping[str, str]) -> None:
    from ansible_collections.plumbline.ssd.plugins.module_utils._mounting import replace_file  # readers need none of it

    for path, text in texts.items():
        directory = os.path.dirname(path)
        if text:
            private = path == _cachekeep.STATE
            os.makedirs(directory, mode=0o700 if private else 0o755, exist_ok=True)
            if private:
                os.chmod(directory, 0o700)
            replace_file(path, text, mode=_cachekeep.MODES.get(path, 0o644))
        elif os.path.lexists(path):
            os.unlink(path)
            with contextlib.suppress(OSError):
                if directory == os.path.dirname(_cachekeep.SCRIPT):
                    os.rmdir(directory)  # ours, where nothing else was put there


def _start(run: Runner, stale: Mapping[str, str]) -> None:
    """Units that are new or changed are read, and the timer runs; the first look at the drives is the service's own."""
    if not has_systemd():
        return
    if _cachekeep.SERVICE in stale or _cachekeep.TIMER in stale or not at_work(run):
        _must(run(["systemctl", "enable", "--quiet", *_cachekeep.UNITS]), "the timer that looks after the write caches could not be enabled")
        _must(run(["systemctl", "restart", "--quiet", _cachekeep.UNITS[0]]), "the timer that looks after the write caches could not be started")


def _stop(run: Runner) -> None:
    """Stop and disable the timer, also where some of its files are gone, over which systemctl would stumble."""
    if has_systemd():
        for unit, path in zip(_cachekeep.UNITS, (_cachekeep.TIMER, _cachekeep.SERVICE)):
            if os.path.lexists(path):
                _must(run(["systemctl", "stop", "--quiet", unit]), "%s could not be stopped" % unit)
                run(["systemctl", "reset-failed", "--quiet", unit])  # or systemd goes on showing a unit that is gone
    _disable()


def _disable() -> None:
    """What `systemctl disable` does."""
    for path in _cachekeep.WANTS:
        if os.path.lexists(path):
            os.unlink(path)


def _must(result: Tuple[int, str, str], fault: str) -> None:
    code, out, err = result
    if code:
        raise PlumblineError("%s: %s" % (fault, " ".join((err or out).split()) or "return code %d" % code))


@contextlib.contextmanager
def paused(run: Runner, needed: bool) -> Iterator[None]:
    """Within, the timer's own run cannot set a drive back to what was asked before; what is running is waited for."""
    stopped = needed and has_systemd() and os.path.lexists(_cachekeep.TIMER) and os.path.lexists(_cachekeep.SERVICE)
    if stopped:
        _must(run(["systemctl", "stop", "--quiet", *_cachekeep.UNITS]), "the timer that looks after the write caches could not be stopped")
    try:
        yield
    finally:
        if stopped and os.path.lexists(_cachekeep.TIMER):
            run(["systemctl", "start", "--quiet", _cachekeep.UNITS[0]])


# --- what is asked ---------------------------------------------------------------------------------


def look(asked: Sequence[Asked], persist: bool, kept: Mapping[str, str]) -> Tuple[Observation, List[Drive]]:
    """Find and ask the drives. *kept*: what the host keeps by now. Raises PlumblineError with every reason why what is asked cannot be meant."""
    seen = Observation(nodes=_sysfs.read_nodes(), mounts=_sysfs.read_mounts())
    seen.in_force = _sysfs.read_in_force(seen.nodes, seen.mounts)
    names = {node.name: devno for devno, node in seen.nodes.items()}
    seen.links = {link: names[name] for link, name in _sysfs.read_links().items() if name in names}
    reasons: List[str] = []
    wanted: Dict[str, str] = {}
    found: List[Tuple[Asked, Node]] = []
    for one in asked:
        devno = names.get(_kernel_name(one.path), "")
        reason = _why_not(seen, one, devno, wanted)
        if reason:
            reasons.append(reason)
            continue
        wanted[devno] = one.state
        found.append((one, seen.nodes[devno]))
    if reasons:
        raise PlumblineError("nothing was set. %s" % reasons[0], reasons)
    drives = []
    for one, node in found:
        cache = _cacheio.read_cache(node)
        held = not persist or kept.get(node.identity.key) == one.state
        verdict = _cache.judge(one.state, cache, node.write_cache, held) if one.state != "keep" else _cache.Verdict()
        drives.append(Drive(one, node, cache, verdict))
    return seen, drives


def _kernel_name(path: str) -> str:
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else ""


def _why_not(seen: Observation, one: Asked, devno: str, wanted: Mapping[str, str]) -> str:
    if not devno:
        from ansible_collections.plumbline.ssd.plugins.module_utils._errors import nearest  # wanted by mistakes only

        serial = " (%s)" % one.serial if one.serial else ""
        return "device %s%s is not there%s; wanted a disk of this host; look whether it is plugged in" % (
            one.path, serial, nearest(one.path.rsplit("/", 1)[-1], seen.links),
        )  # fmt: skip
    node = seen.nodes[devno]
    if devno in wanted:
        return "%s is named twice" % _cache.label(node)
    if node.kind not in ("disk", "loop", "other"):
        return "%s is a %s; wanted the whole disk, to which the write cache belongs" % (_cache.label(node), node.kind)
    if one.identity and one.identity != node.identity.key:
        return "%s is %s by now; wanted %s: devices have moved since the plan; run again" % (_cache.label(node), node.identity.key or "unknown", one.identity)
    return ""


def check(seen: Observation, drives: Sequence[Drive], persist: bool, tools: Mapping[str, str], stated: Sequence[str] = ()) -> Dict[str, _cachekeep.Entry]:
    """Everything that can be known before the first drive is set. Returns the entries to keep; raises PlumblineError with every reason.

    *stated*: serials of drives of which the operator says that they have power-loss protection.
    """
    reasons = ["%s: %s" % (drive.name, drive.verdict.refusal) for drive in drives if drive.verdict.refusal]
    named = {drive.devno: drive.asked.state for drive in drives}
    touched = [drive for drive in drives if drive.asked.state != "keep" and drive.verdict.keepable]
    reasons += [reason for reason in (_cache.sharing_reason(seen, drive.devno, named) for drive in touched) if reason]
    for drive in touched:
        serial = drive.node.identity.serial
        accepted = POWER_CUT in drive.asked.accept or (bool(serial) and serial in stated)
        reason = _cache.endangers(seen, drive.devno, drive.before, drive.asked.state, accepted)
        reasons += [reason] if reason else []
    entries: Dict[str, _cachekeep.Entry] = {}
    missing = set()
    for drive in touched if persist else [drive for drive in touched if drive.verdict.set]:
        tool = _cache.TOOLS[drive.bus]
        if tool not in tools:
            missing.add(tool)
            continue
        if persist:
            entry = entry_of(drive.node, drive.asked.state, tools[tool])
            why = _cachekeep.why_not_kept(entry)
            twins = _guards.identity_reasons(seen, drive.node) + _twin_controllers(drive, entry)
            if why:
                reasons.append("%s: its setting cannot be kept over a reboot: %s; wanted persist: false" % (drive.name, why))
            reasons += [reason.line(drive.name) for reason in twins]
            entries[entry.identity] = entry
    reasons += ["%s is not on this host, and sets the write cache; install the package %s" % (tool, _cache.PACKAGES[tool]) for tool in sorted(missing)]
    if reasons:
        raise PlumblineError("nothing was set. %s" % reasons[0], list(dict.fromkeys(reasons)))
    return entries


def entry_of(node: Node, state: str, tool: str) -> _cachekeep.Entry:
    """What is kept of a drive, with the texts of sysfs to the blank."""
    if node.identity.transport != "nvme":
        wwid = _raw("/sys/class/block/%s/device/wwid" % node.name)
        return _cachekeep.Entry(node.identity.key, wwid, _cache.bus_word(node), state, tool)
    at = "/sys/class/block/%s" % node.name
    return _cachekeep.Entry(node.identity.key, _raw(at + "/wwid"), "nvme", state, tool, _raw(at + "/device/serial"), _raw(at + "/device/model"))


def _raw(path: str) -> str:
    """A text of sysfs without the blanks behind it, which neither udev's matches nor sh's read keep."""
    return _sysfs.read_bytes(path).decode("ascii", "replace").rstrip()


def _twin_controllers(drive: Drive, entry: _cachekeep.Entry) -> List[_guards.Reason]:
    """Other controllers of the same model and serial would match the rule for a reset as well."""
    if entry.bus != "nvme":
        return []
    own = {os.path.basename(path) for path in _cacheio.controllers(drive.node)}
    base = "/sys/class/nvme"
    try:
        others = [name for name in sorted(os.listdir(base)) if name not in own]
    except OSError:
        return []
    twins = [name for name in others if (_raw("%s/%s/serial" % (base, name)), _raw("%s/%s/model" % (base, name))) == (entry.serial, entry.model)]
    remedy = "a controller that cannot be told from another is not kept; set persist: false"
    return [_guards.Reason("identity", "its controller shares model and serial with %s" % ", ".join(twins), remedy)] if twins else []


# --- setting ---------------------------------------------------------------------------------------


def apply(run: Runner, asked: Sequence[Asked], persist: bool, tools: Mapping[str, str], dry: bool, stated: Sequence[str] = ()) -> Outcome:
    """Bring the write caches to what is asked and keep them so. *dry*: only say what would be done; *stated*: as in check()."""
    old, kept_before = read_entries(), read_kept(run)
    seen, drives = look(asked, persist, kept_before)
    entries = check(seen, drives, persist, tools, stated)
    merged = _cachekeep.merge(old, {drive.node.identity.key: entries.get(drive.node.identity.key) for drive in drives})
    keeps = bool(differing(merged)) or bool(merged and not at_work(run))
    todo = [drive for drive in drives if drive.verdict.set]
    changed = keeps or bool(todo) or any(drive.verdict.rescan for drive in drives)
    after = {drive.devno: drive.before for drive in drives}
    beliefs = {drive.devno: drive.node.write_cache for drive in drives}
    if changed and not dry:
        states = {entry.identity: entry.state for entry in old}
        clash = any(states.get(drive.node.identity.key, drive.asked.state) != drive.asked.state for drive in drives)
        with paused(run, clash), undoing(run, tools) as done:
            for drive in todo:
                done.append(drive)
                set_drive(run, tools, drive, drive.asked.state, persist)
            after = {drive.devno: confirm(drive) for drive in drives}
            beliefs = {drive.devno: settle_belief(drive, after[drive.devno]) for drive in drives}
            keep(run, merged)
    devices = [describe(drive, after[drive.devno], beliefs[drive.devno], entries, kept_before, dry) for drive in drives]
    for drive, device in zip(drives, devices):
        device["findings"] += dropped_above(seen, drive, after[drive.devno], dry)
    return Outcome(changed, devices, _diff(devices))


@contextlib.contextmanager
def undoing(run: Runner, tools: Mapping[str, str]) -> Iterator[List[Drive]]:
    """Collects the drives that were set; where what is within fails, they are put back to what they were, the last first."""
    done: List[Drive] = []
    try:
        yield done
    except (PlumblineError, OSError) as fault:
        stuck, back = [], []
        for drive in reversed(done):
            try:
                if put_back(run, tools, drive):
                    back.append(drive.name)
            except PlumblineError as second:
                stuck.append(second.msg)
        told = fault if isinstance(fault, PlumblineError) else PlumblineError("%s could not be written: %s" % (fault.filename, fault.strerror or fault))
        tail = ("; put back: %s" % ", ".join(back) if back else "") + ("; this could not be put back: %s" % "; ".join(stuck) if stuck else "")
        raise PlumblineError(told.msg + tail, told.reasons) from fault


def put_back(run: Runner, tools: Mapping[str, str], drive: Drive) -> bool:
    """Give a drive its state before, and its saved one. Returns whether it was told so; one that is gone, or never changed, is left."""
    found = _cacheio.read_cache(drive.node)
    if found.fault or found == drive.before or drive.before.enabled is None:
        return False
    if drive.before.saved is not None and found.saved != drive.before.saved:
        set_drive(run, tools, drive, "on" if drive.before.saved else "off", True)
    if _cacheio.read_cache(drive.node).enabled != drive.before.enabled:
        set_drive(run, tools, drive, state_of(drive.before), False)
    # The kernel may have looked meanwhile, and would go on believing that there is nothing to flush.
    settle_belief(drive._replace(asked=drive.asked._replace(state=state_of(drive.before))), _cacheio.read_cache(drive.node))
    return True


def set_drive(run: Runner, tools: Mapping[str, str], drive: Drive, state: str, save: bool) -> None:
    """Tell one drive, and read back from the drive. Raises PlumblineError where it refuses, or says yes and does not."""
    tool = tools[_cache.TOOLS[drive.bus]]
    paths = _cacheio.controllers(drive.node) if drive.bus == "nvme" else ["/dev/" + drive.node.name]
    saving = save and drive.before.saved is not None
    for path in paths:
        argv = _cache.set_command(drive.bus, tool, path, state, saving)
        code, out, err = run(argv)
        found = _cacheio.read_cache(drive.node)
        if found.fault:
            raise PlumblineError("%s: told to switch its write cache %s, %s; look for it and run again" % (drive.name, state, found.fault))
        if code and state_of(found) != state:
            said = " ".join((err or out).split())[:200] or "return code %d" % code
            raise PlumblineError(
                "%s: its write cache is %s and %s refused to change it: %s; wanted %s; write keep for this drive"
                % (drive.name, state_of(found), os.path.basename(tool), said, state)
            )
    _confirm(drive, state, "it took the command without an error and its write cache is %s; wanted %s; write keep for this drive, or ask its vendor")
    if state == "off":
        flush(drive)


def flush(drive: Drive) -> None:
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


def _confirm(drive: Drive, state: str, words: str) -> WriteCache:
    """Read back. Success of a tool is no proof: there are drives that take the command and change nothing."""
    found = _cacheio.read_cache(drive.node)
    if found.fault:
        raise PlumblineError("%s: %s after its write cache was set; wanted %s; look for it and run again" % (drive.name, found.fault, state))
    if state_of(found) != state:
        raise PlumblineError("%s: %s" % (drive.name, words % (state_of(found), state)))
    return found


_UNDONE = "when all drives were set its write cache is %s; wanted %s; another drive's setting changes it; write keep for one"


def confirm(drive: Drive) -> WriteCache:
    """What a drive says when all were set: one drive's setting may undo another's."""
    if drive.asked.state == "keep" or not drive.verdict.keepable:
        return _cacheio.read_cache(drive.node)
    return _confirm(drive, drive.asked.state, _UNDONE)


# --- the kernel's belief ---------------------------------------------------------------------------


def belief_of(node: Node) -> str:
    """What the kernel believes of a disk's cache. It is read here and never written."""
    return _sysfs.read_text("/sys/class/block/%s/queue/write_cache" % node.name)


def settle_belief(drive: Drive, found: WriteCache) -> str:
    """Make the kernel look again where that mends what it believes. Raises PlumblineError where a cache that we switched on stays unflushed."""
    if drive.asked.state == "keep":
        return belief_of(drive.node)
    deadline = time.monotonic() + _BELIEF_SECONDS
    told = False
    while _cache.belief_is_stale(found, belief_of(drive.node), drive.asked.state) and time.monotonic() < deadline:
        if not told:
            _rescan(drive.node)
            told = True
        time.sleep(0.05)
    belief = belief_of(drive.node)
    if _cache.believed_wrongly(found, belief) and drive.verdict.set:
        raise PlumblineError(
            "%s: its write cache is on and the kernel goes on believing 'write through', so that flushes would be dropped; wanted 'write back'; "
            "boot the host again, and look who writes queue/write_cache" % drive.name
        )
    return belief


def _rescan(node: Node) -> None:
    """Make sd read the caching page again, or the NVMe driver VWC; what the kernel believes then is read behind it."""
    paths = ["/sys/class/block/%s/device/rescan" % node.name]
    if node.identity.transport == "nvme":
        paths = ["/sys/class/nvme/%s/rescan_controller" % os.path.basename(path) for path in _cacheio.controllers(node)]
    for path in paths:
        with contextlib.suppress(OSError):
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(fd, b"1")
            finally:
                os.close(fd)


# --- what is told ----------------------------------------------------------------------------------


def describe(
    drive: Drive, found: WriteCache, belief: str, entries: Mapping[str, _cachekeep.Entry], kept_before: Mapping[str, str], dry: bool
) -> Dict[str, Any]:
    """One drive as the module returns it."""
    key = drive.node.identity.key
    before = state_of(drive.before)
    will = drive.asked.state if drive.verdict.set else before
    after = will if dry and before in ("on", "off") else state_of(found)
    kept = entries[key].state if key in entries else ""
    return {
        **_cache.as_facts(found, belief),
        "device": "/dev/" + drive.node.name,
        "path": drive.asked.path,
        "identity": key,
        "serial": drive.node.identity.serial,
        "state": drive.asked.state,
        "before": before,
        "after": after,
        "kept": kept,
        "kept_before": kept_before.get(key, ""),
        "findings": findings(drive, found, belief, kept, dry),
    }


def findings(drive: Drive, found: WriteCache, belief: str, kept: str, dry: bool) -> List[Dict[str, str]]:
    """What is worth a word, or wrong, and was not a reason to fail."""
    told = []
    if drive.verdict.note:
        told.append(_finding("warning", drive, drive.verdict.note, drive.asked.state))
    if kept and found.saved is not None and found.saved != (kept == "on") and not dry:
        told.append(_finding("warning", drive, "it does not save the setting, though it says that it can; the rule makes it again", "saved %s" % kept))
    if _cache.believed_wrongly(found, belief) and not (dry and (drive.verdict.rescan or drive.verdict.set)):
        told.append(_finding("error", drive, "its volatile write cache is on and the kernel believes 'write through': flushes are dropped", "'write back'"))
    return told


def dropped_above(seen: Observation, drive: Drive, found: WriteCache, dry: bool) -> List[Dict[str, str]]:
    """A finding where the kernel would flush the drive, and something above it lets no flush through."""
    mapped = droppers(seen, drive.devno) if found.present and found.enabled and not (dry and drive.verdict.set) else []
    if not mapped:
        return []
    text = "its volatile write cache is on and the kernel believes 'write through' of %s above it: flushes are dropped" % name_mapped(mapped)
    return [_finding("error", drive, text, "'write back', by deactivating and activating it (vgchange -an, -ay)")]


def _finding(level: str, drive: Drive, found: str, wanted: str) -> Dict[str, str]:
    name = drive.node.name
    return {"level": level, "layer": "device", "name": name, "found": found, "wanted": wanted, "text": "%s: %s; wanted %s" % (drive.name, found, wanted)}


def _diff(devices: Sequence[Mapping[str, Any]]) -> Dict[str, str]:
    def lines(state: str, kept: str) -> str:
        return "".join("%s (%s): %s%s\n" % (d["device"], d["serial"], d[state], ", kept %s" % d[kept] if d[kept] else "") for d in devices)

    return {"before": lines("before", "kept_before"), "after": lines("after", "kept")}


def find_tools(find: Callable[[str], Optional[str]]) -> Dict[str, str]:
    """The tools that set write caches, of those that the host has. One path each, however the host's directories are linked (/sbin, /usr/sbin)."""
    found = {tool: find(tool) for tool in _cache.TOOLS.values()}
    return {tool: os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for tool, path in found.items() if path}
