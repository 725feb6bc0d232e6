# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a plan, an audit, or a list of disks that is done on the host: read it, and for a plan look at its lease. I/O.

The controller judges and plans from what this returns. A host in the desired state needs no other call; where steps remain, the controller then has the
lease taken.
"""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import device_path
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_missing_devices import missing_devices
from ansible_collections.plumbline.ssd.plugins.module_utils._block.stated_geometry import Override
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import NOTHING_WRITTEN, PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Held, Run, peek, release
from ansible_collections.plumbline.ssd.plugins.module_utils._core.lease import Lease
from ansible_collections.plumbline.ssd.plugins.module_utils._core.packing import pack
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_begun import forget_made, note_making
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_storage import read_for_plan, shorten_ends
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import PlanAnswer, StorageReading


def read_questions(raw: Mapping[str, Any]) -> Questions:
    """What the controller asks, as the arguments of a module carry it."""
    return Questions(**{**raw, "overrides": [Override(*override) for override in raw["overrides"]]})


def packed_answer(run: Runner, ask: Questions, me: Optional[Run]) -> str:
    """Read the host. Returns the reading as one text, and in it for a run that means to write (*me*) what the lease is.

    The lease is looked at before the host is. Where another run has it, no device is read for a proof: that run would find it open.
    Raises PlumblineError, and Held where another run is at work: its message replaces every other.
    """
    before, held = peek(me) if me else (None, "")
    mine = me is not None and not held
    try:
        if mine:
            forget_made()
        reading = read_for_plan(run, ask._replace(prove=ask.prove and not held))
        if mine:  # a filesystem whose superblock is there was made
            note_making([], [filesystem.uuid for filesystem in reading.seen.filesystems.values()])
    except PlumblineError as fault:
        if held:
            raise Held(NOTHING_WRITTEN + held, before) from fault
        if me and me.run:
            release(me.run)
        raise
    return pack_reading(reading, held, before)


def packed_disks(run: Runner, devices: Sequence[str], whole: bool, guards: bool = True) -> str:
    """Read the disks of these names, or all of the host. *whole*: no part of a disk is wanted; *guards*: whether what speaks against taking them is.

    Raises PlumblineError where one is not there.
    """
    asked = [device_path(name) for name in devices]
    reading = read_for_plan(run, Questions(devices=tuple((path, "") for path in asked), everything=not asked, prove=False, guards=guards))
    missing_devices(reading.seen, asked, whole)
    return pack_reading(reading)


def pack_reading(reading: StorageReading, held: str = "", before: Optional[Lease] = None) -> str:
    """A reading as one text for the controller, without what no plan looks at; and what the lease was *before*, and why this run may not write now."""
    shorten_ends(reading.seen)
    return pack(PlanAnswer(reading, held, dict(before._asdict()) if before else {}))
