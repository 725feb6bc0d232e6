# SPDX-License-Identifier: GPL-3.0-or-later
"""An NVMe drive's health, asked from the drive itself by ioctl. I/O."""

from __future__ import annotations

import os

from ansible_collections.plumbline.ssd.plugins.module_utils._block.ask_drive import IDENTIFY, nvme_admin
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.drive_health import Health
from ansible_collections.plumbline.ssd.plugins.module_utils._drive.health.nvme_health import HEALTH_BYTES, parse_health

_GET_LOG_PAGE = 0x02
_HEALTH_LOG, _CONTROLLER = 0x02, 0xFFFFFFFF  # the page; the namespace that stands for the whole controller


def read_nvme_health(path: str) -> Health:
    """Identify Controller and log page 02h of a controller. Raises Unanswered where it refuses, OSError where it is gone."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _value, controller = nvme_admin(fd, IDENTIFY, 1, 4096)
        _value, log = nvme_admin(fd, _GET_LOG_PAGE, (HEALTH_BYTES // 4 - 1) << 16 | _HEALTH_LOG, HEALTH_BYTES, _CONTROLLER)
        return parse_health(controller, log)
    finally:
        os.close(fd)
