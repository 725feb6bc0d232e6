# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a run, merged by host, and the report in all its formats. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.plumbline.ssd.plugins.plugin_utils.files import hosts_of
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.page import render_html
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.summary import render_json, render_markdown
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.values import words

# Format → the end of the file's name, and what makes its text.
FORMATS = {"html": (".html", render_html), "markdown": (".md", render_markdown), "json": (".json", render_json)}


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two records of one host: lists follow each other, of two times the later counts, and of all else the second."""
    joined = dict(first)
    for key, value in second.items():
        old = joined.get(key)
        joined[key] = [*old, *value] if isinstance(old, list) and isinstance(value, list) else value
    times = [record["time"] for record in (first, second) if isinstance(record.get("time"), str)]
    return {**joined, "time": max(times)} if times else joined


def of_proof(proof: Mapping[str, Any]) -> dict[str, Any]:
    """What the record of a proof, as a host keeps it, is in the record of that host.

    The time at which it was made is the host's claim, and dates nothing here. The time at which it was fetched was noted by the controller.
    """
    return {"proofs": [dict(proof)], **({"time": proof["kept"]} if "kept" in proof else {})}


def is_proof(read: Mapping[str, Any]) -> bool:
    """Whether this is the record of a proof, as a host keeps it."""
    return isinstance(read.get("stack"), str) and isinstance(read.get("measured"), list)


def host_of_file(name: str, records: Sequence[Mapping[str, Any]], expected: Sequence[str]) -> str:
    """The host whose records a file of this name (without its suffix) holds: ``HOST`` or ``HOST-WORD``, whatever the records say of themselves.

    A record that names a host has to name this one; a proof names none, and is of the host before the last hyphen. *expected*: where a name fits
    two hosts, the one that is expected.
    Raises ValueError that says whom it names.
    """
    hosts = tuple(host for host in hosts_of(name) if host in expected) or hosts_of(name)
    named = [record["host"] for record in records if "host" in record]
    strange = [host for host in named if host not in hosts]
    if strange or len(set(map(str, named))) > 1:
        raise ValueError(f"it says that it is of the host '{words((strange or named)[0])}'; wanted a record of '{words(hosts[0])}', as the file is named")
    if any(is_proof(record) for record in records):  # a host keeps it: what it calls itself does not count
        return hosts[-1]
    if named:
        return str(named[0])
    raise ValueError("found no name of a host; wanted a record with 'host'")


def render(fleet: Fleet, formats: Iterable[str]) -> dict[str, str]:
    """Format → text, in the order of FORMATS."""
    asked = set(formats)
    return {name: make(fleet) for name, (_suffix, make) in FORMATS.items() if name in asked}
