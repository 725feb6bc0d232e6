# SPDX-License-Identifier: GPL-3.0-or-later
"""The one exception of the lab: lab.py catches it once and prints it."""

from __future__ import annotations


class LabError(Exception):
    """Says what was found, what was wanted, and what to do."""
