# SPDX-License-Identifier: GPL-3.0-or-later
"""One reading of a host against a spec: observe, plan, and what a module returns of it.

The plan before the steps and the reading back behind them are this same call. I/O: the observation, the records of proofs, the host's lease, and
the note of filesystems that are about to be made.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._ansible.plan_reading import filesystems_of, plan_reading, questions
from ansible_collections.plumbline.ssd.plugins.module_utils._common.errors import NOTHING_WRITTEN, PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._io.tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._observe.read_for_plan import read_for_plan
from ansible_collections.plumbline.ssd.plugins.module_utils._plan.spec import Stack
from ansible_collections.plumbline.ssd.plugins.module_utils._prove.verify_options import Verify
from ansible_collections.plumbline.ssd.plugins.module_utils._records import lease_file
from ansible_collections.plumbline.ssd.plugins.module_utils._records.begun import forget_made, note_making


def read(
    run: Runner,
    stacks: Sequence[Stack],
    through: str = "filesystem",
    verify: Optional[Verify] = None,
    prove: bool = True,
    refused: str = NOTHING_WRITTEN,
    gate: str = "off",
) -> Tuple[Dict[str, Any], List[str]]:
    """Read the host once and plan *stacks* up to a layer; see plan_reading(). *prove*: read blank devices, which keeps them open for a while."""
    reading = read_for_plan(run, questions(stacks, prove, verify is not None, gate != "off"))
    return plan_reading(reading, stacks, through, verify, refused, gate)


def note_filesystems(result: Mapping[str, Any]) -> None:
    """Record the filesystems that are about to be made on what was found blank, and forget those that stand.

    mke2fs writes the superblock last. What it leaves when it is cut off before that looks like a filesystem that lost its superblock; only who
    began it can tell. Raises PlumblineError where that cannot be kept: nothing is to be written then.
    """
    note_making(*filesystems_of(result))


def read_to_write(
    run: Runner, stacks: Sequence[Stack], through: str, verify: Optional[Verify], me: lease_file.Run, refused: str = NOTHING_WRITTEN, gate: str = "off"
) -> Tuple[Dict[str, Any], List[str]]:
    """read() for a run that means to carry the steps out: where steps remain, they come with the host's lease; where none do, it is given back.

    The lease is looked at before the host is. Where another run has it, no device is read for a proof: that run would find it open. Where somebody
    had it in between, what was seen may be old, and is looked at again under it.
    Raises PlumblineError, and Held where another run is at work: its message replaces every other refusal.
    """
    before, held = lease_file.peek(me)
    if not held:
        forget_made()
    try:
        result, warnings = read(run, stacks, through, verify, prove=not held, refused=refused, gate=gate)
    except PlumblineError as fault:
        if held:
            raise lease_file.Held(NOTHING_WRITTEN + held, before) from fault
        if me.run:
            lease_file.release(me.run)
        raise
    if result["steps"]:
        lease, found, taken_over = lease_file.take(me, result["digest"])
        me, warnings = me._replace(run=lease.run), warnings + taken_over
        if held or found != before:  # what was seen may be old, or was not proven
            result, warnings = _read_again(run, stacks, through, verify, me, gate)
    try:
        note_filesystems(result)
    except PlumblineError:
        lease_file.release(me.run)
        raise
    result["lease"] = {"run": me.run, "digest": result["digest"]} if result["steps"] else {}
    result["released"] = me.run if not result["steps"] and me.run and lease_file.release(me.run) else ""
    return result, warnings


def _read_again(
    run: Runner, stacks: Sequence[Stack], through: str, verify: Optional[Verify], me: lease_file.Run, gate: str
) -> Tuple[Dict[str, Any], List[str]]:
    try:
        result, warnings = read(run, stacks, through, verify, gate=gate)
    except PlumblineError:
        lease_file.release(me.run)
        raise
    if result["steps"]:
        lease_file.take(me, result["digest"])
    return result, warnings
