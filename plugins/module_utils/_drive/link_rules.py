# SPDX-License-Identifier: GPL-3.0-or-later
"""Links that run below what both of their ends can do, and ports that are slower than their drives. Pure."""

from __future__ import annotations

from typing import Dict, List, Mapping, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, INFO, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.link import PCIE, SAS, SATA, Link, payload_bytes, rate_text

_REMEDIES = {
    SATA: "another cable, bay or port (some controllers have ports of 3.0 Gb/s beside those of 6.0)",
    SAS: "another cable, bay or backplane, and the phy's error counters below /sys/class/sas_phy",
    PCIE: "the drive seated anew, another slot or riser, and what the firmware's setup says of the slot's speed and lanes",
}
_LIMITS = {
    SATA: ("the kernel slowed it down after errors", "another cable or bay, and a boot after it; the kernel's log has the errors"),
    SAS: ("its maximum_linkrate is set to that", "a higher one, by the controller's setup (SAS1068: lsiutil, menu 13) or below /sys/class/sas_phy"),
}


def judge_links(links_of: Mapping[str, Sequence[Link]], building: bool = False) -> List[Finding]:
    """What is wrong with the links of some disks, by the disks' names; a link that several share is reported once.

    Half of what both ends can do, or less, is an error where a stack is still to be built (*building*). Less than they can is a warning, and a port that
    is slower than its drive is worth knowing. What is not known is no finding.
    """
    shared: Dict[Link, List[str]] = {}
    for name, links in links_of.items():
        for link in links:
            shared.setdefault(link, []).append(name)
    return [finding for link, names in shared.items() for finding in _judge(link, ", ".join(names), building)]


def _judge(link: Link, names: str, building: bool) -> List[Finding]:
    host = link.host.name or "its port"
    target = rate_text(link.kind, link.target_speed, link.target_width)
    if link.below:
        cause, remedy = "both ends can do more", _REMEDIES[link.kind]
        if link.limited:
            cause, remedy = _LIMITS[link.kind]
            cause = "%s is the slow end, %s" % (host, cause)
        elif link.host.speed is None:
            cause = "the drive can do more, and %s does not say what it can" % host
        full, now = payload_bytes(link.kind, link.target_speed, link.target_width or link.width), link.payload
        level = ERROR if building and full and now and 2 * now <= full else WARNING
        expected = target if link.target_speed else "what both ends can do"
        return [Finding(level, "link", names, "%s at %s: %s" % (link.text, host, cause), "%s: %s" % (expected, remedy), "link_slow")]
    pairs = ((link.host.speed, link.drive.speed), (link.host.width, link.drive.width))
    if link.below is False and any(port and drive and port < drive for port, drive in pairs):
        most = rate_text(link.kind, link.drive.speed, link.drive.width)
        text = "%s: the port %s limits the drive, which can do %s" % (link.text, host, most)
        return [Finding(INFO, "link", names, text, "a faster port, if that matters", "link_port")]
    return []
