# SPDX-License-Identifier: GPL-3.0-or-later
"""Which drives of a host are left out of the reading of health. No command is sent to them. I/O: the names that udev gives."""

from __future__ import annotations

from typing import List, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import stable_wwid
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Source
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.left_out import LINKS, LeftOut
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.read_health import DriveMeans, group_disks, read_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.smartctl import Member

Drive = Tuple[Source, Health]


class DrivesRead(NamedTuple):
    """Drives that were read, with those that are left out; and the entries that fit none of them."""

    drives: Sequence[Drive]
    unfit: Sequence[LeftOut]


def read_other_drives(means: DriveMeans, nodes: Sequence[Node], members: Sequence[Member], everything: bool, entries: Sequence[LeftOut]) -> DrivesRead:
    """read_drives() of all that are not left out. A drive behind a controller is identified only by reading it; it is left out of the report."""
    paths = {"%s/%s" % (home, link): name for home in LINKS for link, name in read_sysfs.read_links(home).items()} if entries else {}

    def entry_of(names: Sequence[str], serial: str, model: str) -> Optional[LeftOut]:
        own = [path for path, name in paths.items() if name in names]
        return next((candidate for candidate in entries if candidate.fits(own, serial, model)), None)

    entries_of = {node.devno: entry_of([node.name], node.identity.serial, node.identity.model) for node in nodes}
    used: List[LeftOut] = [entry for entry in entries_of.values() if entry]
    out = [
        (source, _known(disks[0])._replace(left_out=entry.reason))
        for source, disks in group_disks([node for node in nodes if entries_of[node.devno]])
        for entry in [entries_of[disks[0].devno]]
        if entry
    ]
    asked = []
    for source, health in read_drives(means, [node for node in nodes if not entries_of[node.devno]], members, everything):
        entry = entry_of(source.names, health.serial, health.model)
        used += [entry] if entry else []
        asked.append((source, _silent(health)._replace(left_out=entry.reason) if entry else health))
    return DrivesRead([*asked, *out], [entry for entry in entries if entry not in used])


def _known(node: Node) -> Health:
    """What the kernel knows of a drive that is not asked."""
    identity = node.identity
    health = Health(model=identity.model, serial=identity.serial, firmware=identity.firmware, wwn=stable_wwid(identity))
    return _silent(health)


def _silent(health: Health) -> Health:
    """The identity of the drive, and nothing of its state."""
    same = {name: getattr(health, name) for name in ("protocol", "model", "serial", "firmware", "wwn")}
    return Health(fault="it is left out", **same)
