# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of the report: the columns of its map, and to which of them a finding belongs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import DURABILITY
from ansible_collections.plumbline.ssd.plugins.plugin_utils.fleet_report.remedies import RULES


class Check(NamedTuple):
    """A column: its short name, its name, and the guide that says more."""

    short: str
    name: str
    guide: str


CHECKS: Mapping[str, Check] = {
    "answer": Check("Answer", "The host and its modules answered", "guide_first_run"),
    "drives": Check("Drives", "Health of the drives", "guide_drive_health"),
    "wear": Check("Wear", "Rated endurance of the drives", "guide_drive_health"),
    "link": Check("Link", "Links to the drives", "guide_links"),
    "trim": Check("Trim", "Path of trim to the drives", "guide_trim"),
    "alignment": Check("Alignment", "Static proof: where each layer begins", "guide_static_proof"),
    "proof": Check("Proof", "Measured proof", "guide_measured_proof"),
    "durability": Check("Durable", "Write caches, mounts and flushes", "guide_durability"),
    "plan": Check("Plan", "The host is as its spec says", "guide_flow"),
    "steady_state": Check("Steady", "Steady state under load", "guide_steady_state"),
    "acceptance": Check("Accept.", "Acceptance of the drive for its load", "guide_acceptance"),
}

# Where a record has no rule for a finding, or one that is not known here: it was kept by another release.
_LAYERS = {
    "host": "answer",
    "drive": "drives",
    "stack": "drives",
    "link": "link",
    "trim": "trim",
    "reserve": "steady_state",
    "record": "proof",
    **dict.fromkeys(DURABILITY, "durability"),
}
WEAR_RULES = tuple(name for name, rule in RULES.items() if rule.check == "wear")


def todo_of(rule: str) -> str:
    """What to do about a finding beside what it wants itself; nothing where its rule is not known, since what helps against another one may harm."""
    return RULES[rule].todo if rule in RULES else ""


def check_of(layer: str, rule: str = "") -> str:
    """The check to which a finding belongs: by its rule, and where that is not known by its layer."""
    return RULES[rule].check if rule in RULES else _LAYERS.get(layer, "alignment")
