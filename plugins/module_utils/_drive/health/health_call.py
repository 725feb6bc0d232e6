# SPDX-License-Identifier: GPL-3.0-or-later
"""One reading of the health of a host's drives: read, compare with what is kept, judge, keep.

The module and the monitor make this same call. I/O: the drives, and the readings that the host keeps.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_raids import read_mirrored_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._core import archive_imports  # noqa: F401 # pylint: disable=unused-import # acts on the next
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import identified
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.firmware_advisories import Advisory
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.keep_last_reading import load_last, save_last, update_last
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.keep_readings import compare_readings, load_readings, save_reading
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.left_out import read_left_out
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_other_drives import read_other_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.report import Known, health_result, last_readings
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.smartctl import Member

# The options that the module and the monitor share.
MEMBER = {"path": {"type": "str", "required": True}, "type": {"type": "str", "required": True}}
ENDURANCE = {"model": {"type": "str", "required": True}, "terabytes_written": {"type": "int", "required": True}}
ADVISORY = {
    "models": {"type": "list", "elements": "str", "required": True},
    "fixed_in": {"type": "str", "required": True},
    "limit_hours": {"type": "int", "required": True},
    "text": {"type": "str", "required": True},
}
LEAVE_OUT = {
    **{name: {"type": "str", "default": ""} for name in ("device", "serial", "model")},
    "reason": {"type": "str", "required": True},
}
OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "members": {"type": "list", "elements": "dict", "default": [], "options": MEMBER},
    "timeout": {"type": "int", "default": 30},
    "endurance": {"type": "list", "elements": "dict", "default": [], "options": ENDURANCE},
    "advisories": {"type": "list", "elements": "dict", "default": [], "options": ADVISORY},
    "leave_out": {"type": "list", "elements": "dict", "default": [], "options": LEAVE_OUT},
}
# Of the audit, which the module on the host and the action plugin on the controller both read.
AUDIT_OPTIONS: Mapping[str, Mapping[str, Any]] = {
    "stacks": {"type": "list", "elements": "dict", "default": []},
    "verify": {"type": "dict"},
    "record": {"type": "path"},
    **OPTIONS,
}


class HealthReading(NamedTuple):
    """The result of a reading. *changed*: something of it was kept, or would be in check mode."""

    result: Dict[str, Any]
    warnings: List[str]
    changed: bool


def read_options(params: Mapping[str, Any], now: int) -> Known:
    """What the caller knows of the drives beyond what they report. Raises PlumblineError for a number that is out of range."""
    if not 1 <= params["timeout"] <= 600:
        raise PlumblineError("timeout: %d; wanted 1 to 600 seconds" % params["timeout"])
    for member in params["members"]:
        if not member["path"].startswith("/dev/"):
            raise PlumblineError("members: path '%s'; wanted a node below /dev" % member["path"])
    for entry in params["endurance"]:
        if not 0 < entry["terabytes_written"] < 10**9:
            raise PlumblineError("endurance: terabytes_written of %s is %d; wanted more than 0" % (entry["model"], entry["terabytes_written"]))
    return Known(
        now=now,
        rated=[(entry["model"], entry["terabytes_written"] * 10**12) for entry in params["endurance"]],
        advisories=[Advisory(tuple(entry["models"]), entry["fixed_in"], entry["limit_hours"], entry["text"]) for entry in params["advisories"]],
        left_out=read_left_out(params["leave_out"]),
    )


def read_health(
    means: DriveMeans, nodes: Sequence[Node], params: Mapping[str, Any], known: Known, everything: bool, keep: bool, check_mode: bool = False
) -> HealthReading:
    """Read these disks and *params*' members. *everything*: look behind controllers as well; *keep*: the reading, unless another run holds the host."""
    members = [Member(member["path"], member["type"]) for member in params["members"]]
    drives, unfit = read_other_drives(means, nodes, members, everything, known.left_out)
    known = known._replace(unfit=unfit if everything else ())  # of some of the drives only, each entry may be of another one
    stacks = read_mirrored_disks()
    known = known._replace(mirrored={node.name: (stacks[node.name], node.identity.serial) for node in nodes if node.name in stacks})
    same = identified(drives)
    compared = {key: compare_readings(health, load_readings(key), known.now) for key, health in same.items()}
    result = health_result(drives, known._replace(histories={key: comparison.readings for key, comparison in compared.items()}))
    warnings = ["the baseline of %s: %s" % (key, comparison.warning) for key, comparison in compared.items() if comparison.warning]
    if not keep or means.why_not:
        return HealthReading(result, warnings, False)
    due = [key for key, comparison in compared.items() if comparison.due]
    before = load_last()
    after = update_last(before, last_readings(result, {node.name: node.identity.key for node in nodes}, known.now), known.now)
    if not check_mode:
        for key in due:
            save_reading(key, compared[key].readings, same[key], known.now)
        if after != before:
            save_last(after)
    return HealthReading(result, warnings, bool(due) or after != before)
