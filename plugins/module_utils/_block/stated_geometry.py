# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's own geometry, and the disks that it is for. Pure."""

from __future__ import annotations

import fnmatch
from typing import Dict, Iterable, Mapping, NamedTuple, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node


class Override(NamedTuple):
    """The operator's own geometry, in bytes, for devices by *model* pattern or by *device* name."""

    model: str
    device: str
    values: Mapping[str, int]


def overrides_for(overrides: Sequence[Override], node: Node, links: Iterable[str]) -> Dict[str, int]:
    """The operator's geometry for a disk: of all that match, a device's own words count before a pattern's."""
    matching = sorted((override for override in overrides if is_for(override, node, links)), key=lambda override: bool(override.device))
    return {key: value for override in matching for key, value in override.values.items()}


def is_for(override: Override, node: Node, links: Iterable[str]) -> bool:
    """Whether an override means this disk. *links*: its names below /dev/disk/by-id."""
    names = {*links, node.name, node.path}
    by_model = override.model and fnmatch.fnmatchcase(node.identity.model, override.model)
    return bool(by_model or (override.device and {override.device, override.device.rsplit("/", 1)[-1]} & names))
