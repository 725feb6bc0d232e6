# SPDX-License-Identifier: GPL-3.0-or-later
"""What the host keeps of each stack, and how the records of one that is gone are retired: moved aside, never removed. I/O."""

from __future__ import annotations

import errno
import os
import re
import time
from typing import Dict, List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._core import files
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading import keep_proofs, keep_risks

_NAME = re.compile(r"([a-z][a-z0-9_]{0,19})\.json")  # the record of a stack


def _folders() -> Sequence[str]:
    """Those with a file for each stack."""
    return (keep_proofs.DIRECTORY, keep_risks.ACCEPTED)


def records_of_stacks() -> Dict[str, List[str]]:
    """Stack → its records."""
    records: Dict[str, List[str]] = {}
    for folder in _folders():
        for match in map(_NAME.fullmatch, _names(folder)):
            if match:
                records.setdefault(match.group(1), []).append(os.path.join(folder, match.group(0)))
    return records


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def retired_stacks() -> List[str]:
    """The stacks of which records were retired."""
    home = os.path.join(files.HOME, "retired")
    names = [name for stamp in _names(home) for folder in _names(os.path.join(home, stamp)) for name in _names(os.path.join(home, stamp, folder))]
    return sorted({match.group(1) for match in map(_NAME.fullmatch, names) if match})


def retire_records(stack: str) -> List[str]:
    """Move the records of a stack below retired/TIME. Returns where they are now. Raises PlumblineError where that is not possible."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    moved = []
    for path in records_of_stacks().get(stack, []):
        folder = os.path.join(files.HOME, "retired", stamp, os.path.basename(os.path.dirname(path)))
        target = os.path.join(folder, os.path.basename(path))
        try:
            text = files.read_root_file(path)
            if text is None or os.path.lexists(target):
                raise OSError(errno.EEXIST if text is not None else errno.ENOENT, "%s is there" % target if text is not None else "it is gone")
            files.make_private(folder)
            files.replace_file(target, text, 0o600)  # on the disk, before the record goes
            files.remove_file(path)
        except OSError as fault:
            raise PlumblineError("the record %s could not be moved to %s: %s" % (path, folder, fault.strerror or fault)) from fault
        moved.append(target)
    return moved
