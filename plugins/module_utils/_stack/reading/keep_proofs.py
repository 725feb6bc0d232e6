# SPDX-License-Identifier: GPL-3.0-or-later
"""Each stack's last proof, as the host keeps it: root's alone, replaced in one step. I/O."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import read_json, write_json

DIRECTORY = "/var/lib/plumbline/proof"


def path_of(stack: str) -> str:
    """Where the record of a stack is."""
    return "%s/%s.json" % (DIRECTORY, stack)


def load_proof(stack: str) -> Dict[str, Any]:
    """The record, or nothing: one that is not there, or cannot be read, proves nothing."""
    record = read_json(path_of(stack))
    return record if isinstance(record, dict) else {}


def save_proof(stack: str, record: Mapping[str, Any]) -> str:
    """Write the record and return its path. Raises PlumblineError where that is not possible."""
    path = path_of(stack)
    write_json(path, record, "the proof")
    return path
