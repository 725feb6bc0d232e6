# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one HTML file: no script, nothing from outside, nothing that is not escaped. Pure."""

from __future__ import annotations

import json

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import load_plots, sections
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.markup import Html, as_html, folded, joined, link, paragraph, preformatted
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.style import page_style
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import counted, printable

RAW_IN_ALL = 800_000  # characters of records that are shown as such, the worst hosts first
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render_html(fleet: Fleet) -> str:
    """The whole page."""
    names = {host.host: link(f"host-{at}", host.host) for at, host in enumerate(fleet.hosts)}
    listed = list(sections.SECTIONS)
    if any(host.cells for host in fleet.hosts):
        listed.insert(-1, ("acceptance", "Acceptance", sections.acceptance))
    if any(host.steady for host in fleet.hosts):
        listed.insert(-1, ("steady-state", "Steady state", load_plots.steady_state))
    body = [make(fleet, names) for _ident, _name, make in listed]
    body += [_hosts(fleet), _raw(fleet)]
    menu = "".join(f"<li>{link(ident, name)}</li>" for ident, name in [*((one[0], one[1]) for one in listed), ("hosts", "Hosts"), ("raw", "Raw data")])
    made = f"State of {fleet.dated}. " if fleet.time else ""
    return "".join(
        [
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="referrer" content="no-referrer">',
            f"<title>{as_html(fleet.title)}</title><style>{page_style()}</style></head>\n<body>",
            f"<header><h1>{as_html(fleet.title)}</h1>{paragraph(made, counted(len(fleet.hosts), 'host'), '.')}</header>\n",
            f'<nav aria-label="Sections"><ul>{menu}</ul></nav>\n<main>',
            "\n".join(body),
            "</main>\n<footer><p>Made by plumbline.ssd. The page holds names and serial numbers of hosts and drives.</p></footer>\n</body></html>\n",
        ]
    )


def _hosts(fleet: Fleet) -> Html:
    alone = len(fleet.hosts) == 1
    parts = [sections.host_part(host, f"host-{at}", alone) for at, host in enumerate(fleet.hosts)]
    return sections.section("hosts", "Hosts", paragraph("All that is known of each host, the worst first. Select a host to unfold it."), joined(parts, "\n"))


def _raw(fleet: Fleet) -> Html:
    """The records of the worst hosts as JSON, as many as a page can hold."""
    parts, left, out = [], RAW_IN_ALL, 0
    for host in fleet.hosts:
        if not host.raw or len(host.raw) > left:
            out += 1
            continue
        left -= len(host.raw)
        text = json.dumps(json.loads(host.raw), indent=1, ensure_ascii=False)
        parts.append(folded(f"Record of {host.host}", preformatted(printable(text))))
    told = f"{counted(out, 'host')} had no record, or one that is too large to be shown here; it is in the files that the report was made of." if out else ""
    return sections.section("raw", "Raw data", paragraph("What the modules returned, as JSON."), joined(parts, "\n"), paragraph(told) if told else "")
