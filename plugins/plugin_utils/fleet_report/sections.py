# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sections of the page show of all hosts together, the worst first, and of each host. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import rows
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Scale
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.charts import Bar, bar_chart, heat_map, stacked_bars
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet, Group, grouped, host_words
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import LEVELS, MISSING, NONE, OK, UNKNOWN, rank
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.limits import MOST, fair
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.pieces import Figure, Link, Phrase, Subject, Table, chip, joined
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import OF_VERDICT, HostReport, Measured
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_list, as_number, counted, dicts, percent, size, words

ROWS = 100  # of a table over all hosts
PLOTTED = 30  # bars of a chart
MAPPED = 60  # hosts of the map
_DRIVES = 8  # of the map of cells
_NAMED = 8  # hosts that a finding names
_STACKS = 100  # of a host whose layers are listed

Names = Mapping[str, Link]  # host → a link to its part of the page


class HostPart(NamedTuple):
    """All that is reported of one host. *alone*: it is the only one; *left_out*: so many stacks have no table of their layers."""

    ident: str
    name: str
    level: str
    found: str
    time: str
    tables: Sequence[Table]
    left_out: str
    alone: bool


def shown_rows(caption: str, heads: Sequence[str], all_rows: Sequence[tuple[str, tuple[object, ...]]]) -> Table:
    """The worst rows of (level, row), each with its host in front, and a word on the rest."""
    shown = fair(sorted(all_rows, key=lambda entry: rank(entry[0])), lambda entry: entry[1][:1], ROWS)
    return Table(caption, ("Host", *heads), [row for _level, row in shown], _rest(len(all_rows) - len(shown)))


def _rest(count: int) -> str:
    return f"{count:,} more are in the parts of their hosts below." if count else ""


def findings(fleet: Fleet, names: Names, checks: Sequence[str], caption: str) -> Table:
    """What was found, the same on many hosts once, with what to do."""
    groups = grouped(fleet, checks)
    looked = any(host.levels.get(check, NONE) not in (NONE, MISSING) for host in fleet.hosts for check in checks)
    shown = fair(groups, lambda group: group.hosts, ROWS)
    none = "No findings." if looked else "No record says anything of this."
    return Table(caption, rows.FINDINGS, [_group_row(group, names) for group in shown], _rest(len(groups) - len(shown)), none)


def _group_row(group: Group, names: Names) -> tuple[object, ...]:
    first, where_found, finding, wanted = rows.finding_row(group.example)
    several = len(group.hosts) > 1
    rest = f" and {counted(len(group.hosts) - _NAMED, 'other')}" if len(group.hosts) > _NAMED else ""
    count = f"{rest} ({counted(len(group.hosts), 'host')}), such as " if several else ": "
    where = Phrase((*joined([names[host] for host in group.hosts[:_NAMED]], ", ").parts, count, where_found))
    return (first, where, f"{finding}{group.others}", wanted)


def maps(fleet: Fleet, names: Names) -> list[Figure]:
    """Each host and each check, and how many hosts are at each level."""
    heads = [CHECKS[check].short for check in fleet.checks]
    mapped = [(host.host, [host.levels.get(check, NONE) for check in fleet.checks]) for host in fleet.hosts[:MAPPED]]
    text = "Each host and each check, the worst host first."
    if len(fleet.hosts) > len(mapped):
        text = f"The {len(mapped)} worst of {counted(len(fleet.hosts), 'host')}; the table has all."
    plot = heat_map("map", "Hosts and checks", f"{text} {fleet.verdict()}", heads, mapped)
    cells = [(names[host.host], chip(host.level), *(chip(host.levels.get(check, NONE)) for check in fleet.checks)) for host in fleet.hosts]
    figures = [Figure(plot, "Hosts and checks", text, Table("Each host and each check", ("Host", "Worst", *heads), cells))]
    if len(fleet.hosts) > 1:
        name = "Hosts at each level, by check"
        sums = [(CHECKS[check].short, [(level, _count(fleet, check, level)) for level in LEVELS]) for check in fleet.checks]
        table = Table(name, ("Check", *LEVELS), [(label, *(count for _level, count in counts)) for label, counts in sums])
        figures.append(Figure(stacked_bars("sums", name, f"{fleet.verdict()} One bar for each check.", sums), name, "How many hosts are at each level.", table))
    return figures


def _count(fleet: Fleet, check: str, level: str) -> int:
    return sum(host.levels.get(check, NONE) == level for host in fleet.hosts)


