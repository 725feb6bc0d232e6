# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a discard of a filesystem reaches its drives, layer by layer. Pure.

The kernel says of each block device what it takes (Documentation/ABI/stable/sysfs-block: queue/discard_max_bytes, 0 for none). A mapping says 0
where it passes none on, or where a device below takes none.
"""

from __future__ import annotations

from typing import Dict, List, Optional, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import INFO, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Mount, Node, Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import Link
from ansible_collections.plumbline.ssd.plugins.module_utils._block.mapping import levels_below, stripings
from ansible_collections.plumbline.ssd.plugins.module_utils._core.sizes import human

NONE = "it takes no discards (discard_max_bytes is 0)"
# What helps, by the transport of a drive.
_DRIVES = {
    "scsi": "a drive that is no volume of a RAID controller: most of these pass on no trim",
    "usb": "a drive without a USB bridge, or a bridge that takes UNMAP",
    "virtio": "a virtual disk that the hypervisor gives discards (discard=unmap)",
}
_SATA_BEHIND_SAS = "a drive that reports deterministic zeros after trim (DRAT and RZAT, hdparm -I), which many SAS HBAs want, or a SATA port"
# The same, by the kind of a mapping or of its segments. raid456: drivers/md/raid5.c and Documentation/admin-guide/device-mapper/dm-raid.rst.
_PARITY = "raid456's parameter devices_handle_discard_safely=Y, if all drives below read as zeros where they were discarded"
_MAPPINGS = {
    "crypt": "allow_discards (discard in /etc/crypttab), if it may be seen which blocks are free",
    "raid4": _PARITY,
    "raid5": _PARITY,
    "raid6": _PARITY,
}


def judge_trim_path(seen: Observation, devno: str, mount: Optional[Mount] = None) -> List[Finding]:
    """What keeps the discards of a stack from its drives, from the drives up; and a mount that discards at every delete."""
    findings: List[Finding] = []
    for node in [seen.nodes[number] for level in levels_below(seen, devno) for number in level]:
        if node.kind == "disk":
            findings += _judge_limits(node) + _judge_queue(node, seen.drive_links.get(node.devno, ()))
        below = [seen.nodes[slave] for slave in node.slaves if slave in seen.nodes]
        if below and not node.discard_max and all(device.discard_max for device in below):
            kinds = [node.kind, *(segment.kind for segment in node.segments)]
            remedy = next((_MAPPINGS[kind] for kind in kinds if kind in _MAPPINGS), "a mapping that passes discards on")
            findings.append(Finding(WARNING, "trim", node.title or node.name, "%s, and all devices below it do" % NONE, remedy, "trim_mapping"))
    findings += _judge_stripes(seen, devno)
    if mount and "discard" in mount.options:
        text = "'discard': the drives are trimmed while files are deleted, and commits wait for that"
        findings.append(Finding(WARNING, "mount", mount.target, text, "'nodiscard', and fstrim.timer once a week", "mount_discard"))
    return findings


def without_discards(node: Node) -> Optional[Finding]:
    """The finding of a drive that takes no discards; None where it takes them, or has no flash."""
    if node.discard_max or node.rotational:
        return None
    remedy = _SATA_BEHIND_SAS if node.identity.ata and node.identity.transport == "sas" else _DRIVES.get(node.identity.transport)
    return Finding(WARNING, "trim", node.name, NONE, remedy or "a drive and a controller that take them", "trim_drive")


def _judge_limits(node: Node) -> List[Finding]:
    granule, most = node.limits.discard_granularity or 0, node.discard_max
    if 0 < most < granule:
        text = "it takes discards of at most %s, and frees granules of %s: no discard frees one" % (human(most), human(granule))
        return [Finding(WARNING, "trim", node.name, text, "discard_max_bytes of a granule or more", "trim_limit")]
    missing = without_discards(node)
    return [missing] if missing else []


def _judge_queue(node: Node, links: Sequence[Link]) -> List[Finding]:
    """Models that lose data, or hang, where TRIM is queued: the kernel's list of them, or libata.force=noncqtrim, has them trimmed one by one."""
    forced = any(link.trim == "forced_unqueued" for link in links)
    text = "%s is trimmed without queueing: the kernel knows faults of this model with queued TRIM" % node.identity.model
    return [Finding(INFO, "trim", node.name, text, "nothing; keep libata's setting, and look for newer firmware", "trim_queue")] if forced else []


def _judge_stripes(seen: Observation, devno: str) -> List[Finding]:
    """Stripes that a drive's granules do not fit: what is free in one chunk alone, or at the end of a free run, stays mapped."""
    findings: Dict[str, Finding] = {}
    for node, segment in stripings(seen, devno):
        for disk in [seen.nodes[number] for child, _first in segment.legs for number in levels_below(seen, child)[0]]:
            granule = disk.limits.discard_granularity or 0
            if disk.discard_max and granule and segment.chunk % granule:
                text = "stripe size %s is no multiple of the %s that %s frees at once" % (human(segment.chunk), human(granule), disk.name)
                remedy = "a multiple of the drive's discard_granularity"
                findings.setdefault(node.devno, Finding(WARNING, "trim", node.title or node.name, text, remedy, "trim_stripe"))
    return list(findings.values())
