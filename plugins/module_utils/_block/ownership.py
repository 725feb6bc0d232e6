# SPDX-License-Identifier: GPL-3.0-or-later
"""What is ours: the names that this collection gives to partitions. Pure."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Table

_OUR_NAME = re.compile(r"plumbline:([a-z][a-z0-9_]{0,19}):([0-9]{1,2})")


def partition_name(stack: str, index: int) -> str:
    """``plumbline:pgdata:0``, the name of a leg's partition."""
    return "plumbline:%s:%d" % (stack, index)


def our_name(name: str) -> Optional[Tuple[str, int]]:
    """``plumbline:pgdata:0`` → ``('pgdata', 0)``; None for any other partition name."""
    match = _OUR_NAME.fullmatch(name)
    return (match.group(1), int(match.group(2))) if match else None


def is_ours(table: Optional[Table], stack: str) -> bool:
    """Whether a table is a sound GPT that holds one partition, named for this stack, and nothing else."""
    if table is None or table.kind != "gpt" or table.fault or len(table.entries) != 1:
        return False
    name = our_name(table.entries[0].name)
    return name is not None and name[0] == stack


OUR_PREFIX = "plumbline:"


def is_all_ours(table: Optional[Table]) -> bool:
    """Whether a table carries partitions that this collection named, and nothing else."""
    return bool(table and table.kind == "gpt" and not table.fault and table.entries and all(e.name.startswith(OUR_PREFIX) for e in table.entries))


def is_ours_by_backup(table: Optional[Table]) -> bool:
    """Whether the first copy of a table is damaged, and its sound backup carries partitions that this collection named, and nothing else."""
    return bool(table and table.spare and all(our_name(entry.name) for entry in table.spare))


def write_table_again(path: str) -> str:
    """How the first copy comes back: libfdisk takes the sound one, and writes both of it."""
    return "write it again from its backup, by sfdisk --relocate gpt-bak-std %s, and run again; the guide on getting a table back says more" % path
