# SPDX-License-Identifier: GPL-3.0-or-later
"""Drives beside others of their kind: whose cells of an acceptance are far from the median of the fleet. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.levels import INFO, WARNING, worst_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.record import HostFinding, HostReport, found_by
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import as_dict, as_number, counted, dicts, words

FEWEST = 5  # drives of a kind, or their median says nothing of it
# Iglewicz and Hoaglin, How to Detect and Handle Outliers (1993): 0.6745 (x - median) / MAD beyond 3.5. Alike drives differ by so little that a share
# of the rate is asked for as well.
FAR_SCORE = 3.5
FAR_SHARE = 0.10
_KIND = ("model", "firmware", "size_bytes", "link")
_WANTED = "within 10 % of the median"


class _Figure(NamedTuple):
    host: str
    drive: str
    value: float
    unit: str


# A cell and the kind of a drive → (host, serial) → the figure. A host that says another one's serial has a drive more of its own.
_Kinds = dict[tuple[str, ...], dict[tuple[str, str], _Figure]]


class _Far(NamedTuple):
    """How far a figure is from the median, and in words."""

    share: float
    text: str


def is_far(value: float, others: Sequence[float]) -> bool:
    """Whether a value is far from the median of *others*, among which it is."""
    middle = statistics.median(others)
    spread = statistics.median([abs(other - middle) for other in others])
    return abs(value - middle) > FAR_SHARE * middle and abs(value - middle) * 0.6745 > FAR_SCORE * spread


def compare_drives(hosts: Iterable[HostReport]) -> list[HostReport]:
    """The hosts, with what their drives' cells are beside those of their kind. Of a drive that was measured twice the last result counts."""
    kept = list(hosts)
    kinds: _Kinds = {}
    for host in kept:
        for result in host.accepted:
            _take(kinds, host.host, result)
    far: dict[tuple[str, str, str], list[_Far]] = {}
    for (name, *_kind), figures in kinds.items():
        counts: dict[str, list[float]] = {}
        for figure in figures.values():
            values = counts.get(figure.host) or counts.setdefault(figure.host, _beside(figure.host, list(figures.values())))
            middle = statistics.median(values) if len(values) >= FEWEST else 0.0
            if middle and is_far(figure.value, values):
                level = WARNING if figure.value < middle else INFO
                text = f"{figure.value:g} {figure.unit} in {name}, {figure.value / middle:.2f} of the median of {len(values)} drives of its kind"
                far.setdefault((figure.host, figure.drive, level), []).append(_Far(abs(figure.value / middle - 1), text))
    findings: dict[str, list[HostFinding]] = {}
    for (host_name, drive, level), cells in far.items():
        rest = f" (and {counted(len(cells) - 1, 'more cell')})" if len(cells) > 1 else ""
        findings.setdefault(host_name, []).append(found_by("unlike_peers", level, "device", drive, max(cells).text + rest, _WANTED))
    return [_with(host, findings[host.host]) if host.host in findings else host for host in kept]


def _beside(host: str, figures: Sequence[_Figure]) -> list[float]:
    """The values that a host's drives are compared with: all of its own, and of no other host half of them or more, or that host alone says what is usual."""
    most, count = Counter(figure.host for figure in figures).most_common(1)[0]
    if most == host or 2 * count < len(figures):
        return [figure.value for figure in figures]
    others = [figure.value for figure in figures if figure.host != most]
    return others + [figure.value for figure in figures if figure.host == most][: max(len(others) - 1, 0)]


def _take(kinds: _Kinds, host: str, result: Mapping[str, Any]) -> None:
    drive = as_dict(result.get("drive"))
    serial = words(drive["serial"]) if drive.get("serial") else ""
    if not serial or not drive.get("model"):
        return
    for cell in dicts(result.get("cells")):
        value = as_number(cell.get("value"))
        if value is not None and value > 0:
            kind = (words(cell.get("name")), words(cell.get("state")), *(words(drive.get(part)) for part in _KIND))
            kinds.setdefault(kind, {})[host, serial] = _Figure(host, words(drive.get("device")), value, words(cell.get("unit")))


def _with(host: HostReport, more: Sequence[HostFinding]) -> HostReport:
    level = worst_of([host.levels.get("acceptance", INFO), *(finding.level for finding in more)])
    return host._replace(findings=(*host.findings, *more), levels={**host.levels, "acceptance": level})
