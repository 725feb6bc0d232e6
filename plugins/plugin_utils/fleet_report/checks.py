# SPDX-License-Identifier: GPL-3.0-or-later
"""The checks of the report: the columns of its map, and what to do about what each of them finds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._judge.findings import DURABILITY


class Check(NamedTuple):
    """A column: its short name, its name, what to do about its findings, and the guide that says more."""

    short: str
    name: str
    todo: str  # unless its finding knows better
    guide: str


CHECKS: Mapping[str, Check] = {
    "answer": Check("Answer", "The host and its modules answered", "Make the host answer, then run the play again.", "guide_first_run"),
    "drives": Check("Drives", "Health of the drives", "Replace a drive that fails; its data is at risk until then.", "guide_drive_health"),
    "wear": Check("Wear", "Rated endurance of the drives", "Order a replacement in time, or let less be written to the drive.", "guide_drive_health"),
    "link": Check("Link", "Links to the drives", "Try another cable, bay, slot or port, then read the link again.", "guide_links"),
    "trim": Check("Trim", "Path of trim to the drives", "Open the path layer by layer, then measure it again.", "guide_trim"),
    "alignment": Check(
        "Alignment", "Static proof: where each layer begins", "Copy the data away, build the stack anew, and copy it back.", "guide_static_proof"
    ),
    "proof": Check("Proof", "Measured proof", "See the static proof first; then measure again while the host is quiet.", "guide_measured_proof"),
    "durability": Check(
        "Durable",
        "Write caches, mounts and flushes",
        "Mount with barriers, or switch volatile caches off, unless the drives are protected against power loss.",
        "guide_durability",
    ),
    "plan": Check("Plan", "The host is as its spec says", "Run the role provision; in check mode it shows what it would do.", "guide_flow"),
    "steady_state": Check("Steady", "Steady state under load", "Give the drive more reserve, or ask less of it.", "guide_steady_state"),
    "acceptance": Check("Accept.", "Acceptance of the drive for its load", "Take another drive for this load, or another load.", "guide_acceptance"),
}

# What to do where the rule of a finding or its layer knows better than its check. Of a device or a stack, what is wanted says it all.
_TODO_OF_LAYER = {
    "filesystem": "tune2fs -E stride=…,stripe_width=… sets both, and moves no data.",
    **dict.fromkeys(("mount", "device", "stack", "host", "raid"), ""),
}
_TODO_OF_RULE = {
    "unread": "Ask it by hand, with smartctl. The health of a virtual disk can be read on its hypervisor only.",
    "left_out_nothing": "Correct the entry, or remove it.",
}
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
WEAR_RULES = ("wear", "wear_unclear", "worn_out", "endurance", "life", "pre_eol", "spare")


def todo_of(check: str, layer: str, rule: str) -> str:
    """What to do about a finding beside what it wants itself."""
    return _TODO_OF_RULE.get(rule) or _TODO_OF_LAYER.get(layer, CHECKS[check].todo)


def check_of(layer: str, rule: str = "") -> str:
    """The check to which a finding belongs: by its layer, and where it is about a drive by its rule."""
    check = _LAYERS.get(layer, "alignment")
    return "wear" if check == "drives" and rule in WEAR_RULES else check
