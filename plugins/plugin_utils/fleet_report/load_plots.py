# SPDX-License-Identifier: GPL-3.0-or-later
"""The section on load: rate, IOPS and latency over time or fills, with their windows and marks; and the curve of the reserve. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.amplification import ratio_for
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import sections
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.axes import Scale
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.limits import fair
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.lines import Mark, Series, Window, line_plot
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.pieces import Figure, Subject, Table, chip
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import steady_level
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_dict, as_list, as_number, dicts, number, words

PLOTTED = 12  # devices, the worst first
_ROWS = 40  # of the figures below a plot
_PLACES = {"fills": Scale("written", "fills"), "seconds": Scale("time", "s")}
# What is drawn in one plot: key → name of the line.
_PLOTS: Sequence[tuple[Scale, Mapping[str, str]]] = (
    (Scale("rate", "MiB/s", low=0.0), {"mib_s": "rate"}),
    (Scale("requests per second", low=0.0), {"iops": "requests per second"}),
    (Scale("latency", "ms", log=True), {"p50_ms": "p50", "p99_ms": "p99", "p999_ms": "p99.9"}),
)
# Of a row of the table: key → heading.
_FIGURES = {
    "mib_s": "MiB/s",
    "iops": "IOPS",
    "p99_ms": "p99 (ms)",
    "write_amplification": "Write amplification",
    "first_collapse_fills": "First collapse (fills)",
    "period_fills": "Period (fills)",
}
_WRITE_AMPLIFICATION = [1 + step / 20 for step in range(2, 121)]


class Device(NamedTuple):
    """The plots of one device, below its name."""

    ident: str
    name: str
    figures: Sequence[Figure]


def _steady_runs(fleet: Fleet) -> list[tuple[str, Mapping[str, Any]]]:
    return [(host.host, run) for host in fleet.hosts for run in host.steady]


def steady_state(fleet: Fleet, names: sections.Names) -> Subject | None:
    """The result of each device."""
    listed = []
    for host, run in _steady_runs(fleet):
        level = steady_level(run)
        which = [words(run.get(key)) for key in ("device", "mode", "pattern")]
        listed.append((level, (names[host], *which, chip(level), *(words(run.get(key)) for key in _FIGURES))))
    if not listed:
        return None
    heads = ("Device", "Mode", "Pattern", "Level", *_FIGURES.values())
    return Subject(sections.findings(fleet, names, ("steady_state",), "Findings on steady states"), sections.shown_rows("Steady states", heads, listed))


def steady_devices(fleet: Fleet) -> list[Device]:
    """Each device's series over fills, or over time where fills are not known."""
    devices = []
    for at, (host, run) in enumerate(fair(_steady_runs(fleet), lambda entry: entry[:1], PLOTTED)):
        name = f"{host} {words(run.get('device'))}"
        figures = series_plots(f"load-{at}", name, run)
        hidden = as_number(run.get("hidden_space"))
        if hidden is not None and 0 <= hidden <= 1:
            figures.append(reserve_plot(f"reserve-{at}", 100 * hidden))
        devices.append(Device(f"steady-{at}", name, figures))
    return devices


def series_plots(ident: str, name: str, run: Mapping[str, Any]) -> list[Figure]:
    """One plot for each quantity that the series has."""
    series = as_dict(run.get("series"))
    place = next((key for key in _PLACES if as_list(series.get(key))), "")
    windows = [Window(*ends, words(each.get("label"))) for each in dicts(run.get("windows")) for ends in [_ends(each, place)] if ends]
    marks = [Mark(at, words(each.get("label"))) for each in dicts(run.get("marks")) for at in [as_number(each.get(place))] if at is not None]
    figures = []
    for scale, names in _PLOTS:
        xs = as_list(series.get(place))
        lines = [Series(line, xs, as_list(series.get(key))) for key, line in names.items() if as_list(series.get(key))]
        if not xs or not lines:
            continue
        title = f"{scale.label[0].upper()}{scale.label[1:]} of {name}"
        known = [value for line in lines for value in map(as_number, line.ys) if value is not None]
        count = max(len(line.ys) for line in lines)
        said = f"{count:,} values from {number(min(known))} to {number(max(known))} {scale.unit}".rstrip() + "." if known else "No value is a number."
        plot = line_plot(f"{ident}-{next(iter(names))}", title, said, lines, (_PLACES[place], scale), windows, marks)
        figures.append(Figure(plot, title, f"{title}. {said}", _figures(title, place, scale, lines)))
    return figures


def _ends(each: Mapping[str, Any], place: str) -> tuple[float, float] | None:
    first, last = (as_number(each.get(f"{end}_{place}")) for end in ("first", "last"))
    return None if first is None or last is None else (first, last)


def _figures(title: str, place: str, scale: Scale, lines: Sequence[Series]) -> Table:
    """The lines in as many steps as a table can show, each with its least and largest value."""
    xs = lines[0].xs
    count = min(len(xs), *(len(line.ys) for line in lines))
    steps = min(_ROWS, count)
    rows = []
    for step in range(steps):
        begin, end = step * count // steps, (step + 1) * count // steps
        ends: list[str] = []
        for line in lines:
            known = [value for value in map(as_number, line.ys[begin:end]) if value is not None]
            ends += [number(min(known)), number(max(known))] if known else ["–", "–"]
        rows.append((f"{words(xs[begin])} to {words(xs[end - 1])}", *ends))
    heads = [f"{line.name}, {end} ({scale.unit or 'n'})" for line in lines for end in ("least", "largest")]
    return Table(title, (_PLACES[place].title, *heads), rows)


def reserve_percent(amplification: float, hidden_percent: float) -> float:
    """How much of a drive has to be left free for a write amplification, in percent; *hidden_percent*: what the drive has beside its user capacity."""
    return max(0.0, 100 * (1 - (1 + hidden_percent / 100) / ratio_for(amplification)))


def reserve_plot(ident: str, hidden_percent: float) -> Figure:
    """The reserve that a write amplification takes."""
    title = f"Reserve against write amplification, with {number(hidden_percent)} % of hidden space"
    ys = [reserve_percent(value, hidden_percent) for value in _WRITE_AMPLIFICATION]
    scales = (Scale("write amplification", low=1.0), Scale("reserve", "%", low=0.0))
    said = "By the model of uniform random writes and greedy garbage collection."
    plot = line_plot(ident, title, said, [Series("reserve", _WRITE_AMPLIFICATION, ys)], scales)
    rows = [(number(value), f"{number(reserve_percent(value, hidden_percent))} %") for value in (1.5, 2.0, 3.0, 4.0, 6.0)]
    return Figure(plot, title, f"{title}. {said}", Table(title, ("Write amplification", "Reserve"), rows))
