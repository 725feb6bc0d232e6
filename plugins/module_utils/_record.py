# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The record of a stack's last proof, on the host: root's alone, replaced in one step. I/O."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping

from ansible_collections.plumbline.ssd.plugins.module_utils._errors import PlumblineError

DIRECTORY = "/var/lib/plumbline/proof"


def path_of(stack: str) -> str:
    """Where the record of a stack is."""
    return "%s/%s.json" % (DIRECTORY, stack)


def load(stack: str) -> Dict[str, Any]:
    """The record, or nothing: one that is not there, or cannot be read, proves nothing."""
    try:
        with open(path_of(stack), encoding="utf-8") as handle:
            found = json.load(handle)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def save(stack: str, record: Mapping[str, Any]) -> str:
    """Write the record and return its path. Raises PlumblineError where that is not possible."""
    from ansible_collections.plumbline.ssd.plugins.module_utils._mounting import replace_file  # readers need none of it

    path = path_of(stack)
    try:
        os.makedirs(DIRECTORY, mode=0o700, exist_ok=True)
        os.chmod(os.path.dirname(DIRECTORY), 0o700)
        replace_file(path, json.dumps(record, indent=1, sort_keys=True) + "\n", mode=0o600)
    except OSError as fault:
        raise PlumblineError("the proof could not be kept in %s: %s" % (path, fault.strerror or fault)) from fault
    return path
