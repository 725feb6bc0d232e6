# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Each stack's last proof, as the host keeps it: root's alone, replaced in one step. I/O."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._io.files import read_json, write_json

DIRECTORY = "/var/lib/plumbline/proof"


def path_of(stack: str) -> str:
    """Where the record of a stack is."""
    return "%s/%s.json" % (DIRECTORY, stack)


def load_proof(stack: str) -> Dict[str, Any]:
    """The record, or nothing: one that is not there, or cannot be read, proves nothing."""
    found = read_json(path_of(stack))
    return found if isinstance(found, dict) else {}


def save_proof(stack: str, record: Mapping[str, Any]) -> str:
    """Write the record and return its path. Raises PlumblineError where that is not possible."""
    path = path_of(stack)
    write_json(path, record, "the proof")
    return path
