# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages of the host's distribution bring the tools that are missing. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.write_cache.command import PACKAGES
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.spec import Stack

_ORDER = ("write_cache", "partition", "striped_lvm", "filesystem")
# Which package brings a tool, by distribution family; the first family that the host names counts.
_PACKAGES = {
    "debian": {"lvm": "lvm2", "sfdisk": "fdisk", "wipefs": "util-linux", "mount": "mount", "fio": "fio"},
    "fedora": {"lvm": "lvm2", "sfdisk": "util-linux", "wipefs": "util-linux", "mount": "util-linux", "fio": "fio"},
    "suse": {"lvm": "lvm2", "sfdisk": "util-linux", "wipefs": "util-linux", "mount": "util-linux", "fio": "fio"},
}
_EVERYWHERE = {**PACKAGES, "smartctl": "smartmontools", "mdadm": "mdadm"}
_FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "fedora": "fedora",
    "rhel": "fedora",
    "centos": "fedora",
    "suse": "suse",
    "opensuse": "suse",
    "sles": "suse",
}


def missing_packages(seen: Observation, stacks: Sequence[Stack], through: str) -> list[str]:
    """The packages that bring the tools which are wanted and not there."""
    wanted = ["sfdisk", "wipefs"] if _ORDER.index(through) >= 1 else ["wipefs"]
    if _ORDER.index(through) >= 2 and any(stack.grouped for stack in stacks):
        wanted.append("lvm")
    if _ORDER.index(through) >= 2 and any(stack.mirror for stack in stacks):
        wanted.append("mdadm")
    if _ORDER.index(through) >= 3:
        wanted += ["mount", *(volume.kind.tool for stack in stacks for volume in stack.volumes)]
    return packages_of(seen, wanted)


def packages_of(seen: Observation, wanted: Iterable[str]) -> list[str]:
    """The packages of the host's distribution that bring those of these tools that are not there."""
    family = next((_FAMILIES[word] for word in seen.distribution if word in _FAMILIES), "debian")
    packages = {**_PACKAGES[family], **_EVERYWHERE, **{kind.tool: kind.package for kind in FILESYSTEMS.values()}}
    return sorted({packages[tool] for tool in wanted if tool not in seen.tools})
