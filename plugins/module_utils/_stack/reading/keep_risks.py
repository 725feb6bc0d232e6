# SPDX-License-Identifier: GPL-3.0-or-later
"""The risks that somebody accepted, by stack, as the host keeps them. I/O."""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import Any, List, Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Accepted
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import read_json, write_json

ACCEPTED = "/var/lib/plumbline/accepted"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")  # of a stack; it becomes a file's name
_GIVEN = ("volume", "mount", "uuid", "option", "acceptance")


def load_accepted() -> List[Accepted]:
    """The accepted risks of all stacks. A record that cannot be read accepts nothing."""
    try:
        names = sorted(name for name in os.listdir(ACCEPTED) if name.endswith(".json"))
    except OSError:
        return []
    return [risk for name in names for risk in _accepted(name[: -len(".json")])]


def _accepted(stack: str) -> List[Accepted]:
    return parse_accepted(stack, read_json("%s/%s.json" % (ACCEPTED, stack)))


def parse_accepted(stack: str, kept: Any) -> List[Accepted]:
    """The accepted risks in what was kept of a stack. What is none of them is passed over."""
    risks = []
    for entry in kept if isinstance(kept, list) else []:
        with contextlib.suppress(TypeError):  # written by another release, or by hand
            risk = Accepted(**entry)
            words = {key: str(value or "") for key, value in risk._asdict().items() if key != "serials"}
            risks.append(Accepted(**dict(words, stack=stack), serials=tuple(map(str, risk.serials))))
    return risks


def add_accepted(stacks: Sequence[Mapping[str, Any]]) -> bool:
    """Add to the records what is accepted from now on, beside what was. Returns whether there was anything to add."""
    changed = [_replace(entry["stack"], entry["risks"], True) for entry in stacks]
    return any(changed)


def drop_accepted(stacks: Sequence[Mapping[str, Any]]) -> bool:
    """Take out of the records what is not accepted any more. Returns whether there was anything to take out."""
    changed = [_replace(entry["stack"], entry["risks"], False) for entry in stacks]
    return any(changed)


def _replace(stack: str, risks: Sequence[Mapping[str, Any]], keep: bool) -> bool:
    if not _NAME.fullmatch(stack):
        raise PlumblineError("accepted: '%s' is no name of a stack; nothing was recorded" % stack)
    old = _accepted(stack)
    since = {risk.key: risk.since for risk in old}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    new = [Accepted(stack, serials=tuple(risk["serials"]), **{key: risk[key] for key in _GIVEN}) for risk in risks]
    new = [risk._replace(since=since.get(risk.key, now)) for risk in new]
    if keep:
        new += [risk for risk in old if risk not in new]
    if new == old:
        return False
    path = "%s/%s.json" % (ACCEPTED, stack)
    if new:
        write_json(path, [dict(risk._asdict()) for risk in new], "what was accepted")
        return True
    try:
        os.unlink(path)
    except OSError as fault:
        raise PlumblineError("%s could not be removed: %s" % (path, fault.strerror or fault)) from fault
    return True
