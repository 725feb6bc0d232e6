# SPDX-License-Identifier: GPL-3.0-or-later
"""What is returned of drives whose write cache was set. Pure."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation, WriteCache
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache import durability, kept_paths, persist_files, rules
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.drive import AskedDrive
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.durability import droppers, name_mapped, state_of


class Outcome(NamedTuple):
    """What was found and done."""

    changed: bool
    devices: List[Dict[str, Any]]
    diff: Dict[str, str]


def describe_drive(
    drive: AskedDrive, cache: WriteCache, belief: str, entries: Mapping[str, persist_files.Entry], kept_before: Mapping[str, str], dry: bool
) -> Dict[str, Any]:
    """One drive as the module returns it."""
    key = drive.node.identity.key
    before = state_of(drive.before)
    will = drive.asked.state if drive.verdict.set else before
    after = will if dry and before in ("on", "off") else state_of(cache)
    kept = entries[key].state if key in entries else ""
    return {
        **durability.as_facts(cache, belief),
        "device": "/dev/" + drive.node.name,
        "path": drive.asked.path,
        "identity": key,
        "serial": drive.node.identity.serial,
        "state": drive.asked.state,
        "before": before,
        "after": after,
        "kept": kept,
        "kept_before": kept_before.get(key, ""),
        "findings": findings(drive, cache, belief, kept, dry),
    }


def findings(drive: AskedDrive, cache: WriteCache, belief: str, kept: str, dry: bool) -> List[Dict[str, str]]:
    """Notes and faults that were no reason to fail."""
    listed = []
    if drive.verdict.note:
        listed.append(_finding("warning", drive, drive.verdict.note, drive.asked.state))
    if kept and cache.saved is not None and cache.saved != (kept == "on") and not dry:
        listed.append(_finding("warning", drive, "it does not save the setting, though it says that it can; the rule makes it again", "saved %s" % kept))
    if rules.believed_wrongly(cache, belief) and not (dry and (drive.verdict.rescan or drive.verdict.set)):
        listed.append(_finding("error", drive, "its volatile write cache is on and the kernel believes 'write through': flushes are dropped", "'write back'"))
    return listed


def dropped_above(seen: Observation, drive: AskedDrive, cache: WriteCache, dry: bool) -> List[Dict[str, str]]:
    """A finding where the kernel would flush the drive, and something above it lets no flush through."""
    mapped = droppers(seen, drive.devno) if cache.present and cache.enabled and not (dry and drive.verdict.set) else []
    if not mapped:
        return []
    text = "its volatile write cache is on and the kernel believes 'write through' of %s above it: flushes are dropped" % name_mapped(mapped)
    return [_finding("error", drive, text, "'write back', by deactivating and activating it (vgchange -an, -ay)")]


def _finding(level: str, drive: AskedDrive, found: str, wanted: str) -> Dict[str, str]:
    name = drive.node.name
    return {"level": level, "layer": "device", "name": name, "found": found, "wanted": wanted, "text": "%s: %s; wanted %s" % (drive.name, found, wanted)}


def diff_of_devices(devices: Sequence[Mapping[str, Any]], timer: bool = False) -> Dict[str, str]:
    """What changes. *timer*: one of an earlier release goes."""
    retired = "%s: asks every drive every five seconds\n" % kept_paths.TIMER if timer else ""

    def lines(state: str, kept: str) -> str:
        return "".join("%s (%s): %s%s\n" % (d["device"], d["serial"], d[state], ", kept %s" % d[kept] if d[kept] else "") for d in devices)

    return {"before": lines("before", "kept_before") + retired, "after": lines("after", "kept")}
