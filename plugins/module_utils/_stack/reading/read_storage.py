# SPDX-License-Identifier: GPL-3.0-or-later
"""One reading of a host for a plan: what there is, and what the host keeps of proofs and of its drives' health. I/O."""

from __future__ import annotations

import hashlib
import time
import zlib

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ends, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._core.verdict import PASS
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.keep_last_reading import load_last
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.keeping import Keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.read_keeping import read_keeping
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_proofs import load_proof
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_stacks import records_of_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_conditions import read_conditions
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.storage_reading import StorageReading

# Of the record of a proof: what says whether it is of this stack, and how it ended. The measurements themselves stay on the host.
_OF_A_PROOF = ("stack", "digest", "made", "verdict", "time", "parts", "accepted", "tries", "conditions", "reasons")
# Compressed, the ends of a device with nothing but a table are smaller. A table's own sectors lie in the outermost ones.
_MOST_OF_ENDS = 64 << 10
_TABLE_BYTES = 32 << 10


def read_for_plan(run: Runner, ask: Questions) -> StorageReading:
    """Read the host once. Raises PlumblineError where that is not possible. Without a device nothing is asked of it: it may have no tools either."""
    asked = bool(ask.devices or ask.models or ask.everything)
    seen, keeping = (observe(run, ask), read_keeping()) if asked else (Observation(), Keeping({}, True, ()))
    records = {name: load_proof(name) for name in ask.proofs}
    heads = {name: {key: record[key] for key in _OF_A_PROOF if key in record} for name, record in records.items()}
    unproven = any(head and head.get("verdict") != PASS for head in heads.values())
    drives, conditions = load_last() if ask.health else {}, read_conditions(run) if unproven else {}
    recorded = tuple(sorted(records_of_stacks())) if ask.everything else ()
    return StorageReading(seen, heads, drives, keeping, int(time.time()), conditions, recorded)


def shorten_ends(seen: Observation) -> None:
    """Leave out of the devices' ends what no plan looks at, so that little is sent: data that cannot be a table. Its digest stays."""
    for devno, ends in seen.ends.items():
        if len(zlib.compress(ends.head + ends.tail, 1)) > _MOST_OF_ENDS:
            digest = hashlib.sha256(ends.head + ends.tail).hexdigest()
            seen.ends[devno] = Ends(ends.head[:_TABLE_BYTES], ends.tail[-_TABLE_BYTES:], ends.tail_at, digest)
