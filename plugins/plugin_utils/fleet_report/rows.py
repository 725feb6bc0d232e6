# SPDX-License-Identifier: GPL-3.0-or-later
"""What a host's record says, as rows of tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS, WEAR_RULES
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import ERROR, INFO, NONE, OK, UNKNOWN, WARNING, rank, worst_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.limits import fair
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.pieces import Phrase, chip
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import OF_VERDICT, HostFinding, HostReport, Measured
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import (
    NOTHING,
    as_dict,
    as_list,
    as_number,
    dicts,
    interval,
    number,
    percent,
    size,
    words,
)

FINDINGS = ("Finding", "Where", "What was found", "What to do")
DRIVES = ("Drive", "Level", "Failing", "Model", "Serial", "Firmware", "Used", "Spare", "Days left", "Hours", "°C", "Write amplification")
LINKS = ("Link", "Level", "Of", "Negotiated", "Both ends can do", "Payload")
LAYERS = ("Layer", "Name", "Leg", "Start (bytes)", "Phase", "Wanted", "Grain", "Aligned")
MEASURES = ("Measurement", "Level", "Of", "Figures", "Reasons")
CACHES = ("Drive", "Cache", "Enabled", "Kept by the drive", "Power-loss protection", "The kernel believes")
TRIMS = ("Drive", "Level", "Volume", "Trim", "Why", "Discards counted", "Asked", "Read ratio")
CELLS = ("Drive", "Cell", "Level", "State", "Found", "Interval", "Wanted", "Against")
Row = tuple[object, ...]
_PRESENT = {"yes": "volatile", "no": "none"}
_MANY = 64  # legs of a stack that are listed
_CELLS = 200  # of the map; an acceptance has some twenty


class Drive(NamedTuple):
    """What plots need of a drive. *wear*: the level of what was found on its endurance alone."""

    name: str
    level: str
    wear: str
    used: float | None
    days: float | None
    cells: Row


def finding_row(finding: HostFinding) -> Row:
    check = CHECKS[finding.check]
    return (Phrase((chip(finding.level), f" {check.short}")), finding.where, finding.found, todo(finding))


def todo(finding: HostFinding) -> str:
    """What is wanted, and how to fix it."""
    return f"Wanted: {finding.wanted}. {finding.todo}".strip() if finding.level != INFO else finding.wanted


def level_of(level: object) -> str:
    """A level as a module returns it."""
    return {"error": ERROR, "warning": WARNING, "info": INFO, "ok": OK}.get(str(level), UNKNOWN)


def drive_of(drive: Mapping[str, Any]) -> Drive:
    wear, counters, projection = (as_dict(drive.get(key)) for key in ("wear", "counters", "projection"))
    failing = words(drive["failing"]) if isinstance(drive.get("failing"), bool) else "unknown"
    level = level_of(drive.get("level"))
    why = "virtual" if drive.get("not_applicable") is True else "not read" if drive.get("read") is False else "not reported"
    cells = (
        words(drive.get("name")),
        chip(level),
        failing,
        drive.get("model"),
        drive.get("serial"),
        drive.get("firmware"),
        _or_why(percent(wear.get("used_percent")), why),
        _or_why(percent(wear.get("spare_percent")), why),
        _or_why(interval(projection.get("days_min"), projection.get("days_max")), "not known" if why == "not reported" else why),
        _or_why(counters.get("power_on_hours"), why),
        _or_why(drive.get("temperature_celsius"), why),
        _or_why(drive.get("write_amplification"), "not counted" if why == "not reported" else why),
    )
    worn = worst_of([OK, *(level_of(finding.get("level")) for finding in dicts(drive.get("findings")) if words(finding.get("rule")) in WEAR_RULES)])
    return Drive(words(drive.get("name")), level, worn, as_number(wear.get("used_percent")), as_number(projection.get("days_min")), cells)


def _or_why(value: object, why: str) -> object:
    """A figure, or why there is none: a dash alone may be a figure that was forgotten, and 0 is one that was reported."""
    return f"{NOTHING} {why}" if value is None or value == NOTHING else value


def rate(kind: object, speed: object, width: object) -> str:
    """The speed of a link and its width, in the units of its kind."""
    lane, lanes = as_number(speed), as_number(width)
    if lane is None:
        return "unknown"
    unit = "GT/s" if kind == "PCIe" else "Gb/s"
    return f"{number(lane / 1000)} {unit}" + (f" ×{number(int(lanes))}" if lanes is not None and lanes > 1 else "")


def link_rows(host: HostReport) -> list[tuple[str, Row]]:
    """(level, row) of each link of a host."""
    rows: list[tuple[str, Row]] = []
    for device in host.devices:
        for link in dicts(as_dict(device.get("link")).get("links")):
            kind, ends, target = link.get("kind"), [as_dict(link.get(end)) for end in ("host", "drive")], as_dict(link.get("target"))
            levels = [level_of(finding.get("level")) for finding in dicts(as_dict(device["link"]).get("findings"))]
            below = link.get("below")
            level = worst_of(levels) if below is True and levels else WARNING if below is True else OK if below is False else UNKNOWN
            name = " to ".join(words(end.get("name")) for end in ends if end.get("name"))
            payload = as_number(link.get("payload_bytes"))
            cells = (
                f"{words(kind)} {name}",
                chip(level),
                words(device.get("name")),
                rate(kind, link.get("speed"), link.get("width")),
                rate(kind, target.get("speed"), target.get("width")),
                NOTHING if payload is None else f"{number(payload / 1e6)} MB/s",
            )
            rows.append((level, cells))
    return rows


def layer_rows(stack: Mapping[str, Any]) -> list[Row]:
    """A row for each layer of a stack on each of its legs; equal legs share one."""
    rows: list[Row] = []
    for layer in dicts(stack.get("layers")):
        names = ", ".join(map(words, as_list(layer.get("names"))))
        legs: dict[tuple[str, ...], list[str]] = {}
        for leg in dicts(layer.get("legs")):
            key = tuple(words(leg.get(field)) for field in ("start", "phase", "wanted", "grain", "aligned"))
            legs.setdefault(key, []).append(words(leg.get("device")))
        for key, devices in legs.items() or [((NOTHING,) * 5, [NOTHING])]:
            aligned = chip(OK, "yes") if key[4] == "yes" else chip(ERROR, "no") if key[4] == "no" else NOTHING
            rows.append((words(layer.get("layer")), names, ", ".join(dict.fromkeys(devices)), *key[:4], aligned))
    return rows[:_MANY]


def measure_row(measurement: Measured) -> Row:
    return (words(measurement.measure), chip(measurement.level), measurement.of, figures(measurement), "; ".join(measurement.reasons) or NOTHING)


def figures(measurement: Measured) -> str:
    """The figures of a measurement in one line."""
    result = measurement.result
    if measurement.measure == "offset_sweep":
        phase = f"phase {words(result.get('phase_bytes'))} of {size(result.get('grain_bytes'))}" if result.get("verdict") == "phase" else result.get("verdict")
        return f"{words(phase)}, ratio {words(result.get('ratio'))}, {words(result.get('reads'))} reads"
    if measurement.measure == "throughput":
        jobs = dicts(result.get("jobs"))
        return "; ".join(f"{words(job.get('name'))} {words(job.get('share'))} ({interval(job.get('low'), job.get('high'))})" for job in jobs) or NOTHING
    if measurement.measure == "sync_latency":
        return "; ".join(_sync(row) for row in dicts(result.get("rows"))) or NOTHING
    if measurement.measure == "fstrim_proof":
        return f"{words(result.get('trim'))}, {size(result.get('trimmed_bytes'))} trimmed"
    return words(result.get("verdict"))


def _sync(row: Mapping[str, Any]) -> str:
    if row.get("unable"):
        return f"{words(row.get('row'))}: {words(row['unable'])}"
    p99 = as_number(row.get("p99_us"))
    return f"{words(row.get('row'))} {words(row.get('ops_per_sec'))}/s" + (f", p99 {number(p99 / 1000)} ms" if p99 is not None else "")


def trim_rows(host: HostReport) -> list[tuple[str, Row]]:
    """(level, row) of each drive that a trim was to reach."""
    rows: list[tuple[str, Row]] = []
    for measurement in host.measured:
        if measurement.measure == "fstrim_proof":
            for drive in dicts(measurement.result.get("drives")):
                level = {"reached": OK, "not_reached": measurement.level if measurement.level == ERROR else WARNING}.get(str(drive.get("trim")), UNKNOWN)
                counts = [size(drive.get(key)) for key in ("counted_bytes", "asked_bytes")]
                cells = (words(drive.get("device")), chip(level), measurement.of, drive.get("trim"), drive.get("why"), *counts, drive.get("ratio"))
                rows.append((level, cells))
    return rows


def cache_rows(host: HostReport) -> list[Row]:
    rows: list[Row] = []
    for device in host.devices:
        cache = as_dict(device.get("write_cache"))
        state = words(cache.get("fault")) if cache.get("fault") else _PRESENT.get(words(cache.get("present")), "unknown")
        belief = [words(cache.get(key)) for key in ("enabled", "saved", "protected")]
        rows.append((words(device.get("name")), state, *belief, words(device.get("write_cache_belief"))))
    return rows


def _device_of(result: Mapping[str, Any]) -> str:
    """The kernel's name of the drive that was accepted, or not."""
    return words(as_dict(result.get("drive")).get("device")).rsplit("/", 1)[-1]


