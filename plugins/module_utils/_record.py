# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What is kept on the host: each stack's last proof and accepted risks, what was begun, the marks of loads. Root's alone, replaced in one step. I/O."""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from typing import Any, Dict, List, Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._model import Accepted

DIRECTORY = "/var/lib/plumbline/proof"
ACCEPTED = "/var/lib/plumbline/accepted"
LOADS = "/var/lib/plumbline/loads.json"
MAKING = "/var/lib/plumbline/making.json"
_KEPT_LOADS = 64
_NAME = re.compile(r"[a-z][a-z0-9_]{0,19}")  # of a stack; it becomes a file's name
_MARK = re.compile(r"[0-9a-f]{32}")
_GIVEN = ("volume", "mount", "uuid", "option", "acceptance")


def path_of(stack: str) -> str:
    """Where the record of a stack is."""
    return "%s/%s.json" % (DIRECTORY, stack)


def load(stack: str) -> Dict[str, Any]:
    """The record, or nothing: one that is not there, or cannot be read, proves nothing."""
    found = _read(path_of(stack))
    return found if isinstance(found, dict) else {}


def _read(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as handle:
            return json.load(handle)
    except (OSError, ValueError):
        return None


def save(stack: str, record: Mapping[str, Any]) -> str:
    """Write the record and return its path. Raises PlumblineError where that is not possible."""
    path = path_of(stack)
    _write(path, record, "the proof")
    return path


def _write(path: str, content: Any, what: str) -> None:
    from ansible_collections.plumbline.ssd.plugins.module_utils._mounting import replace_file  # readers need none of it

    directory = os.path.dirname(path)
    try:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        os.chmod(os.path.dirname(directory), 0o700)
        replace_file(path, json.dumps(content, indent=1, sort_keys=True) + "\n", mode=0o600)
    except OSError as fault:
        raise PlumblineError("%s could not be kept in %s: %s" % (what, path, fault.strerror or fault)) from fault


# --- filesystems that are being made ----------------------------------------------------------------


def load_making() -> List[str]:
    """UUIDs of the filesystems that a run was about to make on what it had proven blank, and that were not seen whole since."""
    found = _read(MAKING)
    uuids = found.get("filesystems") if isinstance(found, dict) else None
    return [one for one in uuids if isinstance(one, str)] if isinstance(uuids, list) else []


def note_making(begun: Sequence[str], done: Sequence[str]) -> None:
    """Record which are about to be made, and forget those that stand. Raises PlumblineError where that is not possible."""
    before = load_making()
    after = sorted({*before, *begun} - set(done))
    if after != sorted(before):
        _write(MAKING, {"filesystems": after}, "which filesystems are being made")


# --- loads of ours ----------------------------------------------------------------------------------


def load_marks() -> List[bytes]:
    """The marks of the write loads of this host, by which what they wrote is told from anybody's data."""
    found = _read(LOADS)
    marks = found.get("marks") if isinstance(found, dict) else None
    return [bytes.fromhex(mark) for mark in marks if isinstance(mark, str) and _MARK.fullmatch(mark)] if isinstance(marks, list) else []


def add_mark(mark: bytes) -> None:
    """Record the mark of a load before its first write. Raises PlumblineError where that is not possible: nothing is to be written then."""
    kept = [one.hex() for one in load_marks() if one != mark][1 - _KEPT_LOADS :]
    _write(LOADS, {"marks": [*kept, mark.hex()]}, "the mark of a load")


# --- accepted risks --------------------------------------------------------------------------------


def load_accepted() -> List[Accepted]:
    """The accepted risks of all stacks. A record that cannot be read accepts nothing."""
    try:
        names = sorted(name for name in os.listdir(ACCEPTED) if name.endswith(".json"))
    except OSError:
        return []
    return [one for name in names for one in _accepted(name[: -len(".json")])]


def _accepted(stack: str) -> List[Accepted]:
    return parse_accepted(stack, _read("%s/%s.json" % (ACCEPTED, stack)))


def parse_accepted(stack: str, found: Any) -> List[Accepted]:
    """The accepted risks in what was kept of a stack. What is none of them is passed over."""
    risks = []
    for entry in found if isinstance(found, list) else []:
        with contextlib.suppress(TypeError):  # written by another release, or by hand
            one = Accepted(**entry)
            words = {key: str(value or "") for key, value in one._asdict().items() if key != "serials"}
            risks.append(Accepted(**dict(words, stack=stack), serials=tuple(map(str, one.serials))))
    return risks


def add_accepted(stacks: Sequence[Mapping[str, Any]]) -> bool:
    """Add to the records what is accepted from now on, beside what was. Returns whether there was anything to add."""
    changed = [_replace(one["stack"], one["risks"], True) for one in stacks]
    return any(changed)


def drop_accepted(stacks: Sequence[Mapping[str, Any]]) -> bool:
    """Take out of the records what is not accepted any more. Returns whether there was anything to take out."""
    changed = [_replace(one["stack"], one["risks"], False) for one in stacks]
    return any(changed)


def _replace(stack: str, risks: Sequence[Mapping[str, Any]], keep: bool) -> bool:
    if not _NAME.fullmatch(stack):
        raise PlumblineError("accepted: '%s' is no name of a stack; nothing was recorded" % stack)
    old = _accepted(stack)
    since = {one.key: one.since for one in old}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    new = [Accepted(stack, serials=tuple(risk["serials"]), **{key: risk[key] for key in _GIVEN}) for risk in risks]
    new = [one._replace(since=since.get(one.key, now)) for one in new]
    if keep:
        new += [one for one in old if one not in new]
    if new == old:
        return False
    path = "%s/%s.json" % (ACCEPTED, stack)
    if new:
        _write(path, [dict(one._asdict()) for one in new], "what was accepted")
        return True
    try:
        os.unlink(path)
    except OSError as fault:
        raise PlumblineError("%s could not be removed: %s" % (path, fault.strerror or fault)) from fault
    return True
