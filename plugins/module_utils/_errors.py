# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""The one exception of the library code.

``main()`` of every module catches it once and fails from it, so nothing below the modules
knows how Ansible reports a failure.
"""

from __future__ import annotations

from typing import Iterable, Sequence


class PlumblineError(Exception):
    """A refusal or an unusable input: *msg* is one line, *reasons* name each cause on its own line."""

    def __init__(self, msg: str, reasons: Sequence[str] = ()) -> None:
        # What a tool says (mount, sfdisk, lvm) may be several lines.
        self.msg = "; ".join(line.strip() for line in msg.splitlines() if line.strip())
        super().__init__(self.msg)
        self.reasons = list(reasons)


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return ``' (did you mean x?)'`` for the valid word nearest to *word*, or an empty string."""
    import difflib  # pylint: disable=import-outside-toplevel # wanted by mistakes only

    match = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return " (did you mean '%s'?)" % match[0] if match else ""
