# SPDX-License-Identifier: GPL-3.0-or-later
"""One step for the array of a mirrored stack: observe, compare with the plan, act, read back. I/O."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.mirrors import change_array, change_replacement
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.steps import MIRROR_ADD, MIRROR_CREATE, MIRROR_GROW, MIRROR_REPLACE
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.volumes.standing_disks import check_standing

_ACTIONS = {
    MIRROR_CREATE: change_array.create_array,
    MIRROR_ADD: change_array.add_member,
    MIRROR_REPLACE: change_replacement.replace_member,
    MIRROR_GROW: change_array.grow_array,
}


def take_mirror_step(run: Runner, step: Mapping[str, Any], check: bool) -> None:
    """Carry out one step; with *check* only what is looked at before it. Raises PlumblineError."""
    seen = _look(run, step, step["action"] != MIRROR_GROW)
    check_standing(seen, step)
    _ACTIONS[step["action"]](run, seen, step, lambda: _look(run, step, False), check)


def _look(run: Runner, step: Mapping[str, Any], prove: bool) -> Observation:
    """The stack's disks, and all on them. *prove*: also whether what is to be a member is blank."""
    full = any(disk["full_proof"] for disk in step["disks"])
    return observe(run, Questions(devices=tuple((disk["device"], disk["test_identity"]) for disk in step["disks"]), full_proof=full, prove=prove))


def mirrored(step: Mapping[str, Any]) -> Dict[str, Any]:
    """What is returned of a step."""
    return {"action": step["action"], "stack": step["stack"], "array": step["array"], "component_bytes": step["component_bytes"]}
