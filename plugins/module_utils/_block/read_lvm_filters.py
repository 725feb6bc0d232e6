# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters of LVM's configuration, before it gets new devices. I/O: asks LVM for its own configuration, and lists udev's links.

lvm.conf(5), lvmconfig(8). Whether a filter would let a new device through is judged where the plan is made.
"""

from __future__ import annotations

import os
from typing import Iterable, Sequence

from ansible_collections.plumbline.ssd.plugins.module_utils._block import read_sysfs, tool_output
from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import OF_DISKS
from ansible_collections.plumbline.ssd.plugins.module_utils._block.hidden_pv import FILTERS
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.ownership import is_all_ours
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner

# All of the section, with LVM's own defaults: of a single setting that it does not know, an older LVM says nothing at all.
_ASK = ("lvmconfig", "--typeconfig", "full", "devices")
_DEVICES_FILES = "/etc/lvm/devices/"


def read_lvm_filters(run: Runner, seen: Observation, vgs: Iterable[str], targets: Sequence[str]) -> None:
    """Read the filters, and what a filter may call these disks, where one of these VGs is still to be made, or to get a further device.

    Where all are there, LVM is not asked.
    """
    groups = list(vgs)
    named = set(seen.paths.values())
    further = [devno for devno in targets if _may_be_further(seen, devno, devno in named)]
    if "lvm" not in seen.tools or not groups or (all(seen.vg(vg) for vg in groups) and not further):
        return
    code, out, _err = run([seen.tools["lvm"], *_ASK])
    settings = {} if code else tool_output.parse_lvm_settings(out)
    if _heeds_a_devices_file(settings.get("use_devicesfile", ()), settings.get("devicesfile", ())):
        return
    seen.lvm_filters = {name: settings[name] for name in FILTERS if name in settings}
    disks = {seen.nodes[devno].name: devno for devno in targets}
    for base in OF_DISKS:
        seen.disk_links.update((base + link, disks[name]) for link, name in read_sysfs.read_links(base).items() if name in disks)


def _may_be_further(seen: Observation, devno: str, named: bool) -> bool:
    """Whether a disk may be about to get a PV: it is named and not ours, or has no table at all, or has a partition of ours with nothing on it."""
    table = seen.tables.get(devno)
    if not is_all_ours(table):
        return named or (table is None and not seen.children(devno))
    empty = [node for node in seen.children(devno) if not seen.pv(node.devno) and not seen.children(node.devno)]
    return any(node.devno not in seen.filesystems and node.devno not in seen.hidden for node in empty)


def _heeds_a_devices_file(used: Sequence[str], names: Sequence[str]) -> bool:
    """With a devices file LVM passes both filters over, and vgcreate adds a new PV to the file (lvm2, lib/filters/filter-regex.c).

    Where the file is not there yet, it goes by the filters (lib/device/dev-cache.c, setup_devices()).
    """
    return tuple(used) == ("1",) and any(os.path.exists(_DEVICES_FILES + os.path.basename(name)) for name in names)
