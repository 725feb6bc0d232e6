# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is told of a host in one call: its disks, the health of its drives, its stacks, and what differs from a spec. Reads only. I/O.

Each part is what the module of its name returns. A part that fails is told as its failure, and the others are read all the same.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.health_call import read_health, read_options
from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.plan_reading import plan_reading, questions
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._io.tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.host import absent_mounts, host_findings
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.stacks_gone import gone_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._judge.static_proof import tops, view
from ansible_collections.plumbline.ssd.plugins.module_utils._observe.health import DriveMeans, find_disks
from ansible_collections.plumbline.ssd.plugins.module_utils._observe.observation import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._observe.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._observe.read_for_plan import read_for_plan
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.spec import Stack
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.verify_options import Verify
from ansible_collections.plumbline.ssd.plugins.module_utils._records.lease_file import Run, peek
from ansible_collections.plumbline.ssd.plugins.module_utils._records.stack_records import records_of_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._report.device_table import device_result
from ansible_collections.plumbline.ssd.plugins.module_utils._report.static_proof_table import view_report


def audit_host(
    run: Runner, find: Callable[[str], Optional[str]], params: Mapping[str, Any], stacks: Sequence[Stack], verify: Optional[Verify], now: int
) -> Dict[str, Dict[str, Any]]:
    """Name of a module → what it returns of this host. *stacks*: the spec, empty where there is none; *verify*: to tell of measured proofs as well."""

    def disks_and_stacks() -> Dict[str, Dict[str, Any]]:
        seen = observe(run, Questions(everything=True, prove=False))
        views = [view(seen, devno) for devno in tops(seen, None)]
        of_host = host_findings(seen) + absent_mounts(seen) + gone_stacks(seen, records_of_stacks(), [stack.name for stack in stacks])
        told = {
            "stacks": [one.as_dict() for one in views],
            "findings": [finding.as_dict() for finding in [found for one in views for found in one.findings] + of_host],
            "report": [line for one in views for line in view_report(one)] + [finding.text for finding in of_host],
        }
        return {"device_info": device_result(seen), "stack_info": told}

    def drives() -> Dict[str, Dict[str, Any]]:
        nodes, _names = find_disks([], True)
        _lease, held = peek(Run())
        means = DriveMeans(find, params["timeout"], held)
        return {"drive_health": read_health(means, nodes, params, read_options(params, now), everything=True, keep=False).result}

    def drift() -> Dict[str, Dict[str, Any]]:
        if not stacks:
            return {}
        reading = read_for_plan(run, questions(stacks, prove=False, verify=verify is not None))
        return {"stack_plan": plan_reading(reading, stacks, verify=verify, refused="")[0]}

    parts: Dict[str, Dict[str, Any]] = {}
    for name, part in (("stack_info", disks_and_stacks), ("drive_health", drives), ("stack_plan", drift)):
        try:
            parts.update(part())
        except PlumblineError as fault:
            parts[name] = {"failed": True, "msg": fault.msg, "reasons": fault.reasons}
    return parts
