# SPDX-License-Identifier: GPL-3.0-or-later
"""The lease of a run whose plan was made on the controller: taken for that plan, with the note of filesystems that are about to be made. I/O."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.keep_lease import Run, release, take
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.keep_begun import note_making

TAKE: Mapping[str, Mapping[str, Any]] = {
    **{name: {"type": "str", "default": ""} for name in ("digest", "controller", "process", "gone")},
    "making": {"type": "list", "elements": "str", "default": []},
    "standing": {"type": "list", "elements": "str", "default": []},
    "seen": {"type": "dict"},
}


def take_for_plan(run: str, asked: Mapping[str, Any]) -> Tuple[Dict[str, Any], List[str]]:
    """Take or renew the lease, by the options TAKE. Returns (what the module returns, warnings).

    *seen* is the lease as it was when the host was read. If another run had it then or since, what was seen may be old: the host is to be read
    again under the lease, and nothing is noted. Without it the plan counts.
    Raises PlumblineError, and Held where another run has the lease.
    """
    lease, former, warnings = take(Run(run, asked["controller"], asked["process"], asked["gone"]), asked["digest"])
    before = asked["seen"]
    again = before is not None and (bool(before["held"]) or before["lease"] != (dict(former._asdict()) if former else {}))
    if not again:
        try:
            note_making(asked["making"], asked["standing"])
        except PlumblineError:
            release(lease.run)
            raise
    return {"lease": {"run": lease.run, "digest": asked["digest"]}, "again": again}, warnings