def drives(fleet: Fleet, names: Names) -> Subject:
    host_drives = [(host.host, rows.drive_of(drive)) for host in fleet.hosts for drive in host.drives]
    worn = sorted(((used, host, drive) for host, drive in host_drives for used in [drive.used] if used is not None), key=lambda entry: -entry[0])
    left = sorted(((days, host, drive) for host, drive in host_drives for days in [drive.days] if days is not None), key=lambda entry: entry[0])
    figures = []
    if worn:
        bars = [Bar(f"{host} {drive.name}", used, percent(used), drive.wear) for used, host, drive in fair(worn, _second, PLOTTED)]
        figures.append(_bars("worn", "Rated endurance that is used", bars, Scale("used", "%", high=max(100.0, worn[0][0])), (80.0, "80 %"), len(worn)))
    if left:
        bars = [Bar(f"{host} {drive.name}", days, f"≥ {words(round(days))} d", drive.wear) for days, host, drive in fair(left, _second, PLOTTED)]
        figures.append(_bars("left", "Days until the rated endurance is used, at least", bars, Scale("days", "d", log=True), (365.0, "a year"), len(left)))
    ordered = sorted(host_drives, key=lambda entry: (rank(entry[1].level), -(entry[1].used if entry[1].used is not None else -1.0)))
    listed = shown_rows("Drives", rows.DRIVES, [(drive.level, (names[host], *drive.cells)) for host, drive in ordered])
    return Subject(findings(fleet, names, ("drives", "wear"), "Findings on drives"), listed, figures)


def _second(entry: tuple[object, str, object]) -> tuple[str]:
    """The host of (value, host, drive)."""
    return (entry[1],)


def _bars(ident: str, title: str, bars: Sequence[Bar], scale: Scale, reference: tuple[float, str] | None, total: int) -> Figure:
    """A bar chart with its figures."""
    text = f"The {len(bars)} worst of {total:,}." if total > len(bars) else "The worst first."
    figures = Table(title, ("Bar", scale.title, "Level"), [(chart_bar.label, chart_bar.text, chip(chart_bar.level)) for chart_bar in bars])
    worst = f" The first is {bars[0].label} with {bars[0].text}." if bars else ""
    return Figure(bar_chart(ident, title, text + worst, bars, scale, reference), title, f"{title}. {text}", figures)


def links(fleet: Fleet, names: Names) -> Subject:
    entries = [(level, (names[host.host], *row)) for host in fleet.hosts for level, row in rows.link_rows(host)]
    return Subject(findings(fleet, names, ("link",), "Findings on links"), shown_rows("Links on the way to the drives", rows.LINKS, entries))


def trim(fleet: Fleet, names: Names) -> Subject:
    entries = [(level, (names[host.host], *row)) for host in fleet.hosts for level, row in rows.trim_rows(host)]
    return Subject(findings(fleet, names, ("trim",), "Findings on the path of trim"), shown_rows("Drives that a trim was to reach", rows.TRIMS, entries))


def static_proof(fleet: Fleet, names: Names) -> Subject:
    stacks = []
    for host in fleet.hosts:
        for stack in host.stacks:
            legs = [leg for layer in dicts(stack.get("layers")) for leg in dicts(layer.get("legs"))]
            off = sum(leg.get("aligned") is False for leg in legs)
            level = host.levels.get("alignment", NONE) if off else OK
            legs_text = f"{off} of {counted(len(legs), 'leg')} off" if off else f"{counted(len(legs), 'leg')} on the grain"
            blind = ", ".join(words(node) for node in as_list(stack.get("not_followed")))
            if blind:
                level, legs_text = level if off else UNKNOWN, f"{legs_text}, not followed above {blind}"
            about = (words(stack.get("name")), words(stack.get("mount")), size(stack.get("size_bytes")))
            stacks.append((level, (names[host.host], *about, chip(level), legs_text)))
    caption = "Findings on where layers begin, and steps that are left"
    return Subject(findings(fleet, names, ("alignment", "plan"), caption), shown_rows("Stacks", ("Stack", "Mount", "Size", "Level", "Legs"), stacks))


def measured_proof(fleet: Fleet, names: Names) -> Subject:
    measured = [(host.host, measurement) for host in fleet.hosts for measurement in host.measured if measurement.measure != "fstrim_proof"]
    figures = []
    shares = sorted(_share_bars(measured), key=lambda entry: (rank(entry[1].level), as_number(entry[1].value)))
    if shares:
        title = "Rate of the volumes beside that of their devices"
        bars = [share for _host, share in fair(shares, lambda entry: entry[:1], PLOTTED)]
        figures.append(_bars("shares", title, bars, Scale("share of the raw rate", high=1.1), (1.0, "the raw rate"), len(shares)))
    listed = shown_rows("Measurements", rows.MEASURES, [(measurement.level, (names[host], *rows.measure_row(measurement))) for host, measurement in measured])
    return Subject(findings(fleet, names, ("proof",), "Findings of measurements"), listed, figures)


