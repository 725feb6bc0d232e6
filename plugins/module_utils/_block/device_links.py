# SPDX-License-Identifier: GPL-3.0-or-later
"""Where udev has its links to disks, to partitions and to filesystems."""

from __future__ import annotations

BY_GUID, BY_UUID = "/dev/disk/by-partuuid/", "/dev/disk/by-uuid/"

BY_ID = "/dev/disk/by-id/"
MD_UUID = "md-uuid-"  # how the link to an array begins there (mdadm, udev-md-raid-arrays.rules)
MD_NAME = "md-name-any:"  # of one that belongs to no host

# Of a disk; its partition has the same with -part and its number (systemd, rules.d/60-persistent-storage.rules).
OF_DISKS = (BY_ID, "/dev/disk/by-path/")
BY_PARTLABEL = "/dev/disk/by-partlabel/"
