# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools that set write caches, and how each is called."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Optional

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node

TOOLS = {"ata": "hdparm", "scsi": "sdparm", "nvme": "nvme"}
PACKAGES = {"hdparm": "hdparm", "sdparm": "sdparm", "nvme": "nvme-cli"}  # of the tools, in every family of distributions


def set_command(bus: str, tool: str, path: str, state: str, save: bool = False) -> List[str]:
    """The argv that sets a drive's cache. *path* is the disk's node, for NVMe the controller's or a namespace's.

    Told no namespace, or 0, nvme-cli fills in the node's own number, which feature 06h does not take (Feature Not Namespace
    Specific); FFFFFFFFh is what it sends to a controller.
    """
    value = "1" if state == "on" else "0"
    if bus == "ata":
        return [tool, "-q", "-W" + value, path]
    if bus == "scsi":
        return [tool, "--quiet", "--set=WCE" if state == "on" else "--clear=WCE"] + (["--save"] if save else []) + [path]
    return [tool, "set-feature", path, "--namespace-id=0xffffffff", "--feature-id=6", "--value=" + value] + (["--save"] if save else [])


def bus_word(node: Node) -> str:
    """Which commands a disk takes: ``nvme``, ``ata`` (behind whatever translates them), else ``scsi``."""
    if node.identity.transport == "nvme":
        return "nvme"
    return "ata" if node.identity.ata else "scsi"


def find_tools(find: Callable[[str], Optional[str]]) -> Dict[str, str]:
    """The tools that set write caches, of those that the host has. One path each, however the host's directories are linked (/sbin, /usr/sbin)."""
    paths = {tool: find(tool) for tool in TOOLS.values()}
    return {tool: os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for tool, path in paths.items() if path}
