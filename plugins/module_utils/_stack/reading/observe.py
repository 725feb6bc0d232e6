# SPDX-License-Identifier: GPL-3.0-or-later
"""The observation of a host: composes sysfs, the devices' own bytes and three tools into one record. I/O.

The tools are lvm (one report, and its configuration where a volume group is still to be made), dmsetup (one table, only where a map exists,
and the status of LVM's arrays, only where there is one) and wipefs (one call for all devices whose content must be known). None of them
writes. A missing tool is no failure: the plan says so.
"""

from __future__ import annotations

from ansible_collections.plumbline.ssd.plugins.module_utils._block import proc_files, read_sysfs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.device_links import BY_GUID, BY_ID, BY_UUID, MD_UUID
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation
from ansible_collections.plumbline.ssd.plugins.module_utils._block.questions import Questions
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_disks import (
    devno_of_path,
    disks_to_look_at,
    find_named_devices,
    follow_bcache,
    read_device,
    read_lvm,
    read_maps,
    read_mounts_of_several,
)
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_hidden_pvs import read_hidden_pvs
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_lvm_filters import read_lvm_filters
from ansible_collections.plumbline.ssd.plugins.module_utils._block.read_raids import read_md_superblocks, read_raids
from ansible_collections.plumbline.ssd.plugins.module_utils._core.errors import PlumblineError
from ansible_collections.plumbline.ssd.plugins.module_utils._core.run_tools import Runner, find_known_tools
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.filesystems.kinds import FILESYSTEMS
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_contents import prove_all_blank, read_claims, read_filesystems, read_signatures
from ansible_collections.plumbline.ssd.plugins.module_utils._stack.reading.read_host import read_host


def observe(run: Runner, ask: Questions) -> Observation:
    """Read the host once. Raises PlumblineError where a tool fails, its report cannot be read, or a device goes away or fails meanwhile."""
    try:
        return _read(run, ask)
    except OSError as fault:
        where = "%s: " % fault.filename if isinstance(fault.filename, str) else ""
        text = "the host could not be read: %s%s; look at the kernel's log, and run again"
        raise PlumblineError(text % (where, fault.strerror or fault)) from fault


def _read(run: Runner, ask: Questions) -> Observation:
    seen = read_sysfs.read_mounted_devices(ask.process)
    names = {node.name: devno for devno, node in seen.nodes.items()}
    seen.tools = find_known_tools(kind.tool for kind in FILESYSTEMS.values())
    seen.distribution = proc_files.parse_os_release(read_sysfs.read_text("/etc/os-release") or read_sysfs.read_text("/usr/lib/os-release"))
    seen.links = {link: names[name] for link, name in read_sysfs.read_links().items() if name in names}
    for base in (BY_GUID, BY_UUID):
        seen.led_to.update((base + link, names[name]) for link, name in read_sysfs.read_links(base).items() if name in names)
    seen.led_to.update((BY_ID + link, devno) for link, devno in seen.links.items() if link.startswith(MD_UUID))
    seen.swaps = [devno for devno in (devno_of_path(path, names) for path in proc_files.parse_swaps(read_sysfs.read_text("/proc/swaps"))) if devno]
    seen.fstab = proc_files.parse_fstab(read_sysfs.read_text("/etc/fstab"))
    read_mounts_of_several(seen, names, ask.process)
    find_named_devices(seen, ask, names)
    read_maps(run, seen)
    read_raids(run, seen)
    follow_bcache(seen, names)
    read_lvm(run, seen)
    targets = disks_to_look_at(seen, ask)
    for devno in targets:
        read_device(seen, devno, ask.overrides)
    read_filesystems(seen, targets)
    read_signatures(run, seen, targets)
    read_md_superblocks(seen)
    read_hidden_pvs(run, seen, targets)
    read_lvm_filters(run, seen, [vg for vg, _lv in ask.volumes], targets)
    if ask.guards:
        read_claims(seen, targets)
    if ask.prove:
        prove_all_blank(seen, targets, ask)
    read_host(seen, ask)
    return seen


def observe_maps(run: Runner) -> Observation:
    """The block devices with their mappings and our own mounts, and nothing else: what a probe needs to find its way."""
    seen = read_sysfs.read_block_devices()
    seen.mounts = proc_files.parse_mountinfo(read_sysfs.read_text("/proc/self/mountinfo"))
    seen.tools = find_known_tools()
    read_maps(run, seen)
    return seen
