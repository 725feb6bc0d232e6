# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs have begun: filesystems that are being made or were grown, and the marks of write loads. I/O."""

from __future__ import annotations

import contextlib
import os
import re
from typing import List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import block_device, xfs_superblock
from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_UUID
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.files import read_json, write_json

LOADS = "/var/lib/plumbline/loads.json"
MAKING = "/var/lib/plumbline/making.json"
GROWN = "/var/lib/plumbline/grown.json"
_KEPT = 64
_MARK = re.compile(r"[0-9a-f]{32}")


def load_making() -> List[str]:
    """UUIDs of the filesystems that a run was about to make on what it had proven blank, and that were not seen whole since."""
    record = read_json(MAKING)
    uuids = record.get("filesystems") if isinstance(record, dict) else None
    return [uuid for uuid in uuids if isinstance(uuid, str)] if isinstance(uuids, list) else []


def note_making(begun: Sequence[str], done: Sequence[str]) -> None:
    """Record which are about to be made, and forget those that stand. Raises PlumblineError where that is not possible."""
    before = load_making()
    after = sorted({*before, *begun} - set(done))
    if after != sorted(before):
        write_json(MAKING, {"filesystems": after}, "which filesystems are being made")


def forget_made(uuids: Sequence[str] = ()) -> None:
    """Remove these from the filesystems that were about to be made, and those to which udev has a link and whose superblock says that they stand.

    Whoever fails behind mkfs does not read back. A record that stayed would pass for leave to make one of them anew, should its superblock be lost.
    """
    with contextlib.suppress(PlumblineError):
        note_making([], [*uuids, *(uuid for uuid in load_making() if _stands(uuid))])


def _stands(identifier: str) -> bool:
    """Whether a filesystem was made to the end: ext4's superblock is written last, and that of XFS says so itself."""
    path = BY_UUID + identifier
    if not os.path.exists(path):
        return False
    try:
        return not xfs_superblock.was_cut_off(block_device.read_head(path, xfs_superblock.LENGTH))
    except OSError:
        return True  # the safe side: without a record nothing is made anew


def load_groups() -> List[int]:
    """Bytes of the groups of the filesystems that grew on this host. Where its copies lie follows from them, and no longer from the size that it has."""
    record = read_json(GROWN)
    groups = record.get("groups") if isinstance(record, dict) else None
    return [size for size in groups if isinstance(size, int) and size > 0] if isinstance(groups, list) else []


def add_group(size: int) -> None:
    """Record the groups of a filesystem before it grows. Raises PlumblineError where that is not possible."""
    if size not in load_groups():
        write_json(GROWN, {"groups": [*load_groups()[1 - _KEPT :], size]}, "the groups of a filesystem that grows")


def load_marks() -> List[bytes]:
    """The marks of the write loads of this host, which distinguish what they wrote from anybody's data."""
    record = read_json(LOADS)
    marks = record.get("marks") if isinstance(record, dict) else None
    return [bytes.fromhex(mark) for mark in marks if isinstance(mark, str) and _MARK.fullmatch(mark)] if isinstance(marks, list) else []


def add_mark(mark: bytes) -> None:
    """Record the mark of a load before its first write. Raises PlumblineError where that is not possible: nothing is to be written then."""
    kept = [other.hex() for other in load_marks() if other != mark][1 - _KEPT :]
    write_json(LOADS, {"marks": [*kept, mark.hex()]}, "the mark of a load")
