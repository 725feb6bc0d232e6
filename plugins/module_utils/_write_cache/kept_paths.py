# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which a write cache is kept over reboots, hot-plug and resets."""

from __future__ import annotations

RULES = "/etc/udev/rules.d/90-plumbline-write-cache.rules"
SCRIPT = "/etc/plumbline/write-cache"
SERVICE = "/etc/systemd/system/plumbline-write-cache.service"
TIMER = "/etc/systemd/system/plumbline-write-cache.timer"
STATE = "/var/lib/plumbline/write_cache.json"
UNITS = ("plumbline-write-cache.timer", "plumbline-write-cache.service")
# What `systemctl enable` makes of the [Install] sections below.
WANTS = (
    "/etc/systemd/system/timers.target.wants/plumbline-write-cache.timer",
    "/etc/systemd/system/sysinit.target.wants/plumbline-write-cache.service",
)
