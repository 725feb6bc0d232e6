# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the host itself, whatever stands on its disks. Pure."""

from __future__ import annotations

from typing import List

from ansible_collections.plumbline.ssd.plugins.module_utils._judge.findings import WARNING, Finding
from ansible_collections.plumbline.ssd.plugins.module_utils._model.host import Observation


def host_findings(seen: Observation) -> List[Finding]:
    """A folder of services that other users cannot reach. Releases before 0.1.0 took the permission away when they kept a record below it."""
    folder = seen.services_folder
    if folder is None or folder.owner != 0 or folder.mode & 0o001:
        return []
    found = "its mode is %04o, so that no service but root's reaches its data below it" % folder.mode
    return [Finding(WARNING, "host", folder.path, found, "0755, by chmod 0755 %s" % folder.path)]
