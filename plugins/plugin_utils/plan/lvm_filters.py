# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether LVM's filters would let it make PVs on partitions that are not there yet: judged by the names that these will have. Pure.

Without this the tables are written first, and vgcreate says "rejected by filter config" afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_ID, BY_PARTLABEL, MD_NAME
from ansible_collections.plumbline.ssd.plugins.module_utils._block.hidden_pv import FILTERS
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import partition_name
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.lvm_regex import Regex, Work
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.plan_model import Leg, StackPlan
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.refusals import name_device
from ansible_collections.plumbline.ssd.plugins.plugin_utils.plan.volumes import part_path

_SHOWN = 200  # characters of a pattern
_CLOSING = {"(": ")", "[": "]", "{": "}"}


class LvmFilter:
    """A filter of LVM's: patterns such as ``a|^/dev/sda|`` and ``r|.*|``. Raises ValueError for what LVM does not take for one."""

    def __init__(self, patterns: Sequence[str]) -> None:
        work = Work()
        self._patterns = [(pattern, Regex(_expression(pattern), work)) for pattern in patterns]

    def rejecting(self, names: Sequence[str]) -> list[str]:
        """The patterns that reject a device with these names; none where it is accepted.

        Of each name the first pattern that matches it decides. A device is rejected if one of its names is, and none is accepted (lvm.conf(5), filter;
        lvm2, lib/filters/filter-regex.c, _accept_p()).
        """
        decide = [next((pattern for pattern, regex in self._patterns if regex.is_in(name)), "") for name in names]
        return [] if any(pattern.startswith("a") for pattern in decide) else list(dict.fromkeys(pattern for pattern in decide if pattern))


def _expression(pattern: str) -> str:
    """What stands between the delimiters of a pattern: any character, or a pair of brackets."""
    if len(pattern) < 3 or pattern[0] not in "ar" or pattern[-1] != _CLOSING.get(pattern[1], pattern[1]):
        raise ValueError("a pattern is an 'a' or an 'r', and an expression between two delimiters")
    return pattern[2:-1]


def names_of_partition(seen: Observation, leg: Leg, stack: str) -> Iterator[str]:
    """What the kernel and udev will call a leg's partition. Links by its device number, and those of a rule of the host's own, are not known beforehand."""
    disk, number = seen.nodes[leg.devno], leg.entry.number if leg.entry else 1
    yield "/dev/%s%s%d" % (disk.name, "p" if disk.name[-1:].isdigit() else "", number)  # linux, block/partitions/core.c
    yield part_path(leg, stack, disk.identity.key)
    yield BY_PARTLABEL + (leg.entry.name if leg.entry else partition_name(stack, leg.index))
    for link in sorted(link for link, devno in seen.disk_links.items() if devno == leg.devno):
        yield "%s-part%d" % (link, number)


def _names_of_array(_seen: Observation, _leg: Leg, stack: str) -> Iterator[str]:
    """The same of the array of a mirrored stack; the link by its UUID has a name that no filter of a person has."""
    yield from ("/dev/md127", "/dev/md/" + stack, BY_ID + MD_NAME + stack)


def refuse_rejected(plan: StackPlan, seen: Observation) -> None:
    """Refuse the devices of a stack that LVM's filters keep it from, where no PV of ours is on them yet. An audit, which proves nothing blank, tells it too."""
    stands = {leg.devno for leg in plan.legs if leg.node and not leg.erase and (seen.pv(leg.node.devno) or leg.node.devno in seen.hidden)}
    new = [leg for leg in plan.legs if leg.devno not in stands]
    if plan.spec.mirror:
        new = [] if seen.vg(plan.spec.name) else plan.ordered[:1]
    names_of = _names_of_array if plan.spec.mirror else names_of_partition
    for setting in FILTERS:
        try:
            lvm_filter = LvmFilter(seen.lvm_filters.get(setting, ()))
            rejected = {leg.devno: lvm_filter.rejecting(list(names_of(seen, leg, plan.spec.name))) for leg in new}
        except ValueError as fault:
            plan.warn("whether '%s' of LVM's configuration lets it use the new partitions is not known: %s", setting, fault)
            continue
        by = list(dict.fromkeys(pattern for found in rejected.values() for pattern in found))
        if not by:
            continue
        devices = ", ".join(name_device(seen, devno) for devno, found in rejected.items() if found)
        what = "array" if plan.spec.mirror else "partition"
        text = "%s: LVM would make no PV there: '%s' of its configuration rejects the %s to be, by %s [hidden]; let LVM see it (%s), and run again"
        name = BY_ID + MD_NAME + plan.spec.name if plan.spec.mirror else BY_PARTLABEL + partition_name(plan.spec.name, 0)[:-1]
        remedy = 'in /etc/lvm/lvm.conf or lvmlocal.conf, put "a|^%s|" first in %s' % (name, setting)
        plan.refuse(text, devices, setting, what, " and ".join('"%s"' % pattern[:_SHOWN] for pattern in by), remedy)
