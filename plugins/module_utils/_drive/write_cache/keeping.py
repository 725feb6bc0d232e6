# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps the write caches of a host as they were set, as it was read. Pure."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple


class Keeping(NamedTuple):
    """What a host has of the means that keep its write caches: *texts* of their files by path, *tools* that they name and that can be run."""

    texts: Dict[str, str]
    at_work: bool
    tools: Tuple[str, ...]
