# SPDX-License-Identifier: GPL-3.0-or-later
"""What an ext4 filesystem has become since it was made, and a person must know. Pure."""

from __future__ import annotations

from typing import List, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Ext4
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import MIB, human


class Change(NamedTuple):
    """By which *rule* what was *found*, what is *wanted*, and whether that is *bad*: data is at risk, or the filesystem does not work."""

    rule: str
    bad: bool
    found: str
    wanted: str


def changes_of(ext4: Ext4, size: int) -> List[Change]:
    """What is wrong with a filesystem on a device of *size* bytes. ext2 and ext3, which have no extents, are not judged."""
    if "extent" not in ext4.features:
        return []
    found = []
    if not ext4.journal:
        wanted = "a journal, which tune2fs -O has_journal makes while it is unmounted"
        found.append(Change("ext4_journal", True, "it has no journal: a crash can damage it", wanted))
    if ext4.faulty:
        wanted = "a check, by e2fsck -f while it is unmounted, and a look at the kernel's log"
        found.append(Change("ext4_errors", True, "the kernel has found errors in it", wanted))
    lacking = size - ext4.blocks * ext4.block
    if lacking < 0:
        text = "it is %s larger than what it stands on: its end is cut off"
        found.append(Change("ext4_cut_off", True, text % human(-lacking), "the whole device; write nothing, and bring back what is missing"))
    elif lacking >= MIB:
        text = "it is %s smaller than what it stands on"
        found.append(Change("ext4_smaller", False, text % human(lacking), "all of it, by resize2fs, which a mounted one takes as well"))
    return found


def stripe_changes(ext4: Ext4, live: Sequence[str]) -> List[Change]:
    """A mount that allocates by another stripe than its superblock says; *live* are all options in force, which name the stripe in blocks, 0 for none.

    Without a mount option it is the stripe width, else the stride, whichever fits into a block group (fs/ext4/super.c, ext4_get_stripe_size()).
    """
    shown = next((option[len("stripe=") :] for option in live if option.startswith("stripe=")), "")
    wanted = next((blocks for blocks in (ext4.stripe_width, ext4.stride) if 0 < blocks <= 8 * ext4.block), 0)
    wanted = wanted if wanted > 1 else 0
    if not shown.isdigit() or int(shown) == wanted:
        return []
    found = "it is mounted with stripe=%s, and its superblock says %d" % (shown, wanted)
    return [Change("ext4_stripe", False, found, "one stripe for both, by mount -o remount,stripe=%d" % wanted)]


def made_otherwise(ext4: Ext4, options: Sequence[str]) -> List[Change]:
    """Settings of a filesystem of ours that somebody changed since it was made; *options* are those that it is to be mounted with."""
    found = []
    if ext4.reserved:
        text = "it keeps %s for root alone" % human(ext4.reserved * ext4.block)
        found.append(Change("ext4_reserved", False, text, "none, by tune2fs -m 0, which a mounted one takes as well"))
    if ext4.errors and ext4.errors != "continue" and not any(option.startswith("errors=") for option in options):
        text = "by its superblock the answer to an error is '%s'" % ext4.errors
        wanted = "'continue' as it was made, by tune2fs -e continue, or errors=%s among the mount options" % ext4.errors
        found.append(Change("ext4_on_error", False, text, wanted))
    return found
