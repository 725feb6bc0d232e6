# SPDX-License-Identifier: GPL-3.0-or-later
"""Stacks of which the host has nothing but records. Pure."""

from __future__ import annotations

from typing import Iterable, List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import INFO, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import our_name


def why_not_gone(seen: Observation, stack: str, specified: Sequence[str]) -> str:
    """Why a stack is not gone, or may not be; empty where nothing of it is on the host. *seen*: of all disks; *specified*: stacks that are to be there."""
    if stack in specified:
        return "plumbline_stacks has it; take it out there first"
    if seen.vg(stack):
        return "its volume group is on this host; take the stack apart first"
    for devno, table in seen.tables.items():
        for entry in table.entries + table.spare if table else ():
            name = our_name(entry.name)
            if name and name[0] == stack:
                return "a partition of it is on %s; take the stack apart first" % seen.nodes[devno].name
    if seen.faults:
        names = ", ".join(sorted(seen.nodes[devno].name for devno in seen.faults if devno in seen.nodes))
        return "the disk %s could not be read, and may have a part of it" % names
    return ""


def gone_stacks(seen: Observation, kept: Iterable[str], specified: Sequence[str]) -> List[Finding]:
    """Of the stacks whose records are *kept*, those that are neither on the host nor specified."""
    text = "the host keeps records of this stack, of which it has nothing else, and plumbline_stacks does not have it"
    remedy = "its disks; or, if it is gone for good, plumbline_monitor: {retire: [%s]}, which moves the records aside"
    return [Finding(INFO, "record", stack, text, remedy % stack, "stack_gone") for stack in sorted(kept) if not why_not_gone(seen, stack, specified)]
