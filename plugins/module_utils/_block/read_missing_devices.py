# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices that a user names and the host has not. I/O: asks whether a path is there at all."""

from __future__ import annotations

import os
from typing import List, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import nearest, several


def missing_devices(seen: Observation, asked: Sequence[str], whole: bool = False) -> None:
    """Raise PlumblineError for the devices that are not there, with the nearest name of each. *whole*: disks are wanted, and no part of one."""
    disks = sorted(node.name for node in seen.nodes.values() if node.kind == "disk")
    reasons: List[str] = []
    for path in asked:
        node = seen.nodes.get(seen.paths.get(path, ""))
        if node is None and os.path.exists(path):
            reasons.append("%s is no block device that the kernel shows; the disks of this host are %s" % (path, ", ".join(disks) or "none"))
        elif node is None:
            reasons.append("device %s is not there%s" % (path, nearest(path.rsplit("/", 1)[-1], seen.links)))
        elif whole and node.kind not in ("disk", "loop"):
            what = "a partition" if node.kind == "part" else "of the kind %s" % (node.kind if node.kind != "other" else node.name.rstrip("0123456789"))
            reasons.append("%s is no whole disk, but %s; the disks of this host are %s" % (path, what, ", ".join(disks) or "none"))
    if reasons:
        raise several("", reasons)
