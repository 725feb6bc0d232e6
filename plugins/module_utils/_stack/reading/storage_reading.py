# SPDX-License-Identifier: GPL-3.0-or-later
"""All that is read on a host for a plan of its storage. Pure data."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.last_reading import LastReading
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping


class StorageReading(NamedTuple):
    """An observation, and what the host keeps."""

    seen: Observation
    proofs: Dict[str, Dict[str, Any]]  # stack → the record of its last proof
    drives: Dict[str, LastReading]  # the last readings of their health, by the identity of a disk
    keeping: Keeping
    now: int  # the host's clock, in seconds since 1970
    conditions: Dict[str, str] = {}  # of a measurement now; read where a proof has not passed
    recorded: Tuple[str, ...] = ()  # stacks that the host has records of; read where everything is


class PlanAnswer(NamedTuple):
    """What a host answers who plans for it. *held*: why this run may not write now; *lease*: the members of the lease as it was, if there was one."""

    reading: StorageReading
    held: str
    lease: Dict[str, Any]