def cell_rows(host: HostReport) -> list[tuple[str, Row]]:
    """(level, row) of each cell of an acceptance."""
    rows: list[tuple[str, Row]] = []
    for result in host.accepted:
        device = _device_of(result)
        for cell in dicts(result.get("cells")):
            level = OF_VERDICT.get(str(cell.get("verdict")), UNKNOWN)
            unit = words(cell.get("unit")) if cell.get("unit") else ""
            shown = [f"{words(cell.get(key))} {unit}".strip() for key in ("value", "wanted")]
            between = interval(cell.get("low"), cell.get("high"), unit)
            rows.append((level, (device, words(cell.get("name")), chip(level), cell.get("state"), shown[0], between, shown[1], cell.get("against"))))
    return rows


def cell_map(hosts: Iterable[HostReport], most: int) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """(drives, cells with the level on each drive): the worst drives, at most so many. A cell that decides nothing is as one that was not measured."""
    drives: list[tuple[str, str, dict[str, str]]] = []
    for host in hosts:
        for result in host.accepted:
            decides = [cell for cell in dicts(result.get("cells")) if cell.get("required") is not False]
            levels = {words(cell.get("name")): OF_VERDICT.get(str(cell.get("verdict")), UNKNOWN) for cell in decides}
            drives.append((host.host, f"{host.host} {_device_of(result)}", levels))
    shown = fair(sorted(drives, key=lambda entry: rank(worst_of(entry[2].values()))), lambda entry: entry[:1], most)
    cells = list(dict.fromkeys(name for *_drive, levels in shown for name in levels))[:_CELLS]
    return [drive for _host, drive, _levels in shown], [(name, [levels.get(name, NONE) for *_drive, levels in shown]) for name in cells]
