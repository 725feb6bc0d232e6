# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as Markdown, as JSON, and as lines for a terminal. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import table
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.charts import sparkline
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet, Group, grouped, host_words
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import GLYPHS, NONE
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.limits import fair
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.rows import drive_of, todo
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_dict, as_list, counted, words

FORMAT = 1  # of the JSON
_FINDINGS = 50  # groups of findings that Markdown and a terminal show
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+.!|~$^=-])")


def plain(value: object) -> str:
    """A value as Markdown shows it, whatever it is: no markup, no HTML, no address that becomes a link."""
    text = words(value).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _SPECIAL.sub(r"\\\1", text).replace("://", ":\\//").replace("@", "&#64;")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(line) + " |" for line in (heads, ["---"] * len(heads), *rows)]


def _findings(fleet: Fleet) -> tuple[list[Group], str]:
    """The kinds of findings that are shown, each host's first before the second of any, and a word on the rest."""
    groups = grouped(fleet, tuple(CHECKS))
    shown = fair(groups, lambda group: group.hosts, _FINDINGS)
    rest = len(groups) - len(shown)
    return shown, f"{rest:,} more kinds of findings are in the page." if rest else ""


def render_markdown(fleet: Fleet) -> str:
    """A summary: the verdict, what to do, and the map of hosts and checks."""
    lines = [f"# {plain(fleet.title)}", ""]
    lines += [plain(f"State of {fleet.dated}."), ""] if fleet.time else []
    lines += [f"**{GLYPHS[fleet.level]} {plain(fleet.verdict())}**", "", "## What to do first", ""]
    shown, rest = _findings(fleet)
    rows = [
        (
            f"{GLYPHS[group.level]} {group.level}",
            CHECKS[group.check].short,
            plain(group.hosts[0]) + (f" and {len(group.hosts) - 1:,} more" if len(group.hosts) > 1 else ""),
            plain(f"{group.example.where}: {group.example.found}{group.others}"),
            plain(todo(group.example)),
        )
        for group in shown
    ]
    lines += _table(("Level", "Check", "Hosts", "What was found", "What to do"), rows) if rows else ["No findings."]
    lines += ["", rest] if rest else []
    marks = [
        (plain(host.host), f"{GLYPHS[host.level]} {host.level}", *(GLYPHS[host.levels.get(check, NONE)] for check in fleet.checks), host_words(host))
        for host in fleet.hosts
    ]
    lines += ["", "## Hosts and checks", "", *_table(("Host", "Worst", *(CHECKS[check].short for check in fleet.checks), "Findings"), marks), ""]
    lines.append("Glyphs: " + ", ".join(f"{glyph} {level}" for level, glyph in GLYPHS.items()) + ".")
    return "\n".join(lines) + "\n"


def render_json(fleet: Fleet) -> str:
    """What was found, for programs."""
    report = {
        "format": FORMAT,
        "title": fleet.title,
        "time": fleet.time,
        "oldest": fleet.oldest,
        "level": fleet.level,
        "verdict": fleet.verdict(),
        "counts": fleet.counts(),
        "checks": list(fleet.checks),
        "hosts": [
            {
                "host": host.host,
                "time": host.time,
                "level": host.level,
                "levels": {check: host.levels.get(check, NONE) for check in fleet.checks},
                "findings": [dict(finding._asdict(), todo=todo(finding)) for finding in host.findings],
                "drives": [
                    {"name": drive.name, "level": drive.level, "used_percent": drive.used, "days_left_at_least": drive.days}
                    for drive in map(drive_of, host.drives)
                ],
                "measured": [
                    {"measure": measurement.measure, "of": measurement.of, "level": measurement.level, "reasons": list(measurement.reasons)}
                    for measurement in host.measured
                ],
                "conditions": dict(host.conditions),
            }
            for host in fleet.hosts
        ],
    }
    return json.dumps(report, ensure_ascii=False, sort_keys=True, indent=1, allow_nan=False) + "\n"


def report_lines(fleet: Fleet) -> list[str]:
    """The same in a few lines, for a terminal: the hosts, what to do, and each steady state as a line of blocks."""
    hosts = [("host", "worst", *(CHECKS[check].short.lower() for check in fleet.checks))]
    hosts += [(host.host, host.level, *(GLYPHS[host.levels.get(check, NONE)] for check in fleet.checks)) for host in fleet.hosts[:_FINDINGS]]
    lines = [fleet.verdict(), *table(hosts)]
    lines += [f"and {counted(len(fleet.hosts) - _FINDINGS, 'more host')}"] if len(fleet.hosts) > _FINDINGS else []
    shown, rest = _findings(fleet)
    for group in shown:
        more = f" and {len(group.hosts) - 1:,} more" if len(group.hosts) > 1 else ""
        lines.append(f"{group.level}: {group.hosts[0]}{more}: {group.example.where}: {group.example.found}{group.others}. {todo(group.example)}")
    lines += [rest] if rest else []
    for host in fleet.hosts:
        for run in host.steady:
            drawn = sparkline(as_list(as_dict(run.get("series")).get("mib_s")))
            lines += [f"{host.host} {words(run.get('device'))}, MiB/s: {drawn}"] if drawn else []
    return lines
