# SPDX-License-Identifier: GPL-3.0-or-later
"""Retire the records of stacks that are gone, where the operator names them. I/O."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, peek
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_stacks import records_of_stacks, retire_records, retired_stacks
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.observe import observe
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.static_proof.stacks_gone import why_not_gone


class Retiring(NamedTuple):
    """What was moved, or would be: (path before, path after; empty in check mode)."""

    moved: Sequence[Tuple[str, str]]
    warnings: Sequence[str]


def retire_stacks(run: Runner, names: Sequence[str], specified: Sequence[str], check_mode: bool) -> Retiring:
    """Move aside what the host keeps of these stacks. Raises PlumblineError, with nothing moved, where one of them is not gone."""
    kept = records_of_stacks()
    chosen = [name for name in dict.fromkeys(names) if name in kept]
    unknown = set(names) - set(kept) - set(retired_stacks() if set(names) - set(kept) else ())
    warnings = ["retire: this host keeps no record of a stack %s" % name for name in sorted(unknown)]
    if not chosen:
        return Retiring((), warnings)
    _lease, held = peek(Run())
    if held:
        raise PlumblineError(held)
    seen = observe(run, Questions(everything=True, prove=False, guards=False))
    reasons = ["retire: %s: %s; nothing was moved" % (name, why) for name in chosen for why in [why_not_gone(seen, name, specified)] if why]
    if reasons:
        raise PlumblineError("; ".join(reasons))
    moved: List[Tuple[str, str]] = []
    for name in chosen:
        moved += zip(kept[name], [""] * len(kept[name]) if check_mode else retire_records(name))
    return Retiring(moved, warnings)
