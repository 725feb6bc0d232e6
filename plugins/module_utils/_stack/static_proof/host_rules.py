# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with a host as a whole, beside what is wrong with one of its volumes. Pure."""

from __future__ import annotations

from typing import List

from ansible_collections.plumbline.ssd.plugins.module_utils._block.findings import ERROR, WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._block.host import Observation


def host_findings(seen: Observation) -> List[Finding]:
    """A folder of services that other users cannot reach. Releases before 0.1.0 took the permission away when they kept a record below it."""
    folder = seen.services_folder
    if folder is None or folder.owner != 0 or folder.mode & 0o001:
        return []
    text = "its mode is %04o, so that no service but root's reaches its data below it" % folder.mode
    return [Finding(WARNING, "host", folder.path, text, "0755, by chmod 0755 %s" % folder.path, "services_folder")]


def absent_mounts(seen: Observation) -> List[Finding]:
    """Volumes that fstab has and the host has not mounted, where the boot waits for none of them: nothing else tells that a disk came late, or not at all.

    Of lines with nofail and a time to wait for the device, as this collection writes them: whoever mounts something by hand has no use for the latter.
    A plan has a step for such a volume, so that only readings without one tell it.
    """
    mounted = {mount.target for mount in seen.mounts if mount.here}
    absent = [
        entry
        for entry in seen.fstab
        if entry.target not in mounted and "nofail" in entry.options and any(option.startswith("x-systemd.device-timeout=") for option in entry.options)
    ]
    text, remedy = "fstab has it, and it is not mounted", "it mounted: systemctl status %s says why it is not"
    return [Finding(ERROR, "mount", entry.target, text, remedy % entry.target, "not_mounted") for entry in absent]
