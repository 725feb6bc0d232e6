# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a run, merged by host, and the report in all its formats. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.fleet import Fleet
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.page import render_html
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.summary import render_json, render_markdown

# Format → the end of the file's name, and what makes its text.
FORMATS = {"html": (".html", render_html), "markdown": (".md", render_markdown), "json": (".json", render_json)}


def merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Two records of one host: lists follow each other, of all else the second counts."""
    joined = dict(first)
    for key, value in second.items():
        old = joined.get(key)
        joined[key] = [*old, *value] if isinstance(old, list) and isinstance(value, list) else value
    return joined


def of_proof(name: str, proof: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a host whose proof is in a file of this name (without its suffix), as the role verify fetches it: ``HOST-STACK``."""
    return {"host": name.removesuffix(f"-{proof['stack']}"), "time": proof.get("time", ""), "proofs": [dict(proof)]}


def is_proof(read: Mapping[str, Any]) -> bool:
    """Whether this is the record of a proof, as a host keeps it."""
    return "host" not in read and isinstance(read.get("stack"), str) and isinstance(read.get("measured"), list)


def render(fleet: Fleet, formats: Iterable[str]) -> dict[str, str]:
    """Format → text, in the order of FORMATS."""
    wanted = set(formats)
    return {name: make(fleet) for name, (_suffix, make) in FORMATS.items() if name in wanted}
