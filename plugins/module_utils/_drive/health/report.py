# SPDX-License-Identifier: GPL-3.0-or-later
"""What a module returns of the health of drives: each drive with its verdict, the findings, and a table for people. Pure."""

from __future__ import annotations

import fnmatch
from collections import Counter
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, INFO, WARNING, Finding, worst_level
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import table
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Reading, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.firmware_advisories import Advisory
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.health_rules import (
    DriveUse,
    HealthVerdict,
    judge_health,
    mixed_firmware,
    virtual_problem,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.last_reading import LastReading
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.left_out import LeftOut


class StackDrives(NamedTuple):
    """A stack of the caller: its drives by the kernel's names and by serials."""

    name: str
    disks: Tuple[str, ...]
    serials: Tuple[str, ...]
    new: bool
    trusts_capacitors: bool


class Known(NamedTuple):
    """What is known beyond what the drives report. *rated*: (pattern of a model, bytes that it may be written).

    *mirrored*: disk by the kernel's name → the mirrored stack that has a second copy of it, and its serial as a spec has it.
    """

    now: int
    stacks: Sequence[StackDrives] = ()
    rated: Sequence[Tuple[str, int]] = ()
    advisories: Sequence[Advisory] = ()
    histories: Mapping[str, Sequence[Reading]] = {}
    left_out: Sequence[LeftOut] = ()
    unfit: Sequence[LeftOut] = ()  # of these, those that fit no drive
    mirrored: Mapping[str, Tuple[str, str]] = {}


def health_result(drives: Sequence[Tuple[Source, Health]], known: Known) -> Dict[str, Any]:
    """``level``, ``findings``, ``drives`` and ``report``, as the module returns them."""
    members = any(source.member and health.read for source, health in drives)
    count = Counter(health.key for _source, health in drives if health.key)
    reported = [_drive_result(source, health, known, members, count[health.key] > 1) for source, health in sorted(drives, key=lambda drive: _name(drive[0]))]
    findings = [finding for drive in reported if not drive["not_applicable"] for finding in drive["findings"]]
    virtual = [health.virtual for _source, health in drives if health.not_applicable]
    if virtual:  # one line for all of them: a cloud host has nothing else
        problem = virtual_problem(virtual)
        names = ", ".join(drive["name"] for drive in reported if drive["not_applicable"])
        findings.append(dict(Finding(problem.level, "drive", names, problem.found, problem.wanted, problem.rule).as_dict(), failing=problem.failing))
    findings += [_unfit(entry) for entry in known.unfit]
    for stack in known.stacks:
        mixed = mixed_firmware([health for source, health in drives if _belongs(source, health, stack) and not health.left_out])
        if mixed:
            finding = Finding(mixed.level, "stack", stack.name, mixed.found, mixed.wanted, mixed.rule)
            findings.append(dict(finding.as_dict(), failing=mixed.failing))
    return {
        "level": worst_level([finding["level"] for finding in findings]),
        "findings": findings,
        "drives": reported,
        "report": _table(reported) + ["%s: %s" % (finding["level"], finding["text"]) for finding in findings],
    }


def _unfit(entry: LeftOut) -> Dict[str, Any]:
    """An entry that leaves nothing out: a name that is wrong, or of a drive that is gone. A pattern may be meant for other hosts."""
    text = "no drive of this host fits, and so none is left out because %s" % entry.reason
    remedy = "the name of a drive, or plumbline_health.leave_out without it"
    finding = Finding(INFO if entry.model else WARNING, "drive", entry.text, text, remedy, "left_out_nothing")
    return dict(finding.as_dict(), failing=False)


def last_readings(result: Mapping[str, Any], keys: Mapping[str, str], now: int) -> Dict[str, LastReading]:
    """What a later plan wants to know of this reading, by the identity of a disk. *keys*: the kernel's name of a disk → its identity."""
    return {
        keys[name]: LastReading(now, drive["level"], tuple(finding["text"] for finding in drive["findings"] if _is_reported(finding)))
        for drive in result["drives"]
        for name in drive["disks"]
        if keys.get(name)
    }


def _is_reported(finding: Mapping[str, Any]) -> bool:
    """Whether a later plan reports it. A drive that is left out is always reported."""
    return finding["level"] in (ERROR, WARNING) or finding["rule"] == "left_out"


def _name(source: Source) -> str:
    """The kernel's name, or where a controller has the drive."""
    if source.names:
        return source.names[0]
    return source.device if source.member in ("", "storcli") else "%s %s" % (source.device, source.member)


def _belongs(source: Source, health: Health, stack: StackDrives) -> bool:
    return bool(set(source.names) & set(stack.disks)) or (bool(health.serial) and health.serial in stack.serials)


def _use(source: Source, health: Health, known: Known, members: bool) -> DriveUse:
    stack = next((candidate for candidate in known.stacks if _belongs(source, health, candidate)), None)
    rated = next((count for pattern, count in known.rated if fnmatch.fnmatchcase(health.model, pattern)), 0)
    use = DriveUse(rated_bytes=rated, members_read=members, member=bool(source.member) and not source.names)
    if source.names and all(name in known.mirrored for name in source.names):  # of each namespace, where it has several
        stack_of, serial = known.mirrored[source.names[0]]
        use = use._replace(mirrored=stack_of, known_as=serial)
    return use._replace(stack=stack.name, new=stack.new, trusts_capacitors=stack.trusts_capacitors) if stack else use


def _drive_result(source: Source, health: Health, known: Known, members: bool, twice: bool) -> Dict[str, Any]:
    use, history = _use(source, health, known, members)._replace(identified_twice=twice), known.histories.get(health.key, ())
    verdict = judge_health(health, known.now, use, history, known.advisories)
    name = _name(source)
    return {
        "key": "" if twice else health.key,
        **{key: getattr(health, key) for key in ("wwn", "serial", "model", "firmware", "protocol", "read", "not_applicable", "left_out", "source")},
        "name": name,
        "device": source.device,
        "member": source.member,
        "disks": list(source.names),
        "stack": use.stack,
        "failing": verdict.failing,
        "level": verdict.level,
        "findings": verdict.findings("%s (%s)" % (name, health.serial) if health.serial else name),
        "wear": {
            "used_percent": health.used,
            "source": health.used_source,
            "spare_percent": health.spare,
            "spare_threshold_percent": health.spare_threshold,
            "life_tenths": list(health.life) or None,
        },
        "temperature_celsius": health.temperature,
        "counters": dict(health.counters),
        "write_amplification": _amplification(health.counters),
        "projection": verdict.projection.as_dict() if verdict.projection else None,
        "baseline": _baseline(verdict, history),
    }


def _amplification(counters: Mapping[str, int]) -> Optional[float]:
    """Bytes to the flash over bytes from the host; Micron counts pages of the host (247) and of its own (248)."""
    if counters.get("host_pages"):
        return round(1 + counters.get("background_pages", 0) / counters["host_pages"], 3)
    flash, host = counters.get("flash_bytes_written"), counters.get("host_bytes_written")
    return round(flash / host, 3) if flash and host else None


def _baseline(verdict: HealthVerdict, history: Sequence[Reading]) -> Dict[str, Any]:
    return {
        "since": history[0].when if history else None,
        "readings": len(history),
        "growth": {name: count for name, count in verdict.growth.items() if count},
        "recent": {name: count for name, count in verdict.recent.items() if count},
    }


def _table(drives: Sequence[Mapping[str, Any]]) -> List[str]:
    rows = [("drive", "model", "serial", "firmware", "failing", "level", "used %", "spare %", "days left, at least", "hours")]
    for drive in drives:
        days = drive["projection"]["days_min"] if drive["projection"] else None
        numbers = (drive["wear"]["used_percent"], drive["wear"]["spare_percent"], days, drive["counters"].get("power_on_hours"))
        used, spare, left, hours = ("-" if number is None else "%d" % number for number in numbers)
        failing = "left out" if drive["left_out"] else "n/a" if drive["not_applicable"] else {True: "yes", False: "no", None: "unknown"}[drive["failing"]]
        used, spare = (text if text == "-" else text + " %" for text in (used, spare))
        identity = (drive["name"], drive["model"], drive["serial"], drive["firmware"])
        rows.append((*identity, failing, drive["level"], used, spare, left if left == "-" else "≥ " + left, hours))
    return table(rows)
