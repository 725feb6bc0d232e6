# SPDX-License-Identifier: GPL-3.0-or-later
"""The sections of the page that look at all hosts together, the worst first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import rows
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Scale
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.charts import Bar, bar_chart, heat_map, stacked_bars
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet, Group, grouped, host_words
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS, LEVELS, MEANS, MISSING, NONE, OK, UNKNOWN, rank
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.limits import MOST, fair
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.markup import (
    Html,
    bullets,
    chip,
    figure,
    folded,
    heading,
    joined,
    paragraph,
    table,
)
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import OF_VERDICT, HostReport, Measured
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_list, as_number, counted, dicts, percent, words

ROWS = 100  # of a table over all hosts
PLOTTED = 30  # bars of a chart
MAPPED = 60  # hosts of the map
_DRIVES = 8  # of the map of cells
_NAMED = 8  # hosts that a finding names
_STACKS = 100  # of a host whose layers are listed

Names = Mapping[str, Html]  # host → a link to its part of the page


def section(ident: str, title: str, *parts: object) -> Html:
    return Html(f'<section aria-labelledby="{ident}">{heading(2, ident, title)}{joined(parts)}</section>')


def shown_rows(caption: str, heads: Sequence[str], all_rows: Sequence[tuple[str, tuple[object, ...]]]) -> Html:
    """The worst rows of (level, row), each with its host in front, and a word on the rest."""
    shown = fair(sorted(all_rows, key=lambda one: rank(one[0])), lambda one: one[1][:1], ROWS)
    return table(caption, heads, [row for _level, row in shown], _rest(len(all_rows) - len(shown)))


def _rest(count: int) -> str:
    return f"{count:,} more are in the parts of their hosts below." if count else ""


def findings(fleet: Fleet, names: Names, checks: Sequence[str], caption: str) -> Html:
    """What was found, the same on many hosts once, with what to do."""
    groups = grouped(fleet, checks)
    if not groups:
        looked = any(host.levels.get(check, NONE) not in (NONE, MISSING) for host in fleet.hosts for check in checks)
        return paragraph("No findings." if looked else "No record says anything of this.")
    shown = fair(groups, lambda one: one.hosts, ROWS)
    return table(caption, rows.FINDINGS, [_group_row(one, names) for one in shown], _rest(len(groups) - len(shown)))


def _group_row(one: Group, names: Names) -> tuple[object, ...]:
    first, where_found, found, wanted = rows.finding_row(one.example)
    several = len(one.hosts) > 1
    told = joined([names[host] for host in one.hosts[:_NAMED]], ", ")
    rest = f" and {counted(len(one.hosts) - _NAMED, 'other')}" if len(one.hosts) > _NAMED else ""
    where = joined((told, rest, ": " if not several else f" ({counted(len(one.hosts), 'host')}), such as ", where_found))
    return (first, where, f"{found}{one.others}", wanted)


def verdict(fleet: Fleet, names: Names) -> Html:
    counts = ", ".join(f"{count:,} {level}" for level, count in fleet.counts().items())
    banner = Html(f'<p class="verdict {fleet.level}"><span aria-hidden="true">{GLYPHS[fleet.level]}</span> {joined([fleet.verdict()])}</p>')
    return section(
        "verdict",
        "Verdict",
        banner,
        paragraph(f"Hosts by their worst finding: {counts}.") if counts else "",
        heading(3, "first", "What to do first"),
        findings(fleet, names, tuple(CHECKS), "Findings of all hosts, the worst first"),
        folded("What the levels mean", bullets(joined((chip(level), Html(" "), MEANS[level])) for level in LEVELS)),
    )


def hosts_by_checks(fleet: Fleet, names: Names) -> Html:
    columns = [CHECKS[check] for check in fleet.checks]
    mapped = [(host.host, [host.levels.get(check, NONE) for check in fleet.checks]) for host in fleet.hosts[:MAPPED]]
    rest = len(fleet.hosts) - len(mapped)
    told = "Each host and each check, the worst host first."
    if rest > 0:
        told = f"The {len(mapped)} worst of {counted(len(fleet.hosts), 'host')}; the table has all."
    name = "Hosts and checks"
    plot = heat_map("map", name, f"{told} {fleet.verdict()}", [one.short for one in columns], mapped)
    cells = [(names[host.host], chip(host.level), *(chip(host.levels.get(check, NONE)) for check in fleet.checks)) for host in fleet.hosts]
    full = table("Each host and each check", ("Host", "Worst", *(one.short for one in columns)), cells)
    parts: list[object] = [figure(plot, name, told, full)]
    if len(fleet.hosts) > 1:
        sums = [(CHECKS[check].short, [(level, _count(fleet, check, level)) for level in LEVELS]) for check in fleet.checks]
        heads = ("Check", *LEVELS)
        figures = table("Hosts at each level, by check", heads, [(label, *(count for _level, count in counts)) for label, counts in sums])
        name = "Hosts at each level, by check"
        parts.append(figure(stacked_bars("sums", name, f"{fleet.verdict()} One bar for each check.", sums), name, "How many hosts are at each level.", figures))
    parts.append(folded("What the checks are", bullets(f"{one.short}: {one.name}" for one in columns)))
    return section("hosts-and-checks", "Hosts and checks", *parts)


def _count(fleet: Fleet, check: str, level: str) -> int:
    return sum(host.levels.get(check, NONE) == level for host in fleet.hosts)


def drives(fleet: Fleet, names: Names) -> Html:
    found = [(host.host, rows.drive_of(one)) for host in fleet.hosts for one in host.drives]
    worn = sorted(((used, host, one) for host, one in found for used in [one.used] if used is not None), key=lambda one: -one[0])
    left = sorted(((days, host, one) for host, one in found for days in [one.days] if days is not None), key=lambda one: one[0])
    parts: list[object] = [findings(fleet, names, ("drives", "wear"), "Findings on drives")]
    if worn:
        bars = [Bar(f"{host} {one.name}", used, percent(used), one.wear) for used, host, one in fair(worn, _second, PLOTTED)]
        parts.append(_bars("worn", "Rated endurance that is used", bars, Scale("used", "%", high=max(100.0, worn[0][0])), (80.0, "80 %"), len(worn)))
    if left:
        bars = [Bar(f"{host} {one.name}", days, f"≥ {words(round(days))} d", one.wear) for days, host, one in fair(left, _second, PLOTTED)]
        parts.append(_bars("left", "Days until the rated endurance is used, at least", bars, Scale("days", "d", log=True), (365.0, "a year"), len(left)))
    ordered = sorted(found, key=lambda one: (rank(one[1].level), -(one[1].used if one[1].used is not None else -1.0)))
    parts.append(shown_rows("Drives", ("Host", *rows.DRIVES), [(one.level, (names[host], *one.cells)) for host, one in ordered]))
    return section("drives", "Drives: health, wear and days left", *parts)


def _second(one: tuple[object, str, object]) -> tuple[str]:
    """The host of (value, host, drive)."""
    return (one[1],)


def _bars(ident: str, title: str, bars: Sequence[Bar], scale: Scale, reference: tuple[float, str] | None, total: int) -> Html:
    """A bar chart with its figures."""
    told = f"The {len(bars)} worst of {total:,}." if total > len(bars) else "The worst first."
    figures = table(title, ("Bar", scale.title, "Level"), [(one.label, one.text, chip(one.level)) for one in bars])
    worst = f" The first is {bars[0].label} with {bars[0].text}." if bars else ""
    return figure(bar_chart(ident, title, told + worst, bars, scale, reference), title, f"{title}. {told}", figures)


def links(fleet: Fleet, names: Names) -> Html:
    found = [(level, (names[host.host], *row)) for host in fleet.hosts for level, row in rows.link_rows(host)]
    listed = shown_rows("Links on the way to the drives", ("Host", *rows.LINKS), found)
    return section("links", "Links", findings(fleet, names, ("link",), "Findings on links"), listed)


def trim(fleet: Fleet, names: Names) -> Html:
    found = [(level, (names[host.host], *row)) for host in fleet.hosts for level, row in rows.trim_rows(host)]
    listed = shown_rows("Drives that a trim was to reach", ("Host", *rows.TRIMS), found)
    return section("trim", "Path of trim", findings(fleet, names, ("trim",), "Findings on the path of trim"), listed)


def proof(fleet: Fleet, names: Names) -> Html:
    stacks = []
    for host in fleet.hosts:
        for stack in host.stacks:
            legs = [leg for layer in dicts(stack.get("layers")) for leg in dicts(layer.get("legs"))]
            off = sum(leg.get("aligned") is False for leg in legs)
            level = host.levels.get("alignment", NONE) if off else OK
            told = f"{off} of {counted(len(legs), 'leg')} off" if off else f"{counted(len(legs), 'leg')} on the grain"
            blind = ", ".join(words(one) for one in as_list(stack.get("not_followed")))
            if blind:
                level, told = level if off else UNKNOWN, f"{told}, not followed above {blind}"
            stacks.append((level, (names[host.host], words(stack.get("name")), words(stack.get("mount")), chip(level), told)))
    measured = [(host.host, one) for host in fleet.hosts for one in host.measured if one.measure != "fstrim_proof"]
    parts: list[object] = [
        heading(3, "static-proof", "Static proof"),
        findings(fleet, names, ("alignment", "plan"), "Findings on where layers begin, and steps that are left"),
        shown_rows("Stacks", ("Host", "Stack", "Mount", "Level", "Legs"), stacks),
        heading(3, "measured-proof", "Measured proof"),
        findings(fleet, names, ("proof",), "Findings of measurements"),
    ]
    shares = sorted(_share_bars(measured), key=lambda one: (rank(one[1].level), as_number(one[1].value)))
    if shares:
        title = "Rate of the volumes beside that of their devices"
        bars = [share for _host, share in fair(shares, lambda one: one[:1], PLOTTED)]
        parts.append(_bars("shares", title, bars, Scale("share of the raw rate", high=1.1), (1.0, "the raw rate"), len(shares)))
    parts.append(shown_rows("Measurements", ("Host", *rows.MEASURES), [(one.level, (names[host], *rows.measure_row(one))) for host, one in measured]))
    return section("proof", "Static and measured proof", *parts)


def _share_bars(measured: Iterable[tuple[str, Measured]]) -> Iterable[tuple[str, Bar]]:
    for host, one in measured:
        for job in dicts(one.result.get("jobs")):
            if as_number(job.get("share")) is not None:
                level = OF_VERDICT.get(str(job.get("verdict")), "unknown")
                yield host, Bar(f"{host} {words(job.get('name'))}", job["share"], words(job["share"]), level, job.get("low"), job.get("high"))


def durability(fleet: Fleet, names: Names) -> Html:
    found = [(host.levels.get("durability", NONE), (names[host.host], *row)) for host in fleet.hosts for row in rows.cache_rows(host)]
    listed = shown_rows("Write caches of the drives", ("Host", *rows.CACHES), found)
    return section("durability", "Durability and write caches", findings(fleet, names, ("durability",), "Findings on durability"), listed)


def acceptance(fleet: Fleet, names: Names) -> Html:
    found = [(level, (names[host.host], *row)) for host in fleet.hosts for level, row in rows.cell_rows(host)]
    listed = shown_rows("Cells", ("Host", *rows.CELLS), found)
    columns, mapped = rows.cell_map(fleet.hosts, _DRIVES)
    told = f"Each cell that decides, on each drive; the worst {counted(len(columns), 'drive')}, the worst first."
    plot = heat_map("cells", "Drives and cells", told, columns, mapped)
    figures = table("Level of each cell", ("Cell", *columns), [(name, *map(chip, levels)) for name, levels in mapped])
    parts = [findings(fleet, names, ("acceptance",), "Findings of the acceptance"), figure(plot, "Drives and cells", told, figures), listed]
    return section("acceptance", "Acceptance", *parts)


def conditions(fleet: Fleet, names: Names) -> Html:
    by_name: dict[str, dict[str, list[str]]] = {}
    for host in fleet.hosts:
        for name, value in host.conditions.items():
            by_name.setdefault(name, {}).setdefault(value, []).append(host.host)
    found = [
        (name, value, hosts) for name, values in sorted(by_name.items()) for value, hosts in sorted(values.items(), key=lambda one: (-len(one[1]), one[0]))
    ]
    shown = fair(found, lambda one: one[2], 2 * ROWS)
    told = [
        (name, value, counted(len(hosts), "host"), joined([names[host] for host in hosts[:_NAMED]] + (["…"] if len(hosts) > _NAMED else []), ", "))
        for name, value, hosts in shown
    ]
    listed = table("Conditions", ("Condition", "Value", "Hosts", "Which"), told, _rest(len(found) - len(shown)))
    degrees = [found for host in fleet.hosts for one in host.drives for found in [as_number(one.get("temperature_celsius"))] if found is not None]
    warm = paragraph(f"Drives were at {words(min(degrees))} to {words(max(degrees))} °C when they were read.") if degrees else ""
    return section("conditions", "Conditions", listed, warm)


SECTIONS: Sequence[tuple[str, str, Callable[[Fleet, Names], Html]]] = (
    ("verdict", "Verdict", verdict),
    ("hosts-and-checks", "Hosts and checks", hosts_by_checks),
    ("drives", "Drives", drives),
    ("links", "Links", links),
    ("trim", "Trim", trim),
    ("proof", "Proof", proof),
    ("durability", "Durability", durability),
    ("conditions", "Conditions", conditions),
)


def host_part(host: HostReport, ident: str, opened: bool) -> Html:
    """All that is told of one host, folded."""
    parts: list[object] = []
    if host.findings:
        parts.append(table(f"Findings on {host.host}", rows.FINDINGS, map(rows.finding_row, host.findings)))
    if host.drives:
        parts.append(table(f"Drives of {host.host}", rows.DRIVES, (rows.drive_of(one).cells for one in host.drives)))
    layers = [(words(stack.get("name")), rows.layer_rows(stack)) for stack in host.stacks[:_STACKS]]
    listed: list[tuple[str, Sequence[str], Sequence[Sequence[object]]]] = [
        ("Links", rows.LINKS, [row for _level, row in rows.link_rows(host)]),
        ("Write caches", rows.CACHES, rows.cache_rows(host)),
        *((f"Layers of {name} from the bottom up", rows.LAYERS, of_stack) for name, of_stack in layers),
        ("Measurements", rows.MEASURES, [rows.measure_row(one) for one in host.measured]),
        ("Drives that a trim was to reach", rows.TRIMS, [row for _level, row in rows.trim_rows(host)]),
        ("Conditions", ("Condition", "Value"), list(host.conditions.items())),
    ]
    for name, heads, found in listed:
        if found:
            parts.append(table(f"{name}, {host.host}", heads, found[:MOST], f"{len(found) - MOST:,} more are left out." if len(found) > MOST else ""))
    if len(host.stacks) > _STACKS:
        parts.append(paragraph(f"The layers of {len(host.stacks) - _STACKS:,} more stacks are left out."))
    time = paragraph(f"Read on {host.time}.") if host.time else ""
    summary = joined((chip(host.level), Html(" "), Html(f"<strong>{joined([host.host])}</strong>"), f": {host_words(host)}"))
    return folded(summary, joined([time, *parts]), ident, opened)
