# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as one HTML file: what its template, templates/page.html.j2, shows. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report import load_plots, sections
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.checks import CHECKS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.environment import render_template
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.pieces import Link
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import HostReport
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import counted

RAW_IN_ALL = 800_000  # characters of records that are shown as such, the worst hosts first


def render_html(fleet: Fleet) -> str:
    """The whole page."""
    names = {host.host: Link(f"host-{at}", host.host) for at, host in enumerate(fleet.hosts)}
    shown = _with_record(fleet.hosts)
    without = len(fleet.hosts) - len(shown)
    return render_template(
        "page.html.j2",
        title=fleet.title,
        dated=fleet.dated if fleet.time else "",
        counted=counted(len(fleet.hosts), "host"),
        level=fleet.level,
        verdict=fleet.verdict(),
        counts=", ".join(f"{count:,} {level}" for level, count in fleet.counts().items()),
        first=sections.findings(fleet, names, tuple(CHECKS), "Findings of all hosts, the worst first"),
        checks=[CHECKS[check] for check in fleet.checks],
        maps=sections.maps(fleet, names),
        **{name: make(fleet, names) for name, make in sections.SUBJECTS.items()},
        steady=load_plots.steady_state(fleet, names),
        steady_devices=load_plots.steady_devices(fleet),
        conditions=sections.conditions(fleet, names),
        degrees=sections.degrees(fleet),
        hosts=(sections.host_part(host, names[host.host].ident, len(fleet.hosts) == 1) for host in fleet.hosts),
        records=((host.host, json.dumps(json.loads(host.raw), indent=1, ensure_ascii=False)) for host in shown),
        not_shown=counted(without, "host") if without else "",
    )


def _with_record(hosts: Iterable[HostReport]) -> list[HostReport]:
    """The worst hosts whose records are shown, as many as a page can hold."""
    shown, left = [], RAW_IN_ALL
    for host in hosts:
        if host.raw and len(host.raw) <= left:
            left -= len(host.raw)
            shown.append(host)
    return shown
