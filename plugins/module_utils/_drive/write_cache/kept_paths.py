# SPDX-License-Identifier: GPL-3.0-or-later
"""The files by which a write cache is kept over reboots, hot-plug and resets."""

from __future__ import annotations

RULES = "/etc/udev/rules.d/90-plumbline-write-cache.rules"
SCRIPT = "/etc/plumbline/write-cache"
SERVICE = "/etc/systemd/system/plumbline-write-cache.service"
STATE = "/var/lib/plumbline/write_cache.json"
UNIT = "plumbline-write-cache.service"
WANTS = "/etc/systemd/system/sysinit.target.wants/plumbline-write-cache.service"  # what `systemctl enable` makes of the unit's [Install] section
# Of releases whose timer asked each drive every five seconds. It is removed where it is found.
TIMER = "/etc/systemd/system/plumbline-write-cache.timer"
TIMER_UNIT = "plumbline-write-cache.timer"
TIMER_WANTS = "/etc/systemd/system/timers.target.wants/plumbline-write-cache.timer"