def _share_bars(measured: Iterable[tuple[str, Measured]]) -> Iterable[tuple[str, Bar]]:
    for host, measurement in measured:
        for job in dicts(measurement.result.get("jobs")):
            if as_number(job.get("share")) is not None:
                level = OF_VERDICT.get(str(job.get("verdict")), "unknown")
                yield host, Bar(f"{host} {words(job.get('name'))}", job["share"], words(job["share"]), level, job.get("low"), job.get("high"))


def durability(fleet: Fleet, names: Names) -> Subject:
    entries = [(host.levels.get("durability", NONE), (names[host.host], *row)) for host in fleet.hosts for row in rows.cache_rows(host)]
    return Subject(findings(fleet, names, ("durability",), "Findings on durability"), shown_rows("Write caches of the drives", rows.CACHES, entries))


def acceptance(fleet: Fleet, names: Names) -> Subject | None:
    if not any(host.cells for host in fleet.hosts):
        return None
    entries = [(level, (names[host.host], *row)) for host in fleet.hosts for level, row in rows.cell_rows(host)]
    columns, mapped = rows.cell_map(fleet.hosts, _DRIVES)
    text = f"Each cell that decides, on each drive; the worst {counted(len(columns), 'drive')}, the worst first."
    plot = heat_map("cells", "Drives and cells", text, columns, mapped)
    levels = Table("Level of each cell", ("Cell", *columns), [(name, *map(chip, levels)) for name, levels in mapped])
    figures = [Figure(plot, "Drives and cells", text, levels)]
    return Subject(findings(fleet, names, ("acceptance",), "Findings of the acceptance"), shown_rows("Cells", rows.CELLS, entries), figures)


# What the template shows of one subject each, by its name there.
SUBJECTS: Mapping[str, Callable[[Fleet, Names], Subject | None]] = {
    "drives": drives,
    "links": links,
    "trim": trim,
    "static": static_proof,
    "measured": measured_proof,
    "durability": durability,
    "acceptance": acceptance,
}


def conditions(fleet: Fleet, names: Names) -> Table:
    by_name: dict[str, dict[str, list[str]]] = {}
    for host in fleet.hosts:
        for name, value in host.conditions.items():
            by_name.setdefault(name, {}).setdefault(value, []).append(host.host)
    ordered = [
        (name, value, hosts)
        for name, values in sorted(by_name.items())
        for value, hosts in sorted(values.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    ]
    shown = fair(ordered, lambda entry: entry[2], 2 * ROWS)
    cells = [
        (name, value, counted(len(hosts), "host"), joined([names[host] for host in hosts[:_NAMED]] + (["…"] if len(hosts) > _NAMED else []), ", "))
        for name, value, hosts in shown
    ]
    return Table("Conditions", ("Condition", "Value", "Hosts", "Which"), cells, _rest(len(ordered) - len(shown)))


def degrees(fleet: Fleet) -> tuple[float, float] | None:
    """How warm the coolest and the warmest drive were."""
    read = (as_number(drive.get("temperature_celsius")) for host in fleet.hosts for drive in host.drives)
    known = [celsius for celsius in read if celsius is not None]
    return (min(known), max(known)) if known else None


def host_part(host: HostReport, ident: str, alone: bool) -> HostPart:
    """All that is reported of one host."""
    layers = [(words(stack.get("name")), rows.layer_rows(stack)) for stack in host.stacks[:_STACKS]]
    whole = [
        Table(f"Findings on {host.host}", rows.FINDINGS, [rows.finding_row(finding) for finding in host.findings]),
        Table(f"Drives of {host.host}", rows.DRIVES, [rows.drive_of(drive).cells for drive in host.drives]),
    ]
    listed: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = [
        ("Links", rows.LINKS, [row for _level, row in rows.link_rows(host)]),
        ("Write caches", rows.CACHES, rows.cache_rows(host)),
        *((f"Layers of {name} from the bottom up", rows.LAYERS, of_stack) for name, of_stack in layers),
        ("Measurements", rows.MEASURES, [rows.measure_row(measurement) for measurement in host.measured]),
        ("Drives that a trim was to reach", rows.TRIMS, [row for _level, row in rows.trim_rows(host)]),
        ("Conditions", ("Condition", "Value"), list(host.conditions.items())),
    ]
    cut = [
        Table(f"{name}, {host.host}", heads, cells[:MOST], f"{len(cells) - MOST:,} more are left out." if len(cells) > MOST else "")
        for name, heads, cells in listed
    ]
    left_out = f"{len(host.stacks) - _STACKS:,}" if len(host.stacks) > _STACKS else ""
    return HostPart(ident, host.host, host.level, host_words(host), host.time, [table for table in whole + cut if table.rows], left_out, alone)
