# SPDX-License-Identifier: GPL-3.0-or-later
"""The guides, followed to the letter: their commands are read from their text."""

from __future__ import annotations

import re
import shlex

from .harness import ROOT, Harness

GUIDES = ROOT / "docs" / "docsite" / "rst"


def commands(label: str, guide: str) -> str:
    """The commands below a mark of a guide, as a reader copies them."""
    text = (GUIDES / f"{guide}.rst").read_text(encoding="utf-8")
    found = re.search(rf"\.\. commands: {label}\n.*?\.\. code-block:: shell\n\n(.*?)\n(?=\S)", text + "\n.", re.DOTALL)
    assert found, label
    return re.sub(r"^    ", "", found.group(1), flags=re.MULTILINE)


def follow(harness: Harness, label: str, guide: str = "guide_table_back", **variables: str) -> str:
    """Run the commands of a section in a terminal, as a reader does: there some tools ask before they write, or refuse."""
    typed = "\n".join([f"{name}='{value}'" for name, value in variables.items()] + [commands(label, guide)])
    shell = "bash -e -c " + shlex.quote(typed)
    return harness.must(f"script --quiet --return --command {shlex.quote(shell)} /dev/null < /dev/null").replace("\r\n", "\n")
