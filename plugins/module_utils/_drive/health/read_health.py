# SPDX-License-Identifier: GPL-3.0-or-later
"""The health of a host's drives: the disks that the kernel shows, and the members of its RAID controllers. I/O.

smartctl is run for all of them at the same time, so that drives that hang cost one timeout. Nothing here changes a drive.
"""

from __future__ import annotations

import errno
import os
import re
from typing import Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ansible_collections.plumbline.ssd.plugins.module_utils._block import ask_drive, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Node
from ansible_collections.plumbline.ssd.plugins.module_utils._block.identity import stable_wwid
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disks import find_named_devices
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_missing_devices import missing_devices
from ansible_collections.plumbline.ssd.plugins.module_utils._block.virtual_disks import maker_of_virtual
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_bound_tools import run_together
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health import ask_health, read_controllers
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health, Source, same_drive
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.emmc import parse_emmc
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.raid_cli import SHOW_DRIVES, parse_drives
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.smartctl import READ_NOTHING, Member, parse_scan, parse_smartctl

Drive = Tuple[Source, Health]
_PARTS_OF_EMMC = re.compile(r"mmcblk[0-9]+(?:boot[0-9]+|rpmb|gp[0-9]+)")
_RAID_TOOLS = ("storcli64", "storcli", "perccli64", "perccli")
_RAID_HOMES = ("/opt/MegaRAID/storcli", "/opt/MegaRAID/perccli")
_CCISS_STEP, _CCISS_END = 16, 128  # smartctl(8), -d cciss,N


class DriveMeans(NamedTuple):
    """How drives are asked. *find* finds a tool by its name; *why_not*: why no command may be sent to a drive now."""

    find: Callable[[str], Optional[str]]
    seconds: int
    why_not: str = ""

    @property
    def smartctl(self) -> str:
        return self.find("smartctl") or ""


def find_disks(asked: Sequence[str], everything: bool) -> Tuple[List[Node], Dict[str, str]]:
    """The disks at these paths, or with *everything* all that the kernel shows; and path → name of those that were asked for.

    Raises PlumblineError for a path that leads to no whole disk.
    """
    seen = read_sysfs.read_block_devices()
    names = {node.name: devno for devno, node in seen.nodes.items()}
    seen.links = {link: names[name] for link, name in read_sysfs.read_links().items() if name in names}
    find_named_devices(seen, Questions(devices=tuple((path, "") for path in asked)), names)
    missing_devices(seen, asked, whole=True)
    chosen = [seen.nodes[devno] for devno in seen.paths.values()]
    if everything:
        chosen += [node for node in seen.nodes.values() if node.kind == "disk" and not _PARTS_OF_EMMC.fullmatch(node.name)]
    return list({node.devno: node for node in chosen}.values()), {path: seen.nodes[devno].name for path, devno in seen.paths.items()}


def read_drives(means: DriveMeans, nodes: Sequence[Node], members: Sequence[Member], everything: bool) -> List[Drive]:
    """Each drive once. *nodes*: the disks that the kernel shows; *members*: what the operator named; *everything*: look behind controllers as well.

    A drive that cannot be read is there with its fault.
    """
    groups = _by_device(nodes)
    drives = _without_smartctl(means, groups, members) if _no_smartctl(means) else _with_smartctl(means, groups, members, everything)
    return _merged([(source, _named(health, groups.get(source.device, ()))) for source, health in drives])


def _no_smartctl(means: DriveMeans) -> str:
    """Why smartctl is not run; empty where it is."""
    return means.why_not or ("" if means.smartctl else "smartctl is not on this host; install the package smartmontools")


def _unasked(means: DriveMeans) -> Health:
    return Health(fault=_no_smartctl(means), unsupported=not means.why_not)


def _by_device(nodes: Sequence[Node]) -> Dict[str, Tuple[Node, ...]]:
    """What is asked → the disks that it has. All namespaces of an NVMe controller are one drive."""
    groups: Dict[str, Tuple[Node, ...]] = {}
    for node in nodes:
        path = (ask_drive.controllers(node) or [node.path])[0] if node.identity.transport == "nvme" else node.path
        groups[path] = (*groups.get(path, ()), node)
    return groups


def group_disks(nodes: Sequence[Node]) -> List[Tuple[Source, Tuple[Node, ...]]]:
    """The drives that have these disks, each with its own."""
    groups = _by_device(nodes)
    return list(zip(_sources(groups), groups.values()))


def _sources(groups: Mapping[str, Sequence[Node]]) -> List[Source]:
    return [Source(path, tuple(node.name for node in nodes)) for path, nodes in groups.items()]


def _without_smartctl(means: DriveMeans, groups: Mapping[str, Sequence[Node]], members: Sequence[Member]) -> List[Drive]:
    unread = [(Source(member.path, member=member.type), _unasked(means)) for member in members]
    return [(source, _ask_kernel(source, groups[source.device][0], means)) for source in _sources(groups)] + unread


