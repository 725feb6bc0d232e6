# -*- coding: utf-8 -*-
# Copyright (c) 2026, the plumbline.ssd authors
# GNU General Public License v3.0-or-later (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module_utils is PRIVATE: it may change or go away between any two releases
# of plumbline.ssd. Use the modules and roles, not this file.

"""Mount options as they are asked for, and as the kernel shows them. Pure."""

from __future__ import annotations

from typing import List, Sequence, Tuple

# What the kernel shows for an option, where the two differ. Documentation/admin-guide/ext4.rst
_SHOWN = {"barrier=0": "nobarrier", "dioread_lock": "nodioread_nolock"}
# Options that ask for what is so anyway, or that only mount(8) reads: the kernel shows none of them (fs/proc_namespace.c, fs/ext4/super.c).
_SILENT = frozenset(
    "acl async atime auto_da_alloc barrier barrier=1 block_validity data=ordered defaults delalloc dev dioread_nolock diratime errors=continue exec "
    "i_version iversion journal_checksum _netdev nodiscard nolazytime noquota norelatime nouser relatime rw strictatime suid user_xattr".split()
)
_DRIFTING = ("noatime", "nodiratime", "lazytime", "nodelalloc", "nobarrier", "data=writeback", "data=journal", "discard", "nosuid", "nodev", "noexec")


def option_drift(wanted: Sequence[str], live: Sequence[str]) -> Tuple[List[str], List[str]]:
    """Options that a live mount lacks, and those that it has unasked, as the kernel writes them."""
    shown = [_SHOWN.get(option, option) for option in wanted if option not in _SILENT and not option.lower().startswith("x-")]
    missing = [option for option in shown if option not in live]
    extra = [option for option in live if option in _DRIFTING and option not in shown]
    if "data=journal" in shown:  # which the kernel does without delayed allocation, and says so
        extra = [option for option in extra if option != "nodelalloc"]
    if "strictatime" in wanted and "relatime" in live:
        extra.append("relatime")
    return missing, extra
