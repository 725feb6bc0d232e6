# SPDX-License-Identifier: GPL-3.0-or-later
"""What the benchmarks share: their options, and a line of their tables."""

from __future__ import annotations

import argparse


def parser(name: str, description: str | None, seeded: bool = True) -> argparse.ArgumentParser:
    """The options that each of them has. *seeded*: its figures depend on random numbers alone."""
    made = argparse.ArgumentParser(prog=f"./plumbline bench {name}", description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    if seeded:
        made.add_argument("--seed", default="1", help="any word; the same one gives the same figures")
    made.add_argument("--json", action="store_true", help="the figures as one JSON object, in the last line")
    return made


def line(*cells: object) -> str:
    """One line of a table."""
    return "".join(f"{cell!s:>16}" for cell in cells)