def _ask_kernel(source: Source, node: Node, means: DriveMeans) -> Health:
    """NVMe by its admin command, eMMC by sysfs; nothing else without smartctl."""
    if node.name.startswith("mmcblk"):
        return parse_emmc(read_controllers.read_emmc(node.name))
    if means.why_not or node.identity.transport != "nvme":
        return _unasked(means)
    try:
        return ask_health.read_nvme_health(source.device)
    except ask_drive.Unanswered as fault:
        return Health(fault=str(fault), unsupported=True)
    except OSError as fault:
        gone = fault.errno in (errno.ENODEV, errno.ENXIO, errno.ENOENT)
        return Health(fault="it went away" if gone else "it could not be asked: %s" % (fault.strerror or fault))


def _with_smartctl(means: DriveMeans, groups: Mapping[str, Sequence[Node]], members: Sequence[Member], everything: bool) -> List[Drive]:
    sources = _sources(groups)
    emmc = [source for source in sources if source.names[0].startswith("mmcblk")]
    asked = [source for source in sources if source not in emmc] + [Source(member.path, member=member.type) for member in members]
    behind = _Controllers(means) if everything else None
    answers = run_together([_command(means, source) for source in asked] + (behind.commands() if behind else []), means.seconds)
    drives = [(source, _ask_kernel(source, groups[source.device][0], means)) for source in emmc]
    drives += [(source, _health(means, answer)) for source, answer in zip(asked, answers)]
    if behind:
        drives += behind.drives(answers[len(asked) :], {(source.device, source.member) for source in asked})
    return drives


def _command(means: DriveMeans, source: Source) -> List[str]:
    return [means.smartctl, "-x", "--json=c", *(["-d", source.member] if source.member else []), source.device]


def _health(means: DriveMeans, answer: Optional[Tuple[int, str, str]]) -> Health:
    if answer is None:
        return Health(source="smartctl", fault="smartctl did not end within %d s and was ended; does the drive answer?" % means.seconds)
    return parse_smartctl(*answer)


class _Controllers:
    """The drives behind RAID controllers that smartctl or the controller's own tool can name."""

    def __init__(self, means: DriveMeans) -> None:
        self._means = means
        self._scan = read_controllers.has_scsi_driver("megaraid_sas")
        self._tool = self._raid_tool() if self._scan else ""

    def _raid_tool(self) -> str:
        places = [os.path.join(home, tool) for home in _RAID_HOMES for tool in _RAID_TOOLS]
        return next((path for path in places if os.access(path, os.X_OK)), "") or next((path for path in map(self._means.find, _RAID_TOOLS) if path), "")

    def commands(self) -> List[List[str]]:
        """What is run beside the drives that are known; drives() takes the answers."""
        scan = [[self._means.smartctl, "--scan", "--json=c"]] if self._scan else []
        return scan + ([[self._tool, *SHOW_DRIVES]] if self._tool else [])

    def drives(self, answers: Sequence[Optional[Tuple[int, str, str]]], known: "set[Tuple[str, str]]") -> List[Drive]:
        """The members that are not known yet. What the controller's tool says counts where smartctl read nothing of that drive."""
        texts = [answer[1] if answer else "" for answer in answers]
        members = parse_scan(texts[0]) if self._scan else ()
        drives = self._ask([Source(member.path, member=member.type) for member in members if (member.path, member.type) not in known])
        for node in read_controllers.raid_controllers("hpsa"):
            drives += self._ask_cciss(node)
        return drives + (parse_drives(texts[-1]) if self._tool else [])

    def _ask(self, asked: Sequence[Source]) -> List[Drive]:
        answers = run_together([_command(self._means, source) for source in asked], self._means.seconds)
        return [(source, _health(self._means, answer)) for source, answer in zip(asked, answers)]

    def _ask_cciss(self, node: str) -> List[Drive]:
        """A controller's drives have numbers from 0 on, with gaps; a number without a drive is one of which nothing is read."""
        drives: List[Drive] = []
        for first in range(0, _CCISS_END, _CCISS_STEP):
            asked = [Source(node, member="cciss,%d" % number) for number in range(first, first + _CCISS_STEP)]
            there = [drive for drive in self._ask(asked) if not drive[1].fault.startswith(READ_NOTHING)]
            drives += there
            if not there:
                break
        return drives


def _named(health: Health, nodes: Sequence[Node]) -> Health:
    """With what the kernel knows of the drive where the drive does not report it. Several namespaces share no WWID."""
    if not nodes:
        return health
    identity = nodes[0].identity
    wwn = stable_wwid(identity) if len(nodes) == 1 else ""
    return health._replace(
        protocol=health.protocol or {"nvme": "NVMe"}.get(identity.transport, ""),
        model=health.model or identity.model,
        serial=health.serial or identity.serial,
        firmware=health.firmware or identity.firmware,
        wwn=health.wwn or wwn,
        virtual=maker_of_virtual(nodes[0]),
    )


def _merged(readings: Sequence[Drive]) -> List[Drive]:
    """One entry for each drive, by the reading that says more; the names of the others are added to it."""
    drives: List[Drive] = []
    for reading in sorted(readings, key=lambda drive: not drive[1].read):
        place = next((number for number, other in enumerate(drives) if same_drive(reading, other)), None)
        if place is None:
            drives.append(reading)
        else:
            source, health = drives[place]
            drives[place] = source._replace(names=(*source.names, *reading[0].names), member=source.member or reading[0].member), health
    return drives
