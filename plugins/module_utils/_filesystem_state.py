# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""What an ext4 filesystem has become since it was made, and a person must know. Pure."""

from __future__ import annotations

from typing import List, NamedTuple

from ansible_collections.plumbline.ssd.plugins.module_utils._model import Ext4
from ansible_collections.plumbline.ssd.plugins.module_utils._sizes import MIB, human


class Change(NamedTuple):
    """What was *found*, what is *wanted*, and whether that is *bad*: data is at risk, or the filesystem does not work."""

    bad: bool
    found: str
    wanted: str


def changes_of(ext4: Ext4, size: int) -> List[Change]:
    """What is wrong with a filesystem on a device of *size* bytes. ext2 and ext3, which have no extents, are not judged."""
    if "extent" not in ext4.features:
        return []
    found = []
    if not ext4.journal:
        found.append(Change(True, "it has no journal: a crash can damage it", "a journal, which tune2fs -O has_journal makes while it is unmounted"))
    if ext4.faulty:
        found.append(Change(True, "the kernel has found errors in it", "a check, by e2fsck -f while it is unmounted, and a look at the kernel's log"))
    lacking = size - ext4.blocks * ext4.block
    if lacking < 0:
        text = "it is %s larger than what it stands on: its end is cut off"
        found.append(Change(True, text % human(-lacking), "the whole device; write nothing, and bring back what is missing"))
    elif lacking >= MIB:
        found.append(Change(False, "it is %s smaller than what it stands on" % human(lacking), "all of it, by resize2fs, which a mounted one takes as well"))
    return found
