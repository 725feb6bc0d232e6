# SPDX-License-Identifier: GPL-3.0-or-later
"""The kinds of filesystems that are known. Pure."""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Filesystem, Signature
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.ext4 import EXT4
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kind import FilesystemKind
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.xfs import XFS

FILESYSTEMS: Dict[str, FilesystemKind] = {kind.name: kind for kind in (EXT4, XFS)}
DEFAULT = EXT4.name
# Layers whose findings say nothing of where the data begins.
DURABILITY = ("write_cache", "mount", *FILESYSTEMS, "raid")


def kind_of_mount(fstype: str) -> Optional[FilesystemKind]:
    """The kind of a mount, by the name that the kernel or fstab gives it; None for one that is not known here."""
    return next((kind for kind in FILESYSTEMS.values() if fstype in kind.types), None)


def kind_of_family(family: str) -> Optional[FilesystemKind]:
    """The kind of a signature; None for one that is not known here."""
    return next((kind for kind in FILESYSTEMS.values() if kind.family == family), None)


def copies_of(kind: FilesystemKind, size: int, groups: Sequence[int] = ()) -> List[int]:
    """Where copies of a superblock may lie on *size* bytes. *groups*: bytes of the groups of filesystems that grew."""
    grown = {number * group for group in groups for number in range(1, 8)} if kind.copies_by_size else set()
    return sorted({*kind.copies(size), *(place for place in grown if place + kind.superblock[1] <= size)})


def copies_of_all(size: int, groups: Sequence[int] = ()) -> List[int]:
    """The same, of whatever kind."""
    return sorted({place for kind in FILESYSTEMS.values() for place in copies_of(kind, size, groups)})


def parse_any(raw: bytes) -> Optional[Filesystem]:
    """The superblock in the first bytes of a device, whatever its kind."""
    for kind in FILESYSTEMS.values():
        at, length = kind.superblock
        filesystem = kind.parse(raw[at : at + length])
        if filesystem:
            return filesystem
    return None


def unfinished_any(raw: bytes) -> Optional[Signature]:
    """What an mkfs that was cut off has left in the first bytes of a device, of whatever kind."""
    return next(filter(None, (kind.unfinished(raw[kind.superblock[0] : sum(kind.superblock)]) for kind in FILESYSTEMS.values())), None)


HEAD_BYTES = max(sum(kind.superblock) for kind in FILESYSTEMS.values())  # of a device, with the superblock of any kind
