# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the static proof. Pure."""

from __future__ import annotations

from typing import Any

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human
from ansible_collections.plumbline.ssd.plugins.module_utils._core.text import table
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DURABILITY, FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.layers import Layer
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.static_proof import View


def view_report(view: View) -> list[str]:
    """The static proof of one stack: a row for each layer on each leg (one for all where they agree), then findings."""
    title = "%s%s" % (view.name, " on %s" % view.mount if view.mount else "")
    rows: list[tuple[str, ...]] = [("layer", "name", "leg", "start (bytes)", "phase", "")]
    for layer in view.layers:
        rows += _layer_rows(layer)
    lines = [title] + ["  " + line for line in table(rows)]
    for finding in view.findings:
        lines.append("  %s: %s" % ("FAIL" if finding.level == ERROR else "note", finding.text))
    lines += ["  accepted: %s" % line for line in view.accepted]
    if view.not_followed:
        lines.append("  not followed above %s: nothing there is known to be aligned" % ", ".join(view.not_followed))
    elif view.layers and view.layers[-1].kind == "table":
        lines.append("  a partition table, and nothing on it: there is nothing to be aligned")
    elif not any(finding.level == ERROR and finding.layer not in DURABILITY for finding in view.findings):
        everywhere = all(leg.aligned for layer in view.layers for leg in layer.legs)
        lines.append("  aligned: every layer on every leg" if everywhere else "  aligned: the data on every leg, though not every layer")
    return lines


def _layer_rows(layer: Layer) -> list[tuple[str, ...]]:
    names = ", ".join(layer.names)
    words = _words(layer)
    if not layer.legs:
        return [(layer.kind, names, "", "", "", words)]
    groups: dict[tuple[int, int, int, int], list[str]] = {}
    for leg in layer.legs:
        groups.setdefault((leg.start, leg.phase, leg.wanted, leg.grain), []).append(leg.device)
    rows: list[tuple[str, ...]] = []
    for (start, phase, wanted, grain), devices in groups.items():
        state = "%d of %d" % (phase, grain) + ("" if phase == wanted else ", wanted %d" % wanted)
        everywhere = len(groups) == 1 and len(set(devices)) > 1
        place = "all %d" % len(set(devices)) if everywhere else ", ".join(dict.fromkeys(devices))
        first = not rows
        rows.append((layer.kind if first else "", names if first else "", place, str(start), state, words if first else ""))
    return rows


def _words(layer: Layer) -> str:
    facts: dict[str, Any] = dict(layer.facts)
    if layer.kind == "device":
        return ", ".join(dict.fromkeys(word for word in facts.get("model", []) if word))
    if layer.kind == "pv":
        return "VG %s" % (facts.get("vg") or "-")
    if facts.get("raid"):
        return ", ".join(dict.fromkeys("%s of %d members" % (one["level"], one["members"]) for one in facts["raid"] if one))
    if facts.get("layouts"):
        return ", then ".join("%d stripes of %s" % (one["stripes"], human(one["stripe_size"])) if one["stripe_size"] else "linear" for one in facts["layouts"])
    if facts.get("stripe_size"):
        return "%d stripes of %s" % (facts["stripes"], human(facts["stripe_size"]))
    if layer.kind == "filesystem":
        kind = FILESYSTEMS.get(str(facts.get("type", "")))
        shape = kind.shape(facts["stride"], facts["stripe_width"]) if kind and "stride" in facts else ()
        return ", ".join([str(facts.get("type", "")), *shape])
    if layer.kind == "mount":
        return ",".join(facts.get("options", []))
    return ""
