# SPDX-License-Identifier: GPL-3.0-or-later
"""Prints what a module reports for people, on the controller."""

from __future__ import annotations


def print_report(display, host, lines):
    """Print the lines of a report below the name of their host, in one piece: hosts work side by side."""
    if lines:
        display.display("\n".join([f"[{host}]", *(f"  {line}" for line in lines)]))
